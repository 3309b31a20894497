//! Queues as their ops see them. The messages are TensorFlow's.

use std::thread::JoinHandle;

use tfcore_base::{Code, DType, Result};
use tfcore_framework::{AttrValue, Value};

use crate::harness::{Host, elements, scalar, shapes, types, vector};

/// A queue of scalar `int32`.
struct Ints {
    host: Host,
    handle: Value,
}

impl Ints {
    fn new(op: &str, more: &[(&str, AttrValue)]) -> Ints {
        let host = Host::new();
        let mut attrs = vec![
            ("component_types", types(&[DType::INT32])),
            ("shapes", shapes(&[&[]])),
            ("shared_name", AttrValue::string("q")),
        ];
        attrs.extend_from_slice(more);
        let handle = host.handle("queue", op, &attrs).unwrap();
        Ints { host, handle }
    }

    fn fifo(capacity: i64) -> Ints {
        Ints::new("FIFOQueueV2", &[("capacity", AttrValue::Int(capacity))])
    }

    fn run(&self, op: &str, attr: &str, more: Option<Value>) -> Result<Vec<i32>> {
        let inputs: Vec<Value> = [self.handle.clone()].into_iter().chain(more).collect();
        let outputs = self.host.op(op, &[(attr, types(&[DType::INT32]))], &inputs)?;
        Ok(outputs.first().map(elements).unwrap_or_default())
    }

    fn enqueue(&self, value: i32) -> Result<Vec<i32>> {
        self.run("QueueEnqueueV2", "Tcomponents", Some(scalar(value)))
    }

    fn enqueue_many(&self, values: &[i32]) -> Result<Vec<i32>> {
        self.run("QueueEnqueueManyV2", "Tcomponents", Some(vector(values)))
    }

    fn dequeue(&self) -> Result<Vec<i32>> {
        self.run("QueueDequeueV2", "component_types", None)
    }

    fn dequeue_many(&self, n: i32) -> Result<Vec<i32>> {
        self.run("QueueDequeueManyV2", "component_types", Some(scalar(n)))
    }

    fn dequeue_up_to(&self, n: i32) -> Result<Vec<i32>> {
        self.run("QueueDequeueUpToV2", "component_types", Some(scalar(n)))
    }

    fn close(&self, cancel: bool) -> Result<()> {
        let attrs = [("cancel_pending_enqueues", AttrValue::Bool(cancel))];
        self.host.op("QueueCloseV2", &attrs, std::slice::from_ref(&self.handle)).map(|_| ())
    }

    fn size(&self) -> i32 {
        self.run("QueueSizeV2", "unused", None).unwrap()[0]
    }

    fn waiting(&self, op: &str, attr: &str, more: Option<Value>) -> Waiting {
        let inputs: Vec<Value> = [self.handle.clone()].into_iter().chain(more).collect();
        Waiting(self.host.waiting(op, &[(attr, types(&[DType::INT32]))], &inputs))
    }

    fn waiting_enqueue(&self, values: &[i32]) -> Waiting {
        self.waiting("QueueEnqueueManyV2", "Tcomponents", Some(vector(values)))
    }

    fn waiting_dequeue(&self) -> Waiting {
        self.waiting("QueueDequeueV2", "component_types", None)
    }

    fn waiting_dequeue_many(&self, n: i32) -> Waiting {
        self.waiting("QueueDequeueManyV2", "component_types", Some(scalar(n)))
    }
}

struct Waiting(JoinHandle<Result<Vec<Value>>>);

impl Waiting {
    fn result(self) -> Result<Vec<i32>> {
        let outputs = self.0.join().expect("no panic")?;
        Ok(outputs.first().map(elements).unwrap_or_default())
    }
}

fn failure(result: Result<Vec<i32>>) -> (Code, String) {
    let error = result.unwrap_err();
    (error.code(), error.message().to_string())
}

#[test]
fn those_who_came_first_are_served_first() {
    let queue = Ints::fifo(-1);
    let waiting = [queue.waiting_dequeue(), queue.waiting_dequeue_many(2), queue.waiting_dequeue()];
    queue.enqueue_many(&[1, 2, 3, 4, 5]).unwrap();
    let results: Vec<Vec<i32>> = waiting.into_iter().map(|w| w.result().unwrap()).collect();
    assert_eq!(results, [vec![1], vec![2, 3], vec![4]]);
    assert_eq!(queue.size(), 1);
}

#[test]
fn batches_may_be_larger_than_the_queue() {
    let queue = Ints::fifo(2);
    let waiting = queue.waiting_dequeue_many(5);
    queue.enqueue_many(&[1, 2, 3, 4, 5, 6]).unwrap();
    assert_eq!(waiting.result().unwrap(), [1, 2, 3, 4, 5]);
    assert_eq!(queue.dequeue().unwrap(), [6]);
}

#[test]
fn a_close_waits_for_those_who_came_before() {
    let queue = Ints::fifo(1);
    queue.enqueue(1).unwrap();
    let waiting = queue.waiting_enqueue(&[2]);
    let close = queue.waiting("QueueCloseV2", "unused", None);
    let late = queue.waiting_enqueue(&[3]);
    assert_eq!(queue.dequeue().unwrap(), [1]);
    assert!(waiting.result().is_ok() && close.result().is_ok());
    assert_eq!(failure(late.result()), (Code::Cancelled, "FIFOQueue 'q' is closed.".into()));
    assert_eq!(queue.dequeue().unwrap(), [2]);
    assert_eq!(queue.close(false).unwrap_err().message(), "Queue 'q' is already closed.");
}

#[test]
fn a_close_may_send_those_who_wait_away() {
    let queue = Ints::fifo(1);
    queue.enqueue(1).unwrap();
    let waiting = queue.waiting_enqueue(&[2, 3]);
    queue.close(true).unwrap();
    let cancelled = (Code::Cancelled, "Enqueue operation was cancelled".to_string());
    assert_eq!(failure(waiting.result()), cancelled);
    assert_eq!(queue.dequeue().unwrap(), [1]);
}

#[test]
fn a_close_wakes_those_who_wait_for_elements() {
    let queue = Ints::fifo(-1);
    let waiting = [queue.waiting_dequeue_many(6), queue.waiting_dequeue()];
    queue.enqueue_many(&[1, 2, 3, 4]).unwrap();
    assert_eq!(queue.size(), 0);
    queue.close(false).unwrap();
    let [many, single] = waiting.map(Waiting::result);
    let missing =
        "FIFOQueue 'q' is closed and has insufficient elements (requested 2, current size 0)";
    assert_eq!(failure(many), (Code::OutOfRange, missing.to_string()));
    // What the first had taken is there for the next.
    assert_eq!(single.unwrap(), [1]);
    assert_eq!(queue.dequeue_up_to(9).unwrap(), [2, 3, 4]);
    assert_eq!(failure(queue.dequeue_up_to(9)).0, Code::OutOfRange);
    assert_eq!(queue.dequeue_many(0).unwrap(), []);
}

#[test]
fn a_priority_queue_batches_all_at_once() {
    let host = Host::new();
    let attrs = [("component_types", types(&[])), ("shapes", shapes(&[]))];
    let error = host.handle("queue", "PriorityQueueV2", &attrs).err().unwrap();
    assert!(
        error
            .message()
            .ends_with("has component shapes [] but requested component shapes were [[]]")
    );

    let attrs = [("component_types", types(&[DType::INT32])), ("shapes", shapes(&[&[]]))];
    let handle = host.handle("queue", "PriorityQueueV2", &attrs).unwrap();
    let both = types(&[DType::INT64, DType::INT32]);
    let (brings, takes) = ([("Tcomponents", both.clone())], [("component_types", both)]);
    let waiting = host.waiting("QueueDequeueManyV2", &takes, &[handle.clone(), scalar(3i32)]);
    for (priority, value) in [(3i64, 30), (1, 10), (2, 20)] {
        let inputs = [handle.clone(), scalar(priority), scalar(value)];
        host.op("QueueEnqueueV2", &brings, &inputs).unwrap();
    }
    let outputs = waiting.join().unwrap().unwrap();
    assert_eq!(elements::<i32>(&outputs[1]), [10, 20, 30]);
}

#[test]
fn padding_fills_up_to_the_largest() {
    let host = Host::new();
    let attrs = [("component_types", types(&[DType::INT32])), ("shapes", shapes(&[&[-1]]))];
    let handle = host.handle("queue", "PaddingFIFOQueueV2", &attrs).unwrap();
    let brings = [("Tcomponents", types(&[DType::INT32]))];
    for values in [&[1, 2, 3][..], &[], &[4]] {
        host.op("QueueEnqueueV2", &brings, &[handle.clone(), vector(values)]).unwrap();
    }
    let takes = [("component_types", types(&[DType::INT32]))];
    let outputs = host.op("QueueDequeueManyV2", &takes, &[handle, scalar(3i32)]).unwrap();
    assert_eq!(elements::<i32>(&outputs[0]), [1, 2, 3, 0, 0, 0, 4, 0, 0]);
}

#[test]
fn shuffles_keep_some_until_they_are_closed() {
    let queue = Ints::new("RandomShuffleQueueV2", &[("min_after_dequeue", AttrValue::Int(2))]);
    queue.enqueue_many(&[1, 2, 3]).unwrap();
    let mut all = queue.dequeue().unwrap();
    let waiting = queue.waiting_dequeue();
    queue.close(false).unwrap();
    all.extend(waiting.result().unwrap());
    all.extend(queue.dequeue().unwrap());
    all.sort();
    assert_eq!(all, [1, 2, 3]);
}

#[test]
fn what_does_not_fit_is_refused() {
    let queue = Ints::fifo(-1);
    let cases: [(&str, Value, DType, &str); 3] = [
        (
            "QueueEnqueueV2",
            vector(&[1i32]),
            DType::INT32,
            "Shape mismatch in tuple component 0. Expected [], got [1]",
        ),
        (
            "QueueEnqueueV2",
            scalar(1f32),
            DType::FLOAT,
            "Signature mismatch, have: resource, float-> expected: resource, int32->",
        ),
        (
            "QueueEnqueueManyV2",
            scalar(1i32),
            DType::INT32,
            "Shape mismatch in tuple component 0. Expected [0], got []",
        ),
    ];
    for (op, value, dtype, expected) in cases {
        let inputs = [queue.handle.clone(), value];
        let error = queue.host.op(op, &[("Tcomponents", types(&[dtype]))], &inputs).err().unwrap();
        assert_eq!((error.code(), error.message()), (Code::InvalidArgument, expected));
    }
    let message = failure(queue.dequeue_many(-1)).1;
    assert_eq!(message, "DequeueManyOp requested -1 < 0 elements");
}

#[test]
fn names_are_shared_between_nodes_that_agree() {
    let host = Host::new();
    let queue = |op: &str, capacity| {
        let attrs = [
            ("component_types", types(&[DType::INT32])),
            ("shared_name", AttrValue::string("s")),
            ("capacity", AttrValue::Int(capacity)),
        ];
        host.handle("node", op, &attrs).map(|_| ())
    };
    queue("FIFOQueueV2", 3).unwrap();
    queue("FIFOQueue", 3).unwrap();
    let cases = [
        ("FIFOQueue", 4, "Shared queue 's' has capacity 3 but requested capacity was 4"),
        ("RandomShuffleQueue", 3, "Expected FIFOQueue, found RandomShuffleQueue"),
    ];
    for (op, capacity, expected) in cases {
        assert_eq!(queue(op, capacity).unwrap_err().message(), expected);
    }
}

#[test]
fn threads_lose_nothing() {
    let queue = Ints::fifo(3);
    let sum: i64 = std::thread::scope(|scope| {
        for from in [0, 5_000] {
            let queue = &queue;
            scope.spawn(move || (from..from + 5_000).for_each(|k| drop(queue.enqueue(k).unwrap())));
        }
        let takers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    (0..5_000).map(|_| i64::from(queue.dequeue().unwrap()[0])).sum::<i64>()
                })
            })
            .collect();
        takers.into_iter().map(|taker| taker.join().unwrap()).sum()
    });
    assert_eq!(sum, (0..10_000).sum::<i64>());
    assert_eq!(queue.size(), 0);
}

/// The memory of the process, in pages.
#[cfg(target_os = "linux")]
fn resident_pages() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse().unwrap()
}

#[cfg(target_os = "linux")]
#[test]
fn a_million_elements_leave_nothing() {
    let queue = Ints::fifo(-1);
    let brings = [("Tcomponents", types(&[DType::INT32]))];
    let takes = [("component_types", types(&[DType::INT32]))];
    let enqueue = queue.host.node("enqueue", "QueueEnqueueV2", &brings).unwrap();
    let dequeue = queue.host.node("dequeue", "QueueDequeueV2", &takes).unwrap();
    let inputs = [queue.handle.clone(), scalar(7i32)];
    let mut pages = 0;
    for round in 0..1_000_000 {
        queue.host.run(&enqueue, &inputs).unwrap();
        queue.host.run(&dequeue, &inputs[..1]).unwrap();
        if round == 10_000 {
            pages = resident_pages();
        }
    }
    // Other tests run beside this one; a leak of 32 bytes an element would be twice as much.
    assert!(resident_pages() < pages + 4096);
}

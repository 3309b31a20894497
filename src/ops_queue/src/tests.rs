//! Waiting in every kind of line, and what ends it.

use tfcore_base::{Code, DType};
use tfcore_framework::{AttrValue, Value};
use tfcore_tensor::{PartialShape, TString};

use crate::harness::{Host, elements, scalar, shapes, types, vector};

/// An op that waits: the op that makes its handle, the op itself, and what it says when it is cancelled.
type Case<'a> = (&'a str, Attrs<'a>, &'a str, Attrs<'a>, Vec<Value>, &'a str);
type Attrs<'a> = Vec<(&'a str, AttrValue)>;

#[test]
fn cancellation_ends_every_wait() {
    let int = || types(&[DType::INT32]);
    let queue = || vec![("component_types", int()), ("shapes", shapes(&[&[]]))];
    let takes = || vec![("component_types", int())];
    let full = || vec![("component_types", int()), ("capacity", AttrValue::Int(0))];
    let dequeue = "Dequeue operation was cancelled";
    let enqueue = "Enqueue operation was cancelled";
    let accumulator = || {
        let shape = AttrValue::shape(PartialShape::vector(2));
        vec![("dtype", AttrValue::Type(DType::FLOAT)), ("shape", shape)]
    };
    let takes_gradient = || vec![("dtype", AttrValue::Type(DType::FLOAT))];
    let gradient = "TakeGrad operation was cancelled";
    let staged = |ty: &'static str| vec![(ty, int()), ("capacity", AttrValue::Int(1))];
    let cases: Vec<Case<'_>> = vec![
        ("FIFOQueueV2", queue(), "QueueDequeueV2", takes(), vec![], dequeue),
        ("FIFOQueue", queue(), "QueueDequeue", takes(), vec![], dequeue),
        ("PaddingFIFOQueueV2", queue(), "QueueDequeueManyV2", takes(), vec![scalar(2i32)], dequeue),
        ("RandomShuffleQueue", queue(), "QueueDequeueUpTo", takes(), vec![scalar(2i32)], dequeue),
        (
            "FIFOQueueV2",
            full(),
            "QueueEnqueueV2",
            vec![("Tcomponents", int())],
            vec![scalar(2i32)],
            enqueue,
        ),
        ("Barrier", queue(), "BarrierTakeMany", takes(), vec![scalar(1i32)], dequeue),
        (
            "ConditionalAccumulator",
            accumulator(),
            "AccumulatorTakeGradient",
            takes_gradient(),
            vec![scalar(1i32)],
            gradient,
        ),
        (
            "SparseConditionalAccumulator",
            accumulator(),
            "SparseAccumulatorTakeGradient",
            takes_gradient(),
            vec![scalar(1i32)],
            gradient,
        ),
        ("", vec![], "Unstage", staged("dtypes"), vec![], "Unstage operation was cancelled"),
        (
            "",
            vec![],
            "StagePeek",
            staged("dtypes"),
            vec![scalar(0i32)],
            "StagePeek operation was cancelled",
        ),
        (
            "",
            vec![],
            "MapUnstage",
            staged("dtypes"),
            vec![scalar(5i64), vector(&[0i32])],
            "Map unstage operation was cancelled",
        ),
        (
            "",
            vec![],
            "OrderedMapUnstageNoKey",
            staged("dtypes"),
            vec![vector(&[0i32])],
            "Map unstage operation was cancelled",
        ),
    ];
    for (maker, attrs, op, op_attrs, more, expected) in cases {
        let host = Host::new();
        let mut inputs = Vec::new();
        if !maker.is_empty() {
            inputs.push(host.handle("maker", maker, &attrs).unwrap());
        }
        inputs.extend(more);
        let waiting = host.waiting(op, &op_attrs, &inputs);
        host.cancellation.cancel();
        let error = waiting.join().unwrap().err().unwrap();
        assert_eq!((error.code(), error.message()), (Code::Cancelled, expected), "{op}");
        // Later ones do not even begin to wait.
        let late = host.op(op, &op_attrs, &inputs).err().unwrap();
        assert_eq!(late.message(), expected, "{op}");
    }
}

#[test]
fn a_lock_has_one_holder() {
    let host = Host::new();
    let mutex = host.handle("mutex", "MutexV2", &[]).unwrap();
    let mut held = host.op("MutexLock", &[], std::slice::from_ref(&mutex)).unwrap();
    let waiting = host.waiting("MutexLock", &[], std::slice::from_ref(&mutex));
    host.op("ConsumeMutexLock", &[], &[held[0].clone()]).unwrap();
    held.clear();
    let second = waiting.join().unwrap().unwrap();
    let third = host.waiting("MutexLock", &[], &[mutex]);
    host.cancellation.cancel();
    let error = third.join().unwrap().err().unwrap();
    assert_eq!(error.message(), "Lock acquisition cancelled.");
    drop(second);
}

#[test]
fn a_barrier_hands_out_what_is_complete() {
    let host = Host::new();
    let int = types(&[DType::INT32, DType::INT32]);
    let attrs = [("component_types", int.clone()), ("shapes", shapes(&[&[], &[]]))];
    let barrier = host.handle("b", "Barrier", &attrs).unwrap();
    let insert = |component, keys: &[&str], values: &[i32]| {
        let keys: Vec<TString> = keys.iter().map(|&key| key.into()).collect();
        let attrs =
            [("T", AttrValue::Type(DType::INT32)), ("component_index", AttrValue::Int(component))];
        host.op("BarrierInsertMany", &attrs, &[barrier.clone(), vector(&keys), vector(values)])
    };
    let take = [("component_types", int)];
    insert(0, &["a", "b"], &[1, 2]).unwrap();
    insert(0, &["c"], &[3]).unwrap();
    let waiting = host.waiting("BarrierTakeMany", &take, &[barrier.clone(), scalar(3i32)]);
    insert(1, &["c", "b"], &[7, 8]).unwrap();
    host.op("BarrierClose", &[], std::slice::from_ref(&barrier)).unwrap();
    let error = insert(0, &["d"], &[4]).err().unwrap();
    assert!(error.message().contains("attempted to insert a brand new key: d."));
    insert(1, &["a"], &[9]).unwrap();
    let outputs = waiting.join().unwrap().unwrap();
    assert_eq!(elements::<i64>(&outputs[0]), [i64::MIN, i64::MIN, i64::MIN + 1]);
    assert_eq!(elements::<TString>(&outputs[1]), ["b", "a", "c"].map(TString::from));
    assert_eq!(elements::<i32>(&outputs[2]), [2, 1, 3]);
    assert_eq!(elements::<i32>(&outputs[3]), [8, 9, 7]);
    let error = host.op("BarrierTakeMany", &take, &[barrier, scalar(1i32)]).err().unwrap();
    assert_eq!(error.code(), Code::OutOfRange);
}

#[test]
fn staging_areas_wait_for_room_and_for_keys() {
    let host = Host::new();
    let attrs = |ty| {
        let limit = ("capacity", AttrValue::Int(1));
        [("shared_name", AttrValue::string("s")), (ty, types(&[DType::INT32])), limit]
    };
    let dtypes = attrs("dtypes");
    host.op("Stage", &dtypes, &[scalar(1i32)]).unwrap();
    let waiting = host.waiting("Stage", &dtypes, &[scalar(2i32)]);
    let peek = host.waiting("StagePeek", &dtypes, &[scalar(1i32)]);
    assert_eq!(elements::<i32>(&host.op("Unstage", &dtypes, &[]).unwrap()[0]), [1]);
    waiting.join().unwrap().unwrap();
    assert_eq!(elements::<i32>(&host.op("Unstage", &dtypes, &[]).unwrap()[0]), [2]);
    assert!(!peek.is_finished());
    host.cancellation.cancel();
    assert!(peek.join().unwrap().is_err());

    let host = Host::new();
    let mut stage = attrs("fake_dtypes").to_vec();
    stage.push(("dtypes", types(&[DType::INT32])));
    let index = || vector(&[0i32]);
    let put = |key: i64| [scalar(key), index(), scalar(key as i32)];
    let later = host.waiting("MapUnstage", &dtypes, &[scalar(9i64), index()]);
    host.op("MapStage", &stage, &put(5)).unwrap();
    let full = host.waiting("MapStage", &stage, &put(9));
    let outputs = host.op("MapUnstage", &dtypes, &[scalar(5i64), index()]).unwrap();
    assert_eq!(elements::<i32>(&outputs[0]), [5]);
    full.join().unwrap().unwrap();
    assert_eq!(elements::<i32>(&later.join().unwrap().unwrap()[0]), [9]);
}

#[test]
fn accumulators_begin_a_step_with_each_result() {
    let host = Host::new();
    let dtype = ("dtype", AttrValue::Type(DType::FLOAT));
    let attrs = [dtype.clone(), ("shape", AttrValue::shape(PartialShape::vector(1)))];
    let handle = host.handle("a", "ConditionalAccumulator", &attrs).unwrap();
    let take = |n: i32| {
        host.waiting(
            "AccumulatorTakeGradient",
            std::slice::from_ref(&dtype),
            &[handle.clone(), scalar(n)],
        )
    };
    let apply = |step: i64, value: f32| {
        let inputs = [handle.clone(), scalar(step), vector(&[value])];
        host.op("AccumulatorApplyGradient", std::slice::from_ref(&dtype), &inputs).unwrap();
        let count =
            host.op("AccumulatorNumAccumulated", &[], std::slice::from_ref(&handle)).unwrap();
        elements::<i32>(&count[0])[0]
    };
    let waiting = [take(2), take(1)];
    assert_eq!(apply(0, 4.0), 1);
    assert_eq!(apply(0, 8.0), 0);
    // This step is over.
    assert_eq!(apply(0, 100.0), 0);
    apply(1, 5.0);
    let results = waiting.map(|thread| elements::<f32>(&thread.join().unwrap().unwrap()[0]));
    assert_eq!(results, [[6.0], [5.0]]);
}

//! The parallel gear: a node is run as soon as those it waits for are done, on any thread of the pool.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use parking_lot::{Condvar, Mutex};
use smallvec::SmallVec;
use tfcore_base::{Error, Result};
use tfcore_framework::{Step, Value};
use tfcore_math::pool::{Parallel, Pool};
use tfcore_tensor::Tensor;

use crate::executor::{compute, fetched, prepare};
use crate::plan::{Plan, Source};
use crate::trace::Trace;

/// One run in progress.
struct Run {
    plan: Arc<Plan>,
    step: Arc<Step>,
    pool: Arc<Pool>,
    trace: Option<Arc<Trace>>,
    slots: Vec<Mutex<Value>>,
    /// For each slot, the reads that are still to come; the last one moves the value out.
    readers: Vec<AtomicU32>,
    /// For each node, the nodes that it still waits for.
    pending: Vec<AtomicU32>,
    /// Nodes that are not done.
    remaining: AtomicUsize,
    failed: AtomicBool,
    outcome: Mutex<Outcome>,
    finished: Condvar,
}

#[derive(Default)]
struct Outcome {
    error: Option<Error>,
    is_done: bool,
}

/// Runs a plan on the fed tensors and returns the fetched ones.
pub(crate) fn run(
    plan: &Arc<Plan>,
    feeds: Vec<Tensor>,
    step: &Arc<Step>,
    pool: &Arc<Pool>,
    trace: Option<&Arc<Trace>>,
) -> Result<Vec<Tensor>> {
    let dependencies = &plan.dependencies;
    let run = Arc::new(Run {
        plan: plan.clone(),
        step: step.clone(),
        pool: pool.clone(),
        trace: trace.cloned(),
        slots: (0..plan.num_slots).map(|_| Mutex::default()).collect(),
        readers: dependencies.readers.iter().map(|&count| AtomicU32::new(count)).collect(),
        pending: dependencies.pending.iter().map(|&count| AtomicU32::new(count)).collect(),
        remaining: AtomicUsize::new(plan.nodes.len()),
        failed: AtomicBool::new(false),
        outcome: Mutex::default(),
        finished: Condvar::new(),
    });
    for (&slot, tensor) in plan.feeds.iter().zip(feeds) {
        *run.slots[slot as usize].lock() = Value::Tensor(tensor);
    }
    let ready = (0..plan.nodes.len()).filter(|&number| dependencies.pending[number] == 0);
    // The caller works too: it takes the first of the ready nodes.
    let mut ready = ready.map(|number| number as u32);
    let first = ready.next();
    ready.for_each(|number| run.spawn(number));
    if let Some(first) = first {
        run.work(first);
    }
    let mut outcome = run.outcome.lock();
    while !outcome.is_done && run.remaining.load(Ordering::Acquire) > 0 {
        run.finished.wait(&mut outcome);
    }
    if let Some(error) = outcome.error.take() {
        return Err(error);
    }
    drop(outcome);
    plan.fetches
        .iter()
        .enumerate()
        .map(|(index, &source)| fetched(index, run.read(source)))
        .collect()
}

impl Run {
    fn spawn(self: &Arc<Self>, number: u32) {
        let run = self.clone();
        self.pool.spawn(Box::new(move || run.work(number)));
    }

    /// Runs a node, then one of those that it made ready, and so on.
    fn work(self: &Arc<Self>, number: u32) {
        let mut next = Some(number);
        while let Some(number) = next.take() {
            if !self.failed.load(Ordering::Relaxed)
                && let Err(error) = self.execute(number as usize)
            {
                self.fail(error);
            }
            for &waiting in &self.plan.dependencies.waiting[number as usize] {
                if self.pending[waiting as usize].fetch_sub(1, Ordering::AcqRel) == 1 {
                    match next {
                        None => next = Some(waiting),
                        Some(_) => self.spawn(waiting),
                    }
                }
            }
            if self.remaining.fetch_sub(1, Ordering::AcqRel) == 1 {
                self.outcome.lock().is_done = true;
                self.finished.notify_all();
            }
        }
    }

    /// Notes the first error; the nodes that are left are skipped.
    fn fail(&self, error: Error) {
        self.failed.store(true, Ordering::Relaxed);
        self.outcome.lock().error.get_or_insert(error);
    }

    fn execute(&self, number: usize) -> Result<()> {
        let node = &self.plan.nodes[number];
        let mut inputs: SmallVec<[Value; 3]> = SmallVec::with_capacity(node.inputs.len());
        for input in &node.inputs {
            let value = prepare(self.read(input.source), input);
            inputs.push(value.map_err(|error| error.at_node(&node.name))?);
        }
        let mut outputs: SmallVec<[Value; 1]> =
            SmallVec::from_elem(Value::Absent, node.output_dtypes.len());
        let parallel = Parallel::new(&self.pool);
        compute(node, &mut inputs, &mut outputs, &self.step, parallel, self.trace.as_deref())?;
        for (index, value) in outputs.into_iter().enumerate() {
            let slot = node.output as usize + index;
            if self.readers[slot].load(Ordering::Relaxed) > 0 {
                *self.slots[slot].lock() = value;
            }
        }
        Ok(())
    }

    /// The value at `source`; the last reader of a slot takes it away.
    fn read(&self, source: Source) -> Value {
        match source {
            Source::Constant(number) => self.plan.constants[number as usize].clone(),
            Source::Slot { slot, .. } => {
                let mut value = self.slots[slot as usize].lock();
                match self.readers[slot as usize].fetch_sub(1, Ordering::AcqRel) {
                    1 => std::mem::take(&mut value),
                    _ => value.clone(),
                }
            }
        }
    }
}

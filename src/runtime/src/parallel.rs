//! The parallel gear: a node is run as soon as those it waits for are done, on any thread of the pool.
//!
//! The caller runs what nobody else does, so that a run ends even if the pool has no threads: the system may refuse
//! them, and a process has none after a fork.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use parking_lot::{Condvar, Mutex};
use smallvec::SmallVec;
use tfcore_base::{Error, Result};
use tfcore_framework::{Outputs, Value};
use tfcore_math::pool::Pool;

use crate::control::Inputs;
use crate::executor::{Exec, Run, run_node};
use crate::plan::{Dependencies, Plan};

/// One run of a plan in progress.
struct Race {
    plan: Arc<Plan>,
    dependencies: Arc<Dependencies>,
    run: Arc<Run>,
    depth: u32,
    pool: Arc<Pool>,
    slots: Vec<Mutex<Value>>,
    /// For each slot, the reads that are still to come; the last one moves the value out.
    readers: Vec<AtomicU32>,
    /// For each node, the nodes that it still waits for.
    pending: Vec<AtomicU32>,
    /// Nodes that are not done.
    remaining: AtomicUsize,
    failed: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Nodes that can run and that no thread has taken.
    ready: VecDeque<u32>,
    error: Option<Error>,
    is_done: bool,
    /// Whether the caller has nothing to do.
    caller_sleeps: bool,
}

/// Runs a plan on this thread and those of the pool.
pub(crate) fn run(
    plan: &Arc<Plan>,
    dependencies: &Arc<Dependencies>,
    args: Inputs,
    pool: &Arc<Pool>,
    exec: Exec<'_>,
) -> Result<Outputs> {
    let body = &plan.body;
    let race = Arc::new(Race {
        plan: plan.clone(),
        dependencies: dependencies.clone(),
        run: exec.run.clone(),
        depth: exec.depth,
        pool: pool.clone(),
        slots: (0..body.num_slots).map(|_| Mutex::default()).collect(),
        readers: dependencies.readers.iter().map(|&count| AtomicU32::new(count)).collect(),
        pending: dependencies.pending.iter().map(|&count| AtomicU32::new(count)).collect(),
        remaining: AtomicUsize::new(body.nodes.len()),
        failed: AtomicBool::new(false),
        state: Mutex::default(),
        changed: Condvar::new(),
    });
    for (slot, arg) in body.args().zip(args) {
        *race.slots[slot].lock() = arg;
    }
    let ready = (0..body.nodes.len()).filter(|&number| dependencies.pending[number] == 0);
    // The caller works too: it takes the first of the ready nodes.
    let mut ready = ready.map(|number| number as u32);
    let first = ready.next();
    ready.for_each(|number| race.spawn(number));
    if let Some(first) = first {
        race.work(first);
    }
    if let Some(error) = race.help_until_done() {
        return Err(error);
    }
    Ok(body.results.iter().map(|&slot| race.read(slot)).collect())
}

impl Race {
    /// Has some thread run a node.
    fn spawn(self: &Arc<Self>, number: u32) {
        {
            let mut state = self.state.lock();
            state.ready.push_back(number);
            if state.caller_sleeps {
                // The caller is as good as a thread of the pool.
                state.caller_sleeps = false;
                self.changed.notify_one();
                return;
            }
        }
        let race = self.clone();
        self.pool.offer(move || {
            while let Some(number) = race.take_ready() {
                race.work(number);
            }
        });
    }

    fn take_ready(&self) -> Option<u32> {
        self.state.lock().ready.pop_front()
    }

    /// Runs nodes that nobody has taken, until all are done. Returns the first error.
    fn help_until_done(self: &Arc<Self>) -> Option<Error> {
        let mut state = self.state.lock();
        while !state.is_done && self.remaining.load(Ordering::Acquire) > 0 {
            match state.ready.pop_front() {
                Some(number) => {
                    drop(state);
                    self.work(number);
                    state = self.state.lock();
                }
                None => {
                    state.caller_sleeps = true;
                    self.changed.wait(&mut state);
                    state.caller_sleeps = false;
                }
            }
        }
        state.error.take()
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
            for &waiting in &self.dependencies.waiting[number as usize] {
                if self.pending[waiting as usize].fetch_sub(1, Ordering::AcqRel) == 1 {
                    match next {
                        None => next = Some(waiting),
                        Some(_) => self.spawn(waiting),
                    }
                }
            }
            if self.remaining.fetch_sub(1, Ordering::AcqRel) == 1 {
                self.state.lock().is_done = true;
                self.changed.notify_all();
            }
        }
    }

    /// Notes the first error; the nodes that are left are skipped.
    fn fail(&self, error: Error) {
        self.failed.store(true, Ordering::Relaxed);
        self.state.lock().error.get_or_insert(error);
    }

    fn execute(&self, number: usize) -> Result<()> {
        let exec = Exec { run: &self.run, depth: self.depth };
        exec.check()?;
        let node = &self.plan.body.nodes[number];
        let inputs: Inputs = node.inputs.iter().map(|input| self.read(input.slot)).collect();
        let mut outputs: SmallVec<[Value; 1]> =
            SmallVec::from_elem(Value::Absent, node.num_outputs());
        run_node(node, inputs, &mut outputs, exec)?;
        for (index, value) in outputs.into_iter().enumerate() {
            let slot = node.output as usize + index;
            if self.readers[slot].load(Ordering::Relaxed) > 0 {
                *self.slots[slot].lock() = value;
            }
        }
        Ok(())
    }

    /// The value in `slot`; the last reader takes it away.
    fn read(&self, slot: u32) -> Value {
        let slot = slot as usize;
        if let Some(constant) = self.plan.body.constants.get(slot) {
            return constant.clone();
        }
        let mut value = self.slots[slot].lock();
        match self.readers[slot].fetch_sub(1, Ordering::AcqRel) {
            1 => std::mem::take(&mut value),
            _ => value.clone(),
        }
    }
}

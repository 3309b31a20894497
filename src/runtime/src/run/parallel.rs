//! The parallel gear: a node is run as soon as those it waits for are done, on any thread of the pool.
//!
//! The caller runs what nobody else does, so that a run ends even if the pool has no threads: the system may refuse
//! them, and a process has none after a fork.

use std::collections::VecDeque;
use std::sync::Arc;

use smallvec::SmallVec;
use tfcore_base::{Error, Result};
use tfcore_framework::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use tfcore_framework::sync::{Condvar, Mutex};
use tfcore_framework::{Outputs, Value};
use tfcore_math::pool::Pool;
use tfcore_plan::plan::{Dependencies, Plan};

use crate::run::exec::{Exec, Inputs, Run, Scope};
use crate::run::node::run_node;

/// One run of a plan in progress.
struct Race {
    plan: Arc<Plan>,
    run: Arc<Run>,
    scope: Scope,
    pool: Arc<Pool>,
    slots: Vec<Mutex<Value>>,
    /// For each slot, the reads that are still to come; the last one moves the value out.
    readers: Vec<AtomicU32>,
    countdown: Countdown,
    failed: AtomicBool,
    error: Mutex<Option<Error>>,
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
        run: exec.run.clone(),
        scope: exec.scope,
        pool: pool.clone(),
        slots: (0..body.num_slots).map(|_| Mutex::default()).collect(),
        readers: dependencies.readers.iter().map(|&count| AtomicU32::new(count)).collect(),
        countdown: Countdown::new(dependencies),
        failed: AtomicBool::new(false),
        error: Mutex::default(),
    });
    for (slot, arg) in body.args().zip(args) {
        *race.slots[slot].lock() = arg;
    }
    let ready = (0..body.nodes.len()).filter(|&number| dependencies.pending[number] == 0);
    // The caller works too: it takes the first of the ready nodes.
    let mut ready = ready.map(|number| number as u32);
    let mut next = ready.next();
    ready.for_each(|number| race.spawn(number));
    while let Some(number) = next {
        race.work(number);
        next = race.countdown.take_or_wait();
    }
    if let Some(error) = race.error.lock().take() {
        return Err(error);
    }
    Ok(body.results.iter().map(|&slot| race.read(slot)).collect())
}

impl Race {
    /// Has some thread run a node.
    fn spawn(self: &Arc<Self>, number: u32) {
        if self.countdown.push(number) {
            let race = self.clone();
            self.pool.offer(move || {
                while let Some(number) = race.countdown.take() {
                    race.work(number);
                }
            });
        }
    }

    /// Runs a node, then one of those that it made ready, and so on.
    fn work(self: &Arc<Self>, number: u32) {
        let mut next = Some(number);
        while let Some(number) = next {
            if !self.failed.load(Ordering::Relaxed)
                && let Err(error) = self.execute(number as usize)
            {
                self.fail(error);
            }
            next = self.countdown.end(number, |ready| self.spawn(ready));
        }
    }

    /// Notes the first error; the nodes that are left are skipped.
    fn fail(&self, error: Error) {
        self.failed.store(true, Ordering::Relaxed);
        self.error.lock().get_or_insert(error);
    }

    fn execute(&self, number: usize) -> Result<()> {
        let exec = Exec { run: &self.run, scope: self.scope };
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

/// Which nodes of a run still wait for others, and which can run.
struct Countdown {
    dependencies: Arc<Dependencies>,
    /// For each node, the nodes that it still waits for.
    pending: Vec<AtomicU32>,
    /// Nodes that have not ended.
    remaining: AtomicUsize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Nodes that can run and that no thread has taken.
    ready: VecDeque<u32>,
    /// Whether the caller has nothing to do.
    caller_sleeps: bool,
}

impl Countdown {
    fn new(dependencies: &Arc<Dependencies>) -> Countdown {
        Countdown {
            dependencies: dependencies.clone(),
            pending: dependencies.pending.iter().map(|&count| AtomicU32::new(count)).collect(),
            remaining: AtomicUsize::new(dependencies.pending.len()),
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Leaves a node to others. Returns whether somebody has to be found who takes it.
    fn push(&self, number: u32) -> bool {
        let mut state = self.state.lock();
        state.ready.push_back(number);
        // The caller is as good as a thread of the pool.
        let wakes_caller = std::mem::take(&mut state.caller_sleeps);
        drop(state);
        if wakes_caller {
            self.changed.notify_one();
        }
        !wakes_caller
    }

    /// A node that nobody has taken.
    fn take(&self) -> Option<u32> {
        self.state.lock().ready.pop_front()
    }

    /// For the caller: a node that nobody has taken, as soon as there is one; `None` when all have ended.
    fn take_or_wait(&self) -> Option<u32> {
        let mut state = self.state.lock();
        loop {
            if self.remaining.load(Ordering::Acquire) == 0 {
                return None;
            }
            if let Some(number) = state.ready.pop_front() {
                return Some(number);
            }
            state.caller_sleeps = true;
            self.changed.wait(&mut state);
            state.caller_sleeps = false;
        }
    }

    /// Notes the end of a node. Returns one that can run now; `spawn` is given the others.
    fn end(&self, number: u32, mut spawn: impl FnMut(u32)) -> Option<u32> {
        let mut next = None;
        for &waiting in &self.dependencies.waiting[number as usize] {
            if self.pending[waiting as usize].fetch_sub(1, Ordering::AcqRel) == 1 {
                match next {
                    None => next = Some(waiting),
                    Some(_) => spawn(waiting),
                }
            }
        }
        if self.remaining.fetch_sub(1, Ordering::AcqRel) == 1 {
            // If the caller has just looked and is about to wait, it holds the lock.
            drop(self.state.lock());
            self.changed.notify_all();
        }
        next
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::thread;

    use super::*;

    /// Dependencies by the nodes that wait for each.
    fn dependencies(waiting: &[&[u32]]) -> Arc<Dependencies> {
        let mut pending = vec![0; waiting.len()];
        waiting.iter().copied().flatten().for_each(|&node| pending[node as usize] += 1);
        let waiting = waiting.iter().map(|nodes| SmallVec::from_slice(nodes)).collect();
        Arc::new(Dependencies { pending, waiting, ..Dependencies::default() })
    }

    /// A run whose nodes note that they have run, and check that those before them have.
    struct Model {
        countdown: Countdown,
        has_run: Vec<AtomicBool>,
    }

    impl Model {
        fn work(&self, number: u32) {
            let mut next = Some(number);
            while let Some(number) = next {
                let waiting = &self.countdown.dependencies.waiting;
                let before = (0..waiting.len()).filter(|&node| waiting[node].contains(&number));
                for node in before {
                    assert!(self.has_run[node].load(Ordering::Relaxed), "{number} before {node}");
                }
                assert!(!self.has_run[number as usize].swap(true, Ordering::Relaxed));
                next = self.countdown.end(number, |ready| {
                    self.countdown.push(ready);
                });
            }
        }
    }

    /// The caller and `helpers` threads of a pool, which come when they please.
    fn check(waiting: &'static [&'static [u32]], helpers: usize) {
        loom::model(move || {
            let countdown = Countdown::new(&dependencies(waiting));
            let has_run = waiting.iter().map(|_| AtomicBool::new(false)).collect();
            let model = Arc::new(Model { countdown, has_run });
            let help = |_| {
                let model = model.clone();
                thread::spawn(move || {
                    while let Some(number) = model.countdown.take() {
                        model.work(number);
                    }
                })
            };
            let pending = &model.countdown.dependencies.pending;
            let mut ready = (0..pending.len() as u32).filter(|&node| pending[node as usize] == 0);
            let mut next = ready.next();
            ready.for_each(|number| _ = model.countdown.push(number));
            let helpers: Vec<_> = (0..helpers).map(help).collect();
            while let Some(number) = next {
                model.work(number);
                next = model.countdown.take_or_wait();
            }
            // The results are there, whoever made them.
            assert!(model.has_run.iter().all(|has_run| has_run.load(Ordering::Relaxed)));
            helpers.into_iter().for_each(|helper| helper.join().unwrap());
        });
    }

    #[test]
    fn side_by_side() {
        check(&[&[2], &[2], &[]], 1);
        check(&[&[], &[], &[]], 2);
    }

    #[test]
    fn a_diamond() {
        check(&[&[1, 2], &[3], &[3], &[]], 1);
        check(&[&[1, 2], &[3], &[3], &[]], 2);
    }
}

//! `Executor`: in which order, and on whose thread, eager ops run.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;

use parking_lot::{Condvar, Mutex};
use tfcore_base::{Error, Result, internal};

/// An op that is to run. It is given the error for which it must not run, if there is one, keeps its promises in any case
/// and returns its own error.
pub(crate) type Job = Box<dyn FnOnce(Option<Error>) -> Result<()> + Send>;

/// Runs ops at once, on the caller's thread, or later, one after the other on a thread of its own.
pub struct Executor {
    is_async: bool,
    /// How many ops may wait; 0 for any number.
    limit: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Job>,
    /// True while there is a thread that runs ops. It ends when none waits.
    is_running: bool,
    /// The first error; until it is cleared nothing runs.
    error: Option<Error>,
}

impl Executor {
    /// At most `limit` ops wait at a time; any number if it is 0.
    pub fn new(is_async: bool, limit: usize) -> Arc<Executor> {
        Arc::new(Executor { is_async, limit, state: Mutex::default(), changed: Condvar::new() })
    }

    pub fn is_async(&self) -> bool {
        self.is_async
    }

    /// # Errors
    /// The error of an op before, if it has not been cleared.
    pub(crate) fn check(&self) -> Result<()> {
        self.state.lock().error.clone().map_or(Ok(()), Err)
    }

    /// Has `job` run after those that were added before.
    pub(crate) fn add(self: &Arc<Self>, job: Job) {
        let mut state = self.state.lock();
        while self.limit > 0 && state.waiting.len() >= self.limit {
            self.changed.wait(&mut state);
        }
        state.waiting.push_back(job);
        if state.is_running {
            return;
        }
        state.is_running = true;
        drop(state);
        let this = self.clone();
        let started =
            thread::Builder::new().name("tfcore-eager".to_string()).spawn(move || this.run_all());
        if started.is_err() {
            // Without a thread the caller does the work.
            self.run_all();
        }
    }

    fn run_all(&self) {
        loop {
            let mut state = self.state.lock();
            let Some(job) = state.waiting.pop_front() else {
                state.is_running = false;
                self.changed.notify_all();
                return;
            };
            let error = state.error.clone();
            drop(state);
            let is_new = error.is_none();
            let result = catch_unwind(AssertUnwindSafe(|| job(error)))
                .unwrap_or_else(|_| Err(internal!("An eager op panicked")));
            if let (Err(error), true) = (result, is_new) {
                self.state.lock().error = Some(error);
            }
            self.changed.notify_all();
        }
    }

    /// Waits until nothing is left to run.
    ///
    /// # Errors
    /// The first error since the last one was cleared.
    pub fn wait(&self) -> Result<()> {
        let mut state = self.state.lock();
        while state.is_running {
            self.changed.wait(&mut state);
        }
        state.error.clone().map_or(Ok(()), Err)
    }

    /// Forgets the error, so that ops run again.
    pub fn clear_error(&self) {
        self.state.lock().error = None;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tfcore_base::invalid;

    use super::*;

    #[test]
    fn jobs_run_in_order_until_one_fails() {
        let executor = Executor::new(true, 2);
        let ran = Arc::new(Mutex::new(Vec::new()));
        let refused = Arc::new(AtomicUsize::new(0));
        for index in 0..10 {
            let (ran, refused) = (ran.clone(), refused.clone());
            executor.add(Box::new(move |error| {
                if error.is_some() {
                    refused.fetch_add(1, Ordering::Relaxed);
                    return Ok(());
                }
                ran.lock().push(index);
                if index == 5 { Err(invalid!("the sixth fails")) } else { Ok(()) }
            }));
        }
        assert_eq!(executor.wait().unwrap_err().message(), "the sixth fails");
        assert_eq!(*ran.lock(), [0, 1, 2, 3, 4, 5]);
        assert_eq!(refused.load(Ordering::Relaxed), 4);
        executor.clear_error();
        assert!(executor.wait().is_ok() && executor.check().is_ok());
    }
}

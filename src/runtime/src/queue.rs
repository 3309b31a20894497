//! The work of a step in the gear with frames: jobs, run by the caller and by threads of the pool.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};
use tfcore_math::pool::Pool;

/// A node that is ready, or the continuation of one that has waited.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// The jobs of a step. The thread that runs the step drives the queue; those of the pool help.
pub(crate) struct Queue {
    jobs: Mutex<VecDeque<Job>>,
    changed: Condvar,
    pool: Option<Arc<Pool>>,
}

impl Queue {
    pub(crate) fn new(pool: Option<Arc<Pool>>) -> Arc<Queue> {
        Arc::new(Queue { jobs: Mutex::default(), changed: Condvar::new(), pool })
    }

    /// Adds a job, to be run soon by anybody.
    pub(crate) fn push(self: &Arc<Self>, job: Job) {
        let mut jobs = self.jobs.lock();
        jobs.push_back(job);
        let is_more_than_one = jobs.len() > 1;
        drop(jobs);
        self.changed.notify_one();
        if is_more_than_one && let Some(pool) = &self.pool {
            let queue = self.clone();
            pool.spawn(Box::new(move || {
                let job = queue.jobs.lock().pop_front();
                if let Some(job) = job {
                    job();
                }
            }));
        }
    }

    /// Wakes those who drive the queue, since what they wait for may have happened.
    pub(crate) fn wake(&self) {
        // Whoever has just looked and is about to wait holds the lock.
        drop(self.jobs.lock());
        self.changed.notify_all();
    }

    /// Runs jobs until `is_over` says so. Returns whether it was over before the deadline.
    pub(crate) fn drive(&self, deadline: Option<Instant>, is_over: &dyn Fn() -> bool) -> bool {
        let mut jobs = self.jobs.lock();
        loop {
            // The lock is held, so that a wake-up is not missed.
            if is_over() {
                return true;
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return false;
            }
            if let Some(job) = jobs.pop_front() {
                drop(jobs);
                job();
                jobs = self.jobs.lock();
                continue;
            }
            match deadline {
                Some(deadline) => drop(self.changed.wait_until(&mut jobs, deadline)),
                None => self.changed.wait(&mut jobs),
            }
        }
    }
}

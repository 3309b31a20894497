//! The work of a step in the gear with frames: jobs, run by those who drive it and by threads of the pool.
//!
//! Every job gets done as long as somebody drives the queue, whether or not the pool has threads.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};
use tfcore_math::pool::Pool;

/// A node that is ready, or the continuation of one that has waited.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// The jobs of a step. The thread that runs the step drives the queue; those of the pool help.
pub(crate) struct Queue {
    jobs: Mutex<Jobs>,
    changed: Condvar,
    pool: Option<Arc<Pool>>,
}

struct Jobs {
    waiting: VecDeque<Job>,
    /// Threads that drive the queue, or are about to.
    drivers: usize,
}

impl Queue {
    /// A queue that its maker drives.
    pub(crate) fn new(pool: Option<Arc<Pool>>) -> Arc<Queue> {
        let jobs = Jobs { waiting: VecDeque::new(), drivers: 1 };
        Arc::new(Queue { jobs: Mutex::new(jobs), changed: Condvar::new(), pool })
    }

    /// Adds a job, to be run soon by anybody.
    pub(crate) fn push(self: &Arc<Self>, job: Job) {
        let mut jobs = self.jobs.lock();
        jobs.waiting.push_back(job);
        let (waiting, drivers) = (jobs.waiting.len(), jobs.drivers);
        drop(jobs);
        if drivers == 0 {
            return self.hand_over();
        }
        self.changed.notify_one();
        if waiting > 1
            && let Some(pool) = &self.pool
        {
            let queue = self.clone();
            pool.offer(move || while queue.run_one() {});
        }
    }

    /// Has a thread of the pool run a job, which nobody else does.
    fn hand_over(self: &Arc<Self>) {
        if let Some(pool) = &self.pool {
            let queue = self.clone();
            pool.spawn(Box::new(move || {
                queue.run_one();
            }));
        }
    }

    /// Runs a job, if there is one.
    fn run_one(&self) -> bool {
        let job = self.jobs.lock().waiting.pop_front();
        job.map(|job| job()).is_some()
    }

    /// One more thread is going to drive the queue.
    pub(crate) fn enter(&self) {
        self.jobs.lock().drivers += 1;
    }

    /// A thread stops driving the queue and hands over what is left: to others who drive it, else to the pool. Without a pool it
    /// first runs what can be run.
    pub(crate) fn leave(self: &Arc<Self>) {
        let (waiting, drivers) = {
            let mut jobs = self.jobs.lock();
            jobs.drivers -= 1;
            (jobs.waiting.len(), jobs.drivers)
        };
        if drivers > 0 {
            self.changed.notify_all();
        } else if self.pool.is_some() {
            (0..waiting).for_each(|_| self.hand_over());
        } else {
            while self.run_one() {}
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
            if let Some(job) = jobs.waiting.pop_front() {
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

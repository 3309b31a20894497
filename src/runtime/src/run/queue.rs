//! The work of a step in the gear with frames: jobs, run by those who drive it and by threads of the pool.
//!
//! Every job gets done as long as somebody drives the queue, whether or not the pool has threads. The pool is asked only for what
//! nobody is about to do, so that a chain of nodes stays on its thread.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use tfcore_framework::sync::{Condvar, Mutex, thread_local};
use tfcore_math::fork::outside;
use tfcore_math::pool::Pool;

/// A node that is ready, or the continuation of one that has waited. What it pushes, it pushes at its end.
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
    /// Those of them that are inside a job, which may take long.
    busy: usize,
}

thread_local! {
    /// The address of the queue of which this thread runs a job, the innermost one, or 0. The thread looks for the next job when
    /// that ends.
    static WITHIN: Cell<usize> = Cell::default();
}

impl Queue {
    /// A queue that its maker drives.
    pub(crate) fn new(pool: Option<Arc<Pool>>) -> Arc<Queue> {
        let jobs = Jobs { waiting: VecDeque::new(), drivers: 1, busy: 0 };
        Arc::new(Queue { jobs: Mutex::new(jobs), changed: Condvar::new(), pool })
    }

    /// Adds a job, to be run soon by anybody.
    pub(crate) fn push(self: &Arc<Self>, job: Job) {
        let mut jobs = self.jobs.lock();
        jobs.waiting.push_back(job);
        let (waiting, coming) = (jobs.waiting.len(), self.coming(&jobs));
        drop(jobs);
        self.changed.notify_one();
        if waiting > coming {
            // Without help a driver runs the job when it is through with its own.
            self.call_for_help(coming);
        }
    }

    /// How many threads look for a job soon: drivers without one, and this thread if it is inside one.
    fn coming(&self, jobs: &Jobs) -> usize {
        let is_within = WITHIN.with(|within| within.get() == self.address());
        jobs.drivers - jobs.busy + usize::from(is_within)
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Has a thread of the pool run what waits. It is spared where it is behind, unless nobody else comes. Returns false if no thread
    /// comes at all.
    fn call_for_help(self: &Arc<Self>, coming: usize) -> bool {
        let Some(pool) = &self.pool else { return coming > 0 };
        let queue = self.clone();
        let help = move || while queue.run_one() {};
        match coming {
            0 => pool.spawn(Box::new(help)).is_ok(),
            _ => {
                pool.offer(help);
                true
            }
        }
    }

    /// Runs a job, if there is one.
    fn run_one(&self) -> bool {
        let job = self.jobs.lock().waiting.pop_front();
        job.map(|job| self.run(job)).is_some()
    }

    fn run(&self, job: Job) {
        let _within = Within::new(self);
        job();
    }

    /// One more thread is going to drive the queue.
    pub(crate) fn enter(&self) {
        self.jobs.lock().drivers += 1;
    }

    /// A thread stops driving the queue and hands over what is left: to others who drive it, else to the pool. If that has no thread
    /// either, the caller first runs what can be run.
    pub(crate) fn leave(self: &Arc<Self>) {
        let (waiting, drivers, coming) = {
            let mut jobs = self.jobs.lock();
            jobs.drivers -= 1;
            (jobs.waiting.len(), jobs.drivers, self.coming(&jobs))
        };
        if drivers > 0 {
            self.changed.notify_all();
        } else if self.pool.is_none() {
            while self.run_one() {}
        }
        for _ in coming..waiting {
            if !self.call_for_help(coming) && drivers == 0 {
                while self.run_one() {}
            }
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
                jobs.busy += 1;
                drop(jobs);
                self.run(job);
                jobs = self.jobs.lock();
                jobs.busy -= 1;
                continue;
            }
            let outside = outside();
            match deadline {
                Some(deadline) => drop(self.changed.wait_until(&mut jobs, deadline)),
                None => self.changed.wait(&mut jobs),
            }
            // A fork that is under way may need the lock.
            drop(jobs);
            drop(outside);
            jobs = self.jobs.lock();
        }
    }
}

/// Notes that this thread runs a job of a queue, as long as it lives.
struct Within {
    outer: usize,
}

impl Within {
    fn new(queue: &Queue) -> Within {
        Within { outer: WITHIN.with(|within| within.replace(queue.address())) }
    }
}

impl Drop for Within {
    fn drop(&mut self) {
        WITHIN.with(|within| within.set(self.outer));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::*;

    const SOON: Duration = Duration::from_secs(20);

    /// A driver on a thread of its own that ends when `is_over` is set.
    fn start_driver(queue: &Arc<Queue>) -> (Arc<AtomicBool>, thread::JoinHandle<bool>) {
        let is_over = Arc::new(AtomicBool::new(false));
        let (driven, over) = (queue.clone(), is_over.clone());
        let drive = move || driven.drive(None, &|| over.load(Ordering::Acquire));
        (is_over, thread::spawn(drive))
    }

    fn end(queue: &Queue, is_over: &AtomicBool, driver: thread::JoinHandle<bool>) {
        is_over.store(true, Ordering::Release);
        queue.wake();
        assert!(driver.join().unwrap());
    }

    /// A job that says when it begins and ends when it is told to.
    fn long_job() -> (Job, mpsc::Receiver<()>, mpsc::Sender<()>) {
        let (begins, has_begun) = mpsc::channel();
        let (release, released) = mpsc::channel();
        let job = move || {
            begins.send(()).unwrap();
            released.recv().unwrap();
        };
        (Box::new(job), has_begun, release)
    }

    #[test]
    fn a_job_does_not_wait_for_a_driver_inside_another() {
        let queue = Queue::new(Some(Arc::new(Pool::new(1))));
        let (is_over, driver) = start_driver(&queue);
        let (long, has_begun, release) = long_job();
        queue.push(long);
        has_begun.recv_timeout(SOON).unwrap();
        let (done, wait) = mpsc::channel();
        // Then the thread of the pool is the one that is free.
        for _ in 0..3 {
            let done = done.clone();
            queue.push(Box::new(move || done.send(()).unwrap()));
            wait.recv_timeout(SOON).expect("the driver is not the only one who can run it");
        }
        release.send(()).unwrap();
        end(&queue, &is_over, driver);
    }

    #[test]
    fn what_a_driver_leaves_does_not_wait_for_a_busy_one() {
        let queue = Queue::new(Some(Arc::new(Pool::new(1))));
        let (is_over, driver) = start_driver(&queue);
        let (long, has_begun, release) = long_job();
        queue.push(long);
        has_begun.recv_timeout(SOON).unwrap();
        queue.enter();
        let (done, wait) = mpsc::channel();
        queue.push(Box::new(move || done.send(()).unwrap()));
        queue.leave();
        wait.recv_timeout(SOON).expect("whoever has left cannot run it");
        release.send(()).unwrap();
        end(&queue, &is_over, driver);
    }

    /// A job that pushes the next one `left` times; all note their thread.
    fn chain(queue: Arc<Queue>, left: usize, threads: mpsc::Sender<thread::ThreadId>) -> Job {
        Box::new(move || {
            threads.send(thread::current().id()).unwrap();
            if left > 0 {
                queue.clone().push(chain(queue, left - 1, threads));
            }
        })
    }

    #[test]
    fn a_chain_stays_on_its_thread() {
        let queue = Queue::new(Some(Arc::new(Pool::new(2))));
        let (threads, seen) = mpsc::channel();
        queue.push(chain(queue.clone(), 1000, threads));
        let count = Cell::new(0);
        let is_over = || {
            let here = seen.try_iter().inspect(|&id| assert_eq!(id, thread::current().id()));
            count.set(count.get() + here.count());
            count.get() == 1001
        };
        assert!(queue.drive(None, &is_over));
    }

    #[test]
    fn without_a_pool_whoever_leaves_last_runs_the_rest() {
        let queue = Queue::new(None);
        let (threads, seen) = mpsc::channel();
        queue.push(chain(queue.clone(), 3, threads));
        queue.leave();
        assert!(seen.iter().eq([thread::current().id(); 4]));
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::thread;
    use tfcore_framework::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    /// A job that has been done, for those who drive or wait within another job.
    #[derive(Default)]
    struct Flag {
        is_set: AtomicBool,
        lock: Mutex<()>,
        changed: Condvar,
    }

    impl Flag {
        /// The job that sets it, once.
        fn job(self: &Arc<Self>, queue: &Arc<Queue>) -> Job {
            let (flag, queue) = (self.clone(), queue.clone());
            Box::new(move || {
                assert!(!flag.is_set.swap(true, Ordering::AcqRel));
                drop(flag.lock.lock());
                flag.changed.notify_all();
                queue.wake();
            })
        }

        fn is_set(&self) -> bool {
            self.is_set.load(Ordering::Acquire)
        }

        fn wait(&self) {
            let mut lock = self.lock.lock();
            while !self.is_set() {
                self.changed.wait(&mut lock);
            }
        }
    }

    #[test]
    fn a_driver_runs_what_others_push() {
        loom::model(|| {
            let queue = Queue::new(None);
            let flags = [(); 2].map(|()| Arc::new(Flag::default()));
            let pushers = flags.each_ref().map(|flag| {
                let (queue, job) = (queue.clone(), flag.job(&queue));
                thread::spawn(move || queue.push(job))
            });
            assert!(queue.drive(None, &|| flags.iter().all(|flag| flag.is_set())));
            pushers.into_iter().for_each(|pusher| pusher.join().unwrap());
        });
    }

    #[test]
    fn what_happens_elsewhere_wakes_a_driver() {
        loom::model(|| {
            let queue = Queue::new(None);
            let flag = Arc::new(Flag::default());
            let elsewhere = thread::spawn(flag.job(&queue));
            assert!(queue.drive(None, &|| flag.is_set()));
            elsewhere.join().unwrap();
        });
    }

    #[test]
    fn a_driver_that_leaves_takes_no_job_with_it() {
        loom::model(|| {
            let queue = Queue::new(None);
            let flags = [(); 2].map(|()| Arc::new(Flag::default()));
            let (entered, of_other, job) = (queue.clone(), flags[0].clone(), flags[0].job(&queue));
            queue.enter();
            let other = thread::spawn(move || {
                entered.push(job);
                assert!(entered.drive(None, &|| of_other.is_set()));
                entered.leave();
            });
            let (pushed, job) = (queue.clone(), flags[1].job(&queue));
            let pusher = thread::spawn(move || pushed.push(job));
            assert!(queue.drive(None, &|| flags[1].is_set()));
            queue.leave();
            other.join().unwrap();
            pusher.join().unwrap();
        });
    }

    /// A driver inside a job that ends only after another one, which the pool has a thread for.
    fn check_pushed_while_busy(push: impl Fn(&Arc<Queue>, Job) + Copy + Send + Sync + 'static) {
        loom::model(move || {
            let queue = Queue::new(Some(Arc::new(Pool::new(1))));
            let [long, short] = [(); 2].map(|()| Arc::new(Flag::default()));
            let (job, waited) = (long.job(&queue), short.clone());
            queue.push(Box::new(move || {
                waited.wait();
                job();
            }));
            let (pushed, job) = (queue.clone(), short.job(&queue));
            let pusher = thread::spawn(move || push(&pushed, job));
            assert!(queue.drive(None, &|| long.is_set()));
            pusher.join().unwrap();
        });
    }

    #[test]
    fn a_job_does_not_wait_for_a_driver_inside_another() {
        check_pushed_while_busy(|queue, job| queue.push(job));
    }

    #[test]
    fn what_a_driver_leaves_does_not_wait_for_a_busy_one() {
        check_pushed_while_busy(|queue, job| {
            queue.enter();
            queue.push(job);
            queue.leave();
        });
    }
}

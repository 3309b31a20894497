//! The thread pool of the process and the parallel loop.
//!
//! A [`Pool`] runs two kinds of work: parallel loops ([`Pool::for_each_chunk`]), in which the caller takes part
//! and which therefore always finish, whatever the workers are doing, and tasks ([`Pool::spawn`]). Workers
//! prefer loops to tasks, since somebody is waiting for a loop.
//!
//! No thread exists before the first work that needs one. The child of a `fork` has none either, and starts its own. If the system
//! refuses threads, work is done by those that exist: loops by their callers, tasks by the workers or, without any, by those who
//! have tasks.

use std::any::Any;
use std::collections::VecDeque;
use std::ops::Range;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, PoisonError};

use std::time::{Duration, Instant};

use crate::denormals::FlushDenormals;
use crate::fork;
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::sync::thread::{self, JoinHandle};
use crate::sync::{Condvar, Mutex, MutexGuard, Parker, hint};

/// How many chunks a loop is cut into per thread, so that a slow thread does not hold up the others.
const CHUNKS_PER_THREAD: usize = 4;

/// How often an idle thread looks for work before it goes to sleep, divided by the number of threads.
///
/// A few microseconds of polling spare the executor a system call for each of the short gaps between the ops of a run.
const SPINS: usize = if cfg!(loom) { 1 } else { 4000 };

/// So much may wait in front of a thread before offers of work are refused.
const OFFERS_PER_THREAD: usize = 4;

/// After the system has refused a thread, a pool asks for none for so long.
const PAUSE_AFTER_REFUSAL: Duration = Duration::from_millis(100);

/// A unit of work for [`Pool::spawn`].
pub type Task = Box<dyn FnOnce() + Send>;

/// A fixed number of worker threads that share loops and tasks. Dropping it runs the queued tasks, then joins the threads.
pub struct Pool {
    threads: usize,
    shared: Arc<Shared>,
}

impl Pool {
    /// A pool of `threads` threads (at least one); for loops, the caller counts as one of them. Starts none.
    pub fn new(threads: usize) -> Self {
        let threads = threads.max(1);
        let shared = Shared {
            queue: Mutex::default(),
            work_available: Condvar::new(),
            pending: AtomicUsize::new(0),
            idle: AtomicUsize::new(0),
            spins: SPINS / threads,
        };
        let shared = Arc::new(shared);
        #[cfg(not(loom))]
        frozen::register(&shared);
        Pool { threads, shared }
    }

    /// The number of threads that a loop can use, the caller among them.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Calls `f` with disjoint ranges that cover `0..n`, from several threads at once, and returns when all are done.
    ///
    /// No range but the last is shorter than `grain`. With one thread or `n <= grain` this is a call of `f(0..n)`.
    /// Loops may be nested. If a call of `f` panics, ranges not yet begun are dropped and the panic goes on in the caller.
    pub fn for_each_chunk(&self, n: usize, grain: usize, f: &(dyn Fn(Range<usize>) + Sync)) {
        if n == 0 {
            return;
        }
        let chunk = grain.max(n.div_ceil(self.threads.saturating_mul(CHUNKS_PER_THREAD))).max(1);
        let chunks = n.div_ceil(chunk);
        if self.threads == 1 || chunks == 1 {
            return f(0..n);
        }
        let helpers = (self.threads - 1).min(chunks - 1);
        // SAFETY: only the lifetime of the reference changes. `Job::work` calls `f` for claimed chunks alone, and
        // `Job::finish` below does not return before every claimed chunk is done and none is left to claim.
        let f: &'static (dyn Fn(Range<usize>) + Sync) = unsafe { std::mem::transmute(f) };
        let job = Arc::new(Job {
            f,
            n,
            chunk,
            chunks,
            next: AtomicUsize::new(0),
            done: AtomicUsize::new(0),
            panicked: AtomicBool::new(false),
            panic: Mutex::new(None),
            caller: Parker::new(),
        });
        let started = self.shared.push_job(&job, helpers);
        if started < helpers {
            self.start_workers(helpers);
        }
        job.work();
        self.shared.remove_job(&job);
        job.finish();
    }

    /// Queues `task` to run on a worker thread. A panic in it ends there; a caller that needs to know must catch it.
    ///
    /// # Errors
    /// A task that no worker will run, since there is none and the system refuses to start one.
    pub fn spawn(&self, task: Task) -> Result<(), Task> {
        let (started, needs_worker) = self.shared.push_task(task);
        if needs_worker {
            self.start_workers((started + 1).min(self.threads));
            if started == 0 {
                return self.shared.take_back();
            }
        }
        Ok(())
    }

    /// Queues `task` if the workers are not far behind; else it is dropped. For work that the caller does if no worker has begun it:
    /// tasks for work that is done by then must not pile up in front of slow workers.
    pub fn offer(&self, task: impl FnOnce() + Send + 'static) {
        let limit = self.threads.saturating_mul(OFFERS_PER_THREAD);
        if self.shared.pending.load(Ordering::Relaxed) < limit {
            let _refused = self.spawn(Box::new(task));
        }
    }

    /// Starts threads until there are `count` of them, fewer if the system refuses.
    fn start_workers(&self, count: usize) {
        let mut queue = lock(&self.shared.queue);
        if queue.refused.is_some_and(|at| at.elapsed() < PAUSE_AFTER_REFUSAL) {
            return;
        }
        while queue.workers.len() < count {
            let shared = self.shared.clone();
            let name = format!("tfcore-{}", queue.workers.len());
            match thread::Builder::new().name(name).spawn(move || shared.run_worker()) {
                Ok(handle) => queue.workers.push(handle),
                Err(_) => {
                    queue.refused = Some(Instant::now());
                    return;
                }
            }
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let mut queue = lock(&self.shared.queue);
        queue.shutdown = true;
        let workers = std::mem::take(&mut queue.workers);
        drop(queue);
        self.shared.work_available.notify_all();
        for worker in workers {
            // A task may hold the last handle to its pool; a thread cannot join itself.
            if worker.thread().id() != thread::current().id() {
                // A worker catches every panic, so there is no outcome to look at.
                let _ = worker.join();
            }
        }
    }
}

#[cfg(not(loom))]
pub(crate) use frozen::{Frozen, freeze};

/// Pools during a fork.
#[cfg(not(loom))]
mod frozen {
    use std::sync::{Mutex, Weak};

    use super::{Arc, MutexGuard, Ordering, Queue, Shared, lock};

    /// The pools of the process.
    static POOLS: Mutex<Vec<Weak<Shared>>> = Mutex::new(Vec::new());

    pub(super) fn register(shared: &Arc<Shared>) {
        let mut pools = POOLS.lock().expect("no code panics while it holds the lock");
        pools.retain(|pool| pool.strong_count() > 0);
        pools.push(Arc::downgrade(shared));
    }

    /// All pools, locked.
    pub(crate) struct Frozen {
        // In this order: guards go before what they guard.
        queues: Vec<MutexGuard<'static, Queue>>,
        pools: Vec<Arc<Shared>>,
        _all: MutexGuard<'static, Vec<Weak<Shared>>>,
    }

    /// Locks all pools.
    pub(crate) fn freeze() -> Frozen {
        let all = lock(&POOLS);
        let pools: Vec<Arc<Shared>> = all.iter().filter_map(Weak::upgrade).collect();
        let queue = |shared: &Arc<Shared>| {
            let queue = lock(&shared.queue);
            // SAFETY: only the lifetime changes; `Frozen` keeps the mutex, at an address of its own, longer than the guard.
            unsafe {
                std::mem::transmute::<MutexGuard<'_, Queue>, MutexGuard<'static, Queue>>(queue)
            }
        };
        Frozen { queues: pools.iter().map(queue).collect(), pools, _all: all }
    }

    impl Frozen {
        /// For the child of a fork: forgets the workers, which stayed in the parent, and the work that was for them.
        pub(crate) fn abandon_workers(&mut self) {
            for (queue, shared) in self.queues.iter_mut().zip(&self.pools) {
                // Neither threads nor runs of the parent may be touched, not even by dropping what belongs to them.
                std::mem::forget(std::mem::take(&mut **queue));
                shared.pending.store(0, Ordering::Relaxed);
                shared.idle.store(0, Ordering::Relaxed);
            }
        }
    }
}

/// What a kernel is given to share out its loops: a pool, or nothing for a loop that stays on its thread.
#[derive(Clone, Copy)]
pub struct Parallel<'a> {
    pool: Option<&'a Pool>,
}

impl<'a> Parallel<'a> {
    /// Runs every loop on the calling thread.
    pub const SERIAL: Parallel<'static> = Parallel { pool: None };

    /// Shares loops out over `pool`.
    pub fn new(pool: &'a Pool) -> Self {
        Parallel { pool: Some(pool) }
    }

    /// The number of threads that a loop can use.
    pub fn threads(self) -> usize {
        self.pool.map_or(1, Pool::threads)
    }

    /// [`Pool::for_each_chunk`] of the pool; `f(0..n)` without one.
    pub fn for_each_chunk(self, n: usize, grain: usize, f: &(dyn Fn(Range<usize>) + Sync)) {
        match self.pool {
            Some(pool) => pool.for_each_chunk(n, grain, f),
            None if n > 0 => f(0..n),
            None => {}
        }
    }
}

/// Cuts `out` into disjoint pieces and calls `f(start, piece)` for each, in parallel.
///
/// Every piece starts at a multiple of `multiple_of` (a row, say) and none but the last is shorter than `grain`.
pub fn par_chunks_mut<T: Send>(
    par: Parallel,
    out: &mut [T],
    multiple_of: usize,
    grain: usize,
    f: &(dyn Fn(usize, &mut [T]) + Sync),
) {
    let unit = multiple_of.max(1);
    let len = out.len();
    let base = SharedMut(out.as_mut_ptr());
    par.for_each_chunk(len.div_ceil(unit), grain.div_ceil(unit), &|units| {
        let start = units.start * unit;
        let end = units.end.saturating_mul(unit).min(len);
        // SAFETY: `start..end` lies in `out`, which is borrowed mutably for the whole call, and the ranges of
        // different calls are disjoint.
        let piece = unsafe { std::slice::from_raw_parts_mut(base.get().add(start), end - start) };
        f(start, piece);
    });
}

/// A pointer that the threads of one loop share in order to write disjoint parts.
pub(crate) struct SharedMut<T>(pub(crate) *mut T);

impl<T> SharedMut<T> {
    /// The pointer. A method, so that closures capture the wrapper and not its field.
    pub(crate) fn get(&self) -> *mut T {
        self.0
    }
}

// SAFETY: the pointer is only a place; whoever dereferences it shows that accesses are disjoint, and `T: Send`
// lets another thread write it.
unsafe impl<T: Send> Sync for SharedMut<T> {}

/// What the pool and its workers share.
struct Shared {
    queue: Mutex<Queue>,
    work_available: Condvar,
    /// Jobs and tasks in the queue, for polling without the lock.
    pending: AtomicUsize,
    /// Workers that poll or sleep.
    idle: AtomicUsize,
    spins: usize,
}

#[derive(Default)]
struct Queue {
    /// Loops that may have chunks left to claim.
    jobs: Vec<Arc<Job>>,
    tasks: VecDeque<Task>,
    workers: Vec<JoinHandle<()>>,
    sleepers: usize,
    shutdown: bool,
    /// The last time when the system refused a thread.
    refused: Option<Instant>,
}

enum Work {
    Job(Arc<Job>),
    Task(Task),
}

impl Shared {
    /// Returns the number of workers.
    fn push_job(&self, job: &Arc<Job>, helpers: usize) -> usize {
        let mut queue = lock(&self.queue);
        queue.jobs.push(job.clone());
        self.pending.fetch_add(1, Ordering::Release);
        let (wake, workers) = (helpers.min(queue.sleepers), queue.workers.len());
        drop(queue);
        for _ in 0..wake {
            self.work_available.notify_one();
        }
        workers
    }

    fn remove_job(&self, job: &Arc<Job>) {
        let mut queue = lock(&self.queue);
        if let Some(at) = queue.jobs.iter().position(|j| Arc::ptr_eq(j, job)) {
            queue.jobs.swap_remove(at);
            self.pending.fetch_sub(1, Ordering::Release);
        }
    }

    /// Returns the number of workers, and true if there is more to do than there are workers without work.
    fn push_task(&self, task: Task) -> (usize, bool) {
        let mut queue = lock(&self.queue);
        queue.tasks.push_back(task);
        let pending = self.pending.fetch_add(1, Ordering::Release) + 1;
        let wake = queue.sleepers > 0;
        let needs_worker = self.idle.load(Ordering::Relaxed) < pending;
        let workers = queue.workers.len();
        drop(queue);
        if wake {
            self.work_available.notify_one();
        }
        (workers, needs_worker)
    }

    /// Takes a task out of the queue if there is no worker to do it.
    fn take_back(&self) -> Result<(), Task> {
        let mut queue = lock(&self.queue);
        if !queue.workers.is_empty() {
            return Ok(());
        }
        let task = queue.tasks.pop_back();
        self.pending.fetch_sub(usize::from(task.is_some()), Ordering::Relaxed);
        task.map_or(Ok(()), Err)
    }

    fn run_worker(&self) {
        let _flush = FlushDenormals::new();
        while let Some(work) = self.next_work() {
            let _inside = fork::enter_at_once();
            match work {
                Work::Job(job) => job.work(),
                // The worker outlives a task that panics.
                Work::Task(task) => drop(panic::catch_unwind(AssertUnwindSafe(task))),
            }
        }
    }

    /// The next thing to do: polls, then sleeps until there is one. `None` when the pool goes and the queue is empty.
    fn next_work(&self) -> Option<Work> {
        if let Some(work) = self.try_next(&mut lock(&self.queue)) {
            return Some(work);
        }
        self.idle.fetch_add(1, Ordering::Relaxed);
        for _ in 0..self.spins {
            if self.pending.load(Ordering::Acquire) > 0 {
                break;
            }
            hint::spin_loop();
        }
        let mut queue = lock(&self.queue);
        let work = loop {
            if let Some(work) = self.try_next(&mut queue) {
                break Some(work);
            }
            if queue.shutdown {
                break None;
            }
            queue.sleepers += 1;
            queue = self.work_available.wait(queue).unwrap_or_else(PoisonError::into_inner);
            queue.sleepers -= 1;
        };
        // Still under the lock: who adds a task must not count on a worker that has just taken another one.
        self.idle.fetch_sub(1, Ordering::Relaxed);
        drop(queue);
        work
    }

    fn try_next(&self, queue: &mut Queue) -> Option<Work> {
        while let Some(job) = queue.jobs.last() {
            if job.has_chunks() {
                return Some(Work::Job(job.clone()));
            }
            queue.jobs.pop();
            self.pending.fetch_sub(1, Ordering::Relaxed);
        }
        let task = queue.tasks.pop_front()?;
        self.pending.fetch_sub(1, Ordering::Relaxed);
        Some(Work::Task(task))
    }
}

/// One parallel loop: chunks are claimed by counting `next` up and reported by counting `done` up.
struct Job {
    /// Lives as long as the loop, not as the job: to be called only for a claimed chunk.
    f: &'static (dyn Fn(Range<usize>) + Sync),
    n: usize,
    chunk: usize,
    chunks: usize,
    next: AtomicUsize,
    done: AtomicUsize,
    panicked: AtomicBool,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    caller: Parker,
}

impl Job {
    fn has_chunks(&self) -> bool {
        self.next.load(Ordering::Relaxed) < self.chunks
    }

    /// Claims and runs chunks until none is left.
    fn work(&self) {
        while self.has_chunks() {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            if index >= self.chunks {
                return;
            }
            if !self.panicked.load(Ordering::Relaxed) {
                let start = index * self.chunk;
                let range = start..self.n.min(start.saturating_add(self.chunk));
                if let Err(payload) = panic::catch_unwind(AssertUnwindSafe(|| (self.f)(range))) {
                    self.panicked.store(true, Ordering::Relaxed);
                    lock(&self.panic).get_or_insert(payload);
                }
            }
            if self.done.fetch_add(1, Ordering::AcqRel) + 1 == self.chunks {
                self.caller.unpark();
            }
        }
    }

    /// Waits for the chunks that other threads have claimed, then re-raises the first panic.
    fn finish(&self) {
        let mut spins = 0;
        while self.done.load(Ordering::Acquire) < self.chunks {
            if spins < SPINS {
                spins += 1;
                hint::spin_loop();
            } else {
                self.caller.park();
            }
        }
        if self.panicked.load(Ordering::Relaxed) {
            let payload = lock(&self.panic).take();
            panic::resume_unwind(payload.expect("a panicking chunk leaves its payload"));
        }
    }
}

/// Locks `mutex`; no code of ours panics while it holds one, so there is no broken state to fear.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::mpsc;

    fn run_on(pool: &Pool, task: Task) {
        assert!(pool.spawn(task).is_ok());
    }

    #[test]
    fn chunks_cover_the_range_once() {
        for threads in [1, 2, 5] {
            let pool = Pool::new(threads);
            for (n, grain) in
                [(0, 1), (1, 1), (7, 100), (1000, 1), (1000, 0), (1001, 300), (12345, 7)]
            {
                let hits: Vec<AtomicUsize> = (0..n).map(|_| AtomicUsize::new(0)).collect();
                pool.for_each_chunk(n, grain, &|range| {
                    assert!(range.len() >= grain.min(n) || range.end == n, "short chunk {range:?}");
                    for i in range {
                        hits[i].fetch_add(1, Ordering::Relaxed);
                    }
                });
                assert!(
                    hits.iter().all(|h| h.load(Ordering::Relaxed) == 1),
                    "{threads} threads, n {n}, grain {grain}"
                );
            }
        }
    }

    #[test]
    fn a_new_pool_has_no_threads_and_small_loops_start_none() {
        let pool = Pool::new(4);
        let caller = thread::current().id();
        pool.for_each_chunk(10, 10, &|_| assert_eq!(thread::current().id(), caller));
        assert!(lock(&pool.shared.queue).workers.is_empty());
    }

    #[test]
    fn loops_nest_from_many_callers() {
        let pool = Pool::new(3);
        let total = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20 {
                        pool.for_each_chunk(6, 1, &|outer| {
                            for _ in outer {
                                pool.for_each_chunk(10, 1, &|inner| {
                                    total.fetch_add(inner.len(), Ordering::Relaxed);
                                });
                            }
                        });
                    }
                });
            }
        });
        assert_eq!(total.into_inner(), 4 * 20 * 6 * 10);
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_survives() {
        let pool = Pool::new(3);
        for bad in [0, 50, 99] {
            let outcome = panic::catch_unwind(AssertUnwindSafe(|| {
                pool.for_each_chunk(100, 1, &|range| {
                    if range.contains(&bad) {
                        panic::resume_unwind(Box::new("bad index"));
                    }
                });
            }));
            let payload = outcome.expect_err("the panic must reach the caller");
            assert_eq!(payload.downcast_ref::<&str>(), Some(&"bad index"));
        }
        let sum = AtomicUsize::new(0);
        pool.for_each_chunk(100, 1, &|range| {
            sum.fetch_add(range.sum(), Ordering::Relaxed);
        });
        assert_eq!(sum.into_inner(), 4950);
    }

    #[test]
    fn tasks_run_and_a_panicking_one_does_no_harm() {
        for threads in [1, 3] {
            let pool = Pool::new(threads);
            let (send, receive) = mpsc::channel();
            for i in 0..100 {
                let send = send.clone();
                run_on(
                    &pool,
                    Box::new(move || {
                        if i == 50 {
                            panic::resume_unwind(Box::new(()));
                        }
                        send.send(i).unwrap();
                    }),
                );
            }
            drop(send);
            assert_eq!(receive.iter().sum::<i32>(), 4950 - 50, "{threads} threads");
        }
    }

    #[test]
    fn offers_do_not_pile_up() {
        let pool = Pool::new(2);
        let (started, wait_for_start) = mpsc::channel();
        let releases: Vec<mpsc::Sender<()>> = (0..2)
            .map(|_| {
                let (release, wait) = mpsc::channel::<()>();
                let started = started.clone();
                run_on(
                    &pool,
                    Box::new(move || {
                        started.send(()).unwrap();
                        wait.recv().unwrap_err();
                    }),
                );
                release
            })
            .collect();
        (0..2).for_each(|_| wait_for_start.recv().unwrap());
        let done = Arc::new(AtomicUsize::new(0));
        for _ in 0..100 {
            let done = done.clone();
            pool.offer(move || {
                done.fetch_add(1, Ordering::Relaxed);
            });
        }
        drop(releases);
        drop(pool);
        assert_eq!(done.load(Ordering::Relaxed), 2 * OFFERS_PER_THREAD);
    }

    #[test]
    fn dropping_the_pool_runs_what_is_queued() {
        let count = Arc::new(AtomicUsize::new(0));
        let pool = Pool::new(2);
        for _ in 0..50 {
            let count = count.clone();
            run_on(
                &pool,
                Box::new(move || {
                    count.fetch_add(1, Ordering::Relaxed);
                }),
            );
        }
        drop(pool);
        assert_eq!(count.load(Ordering::Relaxed), 50);
    }

    #[test]
    fn a_task_may_drop_its_pool() {
        let pool = Arc::new(Pool::new(2));
        let (send, receive) = mpsc::channel();
        let held = pool.clone();
        let (go, wait) = mpsc::channel::<()>();
        run_on(
            &pool,
            Box::new(move || {
                wait.recv().unwrap();
                drop(held);
                send.send(()).unwrap();
            }),
        );
        drop(pool);
        go.send(()).unwrap();
        receive.recv().unwrap();
    }

    #[test]
    fn pieces_start_at_multiples() {
        let pool = Pool::new(4);
        for (len, multiple, grain) in
            [(0, 3, 1), (100, 7, 1), (100, 1, 10), (5, 10, 1), (1000, 0, 0)]
        {
            let mut out = vec![usize::MAX; len];
            par_chunks_mut(Parallel::new(&pool), &mut out, multiple, grain, &|start, piece| {
                assert_eq!(start % multiple.max(1), 0);
                for (i, v) in piece.iter_mut().enumerate() {
                    *v = start + i;
                }
            });
            assert!(out.iter().enumerate().all(|(i, &v)| i == v), "len {len}, multiple {multiple}");
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;

    fn counters<const N: usize>() -> Arc<[AtomicUsize; N]> {
        Arc::new(std::array::from_fn(|_| AtomicUsize::new(0)))
    }

    fn run_on(pool: &Pool, task: Task) {
        assert!(pool.spawn(task).is_ok());
    }

    fn count(counter: &AtomicUsize) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Runs a loop of two ranges, and checks that both have been run, once, when it returns.
    fn run_loop(pool: &Pool) {
        let hits = counters::<2>();
        pool.for_each_chunk(2, 1, &|range| range.for_each(|i| count(&hits[i])));
        assert!(hits.iter().all(|hits| hits.load(Ordering::Relaxed) == 1));
    }

    #[test]
    fn a_loop_ends_when_all_is_done() {
        loom::model(|| {
            let pool = Pool::new(2);
            run_loop(&pool);
            run_loop(&pool);
        });
    }

    #[test]
    fn loops_of_two_callers() {
        loom::model(|| {
            let pool = Arc::new(Pool::new(2));
            let other = pool.clone();
            let caller = thread::spawn(move || run_loop(&other));
            run_loop(&pool);
            caller.join().unwrap();
        });
    }

    #[test]
    fn every_task_is_run() {
        for threads in [1, 2] {
            loom::model(move || {
                let pool = Pool::new(threads);
                let runs = counters::<2>();
                for index in 0..2 {
                    let runs = runs.clone();
                    run_on(&pool, Box::new(move || count(&runs[index])));
                }
                drop(pool);
                assert!(runs.iter().all(|runs| runs.load(Ordering::Relaxed) == 1));
            });
        }
    }

    /// Nothing is left to be done by a worker that is inside something else: there are as many workers as tasks.
    #[test]
    fn a_task_does_not_wait_for_another() {
        loom::model(|| {
            let pool = Pool::new(2);
            let (met, arrived) = (Arc::new(Condvar::new()), Arc::new(Mutex::new(0)));
            // So that a worker may be idle.
            run_on(&pool, Box::new(|| ()));
            for _ in 0..2 {
                let (met, arrived) = (met.clone(), arrived.clone());
                run_on(
                    &pool,
                    Box::new(move || {
                        let mut count = lock(&arrived);
                        *count += 1;
                        met.notify_all();
                        while *count < 2 {
                            count = met.wait(count).expect("nobody panics");
                        }
                    }),
                );
            }
        });
    }
}

//! Forks of a process while its other threads run.
//!
//! A child has one thread, and a copy of every lock as it was. A lock that another thread held stays locked for ever. Threads
//! therefore note when they are inside the library ([`enter`]), and a fork first waits until the others have left it. Threads
//! that come in the meantime wait until the fork is over. Thread pools lock their queues for the fork and are reset in the child.
//!
//! A thread that waits for something of unknown duration does so [`outside`]. A fork waits for at most [`LONGEST_WAIT`],
//! so that it cannot hang; its child is then on its own.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, compiler_fence, fence};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::time::{Duration, Instant};

use crate::pool;

/// A fork waits so long for threads that are inside the library.
const LONGEST_WAIT: Duration = Duration::from_millis(250);

/// True from before a fork until after it.
static FORKING: AtomicBool = AtomicBool::new(false);

/// Held by the thread that forks, for as long.
static GATE: Mutex<()> = Mutex::new(());

/// Those of all threads that have been inside.
static RECORDS: Mutex<Vec<Arc<Record>>> = Mutex::new(Vec::new());

/// True if a fork makes other threads' writes visible by itself; else each entry needs a memory fence.
static IS_ASYMMETRIC: AtomicBool = AtomicBool::new(false);

/// The part of a thread that forks look at.
#[derive(Default)]
struct Record {
    /// Nested entries. Written by the thread alone.
    depth: AtomicU32,
}

struct Mine {
    record: Arc<Record>,
    is_forking: Cell<bool>,
}

thread_local! {
    static MINE: Mine = Mine::register();
    /// What this thread holds during a fork.
    static HELD: RefCell<Option<Held>> = const { RefCell::new(None) };
}

struct Held {
    records: MutexGuard<'static, Vec<Arc<Record>>>,
    pools: pool::Frozen,
    _gate: MutexGuard<'static, ()>,
}

/// As long as it lives, its thread is inside the library.
pub struct Inside(());

/// Notes that this thread is inside the library. Waits while another thread forks, unless this one is inside already.
#[inline]
pub fn enter() -> Inside {
    let _ends = MINE.try_with(|mine| mine.enter(true));
    Inside(())
}

/// As [`enter`], but never waits: threads that are inside may wait for this one.
#[inline]
pub(crate) fn enter_at_once() -> Inside {
    let _ends = MINE.try_with(|mine| mine.enter(false));
    Inside(())
}

impl Drop for Inside {
    #[inline]
    fn drop(&mut self) {
        let _ends = MINE.try_with(|mine| {
            let depth = &mine.record.depth;
            depth.store(depth.load(Ordering::Relaxed).saturating_sub(1), Ordering::Release);
        });
    }
}

/// As long as it lives, its thread does not count as inside.
pub struct Outside {
    depth: u32,
}

/// Begins a wait of unknown duration. The thread may take locks only if no child needs them; it may hold none at the end, which
/// waits for a fork that is under way.
pub fn outside() -> Outside {
    let depth = MINE.try_with(|mine| mine.record.depth.swap(0, Ordering::Release));
    Outside { depth: depth.unwrap_or(0) }
}

impl Drop for Outside {
    fn drop(&mut self) {
        if self.depth > 0 {
            let _ends = MINE.try_with(|mine| {
                mine.enter(true);
                mine.record.depth.store(self.depth, Ordering::Relaxed);
            });
        }
    }
}

impl Mine {
    fn register() -> Mine {
        static INSTALLED: Once = Once::new();
        INSTALLED.call_once(install);
        let record: Arc<Record> = Arc::default();
        lock(&RECORDS).push(record.clone());
        Mine { record, is_forking: Cell::new(false) }
    }

    #[inline]
    fn enter(&self, may_wait: bool) {
        let depth = self.record.depth.load(Ordering::Relaxed);
        self.record.depth.store(depth + 1, Ordering::Relaxed);
        if depth > 0 {
            return;
        }
        self.publish();
        if may_wait && FORKING.load(Ordering::Acquire) {
            self.wait_for_fork();
        }
    }

    /// Orders the write of `depth` before the read of `FORKING`: a fork sees the one, or this thread the other.
    #[inline]
    fn publish(&self) {
        match IS_ASYMMETRIC.load(Ordering::Relaxed) {
            true => compiler_fence(Ordering::SeqCst),
            false => fence(Ordering::SeqCst),
        }
    }

    #[cold]
    fn wait_for_fork(&self) {
        // Handlers of other libraries may call this one.
        while FORKING.load(Ordering::Acquire) && !self.is_forking.get() {
            self.record.depth.store(0, Ordering::Release);
            drop(lock(&GATE));
            self.record.depth.store(1, Ordering::Relaxed);
            self.publish();
        }
    }
}

impl Drop for Mine {
    fn drop(&mut self) {
        lock(&RECORDS).retain(|record| !Arc::ptr_eq(record, &self.record));
    }
}

/// Has the system call the handlers below.
fn install() {
    IS_ASYMMETRIC.store(barrier::register(), Ordering::Relaxed);
    // SAFETY: the handlers are functions of the library, as long as it is loaded. Without memory for them forks are as without
    // this module.
    unsafe { libc::pthread_atfork(Some(before), Some(after_in_parent), Some(after_in_child)) };
}

unsafe extern "C" fn before() {
    let gate = lock(&GATE);
    let mine = MINE.try_with(|mine| {
        mine.is_forking.set(true);
        mine.record.clone()
    });
    FORKING.store(true, Ordering::SeqCst);
    barrier::reach_all();
    let deadline = Instant::now() + LONGEST_WAIT;
    let is_busy = |record: &Arc<Record>| {
        mine.as_ref().is_ok_and(|mine| !Arc::ptr_eq(mine, record))
            && record.depth.load(Ordering::Acquire) > 0
    };
    while lock(&RECORDS).iter().any(is_busy) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_micros(20));
    }
    let held = Held { records: lock(&RECORDS), pools: pool::freeze(), _gate: gate };
    let _ends = HELD.try_with(|slot| *slot.borrow_mut() = Some(held));
}

unsafe extern "C" fn after_in_parent() {
    after(|_| ());
}

unsafe extern "C" fn after_in_child() {
    after(|held| {
        held.pools.abandon_workers();
        let mine = MINE.try_with(|mine| mine.record.clone());
        held.records.retain(|record| mine.as_ref().is_ok_and(|mine| Arc::ptr_eq(mine, record)));
    });
}

fn after(adjust: impl FnOnce(&mut Held)) {
    if let Ok(Some(mut held)) = HELD.try_with(|slot| slot.borrow_mut().take()) {
        adjust(&mut held);
        FORKING.store(false, Ordering::SeqCst);
        let _ends = MINE.try_with(|mine| mine.is_forking.set(false));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A memory barrier on all threads of the process, for which the others need not do anything.
#[cfg(target_os = "linux")]
mod barrier {
    const PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
    const REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;

    fn call(command: libc::c_int) -> bool {
        // SAFETY: the system call takes no pointers.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
    }

    /// Returns false if the system has no such barrier.
    pub(super) fn register() -> bool {
        call(REGISTER_PRIVATE_EXPEDITED)
    }

    pub(super) fn reach_all() {
        if !call(PRIVATE_EXPEDITED) && call(REGISTER_PRIVATE_EXPEDITED) {
            call(PRIVATE_EXPEDITED);
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod barrier {
    pub(super) fn register() -> bool {
        false
    }

    pub(super) fn reach_all() {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use std::sync::mpsc;

    /// Forks, and runs `child` in the child. Returns true if that ended by itself.
    fn fork_and(child: impl FnOnce()) -> bool {
        // SAFETY: the child calls `_exit` without returning to the test harness.
        unsafe {
            match libc::fork() {
                0 => {
                    libc::alarm(20);
                    child();
                    libc::_exit(0)
                }
                pid => {
                    let mut status = 1;
                    assert_eq!(libc::waitpid(pid, &mut status, 0), pid);
                    status == 0
                }
            }
        }
    }

    #[test]
    fn no_lock_that_is_taken_inside_is_held_in_a_child() {
        static SHARED: Mutex<usize> = Mutex::new(0);
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        let _inside = enter();
                        *lock(&SHARED) += 1;
                    }
                });
            }
            for _ in 0..300 {
                let child = || {
                    let _inside = enter();
                    *lock(&SHARED) += 1;
                };
                assert!(fork_and(child));
            }
            is_over.store(true, Ordering::Relaxed);
        });
    }

    #[test]
    fn a_fork_does_not_wait_for_those_who_wait() {
        let (end, ended) = mpsc::channel::<()>();
        let (begin, begun) = mpsc::channel();
        let waiter = std::thread::spawn(move || {
            let _inside = enter();
            let _outside = outside();
            begin.send(()).unwrap();
            ended.recv().unwrap_err();
        });
        begun.recv().unwrap();
        // Workers of other tests may be inside for long, but not always.
        let is_quick = |_| {
            let start = Instant::now();
            assert!(fork_and(|| ()));
            start.elapsed() < LONGEST_WAIT
        };
        assert!((0..100).any(is_quick));
        drop(end);
        waiter.join().unwrap();
    }

    #[test]
    fn a_child_has_workers_of_its_own() {
        let pool = Arc::new(pool::Pool::new(3));
        let count_to = |count: usize| {
            let done = Arc::new(AtomicUsize::new(0));
            for _ in 0..count {
                let done = done.clone();
                let task = Box::new(move || {
                    done.fetch_add(1, Ordering::Relaxed);
                });
                assert!(pool.spawn(task).is_ok());
            }
            pool.for_each_chunk(1000, 1, &|range| {
                done.fetch_add(range.len(), Ordering::Relaxed);
            });
            while done.load(Ordering::Relaxed) < 1000 + count {
                std::thread::yield_now();
            }
        };
        count_to(10);
        for _ in 0..100 {
            assert!(fork_and(|| count_to(10)));
            count_to(10);
        }
    }
}

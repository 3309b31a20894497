//! `Lanes`: what threads keep from one run to the next. Each thread has its lane, so that the runs of many threads do
//! not meet: what all of them write costs more than a small run does.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard};

/// More threads than these share lanes.
const COUNT: usize = 8;

/// One `T` for each lane.
#[derive(Default)]
pub struct Lanes<T> {
    lanes: [Lane<T>; COUNT],
}

/// In a cache line of its own.
#[derive(Default)]
#[repr(align(64))]
struct Lane<T>(Mutex<T>);

impl<T> Lanes<T> {
    /// What this thread, and perhaps others, keep.
    pub fn mine(&self) -> MutexGuard<'_, T> {
        self.lanes[number() % COUNT].0.lock()
    }

    /// One of the lanes, the same one for all threads.
    pub fn common(&self) -> MutexGuard<'_, T> {
        self.lanes[0].0.lock()
    }
}

/// The number of this thread, from 0 on.
fn number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: Cell<Option<usize>> = const { Cell::new(None) };
    }
    NUMBER.get().unwrap_or_else(|| {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        NUMBER.set(Some(number));
        number
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_finds_what_it_has_kept() {
        let lanes: Lanes<Vec<usize>> = Lanes::default();
        let threads: Vec<usize> = (0..3 * COUNT).collect();
        std::thread::scope(|scope| {
            for &thread in &threads {
                let lanes = &lanes;
                scope.spawn(move || {
                    lanes.mine().push(thread);
                    assert!(lanes.mine().contains(&thread));
                });
            }
        });
        let kept = lanes.lanes.into_iter().flat_map(|lane| lane.0.into_inner());
        let mut kept: Vec<usize> = kept.collect();
        kept.sort_unstable();
        assert_eq!(kept, threads);
    }
}

//! `BufferPool`: freed blocks, handed out again.
//!
//! In memory-bound ops page faults cost more than arithmetic, so a run should touch the pages that the last run
//! touched. A pool keeps what recent runs had in use at once and frees the rest, the least recently used first.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use smallvec::SmallVec;

use crate::ALIGNMENT;
use crate::memory::Block;

/// Free bytes that a pool may keep in any case: freeing and allocating small blocks costs more than it saves.
const ALWAYS_KEPT: usize = 4 << 20;

/// After each run the bound on free bytes falls by this fraction of itself, unless the run needed more. A large run
/// that comes once in a hundred runs still finds most of its memory; after a thousand runs it finds none.
const DECAY: usize = 256;

/// Four size classes for each power of two up to 2^40; blocks of the last class are not kept.
const CLASSES: usize = 4 * 41;

/// The pools of the process that were made by [`BufferPool::new`].
static POOLS: Mutex<Vec<Weak<BufferPool>>> = Mutex::new(Vec::new());

/// The free blocks of a session. Tensors hold on to it and give their memory back.
#[derive(Default)]
pub struct BufferPool {
    state: Mutex<State>,
    /// True if the end of a run has something to do: blocks were taken, or more is free than is always kept.
    /// Runs of small tensors must not write what threads share.
    is_active: AtomicBool,
}

struct State {
    classes: [Class; CLASSES],
    /// Bytes of all blocks in `classes`.
    free: usize,
    /// The number of runs that have ended.
    run: u32,
    /// Bytes that had to be at hand since the last run ended: for each class, as many blocks as were in use at once.
    needed: usize,
    /// The largest `needed` of recent runs, falling by [`DECAY`].
    recent: usize,
    is_closed: bool,
}

/// The blocks of one size.
#[derive(Default)]
struct Class {
    /// Free blocks, each with the number of the run that gave it back; the oldest first.
    blocks: VecDeque<(Block, u32)>,
    /// The run for which the two counts below were last used.
    run: u32,
    /// Blocks taken and not given back in this run.
    taken: u32,
    /// The largest `taken` of this run.
    peak: u32,
}

/// Blocks to be freed once the lock is released.
type Freed = SmallVec<[Block; 4]>;

impl Default for State {
    fn default() -> State {
        State {
            classes: [const { Class { blocks: VecDeque::new(), run: 0, taken: 0, peak: 0 } };
                CLASSES],
            free: 0,
            run: 0,
            needed: 0,
            recent: 0,
            is_closed: false,
        }
    }
}

/// Returns the size of the class that holds blocks of `len` bytes: at most a quarter larger.
pub(crate) fn class_size(len: usize) -> usize {
    let len = len.max(ALIGNMENT);
    let step = (1usize << (usize::BITS - 1 - len.leading_zeros())) / 4;
    len.next_multiple_of(step.max(ALIGNMENT / 4)).next_multiple_of(ALIGNMENT)
}

fn class_of(capacity: usize) -> usize {
    let log = (usize::BITS - 1 - capacity.leading_zeros()) as usize;
    (log * 4 + (capacity >> (log - 2) & 3)).min(CLASSES - 1)
}

/// Returns a new block of zeros, or `None` if there is no memory even after all pools have been emptied.
pub(crate) fn allocate(capacity: usize, pool: Option<&BufferPool>) -> Option<Block> {
    Block::allocate(capacity).or_else(|| {
        pool.inspect(|pool| pool.empty());
        let pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner).clone();
        pools.iter().filter_map(Weak::upgrade).for_each(|pool| pool.empty());
        Block::allocate(capacity)
    })
}

impl BufferPool {
    /// Returns an empty pool, which is emptied again before an allocation of the process fails.
    pub fn new() -> Arc<BufferPool> {
        let pool = Arc::default();
        let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
        pools.retain(|pool| pool.strong_count() > 0);
        pools.push(Arc::downgrade(&pool));
        pool
    }

    /// Notes that a run is over, and frees what recent runs did not use.
    #[inline]
    pub fn end_run(&self) {
        if self.is_active.load(Ordering::Relaxed) {
            let mut state = self.lock();
            let freed = state.end_run();
            self.is_active.store(state.free > ALWAYS_KEPT, Ordering::Relaxed);
            drop(state);
            drop(freed);
        }
    }

    /// Frees all free blocks, and from now on every block that comes back: the session has ended.
    pub fn close(&self) {
        self.lock().is_closed = true;
        self.empty();
    }

    /// Frees all free blocks.
    pub fn empty(&self) {
        let freed = self.lock().shrink(0);
        drop(freed);
    }

    pub(crate) fn take(&self, capacity: usize) -> Option<Block> {
        let block = self.lock().take(capacity);
        if !self.is_active.load(Ordering::Relaxed) {
            self.is_active.store(true, Ordering::Relaxed);
        }
        block
    }

    pub(crate) fn give_back(&self, block: Block) {
        let freed = self.lock().give_back(block);
        drop(freed);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The class of blocks of `capacity` bytes, with the counts of the current run.
    fn class(&mut self, capacity: usize) -> &mut Class {
        let class = &mut self.classes[class_of(capacity)];
        if class.run != self.run {
            (class.run, class.taken, class.peak) = (self.run, 0, 0);
        }
        class
    }

    fn take(&mut self, capacity: usize) -> Option<Block> {
        let class = self.class(capacity);
        class.taken += 1;
        let is_peak = class.taken > class.peak;
        class.peak = class.peak.max(class.taken);
        let block = class.blocks.pop_back();
        if is_peak {
            self.needed = self.needed.saturating_add(capacity);
        }
        let (block, _) = block?;
        self.free -= capacity;
        Some(block)
    }

    fn give_back(&mut self, block: Block) -> Freed {
        let capacity = block.capacity();
        // The last class is open-ended; its blocks differ in size.
        if self.is_closed || class_of(capacity) == CLASSES - 1 {
            return Freed::from_iter([block]);
        }
        let run = self.run;
        let class = self.class(capacity);
        // A block of an earlier run may come back before this run has taken any.
        class.taken = class.taken.saturating_sub(1);
        class.blocks.push_back((block, run));
        self.free += capacity;
        self.shrink(self.bound())
    }

    /// Bytes that may be free.
    fn bound(&self) -> usize {
        self.recent.max(self.needed).max(ALWAYS_KEPT)
    }

    fn end_run(&mut self) -> Freed {
        self.recent = self.needed.max(self.recent - self.recent.div_ceil(DECAY));
        self.needed = 0;
        self.run = self.run.wrapping_add(1);
        self.shrink(self.bound())
    }

    /// Takes out blocks, the least recently used first, until at most `bound` bytes are free.
    fn shrink(&mut self, bound: usize) -> Freed {
        let mut freed = Freed::new();
        while self.free > bound {
            let run = self.run;
            let age = |class: &Class| class.blocks.front().map(|(_, last)| run.wrapping_sub(*last));
            let oldest = self.classes.iter_mut().max_by_key(|class| age(class));
            let Some((block, _)) = oldest.and_then(|class| class.blocks.pop_front()) else { break };
            self.free -= block.capacity();
            freed.push(block);
        }
        freed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::MAX_SMALL;

    const MB: usize = 1 << 20;

    #[test]
    fn classes_are_tight() {
        for len in (0..5000).chain([1 << 20, (1 << 20) + 1, 3 << 21, (1 << 33) + 7]) {
            let capacity = class_size(len);
            assert!(capacity >= len && capacity.is_multiple_of(ALIGNMENT));
            assert!(len < 256 || capacity <= len + len / 4 + ALIGNMENT, "{len} -> {capacity}");
            assert_eq!(class_size(capacity), capacity, "{len}");
            // Small buffers are kept by capacity and taken by length.
            let is_small = capacity <= MAX_SMALL;
            assert!(!is_small || capacity / ALIGNMENT - 1 == len.saturating_sub(1) / ALIGNMENT);
            let class = class_of(capacity);
            assert_eq!((4 + class % 4) << (class / 4) >> 2, capacity, "{len}");
        }
    }

    fn free(pool: &BufferPool) -> usize {
        let state = pool.lock();
        let blocks = state.classes.iter().flat_map(|class| &class.blocks);
        assert_eq!(state.free, blocks.map(|(block, _)| block.capacity()).sum::<usize>());
        state.free
    }

    /// A run that has blocks of these sizes in use, all at once. Returns the number of new blocks.
    fn run(pool: &BufferPool, capacities: &[usize]) -> usize {
        let mut new = 0;
        let taken = capacities.iter().map(|&capacity| {
            pool.take(capacity).unwrap_or_else(|| {
                new += 1;
                Block::allocate(capacity).unwrap()
            })
        });
        let taken: Vec<Block> = taken.collect();
        taken.into_iter().for_each(|block| pool.give_back(block));
        pool.end_run();
        new
    }

    #[test]
    fn the_same_run_again_needs_no_new_memory() {
        let pool = BufferPool::default();
        let sizes = [16 * MB, 16 * MB, 5 * MB, 4096, 64 * MB];
        assert_eq!(run(&pool, &sizes), sizes.len());
        for _ in 0..2000 {
            assert_eq!(run(&pool, &sizes), 0);
        }
        assert_eq!(free(&pool), sizes.iter().sum());
    }

    #[test]
    fn what_a_client_holds_for_a_while_is_replaced_once() {
        let pool = BufferPool::default();
        let mut held = Block::allocate(16 * MB).unwrap();
        let mut new = 0;
        for _ in 0..100 {
            let next = pool.take(16 * MB).unwrap_or_else(|| {
                new += 1;
                Block::allocate(16 * MB).unwrap()
            });
            pool.end_run();
            pool.give_back(std::mem::replace(&mut held, next));
        }
        assert_eq!(new, 1);
    }

    #[test]
    fn changing_sizes_keep_what_one_run_needs() {
        let pool = BufferPool::default();
        for index in 0..300 {
            run(&pool, &[class_size((index * 7919 % 256 + 1) << 16)]);
            assert!(free(&pool) <= 16 * MB);
        }
    }

    #[test]
    fn memory_that_is_not_used_any_more_is_freed_by_and_by() {
        let pool = BufferPool::default();
        run(&pool, &[64 * MB, 32 * MB, 32 * MB]);
        run(&pool, &[MB]);
        assert!(free(&pool) > 64 * MB);
        for _ in 0..100 {
            run(&pool, &[MB]);
        }
        assert!((32 * MB..100 * MB).contains(&free(&pool)), "{}", free(&pool));
        for _ in 0..1000 {
            run(&pool, &[MB]);
        }
        assert!(free(&pool) <= ALWAYS_KEPT);
        assert_eq!(run(&pool, &[MB]), 0);
        // Runs that take nothing count as well.
        run(&pool, &[64 * MB]);
        (0..2000).for_each(|_| pool.end_run());
        assert!(free(&pool) <= ALWAYS_KEPT && !pool.is_active.load(Ordering::Relaxed));
    }

    #[test]
    fn a_closed_pool_keeps_nothing() {
        let pool = BufferPool::new();
        let held = Block::allocate(MB).unwrap();
        run(&pool, &[MB, 4096]);
        pool.close();
        assert_eq!(free(&pool), 0);
        pool.give_back(held);
        assert_eq!(free(&pool), 0);
    }

    #[test]
    fn pools_are_emptied_before_an_allocation_fails() {
        let pool = BufferPool::new();
        run(&pool, &[MB, 4096]);
        assert!(free(&pool) > 0);
        assert!(allocate(1 << 60, None).is_none());
        assert_eq!(free(&pool), 0);
    }
}

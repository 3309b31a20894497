//! Small blocks: the memory of scalars and short vectors, which graphs of small ops allocate all the time.
//!
//! Each thread keeps the blocks that it frees and takes them again, without a lock and without the system's allocator, for
//! which 64-byte alignment is an effort.

use std::alloc::{self, Layout};
use std::cell::RefCell;

use crate::buffer::ALIGNMENT;

/// The largest small block, in bytes.
pub(crate) const MAX_SMALL: usize = 4 * ALIGNMENT;

/// So many blocks of each size a thread keeps.
const MAX_KEPT: usize = 2048;

#[derive(Default)]
struct Kept {
    /// By size: one to four times the alignment.
    bins: [Vec<*mut u8>; MAX_SMALL / ALIGNMENT],
}

thread_local! {
    static KEPT: RefCell<Kept> = RefCell::default();
}

impl Drop for Kept {
    fn drop(&mut self) {
        for (index, bin) in self.bins.iter_mut().enumerate() {
            for block in bin.drain(..) {
                // SAFETY: the bin holds unused blocks that were allocated with this layout.
                unsafe { alloc::dealloc(block, layout((index + 1) * ALIGNMENT)) };
            }
        }
    }
}

fn layout(capacity: usize) -> Layout {
    Layout::from_size_align(capacity, ALIGNMENT).expect("small sizes are valid")
}

/// A block of `capacity` bytes, a multiple of the alignment and at most [`MAX_SMALL`]. All of it is initialised,
/// to whatever; null if there is no memory.
pub(crate) fn take(capacity: usize) -> *mut u8 {
    // A thread that is ending has nothing kept any more.
    let kept = KEPT.try_with(|kept| kept.borrow_mut().bins[capacity / ALIGNMENT - 1].pop());
    match kept {
        Ok(Some(block)) => block,
        // SAFETY: the layout has a non-zero size.
        _ => unsafe { alloc::alloc_zeroed(layout(capacity)) },
    }
}

/// Takes a block back.
///
/// # Safety
/// `block` must come from [`take`] with this capacity, and not be used any more.
pub(crate) unsafe fn give_back(block: *mut u8, capacity: usize) {
    let is_kept = KEPT.try_with(|kept| {
        let bin = &mut kept.borrow_mut().bins[capacity / ALIGNMENT - 1];
        let has_room = bin.len() < MAX_KEPT;
        if has_room {
            bin.push(block);
        }
        has_room
    });
    if is_kept != Ok(true) {
        // SAFETY: allocated with this layout, and now unused.
        unsafe { alloc::dealloc(block, layout(capacity)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_takes_its_own_blocks_again() {
        let first = take(128);
        assert_eq!(first as usize % ALIGNMENT, 0);
        // SAFETY: just taken.
        unsafe { give_back(first, 128) };
        assert_ne!(take(64), first);
        assert_eq!(take(128), first);
        let address = first as usize;
        let give_back = move || {
            // SAFETY: just taken; another thread may free it.
            unsafe { give_back(address as *mut u8, 128) }
        };
        std::thread::spawn(give_back).join().unwrap();
    }
}

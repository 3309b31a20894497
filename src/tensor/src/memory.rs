//! `Block`: a piece of raw memory.
//!
//! Large blocks are mapped one by one. The C library's allocator would keep freed ones (its threshold for
//! mapping rises to the size of whatever is freed), so that a process would hold the sum of its peaks.

use std::alloc;
use std::alloc::Layout;
use std::ptr::NonNull;

use crate::ALIGNMENT;

/// Blocks of at least this many bytes are mapped. Below, two system calls and the page faults cost more than clearing.
const MIN_MAPPED: usize = 1 << 20;

/// Memory of its own, aligned to [`ALIGNMENT`]. All bytes are initialised. Dropping it frees it.
pub(crate) struct Block {
    data: NonNull<u8>,
    capacity: usize,
}

// SAFETY: the block owns its memory; no other pointer to it is used.
unsafe impl Send for Block {}
// SAFETY: the memory is not accessed through a shared block.
unsafe impl Sync for Block {}

impl Block {
    /// Returns a block of `capacity` zero bytes, a multiple of the alignment, or `None` if there is no memory.
    pub(crate) fn allocate(capacity: usize) -> Option<Block> {
        debug_assert!(capacity > 0 && capacity.is_multiple_of(ALIGNMENT));
        let data = match capacity >= MIN_MAPPED {
            true => map(capacity)?,
            // SAFETY: the layout has a non-zero size.
            false => NonNull::new(unsafe { alloc::alloc_zeroed(layout(capacity)) })?,
        };
        Some(Block { data, capacity })
    }

    /// The size in bytes.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    pub(crate) fn as_ptr(&self) -> *mut u8 {
        self.data.as_ptr()
    }

    /// Sets the first `len` bytes to zero.
    pub(crate) fn clear(&mut self, len: usize) {
        assert!(len <= self.capacity);
        // SAFETY: the block is ours alone and has at least `len` bytes.
        unsafe { self.data.as_ptr().write_bytes(0, len) };
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        match self.capacity >= MIN_MAPPED {
            true => unmap(self.data, self.capacity),
            // SAFETY: the block was allocated with this layout.
            false => unsafe { alloc::dealloc(self.data.as_ptr(), layout(self.capacity)) },
        }
    }
}

fn layout(capacity: usize) -> Layout {
    Layout::from_size_align(capacity, ALIGNMENT).expect("capacities are below isize::MAX")
}

/// Maps zero pages.
fn map(capacity: usize) -> Option<NonNull<u8>> {
    let (protection, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping at an address of the system's choice touches no memory in use.
    let data = unsafe { libc::mmap(std::ptr::null_mut(), capacity, protection, flags, -1, 0) };
    if data == libc::MAP_FAILED { None } else { NonNull::new(data.cast()) }
}

fn unmap(data: NonNull<u8>, capacity: usize) {
    // SAFETY: the block was mapped with this size and is not used any more.
    let result = unsafe { libc::munmap(data.as_ptr().cast(), capacity) };
    debug_assert_eq!(result, 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_zero_and_aligned() {
        for capacity in [64, 4096, MIN_MAPPED - 64, MIN_MAPPED, 5 * MIN_MAPPED / 4] {
            for _ in 0..2 {
                let mut block = Block::allocate(capacity).unwrap();
                assert_eq!(block.as_ptr() as usize % ALIGNMENT, 0);
                // SAFETY: the block has this size, and all of its bytes are initialised.
                let bytes = unsafe { std::slice::from_raw_parts_mut(block.as_ptr(), capacity) };
                assert!(bytes.iter().all(|&byte| byte == 0), "{capacity}");
                bytes.fill(7);
                block.clear(capacity / 2);
                assert_eq!((bytes[capacity / 2 - 1], bytes[capacity / 2]), (0, 7));
            }
        }
    }
}

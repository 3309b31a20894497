//! `Share`: a tensor's part in a buffer; and the small buffers that each thread keeps.
//!
//! Graphs of small ops make and drop the buffers of scalars and short vectors all the time. The thread that drops the
//! last share of one keeps it, block and count together, and takes it again: no lock, and neither of the two calls
//! of the system's allocator.

use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Weak};

use tfcore_base::{DType, Result};

use crate::{ALIGNMENT, Buffer, BufferPool};

/// The largest small buffer, in bytes.
pub(crate) const MAX_SMALL: usize = 4 * ALIGNMENT;

/// So many buffers of each size a thread keeps.
const MAX_KEPT: usize = 2048;

/// Buffers that nobody shares, by size: one to four times the alignment.
type Kept = [Vec<Arc<Buffer>>; MAX_SMALL / ALIGNMENT];

thread_local! {
    static KEPT: RefCell<Kept> =
        const { RefCell::new([const { Vec::new() }; MAX_SMALL / ALIGNMENT]) };
}

/// A counted reference to a buffer.
#[derive(Clone)]
pub(crate) struct Share(ManuallyDrop<Arc<Buffer>>);

impl Share {
    pub(crate) fn new(buffer: Buffer) -> Share {
        Share(ManuallyDrop::new(Arc::new(buffer)))
    }

    /// A share in a buffer for `count` elements; see [`Buffer::allocate`].
    pub(crate) fn allocate(
        dtype: DType,
        count: usize,
        pool: Option<&Arc<BufferPool>>,
    ) -> Result<Share> {
        if dtype.is_plain()
            && count <= MAX_SMALL
            && let len = count * dtype.size()
            && len <= MAX_SMALL
            && let Some(kept) = take(len)
        {
            // SAFETY: what is kept had one share when it was dropped, so that nobody could make another, and small buffers have
            // no watch. `Arc::get_mut` would ask with a locked instruction, a twentieth of what a small op takes.
            let buffer = unsafe { &mut *Arc::as_ptr(&kept).cast_mut() };
            buffer.begin_again(dtype, len, pool.is_none());
            return Ok(Share(ManuallyDrop::new(kept)));
        }
        Buffer::allocate(dtype, count, pool).map(Share::new)
    }

    /// Whether there is no other share.
    #[inline]
    pub(crate) fn is_last(&self) -> bool {
        let is_last = Arc::strong_count(&self.0) == 1;
        if is_last {
            // Whoever held the buffer before may have read it on another thread; those reads come first.
            fence(Ordering::Acquire);
        }
        is_last
    }

    /// A reference that does not count; `None` for a small buffer, which lives on when nobody uses it.
    pub(crate) fn watch(&self) -> Option<Weak<Buffer>> {
        self.small_capacity().is_none().then(|| Arc::downgrade(&self.0))
    }

    pub(crate) fn is_of(&self, other: &Share) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Deref for Share {
    type Target = Buffer;

    #[inline]
    fn deref(&self) -> &Buffer {
        &self.0
    }
}

impl Drop for Share {
    #[inline]
    fn drop(&mut self) {
        let is_last = self.is_last();
        // SAFETY: the share is not used any more.
        let buffer = unsafe { ManuallyDrop::take(&mut self.0) };
        // Of two threads that drop the last two shares at once neither may see itself as the last: then the count frees
        // the buffer.
        if is_last && let Some(capacity) = buffer.small_capacity() {
            keep(buffer, capacity);
        }
    }
}

/// A kept buffer of at least `len` bytes, which are at most [`MAX_SMALL`].
#[inline]
fn take(len: usize) -> Option<Arc<Buffer>> {
    // A thread that is ending has nothing kept any more.
    KEPT.try_with(|kept| kept.borrow_mut()[len.saturating_sub(1) / ALIGNMENT].pop()).ok()?
}

fn keep(buffer: Arc<Buffer>, capacity: usize) {
    let _is_over = KEPT.try_with(move |kept| {
        let bin = &mut kept.borrow_mut()[capacity / ALIGNMENT - 1];
        if bin.len() < MAX_KEPT {
            bin.push(buffer);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_takes_its_own_buffers_again() {
        let pool = Arc::new(BufferPool::default());
        let floats = |count| Share::allocate(DType::FLOAT, count, Some(&pool)).unwrap();
        let first = floats(32);
        let address = first.as_ptr();
        assert_eq!(address as usize % ALIGNMENT, 0);
        let second = first.clone();
        assert!(!first.is_last());
        drop(first);
        assert!(second.is_last());
        drop(second);
        assert_ne!(floats(16).as_ptr(), address);
        let again = floats(31);
        assert_eq!((again.as_ptr(), again.len()), (address, 124));
        std::thread::spawn(move || drop(again)).join().unwrap();
    }

    #[test]
    fn a_buffer_that_is_taken_again_is_clean_if_it_has_to_be() {
        let pool = Arc::new(BufferPool::default());
        let dirty = || {
            let share = Share::allocate(DType::UINT8, 64, Some(&pool)).unwrap();
            // SAFETY: the buffer has so many bytes and no other share.
            unsafe { share.as_ptr().write_bytes(7, 64) };
        };
        let cases =
            [(DType::BOOL, Some(&pool), 0), (DType::INT8, None, 0), (DType::INT8, Some(&pool), 7)];
        for (dtype, pool, expected) in cases {
            dirty();
            let share = Share::allocate(dtype, 64, pool).unwrap();
            // SAFETY: all bytes of a buffer are initialised.
            let bytes = unsafe { std::slice::from_raw_parts(share.as_ptr(), 64) };
            assert!(bytes.iter().all(|&byte| byte == expected), "{dtype}");
        }
    }
}

//! `Buffer`: the memory behind tensors.

use std::ffi::c_void;
use std::sync::Arc;

use bytes::Bytes;
use tfcore_base::{DType, Elem, Result, resource_exhausted};

use crate::memory::Block;
use crate::pool::{self, BufferPool, class_size};
use crate::share::MAX_SMALL;
use crate::{ResourceHandle, TString, Variant};

/// The alignment of every buffer that the library allocates, in bytes.
pub const ALIGNMENT: usize = 64;

/// What frees a client's memory: called with the data, its length and the client's argument.
pub type Deallocator = unsafe extern "C" fn(data: *mut c_void, len: usize, arg: *mut c_void);

/// A block of memory with one owner; tensors share it through an `Arc`.
///
/// All of its bytes are initialised, and hold valid elements of the dtype it was made for.
pub struct Buffer {
    /// May be null only if `len` is 0.
    data: *mut u8,
    len: usize,
    owner: Owner,
}

enum Owner {
    /// Our own block, present until the drop. It goes back to the pool, if there is one.
    Heap { block: Option<Block>, pool: Option<Arc<BufferPool>>, elements: Option<Elements> },
    /// A client's block, given back through its deallocator.
    Client { deallocator: Option<Deallocator>, arg: *mut c_void },
    /// Bytes that were read from outside; kept for their `Drop`.
    Bytes { _bytes: Bytes },
}

/// Elements that must be dropped one by one.
struct Elements {
    count: usize,
    drop: unsafe fn(*mut u8, usize),
}

// SAFETY: the memory is only written through `&mut Buffer`; a client's deallocator may run on any
// thread by the C API's contract.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// A block for `count` elements of `dtype`. Strings, handles and variants are empty; plain
    /// elements are zero or, from a pool, whatever the last user left.
    ///
    /// # Errors
    /// `ResourceExhausted` if there is no memory of that size.
    pub fn allocate(dtype: DType, count: usize, pool: Option<&Arc<BufferPool>>) -> Result<Buffer> {
        let out_of_memory =
            || resource_exhausted!("OOM when allocating {count} elements of type {dtype}");
        let len = count
            .checked_mul(dtype.size())
            .filter(|&len| len <= isize::MAX as usize / 2)
            .ok_or_else(out_of_memory)?;
        let capacity = class_size(len);
        // A recycled byte is no valid handle.
        let is_pooled = dtype.is_plain() && capacity > MAX_SMALL;
        let pool = pool.filter(|_| is_pooled);
        let block = match pool.and_then(|pool| pool.take(capacity)) {
            Some(mut block) => {
                // A recycled byte may be no valid `bool`.
                if dtype == DType::BOOL {
                    block.clear(len);
                }
                block
            }
            None => pool::allocate(capacity, pool.map(|pool| &**pool)).ok_or_else(out_of_memory)?,
        };
        let data = block.as_ptr();
        let elements = match dtype {
            // SAFETY: the block has room for `count` elements of the dtype.
            DType::STRING => Some(unsafe { fill_default::<TString>(data, count) }),
            // SAFETY: as above.
            DType::RESOURCE => Some(unsafe { fill_default::<ResourceHandle>(data, count) }),
            // SAFETY: as above.
            DType::VARIANT => Some(unsafe { fill_default::<Variant>(data, count) }),
            _ => None,
        };
        Ok(Buffer {
            data,
            len,
            owner: Owner::Heap { block: Some(block), pool: pool.cloned(), elements },
        })
    }

    /// Adopts a client's memory; `deallocator` runs when the last reference is gone.
    ///
    /// # Safety
    /// `data` must be valid for reads of `len` bytes (it may be null if `len` is 0) until the
    /// deallocator has run, and hold valid elements of the dtype it is used with.
    pub unsafe fn from_client(
        data: *mut c_void,
        len: usize,
        deallocator: Option<Deallocator>,
        arg: *mut c_void,
    ) -> Buffer {
        Buffer { data: data.cast(), len, owner: Owner::Client { deallocator, arg } }
    }

    /// Adopts bytes that were read from outside.
    pub fn from_bytes(bytes: Bytes) -> Buffer {
        let data = bytes.as_ptr().cast_mut();
        Buffer { data, len: bytes.len(), owner: Owner::Bytes { _bytes: bytes } }
    }

    /// Makes a small buffer that nobody shares one for `len` bytes of a plain dtype; `cleared` if they must be zero.
    pub(crate) fn begin_again(&mut self, dtype: DType, len: usize, cleared: bool) {
        debug_assert!(self.small_capacity().is_some_and(|capacity| len <= capacity));
        self.len = len;
        // A recycled byte may be no valid `bool`.
        if cleared || dtype == DType::BOOL {
            // SAFETY: a small buffer is our own block of at least so many bytes.
            unsafe { self.data.write_bytes(0, len) };
        }
    }

    /// The size of the block if it is one that threads keep: small, our own, and without elements to drop.
    #[inline]
    pub(crate) fn small_capacity(&self) -> Option<usize> {
        match self.owner {
            Owner::Heap { block: Some(ref block), pool: None, elements: None }
                if block.capacity() <= MAX_SMALL =>
            {
                Some(block.capacity())
            }
            _ => None,
        }
    }

    /// The length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn as_ptr(&self) -> *mut u8 {
        self.data
    }

    /// Whether the library allocated the memory, and so may write it when nobody else holds it.
    pub fn is_ours(&self) -> bool {
        matches!(self.owner, Owner::Heap { .. })
    }
}

/// Fills uninitialised or zeroed memory with empty elements.
///
/// # Safety
/// `data` must have room for `count` values of `T` and hold none yet.
unsafe fn fill_default<T: Elem>(data: *mut u8, count: usize) -> Elements {
    for index in 0..count {
        // SAFETY: as the caller promises.
        unsafe { data.cast::<T>().add(index).write(T::default()) };
    }
    Elements { count, drop: drop_elements::<T> }
}

/// # Safety
/// `data` must hold `count` initialised values of `T`, which are not used again.
unsafe fn drop_elements<T>(data: *mut u8, count: usize) {
    // SAFETY: as the caller promises.
    unsafe { std::ptr::drop_in_place(std::ptr::slice_from_raw_parts_mut(data.cast::<T>(), count)) }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        match &mut self.owner {
            Owner::Heap { block, pool, elements } => {
                if let Some(Elements { count, drop }) = elements {
                    // SAFETY: the block was filled with so many elements of the type that `drop` is for.
                    unsafe { drop(self.data, *count) };
                }
                if let (Some(pool), Some(block)) = (pool, block.take()) {
                    pool.give_back(block);
                }
            }
            Owner::Client { deallocator: Some(deallocator), arg } => {
                // SAFETY: the client handed both over for this one call.
                unsafe { deallocator(self.data.cast(), self.len, *arg) };
            }
            Owner::Client { deallocator: None, .. } | Owner::Bytes { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_hands_the_same_block_out_again() {
        let pool = Arc::new(BufferPool::default());
        let first = Buffer::allocate(DType::FLOAT, 1000, Some(&pool)).unwrap();
        let address = first.as_ptr();
        drop(first);
        let second = Buffer::allocate(DType::INT32, 999, Some(&pool)).unwrap();
        assert_eq!(second.as_ptr(), address);
        assert_eq!(address as usize % ALIGNMENT, 0);
    }

    #[test]
    fn impossible_sizes_are_errors() {
        for count in [usize::MAX, usize::MAX / 8, isize::MAX as usize / 16] {
            assert!(Buffer::allocate(DType::DOUBLE, count, None).is_err());
        }
    }
}

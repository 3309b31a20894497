//! Working memory of kernels: buffers that a thread keeps from one call to the next.
//!
//! A panel that is allocated anew for each product costs a page fault for every four kilobytes of it, which is more than
//! packing it.

use std::cell::RefCell;
use std::marker::PhantomData;

/// Bytes of the largest buffer that is kept.
const LARGEST_KEPT: usize = 8 << 20;

/// Buffers that a thread keeps: as many as kernels nest.
const KEPT: usize = 4;

/// A cache line, of which buffers are made.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; 64]);

thread_local! {
    static BUFFERS: RefCell<Vec<Vec<Line>>> = const { RefCell::new(Vec::new()) };
}

/// A type of which every pattern of bits is a value, and which needs no more than the alignment of a cache line.
///
/// # Safety
/// The type is as it says.
pub(crate) unsafe trait Bits: Copy + Send + Sync + 'static {}

macro_rules! bits {
    ($($t:ty)*) => {
        // SAFETY: numbers have no invalid values.
        $(unsafe impl Bits for $t {})*
    };
}
bits!(u8 i8 u16 i16 u32 i32 u64 i64 f32 f64 half::f16 half::bf16);

/// Calls `f` with a buffer of `len` elements, of unspecified values and aligned to cache lines.
pub(crate) fn with<T: Bits, R>(len: usize, f: impl FnOnce(&mut [T]) -> R) -> R {
    let bytes = len.checked_mul(size_of::<T>()).expect("a buffer smaller than the address space");
    let lines = bytes.div_ceil(size_of::<Line>());
    let mut buffer = BUFFERS.with_borrow_mut(Vec::pop).unwrap_or_default();
    if buffer.len() < lines {
        // Dropped first: its values need not be copied.
        drop(buffer);
        buffer = vec![Line([0; 64]); lines];
    }
    // SAFETY: the buffer has so many bytes, all initialised, and any bits are a `T`.
    let result = f(unsafe { std::slice::from_raw_parts_mut(buffer.as_mut_ptr().cast(), len) });
    if buffer.len() <= LARGEST_KEPT / size_of::<Line>() {
        BUFFERS.with_borrow_mut(|buffers| {
            if buffers.len() < KEPT {
                buffers.push(buffer);
            }
        });
    }
    result
}

/// A buffer of its own, aligned to cache lines.
pub(crate) struct Buffer<T> {
    lines: Vec<Line>,
    len: usize,
    element: PhantomData<T>,
}

impl<T: Bits> Buffer<T> {
    /// A buffer of `len` zeros.
    pub(crate) fn zeros(len: usize) -> Self {
        let bytes =
            len.checked_mul(size_of::<T>()).expect("a buffer smaller than the address space");
        let lines = vec![Line([0; 64]); bytes.div_ceil(size_of::<Line>())];
        Buffer { lines, len, element: PhantomData }
    }

    pub(crate) fn as_slice(&self) -> &[T] {
        // SAFETY: the lines have so many elements, all initialised, and any bits are a `T`.
        unsafe { std::slice::from_raw_parts(self.lines.as_ptr().cast(), self.len) }
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [T] {
        // SAFETY: as above, and the buffer is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), self.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::with;

    #[test]
    fn buffers_nest_and_are_kept() {
        let place = with::<f32, _>(1000, |outer| {
            outer.fill(1.0);
            with::<f64, _>(10, |inner| inner.fill(2.0));
            assert!(outer.iter().all(|&v| v == 1.0));
            outer.as_ptr() as usize
        });
        assert_eq!(place % 64, 0);
        with::<u8, _>(0, |empty| assert!(empty.is_empty()));
        assert!(with::<f32, _>(1000, |again| again.as_ptr() as usize) % 64 == 0);
    }
}

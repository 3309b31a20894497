//! The kernels without intrinsics, for processors without vectors of ours, and what the others share with them.

use super::kernel::{Kernels, Machine, kernels};

/// Arrays that the compiler turns into the baseline's vectors.
#[derive(Clone, Copy)]
struct Plain<T>(std::marker::PhantomData<T>);

macro_rules! plain {
    ($t:ty, $lanes:literal) => {
        // SAFETY: the functions do what `Machine` says.
        #[allow(unsafe_op_in_unsafe_fn, reason = "each function is one instruction")]
        unsafe impl Machine for Plain<$t> {
            type Unit = $t;
            type Sum = $t;
            type Factors = [$t; $lanes];
            type Sums = [$t; $lanes];

            const LANES: usize = $lanes;

            #[inline(always)]
            unsafe fn zero() -> [$t; $lanes] {
                [0.0; $lanes]
            }

            #[inline(always)]
            unsafe fn broadcast(p: *const $t) -> [$t; $lanes] {
                [*p; $lanes]
            }

            #[inline(always)]
            unsafe fn factors(p: *const $t) -> [$t; $lanes] {
                p.cast::<[$t; $lanes]>().read_unaligned()
            }

            #[inline(always)]
            unsafe fn first_factors(p: *const $t, count: usize) -> [$t; $lanes] {
                let mut lanes = [0.0; $lanes];
                for i in 0..count {
                    lanes[i] = *p.wrapping_add(i);
                }
                lanes
            }

            #[inline(always)]
            unsafe fn sums(p: *const $t) -> [$t; $lanes] {
                p.cast::<[$t; $lanes]>().read_unaligned()
            }

            #[inline(always)]
            unsafe fn first_sums(p: *const $t, count: usize) -> [$t; $lanes] {
                Self::first_factors(p, count)
            }

            #[inline(always)]
            unsafe fn store(p: *mut $t, sums: [$t; $lanes]) {
                p.cast::<[$t; $lanes]>().write_unaligned(sums)
            }

            #[inline(always)]
            unsafe fn store_first(p: *mut $t, count: usize, sums: [$t; $lanes]) {
                for i in 0..count {
                    *p.wrapping_add(i) = sums[i];
                }
            }

            #[inline(always)]
            unsafe fn multiply_add(
                mut sums: [$t; $lanes],
                a: [$t; $lanes],
                b: [$t; $lanes],
            ) -> [$t; $lanes] {
                for i in 0..$lanes {
                    sums[i] += a[i] * b[i];
                }
                sums
            }

            #[inline(always)]
            unsafe fn add(mut x: [$t; $lanes], y: [$t; $lanes]) -> [$t; $lanes] {
                for i in 0..$lanes {
                    x[i] += y[i];
                }
                x
            }

            #[inline(always)]
            unsafe fn total(sums: [$t; $lanes]) -> $t {
                total(&sums)
            }
        }
    };
}
plain!(f32, 4);
plain!(f64, 2);

/// The sum of a vector's lanes, a power of two of them, by halves.
#[inline(always)]
pub(super) fn total<T: Copy + std::ops::Add<Output = T>, const N: usize>(lanes: &[T; N]) -> T {
    let mut lanes = *lanes;
    let mut width = N / 2;
    while width > 0 {
        for i in 0..width {
            lanes[i] = lanes[i] + lanes[i + width];
        }
        width /= 2;
    }
    lanes[0]
}

pub(super) fn f32_kernels() -> &'static Kernels<f32, f32> {
    kernels!(Plain<f32>, [], transpose::<f32>, [1 2 3 4 5 6])
}

pub(super) fn f64_kernels() -> &'static Kernels<f64, f64> {
    kernels!(Plain<f64>, [], transpose::<f64>, [1 2 3 4 5 6])
}

/// Transposes element by element.
///
/// # Safety
/// That of [`TransposeFn`](super::kernel::TransposeFn).
pub(super) unsafe fn transpose<T: Copy>(
    from: *const T,
    from_stride: usize,
    rows: usize,
    cols: usize,
    out: *mut T,
    out_stride: usize,
) {
    for j in 0..cols {
        for i in 0..rows {
            // SAFETY: the caller's promise.
            unsafe {
                *out.wrapping_add(j * out_stride + i) = *from.wrapping_add(i * from_stride + j)
            };
        }
    }
}

/// Transposes with `block` for blocks of `N` x `N`, given their first elements, and element by element what is left over.
///
/// # Safety
/// That of [`TransposeFn`](super::kernel::TransposeFn).
#[inline(always)]
pub(super) unsafe fn transpose_blocks<T: Copy, const N: usize>(
    from: *const T,
    from_stride: usize,
    rows: usize,
    cols: usize,
    out: *mut T,
    out_stride: usize,
    block: impl Fn(*const T, *mut T),
) {
    let (whole_rows, whole_cols) = (rows / N * N, cols / N * N);
    for i in (0..whole_rows).step_by(N) {
        for j in (0..whole_cols).step_by(N) {
            block(from.wrapping_add(i * from_stride + j), out.wrapping_add(j * out_stride + i));
        }
    }
    // SAFETY: the caller's promise; these are the last rows, and the last columns of the others.
    unsafe {
        let last = from.wrapping_add(whole_rows * from_stride);
        transpose(
            last,
            from_stride,
            rows - whole_rows,
            cols,
            out.wrapping_add(whole_rows),
            out_stride,
        );
        let right = from.wrapping_add(whole_cols);
        let below = out.wrapping_add(whole_cols * out_stride);
        transpose(right, from_stride, whole_rows, cols - whole_cols, below, out_stride);
    }
}

//! The vectors of x86: AVX-512 and AVX2 for f32 and f64.

use std::arch::x86_64::*;

use super::kernel::{Kernels, Machine, kernels};
use super::plain;
use crate::isa::{Level, level};

/// 512-bit vectors with masks.
#[derive(Clone, Copy)]
struct Avx512<T>(std::marker::PhantomData<T>);

/// 256-bit vectors.
#[derive(Clone, Copy)]
struct Avx2<T>(std::marker::PhantomData<T>);

macro_rules! avx512 {
    ($t:ty, $vector:ty, $lanes:literal, $mask:ty, $zero:ident, $set1:ident, $load:ident, $load_mask:ident, $store:ident,
     $store_mask:ident, $fma:ident, $add:ident, $reduce:ident) => {
        // SAFETY: the functions do what `Machine` says, by the definitions of the instructions.
        #[allow(unsafe_op_in_unsafe_fn, reason = "each function is one instruction")]
        unsafe impl Machine for Avx512<$t> {
            type Unit = $t;
            type Sum = $t;
            type Factors = $vector;
            type Sums = $vector;

            const LANES: usize = $lanes;

            #[inline(always)]
            unsafe fn zero() -> $vector {
                $zero()
            }

            #[inline(always)]
            unsafe fn broadcast(p: *const $t) -> $vector {
                $set1(*p)
            }

            #[inline(always)]
            unsafe fn factors(p: *const $t) -> $vector {
                $load(p)
            }

            #[inline(always)]
            unsafe fn first_factors(p: *const $t, count: usize) -> $vector {
                $load_mask(((1u32 << count) - 1) as $mask, p)
            }

            #[inline(always)]
            unsafe fn sums(p: *const $t) -> $vector {
                $load(p)
            }

            #[inline(always)]
            unsafe fn first_sums(p: *const $t, count: usize) -> $vector {
                $load_mask(((1u32 << count) - 1) as $mask, p)
            }

            #[inline(always)]
            unsafe fn store(p: *mut $t, sums: $vector) {
                $store(p, sums)
            }

            #[inline(always)]
            unsafe fn store_first(p: *mut $t, count: usize, sums: $vector) {
                $store_mask(p, ((1u32 << count) - 1) as $mask, sums)
            }

            #[inline(always)]
            unsafe fn multiply_add(sums: $vector, a: $vector, b: $vector) -> $vector {
                $fma(a, b, sums)
            }

            #[inline(always)]
            unsafe fn add(x: $vector, y: $vector) -> $vector {
                $add(x, y)
            }

            #[inline(always)]
            unsafe fn total(sums: $vector) -> $t {
                $reduce(sums)
            }
        }
    };
}
avx512!(
    f32,
    __m512,
    16,
    __mmask16,
    _mm512_setzero_ps,
    _mm512_set1_ps,
    _mm512_loadu_ps,
    _mm512_maskz_loadu_ps,
    _mm512_storeu_ps,
    _mm512_mask_storeu_ps,
    _mm512_fmadd_ps,
    _mm512_add_ps,
    _mm512_reduce_add_ps
);
avx512!(
    f64,
    __m512d,
    8,
    __mmask8,
    _mm512_setzero_pd,
    _mm512_set1_pd,
    _mm512_loadu_pd,
    _mm512_maskz_loadu_pd,
    _mm512_storeu_pd,
    _mm512_mask_storeu_pd,
    _mm512_fmadd_pd,
    _mm512_add_pd,
    _mm512_reduce_add_pd
);

/// Eight ones, then eight zeros: a mask of `count` lanes of 32 bits begins at `8 - count`, one of 64 bits at two for each lane.
static MASK: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];

/// The mask of the first `lanes` lanes of 32 bits, `lanes <= 8`.
///
/// # Safety
/// The processor has AVX.
#[inline(always)]
unsafe fn mask(lanes: usize) -> __m256i {
    // SAFETY: eight elements from `8 - lanes` on lie in the array.
    unsafe { _mm256_loadu_si256(MASK.as_ptr().wrapping_add(8 - lanes).cast()) }
}

macro_rules! avx2 {
    ($t:ty, $vector:ty, $lanes:literal, $zero:ident, $set1:ident, $load:ident, $load_mask:ident, $store:ident,
     $store_mask:ident, $fma:ident, $add:ident) => {
        // SAFETY: as above.
        #[allow(unsafe_op_in_unsafe_fn, reason = "each function is one instruction")]
        unsafe impl Machine for Avx2<$t> {
            type Unit = $t;
            type Sum = $t;
            type Factors = $vector;
            type Sums = $vector;

            const LANES: usize = $lanes;

            #[inline(always)]
            unsafe fn zero() -> $vector {
                $zero()
            }

            #[inline(always)]
            unsafe fn broadcast(p: *const $t) -> $vector {
                $set1(*p)
            }

            #[inline(always)]
            unsafe fn factors(p: *const $t) -> $vector {
                $load(p)
            }

            #[inline(always)]
            unsafe fn first_factors(p: *const $t, count: usize) -> $vector {
                $load_mask(p, mask(count * (8 / $lanes)))
            }

            #[inline(always)]
            unsafe fn sums(p: *const $t) -> $vector {
                $load(p)
            }

            #[inline(always)]
            unsafe fn first_sums(p: *const $t, count: usize) -> $vector {
                $load_mask(p, mask(count * (8 / $lanes)))
            }

            #[inline(always)]
            unsafe fn store(p: *mut $t, sums: $vector) {
                $store(p, sums)
            }

            #[inline(always)]
            unsafe fn store_first(p: *mut $t, count: usize, sums: $vector) {
                $store_mask(p, mask(count * (8 / $lanes)), sums)
            }

            #[inline(always)]
            unsafe fn multiply_add(sums: $vector, a: $vector, b: $vector) -> $vector {
                $fma(a, b, sums)
            }

            #[inline(always)]
            unsafe fn add(x: $vector, y: $vector) -> $vector {
                $add(x, y)
            }

            #[inline(always)]
            unsafe fn total(sums: $vector) -> $t {
                let mut lanes = [0.0; $lanes];
                $store(lanes.as_mut_ptr(), sums);
                plain::total(&lanes)
            }
        }
    };
}
avx2!(
    f32,
    __m256,
    8,
    _mm256_setzero_ps,
    _mm256_set1_ps,
    _mm256_loadu_ps,
    _mm256_maskload_ps,
    _mm256_storeu_ps,
    _mm256_maskstore_ps,
    _mm256_fmadd_ps,
    _mm256_add_ps
);
avx2!(
    f64,
    __m256d,
    4,
    _mm256_setzero_pd,
    _mm256_set1_pd,
    _mm256_loadu_pd,
    _mm256_maskload_pd,
    _mm256_storeu_pd,
    _mm256_maskstore_pd,
    _mm256_fmadd_pd,
    _mm256_add_pd
);

pub(super) fn f32_kernels() -> &'static Kernels<f32, f32> {
    match level() {
        l if l >= Level::Avx512 => kernels!(
            Avx512<f32>, [target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")], transpose_f32,
            [1 2 3 4 5 6 7 8 9 10 11 12]
        ),
        Level::Avx2 => {
            kernels!(Avx2<f32>, [target_feature(enable = "avx2,fma")], transpose_f32, [1 2 3 4 5 6])
        }
        _ => plain::f32_kernels(),
    }
}

pub(super) fn f64_kernels() -> &'static Kernels<f64, f64> {
    match level() {
        l if l >= Level::Avx512 => kernels!(
            Avx512<f64>, [target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")], transpose_f64,
            [1 2 3 4 5 6 7 8 9 10 11 12]
        ),
        Level::Avx2 => {
            kernels!(Avx2<f64>, [target_feature(enable = "avx2,fma")], transpose_f64, [1 2 3 4 5 6])
        }
        _ => plain::f64_kernels(),
    }
}

/// Transposes by blocks of 8 x 8 in registers; the rest element by element.
///
/// # Safety
/// That of [`TransposeFn`](super::kernel::TransposeFn), on a processor with AVX2.
#[target_feature(enable = "avx2")]
unsafe fn transpose_f32(
    from: *const f32,
    from_stride: usize,
    rows: usize,
    cols: usize,
    out: *mut f32,
    out_stride: usize,
) {
    // SAFETY: the caller's promise; blocks lie within rows and columns.
    unsafe {
        plain::transpose_blocks::<f32, 8>(
            from,
            from_stride,
            rows,
            cols,
            out,
            out_stride,
            |from, out| {
                // Row i in the low half, row i + 4 in the high half.
                let halves = |row: usize, col: usize| {
                    let low = _mm_loadu_ps(from.wrapping_add(row * from_stride + col));
                    let high = _mm_loadu_ps(from.wrapping_add((row + 4) * from_stride + col));
                    _mm256_set_m128(high, low)
                };
                for half in [0, 4] {
                    let [a, b, c, d] =
                        [halves(0, half), halves(1, half), halves(2, half), halves(3, half)];
                    let (ab, cd) = (_mm256_unpacklo_ps(a, b), _mm256_unpacklo_ps(c, d));
                    let (ef, gh) = (_mm256_unpackhi_ps(a, b), _mm256_unpackhi_ps(c, d));
                    let columns = [
                        _mm256_shuffle_ps::<0b01_00_01_00>(ab, cd),
                        _mm256_shuffle_ps::<0b11_10_11_10>(ab, cd),
                        _mm256_shuffle_ps::<0b01_00_01_00>(ef, gh),
                        _mm256_shuffle_ps::<0b11_10_11_10>(ef, gh),
                    ];
                    for (i, column) in columns.into_iter().enumerate() {
                        _mm256_storeu_ps(out.wrapping_add((half + i) * out_stride), column);
                    }
                }
            },
        );
    }
}

/// Transposes by blocks of 4 x 4 in registers; the rest element by element.
///
/// # Safety
/// That of [`TransposeFn`](super::kernel::TransposeFn), on a processor with AVX2.
#[target_feature(enable = "avx2")]
unsafe fn transpose_f64(
    from: *const f64,
    from_stride: usize,
    rows: usize,
    cols: usize,
    out: *mut f64,
    out_stride: usize,
) {
    // SAFETY: the caller's promise; blocks lie within rows and columns.
    unsafe {
        plain::transpose_blocks::<f64, 4>(
            from,
            from_stride,
            rows,
            cols,
            out,
            out_stride,
            |from, out| {
                let halves = |row: usize, col: usize| {
                    let low = _mm_loadu_pd(from.wrapping_add(row * from_stride + col));
                    let high = _mm_loadu_pd(from.wrapping_add((row + 2) * from_stride + col));
                    _mm256_set_m128d(high, low)
                };
                for half in [0, 2] {
                    let (a, b) = (halves(0, half), halves(1, half));
                    _mm256_storeu_pd(out.wrapping_add(half * out_stride), _mm256_unpacklo_pd(a, b));
                    _mm256_storeu_pd(
                        out.wrapping_add((half + 1) * out_stride),
                        _mm256_unpackhi_pd(a, b),
                    );
                }
            },
        );
    }
}

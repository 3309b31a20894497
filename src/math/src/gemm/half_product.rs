//! Products of half and bfloat16: operands are widened to f32 when they are packed, and the sums rounded once.

use std::ops::Range;

use half::{bf16, f16};

use super::block::{self, Left, Product, Right, Target, View};
use super::pack::{self, Panels};
use super::{AnyPanels, Job, MatRef, MatmulElem, Out, PackElem, Real, RightOperand};
use crate::isa::vectorize;
use crate::pool::Parallel;
use crate::scratch::{self, Bits};

/// A half type.
trait Half: MatmulElem<Sum = f32> + Bits {
    /// `to[i] = from[i]`, over slices of one length.
    fn widen(from: &[Self], to: &mut [f32]);

    /// `to[i] = from[i]` to the nearest, ties to even, over slices of one length.
    fn round(from: &[f32], to: &mut [Self]);
}

impl Half for bf16 {
    fn widen(from: &[bf16], to: &mut [f32]) {
        vectorize(
            #[inline(always)]
            || {
                for (to, from) in to.iter_mut().zip(from) {
                    *to = f32::from_bits(u32::from(from.to_bits()) << 16);
                }
            },
        );
    }

    fn round(from: &[f32], to: &mut [bf16]) {
        vectorize(
            #[inline(always)]
            || {
                for (to, from) in to.iter_mut().zip(from) {
                    let bits = from.to_bits();
                    let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
                    // A NaN's digits must not be rounded away, or up into the exponent.
                    let nan = bits >> 16 | 0x40;
                    let bits = if from.is_nan() { nan } else { rounded };
                    *to = bf16::from_bits(bits as u16);
                }
            },
        );
    }
}

impl Half for f16 {
    fn widen(from: &[f16], to: &mut [f32]) {
        half::slice::HalfFloatSliceExt::convert_to_f32_slice(from, to);
    }

    fn round(from: &[f32], to: &mut [f16]) {
        half::slice::HalfFloatSliceExt::convert_from_f32_slice(to, from);
    }
}

macro_rules! half {
    ($t:ty) => {
        impl MatmulElem for $t {
            type Sum = f32;

            const ZERO: $t = <$t>::ZERO;

            fn run(par: Parallel, job: &Job<'_, $t>) {
                products(par, job);
            }
        }

        impl PackElem for $t {
            fn pack(par: Parallel, k: usize, n: usize, b: MatRef<$t>) -> AnyPanels {
                let view = b.view(0);
                f32::any(Panels::new(par, f32::kernels(), k, n, &|cols, depths, out| {
                    // SAFETY: the caller has checked that the view has so many rows and columns.
                    unsafe { widen_panel(view, cols, depths, out) };
                }))
            }
        }
    };
}
half!(f16);
half!(bf16);

fn products<T: Half>(par: Parallel, job: &Job<'_, T>) {
    let pack_rows = |index, rows: Range<usize>, depths: Range<usize>, out: &mut [f32], stride| {
        let view = job.a.view((job.offsets)(index)[0]).at(rows.start, depths.start);
        // SAFETY: rows and depths lie in the operand.
        unsafe { widen_rows(view, rows.len(), depths.len(), out, stride) };
    };
    let pack_panel = |index, cols, depths, out: &mut [f32]| {
        if let RightOperand::Matrix(b) = job.b {
            // SAFETY: columns and depths lie in the operand.
            unsafe { widen_panel(b.view((job.offsets)(index)[1]), cols, depths, out) };
        }
    };
    let take = |index, rows: Range<usize>, cols: Range<usize>, sums: &mut [f32], stride| {
        let c = job.c.offset((job.offsets)(index)[2]);
        store(job, c, rows, cols, sums, stride);
    };
    block::run(par, f32::kernels(), job.count, &|index| Product {
        index,
        m: job.size.m,
        n: job.size.n,
        depth: job.size.k,
        left: Left::Packed(&pack_rows),
        right: match job.b {
            RightOperand::Matrix(_) => Right::Packed(&pack_panel),
            RightOperand::Panels(panels) => {
                Right::Panels(f32::of(panels).expect("half types have panels of f32"))
            }
        },
        target: Target::Blocks(&take),
    });
}

/// Widens rows to rows with this stride.
///
/// # Safety
/// The elements of the view are valid.
unsafe fn widen_rows<T: Half>(
    view: View<T>,
    rows: usize,
    cols: usize,
    out: &mut [f32],
    stride: usize,
) {
    let run = |from: View<T>, out: &mut [f32]| {
        for (i, out) in out.chunks_mut(stride).take(rows).enumerate() {
            // SAFETY: the caller's promise: a row of contiguous elements.
            let row = unsafe { std::slice::from_raw_parts(from.at(i, 0).data, cols) };
            T::widen(row, &mut out[..cols]);
        }
    };
    if view.col == 1 {
        return run(view, out);
    }
    scratch::with(rows * cols, |buffer: &mut [T]| {
        // SAFETY: the caller's promise, and the buffer is as large.
        unsafe { pack::rows(view, rows, cols, buffer.as_mut_ptr(), cols) };
        run(View { data: buffer.as_ptr(), row: cols, col: 1 }, out);
    });
}

/// Widens columns and depths of a right operand to a panel.
///
/// # Safety
/// The elements of the view are valid.
unsafe fn widen_panel<T: Half>(
    view: View<T>,
    cols: Range<usize>,
    depths: Range<usize>,
    out: &mut [f32],
) {
    let (width, count, depth) = (f32::kernels().panel(), cols.len(), depths.len());
    let from = view.at(depths.start, cols.start);
    // SAFETY: the caller's promise.
    unsafe {
        if from.row == 1 && from.col != 1 {
            // Columns are contiguous: widened first, then transposed.
            scratch::with(count * depth, |buffer: &mut [f32]| {
                widen_rows(from.transposed(), count, depth, buffer, depth);
                let wide = View { data: buffer.as_ptr(), row: 1, col: depth };
                pack::panel(f32::kernels(), wide, 0..count, 0..depth, out);
            });
        } else {
            widen_rows(from, depth, count, out, width);
            for row in out.chunks_exact_mut(width).take(depth) {
                row[count..].fill(0.0);
            }
        }
    }
}

/// Rounds and stores a block of sums.
fn store<T: Half>(
    job: &Job<'_, T>,
    c: Out<T>,
    rows: Range<usize>,
    cols: Range<usize>,
    sums: &mut [f32],
    stride: usize,
) {
    let mut rounded = [T::ZERO; 64];
    for (i, sums) in rows.zip(sums.chunks_mut(stride)) {
        let sums = &mut sums[..cols.len()];
        if let Some(epilogue) = job.epilogue {
            epilogue.apply(i, cols.start, sums);
        }
        for (part, sums) in sums.chunks_mut(rounded.len()).enumerate() {
            let first = cols.start + part * rounded.len();
            let rounded = &mut rounded[..sums.len()];
            if job.accumulate {
                for (j, sum) in sums.iter_mut().enumerate() {
                    let mut old = [0.0];
                    // SAFETY: the element lies in the job's result.
                    T::widen(&[unsafe { *c.at(i, first + j) }], &mut old);
                    *sum += old[0];
                }
            }
            T::round(sums, rounded);
            for (j, &value) in rounded.iter().enumerate() {
                // SAFETY: the element lies in the job's result.
                unsafe { *c.at(i, first + j) = value };
            }
        }
    }
}

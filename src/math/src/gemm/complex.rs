//! Complex products, as real ones of twice the depth and twice the columns.
//!
//! A row of complex numbers is a row of twice as many real ones, parts side by side, in `a` and in `c`. An element x + iy of `b`
//! becomes two depths by two columns, `[x y; -y x]`, so that the real product of these is the complex one. Signs carry the conjugates.

use std::ops::Range;

use num_complex::Complex;
use num_traits::Float;

use super::block::{self, Left, Product, Right, Target, View};
use super::{Finish, Job, MatmulElem, Real, RightOperand};
use crate::pool::Parallel;

macro_rules! complex {
    ($t:ty) => {
        impl MatmulElem for Complex<$t> {
            type Sum = Complex<$t>;

            const ZERO: Self = Complex::new(0.0, 0.0);

            fn run(par: Parallel, job: &Job<'_, Self>) {
                products::<$t>(par, job);
            }
        }
    };
}
complex!(f32);
complex!(f64);

/// The operands that are conjugated.
#[derive(Clone, Copy)]
struct Signs {
    a: bool,
    b: bool,
}

fn products<T: Real + Float>(par: Parallel, job: &Job<'_, Complex<T>>)
where
    Complex<T>: MatmulElem,
{
    let RightOperand::Matrix(b) = job.b else {
        unreachable!("a complex right operand is packed by the product");
    };
    let signs = Signs { a: job.a.conj, b: b.conj };
    let pack_rows =
        |index, rows: Range<usize>, depths: Range<usize>, out: &mut [T], stride: usize| {
            let view = job.a.view((job.offsets)(index)[0]);
            for (i, out) in rows.zip(out.chunks_mut(stride)) {
                for (out, p) in out.iter_mut().zip(depths.clone()) {
                    // SAFETY: the element lies in the operand.
                    let z = unsafe { *view.at(i, p / 2).data };
                    *out = if p % 2 == 0 { z.re } else { z.im };
                }
            }
        };
    let pack_panel = |index, cols, depths, out: &mut [T]| {
        // SAFETY: columns and depths lie in the operand.
        unsafe { expand(b.view((job.offsets)(index)[1]), signs, cols, depths, out) };
    };
    let take = |index, rows: Range<usize>, cols: Range<usize>, sums: &mut [T], stride: usize| {
        let c = job.c.offset((job.offsets)(index)[2]);
        for (i, sums) in rows.zip(sums.chunks(stride)) {
            for (j, parts) in (cols.start / 2..cols.end / 2).zip(sums.as_chunks::<2>().0) {
                let sum = Complex::new(parts[0], parts[1]);
                // SAFETY: (i, j) lies in the job's result.
                let place = unsafe { &mut *c.at(i, j) };
                *place = if job.accumulate { *place + sum } else { sum };
            }
        }
    };
    block::run(par, T::kernels(), job.count, &|index| {
        let [of_a, _, of_c] = (job.offsets)(index);
        Product {
            index,
            m: job.size.m,
            n: 2 * job.size.n,
            depth: 2 * job.size.k,
            left: if job.a.col_stride == 1 {
                let view = job.a.view(of_a);
                Left::InPlace(View { data: view.data.cast(), row: 2 * view.row, col: 1 })
            } else {
                Left::Packed(&pack_rows)
            },
            right: Right::Packed(&pack_panel),
            target: if job.c.col_stride == 1 {
                Target::Rows {
                    data: job.c.offset(of_c).ptr.cast(),
                    stride: 2 * job.c.row_stride,
                    accumulate: job.accumulate,
                    finish: None,
                }
            } else {
                Target::Blocks(&take)
            },
        }
    });
}

/// Packs real columns and depths of a complex right operand.
///
/// # Safety
/// These elements of the view are valid.
unsafe fn expand<T: Real + Float>(
    view: View<Complex<T>>,
    signs: Signs,
    cols: Range<usize>,
    depths: Range<usize>,
    out: &mut [T],
) {
    let width = T::kernels().panel();
    let sign = |negative: bool, v: T| if negative { -v } else { v };
    for (p, out) in depths.zip(out.chunks_exact_mut(width)) {
        for (out, j) in out.iter_mut().zip(cols.clone()) {
            // SAFETY: the caller's promise.
            let z = unsafe { *view.at(p / 2, j / 2).data };
            let im = sign(signs.b, z.im);
            *out = match (p % 2, j % 2) {
                (0, 0) => z.re,
                (0, _) => im,
                // The imaginary part of `a` meets these: i · (x + iy) = -y + ix.
                (_, 0) => sign(!signs.a, im),
                (_, _) => sign(signs.a, z.re),
            };
        }
        out[cols.len()..].fill(<T as Finish>::ZERO);
    }
}

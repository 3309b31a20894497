//! Integer products, wrapping on overflow.

use num_traits::{WrappingAdd, WrappingMul};

use super::{Job, MatRef, MatmulElem, Out, RightOperand};
use crate::isa::vectorize;
use crate::pool::Parallel;

/// Multiplications that are worth a thread of their own.
const WORK_PER_THREAD: usize = 1 << 17;

/// Columns of a result row that are worked on together, so that they stay in the nearest cache.
const BLOCK: usize = 1024;

pub(super) fn run<T: MatmulElem + WrappingAdd + WrappingMul>(par: Parallel, job: &Job<'_, T>) {
    let RightOperand::Matrix(right) = job.b else {
        unreachable!("integers are not packed");
    };
    let m = job.size.m;
    let work = job.size.n.saturating_mul(job.size.k);
    par.for_each_chunk(job.count * m, WORK_PER_THREAD.div_ceil(work), &|rows| {
        let mut sums = vec![T::ZERO; job.size.n.min(BLOCK)];
        for row in rows {
            let [of_a, of_b, of_c] = (job.offsets)(row / m);
            let a = job.a.offset(of_a + row % m * job.a.row_stride);
            let (b, c) = (right.offset(of_b), job.c.offset(of_c));
            product_row(job, row % m, a, b, c, &mut sums);
        }
    });
}

/// Computes row `i` of a product, given that row of `a`.
fn product_row<T: MatmulElem + WrappingAdd + WrappingMul>(
    job: &Job<'_, T>,
    i: usize,
    a: MatRef<T>,
    b: MatRef<T>,
    c: Out<T>,
    sums: &mut [T],
) {
    let n = job.size.n;
    for start in (0..n).step_by(BLOCK) {
        let sums = &mut sums[..BLOCK.min(n - start)];
        sums.fill(T::ZERO);
        for p in 0..job.size.k {
            let factor = a.data[p * a.col_stride];
            let row = &b.data[p * b.row_stride + start * b.col_stride..];
            vectorize(
                #[inline(always)]
                || add_row(sums, row, b.col_stride, factor),
            );
        }
        for (j, &sum) in sums.iter().enumerate() {
            // SAFETY: i < m and start + j < n.
            let place = unsafe { &mut *c.at(i, start + j) };
            *place = if job.accumulate { place.wrapping_add(&sum) } else { sum };
        }
    }
}

/// `sums[j] += row[j · stride] · factor`.
#[inline(always)]
fn add_row<T: MatmulElem + WrappingAdd + WrappingMul>(
    sums: &mut [T],
    row: &[T],
    stride: usize,
    factor: T,
) {
    if stride == 1 {
        for (sum, v) in sums.iter_mut().zip(row) {
            *sum = sum.wrapping_add(&v.wrapping_mul(&factor));
        }
    } else {
        for (j, sum) in sums.iter_mut().enumerate() {
            *sum = sum.wrapping_add(&row[j * stride].wrapping_mul(&factor));
        }
    }
}

//! Integer products, wrapping on overflow.

use num_traits::{WrappingAdd, WrappingMul};

use super::{MatRef, MatmulElem, Out, Size};
use crate::isa::vectorize;

/// Columns of a result row that are worked on together, so that they stay in the nearest cache.
const BLOCK: usize = 1024;

pub(super) fn product<T: MatmulElem + WrappingAdd + WrappingMul>(
    size: Size,
    a: MatRef<T>,
    b: MatRef<T>,
    c: Out<T>,
    accumulate: bool,
) {
    let Size { m, n, k } = size;
    let mut sums = vec![T::ZERO; n.min(BLOCK)];
    for start in (0..n).step_by(BLOCK) {
        let sums = &mut sums[..BLOCK.min(n - start)];
        for i in 0..m {
            sums.fill(T::ZERO);
            for p in 0..k {
                let factor = a.data[i * a.row_stride + p * a.col_stride];
                let row = &b.data[p * b.row_stride + start * b.col_stride..];
                vectorize(
                    #[inline(always)]
                    || add_row(sums, row, b.col_stride, factor),
                );
            }
            for (j, &sum) in sums.iter().enumerate() {
                // SAFETY: i < m and start + j < n.
                let place = unsafe { &mut *c.at(i, start + j) };
                *place = if accumulate { place.wrapping_add(&sum) } else { sum };
            }
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

//! Products of a matrix and a vector: limited by memory, so each element of the matrix is read once, in order.

use num_traits::Float;

use super::{MatRef, Out};
use crate::isa::vectorize;

/// Independent accumulators of a dot product: enough to hide the latency of an addition at the widest vectors.
const LANES: usize = 64;

/// Results that are kept in the nearest cache while rows are added to them.
const BLOCK: usize = 2048;

/// `c[i, 0] = Σ a[i, p] · x[p · x_stride]` for `i < m`, over `p < k`; added to `c` if `accumulate`.
pub(super) fn product<T: Float + std::ops::AddAssign>(
    m: usize,
    k: usize,
    a: MatRef<T>,
    x: &[T],
    x_stride: usize,
    c: Out<T>,
    accumulate: bool,
) {
    let gathered: Vec<T>;
    let x = if x_stride == 1 {
        &x[..k]
    } else {
        gathered = (0..k).map(|p| x[p * x_stride]).collect();
        &gathered
    };
    let store = |i: usize, value: T| {
        // SAFETY: i < m, and (i, 0) lies in the block.
        let place = unsafe { &mut *c.at(i, 0) };
        *place = if accumulate { *place + value } else { value };
    };
    if a.row_stride == 1 && a.col_stride != 1 {
        let mut sums = vec![T::zero(); m.min(BLOCK)];
        for start in (0..m).step_by(BLOCK) {
            let sums = &mut sums[..BLOCK.min(m - start)];
            sums.fill(T::zero());
            vectorize(
                #[inline(always)]
                || add_columns(sums, &a.data[start..], a.col_stride, x),
            );
            for (i, &sum) in sums.iter().enumerate() {
                store(start + i, sum);
            }
        }
    } else if a.col_stride == 1 {
        for i in 0..m {
            let row = &a.data[i * a.row_stride..][..k];
            store(
                i,
                vectorize(
                    #[inline(always)]
                    || dot(row, x),
                ),
            );
        }
    } else {
        for i in 0..m {
            let row = &a.data[i * a.row_stride..];
            store(
                i,
                x.iter()
                    .enumerate()
                    .fold(T::zero(), |sum, (p, &x)| sum + row[p * a.col_stride] * x),
            );
        }
    }
}

/// `sums[i] += Σ columns[p · stride + i] · x[p]`, four columns at a time so that `sums` is loaded and stored less often.
#[inline(always)]
fn add_columns<T: Float + std::ops::AddAssign>(
    sums: &mut [T],
    columns: &[T],
    stride: usize,
    x: &[T],
) {
    let len = sums.len();
    let column = |p: usize| &columns[p * stride..][..len];
    let mut p = 0;
    while p + 4 <= x.len() {
        let (c0, c1, c2, c3) = (column(p), column(p + 1), column(p + 2), column(p + 3));
        for i in 0..len {
            sums[i] += (c0[i] * x[p] + c1[i] * x[p + 1]) + (c2[i] * x[p + 2] + c3[i] * x[p + 3]);
        }
        p += 4;
    }
    for p in p..x.len() {
        for (sum, &v) in sums.iter_mut().zip(column(p)) {
            *sum += v * x[p];
        }
    }
}

/// `Σ x[i] · y[i]` over slices of one length.
#[inline(always)]
fn dot<T: Float + std::ops::AddAssign>(x: &[T], y: &[T]) -> T {
    let mut lanes = [T::zero(); LANES];
    let (xs, x_rest) = x.as_chunks::<LANES>();
    let (ys, y_rest) = y.as_chunks::<LANES>();
    for (x, y) in xs.iter().zip(ys) {
        for i in 0..LANES {
            lanes[i] += x[i] * y[i];
        }
    }
    for (i, (&x, &y)) in x_rest.iter().zip(y_rest).enumerate() {
        lanes[i] += x * y;
    }
    let mut width = LANES / 2;
    while width > 0 {
        for i in 0..width {
            let upper = lanes[i + width];
            lanes[i] += upper;
        }
        width /= 2;
    }
    lanes[0]
}

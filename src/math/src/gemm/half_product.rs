//! Products of half and bfloat16: panels are widened to f32, multiplied, and the sums rounded once.

use num_traits::AsPrimitive;

use super::{MatRef, MatmulElem, Out, Size};

/// Extents of the widened panels: together a megabyte, and large enough that widening is little work beside the product.
const ROWS: usize = 256;
const COLS: usize = 256;
const DEPTH: usize = 512;

pub(super) fn product<T>(size: Size, a: MatRef<T>, b: MatRef<T>, c: Out<T>, accumulate: bool)
where
    T: MatmulElem + AsPrimitive<f32>,
    f32: AsPrimitive<T>,
{
    let Size { m, n, k } = size;
    let (rows, cols, depth) = (m.min(ROWS), n.min(COLS), k.min(DEPTH));
    let mut a_panel = vec![0.0f32; rows * depth];
    let mut b_panel = vec![0.0f32; depth * cols];
    let mut sums = vec![0.0f32; rows * cols];
    for col in (0..n).step_by(COLS) {
        for row in (0..m).step_by(ROWS) {
            let (m, n) = (rows.min(m - row), cols.min(n - col));
            for p in (0..k).step_by(DEPTH) {
                let k = depth.min(k - p);
                widen(
                    [m, k],
                    a.offset(row * a.row_stride + p * a.col_stride),
                    &mut a_panel,
                );
                widen(
                    [k, n],
                    b.offset(p * b.row_stride + col * b.col_stride),
                    &mut b_panel,
                );
                let out = Out {
                    ptr: sums.as_mut_ptr(),
                    row_stride: n,
                    col_stride: 1,
                };
                let (a, b) = (MatRef::new(&a_panel, k, 1), MatRef::new(&b_panel, n, 1));
                f32::block(Size { m, n, k }, a, b, out, p > 0);
            }
            for i in 0..m {
                for j in 0..n {
                    // SAFETY: row + i and col + j lie in the block of the caller.
                    let place = unsafe { &mut *c.at(row + i, col + j) };
                    let sum = sums[i * n + j];
                    *place = if accumulate {
                        (place.as_() + sum).as_()
                    } else {
                        sum.as_()
                    };
                }
            }
        }
    }
}

/// Copies an [rows, cols] view into a dense row-major panel.
fn widen<T: Copy + AsPrimitive<f32>>(extent: [usize; 2], view: MatRef<T>, panel: &mut [f32]) {
    let [rows, cols] = extent;
    for (i, out) in panel.chunks_exact_mut(cols).take(rows).enumerate() {
        let row = &view.data[i * view.row_stride..];
        if view.col_stride == 1 {
            for (out, v) in out.iter_mut().zip(row) {
                *out = v.as_();
            }
        } else {
            for (j, out) in out.iter_mut().enumerate() {
                *out = row[j * view.col_stride].as_();
            }
        }
    }
}

//! Depthwise convolutions: every channel has filters of its own.
//!
//! The filter is [filter_h, filter_w, in_c, multiplier]; output channel `c · multiplier + q` is channel `c` under its
//! filter `q`. The geometry has `groups == in_c` and `out_c == in_c · multiplier`. Loops run over channels, which lie side by side.

use super::Conv2dGeometry;
use crate::gemm::MatmulElem;
use crate::isa::vectorize;
use crate::pool::{Parallel, par_chunks_mut};
use crate::wide::{Sum, Widen};

/// Multiplications that are worth a thread of their own.
const FLOPS_PER_CHUNK: usize = 1 << 15;

/// Writes the depthwise convolution of `input` with `filter` to `output`.
pub fn depthwise_conv2d<T: Widen>(
    par: Parallel,
    g: &Conv2dGeometry,
    input: &[T],
    filter: &[T],
    output: &mut [T],
) {
    check(g, input.len(), filter.len(), output.len());
    let (input, filter) = (&*T::widen(input), &*T::widen(filter));
    let grain = (FLOPS_PER_CHUNK / g.cells().max(1)).max(1);
    par_chunks_mut(par, output, g.out_c, grain, &|start, piece| {
        T::write_wide(piece, |piece| {
            piece.fill(T::Wide::ZERO);
            for (i, sums) in piece.chunks_exact_mut(g.out_c).enumerate() {
                let [image, oh, ow] = g.place(start / g.out_c + i);
                for cell in 0..g.cells() {
                    let Some(ih) = g.input_row(oh, cell / g.filter_w) else {
                        continue;
                    };
                    let Some(iw) = g.input_col(ow, cell % g.filter_w) else {
                        continue;
                    };
                    let x = &input[((image * g.in_h + ih) * g.in_w + iw) * g.in_c..][..g.in_c];
                    let w = &filter[cell * g.out_c..][..g.out_c];
                    vectorize(
                        #[inline(always)]
                        || add_spread_products(sums, x, w),
                    );
                }
            }
        });
    });
}

/// Writes the gradient with respect to the input of a depthwise convolution.
pub fn depthwise_conv2d_backprop_input<T: Widen>(
    par: Parallel,
    g: &Conv2dGeometry,
    filter: &[T],
    out_backprop: &[T],
    in_backprop: &mut [T],
) {
    check(g, in_backprop.len(), filter.len(), out_backprop.len());
    let (filter, gradient) = (&*T::widen(filter), &*T::widen(out_backprop));
    let grain = (FLOPS_PER_CHUNK / g.cells().max(1)).max(1);
    par_chunks_mut(par, in_backprop, g.in_c, grain, &|start, piece| {
        T::write_wide(piece, |piece| {
            piece.fill(T::Wide::ZERO);
            for (i, sums) in piece.chunks_exact_mut(g.in_c).enumerate() {
                let pixel = start / g.in_c + i;
                let (row, iw) = (pixel / g.in_w, pixel % g.in_w);
                let (image, ih) = (row / g.in_h, row % g.in_h);
                for cell in 0..g.cells() {
                    let (fh, fw) = (cell / g.filter_w, cell % g.filter_w);
                    let Some(oh) =
                        output_position(ih + g.pad_top, fh, g.dilation_h, g.stride_h, g.out_h)
                    else {
                        continue;
                    };
                    let Some(ow) =
                        output_position(iw + g.pad_left, fw, g.dilation_w, g.stride_w, g.out_w)
                    else {
                        continue;
                    };
                    let d =
                        &gradient[((image * g.out_h + oh) * g.out_w + ow) * g.out_c..][..g.out_c];
                    let w = &filter[cell * g.out_c..][..g.out_c];
                    vectorize(
                        #[inline(always)]
                        || add_gathered_products(sums, d, w),
                    );
                }
            }
        });
    });
}

/// Writes the gradient with respect to the filter of a depthwise convolution.
pub fn depthwise_conv2d_backprop_filter<T: Widen>(
    par: Parallel,
    g: &Conv2dGeometry,
    input: &[T],
    out_backprop: &[T],
    filter_backprop: &mut [T],
) {
    check(g, input.len(), filter_backprop.len(), out_backprop.len());
    let (input, gradient) = (&*T::widen(input), &*T::widen(out_backprop));
    let grain = (FLOPS_PER_CHUNK / g.pixels().max(1)).max(1);
    par_chunks_mut(par, filter_backprop, g.out_c, grain, &|start, piece| {
        // Sums of output rows are added up, rather than all pixels one by one, which would lose digits.
        let mut row_sums = vec![T::Wide::ZERO; g.out_c];
        T::write_wide(piece, |piece| {
            piece.fill(T::Wide::ZERO);
            for (i, sums) in piece.chunks_exact_mut(g.out_c).enumerate() {
                let cell = start / g.out_c + i;
                for row in 0..g.batch * g.out_h {
                    let (image, oh) = (row / g.out_h, row % g.out_h);
                    let Some(ih) = g.input_row(oh, cell / g.filter_w) else {
                        continue;
                    };
                    row_sums.fill(T::Wide::ZERO);
                    for ow in 0..g.out_w {
                        let Some(iw) = g.input_col(ow, cell % g.filter_w) else {
                            continue;
                        };
                        let x = &input[((image * g.in_h + ih) * g.in_w + iw) * g.in_c..][..g.in_c];
                        let d = &gradient[(row * g.out_w + ow) * g.out_c..][..g.out_c];
                        vectorize(
                            #[inline(always)]
                            || add_spread_products(&mut row_sums, x, d),
                        );
                    }
                    for (sum, &row_sum) in sums.iter_mut().zip(&row_sums) {
                        *sum = sum.add(row_sum);
                    }
                }
            }
        });
    });
}

/// The output position whose window has its cell `cell` on the padded input position `padded`.
fn output_position(
    padded: usize,
    cell: usize,
    dilation: usize,
    stride: usize,
    extent: usize,
) -> Option<usize> {
    let from_start = padded.checked_sub(cell.saturating_mul(dilation))?;
    (from_start % stride == 0).then_some(from_start / stride).filter(|&p| p < extent)
}

/// `sums[c · multiplier + q] += x[c] · w[c · multiplier + q]`.
#[inline(always)]
fn add_spread_products<W: Sum>(sums: &mut [W], x: &[W], w: &[W]) {
    if sums.len() == x.len() {
        for ((sum, &x), &w) in sums.iter_mut().zip(x).zip(w) {
            *sum = sum.add_product(x, w);
        }
    } else {
        let multiplier = sums.len() / x.len();
        for ((sums, &x), w) in
            sums.chunks_exact_mut(multiplier).zip(x).zip(w.chunks_exact(multiplier))
        {
            for (sum, &w) in sums.iter_mut().zip(w) {
                *sum = sum.add_product(x, w);
            }
        }
    }
}

/// `sums[c] += Σ d[c · multiplier + q] · w[c · multiplier + q]` over q.
#[inline(always)]
fn add_gathered_products<W: Sum>(sums: &mut [W], d: &[W], w: &[W]) {
    let multiplier = d.len() / sums.len();
    if multiplier == 1 {
        for ((sum, &d), &w) in sums.iter_mut().zip(d).zip(w) {
            *sum = sum.add_product(d, w);
        }
    } else {
        for (c, sum) in sums.iter_mut().enumerate() {
            for i in c * multiplier..(c + 1) * multiplier {
                *sum = sum.add_product(d[i], w[i]);
            }
        }
    }
}

fn check(g: &Conv2dGeometry, input: usize, filter: usize, output: usize) {
    assert!(g.groups == g.in_c || input == 0, "depthwise_conv2d: groups of {g:?}");
    if g.in_c > 0 {
        g.check(input, filter, output);
    } else {
        assert_eq!((input, filter, output), (0, 0, 0), "depthwise_conv2d: lengths of {g:?}");
    }
}

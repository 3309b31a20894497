//! Depthwise convolutions: every channel has filters of its own.
//!
//! The filter is [filter_h, filter_w, in_c, multiplier]; output channel `c · multiplier + q` is channel `c` under its
//! filter `q`. The geometry has `groups == in_c` and `out_c == in_c · multiplier`. Loops run over channels, which lie side by side.

use super::channelwise::{self, Spread};
use super::{Conv2dGeometry, ConvElem};
use crate::gemm::{MatmulElem, Real};
use crate::isa::vectorize;
use crate::pool::{Parallel, par_chunks_mut};
use crate::wide::{Sum, Widen};

/// Multiplications that are worth a thread of their own.
const FLOPS_PER_CHUNK: usize = 1 << 15;

/// Writes the depthwise convolution of `input` with `filter` to `output`.
pub fn depthwise_conv2d<T: ConvElem>(
    par: Parallel,
    g: &Conv2dGeometry,
    input: &[T],
    filter: &[T],
    output: &mut [T],
) {
    check(g, input.len(), filter.len(), output.len());
    if !output.is_empty() {
        T::depthwise(par, g, input, filter, output);
    }
}

/// Writes the gradient with respect to the input of a depthwise convolution.
pub fn depthwise_conv2d_backprop_input<T: ConvElem>(
    par: Parallel,
    g: &Conv2dGeometry,
    filter: &[T],
    out_backprop: &[T],
    in_backprop: &mut [T],
) {
    check(g, in_backprop.len(), filter.len(), out_backprop.len());
    if !in_backprop.is_empty() {
        T::depthwise_input_gradient(par, g, filter, out_backprop, in_backprop);
    }
}

/// The convolution of floats, by lanes that are channels.
pub(super) fn forward<T: Widen>(
    par: Parallel,
    g: &Conv2dGeometry,
    input: &[T],
    filter: &[T],
    output: &mut [T],
) where
    T::Wide: Real,
{
    let multiplier = g.out_c / g.in_c;
    let (input, filter) = (&*T::widen(input), &*T::widen(filter));
    let expand = |from: &[T::Wide], to: &mut [T::Wide]| spread(from, to, g.in_c, 1, multiplier);
    let spread = Spread {
        planes: 1,
        channels: g.out_c,
        expand: if multiplier > 1 { Some(&expand) } else { None },
        factors: &|[_, h, w], _, to| {
            to.copy_from_slice(&filter[(h * g.filter_w + w) * g.out_c..][..g.out_c]);
        },
    };
    T::write_wide(output, |out| match g.forward_pass() {
        Some(pass) => channelwise::run(par, &pass, input, &spread, out),
        None => far(par, g, input, filter, out),
    });
}

/// Spreads pixels of `group_in` channels a group: to a run for each of these, in which it stands `group_out` times for each group.
pub(super) fn spread<W: Copy>(
    from: &[W],
    to: &mut [W],
    groups: usize,
    group_in: usize,
    group_out: usize,
) {
    let run = groups * group_out;
    let pixels = from.chunks_exact(groups * group_in).zip(to.chunks_exact_mut(group_in * run));
    for (from, to) in pixels {
        for (plane, to) in to.chunks_exact_mut(run).enumerate() {
            for (group, lanes) in to.chunks_exact_mut(group_out).enumerate() {
                lanes.fill(from[group * group_in + plane]);
            }
        }
    }
}

/// The convolution for padding many times as wide as the image, an output at a time.
pub(super) fn far<W: Sum>(
    par: Parallel,
    g: &Conv2dGeometry,
    input: &[W],
    filter: &[W],
    out: &mut [W],
) {
    let multiplier = g.out_c / g.in_c;
    par_chunks_mut(par, out, g.out_c, g.out_c, &|start, piece| {
        for (i, sums) in piece.chunks_exact_mut(g.out_c).enumerate() {
            let [image, oh, ow] = g.place(start / g.out_c + i);
            sums.fill(W::ZERO);
            for cell in 0..g.cells() {
                let row = g.input_row(oh, cell / g.filter_w);
                let place = row.zip(g.input_col(ow, cell % g.filter_w));
                let w = &filter[cell * g.out_c..][..g.out_c];
                for (c, (sum, &w)) in sums.iter_mut().zip(w).enumerate() {
                    let x = place.map_or(W::ZERO, |(ih, iw)| {
                        let pixel = (image * g.in_h + ih) * g.in_w + iw;
                        input[pixel * g.in_c + c / multiplier]
                    });
                    *sum = sum.add_product(x, w);
                }
            }
        }
    });
}

/// The gradient of floats with respect to the input, by lanes that are channels.
pub(super) fn input_gradient<T: Widen>(
    par: Parallel,
    g: &Conv2dGeometry,
    filter: &[T],
    out_backprop: &[T],
    in_backprop: &mut [T],
) where
    T::Wide: Real,
{
    let multiplier = g.out_c / g.in_c;
    let (filter, gradient) = (&*T::widen(filter), &*T::widen(out_backprop));
    let factor = |cell: usize, q: usize, c: usize| filter[cell * g.out_c + c * multiplier + q];
    // A run for each of an input channel's filters.
    let expand = |from: &[T::Wide], to: &mut [T::Wide]| {
        for (from, to) in from.chunks_exact(g.out_c).zip(to.chunks_exact_mut(g.out_c)) {
            for (q, to) in to.chunks_exact_mut(g.in_c).enumerate() {
                for (c, to) in to.iter_mut().enumerate() {
                    *to = from[c * multiplier + q];
                }
            }
        }
    };
    let spread = Spread {
        planes: multiplier,
        channels: g.in_c,
        expand: if multiplier > 1 { Some(&expand) } else { None },
        factors: &|[_, h, w], q, to| {
            for (c, to) in to.iter_mut().enumerate() {
                *to = factor(h * g.filter_w + w, q, c);
            }
        },
    };
    T::write_wide(in_backprop, |out| match g.backward_passes() {
        Some(passes) => {
            for pass in &passes {
                channelwise::run(par, pass, gradient, &spread, out);
            }
        }
        None => far_input(par, g, filter, gradient, out),
    });
}

/// The gradient with respect to the input for padding many times as wide as the image, an input pixel at a time.
pub(super) fn far_input<W: Sum>(
    par: Parallel,
    g: &Conv2dGeometry,
    filter: &[W],
    gradient: &[W],
    out: &mut [W],
) {
    let multiplier = g.out_c / g.in_c;
    par_chunks_mut(par, out, g.in_c, g.in_c, &|start, piece| {
        for (i, sums) in piece.chunks_exact_mut(g.in_c).enumerate() {
            let pixel = start / g.in_c + i;
            let (row, iw) = (pixel / g.in_w, pixel % g.in_w);
            let (image, ih) = (row / g.in_h, row % g.in_h);
            sums.fill(W::ZERO);
            for cell in 0..g.cells() {
                let (fh, fw) = (cell / g.filter_w, cell % g.filter_w);
                let padded = (ih.saturating_add(g.pad_top), iw.saturating_add(g.pad_left));
                let oh = output_position(padded.0, fh, g.dilation_h, g.stride_h, g.out_h);
                let ow = output_position(padded.1, fw, g.dilation_w, g.stride_w, g.out_w);
                let Some((oh, ow)) = oh.zip(ow) else {
                    continue;
                };
                let place = ((image * g.out_h + oh) * g.out_w + ow) * g.out_c;
                for (c, sum) in sums.iter_mut().enumerate() {
                    for q in c * multiplier..(c + 1) * multiplier {
                        *sum = sum.add_product(gradient[place + q], filter[cell * g.out_c + q]);
                    }
                }
            }
        }
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

fn check(g: &Conv2dGeometry, input: usize, filter: usize, output: usize) {
    assert!(g.groups == g.in_c || input == 0, "depthwise_conv2d: groups of {g:?}");
    if g.in_c > 0 {
        g.check(input, filter, output);
    } else {
        assert_eq!((input, filter, output), (0, 0, 0), "depthwise_conv2d: lengths of {g:?}");
    }
}

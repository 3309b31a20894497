//! Convolutions by patches: the left side of a product, the patches under the filter, is gathered a tile of output pixels at a time,
//! into scratch that stays in cache.
//!
//! The way for integers, for images so narrow that tiles of a row would be short, and for padding many times as wide as the image.
//! Half types are summed in f32 and rounded once per output.

use std::ops::Range;

use super::Conv2dGeometry;
use crate::gemm::{MatMut, MatRef, MatmulElem, matmul};
use crate::pool::{Parallel, par_chunks_mut};
use crate::wide::{Sum, Widen};

/// Multiplications that are worth a thread of their own.
const FLOPS_PER_CHUNK: usize = 1 << 17;

/// Writes the convolution of `input` with `filter` to `output`.
pub(super) fn conv2d<T: MatmulElem>(
    par: Parallel,
    g: &Conv2dGeometry,
    input: &[T],
    filter: &[T],
    output: &mut [T],
) {
    g.check(input.len(), filter.len(), output.len());
    if let Some([rows, depth]) = g.as_product() {
        let (a, b) = (MatRef::new(input, depth, 1), MatRef::new(filter, g.out_c, 1));
        return matmul(par, rows, g.out_c, depth, a, b, MatMut::new(output, g.out_c, 1), false);
    }
    let (group_in, group_out) = (g.group_in(), g.group_out());
    let width = g.cells() * group_in;
    let tile = g.tile(width);
    let grain = FLOPS_PER_CHUNK / (width * g.out_c).max(1);
    par_chunks_mut(par, output, g.out_c, grain.max(16) * g.out_c, &|start, piece| {
        let first = start / g.out_c;
        let mut patches = vec![T::ZERO; tile * width];
        for (i, out) in piece.chunks_mut(tile * g.out_c).enumerate() {
            let pixels = first + i * tile..first + i * tile + out.len() / g.out_c;
            let rows = pixels.len();
            for group in 0..g.groups {
                let patches = &mut patches[..rows * width];
                gather(g, input, pixels.clone(), 0..g.cells(), group, patches);
                let b = MatRef::new(&filter[group * group_out..], g.out_c, 1);
                let c = MatMut::new(&mut out[group * group_out..], g.out_c, 1);
                matmul(
                    Parallel::SERIAL,
                    rows,
                    group_out,
                    width,
                    MatRef::new(patches, width, 1),
                    b,
                    c,
                    false,
                );
            }
        }
    });
}

/// Writes the gradient with respect to the input, given the gradient `out_backprop` with respect to the output.
pub(super) fn conv2d_backprop_input<T: Widen>(
    par: Parallel,
    g: &Conv2dGeometry,
    filter: &[T],
    out_backprop: &[T],
    in_backprop: &mut [T],
) {
    g.check(in_backprop.len(), filter.len(), out_backprop.len());
    if filter.is_empty() {
        return T::write_wide(in_backprop, |c| c.fill(T::Wide::ZERO));
    }
    let filter = &*T::widen(filter);
    if let Some([rows, depth]) = g.as_product() {
        let a = T::widen(out_backprop);
        let (a, b) = (MatRef::new(&a, g.out_c, 1), MatRef::new(filter, 1, g.out_c));
        return T::write_wide(in_backprop, |c| {
            matmul(par, rows, depth, g.out_c, a, b, MatMut::new(c, depth, 1), false);
        });
    }
    // A thread owns a band of input rows and recomputes the patches that straddle its edges, so bands are to be several filters high.
    let row_len = g.in_w * g.in_c;
    let reach = (g.filter_h.max(1) - 1).saturating_mul(g.dilation_h);
    let grain = reach.saturating_add(1).saturating_mul(8).saturating_mul(row_len);
    par_chunks_mut(par, in_backprop, row_len, grain, &|start, piece| {
        T::write_wide(piece, |piece| {
            piece.fill(T::Wide::ZERO);
            let mut scratch = vec![];
            let (mut row, mut rest) = (start / row_len.max(1), piece);
            while !rest.is_empty() {
                let (image, top) = (row / g.in_h, row % g.in_h);
                let height = (g.in_h - top).min(rest.len() / row_len);
                let (band, below) = rest.split_at_mut(height * row_len);
                backprop_band(g, filter, out_backprop, image, top, band, &mut scratch);
                (row, rest) = (row + height, below);
            }
        });
    });
}

/// Adds to `band`, the rows of `image` from `top` on, what the output pixels whose patches reach it have to give.
fn backprop_band<T: Widen>(
    g: &Conv2dGeometry,
    filter: &[T::Wide],
    out_backprop: &[T],
    image: usize,
    top: usize,
    band: &mut [T::Wide],
    patches: &mut Vec<T::Wide>,
) {
    let row_len = g.in_w * g.in_c;
    let rows = top..top + band.len() / row_len;
    let reach = g.filter_h.saturating_sub(1).saturating_mul(g.dilation_h);
    let first = (top + g.pad_top).saturating_sub(reach).div_ceil(g.stride_h).min(g.out_h);
    let end = ((rows.end - 1 + g.pad_top) / g.stride_h + 1).clamp(first, g.out_h);
    let (group_in, group_out) = (g.group_in(), g.group_out());
    let width = g.cells() * group_in;
    let tile = g.tile(width);
    patches.resize(tile * width, T::Wide::ZERO);
    let base = image * g.out_h;
    let pixels = (base + first) * g.out_w..(base + end) * g.out_w;
    for start in pixels.clone().step_by(tile) {
        let pixels = start..pixels.end.min(start + tile);
        let gradient = T::widen(&out_backprop[pixels.start * g.out_c..pixels.end * g.out_c]);
        for group in 0..g.groups {
            let a = MatRef::new(&gradient[group * group_out..], g.out_c, 1);
            let b = MatRef::new(&filter[group * group_out..], 1, g.out_c);
            let patches = &mut patches[..pixels.len() * width];
            matmul(
                Parallel::SERIAL,
                pixels.len(),
                width,
                group_out,
                a,
                b,
                MatMut::new(patches, width, 1),
                false,
            );
            for (pixel, patch) in pixels.clone().zip(patches.chunks_exact(width)) {
                let [_, oh, ow] = g.place(pixel);
                for (cell, values) in patch.chunks_exact(group_in).enumerate() {
                    let Some(ih) =
                        g.input_row(oh, cell / g.filter_w).filter(|ih| rows.contains(ih))
                    else {
                        continue;
                    };
                    let Some(iw) = g.input_col(ow, cell % g.filter_w) else {
                        continue;
                    };
                    let at = (ih - top) * row_len + iw * g.in_c + group * group_in;
                    for (sum, &v) in band[at..at + group_in].iter_mut().zip(values) {
                        *sum = sum.add(v);
                    }
                }
            }
        }
    }
}

/// Writes the gradient with respect to the filter, given the gradient `out_backprop` with respect to the output.
pub(super) fn conv2d_backprop_filter<T: Widen + MatmulElem>(
    par: Parallel,
    g: &Conv2dGeometry,
    input: &[T],
    out_backprop: &[T],
    filter_backprop: &mut [T],
) {
    g.check(input.len(), filter_backprop.len(), out_backprop.len());
    let gradient = &*T::widen(out_backprop);
    if let Some([rows, depth]) = g.as_product() {
        let a = T::widen(input);
        let (a, b) = (MatRef::new(&a, 1, depth), MatRef::new(gradient, g.out_c, 1));
        return T::write_wide(filter_backprop, |c| {
            matmul(par, depth, g.out_c, rows, a, b, MatMut::new(c, g.out_c, 1), false);
        });
    }
    // A thread owns some cells of the filter, gathers the pixels under those alone, and so repeats nobody's work.
    let (group_in, group_out) = (g.group_in(), g.group_out());
    let cell_len = group_in * g.out_c;
    let grain = 64usize.div_ceil(group_in.max(1)) * cell_len;
    let inner =
        if filter_backprop.len() / grain.max(1) < par.threads() { par } else { Parallel::SERIAL };
    par_chunks_mut(par, filter_backprop, cell_len, grain, &|start, piece| {
        T::write_wide(piece, |piece| {
            piece.fill(T::Wide::ZERO);
            let cells = start / cell_len..(start + piece.len()) / cell_len;
            let width = cells.len() * group_in;
            let tile = g.tile(width);
            let mut patches = vec![T::ZERO; tile * width];
            for first in (0..g.pixels()).step_by(tile) {
                let pixels = first..g.pixels().min(first + tile);
                let rows = pixels.len();
                for group in 0..g.groups {
                    let patches = &mut patches[..rows * width];
                    gather(g, input, pixels.clone(), cells.clone(), group, patches);
                    let patches = T::widen(patches);
                    let b =
                        MatRef::new(&gradient[first * g.out_c + group * group_out..], g.out_c, 1);
                    let c = MatMut::new(&mut piece[group * group_out..], g.out_c, 1);
                    matmul(
                        inner,
                        width,
                        group_out,
                        rows,
                        MatRef::new(&patches, 1, width),
                        b,
                        c,
                        true,
                    );
                }
            }
        });
    });
}

/// Lays out the patches under some `cells` of the filter for some output `pixels`: [pixels, cells, channels of the group].
fn gather<T: MatmulElem>(
    g: &Conv2dGeometry,
    input: &[T],
    pixels: Range<usize>,
    cells: Range<usize>,
    group: usize,
    patches: &mut [T],
) {
    let channels = g.group_in();
    // Cells of a filter row that are neighbours in the image as well are copied in one go.
    let adjacent = g.dilation_w == 1 && channels == g.in_c;
    for (pixel, patch) in pixels.zip(patches.chunks_exact_mut((cells.len() * channels).max(1))) {
        let [image, oh, ow] = g.place(pixel);
        let mut cell = cells.start;
        while cell < cells.end {
            let (fh, fw) = (cell / g.filter_w, cell % g.filter_w);
            let run = if adjacent { (g.filter_w - fw).min(cells.end - cell) } else { 1 };
            let out = &mut patch[(cell - cells.start) * channels..][..run * channels];
            match g.input_row(oh, fh) {
                Some(ih) => {
                    let row = &input[(image * g.in_h + ih) * g.in_w * g.in_c..][..g.in_w * g.in_c];
                    let left = ow
                        .saturating_mul(g.stride_w)
                        .saturating_add(fw.saturating_mul(g.dilation_w));
                    // Cells of the run before the image, and cells before its end.
                    let before = g.pad_left.saturating_sub(left).min(run);
                    let within = (g.in_w + g.pad_left).saturating_sub(left).clamp(before, run);
                    out[..before * channels].fill(T::ZERO);
                    out[within * channels..].fill(T::ZERO);
                    if before < within {
                        let from = (left + before - g.pad_left) * g.in_c + group * channels;
                        let count = (within - before) * channels;
                        out[before * channels..within * channels]
                            .copy_from_slice(&row[from..from + count]);
                    }
                }
                None => out.fill(T::ZERO),
            }
            cell += run;
        }
    }
}

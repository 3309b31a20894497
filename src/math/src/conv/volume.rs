//! Convolutions over volumes with channels last, and their gradients: the passes of images with an axis of depth.
//!
//! Integers, and padding or filters many times as large as the volume, take the plain loops at the end.

use super::filter_gradient::{self, Groups};
use super::pass::{Axis, Extents, Pass};
use super::tiles::{self, Filter};
use super::{ConvElem, input_position};
use crate::gemm::{Finish, MatmulElem, Real};
use crate::pool::{Parallel, par_chunks_mut};
use crate::wide::{Sum, Widen};

/// Extents of a convolution over volumes: input [batch, planes, rows, columns, in_c], filter [planes, rows, columns, in_c, out_c],
/// output [batch, planes, rows, columns, out_c]. Arrays are planes, rows and columns; for the rest see [`super::Conv2dGeometry`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conv3dGeometry {
    pub batch: usize,
    pub input: [usize; 3],
    pub in_c: usize,
    pub filter: [usize; 3],
    pub out_c: usize,
    pub output: [usize; 3],
    pub stride: [usize; 3],
    pub dilation: [usize; 3],
    /// Padding before the first element of each axis.
    pub pad: [usize; 3],
}

impl Conv3dGeometry {
    /// Elements of the input.
    pub fn input_len(&self) -> usize {
        self.batch * self.input.iter().product::<usize>() * self.in_c
    }

    /// Elements of the filter.
    pub fn filter_len(&self) -> usize {
        self.filter.iter().product::<usize>() * self.in_c * self.out_c
    }

    /// Elements of the output.
    pub fn output_len(&self) -> usize {
        self.batch * self.output.iter().product::<usize>() * self.out_c
    }

    fn check(&self, input: usize, filter: usize, output: usize) {
        assert!(self.stride.iter().all(|&stride| stride > 0), "conv3d: strides of {self:?}");
        let expected = (self.input_len(), self.filter_len(), self.output_len());
        assert_eq!((input, filter, output), expected, "conv3d: lengths of {self:?}");
    }

    fn extents(&self, axis: usize) -> Extents {
        Extents {
            input: self.input[axis],
            filter: self.filter[axis],
            output: self.output[axis],
            stride: self.stride[axis],
            dilation: self.dilation[axis],
            pad: self.pad[axis],
        }
    }

    /// Where a cell of the filter begins.
    fn cell(&self, [d, h, w]: [usize; 3]) -> usize {
        ((d * self.filter[1] + h) * self.filter[2] + w) * self.in_c * self.out_c
    }

    fn pass(&self, axes: [Axis; 3], channels: usize, out: [usize; 3]) -> Option<Pass> {
        if !axes.iter().all(Axis::is_sensible) {
            return None;
        }
        let [d, h, w] = axes;
        Some(Pass { batch: self.batch, d, h, w, channels, out })
    }

    fn forward_pass(&self) -> Option<Pass> {
        let axes = [0, 1, 2].map(|axis| self.extents(axis).forward());
        self.pass(axes, self.in_c, self.output)
    }

    fn backward_passes(&self) -> Option<Vec<Pass>> {
        let [planes, rows, columns] = [0, 1, 2].map(|axis| self.extents(axis).backward());
        let mut passes = Vec::with_capacity(planes.len() * rows.len() * columns.len());
        for d in &planes {
            for h in &rows {
                for w in &columns {
                    let axes = [d.clone(), h.clone(), w.clone()];
                    passes.push(self.pass(axes, self.out_c, self.input)?);
                }
            }
        }
        Some(passes)
    }

    /// Calls `f(input pixel, cell)` for each cell of the filter that meets the volume at an output pixel.
    fn for_each_tap(&self, pixel: usize, mut f: impl FnMut(usize, usize)) {
        let [_, rows, cols] = self.output;
        let image = pixel / self.output.iter().product::<usize>();
        let place = [pixel / (rows * cols) % self.output[0], pixel / cols % rows, pixel % cols];
        let at = |axis: usize, cell: usize| {
            let (stride, dilation) = (self.stride[axis], self.dilation[axis]);
            input_position(place[axis], stride, cell, dilation, self.pad[axis], self.input[axis])
        };
        let [planes, rows, cols] = self.filter;
        for d in 0..planes {
            let Some(id) = at(0, d) else { continue };
            for h in 0..rows {
                let Some(ih) = at(1, h) else { continue };
                for w in 0..cols {
                    let Some(iw) = at(2, w) else { continue };
                    let plane = (image * self.input[0] + id) * self.input[1] + ih;
                    f(plane * self.input[2] + iw, (d * rows + h) * cols + w);
                }
            }
        }
    }
}

/// Writes the convolution of `input` with `filter` to `output`.
pub fn conv3d<T: ConvElem>(
    par: Parallel,
    g: &Conv3dGeometry,
    input: &[T],
    filter: &[T],
    output: &mut [T],
) {
    g.check(input.len(), filter.len(), output.len());
    if !output.is_empty() {
        T::volume(par, g, input, filter, output);
    }
}

/// Writes the gradient with respect to the input, given the gradient `out_backprop` with respect to the output.
pub fn conv3d_backprop_input<T: ConvElem>(
    par: Parallel,
    g: &Conv3dGeometry,
    filter: &[T],
    out_backprop: &[T],
    in_backprop: &mut [T],
) {
    g.check(in_backprop.len(), filter.len(), out_backprop.len());
    if filter.is_empty() || out_backprop.is_empty() {
        return in_backprop.fill(T::ZERO);
    }
    T::volume_input_gradient(par, g, filter, out_backprop, in_backprop);
}

/// Writes the gradient with respect to the filter, given the gradient `out_backprop` with respect to the output.
pub fn conv3d_backprop_filter<T: ConvElem>(
    par: Parallel,
    g: &Conv3dGeometry,
    input: &[T],
    out_backprop: &[T],
    filter_backprop: &mut [T],
) {
    g.check(input.len(), filter_backprop.len(), out_backprop.len());
    if input.is_empty() || out_backprop.is_empty() {
        return filter_backprop.fill(T::ZERO);
    }
    T::volume_filter_gradient(par, g, input, out_backprop, filter_backprop);
}

pub(super) fn forward<T: Widen + MatmulElem>(
    par: Parallel,
    g: &Conv3dGeometry,
    input: &[T],
    filter: &[T],
    out: &mut [T],
) where
    T::Wide: Real,
{
    let Some(pass) = g.forward_pass() else {
        return plain(par, g, input, filter, out);
    };
    let (input, filter) = (&*T::widen(input), &*T::widen(filter));
    let filter = Filter {
        data: filter,
        cell: &|cell| g.cell(cell),
        row: g.out_c,
        col: 1,
        groups: 1,
        source_c: g.in_c,
        out_c: g.out_c,
        group: 0,
    };
    T::write_wide(out, |out| tiles::run(par, &pass, input, &filter, out, None));
}

pub(super) fn input_gradient<T: Widen + MatmulElem>(
    par: Parallel,
    g: &Conv3dGeometry,
    filter: &[T],
    gradient: &[T],
    out: &mut [T],
) where
    T::Wide: Real,
{
    let zero = <T::Wide as Finish>::ZERO;
    let (filter, gradient) = (&*T::widen(filter), &*T::widen(gradient));
    // As with images: no zeros that would make NaN of an infinite filter.
    let finite = filter.iter().all(|&v| v * zero == zero);
    T::write_wide(out, |out| {
        let passes = match g.backward_passes() {
            Some(passes) if finite => passes,
            _ => return plain_input_gradient(g, filter, gradient, out),
        };
        let filter = Filter {
            data: filter,
            cell: &|cell| g.cell(cell),
            row: 1,
            col: g.out_c,
            groups: 1,
            source_c: g.out_c,
            out_c: g.in_c,
            group: 0,
        };
        for pass in &passes {
            tiles::run(par, pass, gradient, &filter, out, None);
        }
    });
}

pub(super) fn filter_gradient<T: Widen + MatmulElem>(
    par: Parallel,
    g: &Conv3dGeometry,
    input: &[T],
    gradient: &[T],
    out: &mut [T],
) where
    T::Wide: Real,
{
    let (input, gradient) = (&*T::widen(input), &*T::widen(gradient));
    T::write_wide(out, |out| match g.forward_pass() {
        Some(pass) => {
            let groups = Groups { count: 1, source_c: g.in_c, out_c: g.out_c };
            filter_gradient::run(par, &pass, input, gradient, groups, out);
        }
        None => plain_filter_gradient(g, input, gradient, out),
    });
}

/// The convolution, cell by cell; cells outside of the volume are passed over.
pub(super) fn plain<T: Widen>(
    par: Parallel,
    g: &Conv3dGeometry,
    input: &[T],
    filter: &[T],
    out: &mut [T],
) {
    let (input, filter) = (&*T::widen(input), &*T::widen(filter));
    let cost = g.filter_len().max(1);
    par_chunks_mut(par, out, g.out_c, ((1 << 16) / cost).max(1) * g.out_c, &|start, piece| {
        T::write_wide(piece, |piece| {
            piece.fill(T::Wide::ZERO);
            for (pixel, sums) in (start / g.out_c..).zip(piece.chunks_exact_mut(g.out_c)) {
                g.for_each_tap(pixel, |from, cell| {
                    let channels = &input[from * g.in_c..][..g.in_c];
                    let rows = filter[cell * g.in_c * g.out_c..].chunks_exact(g.out_c);
                    for (&x, row) in channels.iter().zip(rows) {
                        for (sum, &w) in sums.iter_mut().zip(row) {
                            *sum = sum.add_product(x, w);
                        }
                    }
                });
            }
        });
    });
}

pub(super) fn plain_input_gradient<W: Sum>(
    g: &Conv3dGeometry,
    filter: &[W],
    gradient: &[W],
    out: &mut [W],
) {
    out.fill(W::ZERO);
    for (pixel, gradient) in gradient.chunks_exact(g.out_c).enumerate() {
        g.for_each_tap(pixel, |to, cell| {
            let rows = filter[cell * g.in_c * g.out_c..].chunks_exact(g.out_c);
            for (sum, row) in out[to * g.in_c..][..g.in_c].iter_mut().zip(rows) {
                let product = |sum: W, (&w, &dy): (&W, &W)| sum.add_product(w, dy);
                *sum = sum.add(row.iter().zip(gradient).fold(W::ZERO, product));
            }
        });
    }
}

pub(super) fn plain_filter_gradient<W: Sum>(
    g: &Conv3dGeometry,
    input: &[W],
    gradient: &[W],
    out: &mut [W],
) {
    out.fill(W::ZERO);
    for (pixel, gradient) in gradient.chunks_exact(g.out_c).enumerate() {
        g.for_each_tap(pixel, |from, cell| {
            let rows = out[cell * g.in_c * g.out_c..].chunks_exact_mut(g.out_c);
            for (&x, row) in input[from * g.in_c..][..g.in_c].iter().zip(rows) {
                for (sum, &dy) in row.iter_mut().zip(gradient) {
                    *sum = sum.add_product(x, dy);
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two volumes of 4x3x5 with strides, padding on both sides and two channels.
    const GEOMETRY: Conv3dGeometry = Conv3dGeometry {
        batch: 2,
        input: [4, 3, 5],
        in_c: 2,
        filter: [2, 3, 2],
        out_c: 3,
        output: [2, 3, 5],
        stride: [2, 1, 1],
        dilation: [1, 1, 1],
        pad: [0, 1, 0],
    };

    fn numbers(count: usize, step: usize) -> Vec<f32> {
        (0..count).map(|i| (i * step % 17) as f32 - 8.0).collect()
    }

    #[test]
    fn passes_compute_what_the_definition_says() {
        let g = &GEOMETRY;
        let (x, w) = (numbers(g.input_len(), 5), numbers(g.filter_len(), 7));
        let dy = numbers(g.output_len(), 3);
        // Integers below 2^24: every order of summation gives the same.
        let (mut fast, mut slow) = (vec![0.0; dy.len()], vec![0.0; dy.len()]);
        conv3d(Parallel::SERIAL, g, &x, &w, &mut fast);
        plain(Parallel::SERIAL, g, &x, &w, &mut slow);
        assert_eq!(fast, slow);
        let (mut fast, mut slow) = (vec![0.0; x.len()], vec![0.0; x.len()]);
        conv3d_backprop_input(Parallel::SERIAL, g, &w, &dy, &mut fast);
        plain_input_gradient(g, &w, &dy, &mut slow);
        assert_eq!(fast, slow);
        let (mut fast, mut slow) = (vec![0.0; w.len()], vec![0.0; w.len()]);
        conv3d_backprop_filter(Parallel::SERIAL, g, &x, &dy, &mut fast);
        plain_filter_gradient(g, &x, &dy, &mut slow);
        assert_eq!(fast, slow);
    }

    #[test]
    fn a_filter_across_planes() {
        let one = [1; 3];
        let g = Conv3dGeometry {
            batch: 1,
            input: [3, 1, 1],
            in_c: 1,
            filter: [2, 1, 1],
            out_c: 1,
            output: [2, 1, 1],
            stride: one,
            dilation: one,
            pad: [0; 3],
        };
        let mut out = [0; 2];
        conv3d(Parallel::SERIAL, &g, &[1i32, 10, 100], &[2, -1], &mut out);
        assert_eq!(out, [-8, -80]);
    }
}

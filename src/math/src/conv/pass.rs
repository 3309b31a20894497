//! What a convolution and its gradients have in common: outputs that are sums over taps into a source.
//!
//! A pass has an [`Axis`] for depth, rows and columns. A convolution is one pass. The gradient with respect to its input is a
//! pass with the output's gradient as the source for each residue of the input's position modulo the stride, so that no
//! multiplication with the zeros between the outputs is made.
//!
//! Source rows are read in place, or from copies with zeros at their ends ([`with_rows`]), so that kernels need not know of padding.

use std::ops::Range;

use crate::gemm::{Finish, Real};
use crate::scratch;

/// A cell of the filter along one axis, and where it lies in the source relative to the first output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tap {
    pub(super) offset: isize,
    pub(super) cell: usize,
}

/// Positions beyond this count as outside of any image, and must not overflow.
const FAR: i64 = 1 << 40;

/// One axis of a pass: output `i` has the sum over taps of the source at `i · stride + offset`, zero outside of it.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    /// Outputs, and their places along the axis of the result: `first + i · step`.
    pub(super) count: usize,
    pub(super) first: usize,
    pub(super) step: usize,
    pub(super) stride: usize,
    /// In ascending order of offsets.
    pub(super) taps: Vec<Tap>,
    /// The source's extent.
    pub(super) extent: usize,
}

/// The extents of one axis of a convolution.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extents {
    pub(super) input: usize,
    pub(super) filter: usize,
    pub(super) output: usize,
    pub(super) stride: usize,
    pub(super) dilation: usize,
    pub(super) pad: usize,
}

impl Extents {
    /// `cell · dilation - pad`, saturating.
    fn offset(&self, cell: usize) -> i64 {
        let limit = |v: usize| i64::try_from(v).unwrap_or(FAR).min(FAR);
        limit(cell).saturating_mul(limit(self.dilation)).min(FAR) - limit(self.pad)
    }

    /// The axis of the convolution.
    pub(super) fn forward(&self) -> Axis {
        let taps =
            (0..self.filter).map(|cell| Tap { offset: self.offset(cell) as isize, cell }).collect();
        Axis {
            count: self.output,
            first: 0,
            step: 1,
            stride: self.stride,
            taps,
            extent: self.input,
        }
    }

    /// The axes of the gradient with respect to the input, one for each residue of its position.
    pub(super) fn backward(&self) -> Vec<Axis> {
        let stride = i64::try_from(self.stride).unwrap_or(FAR);
        (0..self.stride.min(self.input))
            .map(|first| {
                // Input position `first + i · stride` met cell `f` for output `i + (first - offset(f)) / stride`.
                let mut taps: Vec<Tap> = (0..self.filter)
                    .map(|cell| (first as i64 - self.offset(cell), cell))
                    .filter(|(distance, _)| distance.rem_euclid(stride) == 0)
                    .map(|(distance, cell)| Tap { offset: (distance / stride) as isize, cell })
                    .collect();
                taps.sort_by_key(|tap| tap.offset);
                Axis {
                    count: (self.input - first).div_ceil(self.stride),
                    first,
                    step: self.stride,
                    stride: 1,
                    taps,
                    extent: self.output,
                }
            })
            .collect()
    }
}

impl Axis {
    /// An axis that is not there.
    pub(super) fn single() -> Axis {
        let taps = vec![Tap { offset: 0, cell: 0 }];
        Axis { count: 1, first: 0, step: 1, stride: 1, taps, extent: 1 }
    }

    /// The source position under a tap, if it lies in the source.
    fn position(&self, output: usize, tap: Tap) -> Option<usize> {
        let position = (output * self.stride).checked_add_signed(tap.offset)?;
        (position < self.extent).then_some(position)
    }

    /// Positions before the source, and positions from its start on, that some output reads.
    fn reach(&self) -> (usize, usize) {
        let (Some(first), Some(last)) = (self.taps.first(), self.taps.last()) else {
            return (0, 0);
        };
        let before = usize::try_from(-first.offset).unwrap_or(0);
        let last = (self.count.saturating_sub(1) * self.stride).checked_add_signed(last.offset);
        (before, last.map_or(0, |last| last + 1))
    }

    /// True if rows along this axis may be copied with all their padding: it is not many times the image.
    pub(super) fn is_sensible(&self) -> bool {
        let (before, after) = self.reach();
        let least = 4 * self.extent + 256;
        before <= least && after <= least
    }
}

/// Axes and extents of a pass over images of `channels` channels.
pub(super) struct Pass {
    pub(super) batch: usize,
    pub(super) d: Axis,
    pub(super) h: Axis,
    pub(super) w: Axis,
    pub(super) channels: usize,
    /// Extents of the result.
    pub(super) out: [usize; 3],
}

impl Pass {
    /// Rows of outputs.
    pub(super) fn rows(&self) -> usize {
        self.batch * self.d.count * self.h.count
    }

    /// Taps that choose a source row.
    pub(super) fn row_taps(&self) -> usize {
        self.d.taps.len() * self.h.taps.len()
    }

    /// The first pixel of an output row in the result.
    pub(super) fn out_pixel(&self, row: usize) -> usize {
        let (image, od, oh) = self.place(row);
        let (d, h) = (self.d.first + od * self.d.step, self.h.first + oh * self.h.step);
        ((image * self.out[0] + d) * self.out[1] + h) * self.out[2] + self.w.first
    }

    fn place(&self, row: usize) -> (usize, usize, usize) {
        let (rest, oh) = (row / self.h.count, row % self.h.count);
        (rest / self.d.count, rest % self.d.count, oh)
    }

    /// The source row under a tap of depth and a tap of rows, if there is one.
    fn source_row(&self, row: usize, tap: usize) -> Option<usize> {
        let (image, od, oh) = self.place(row);
        let (fd, fh) = (tap / self.h.taps.len(), tap % self.h.taps.len());
        let d = self.d.position(od, self.d.taps[fd])?;
        let h = self.h.position(oh, self.h.taps[fh])?;
        Some((image * self.d.extent + d) * self.h.extent + h)
    }

    /// The cells of depth and rows that a row tap stands for.
    pub(super) fn row_cell(&self, tap: usize) -> [usize; 2] {
        let (fd, fh) = (tap / self.h.taps.len(), tap % self.h.taps.len());
        [self.d.taps[fd].cell, self.h.taps[fh].cell]
    }

    /// True if no output reads columns outside of the source.
    pub(super) fn fits(&self) -> bool {
        let (before, end) = self.w.reach();
        before == 0 && end <= self.w.extent
    }

    /// Writes zeros to the pass's pixels: those that no tap reaches.
    pub(super) fn zero<W: Real>(&self, channels: usize, out: &mut [W]) {
        for row in 0..self.rows() {
            for col in 0..self.w.count {
                let place = (self.out_pixel(row) + col * self.w.step) * channels;
                out[place..place + channels].fill(<W as Finish>::ZERO);
            }
        }
    }

    /// Elements of a source row.
    fn source_len(&self) -> usize {
        self.w.extent * self.channels
    }

    /// Output rows that are worked on together, such that their source rows, of so many elements for each column, take about
    /// `bytes`; no more than make `bands` bands.
    pub(super) fn band<W>(&self, pixel: usize, bytes: usize, bands: usize) -> usize {
        let (before, end) = self.w.reach();
        let row_bytes = ((before + end.max(self.w.extent)) * pixel * size_of::<W>()).max(1);
        let fit = bytes / row_bytes / self.d.taps.len().max(1);
        let band = fit.saturating_sub(self.h.taps.len()) / self.h.stride;
        let least = 96usize.div_ceil(self.w.count.max(1));
        band.max(least).min(self.rows().div_ceil(bands.max(1))).max(1)
    }
}

/// Writes a source row, of the source's columns, to a prepared row of `pixel` elements a column.
pub(super) type Expand<'a, W> = &'a dyn Fn(&[W], &mut [W]);

/// Calls `f` with the source rows under output rows: `starts[row · taps + tap]` is column 0 of the source row under that tap.
///
/// Rows are copied, with zeros for columns outside of the source, unless all columns that outputs read lie in it. With `expand`
/// they are copied by that function, to `pixel` elements a column. Rows outside of the source are zeros.
pub(super) fn with_rows<W: Real, R>(
    pass: &Pass,
    source: &[W],
    rows: Range<usize>,
    pixel: usize,
    expand: Option<Expand<'_, W>>,
    f: impl FnOnce(&[*const W]) -> R,
) -> R {
    let taps = pass.row_taps();
    let mut keys: Vec<usize> = Vec::with_capacity(rows.len() * taps);
    for row in rows.clone() {
        keys.extend((0..taps).filter_map(|tap| pass.source_row(row, tap)));
    }
    keys.sort_unstable();
    keys.dedup();
    let copied = expand.is_some() || !pass.fits();
    let (before, end) = pass.w.reach();
    // The columns of a copy: those read, before the source, in it, and behind it.
    let within = end.min(pass.w.extent);
    let len = (before + end) * pixel;
    let count = if copied { keys.len() } else { 0 };
    // The last row is the one of zeros.
    scratch::with((count + 1) * len.max(1), |buffer: &mut [W]| {
        if copied {
            for (&key, out) in keys.iter().zip(buffer.chunks_exact_mut(len.max(1))) {
                let from = &source[key * pass.source_len()..][..within * pass.channels];
                let (left, rest) = out.split_at_mut(before * pixel);
                let (middle, right) = rest.split_at_mut(within * pixel);
                left.fill(W::ZERO);
                right.fill(W::ZERO);
                match expand {
                    Some(expand) => expand(from, middle),
                    None => middle.copy_from_slice(from),
                }
            }
        }
        buffer[count * len..].fill(W::ZERO);
        let base = buffer.as_ptr();
        let column = before * pixel;
        let mut starts = Vec::with_capacity(rows.len() * taps);
        for row in rows {
            starts.extend((0..taps).map(|tap| match pass.source_row(row, tap) {
                Some(key) if copied => {
                    let slot = keys.binary_search(&key).expect("the row is among the keys");
                    base.wrapping_add(slot * len + column)
                }
                Some(key) => source[key * pass.source_len()..].as_ptr(),
                None => base.wrapping_add(count * len + column),
            }));
        }
        f(&starts)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offsets(axis: &Axis) -> Vec<(isize, usize)> {
        axis.taps.iter().map(|tap| (tap.offset, tap.cell)).collect()
    }

    #[test]
    fn gradients_have_an_axis_for_each_residue() {
        let extents = Extents { input: 5, filter: 3, output: 3, stride: 2, dilation: 1, pad: 1 };
        assert_eq!(offsets(&extents.forward()), [(-1, 0), (0, 1), (1, 2)]);
        let axes = extents.backward();
        // Input 2i: output i by cell 1. Input 2i + 1: output i + 1 by cell 0, output i by cell 2.
        assert_eq!(offsets(&axes[0]), [(0, 1)]);
        assert_eq!(offsets(&axes[1]), [(0, 2), (1, 0)]);
        assert_eq!((axes[0].count, axes[1].count), (3, 2));
    }

    #[test]
    fn far_positions_do_not_overflow() {
        let extents = Extents {
            input: 5,
            filter: 3,
            output: 1,
            stride: 1,
            dilation: usize::MAX,
            pad: usize::MAX,
        };
        assert!(!extents.forward().is_sensible());
    }
}

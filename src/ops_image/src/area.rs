//! `ResizeArea`.

use num_traits::AsPrimitive;
use tfcore_base::{Elem, LoopFor, RealNumbers, Result, TypedLoop, try_collect};
use tfcore_framework::Registry;
use tfcore_math::pool::par_chunks_mut;

use crate::resize::{Alignment, InterpolationLoop, interpolation, resize_shape};

pub(crate) fn register(r: &mut Registry) {
    // `ResizeArea(images: T, size: int32; align_corners) -> resized_images: float`: each pixel is the mean of the input's
    // pixels that it covers, the outermost of them in part.
    r.op("ResizeArea")
        .shape(resize_shape)
        .typed_kernel::<Area, RealNumbers>("T", |init, run| interpolation(init, run, spans));
}

/// The pixels along one axis that an output pixel covers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Span {
    start: i64,
    end: i64,
    /// How much of the first and of the last pixel is covered.
    first: f32,
    last: f32,
    /// The length of the span.
    length: f32,
    /// The largest index; pixels beyond are this one.
    limit: i64,
}

impl Span {
    /// The weight of a pixel of the span. A span of one pixel has the first's.
    fn weight(&self, index: i64) -> f32 {
        if index == self.start {
            self.first
        } else if index + 1 == self.end {
            self.last
        } else {
            1.0
        }
    }

    fn pixels(&self) -> impl Iterator<Item = (usize, f32)> + '_ {
        // A span always has its first pixel.
        (self.start..self.end.max(self.start + 1))
            .map(|index| (index.clamp(0, self.limit) as usize, self.weight(index)))
    }
}

fn spans(alignment: Alignment, input: usize, output: usize) -> Result<Vec<Span>> {
    // Aligned corners of a single pixel leave no distance; the reference then takes a small one.
    let scale = alignment.scale(input, output).max(1e-6);
    try_collect((0..output).map(|index| {
        let (from, to) = (index as f32 * scale, (index + 1) as f32 * scale);
        let (start, end) = (from.floor() as i64, to.ceil() as i64);
        let covered = |pixel: i64| {
            let (left, right) = (pixel as f32, pixel as f32 + 1.0);
            match (left < from, right > to) {
                (true, true) => scale,
                (true, false) => right - from,
                (false, true) => to - left,
                (false, false) => 1.0,
            }
        };
        Span {
            start,
            end,
            first: covered(start),
            last: covered(end - 1),
            length: scale,
            limit: input as i64 - 1,
        }
    }))
}

struct Area;

impl TypedLoop for Area {
    type Loop = InterpolationLoop<Span>;
}

impl<T: Elem + AsPrimitive<f32>> LoopFor<T> for Area {
    const LOOP: InterpolationLoop<Span> = |parallel, resize, rows, cols, images, out| {
        let (images, out_row) = (images.typed::<T>(), resize.out_row());
        let channels = resize.channels;
        let scale = 1.0 / (rows[0].length * cols[0].length);
        par_chunks_mut(parallel, out, out_row, 1 << 12, &|start, piece| {
            for (number, out) in (start / out_row..).zip(piece.chunks_exact_mut(out_row)) {
                let (image, row) = (number / resize.out_h, rows[number % resize.out_h]);
                for (out, col) in out.chunks_exact_mut(channels).zip(cols) {
                    for (channel, out) in out.iter_mut().enumerate() {
                        let mut sum = 0.0;
                        for (y, by_row) in row.pixels() {
                            let source = (image * resize.in_h + y) * resize.in_row();
                            let mut of_row = 0.0;
                            for (x, by_col) in col.pixels() {
                                let value: f32 = images[source + x * channels + channel].as_();
                                of_row += value * by_col;
                            }
                            sum += of_row * by_row;
                        }
                        *out = sum * scale;
                    }
                }
            }
        });
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_cover_pixels_in_part() {
        let edges = Alignment { align_corners: false, half_pixel_centers: false };
        let found = spans(edges, 3, 2).unwrap();
        let weights: Vec<Vec<(usize, f32)>> =
            found.iter().map(|span| span.pixels().collect()).collect();
        assert_eq!(weights, [vec![(0, 1.0), (1, 0.5)], vec![(1, 0.5), (2, 1.0)]]);
        let found = spans(edges, 2, 4).unwrap();
        assert_eq!(found[1].pixels().collect::<Vec<_>>(), [(0, 0.5)]);
    }
}

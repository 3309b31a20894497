//! `ResizeBilinear`.

use num_traits::AsPrimitive;
use tfcore_base::{Elem, LoopFor, RealNumbers, Result, TypedLoop, try_collect};
use tfcore_framework::Registry;
use tfcore_math::isa::vectorize;
use tfcore_math::pool::par_chunks_mut;

use crate::resize::{Alignment, InterpolationLoop, interpolation, resize_shape};

pub(crate) fn register(r: &mut Registry) {
    // `ResizeBilinear(images: T, size: int32) -> resized_images: float`, attrs `align_corners`,
    // `half_pixel_centers`: each pixel is interpolated between the four of the input around it.
    r.op("ResizeBilinear")
        .shape(resize_shape)
        .typed_kernel::<Bilinear, RealNumbers>("T", |init, run| interpolation(init, run, between));
}

/// Two neighbouring input pixels and how far from the first one towards the second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Between {
    pub(crate) lower: usize,
    pub(crate) upper: usize,
    pub(crate) fraction: f32,
}

/// For each of `output` pixels along one axis, the `input` pixels that it lies between.
pub(crate) fn between(alignment: Alignment, input: usize, output: usize) -> Result<Vec<Between>> {
    let scale = alignment.scale(input, output);
    try_collect((0..output).map(|index| {
        let position = alignment.position(index, scale);
        let floor = position.floor();
        let upper = (position.ceil().max(0.0) as usize).min(input - 1);
        let lower = (floor.max(0.0) as usize).min(upper);
        Between { lower, upper, fraction: position - floor }
    }))
}

struct Bilinear;

impl TypedLoop for Bilinear {
    type Loop = InterpolationLoop<Between>;
}

impl<T: Elem + AsPrimitive<f32>> LoopFor<T> for Bilinear {
    const LOOP: InterpolationLoop<Between> = |parallel, resize, rows, cols, images, out| {
        let (images, out_row) = (images.typed::<T>(), resize.out_row());
        par_chunks_mut(parallel, out, out_row, 1 << 12, &|start, piece| {
            for (row, out) in (start / out_row..).zip(piece.chunks_exact_mut(out_row)) {
                let (image, row) = (row / resize.out_h, rows[row % resize.out_h]);
                let source = |row: usize| {
                    &images[(image * resize.in_h + row) * resize.in_row()..][..resize.in_row()]
                };
                let (top, bottom) = (source(row.lower), source(row.upper));
                interpolate_row(top, bottom, row.fraction, cols, resize.channels, out);
            }
        });
    };
}

fn interpolate_row<T: AsPrimitive<f32>>(
    top: &[T],
    bottom: &[T],
    fraction: f32,
    cols: &[Between],
    channels: usize,
    out: &mut [f32],
) {
    vectorize(
        #[inline(always)]
        || {
            for (out, col) in out.chunks_exact_mut(channels).zip(cols) {
                let at = |row: &'_ [T], col: usize, channel: usize| -> f32 {
                    row[col * channels + channel].as_()
                };
                for (channel, out) in out.iter_mut().enumerate() {
                    let mix = |row: &[T]| {
                        let left = at(row, col.lower, channel);
                        left + (at(row, col.upper, channel) - left) * col.fraction
                    };
                    let (top, bottom) = (mix(top), mix(bottom));
                    *out = top + (bottom - top) * fraction;
                }
            }
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pixels_lie_between_pixels() {
        let edges = Alignment { align_corners: false, half_pixel_centers: false };
        let at = |lower, upper, fraction| Between { lower, upper, fraction };
        assert_eq!(
            between(edges, 2, 4).unwrap(),
            [at(0, 0, 0.0), at(0, 1, 0.5), at(1, 1, 0.0), at(1, 1, 0.5)]
        );
        let centers = Alignment { align_corners: false, half_pixel_centers: true };
        assert_eq!(between(centers, 2, 1).unwrap(), [at(0, 1, 0.5)]);
        assert_eq!(between(centers, 1, 2).unwrap(), [at(0, 0, 0.75), at(0, 0, 0.25)]);
    }

    #[test]
    fn rows_are_mixed_along_both_axes() {
        let (top, bottom) = ([0u8, 10, 100, 110], [20u8, 30, 120, 130]);
        let cols = [Between { lower: 0, upper: 1, fraction: 0.5 }];
        let mut out = [0.0; 2];
        interpolate_row(&top, &bottom, 0.25, &cols, 2, &mut out);
        assert_eq!(out, [55.0, 65.0]);
    }
}

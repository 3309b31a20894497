//! `ResizeBicubic`.

use num_traits::AsPrimitive;
use tfcore_base::{Elem, LoopFor, RealNumbers, Result, TypedLoop, try_collect};
use tfcore_framework::Registry;
use tfcore_math::pool::par_chunks_mut;

use crate::resize::{Alignment, InterpolationLoop, interpolation, resize_shape};

pub(crate) fn register(r: &mut Registry) {
    // `ResizeBicubic(images: T, size: int32) -> resized_images: float`, attrs `align_corners`,
    // `half_pixel_centers`: each pixel is interpolated from four by four of the input around it.
    r.op("ResizeBicubic")
        .shape(resize_shape)
        .typed_kernel::<Bicubic, RealNumbers>("T", |init, run| interpolation(init, run, taps));
}

/// Four input pixels along one axis and their weights.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Taps {
    pub(crate) pixels: [usize; 4],
    pub(crate) weights: [f32; 4],
}

impl Taps {
    /// The weighted sum, from the first to the last.
    #[inline(always)]
    fn sum(&self, values: [f32; 4]) -> f32 {
        let w = self.weights;
        values[0] * w[0] + values[1] * w[1] + values[2] * w[2] + values[3] * w[3]
    }
}

/// Weights are those of the nearest of so many places between two pixels, as the reference has them.
const PLACES: usize = 1024;

/// The weight of a pixel `distance` away, below 1 and from 1 to 2, in the cubic kernel of parameter `a`.
fn near(a: f64, distance: f32) -> f32 {
    let x = f64::from(distance);
    (((a + 2.0) * x - (a + 3.0)) * x * x + 1.0) as f32
}

fn far(a: f64, distance: f32) -> f32 {
    let x = f64::from(distance);
    (((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a) as f32
}

/// For each of `output` pixels along one axis, the `input` pixels that make it.
pub(crate) fn taps(alignment: Alignment, input: usize, output: usize) -> Result<Vec<Taps>> {
    let scale = alignment.scale(input, output);
    // With half-pixel centres the kernel is that of Keys, and pixels beyond the edge have no weight;
    // else the edge is repeated.
    let keys = alignment.half_pixel_centers;
    let a = if keys { -0.5 } else { -0.75 };
    let last = input as i64 - 1;
    try_collect((0..output).map(|index| {
        let position = alignment.position(index, scale);
        let floor = position.floor();
        let place = ((position - floor) * PLACES as f32).round_ties_even();
        let (before, after) = (place / PLACES as f32, (PLACES as f32 - place) / PLACES as f32);
        let mut weights =
            [far(a, before + 1.0), near(a, before), near(a, after), far(a, after + 1.0)];
        let pixels = [-1, 0, 1, 2].map(|offset| floor as i64 + offset);
        if keys {
            for (weight, pixel) in weights.iter_mut().zip(pixels) {
                if !(0..=last).contains(&pixel) {
                    *weight = 0.0;
                }
            }
            let [w0, w1, w2, w3] = weights;
            let sum = w0 + w1 + w2 + w3;
            if sum.abs() >= 1000.0 * f32::MIN_POSITIVE {
                let scale = 1.0 / sum;
                weights = weights.map(|weight| weight * scale);
            }
        }
        Taps { pixels: pixels.map(|pixel| pixel.clamp(0, last) as usize), weights }
    }))
}

struct Bicubic;

impl TypedLoop for Bicubic {
    type Loop = InterpolationLoop<Taps>;
}

impl<T: Elem + AsPrimitive<f32>> LoopFor<T> for Bicubic {
    const LOOP: InterpolationLoop<Taps> = |parallel, resize, rows, cols, images, out| {
        let (images, out_row) = (images.typed::<T>(), resize.out_row());
        let (in_row, channels) = (resize.in_row(), resize.channels);
        par_chunks_mut(parallel, out, out_row, 1 << 10, &|start, piece| {
            // An input row between rows, before it is interpolated along the columns.
            let mut mixed = vec![0.0; in_row];
            for (row, out) in (start / out_row..).zip(piece.chunks_exact_mut(out_row)) {
                let (image, taps) = (row / resize.out_h, &rows[row % resize.out_h]);
                let sources = taps
                    .pixels
                    .map(|row| &images[(image * resize.in_h + row) * in_row..][..in_row]);
                for (i, mixed) in mixed.iter_mut().enumerate() {
                    *mixed = taps.sum(sources.map(|source| source[i].as_()));
                }
                for (out, taps) in out.chunks_exact_mut(channels).zip(cols) {
                    for (channel, out) in out.iter_mut().enumerate() {
                        *out = taps.sum(taps.pixels.map(|col| mixed[col * channels + channel]));
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
    fn weights_are_those_of_a_partition_of_one() {
        for half_pixel_centers in [false, true] {
            let alignment = Alignment { align_corners: false, half_pixel_centers };
            for taps in taps(alignment, 5, 13).unwrap() {
                let sum: f32 = taps.weights.iter().sum();
                assert!((sum - 1.0).abs() < 1e-5, "{taps:?}");
                assert!(taps.pixels.iter().all(|&pixel| pixel < 5), "{taps:?}");
            }
        }
    }

    #[test]
    fn pixels_on_pixels_are_copied() {
        let alignment = Alignment { align_corners: false, half_pixel_centers: false };
        let all = taps(alignment, 4, 4).unwrap();
        assert_eq!(all[2], Taps { pixels: [1, 2, 3, 3], weights: [0.0, 1.0, 0.0, 0.0] });
    }
}

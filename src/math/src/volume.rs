//! Pooling windows over NDHWC volumes: the largest element, with its place if wanted, or the mean of each.
//!
//! An NHWC image is a volume of depth 1. Cells outside of the volume do not take part. Two-dimensional pooling
//! without places is in [`window`](crate::window); its largest element treats NaN differently.

use half::{bf16, f16};
use num_traits::{Float, NumCast, Zero};

use crate::isa::vectorize;
use crate::pool::{Parallel, par_chunks_mut};
use crate::wide::{Sum, Widen};

/// Cells that are worth a thread of their own.
const GRAIN: usize = 1 << 14;

/// Extents of a pooling op. Arrays hold depth, height and width.
///
/// The window of output cell `o` begins at input cell `o · stride - pad` on each axis. What padding there
/// is at the other end follows from the output's extents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeGeometry {
    pub batch: usize,
    pub channels: usize,
    pub input: [usize; 3],
    pub window: [usize; 3],
    pub stride: [usize; 3],
    pub pad: [usize; 3],
    pub output: [usize; 3],
}

impl VolumeGeometry {
    /// The geometry of a two-dimensional window; arrays hold height and width.
    pub fn new_2d(
        batch: usize,
        channels: usize,
        input: [usize; 2],
        window: [usize; 2],
        stride: [usize; 2],
        pad: [usize; 2],
        output: [usize; 2],
    ) -> Self {
        let with = |depth, [h, w]: [usize; 2]| [depth, h, w];
        VolumeGeometry {
            batch,
            channels,
            input: with(1, input),
            window: with(1, window),
            stride: with(1, stride),
            pad: with(0, pad),
            output: with(1, output),
        }
    }

    /// Elements of the input.
    pub fn input_len(&self) -> usize {
        self.batch * self.input.iter().product::<usize>() * self.channels
    }

    /// Elements of the output.
    pub fn output_len(&self) -> usize {
        self.batch * self.output.iter().product::<usize>() * self.channels
    }

    /// The cells of the image that the window of output cell `out` covers on `axis`.
    pub fn covered(&self, axis: usize, out: usize) -> std::ops::Range<usize> {
        let (start, extent, pad) =
            (out.saturating_mul(self.stride[axis]), self.input[axis], self.pad[axis]);
        let end = start.saturating_add(self.window[axis]).saturating_sub(pad).min(extent);
        start.saturating_sub(pad).min(end)..end
    }

    /// Calls `f` with the pixel numbers, within the whole batch, under the window of output pixel `pixel`, in order. Returns how many.
    fn for_each_input_pixel(&self, pixel: usize, mut f: impl FnMut(usize)) -> usize {
        let [_, height, width] = self.output;
        let (row, w) = (pixel / width, pixel % width);
        let (plane, h) = (row / height, row % height);
        let (image, d) = (plane / self.output[0], plane % self.output[0]);
        let (depths, rows, cols) = (self.covered(0, d), self.covered(1, h), self.covered(2, w));
        for d in depths.clone() {
            for h in rows.clone() {
                for w in cols.clone() {
                    f(((image * self.input[0] + d) * self.input[1] + h) * self.input[2] + w);
                }
            }
        }
        depths.len() * rows.len() * cols.len()
    }

    /// Calls `f(first pixel, rows of the output)` for pieces of `out`, after a check of the lengths.
    fn share_out<T: Send>(
        &self,
        par: Parallel,
        input: usize,
        out: &mut [T],
        f: &(dyn Fn(usize, &mut [T]) + Sync),
    ) {
        assert_eq!(
            (input, out.len()),
            (self.input_len(), self.output_len()),
            "pooling: lengths of {self:?}"
        );
        let cells = self.window.iter().fold(1, |cells: usize, &w| cells.saturating_mul(w));
        par_chunks_mut(par, out, self.channels, GRAIN / cells.max(1), &|start, piece| {
            f(start / self.channels, piece)
        });
    }
}

/// A real type that can be compared.
pub trait PoolElem: Copy + PartialOrd + Send + Sync + 'static {
    /// The least finite value.
    const LOWEST: Self;
    /// What is less than or equal to all others.
    const LEAST: Self;
}

macro_rules! pool_elem {
    ($least:ident: $($t:ty),*) => {$(
        impl PoolElem for $t {
            const LOWEST: Self = <$t>::MIN;
            const LEAST: Self = <$t>::$least;
        }
    )*};
}
pool_elem!(NEG_INFINITY: f32, f64, f16, bf16);
pool_elem!(MIN: i8, i16, i32, i64, u8, u16, u32, u64);

/// Writes the largest element of each window.
///
/// As TensorFlow does, starts from negative infinity and takes what does not compare less: NaN, and whatever follows it.
pub fn max_pool3d<T: PoolElem>(par: Parallel, g: &VolumeGeometry, input: &[T], out: &mut [T]) {
    g.share_out(par, input.len(), out, &|first, piece| {
        for (i, out) in piece.chunks_exact_mut(g.channels).enumerate() {
            out.fill(T::LEAST);
            g.for_each_input_pixel(first + i, |pixel| {
                let values = &input[pixel * g.channels..][..g.channels];
                vectorize(
                    #[inline(always)]
                    || {
                        for (max, &value) in out.iter_mut().zip(values) {
                            *max = if *max > value { *max } else { value };
                        }
                    },
                );
            });
        }
    });
}

/// Writes the largest element of each window to `out`, and to `index` where in its image it lies: `(row · width + column) · channels + channel`.
///
/// As TensorFlow does, takes the first of equals, and the first element of a window if that is NaN. A window wholly
/// outside of the image gives the lowest finite value and the index -1.
pub fn max_pool_with_argmax<T: PoolElem>(
    par: Parallel,
    g: &VolumeGeometry,
    input: &[T],
    out: &mut [T],
    index: &mut [i64],
) {
    assert_eq!(out.len(), g.output_len(), "pooling: lengths of {g:?}");
    let image = (g.input.iter().product::<usize>() * g.channels).max(1);
    g.share_out(par, input.len(), index, &|first, piece| {
        for (i, index) in piece.chunks_exact_mut(g.channels).enumerate() {
            index.fill(-1);
            g.for_each_input_pixel(first + i, |pixel| {
                let start = pixel * g.channels;
                // Until the window is done, places within the whole input.
                for (c, index) in index.iter_mut().enumerate() {
                    if *index < 0 || input[start + c] > input[*index as usize] {
                        *index = (start + c) as i64;
                    }
                }
            });
        }
    });
    for (out, index) in out.iter_mut().zip(index) {
        match usize::try_from(*index) {
            Ok(place) => (*out, *index) = (input[place], (place % image) as i64),
            Err(_) => *out = T::LOWEST,
        }
    }
}

/// Writes the mean of the elements of each window that lie in the image.
///
/// Half types are summed in f32 and rounded once. A window wholly outside of the image gives NaN.
pub fn avg_pool3d<T: Widen<Wide: Float>>(
    par: Parallel,
    g: &VolumeGeometry,
    input: &[T],
    out: &mut [T],
) {
    let input = &*T::widen(input);
    g.share_out(par, input.len(), out, &|first, piece| {
        T::write_wide(piece, |piece| {
            piece.fill(T::Wide::zero());
            for (i, out) in piece.chunks_exact_mut(g.channels).enumerate() {
                let count = g.for_each_input_pixel(first + i, |pixel| {
                    let values = &input[pixel * g.channels..][..g.channels];
                    vectorize(
                        #[inline(always)]
                        || {
                            for (out, &value) in out.iter_mut().zip(values) {
                                *out = Sum::add(*out, value);
                            }
                        },
                    );
                });
                let count = <T::Wide as NumCast>::from(count).expect("every count is near a float");
                for out in out {
                    *out = *out / count;
                }
            }
        });
    });
}

/// Writes the gradient of [`avg_pool3d`] with respect to its input: each output shares its gradient out evenly.
pub fn avg_pool3d_backprop<T: Widen<Wide: Float>>(
    par: Parallel,
    g: &VolumeGeometry,
    out_backprop: &[T],
    in_backprop: &mut [T],
) {
    assert_eq!(
        (in_backprop.len(), out_backprop.len()),
        (g.input_len(), g.output_len()),
        "pooling: lengths of {g:?}"
    );
    let gradient = &*T::widen(out_backprop);
    // Windows overlap within an image, so an image belongs to one thread.
    let image = g.input.iter().product::<usize>() * g.channels;
    let pixels = g.output.iter().product::<usize>();
    par_chunks_mut(par, in_backprop, image, GRAIN, &|start, piece| {
        T::write_wide(piece, |piece| {
            piece.fill(T::Wide::zero());
            for pixel in start / image * pixels..(start + piece.len()) / image * pixels {
                let values = &gradient[pixel * g.channels..][..g.channels];
                let count = g.for_each_input_pixel(pixel, |_| {});
                let count = <T::Wide as NumCast>::from(count).expect("every count is near a float");
                g.for_each_input_pixel(pixel, |to| {
                    let sums = &mut piece[to * g.channels - start..][..g.channels];
                    for (sum, &value) in sums.iter_mut().zip(values) {
                        *sum = Sum::add(*sum, value / count);
                    }
                });
            }
        });
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::Pool;

    fn geometries() -> Vec<VolumeGeometry> {
        let plane = VolumeGeometry::new_2d;
        vec![
            plane(2, 3, [5, 6], [2, 2], [2, 2], [0, 0], [2, 3]),
            plane(1, 40, [7, 5], [3, 2], [1, 2], [1, 0], [7, 3]),
            plane(2, 1, [4, 4], [3, 3], [2, 2], [0, 0], [2, 2]),
            plane(1, 2, [3, 3], [5, 5], [1, 1], [4, 2], [7, 3]),
            plane(0, 2, [3, 3], [2, 2], [1, 1], [0, 0], [2, 2]),
            plane(2, 0, [3, 3], [2, 2], [1, 1], [0, 0], [2, 2]),
            plane(1, 2, [9, 9], [2, 2], [usize::MAX / 2, 5], [0, 0], [1, 2]),
            plane(3, 16, [40, 30], [3, 3], [1, 1], [1, 1], [40, 30]),
            VolumeGeometry {
                batch: 2,
                channels: 3,
                input: [4, 5, 6],
                window: [2, 3, 2],
                stride: [1, 2, 2],
                pad: [1, 1, 0],
                output: [5, 3, 3],
            },
        ]
    }

    /// The places in the input of the window of each output.
    fn windows(g: &VolumeGeometry) -> Vec<Vec<usize>> {
        let mut all = vec![];
        for o in 0..g.output_len() {
            let c = o % g.channels;
            let w = o / g.channels;
            let h = w / g.output[2];
            let d = h / g.output[1];
            let b = d / g.output[0];
            let out = [d % g.output[0], h % g.output[1], w % g.output[2]];
            let mut places = vec![];
            for i in 0..g.input.iter().product::<usize>() {
                let cell =
                    [i / g.input[2] / g.input[1], i / g.input[2] % g.input[1], i % g.input[2]];
                let inside = (0..3).all(|axis| {
                    let start = out[axis] as i128 * g.stride[axis] as i128 - g.pad[axis] as i128;
                    (start..start + g.window[axis] as i128).contains(&(cell[axis] as i128))
                });
                if inside {
                    places.push((b * g.input.iter().product::<usize>() + i) * g.channels + c);
                }
            }
            all.push(places);
        }
        all
    }

    #[test]
    fn pooling_follows_its_definition() {
        let pool = Pool::new(3);
        for g in geometries() {
            let input: Vec<f64> =
                (0..g.input_len()).map(|i| ((i * 37 + i / 5) % 23) as f64 - 11.0).collect();
            let gradient: Vec<f64> = (0..g.output_len()).map(|i| (i % 7) as f64 * 720.0).collect();
            let halves: Vec<f16> = input.iter().map(|&v| f16::from_f64(v)).collect();
            let bytes: Vec<i8> = input.iter().map(|&v| v as i8).collect();
            let image = g.input.iter().product::<usize>() * g.channels;
            let mut d_input = vec![0.0; input.len()];
            let windows = windows(&g);
            for (window, &d) in windows.iter().zip(&gradient) {
                for &i in window {
                    d_input[i] += d / window.len() as f64;
                }
            }
            for par in [Parallel::SERIAL, Parallel::new(&pool)] {
                let n = g.output_len();
                let (mut max, mut arg, mut index) = (vec![0.0; n], vec![0.0; n], vec![0; n]);
                let (mut half_max, mut byte_max, mut avg) =
                    (vec![f16::ZERO; n], vec![0; n], vec![0.0; n]);
                let (mut half_avg, mut d) = (vec![f16::ZERO; n], vec![5.0; input.len()]);
                max_pool3d(par, &g, &input, &mut max);
                max_pool_with_argmax(par, &g, &input, &mut arg, &mut index);
                max_pool3d(par, &g, &halves, &mut half_max);
                max_pool3d(par, &g, &bytes, &mut byte_max);
                avg_pool3d(par, &g, &input, &mut avg);
                avg_pool3d(par, &g, &halves, &mut half_avg);
                avg_pool3d_backprop(par, &g, &gradient, &mut d);
                for (o, window) in windows.iter().enumerate() {
                    if window.is_empty() {
                        assert!(max[o] == f64::NEG_INFINITY && avg[o].is_nan() && index[o] == -1);
                        continue;
                    }
                    let expected = window.iter().fold(f64::MIN, |m, &i| m.max(input[i]));
                    let first = window.iter().find(|&&i| input[i] == expected).unwrap() % image;
                    let actual = [max[o], arg[o], half_max[o].to_f64(), byte_max[o] as f64];
                    assert_eq!(actual, [expected; 4], "max of {g:?} at {o}");
                    assert_eq!(index[o], first as i64, "argmax of {g:?} at {o}");
                    let expected =
                        window.iter().map(|&i| input[i]).sum::<f64>() / window.len() as f64;
                    assert!((avg[o] - expected).abs() < 1e-12, "avg of {g:?} at {o}");
                    assert_eq!(
                        half_avg[o],
                        f16::from_f32(expected as f32),
                        "half avg of {g:?} at {o}"
                    );
                }
                let close = d.iter().zip(&d_input).all(|(a, b)| (a - b).abs() < 1e-9);
                assert!(close, "avg backprop of {g:?}");
            }
        }
    }

    /// Observed of TensorFlow 2.21.
    #[test]
    fn not_a_number_and_infinity() {
        let nan = f32::NAN;
        let low = f32::NEG_INFINITY;
        let table: [([f32; 4], f32, (f32, i64)); 5] = [
            ([nan, 1.0, 2.0, 3.0], 3.0, (nan, 0)),
            ([1.0, nan, 2.0, 3.0], 3.0, (3.0, 3)),
            ([1.0, 2.0, 3.0, nan], nan, (3.0, 2)),
            ([nan; 4], nan, (nan, 0)),
            ([low; 4], low, (low, 0)),
        ];
        let g = VolumeGeometry::new_2d(1, 1, [2, 2], [2, 2], [2, 2], [0, 0], [1, 1]);
        let same = |a: f32, b: f32| a == b || a.is_nan() && b.is_nan();
        for (input, largest, (value, place)) in table {
            let (mut out, mut index) = ([0.0], [0]);
            max_pool3d(Parallel::SERIAL, &g, &input, &mut out);
            assert!(same(out[0], largest), "{input:?}: {out:?}");
            max_pool_with_argmax(Parallel::SERIAL, &g, &input, &mut out, &mut index);
            assert!(same(out[0], value) && index[0] == place, "{input:?}: {out:?} {index:?}");
        }
    }
}

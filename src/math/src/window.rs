//! Pooling windows over NHWC images: the largest element or the mean of each, and their gradients.
//!
//! Sums are kept in the element type, as TensorFlow keeps them: the mean of many half elements is as
//! coarse as that makes it.

use std::ops::{Add, AddAssign, Div, Mul, Range};

use half::{bf16, f16};
use num_traits::{Bounded, One};

use crate::isa::vectorize;
use crate::pool::{Parallel, par_chunks_mut};

/// Elements read that are worth a thread of their own.
const ELEMENTS_PER_CHUNK: usize = 1 << 15;

/// Extents of pooling: input [batch, in_h, in_w, channels], output [batch, out_h, out_w, channels].
///
/// The window of output pixel (oh, ow) begins at input row `oh · stride_h - pad_top` and the like column; what
/// lies outside of the image is no part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolGeometry {
    pub batch: usize,
    pub in_h: usize,
    pub in_w: usize,
    pub channels: usize,
    pub window_h: usize,
    pub window_w: usize,
    pub stride_h: usize,
    pub stride_w: usize,
    pub pad_top: usize,
    pub pad_left: usize,
    pub out_h: usize,
    pub out_w: usize,
}

impl PoolGeometry {
    /// Elements of the input.
    pub fn input_len(&self) -> usize {
        self.batch * self.in_h * self.in_w * self.channels
    }

    /// Elements of the output.
    pub fn output_len(&self) -> usize {
        self.batch * self.out_h * self.out_w * self.channels
    }

    /// The input rows in the windows of output row `oh`.
    fn rows(&self, oh: usize) -> Range<usize> {
        reach(oh, self.stride_h, self.window_h, self.pad_top, self.in_h)
    }

    /// The input columns in the windows of output column `ow`.
    fn cols(&self, ow: usize) -> Range<usize> {
        reach(ow, self.stride_w, self.window_w, self.pad_left, self.in_w)
    }

    /// Where the elements of an input pixel begin.
    fn pixel(&self, image: usize, ih: usize, iw: usize) -> usize {
        ((image * self.in_h + ih) * self.in_w + iw) * self.channels
    }

    fn check(&self, input: usize, output: usize) {
        let expected = (self.input_len(), self.output_len());
        assert_eq!((input, output), expected, "pooling: lengths of {self:?}");
    }

    /// Elements of output rows that are worth a thread of their own.
    fn grain(&self) -> usize {
        let window = self.window_h.min(self.in_h).saturating_mul(self.window_w.min(self.in_w));
        ELEMENTS_PER_CHUNK / window.max(1)
    }
}

/// The elements of `0..extent` in window `out`.
fn reach(out: usize, stride: usize, window: usize, pad: usize, extent: usize) -> Range<usize> {
    let start = out.saturating_mul(stride);
    let end = start.saturating_add(window).saturating_sub(pad).min(extent);
    start.saturating_sub(pad).min(end)..end
}

/// An element type with a largest element.
pub trait MaxElem:
    Copy + PartialOrd + Bounded + AddAssign + Default + Send + Sync + 'static
{
}

impl<T> MaxElem for T where
    T: Copy + PartialOrd + Bounded + AddAssign + Default + Send + Sync + 'static
{
}

/// A floating point type with means.
pub trait MeanElem:
    Copy
    + Default
    + One
    + Add<Output = Self>
    + Div<Output = Self>
    + Mul<Output = Self>
    + Send
    + Sync
    + 'static
{
    /// `count` as what counting up by one in this type comes to: it stops where one more is lost.
    fn from_count(count: usize) -> Self;
}

macro_rules! mean_elem {
    ($($t:ty, $from:expr, $digits:expr;)*) => {$(
        impl MeanElem for $t {
            fn from_count(count: usize) -> $t {
                $from(count.min(1 << $digits) as _)
            }
        }
    )*};
}
mean_elem! {
    f32, |count: f32| count, 24;
    f64, |count: f64| count, 53;
    f16, f16::from_f32, 11;
    bf16, bf16::from_f32, 8;
}

/// Writes the largest element of each window to `output`; NaNs are passed over, and an empty window has the
/// lowest finite number.
pub fn max_pool<T: MaxElem>(par: Parallel, g: &PoolGeometry, input: &[T], output: &mut [T]) {
    g.check(input.len(), output.len());
    for_each_output(par, g, output, &|image, rows, cols, out| {
        out.fill(T::min_value());
        for ih in rows {
            for iw in cols.clone() {
                let at = g.pixel(image, ih, iw);
                for (max, &x) in out.iter_mut().zip(&input[at..at + g.channels]) {
                    *max = if *max < x { x } else { *max };
                }
            }
        }
    });
}

/// Writes the largest element of each window to `output` and its place in the input to `places`; of several the first. A NaN
/// that is the first element of a window stays. An empty window has the lowest finite number and place 0.
pub fn max_pool_argmax<T: MaxElem>(
    par: Parallel,
    g: &PoolGeometry,
    input: &[T],
    output: &mut [T],
    places: &mut [usize],
) {
    g.check(input.len(), output.len());
    assert_eq!(output.len(), places.len(), "pooling: places of {g:?}");
    for_each_output(par, g, places, &|image, rows, cols, places| {
        for (channel, place) in places.iter_mut().enumerate() {
            let mut largest: Option<usize> = None;
            for ih in rows.clone() {
                for iw in cols.clone() {
                    let at = g.pixel(image, ih, iw) + channel;
                    if largest.is_none_or(|l| input[l] < input[at]) {
                        largest = Some(at);
                    }
                }
            }
            *place = largest.unwrap_or(usize::MAX);
        }
    });
    for (out, place) in output.iter_mut().zip(places) {
        *out = input.get(*place).copied().unwrap_or_else(T::min_value);
        if *place == usize::MAX {
            *place = 0;
        }
    }
}

/// Writes, for each window, what stands in `values` at the place of the first input that is equal to the window's `largest`
/// element; the default where there is none.
pub fn max_pool_second<T: Copy + Default + PartialEq + Send + Sync>(
    par: Parallel,
    g: &PoolGeometry,
    input: &[T],
    largest: &[T],
    values: &[T],
    output: &mut [T],
) {
    g.check(input.len(), output.len());
    assert_eq!((input.len(), output.len()), (values.len(), largest.len()), "pooling: {g:?}");
    if output.is_empty() {
        return;
    }
    par_chunks_mut(par, output, g.channels, g.grain(), &|start, piece| {
        for (pixel, out) in (start / g.channels..).zip(piece.chunks_exact_mut(g.channels)) {
            let (row, ow) = (pixel / g.out_w, pixel % g.out_w);
            let (image, oh) = (row / g.out_h, row % g.out_h);
            for (channel, out) in out.iter_mut().enumerate() {
                let places = g
                    .rows(oh)
                    .flat_map(|ih| g.cols(ow).map(move |iw| g.pixel(image, ih, iw) + channel));
                let wanted = largest[pixel * g.channels + channel];
                let found = places.into_iter().find(|&at| input[at] == wanted);
                *out = found.map_or_else(T::default, |at| values[at]);
            }
        }
    });
}

/// Writes the mean of each window to `output`, of the elements that lie in the image.
pub fn avg_pool<T: MeanElem>(par: Parallel, g: &PoolGeometry, input: &[T], output: &mut [T]) {
    g.check(input.len(), output.len());
    for_each_output(par, g, output, &|image, rows, cols, out| {
        out.fill(T::default());
        let count = T::from_count(rows.len() * cols.len());
        for ih in rows {
            for iw in cols.clone() {
                let at = g.pixel(image, ih, iw);
                for (sum, &x) in out.iter_mut().zip(&input[at..at + g.channels]) {
                    *sum = *sum + x;
                }
            }
        }
        for sum in out.iter_mut() {
            *sum = *sum / count;
        }
    });
}

/// Calls `f(image, rows, columns, elements)` for each output pixel, with the input pixels in its window.
#[inline(always)]
fn for_each_output<T: Send>(
    par: Parallel,
    g: &PoolGeometry,
    output: &mut [T],
    f: &(impl Fn(usize, Range<usize>, Range<usize>, &mut [T]) + Sync),
) {
    if output.is_empty() {
        return;
    }
    let row_len = g.out_w * g.channels;
    par_chunks_mut(par, output, row_len, g.grain(), &|start, piece| {
        vectorize(
            #[inline(always)]
            || {
                for (row, out_row) in (start / row_len..).zip(piece.chunks_exact_mut(row_len)) {
                    let (image, rows) = (row / g.out_h, g.rows(row % g.out_h));
                    for (ow, out) in out_row.chunks_exact_mut(g.channels).enumerate() {
                        f(image, rows.clone(), g.cols(ow), out);
                    }
                }
            },
        );
    });
}

/// Writes the gradient of [`max_pool`]: each output's goes to the first of its window's largest elements.
pub fn max_pool_backprop<T: MaxElem>(
    par: Parallel,
    g: &PoolGeometry,
    input: &[T],
    out_backprop: &[T],
    in_backprop: &mut [T],
) {
    g.check(in_backprop.len(), out_backprop.len());
    assert_eq!(input.len(), in_backprop.len(), "pooling: lengths of {g:?}");
    for_each_image(par, g, in_backprop, &|image, gradient| {
        let base = g.pixel(image, 0, 0);
        for oh in 0..g.out_h {
            for ow in 0..g.out_w {
                for channel in 0..g.channels {
                    let mut largest: Option<usize> = None;
                    for ih in g.rows(oh) {
                        for iw in g.cols(ow) {
                            let at = g.pixel(image, ih, iw) + channel;
                            if largest.is_none_or(|l| input[l] < input[at]) {
                                largest = Some(at);
                            }
                        }
                    }
                    let out = ((image * g.out_h + oh) * g.out_w + ow) * g.channels + channel;
                    if let Some(at) = largest {
                        gradient[at - base] += out_backprop[out];
                    }
                }
            }
        }
    });
}

/// Writes the gradient of [`avg_pool`]: each output's is shared by the elements of its window.
pub fn avg_pool_backprop<T: MeanElem>(
    par: Parallel,
    g: &PoolGeometry,
    out_backprop: &[T],
    in_backprop: &mut [T],
) {
    g.check(in_backprop.len(), out_backprop.len());
    for_each_image(par, g, in_backprop, &|image, gradient| {
        let base = g.pixel(image, 0, 0);
        for oh in 0..g.out_h {
            let rows = g.rows(oh);
            for ow in 0..g.out_w {
                let cols = g.cols(ow);
                let share = T::one() / T::from_count(rows.len() * cols.len());
                let out = ((image * g.out_h + oh) * g.out_w + ow) * g.channels;
                let out = &out_backprop[out..out + g.channels];
                for ih in rows.clone() {
                    for iw in cols.clone() {
                        let at = g.pixel(image, ih, iw) - base;
                        let sums = &mut gradient[at..at + g.channels];
                        for (sum, &x) in sums.iter_mut().zip(out) {
                            *sum = *sum + x * share;
                        }
                    }
                }
            }
        }
    });
}

/// Calls `f(image, elements)` for each image of a gradient, filled with zeros.
fn for_each_image<T: Copy + Default + Send>(
    par: Parallel,
    g: &PoolGeometry,
    gradient: &mut [T],
    f: &(dyn Fn(usize, &mut [T]) + Sync),
) {
    if gradient.is_empty() {
        return;
    }
    let image_len = g.in_h * g.in_w * g.channels;
    par_chunks_mut(par, gradient, image_len, ELEMENTS_PER_CHUNK, &|start, piece| {
        for (image, gradient) in (start / image_len..).zip(piece.chunks_exact_mut(image_len)) {
            gradient.fill(T::default());
            f(image, gradient);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::Pool;

    /// A 3x3 image, windows of 2x2 at stride 2, padded below and to the right.
    const SAME: PoolGeometry = PoolGeometry {
        batch: 1,
        in_h: 3,
        in_w: 3,
        channels: 1,
        window_h: 2,
        window_w: 2,
        stride_h: 2,
        stride_w: 2,
        pad_top: 0,
        pad_left: 0,
        out_h: 2,
        out_w: 2,
    };

    #[test]
    fn windows_at_the_edge_are_smaller() {
        let input: Vec<f32> = (1..=9).map(|i| i as f32).collect();
        let pool = Pool::new(2);
        let mut out = [0.0; 4];
        max_pool(Parallel::new(&pool), &SAME, &input, &mut out);
        assert_eq!(out, [5.0, 6.0, 8.0, 9.0]);
        avg_pool(Parallel::new(&pool), &SAME, &input, &mut out);
        assert_eq!(out, [3.0, 4.5, 7.5, 9.0]);
    }

    #[test]
    fn padding_shifts_the_windows() {
        let g = PoolGeometry { pad_top: 1, pad_left: 1, ..SAME };
        let input: Vec<i32> = (1..=9).collect();
        let mut out = [0; 4];
        max_pool(Parallel::SERIAL, &g, &input, &mut out);
        assert_eq!(out, [1, 3, 7, 9]);
    }

    #[test]
    fn channels_are_apart() {
        let g = PoolGeometry { in_h: 1, in_w: 2, channels: 2, out_h: 1, out_w: 1, ..SAME };
        let mut out = [0.0; 2];
        max_pool(Parallel::SERIAL, &g, &[1.0, 8.0, f64::NAN, 2.0], &mut out);
        assert_eq!(out, [1.0, 8.0]);
        avg_pool(Parallel::SERIAL, &g, &[1.0, 8.0, 3.0, 2.0], &mut out);
        assert_eq!(out, [2.0, 5.0]);
    }

    #[test]
    fn means_of_many_bfloat16_saturate() {
        let g = PoolGeometry { in_h: 1, in_w: 1000, window_w: 1000, out_h: 1, out_w: 1, ..SAME };
        let mut out = [bf16::ZERO];
        avg_pool(Parallel::SERIAL, &g, &[bf16::from_f32(0.75); 1000], &mut out);
        assert!(out[0] > bf16::from_f32(0.9));
    }

    #[test]
    fn gradients_go_where_the_values_came_from() {
        let input = [1.0, 5.0, 2.0, 5.0, 1.0, 1.0, 0.0, 0.0, 7.0f32];
        let mut gradient = [f32::NAN; 9];
        max_pool_backprop(Parallel::SERIAL, &SAME, &input, &[1.0, 2.0, 4.0, 8.0], &mut gradient);
        assert_eq!(gradient, [0.0, 1.0, 2.0, 0.0, 0.0, 0.0, 4.0, 0.0, 8.0]);
        avg_pool_backprop(Parallel::SERIAL, &SAME, &[4.0, 2.0, 6.0, 8.0], &mut gradient);
        assert_eq!(gradient, [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 3.0, 3.0, 8.0]);
    }
}

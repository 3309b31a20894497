//! `ExtractGlimpse` and its `V2`.

use std::hash::{BuildHasher, RandomState};

use tfcore_base::{Result, invalid, require};
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_ops,
};
use tfcore_math::philox::{Philox, fill_normal, fill_uniform};
use tfcore_math::pool::Parallel;
use tfcore_tensor::{Dim, Shape};

pub(crate) fn register(r: &mut Registry) {
    // `ExtractGlimpse(input: float, size: int32, offsets: float; centered, normalized, uniform_noise, noise) -> glimpse:
    // float`: a window of `size` rows and columns of each image of `[batch, height, width, depth]`, with its middle at
    // `offsets` `(y, x)`; noise stands where it leaves the image. `V2` takes offsets that are not centred for a corner, and
    // those in pixels as they are.
    r.op("ExtractGlimpse").shape(glimpse_shape).cpu(|init| glimpse(init, false));
    r.op("ExtractGlimpseV2").shape(glimpse_shape).cpu(|init| glimpse(init, true));
}

fn glimpse_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let input = shape_ops::with_rank(ctx.input(0), 4)?;
    let offsets = shape_ops::with_rank(ctx.input(2), 2)?;
    let batch = shape_ops::merge_dims(input.dim(0), offsets.dim(0))?;
    shape_ops::with_value(offsets.dim(1), 2)?;
    let size = shape_ops::with_rank(ctx.input(1), 1)?;
    shape_ops::with_value(size.dim(0), 2)?;
    let [rows, cols] = match ctx.operand_i64s(1)?.as_deref() {
        Some(&[rows, cols]) => [Dim::new(rows), Dim::new(cols)],
        _ => [Dim::fresh(), Dim::fresh()],
    };
    ctx.set_output(0, [batch, rows, cols, input.dim(3)].into_iter().collect());
    Ok(())
}

#[derive(Clone, Copy, PartialEq)]
enum Noise {
    Uniform,
    Gaussian,
    Zero,
}

/// How offsets are meant.
#[derive(Clone, Copy)]
struct Offsets {
    centered: bool,
    normalized: bool,
    is_v2: bool,
}

impl Offsets {
    /// The first row or column of a window of `window` in an image of `size`.
    fn first(self, offset: f32, size: usize, window: usize) -> i64 {
        let (size, window) = (size as f32, window as f32);
        let mut at = if self.normalized { offset * size } else { offset };
        if self.centered {
            if self.normalized || !self.is_v2 {
                at /= 2.0;
            }
            at += size / 2.0;
        }
        if self.centered || !self.is_v2 {
            at -= window / 2.0;
        }
        at as i64
    }
}

fn glimpse(init: &KernelInit<'_>, is_v2: bool) -> Result<Box<dyn Kernel>> {
    let attrs = init.attrs;
    let offsets =
        Offsets { centered: attrs.bool("centered")?, normalized: attrs.bool("normalized")?, is_v2 };
    let uniform = attrs.bool("uniform_noise")?;
    let noise = match attrs.str("noise")? {
        noise if uniform => {
            require!(
                matches!(noise, "" | "uniform"),
                "The uniform_noise and noise should not be specified at the same time"
            );
            Noise::Uniform
        }
        "gaussian" => Noise::Gaussian,
        "zero" => Noise::Zero,
        "uniform" => Noise::Uniform,
        "" => Noise::Gaussian,
        _ => {
            return Err(invalid!("The noise should be one of uniform, gaussian, or zero"));
        }
    };
    kernel(move |ctx: &mut OpContext<'_>| extract(ctx, offsets, noise))
}

fn extract(ctx: &mut OpContext<'_>, offsets: Offsets, noise: Noise) -> Result<()> {
    let (input, size, places) = (ctx.input(0)?, ctx.input(1)?, ctx.input(2)?);
    require!(
        input.rank() == 4,
        "input must be 4-dimensional (batch_size, height, width, depth){}",
        input.shape()
    );
    require!(
        size.rank() == 1 && size.count() == 2,
        "input must be a vector of size 2 (height, width){}",
        size.shape()
    );
    require!(
        places.rank() == 2,
        "input must be a matrix of shape (batch_size, 2){}",
        places.shape()
    );
    let dims = input.shape().to_usizes();
    let [batch, height, width, depth] = [dims[0], dims[1], dims[2], dims[3]];
    require!(places.dim(0) == batch, "first dimension should be batch{}", places.shape());
    require!(places.dim(1) == 2, "second dimension should be of size 2 (y,x){}", places.shape());
    let sizes = size.to_i64s()?;
    let shape = Shape::new(&[batch as i64, sizes[0], sizes[1], depth as i64])?;
    let (rows, cols) = (shape.dim(1), shape.dim(2));
    let pixels = input.as_slice::<f32>()?;
    let places = places.as_slice::<f32>()?;
    ctx.produce(0, shape, |out| {
        let out = out.typed::<f32>();
        let image_len = height * width * depth;
        for (image, out) in out.chunks_mut(rows * cols * depth).enumerate() {
            let source = &pixels[image * image_len..(image + 1) * image_len];
            let top = offsets.first(places[image * 2], height, rows);
            let left = offsets.first(places[image * 2 + 1], width, cols);
            let is_inside = top >= 0
                && left >= 0
                && top.saturating_add(rows as i64) < height as i64
                && left.saturating_add(cols as i64) < width as i64;
            if !is_inside {
                fill_noise(noise, source, out);
            }
            for (row, out) in out.chunks_mut(cols * depth).enumerate() {
                let from_row = top.saturating_add(row as i64);
                if !(0..height as i64).contains(&from_row) {
                    continue;
                }
                for (col, out) in out.chunks_mut(depth).enumerate() {
                    let from_col = left.saturating_add(col as i64);
                    if (0..width as i64).contains(&from_col) {
                        let at = (from_row as usize * width + from_col as usize) * depth;
                        out.copy_from_slice(&source[at..at + depth]);
                    }
                }
            }
        }
    })
}

/// Fills a window with noise like its image: between its extremes, or with its mean and deviation.
fn fill_noise(noise: Noise, image: &[f32], out: &mut [f32]) {
    if noise == Noise::Zero || image.is_empty() {
        return out.fill(0.0);
    }
    // The standard library seeds its hashers from the system.
    let source = RandomState::new();
    let stream = Philox::new(source.hash_one(0), source.hash_one(1));
    if noise == Noise::Uniform {
        let low = image.iter().copied().fold(f32::INFINITY, f32::min);
        let high = image.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        fill_uniform(Parallel::SERIAL, stream, out);
        out.iter_mut().for_each(|value| *value = low + *value * (high - low));
    } else {
        let count = image.len() as f32;
        let mean = image.iter().sum::<f32>() / count;
        let variance =
            image.iter().map(|value| (value - mean) * (value - mean)).sum::<f32>() / count;
        fill_normal(Parallel::SERIAL, stream, out);
        out.iter_mut().for_each(|value| *value = mean + *value * variance.sqrt());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_pixels() {
        let centred = Offsets { centered: true, normalized: true, is_v2: true };
        assert_eq!([-1.0, 0.0, 1.0].map(|offset| centred.first(offset, 8, 2)), [-1, 3, 7]);
        let corner = Offsets { centered: false, normalized: false, is_v2: true };
        assert_eq!(corner.first(3.7, 8, 2), 3);
        let v1 = Offsets { is_v2: false, ..corner };
        assert_eq!(v1.first(3.7, 8, 2), 2);
    }
}

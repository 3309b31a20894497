//! Colours: contrast, hue and saturation, and their space.

use num_traits::{AsPrimitive, Float};
use tfcore_base::{
    BFloat16, Elem, Floats, Half, LoopFor, Result, TypedLoop, failed_precondition, require,
    try_filled,
};
use tfcore_framework::{OpContext, Registry, shape_fns};
use tfcore_math::pool::{Parallel, par_chunks_mut};
use tfcore_tensor::{Elems, ElemsMut, Tensor};

/// The types of `AdjustContrast`.
type ContrastTypes = (f32, f64, i8, i16, i32, u8);

pub(crate) fn register(r: &mut Registry) {
    // `AdjustContrast(images: T, contrast_factor: float, min_value: float, max_value: float) -> output: float`,
    // `(x - mean) * factor + mean` of each channel of each image, cut off at both ends.
    r.op("AdjustContrast")
        .shape(shape_fns::unchanged_of_rank_at_least(3))
        .typed::<ToFloats, ContrastTypes>("T", |ctx, convert| {
            let images = images(ctx)?;
            let factor = scalar(ctx, 1, "contrast_factor")?;
            let (low, high) = (scalar(ctx, 2, "min_value")?, scalar(ctx, 3, "max_value")?);
            let mut input = try_filled(0f32, images.count())?;
            convert(images.elems(), &mut input);
            let layout = Layout::new(images);
            ctx.try_produce(0, images.shape().clone(), |out| {
                let out = out.typed::<f32>();
                contrast(ctx.parallel(), layout, factor, &input, out)?;
                for value in out {
                    *value = value.max(low).min(high);
                }
                Ok(())
            })
        });

    // `AdjustContrastv2(images: T, contrast_factor: float) -> output: T`, without the cut.
    r.op("AdjustContrastv2").shape(shape_fns::unchanged_of_rank_at_least(3)).compute(|ctx| {
        let images = images(ctx)?;
        let factor = scalar(ctx, 1, "contrast_factor")?;
        let layout = Layout::new(images);
        ctx.try_produce(0, images.shape().clone(), |out| {
            contrast(ctx.parallel(), layout, factor, images.as_slice()?, out.typed())
        })
    });

    // `AdjustHue(images: T, delta: float) -> output: T`: turns the hue by `delta` of a full turn.
    r.op("AdjustHue")
        .shape(shape_fns::unchanged_of_rank_at_least(3))
        .compute(|ctx| pixels(ctx, "delta", turn_hue));

    // `AdjustSaturation(images: T, scale: float) -> output: T`.
    r.op("AdjustSaturation").shape(shape_fns::unchanged_of_rank_at_least(3)).compute(|ctx| {
        pixels(ctx, "scale", |rgb, scale| {
            let [h, s, v] = hsv_of(rgb);
            // NaN is no saturation.
            let scaled = s * scale;
            rgb_of([h, if scaled > 0.0 { scaled.min(1.0) } else { 0.0 }, v])
        })
    });

    // `RGBToHSV(images: T) -> output: T`, `HSVToRGB(images: T) -> output: T`, each channel in [0, 1].
    r.op("RGBToHSV").shape(converted_shape).typed::<RgbToHsv, Floats>("T", convert);
    r.op("HSVToRGB").shape(converted_shape).typed::<HsvToRgb, Floats>("T", convert);
}

fn images<'c>(ctx: &'c OpContext<'_>) -> Result<&'c Tensor> {
    let images = ctx.input(0)?;
    require!(images.rank() >= 3, "input must be at least 3-D, got shape{}", images.shape());
    Ok(images)
}

fn scalar(ctx: &OpContext<'_>, index: usize, name: &str) -> Result<f32> {
    let tensor = ctx.input(index)?;
    require!(tensor.rank() == 0, "{name} must be scalar: {}", tensor.shape());
    tensor.scalar_value()
}

struct ToFloats;

impl TypedLoop for ToFloats {
    type Loop = fn(Elems<'_>, &mut [f32]);
}

impl<T: Elem + AsPrimitive<f32>> LoopFor<T> for ToFloats {
    const LOOP: fn(Elems<'_>, &mut [f32]) = |from, to| {
        for (to, from) in to.iter_mut().zip(from.typed::<T>()) {
            *to = from.as_();
        }
    };
}

/// Images of so many elements, of `channels` channels.
#[derive(Clone, Copy)]
struct Layout {
    image: usize,
    channels: usize,
}

impl Layout {
    fn new(images: &Tensor) -> Layout {
        let dims = images.shape().to_usizes();
        Layout { image: dims[dims.len() - 3..].iter().product(), channels: dims[dims.len() - 1] }
    }
}

fn contrast(
    parallel: Parallel<'_>,
    layout: Layout,
    factor: f32,
    input: &[f32],
    out: &mut [f32],
) -> Result<()> {
    let Layout { image, channels } = layout;
    par_chunks_mut(parallel, out, image, 1 << 14, &|start, piece| {
        let images = input[start..start + piece.len()].chunks_exact(image);
        for (image, out) in images.zip(piece.chunks_exact_mut(image)) {
            let pixels = (image.len() / channels) as f32;
            for channel in 0..channels {
                // Long sums of singles lose digits that the reference's sums by halves keep.
                let of_channel = image.iter().skip(channel).step_by(channels);
                let sum: f64 = of_channel.map(|&value| f64::from(value)).sum();
                let offset = (sum as f32 / pixels) * (1.0 - factor);
                let pairs = out.iter_mut().skip(channel).step_by(channels);
                for (out, &value) in pairs.zip(image.iter().skip(channel).step_by(channels)) {
                    *out = offset + value * factor;
                }
            }
        }
    });
    Ok(())
}

/// Changes each pixel of three channels by a parameter.
fn pixels(
    ctx: &mut OpContext<'_>,
    name: &str,
    change: fn([f32; 3], f32) -> [f32; 3],
) -> Result<()> {
    let images = images(ctx)?;
    let parameter = scalar(ctx, 1, name)?;
    let channels = images.dim(images.rank() - 1);
    require!(channels == 3, "input must have 3 channels but instead has {channels} channels.");
    let input = images.as_slice::<f32>()?;
    ctx.produce(0, images.shape().clone(), |out| {
        par_chunks_mut(ctx.parallel(), out.typed::<f32>(), 3, 3 << 10, &|start, piece| {
            for (at, out) in (start..).step_by(3).zip(piece.chunks_exact_mut(3)) {
                let rgb = [input[at], input[at + 1], input[at + 2]];
                out.copy_from_slice(&change(rgb, parameter));
            }
        });
    })
}

/// Turns the hue of a pixel and leaves its least and largest channel as they are.
fn turn_hue(rgb: [f32; 3], delta: f32) -> [f32; 3] {
    let [r, g, b] = rgb;
    // The sixth of the circle, and the channels in order.
    let (low, middle, high, sector) = if r < g {
        if b < r {
            (b, r, g, 1)
        } else if b > g {
            (r, g, b, 3)
        } else {
            (r, b, g, 2)
        }
    } else if b < g {
        (b, g, r, 0)
    } else if b > r {
        (g, r, b, 4)
    } else {
        (g, b, r, 5)
    };
    let mut hue = 0.0;
    if high != low {
        let ratio = (middle - low) / (high - low);
        hue = sector as f32 + if sector % 2 == 0 { ratio } else { 1.0 - ratio };
    }
    hue += delta * 6.0;
    if hue.abs() > 1e4 {
        hue = hue.rem_euclid(6.0);
    }
    while hue < 0.0 {
        hue += 6.0;
    }
    while hue >= 6.0 {
        hue -= 6.0;
    }
    let sector = hue as i32;
    let ratio = hue - sector as f32;
    let ratio = if sector % 2 == 0 { ratio } else { 1.0 - ratio };
    let middle = low + ratio * (high - low);
    match sector {
        0 => [high, middle, low],
        1 => [middle, high, low],
        2 => [low, high, middle],
        3 => [low, middle, high],
        4 => [middle, low, high],
        _ => [high, low, middle],
    }
}

fn hsv_of([r, g, b]: [f32; 3]) -> [f32; 3] {
    let value = r.max(g.max(b));
    let range = value - r.min(g.min(b));
    let saturation = if value > 0.0 { range / value } else { 0.0 };
    let norm = 1.0 / (6.0 * range);
    let mut hue = if r == value {
        norm * (g - b)
    } else if g == value {
        norm * (b - r) + 2.0 / 6.0
    } else {
        norm * (r - g) + 4.0 / 6.0
    };
    if range <= 0.0 {
        hue = 0.0;
    }
    if hue < 0.0 {
        hue += 1.0;
    }
    [hue, saturation, value]
}

fn rgb_of([hue, saturation, value]: [f32; 3]) -> [f32; 3] {
    let c = saturation * value;
    let m = value - c;
    let sixth = hue * 6.0;
    let within = if sixth <= 0.0 || sixth >= 2.0 { sixth % 2.0 } else { sixth };
    let x = c * (1.0 - (within - 1.0).abs());
    let rgb = match sixth as i32 {
        0 => [c, x, 0.0],
        1 => [x, c, 0.0],
        2 => [0.0, c, x],
        3 => [0.0, x, c],
        4 => [x, 0.0, c],
        5 => [c, 0.0, x],
        _ => [0.0; 3],
    };
    rgb.map(|channel| channel + m)
}

/// The shape of images whose last axis has three channels.
fn converted_shape(ctx: &mut tfcore_framework::InferenceContext<'_>) -> Result<()> {
    use tfcore_framework::shape_ops;
    let images = shape_ops::with_rank_at_least(ctx.input(0), 1)?;
    let Some(dims) = images.dims() else {
        ctx.set_output(0, images.clone());
        return Ok(());
    };
    let last = shape_ops::with_value(dims[dims.len() - 1], 3)?;
    let mut dims = dims.to_vec();
    *dims.last_mut().expect("a rank of one or more") = last;
    ctx.set_output(0, dims.into_iter().collect());
    Ok(())
}

/// Converts all pixels.
type Convert = fn(Elems<'_>, ElemsMut<'_>);

fn convert(ctx: &mut OpContext<'_>, run: Convert) -> Result<()> {
    let images = ctx.input(0)?;
    require!(images.rank() >= 1, "input must be at least 1D{}", images.shape());
    let channels = images.dim(images.rank() - 1);
    if channels != 3 {
        return Err(failed_precondition!(
            "input must have 3 channels but input only has {channels} channels."
        ));
    }
    ctx.produce(0, images.shape().clone(), |out| {
        // Parts begin at multiples of 16 elements, which need not be those of pixels: one part unless it is large.
        let pixels = out.len() / 3;
        if pixels < 1 << 14 {
            return run(images.elems(), out);
        }
        tfcore_framework::movement::for_each_units(ctx.parallel(), out, 3, &|start, part| {
            let range = start * 3..start * 3 + part.len();
            run(images.elems().slice(range), part);
        });
    })
}

struct RgbToHsv;
struct HsvToRgb;

impl TypedLoop for RgbToHsv {
    type Loop = Convert;
}

impl TypedLoop for HsvToRgb {
    type Loop = Convert;
}

/// Floats whose constants are rounded to their type.
trait Channel: Elem + Float {
    fn of(value: f64) -> Self;
}

impl Channel for f32 {
    fn of(value: f64) -> f32 {
        value as f32
    }
}

impl Channel for f64 {
    fn of(value: f64) -> f64 {
        value
    }
}

impl Channel for Half {
    fn of(value: f64) -> Half {
        Half::from_f64(value)
    }
}

impl Channel for BFloat16 {
    fn of(value: f64) -> BFloat16 {
        BFloat16::from_f64(value)
    }
}

impl<T: Channel> LoopFor<T> for RgbToHsv {
    const LOOP: Convert = |from, to| {
        let pixels = from.typed::<T>().chunks_exact(3);
        let zero = T::zero();
        for (rgb, out) in pixels.zip(to.typed::<T>().chunks_exact_mut(3)) {
            let (r, g, b) = (rgb[0], rgb[1], rgb[2]);
            let value = r.max(g.max(b));
            let range = value - r.min(g.min(b));
            let saturation = if value > zero { range / value } else { zero };
            let norm = T::one() / range * T::of(1.0 / 6.0);
            let mut hue = if r == value {
                norm * (g - b)
            } else if g == value {
                norm * (b - r) + T::of(2.0 / 6.0)
            } else {
                norm * (r - g) + T::of(4.0 / 6.0)
            };
            if range <= zero || range.is_nan() {
                hue = zero;
            }
            if hue < zero {
                hue = hue + T::one();
            }
            out.copy_from_slice(&[hue, saturation, value]);
        }
    };
}

impl<T: Channel> LoopFor<T> for HsvToRgb {
    const LOOP: Convert = |from, to| {
        let pixels = from.typed::<T>().chunks_exact(3);
        let cut = |x: T| x.max(T::zero()).min(T::one());
        for (hsv, out) in pixels.zip(to.typed::<T>().chunks_exact_mut(3)) {
            let (sixth, saturation, value) = (hsv[0] * T::of(6.0), hsv[1], hsv[2]);
            let near = |centre: f64| (sixth - T::of(centre)).abs();
            let parts =
                [near(3.0) - T::one(), T::of(2.0) - near(2.0), T::of(2.0) - near(4.0)].map(cut);
            let grey = T::one() - saturation;
            out.copy_from_slice(&parts.map(|part| (grey + saturation * part) * value));
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLOURS: [([f32; 3], [f32; 3]); 5] = [
        ([1.0, 0.0, 0.0], [0.0, 1.0, 1.0]),
        ([0.0, 1.0, 0.0], [1.0 / 3.0, 1.0, 1.0]),
        ([0.0, 0.0, 1.0], [2.0 / 3.0, 1.0, 1.0]),
        ([0.5, 0.5, 0.5], [0.0, 0.0, 0.5]),
        ([0.5, 0.25, 0.5], [5.0 / 6.0, 0.5, 0.5]),
    ];

    #[test]
    fn spaces_correspond() {
        for (rgb, hsv) in COLOURS {
            for (a, b) in [(hsv_of(rgb), hsv), (rgb_of(hsv), rgb)] {
                assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-6), "{a:?} {b:?}");
            }
            let mut out = [0.0; 3];
            let run = <RgbToHsv as LoopFor<f32>>::LOOP;
            run(Elems::of(&rgb), ElemsMut::of(&mut out));
            assert!(out.iter().zip(hsv).all(|(a, b)| (a - b).abs() < 1e-6), "{out:?} {hsv:?}");
        }
    }

    #[test]
    fn a_third_of_a_turn_rotates_the_channels() {
        for (rgb, _) in COLOURS {
            let [r, g, b] = turn_hue(rgb, 1.0 / 3.0);
            assert!(([g, b, r].iter().zip(rgb)).all(|(a, b)| (a - b).abs() < 1e-6), "{rgb:?}");
        }
        assert!(
            turn_hue([0.1, 0.2, 0.3], f32::INFINITY)
                .iter()
                .all(|c| (0.1..=0.3).contains(c) || c.is_nan())
        );
    }
}

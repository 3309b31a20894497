//! `ScaleAndTranslate` and its gradient.

use num_traits::AsPrimitive;
use tfcore_base::{Elem, LoopFor, RealNumbers, Result, TypedLoop, invalid, require, try_filled};
use tfcore_framework::{
    Attrs, InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_ops,
};
use tfcore_math::pool::par_chunks_mut;
use tfcore_tensor::{Dim, Elems, Shape, Tensor};

pub(crate) fn register(r: &mut Registry) {
    // `ScaleAndTranslate(images: T, size: int32, scale: float, translation: float; kernel_type, antialias) ->
    // resized_images: float`: output pixel `x` lies at `(x - translation) / scale` of the input and is a mean of the pixels
    // around, weighed by a kernel.
    r.op("ScaleAndTranslate").shape(scale_shape).typed_kernel::<ToFloats, RealNumbers>("T", scale);

    // `ScaleAndTranslateGrad(grads: T, original_image: T, scale: float, translation: float; kernel_type, antialias) ->
    // output: T`.
    r.op("ScaleAndTranslateGrad")
        .shape(|ctx| {
            ctx.set_output(0, ctx.input(1).clone());
            Ok(())
        })
        .cpu(scale_grad);
}

fn scale_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let images = shape_ops::with_rank(ctx.input(0), 4)?;
    for index in 1..4 {
        let pair = shape_ops::with_rank(ctx.input(index), 1)?;
        shape_ops::with_value(pair.dim(0), 2)?;
    }
    let [rows, cols] = match ctx.operand_i64s(1)?.as_deref() {
        Some(&[rows, cols]) => [Dim::new(rows), Dim::new(cols)],
        _ => [Dim::fresh(), Dim::fresh()],
    };
    ctx.set_output(0, [images.dim(0), rows, cols, images.dim(3)].into_iter().collect());
    Ok(())
}

/// A kernel: its radius and the weight at a distance.
#[derive(Clone, Copy)]
struct Weights {
    radius: f32,
    at: fn(f32, f32) -> f32,
    antialias: bool,
}

impl Weights {
    fn new(attrs: &Attrs) -> Result<Weights> {
        let (radius, at): (f32, fn(f32, f32) -> f32) = match attrs.str("kernel_type")? {
            "lanczos1" => (1.0, lanczos),
            "lanczos3" => (3.0, lanczos),
            "lanczos5" => (5.0, lanczos),
            "gaussian" => (1.5, gaussian),
            "box" => (0.5, box_weight),
            "triangle" => (1.0, triangle),
            "keyscubic" => (2.0, keys_cubic),
            "mitchellcubic" => (2.0, mitchell_cubic),
            other => return Err(invalid!("Unrecognized kernel type: {other}")),
        };
        Ok(Weights { radius, at, antialias: attrs.bool("antialias")? })
    }
}

fn lanczos(x: f32, radius: f32) -> f32 {
    if x > radius {
        return 0.0;
    }
    // The limit at 0.
    if x <= 1e-3 {
        return 1.0;
    }
    let pi = std::f32::consts::PI;
    radius * (pi * x).sin() * (pi * x / radius).sin() / (pi * pi * x * x)
}

fn gaussian(x: f32, radius: f32) -> f32 {
    let sigma = radius / 3.0;
    if x >= radius { 0.0 } else { (-x * x / (2.0 * sigma * sigma)).exp() }
}

fn box_weight(x: f32, _: f32) -> f32 {
    if x < 0.5 {
        1.0
    } else if x == 0.5 {
        0.5
    } else {
        0.0
    }
}

fn triangle(x: f32, _: f32) -> f32 {
    if x < 1.0 { 1.0 - x } else { 0.0 }
}

fn keys_cubic(x: f32, _: f32) -> f32 {
    if x >= 2.0 {
        0.0
    } else if x >= 1.0 {
        ((-0.5 * x + 2.5) * x - 4.0) * x + 2.0
    } else {
        ((1.5 * x - 2.5) * x) * x + 1.0
    }
}

fn mitchell_cubic(x: f32, _: f32) -> f32 {
    if x >= 2.0 {
        0.0
    } else if x >= 1.0 {
        (((-7.0 / 18.0) * x + 2.0) * x - 10.0 / 3.0) * x + 16.0 / 9.0
    } else {
        (((7.0 / 6.0) * x - 2.0) * x) * x + 8.0 / 9.0
    }
}

/// What the output pixels along one axis are made of: `width` weights each, from the first pixel on.
struct Spans {
    width: usize,
    starts: Vec<usize>,
    weights: Vec<f32>,
}

impl Spans {
    fn new(kernel: Weights, output: usize, input: usize, scale: f32, shift: f32) -> Result<Spans> {
        let inverse = 1.0 / scale;
        let inverse_shift = -inverse * shift;
        let stretch = if kernel.antialias { inverse.max(1.0) } else { 1.0 };
        let reach = kernel.radius * stretch;
        let width = (2.0 * f64::from(reach.ceil()) + 1.0).min(input as f64) as usize;
        let mut starts = try_filled(0, output)?;
        let cells = output.checked_mul(width).ok_or_else(|| invalid!("Too many weights"))?;
        let mut weights = try_filled(0.0, cells)?;
        let last = input as i64 - 1;
        for (index, start) in starts.iter_mut().enumerate() {
            let at = (index as f32 + 0.5) * inverse + inverse_shift;
            if !(at >= 0.0 && at <= input as f32) {
                continue;
            }
            let from = ((at - reach - 0.5).ceil() as i64).clamp(0, last);
            let to =
                ((at + reach - 0.5).floor() as i64).clamp(0, last).min(from + width as i64 - 1);
            let weights = &mut weights[index * width..(index + 1) * width];
            let mut sum = 0.0;
            for (pixel, weight) in (from..=to).zip(weights.iter_mut()) {
                let distance = pixel as f32 + 0.5 - at;
                *weight = (kernel.at)((distance / stretch).abs(), kernel.radius);
                sum += *weight;
            }
            if sum.abs() >= 1000.0 * f32::MIN_POSITIVE {
                let factor = 1.0 / sum;
                weights.iter_mut().for_each(|weight| *weight *= factor);
            } else {
                weights.fill(0.0);
            }
            *start = from as usize;
        }
        Ok(Spans { width, starts, weights })
    }

    /// The pixels that an output pixel is made of, with their weights.
    fn of(&self, index: usize) -> impl Iterator<Item = (usize, f32)> + '_ {
        let weights = &self.weights[index * self.width..(index + 1) * self.width];
        (self.starts[index]..).zip(weights.iter().copied()).filter(|(_, weight)| *weight != 0.0)
    }
}

/// The two numbers of an input.
fn pair(ctx: &OpContext<'_>, index: usize, name: &str) -> Result<[f32; 2]> {
    let tensor = ctx.input(index)?;
    require!(tensor.rank() == 1, "{name} must be 1-dimensional{}", tensor.shape());
    match tensor.as_slice::<f32>()? {
        &[rows, cols] => Ok([rows, cols]),
        _ => Err(invalid!("{name} must have two elements{}", tensor.shape())),
    }
}

fn scales(ctx: &OpContext<'_>) -> Result<([f32; 2], [f32; 2])> {
    let scale = pair(ctx, 2, "scale")?;
    require!(scale[0] > 0.0 && scale[1] > 0.0, "Scale must be greater than zero.");
    Ok((scale, pair(ctx, 3, "translation")?))
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

fn scale(init: &KernelInit<'_>, convert: fn(Elems<'_>, &mut [f32])) -> Result<Box<dyn Kernel>> {
    let weights = Weights::new(init.attrs)?;
    kernel(move |ctx: &mut OpContext<'_>| {
        let (images, size): (&Tensor, &Tensor) = (ctx.input(0)?, ctx.input(1)?);
        require!(images.rank() == 4, "input must be 4-dimensional{}", images.shape());
        require!(size.rank() == 1, "size must be 1-dimensional{}", size.shape());
        let &[out_h, out_w] = size.as_slice::<i32>()? else {
            return Err(invalid!("size must have two elements{}", size.shape()));
        };
        require!(out_h > 0 && out_w > 0, "output dimensions must be positive");
        let (scale, shift) = scales(ctx)?;
        let dims = images.shape().to_usizes();
        let [batch, in_h, in_w, channels] = [dims[0], dims[1], dims[2], dims[3]];
        let shape = Shape::new(&[batch as i64, out_h.into(), out_w.into(), channels as i64])?;
        let (out_h, out_w) = (out_h as usize, out_w as usize);
        require!(
            shape.count() == 0 || (in_h > 0 && in_w > 0),
            "input image must be of non-zero size"
        );
        ctx.try_produce(0, shape, |out| {
            let rows = Spans::new(weights, out_h, in_h, scale[0], shift[0])?;
            let cols = Spans::new(weights, out_w, in_w, scale[1], shift[1])?;
            let mut input = try_filled(0f32, images.count())?;
            convert(images.elems(), &mut input);
            // Rows first, then columns.
            let (in_row, out_row) = (in_w * channels, out_w * channels);
            let cells = batch
                .checked_mul(out_h)
                .and_then(|rows| rows.checked_mul(in_row))
                .ok_or_else(|| invalid!("The image is too large"))?;
            let mut tall = try_filled(0f32, cells)?;
            par_chunks_mut(ctx.parallel(), &mut tall, in_row, 1 << 12, &|start, piece| {
                for (number, out) in (start / in_row..).zip(piece.chunks_exact_mut(in_row)) {
                    let (image, row) = (number / out_h, number % out_h);
                    for (source, weight) in rows.of(row) {
                        let source = &input[(image * in_h + source) * in_row..][..in_row];
                        for (out, value) in out.iter_mut().zip(source) {
                            *out += value * weight;
                        }
                    }
                }
            });
            let out = out.typed::<f32>();
            par_chunks_mut(ctx.parallel(), out, out_row, 1 << 12, &|start, piece| {
                for (number, out) in (start / out_row..).zip(piece.chunks_exact_mut(out_row)) {
                    let source = &tall[number * in_row..][..in_row];
                    for (col, out) in out.chunks_exact_mut(channels).enumerate() {
                        out.fill(0.0);
                        for (from, weight) in cols.of(col) {
                            let source = &source[from * channels..][..channels];
                            for (out, value) in out.iter_mut().zip(source) {
                                *out += value * weight;
                            }
                        }
                    }
                }
            });
            Ok(())
        })
    })
}

fn scale_grad(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let weights = Weights::new(init.attrs)?;
    kernel(move |ctx: &mut OpContext<'_>| {
        let (grads, image) = (ctx.input(0)?, ctx.input(1)?);
        require!(grads.rank() == 4, "input_grad must be 4-dimensional{}", grads.shape());
        require!(image.rank() == 4, "original_image must be 4-dimensional{}", image.shape());
        let (scale, shift) = scales(ctx)?;
        let (from, to) = (grads.shape().to_usizes(), image.shape().to_usizes());
        require!(
            from[0] == to[0] && from[3] == to[3],
            "input_grad and original_image must have the same batch size and channels"
        );
        let [batch, in_h, in_w, channels] = [to[0], to[1], to[2], to[3]];
        let (out_h, out_w) = (from[1], from[2]);
        let shape = Shape::new(&[batch as i64, in_h as i64, in_w as i64, channels as i64])?;
        let values = grads.as_slice::<f32>()?;
        ctx.try_produce(0, shape, |out| {
            let out = out.typed::<f32>();
            out.fill(0.0);
            let rows = Spans::new(weights, out_h, in_h, scale[0], shift[0])?;
            let cols = Spans::new(weights, out_w, in_w, scale[1], shift[1])?;
            let image_len = in_h * in_w * channels;
            par_chunks_mut(ctx.parallel(), out, image_len, 1, &|start, piece| {
                for (image, out) in (start / image_len..).zip(piece.chunks_exact_mut(image_len)) {
                    for row in 0..out_h {
                        for col in 0..out_w {
                            let at = ((image * out_h + row) * out_w + col) * channels;
                            let grads = &values[at..at + channels];
                            for (y, by_row) in rows.of(row) {
                                for (x, by_col) in cols.of(col) {
                                    let to = &mut out[(y * in_w + x) * channels..][..channels];
                                    for (to, grad) in to.iter_mut().zip(grads) {
                                        *to += grad * by_row * by_col;
                                    }
                                }
                            }
                        }
                    }
                }
            });
            Ok(())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_weigh_neighbours_by_distance() {
        let kernel = Weights { radius: 1.0, at: triangle, antialias: true };
        let spans = Spans::new(kernel, 4, 2, 2.0, 0.0).unwrap();
        let found: Vec<Vec<(usize, f32)>> = (0..4).map(|index| spans.of(index).collect()).collect();
        assert_eq!(found[1], [(0, 0.75), (1, 0.25)]);
        assert_eq!(found[0], [(0, 1.0)]);
        // Half the size: each pixel is the mean of two, with the neighbours' share.
        let spans = Spans::new(kernel, 1, 2, 0.5, 0.0).unwrap();
        assert_eq!(spans.of(0).collect::<Vec<_>>(), [(0, 0.5), (1, 0.5)]);
    }
}

//! `LRN`, local response normalisation: each element divided by a power of what its neighbouring channels hold.

use num_traits::AsPrimitive;
use tfcore_base::{Elem, Half, LoopFor, Result, TypedLoop, invalid};
use tfcore_framework::{
    Attrs, InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_fns, shape_ops,
};
use tfcore_math::pool::{Parallel, par_chunks_mut};
use tfcore_tensor::{Elems, ElemsMut};

/// The types that there are kernels for.
type Types = (f32, Half);

pub(crate) fn register(r: &mut Registry) {
    // `LRN(input: T) -> output: T`, attrs `depth_radius`, `bias`, `alpha`, `beta`:
    // `x / (bias + alpha · Σ x²)^beta` with the sum over the channels at most `depth_radius` away.
    r.op("LRN").shape(shape_fns::unchanged_of_rank(4)).typed_kernel::<Normalize, Types>("T", lrn);

    // `LRNGrad(input_grads: T, input_image: T, output_image: T) -> output: T`, attrs as `LRN`.
    r.op("LRNGrad").shape(grad_shape).typed_kernel::<Differentiate, Types>("T", lrn_grad);
}

fn grad_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let mut shape = shape_ops::with_rank(ctx.input(0), 4)?;
    for index in [1, 2] {
        shape = shape_ops::merge(&shape, ctx.input(index))?;
    }
    ctx.set_output(0, shape);
    Ok(())
}

#[derive(Clone, Copy)]
struct Settings {
    radius: usize,
    bias: f32,
    alpha: f32,
    beta: f32,
}

impl Settings {
    fn from_attrs(attrs: &Attrs) -> Result<Settings> {
        let radius = attrs.int("depth_radius")?;
        let Some(radius) = u32::try_from(radius).ok().filter(|&radius| radius < i32::MAX as u32)
        else {
            return Err(invalid!("depth_radius = {radius} larger than int max"));
        };
        Ok(Settings {
            radius: radius as usize,
            bias: attrs.float("bias")?,
            alpha: attrs.float("alpha")?,
            beta: attrs.float("beta")?,
        })
    }

    /// The channels around `channel`.
    fn around(&self, channel: usize, channels: usize) -> std::ops::Range<usize> {
        channel.saturating_sub(self.radius)..(channel + self.radius + 1).min(channels)
    }

    /// For each channel, `bias + alpha · Σ x²` around it.
    fn norms(&self, x: &[f32], norms: &mut [f32]) {
        for (channel, norm) in norms.iter_mut().enumerate() {
            let sum: f32 = x[self.around(channel, x.len())].iter().map(|x| x * x).sum();
            *norm = self.bias + self.alpha * sum;
        }
    }
}

/// Settings, the number of channels, inputs, output.
type PixelsLoop = fn(Parallel<'_>, Settings, usize, &[Elems<'_>], ElemsMut<'_>);

/// Elements that are worth a thread of their own.
const GRAIN: usize = 1 << 12;

struct Normalize;

impl TypedLoop for Normalize {
    type Loop = PixelsLoop;
}

impl<T: Elem + AsPrimitive<f32>> LoopFor<T> for Normalize
where
    f32: AsPrimitive<T>,
{
    const LOOP: PixelsLoop = |parallel, settings, channels, inputs, out| {
        for_each_pixel::<T, 1>(parallel, channels, inputs, out, &|[x], norms, out| {
            settings.norms(x, norms);
            for ((out, x), norm) in out.iter_mut().zip(x).zip(norms) {
                *out = x * norm.powf(-settings.beta);
            }
        });
    };
}

struct Differentiate;

impl TypedLoop for Differentiate {
    type Loop = PixelsLoop;
}

impl<T: Elem + AsPrimitive<f32>> LoopFor<T> for Differentiate
where
    f32: AsPrimitive<T>,
{
    const LOOP: PixelsLoop = |parallel, settings, channels, inputs, out| {
        for_each_pixel::<T, 3>(parallel, channels, inputs, out, &|[dy, x, y], norms, out| {
            settings.norms(x, norms);
            for (channel, norm) in norms.iter().enumerate() {
                out[channel] += dy[channel] * norm.powf(-settings.beta);
                let slope = -2.0 * settings.alpha * settings.beta * y[channel] / norm;
                for other in settings.around(channel, channels) {
                    out[other] += dy[channel] * slope * x[other];
                }
            }
        });
    };
}

/// Calls `f` with the channels of each pixel of the inputs, room for as many numbers, and zeros that become the result.
fn for_each_pixel<T, const N: usize>(
    parallel: Parallel<'_>,
    channels: usize,
    inputs: &[Elems<'_>],
    out: ElemsMut<'_>,
    f: &(dyn Fn(&[Vec<f32>; N], &mut [f32], &mut [f32]) + Sync),
) where
    T: Elem + AsPrimitive<f32>,
    f32: AsPrimitive<T>,
{
    let inputs: [&[T]; N] = std::array::from_fn(|index| inputs[index].typed::<T>());
    par_chunks_mut(parallel, out.typed::<T>(), channels, GRAIN, &|start, piece| {
        let mut pixels: [Vec<f32>; N] = std::array::from_fn(|_| vec![0.0; channels]);
        let (mut norms, mut result) = (vec![0.0; channels], vec![0.0; channels]);
        for (index, out) in piece.chunks_exact_mut(channels).enumerate() {
            for (pixel, input) in pixels.iter_mut().zip(inputs) {
                let input = &input[start + index * channels..][..channels];
                pixel.iter_mut().zip(input).for_each(|(pixel, x)| *pixel = x.as_());
            }
            result.fill(0.0);
            f(&pixels, &mut norms, &mut result);
            out.iter_mut().zip(&result).for_each(|(out, x)| *out = x.as_());
        }
    });
}

fn lrn(init: &KernelInit<'_>, run: PixelsLoop) -> Result<Box<dyn Kernel>> {
    let settings = Settings::from_attrs(init.attrs)?;
    kernel(move |ctx: &mut OpContext<'_>| {
        let x = ctx.input(0)?;
        if x.rank() != 4 {
            return Err(invalid!("in must be 4-dimensional"));
        }
        compute(ctx, settings, run)
    })
}

fn lrn_grad(init: &KernelInit<'_>, run: PixelsLoop) -> Result<Box<dyn Kernel>> {
    let settings = Settings::from_attrs(init.attrs)?;
    kernel(move |ctx: &mut OpContext<'_>| {
        let shape = ctx.input(0)?.shape();
        if shape.rank() != 4 {
            return Err(invalid!("inputs must be 4-dimensional"));
        }
        if ctx.input(1)?.shape() != shape || ctx.input(2)?.shape() != shape {
            return Err(invalid!(
                "input_grads, input_image, and out_image should have the same shape"
            ));
        }
        compute(ctx, settings, run)
    })
}

/// Runs the loop over inputs that all have the shape of the first.
fn compute(ctx: &mut OpContext<'_>, settings: Settings, run: PixelsLoop) -> Result<()> {
    let shape = ctx.input(0)?.shape().clone();
    let channels = shape.dim(3);
    let inputs = (0..ctx.num_inputs()).map(|index| Ok(ctx.input(index)?.elems()));
    let inputs: Vec<Elems<'_>> = inputs.collect::<Result<_>>()?;
    ctx.produce(0, shape, |out| run(ctx.parallel(), settings, channels, &inputs, out))
}

#[cfg(test)]
mod tests {
    use tfcore_base::DType;
    use tfcore_framework::AttrValue;
    use tfcore_framework::testing::{registry_of, run_op};
    use tfcore_tensor::{Shape, Tensor};

    use super::*;

    fn run(op: &str, radius: i64, inputs: &[&[f32]]) -> Result<Vec<f32>> {
        let r = registry_of(register);
        let attrs = [
            ("T", AttrValue::Type(DType::FLOAT)),
            ("depth_radius", AttrValue::Int(radius)),
            ("bias", AttrValue::Float(1.0)),
            ("alpha", AttrValue::Float(1.0)),
            ("beta", AttrValue::Float(1.0)),
        ];
        let tensor = |values: &&[f32]| {
            let shape = Shape::new(&[1, 1, 1, values.len() as i64]).unwrap();
            Tensor::from_slice(shape, values).unwrap()
        };
        let inputs: Vec<Tensor> = inputs.iter().map(tensor).collect();
        Ok(run_op(&r, op, &attrs, &inputs)?[0].as_slice::<f32>()?.to_vec())
    }

    #[test]
    fn neighbours_count() {
        // Sums of squares around each channel: 5, 14, 13.
        let out = run("LRN", 1, &[&[1.0, 2.0, 3.0]]).unwrap();
        for (out, expected) in out.iter().zip([1.0 / 6.0, 2.0 / 15.0, 3.0 / 14.0]) {
            assert!((out - expected).abs() < 1e-6, "{out} for {expected}");
        }
        // Alone: `x / (1 + x²)`, with slope `(1 - x²) / (1 + x²)²`.
        let out = run("LRNGrad", 0, &[&[1.0, 10.0], &[2.0, 3.0], &[0.4, 0.3]]).unwrap();
        for (out, expected) in out.iter().zip([-3.0 / 25.0, -0.8]) {
            assert!((out - expected).abs() < 1e-6, "{out} for {expected}");
        }
    }

    #[test]
    fn what_is_not_finite_stays_where_it_is() {
        let out = run("LRN", 0, &[&[1.0, f32::INFINITY, f32::NAN, 1.0]]).unwrap();
        assert_eq!([out[0], out[3]], [0.5, 0.5]);
        assert!(out[1].is_nan() && out[2].is_nan());
    }

    #[test]
    fn radii_are_checked() {
        for radius in [-1, i64::from(i32::MAX), i64::MAX] {
            let error = run("LRN", radius, &[&[1.0]]).unwrap_err();
            assert_eq!(error.message(), format!("depth_radius = {radius} larger than int max"));
        }
    }
}

//! `BatchNormWithGlobalNormalization`, the normalisation of old graphs, and its gradient.

use tfcore_base::{Elem, Half, LoopFor, Number, Result, TypedLoop, require};
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_ops,
};
use tfcore_tensor::{Elems, PartialShape, Shape, Tensor};

type Types = (f32, f64, Half);

pub(crate) fn register(r: &mut Registry) {
    // `BatchNormWithGlobalNormalization(t: T, m: T, v: T, beta: T, gamma: T) -> result: T`, attrs `variance_epsilon`,
    // `scale_after_normalization`: `(t - m) / sqrt(v + epsilon) · gamma + beta`, without `gamma` unless scaled.
    r.op("BatchNormWithGlobalNormalization")
        .shape(|ctx| {
            let (shape, _) = shapes(ctx, 4)?;
            ctx.set_output(0, shape);
            Ok(())
        })
        .typed_kernel::<Loops, Types>("T", |init, loops| normalise(init, loops.forward));

    // `BatchNormWithGlobalNormalizationGrad(t: T, m: T, v: T, gamma: T, backprop: T) -> dx: T, dm: T, dv: T, db: T,
    // dg: T`.
    r.op("BatchNormWithGlobalNormalizationGrad")
        .shape(|ctx| {
            let (shape, channels) = shapes(ctx, 3)?;
            let gradient = shape_ops::with_rank(ctx.input(4), 4)?;
            let channels = shape_ops::merge_dims(channels, gradient.dim(3))?;
            let shape = shape_ops::replace_dim(&shape, 3, channels)?;
            ctx.set_output(0, shape_ops::merge(&shape, &gradient)?);
            (1..5).for_each(|index| ctx.set_output(index, PartialShape::vector(channels)));
            Ok(())
        })
        .typed_kernel::<Loops, Types>("T", |init, loops| normalise_grad(init, loops.backward));
}

/// The shape of the image and its channels, which are as many as the elements of `vectors` inputs after it.
fn shapes(
    ctx: &InferenceContext<'_>,
    vectors: usize,
) -> Result<(PartialShape, tfcore_tensor::Dim)> {
    let image = shape_ops::with_rank(ctx.input(0), 4)?;
    let mut channels = image.dim(3);
    for index in 1..=vectors {
        let vector = shape_ops::with_rank(ctx.input(index), 1)?;
        channels = shape_ops::merge_dims(channels, vector.dim(0))?;
    }
    Ok((shape_ops::replace_dim(&image, 3, channels)?, channels))
}

/// Image, mean, variance and further inputs; epsilon; true if scaled; the outputs.
type Loop = fn(&[Elems<'_>], f32, bool, &mut [Tensor]) -> Result<()>;

#[derive(Clone, Copy)]
struct LoopsOf {
    forward: Loop,
    backward: Loop,
}

struct Loops;

impl TypedLoop for Loops {
    type Loop = LoopsOf;
}

/// A type whose arithmetic is that of a float.
trait Real: Number<Wide = Self::Float> {
    type Float: num_traits::Float + std::ops::AddAssign;

    fn float(value: f32) -> Self::Float;
}

macro_rules! real {
    ($($t:ty: $float:ty)*) => {$(
        impl Real for $t {
            type Float = $float;

            fn float(value: f32) -> $float {
                value.into()
            }
        }
    )*};
}
real!(f32: f32 f64: f64 Half: f32);

impl<T: Elem + Real> LoopFor<T> for Loops {
    const LOOP: LoopsOf = LoopsOf { forward: forward::<T>, backward: backward::<T> };
}

fn wide<T: Real>(elems: Elems<'_>) -> Vec<T::Float> {
    elems.typed::<T>().iter().map(|x| x.widen()).collect()
}

/// `1 / sqrt(variance + epsilon)`, and the same times the scale.
fn factors<T: Real>(
    variance: &[T::Float],
    epsilon: f32,
    gamma: Option<&[T::Float]>,
) -> [Vec<T::Float>; 2] {
    use num_traits::Float;
    let inverse: Vec<T::Float> =
        variance.iter().map(|&v| (v + T::float(epsilon)).sqrt().recip()).collect();
    let scaled = match gamma {
        Some(gamma) => inverse.iter().zip(gamma).map(|(&r, &g)| r * g).collect(),
        None => inverse.clone(),
    };
    [inverse, scaled]
}

fn forward<T: Real>(x: &[Elems<'_>], epsilon: f32, scaled: bool, out: &mut [Tensor]) -> Result<()> {
    let [mean, variance, beta, gamma] = [1, 2, 3, 4].map(|index| wide::<T>(x[index]));
    let [_, factor] = factors::<T>(&variance, epsilon, scaled.then_some(&gamma));
    let channels = mean.len();
    let image = x[0].typed::<T>().chunks_exact(channels);
    for (x, out) in image.zip(out[0].as_mut_slice::<T>()?.chunks_exact_mut(channels)) {
        for i in 0..channels {
            out[i] = T::narrow((x[i].widen() - mean[i]) * factor[i] + beta[i]);
        }
    }
    Ok(())
}

fn backward<T: Real>(
    x: &[Elems<'_>],
    epsilon: f32,
    scaled: bool,
    out: &mut [Tensor],
) -> Result<()> {
    let [mean, variance, gamma] = [1, 2, 3].map(|index| wide::<T>(x[index]));
    let [inverse, factor] = factors::<T>(&variance, epsilon, scaled.then_some(&gamma));
    let channels = mean.len();
    let zero = T::float(0.0);
    let (mut db, mut dg) = (vec![zero; channels], vec![zero; channels]);
    let images = x[0].typed::<T>().chunks_exact(channels);
    let gradients = x[4].typed::<T>().chunks_exact(channels);
    let dx = out[0].as_mut_slice::<T>()?.chunks_exact_mut(channels);
    for ((x, dy), dx) in images.zip(gradients).zip(dx) {
        for i in 0..channels {
            let dy = dy[i].widen();
            db[i] += dy;
            dg[i] += dy * (x[i].widen() - mean[i]);
            dx[i] = T::narrow(dy * factor[i]);
        }
    }
    let half = T::float(-0.5);
    let mut vectors = out[1..].iter_mut();
    let mut write = |value: &dyn Fn(usize) -> T::Float| -> Result<()> {
        if let Some(vector) = vectors.next() {
            let elements = vector.as_mut_slice::<T>()?.iter_mut().enumerate();
            elements.for_each(|(i, out)| *out = T::narrow(value(i)));
        }
        Ok(())
    };
    write(&|i| zero - db[i] * factor[i])?;
    write(&|i| dg[i] * (half * factor[i] / (variance[i] + T::float(epsilon))))?;
    write(&|i| db[i])?;
    write(&|i| if scaled { dg[i] * inverse[i] } else { zero })
}

fn attrs(init: &KernelInit<'_>) -> Result<(f32, bool)> {
    let epsilon = init.attrs.float("variance_epsilon")?;
    Ok((epsilon, init.attrs.bool("scale_after_normalization")?))
}

/// Checks ranks and sizes of the image and of the named vectors behind it.
fn check(ctx: &OpContext<'_>, vectors: &[&str]) -> Result<()> {
    let image = ctx.input(0)?.shape();
    require!(image.rank() == 4, "input must be 4-dimensional{image}");
    for (index, name) in (1..).zip(vectors) {
        let shape = ctx.input(index)?.shape();
        require!(shape.rank() == 1, "{name} must be 1-dimensional{shape}");
        require!(
            shape.dim(0) == image.dim(3),
            "{name} must have as many elements as the input has channels, got {shape} and {image}"
        );
    }
    Ok(())
}

fn normalise(init: &KernelInit<'_>, run: Loop) -> Result<Box<dyn Kernel>> {
    let (epsilon, scaled) = attrs(init)?;
    kernel(move |ctx: &mut OpContext<'_>| {
        check(ctx, &["mean", "var", "beta", "gamma"])?;
        let mut out = [ctx.allocate_output(0, ctx.input(0)?.shape().clone())?];
        compute(ctx, run, epsilon, scaled, &mut out)?;
        let [out] = out;
        ctx.set_output(0, out);
        Ok(())
    })
}

fn normalise_grad(init: &KernelInit<'_>, run: Loop) -> Result<Box<dyn Kernel>> {
    let (epsilon, scaled) = attrs(init)?;
    kernel(move |ctx: &mut OpContext<'_>| {
        check(ctx, &["mean", "var", "gamma"])?;
        let (shape, gradient) = (ctx.input(0)?.shape().clone(), ctx.input(4)?.shape());
        require!(gradient.rank() == 4, "out_backprop must be 4-dimensional{gradient}");
        require!(
            shape == *gradient,
            "out_backprop must have the shape of the input, got {gradient} and {shape}"
        );
        let vector = Shape::vector(shape.dim(3));
        let mut out = vec![ctx.allocate_output(0, shape)?];
        for index in 1..5 {
            out.push(ctx.allocate_zeros(ctx.output_dtype(index), vector.clone())?);
        }
        compute(ctx, run, epsilon, scaled, &mut out)?;
        for (index, out) in out.into_iter().enumerate() {
            ctx.set_output(index, out);
        }
        Ok(())
    })
}

fn compute(
    ctx: &OpContext<'_>,
    run: Loop,
    epsilon: f32,
    scaled: bool,
    out: &mut [Tensor],
) -> Result<()> {
    if ctx.input(1)?.count() == 0 {
        return Ok(());
    }
    let inputs: Vec<Elems<'_>> =
        (0..5).map(|index| Ok(ctx.input(index)?.elems())).collect::<Result<_>>()?;
    run(&inputs, epsilon, scaled, out)
}

#[cfg(test)]
mod tests {
    use tfcore_base::DType;
    use tfcore_framework::AttrValue;
    use tfcore_framework::testing::{floats, registry_of, run_op};

    use super::*;

    #[test]
    fn normalised_and_back() {
        let registry = registry_of(register);
        let attrs = |scaled: bool| {
            [
                ("T", AttrValue::Type(DType::FLOAT)),
                ("variance_epsilon", AttrValue::Float(1.0)),
                ("scale_after_normalization", AttrValue::Bool(scaled)),
            ]
        };
        let (x, one) = (floats(&[1, 1, 2, 1], &[1.0, 5.0]), |v: f32| floats(&[1], &[v]));
        let inputs = [x.clone(), one(2.0), one(3.0), one(10.0), one(4.0)];
        let run = |scaled| {
            let op = "BatchNormWithGlobalNormalization";
            let out = run_op(&registry, op, &attrs(scaled), &inputs).unwrap();
            out[0].as_slice::<f32>().unwrap().to_vec()
        };
        assert_eq!(run(true), [8.0, 16.0]);
        assert_eq!(run(false), [9.5, 11.5]);
        let inputs = [x, one(2.0), one(3.0), one(4.0), floats(&[1, 1, 2, 1], &[1.0, 2.0])];
        let op = "BatchNormWithGlobalNormalizationGrad";
        let out = run_op(&registry, op, &attrs(true), &inputs).unwrap();
        let values: Vec<&[f32]> = out.iter().map(|out| out.as_slice().unwrap()).collect();
        // sum dy = 3, sum dy (x - m) = 5, 1 / sqrt(v + e) = 1/2.
        let expected: [&[f32]; 5] = [&[2.0, 4.0], &[-6.0], &[-1.25], &[3.0], &[2.5]];
        assert_eq!(values, expected);
    }
}

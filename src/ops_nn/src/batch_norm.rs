//! `FusedBatchNorm`: each channel shifted and scaled to a given mean and variance.

use num_traits::AsPrimitive;
use tfcore_base::{BFloat16, Elem, Half, LoopFor, Result, TypedLoop, invalid};
use tfcore_framework::{
    Attrs, InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_ops,
};
use tfcore_math::isa::vectorize;
use tfcore_math::pool::{Parallel, par_chunks_mut};
use tfcore_tensor::{Elems, ElemsMut, PartialShape, Shape, Tensor};

/// The types of images; means and variances are `float`.
pub(crate) type ImageTypes = (f32, Half, BFloat16);

pub(crate) fn register(r: &mut Registry) {
    // `FusedBatchNorm(x: T, scale: U, offset: U, mean: U, variance: U) -> y: T, batch_mean: U,
    // batch_variance: U, reserve_space_1: U, reserve_space_2: U`, attrs `epsilon`, `exponential_avg_factor`,
    // `data_format`, `is_training`: `(x - mean) · scale / sqrt(variance + epsilon) + offset`, in training with
    // the mean and variance of `x` itself. V3 has one more, unused output.
    r.op("FusedBatchNorm")
        .shape(batch_norm_shape)
        .typed_kernel::<Statistics, (f32,)>("T", batch_norm);
    r.ops(["FusedBatchNormV2", "FusedBatchNormV3"], |op| {
        op.shape(batch_norm_shape).typed_kernel::<Statistics, ImageTypes>("T", batch_norm);
    });
}

/// The rank and the axis of the channels in attr `data_format`.
pub(crate) fn format(attrs: &Attrs) -> Result<(usize, usize)> {
    match attrs.str("data_format")? {
        "NHWC" => Ok((4, 3)),
        "NCHW" => Ok((4, 1)),
        "NDHWC" => Ok((5, 4)),
        "NCDHW" => Ok((5, 1)),
        other => Err(invalid!("Invalid data format string: {other}")),
    }
}

/// 1 where the old averages do not count.
fn average_factor(attrs: &Attrs) -> Result<f32> {
    match attrs.contains("exponential_avg_factor") {
        true => attrs.float("exponential_avg_factor"),
        false => Ok(1.0),
    }
}

pub(crate) fn batch_norm_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let (rank, axis) = format(ctx.attrs)?;
    let x = shape_ops::with_rank(ctx.input(0), rank)?;
    let own_statistics = ctx.attrs.bool("is_training")? && average_factor(ctx.attrs)? == 1.0;
    let mut channels = x.dim(axis);
    for index in 1..if own_statistics { 3 } else { 5 } {
        let vector = shape_ops::with_rank(ctx.input(index), 1)?;
        channels = shape_ops::merge_dims(channels, vector.dim(0))?;
    }
    ctx.set_output(0, shape_ops::replace_dim(&x, axis as i64, channels)?);
    for index in 1..5 {
        ctx.set_output(index, PartialShape::vector(channels));
    }
    Ok(())
}

/// How the channels lie in an image: [outer, channels, inner].
#[derive(Clone, Copy)]
pub(crate) struct Layout {
    pub(crate) channels: usize,
    pub(crate) inner: usize,
}

/// What becomes of a channel: `(x - mean) · factor + offset`.
struct Affine {
    mean: Vec<f32>,
    factor: Vec<f32>,
    offset: Vec<f32>,
}

/// The loops for one type of image.
#[derive(Clone, Copy)]
struct Loops {
    /// Sums of the channels from the given one on, of `(x - center)` to the given power, 1 or 2.
    sums: fn(Elems<'_>, Layout, usize, &[f64], i32, &mut [f64]),
    apply: fn(Parallel<'_>, Elems<'_>, Layout, &Affine, ElemsMut<'_>),
}

struct Statistics;

impl TypedLoop for Statistics {
    type Loop = Loops;
}

impl<T> LoopFor<T> for Statistics
where
    T: Elem + AsPrimitive<f32>,
    f32: AsPrimitive<T>,
{
    const LOOP: Loops = Loops { sums: sums::<T>, apply: apply::<T> };
}

fn sums<T: Elem + AsPrimitive<f32>>(
    x: Elems<'_>,
    Layout { channels, inner }: Layout,
    first: usize,
    centers: &[f64],
    power: i32,
    sums: &mut [f64],
) {
    let x = x.typed::<T>();
    sums.fill(0.0);
    let span = first * inner..(first + sums.len()) * inner;
    let term = |x: T, center: f64| {
        let distance = f64::from(x.as_()) - center;
        if power == 2 { distance * distance } else { distance }
    };
    for outer in x.chunks_exact(channels * inner) {
        let planes = outer[span.clone()].chunks_exact(inner);
        for ((sum, plane), &center) in sums.iter_mut().zip(planes).zip(centers) {
            for &x in plane {
                *sum += term(x, center);
            }
        }
    }
}

fn apply<T>(
    parallel: Parallel<'_>,
    x: Elems<'_>,
    Layout { channels, inner }: Layout,
    affine: &Affine,
    out: ElemsMut<'_>,
) where
    T: Elem + AsPrimitive<f32>,
    f32: AsPrimitive<T>,
{
    let x = x.typed::<T>();
    let unit = if inner == 1 { channels } else { inner };
    par_chunks_mut(parallel, out.typed::<T>(), unit, 1 << 13, &|start, piece| {
        let x = &x[start..start + piece.len()];
        vectorize(
            #[inline(always)]
            || {
                let Affine { mean, factor, offset } = affine;
                for (index, (x, out)) in
                    x.chunks_exact(unit).zip(piece.chunks_exact_mut(unit)).enumerate()
                {
                    if inner == 1 {
                        for i in 0..unit {
                            out[i] = ((x[i].as_() - mean[i]) * factor[i] + offset[i]).as_();
                        }
                    } else {
                        let channel = (start / unit + index) % channels;
                        let (mean, factor) = (mean[channel], factor[channel]);
                        for (out, x) in out.iter_mut().zip(x) {
                            *out = ((x.as_() - mean) * factor + offset[channel]).as_();
                        }
                    }
                }
            },
        );
    });
}

/// What a node's attrs say.
#[derive(Clone, Copy)]
struct Settings {
    axis: usize,
    epsilon: f32,
    training: bool,
    average_factor: f32,
}

fn batch_norm(init: &KernelInit<'_>, loops: Loops) -> Result<Box<dyn Kernel>> {
    let (_, axis) = format(init.attrs)?;
    let settings = Settings {
        axis: if axis == 1 { 1 } else { usize::MAX },
        epsilon: init.attrs.float("epsilon")?,
        training: init.attrs.bool("is_training")?,
        average_factor: average_factor(init.attrs)?,
    };
    kernel(move |ctx: &mut OpContext<'_>| compute(ctx, settings, loops))
}

fn compute(ctx: &mut OpContext<'_>, settings: Settings, loops: Loops) -> Result<()> {
    let x = ctx.input(0)?;
    let channels = check(ctx, &settings)?;
    let axis = settings.axis.min(x.rank() - 1);
    let inner = x.shape()[axis + 1..].iter().product::<i64>() as usize;
    let layout = Layout { channels, inner };
    let vector = |index: usize| ctx.input(index)?.as_slice::<f32>();
    let (scale, offset) = (vector(1)?, vector(2)?);
    let empty = x.count() == 0;
    let mut y = ctx.allocate_output(0, x.shape().clone())?;
    // Outputs 1 and 2 are averages, 3 and 4 what the gradient will need: nothing without training.
    let zeros = || [vec![0.0; channels], vec![0.0; channels]];
    let averages_and_own = if empty {
        [[vec![f32::NAN; channels], vec![f32::NAN; channels]], zeros()]
    } else if settings.training {
        training_statistics(ctx, &settings, loops, layout)?
    } else {
        [[vector(3)?.to_vec(), vector(4)?.to_vec()], zeros()]
    };
    let [averages, own] = &averages_and_own;
    if !empty {
        let [mean, variance] = if settings.training { own } else { averages };
        let scaled =
            |(variance, scale): (&f32, &f32)| scale * (1.0 / (variance + settings.epsilon).sqrt());
        let affine = Affine {
            mean: mean.clone(),
            factor: variance.iter().zip(scale).map(scaled).collect(),
            offset: offset.to_vec(),
        };
        (loops.apply)(ctx.parallel(), x.elems(), layout, &affine, y.elems_mut()?);
    }
    ctx.set_output(0, y);
    for (index, values) in averages_and_own.iter().flatten().enumerate() {
        ctx.set_output(index + 1, Tensor::from_slice(Shape::vector(channels), values)?);
    }
    if ctx.num_outputs() > 5 {
        ctx.set_output(5, Tensor::scalar(0.0f32));
    }
    Ok(())
}

/// Mean and variance: the averages, which move towards those of the batch, and the batch's own.
fn training_statistics(
    ctx: &OpContext<'_>,
    settings: &Settings,
    loops: Loops,
    layout: Layout,
) -> Result<[[Vec<f32>; 2]; 2]> {
    let x = ctx.input(0)?;
    let size = x.count() / layout.channels;
    let mean_of = |centers: &[f64], power: i32| {
        let mut sums = vec![0.0; layout.channels];
        let grain = (1 << 14) / size.max(1) + 1;
        par_chunks_mut(ctx.parallel(), &mut sums, 1, grain, &|first, sums| {
            let centers = &centers[first..first + sums.len()];
            (loops.sums)(x.elems(), layout, first, centers, power, sums);
        });
        sums.iter().map(|sum| sum / size as f64).collect::<Vec<f64>>()
    };
    let mean = mean_of(&vec![0.0; layout.channels], 1);
    let variance = mean_of(&mean, 2);
    let narrow = |values: &[f64]| values.iter().map(|&value| value as f32).collect::<Vec<f32>>();
    // The average is of the unbiased variance.
    let unbiased = size as f64 / (size.max(2) - 1) as f64;
    let variances: Vec<f64> = variance.iter().map(|variance| variance * unbiased).collect();
    let mut averages = [narrow(&mean), narrow(&variances)];
    let factor = settings.average_factor;
    if factor != 1.0 {
        for (index, values) in averages.iter_mut().enumerate() {
            let old = ctx.input(3 + index)?.as_slice::<f32>()?;
            for (value, old) in values.iter_mut().zip(old) {
                *value = (1.0 - factor) * old + factor * *value;
            }
        }
    }
    Ok([averages, [narrow(&mean), narrow(&variance)]])
}

/// Checks the inputs and returns the number of channels.
fn check(ctx: &OpContext<'_>, settings: &Settings) -> Result<usize> {
    let x = ctx.input(0)?;
    if !matches!(x.rank(), 4 | 5) {
        return Err(invalid!("input must be 4 or 5-dimensional{}", x.shape()));
    }
    let names = ["scale", "offset", "estimated_mean", "estimated_variance"];
    for (index, name) in (1..).zip(names) {
        let shape = ctx.input(index)?.shape();
        if shape.rank() != 1 {
            return Err(invalid!("{name} must be 1-dimensional{shape}"));
        }
    }
    let channels = x.dim(settings.axis.min(x.rank() - 1));
    let own_statistics = settings.training && settings.average_factor == 1.0;
    let condition =
        if settings.training { "exponential_avg_factor != 1" } else { "is_training=false" };
    let vectors = [
        (1, "scale".to_string()),
        (2, "offset".to_string()),
        (3, format!("When {condition}, mean")),
        (4, format!("When {condition}, variance")),
    ];
    for (index, name) in &vectors[..if own_statistics { 2 } else { 4 }] {
        let len = ctx.input(*index)?.count();
        if len != channels {
            return Err(invalid!(
                "{name} must have the same number of elements as the channels of x, got {len} and \
                 {channels}"
            ));
        }
    }
    Ok(channels)
}

#[cfg(test)]
mod tests {
    use tfcore_base::DType;
    use tfcore_framework::AttrValue;
    use tfcore_framework::testing::{floats, infer, registry_of, run_op};

    use super::*;

    fn registry() -> Registry {
        registry_of(register)
    }

    fn attrs(training: bool) -> [(&'static str, AttrValue); 4] {
        [
            ("T", AttrValue::Type(DType::FLOAT)),
            ("U", AttrValue::Type(DType::FLOAT)),
            ("epsilon", AttrValue::Float(0.0)),
            ("is_training", AttrValue::Bool(training)),
        ]
    }

    #[test]
    fn training_takes_the_statistics_of_the_batch() {
        let x = floats(&[1, 2, 1, 2], &[1.0, 10.0, 3.0, 30.0]);
        let two = |a: f32, b: f32| floats(&[2], &[a, b]);
        let none = floats(&[0], &[]);
        let inputs = [x.clone(), two(2.0, 1.0), two(0.0, 5.0), none.clone(), none];
        let out = run_op(&registry(), "FusedBatchNormV3", &attrs(true), &inputs).unwrap();
        let values: Vec<&[f32]> = out.iter().map(|out| out.as_slice::<f32>().unwrap()).collect();
        let expected: [&[f32]; 6] = [
            &[-2.0, 4.0, 2.0, 6.0],
            &[2.0, 20.0],
            &[2.0, 200.0],
            &[2.0, 20.0],
            &[1.0, 100.0],
            &[0.0],
        ];
        assert_eq!(values, expected);
        let inputs = [x, two(2.0, 1.0), two(0.0, 5.0), two(1.0, 0.0), two(4.0, 25.0)];
        let out = run_op(&registry(), "FusedBatchNormV3", &attrs(false), &inputs).unwrap();
        assert_eq!(out[0].as_slice::<f32>().unwrap(), [0.0, 7.0, 2.0, 11.0]);
        assert_eq!(out[2].as_slice::<f32>().unwrap(), [4.0, 25.0]);
    }

    #[test]
    fn shapes() {
        let shape = |inputs| infer(&registry(), "FusedBatchNormV3", &attrs(true), inputs, &[]);
        let expected = "[?,4,4,3];[3];[3];[3];[3];?";
        assert_eq!(shape("[?,4,4,?];[3];[?];[0];[0]").unwrap(), expected);
        assert!(shape("[1,4,4,3];[4];[3];[0];[0]").is_err());
    }
}

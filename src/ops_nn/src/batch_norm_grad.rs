//! `FusedBatchNormGrad`: the gradients of [`batch_norm`](crate::batch_norm).

use num_traits::AsPrimitive;
use tfcore_base::{Elem, LoopFor, Result, TypedLoop, invalid};
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_ops,
};
use tfcore_math::isa::vectorize;
use tfcore_math::pool::{Parallel, par_chunks_mut};
use tfcore_tensor::{Elems, ElemsMut, PartialShape, Shape, Tensor};

use crate::batch_norm::{ImageTypes, Layout, format};

pub(crate) fn register(r: &mut Registry) {
    // `FusedBatchNormGrad(y_backprop: T, x: T, scale: float, reserve_space_1: U, reserve_space_2: U) ->
    // x_backprop: T, scale_backprop: U, offset_backprop: U, reserve_space_3: U, reserve_space_4: U`, attrs `epsilon`,
    // `data_format`, `is_training`. The spaces hold mean and variance: of the batch in training, else those that were given,
    // which are constants then. V3 has one more, unused input.
    r.op("FusedBatchNormGrad")
        .shape(grad_shape)
        .typed_kernel::<Gradients, (f32,)>("T", batch_norm_grad);
    r.ops(["FusedBatchNormGradV2", "FusedBatchNormGradV3"], |op| {
        op.shape(grad_shape).typed_kernel::<Gradients, ImageTypes>("T", batch_norm_grad);
    });
}

fn grad_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let (rank, axis) = format(ctx.attrs)?;
    let dy = shape_ops::with_rank(ctx.input(0), rank)?;
    let x = shape_ops::with_rank(ctx.input(1), rank)?;
    let mut channels = shape_ops::merge_dims(dy.dim(axis), x.dim(axis))?;
    for index in 2..5 {
        let vector = shape_ops::with_rank(ctx.input(index), 1)?;
        channels = shape_ops::merge_dims(channels, vector.dim(0))?;
    }
    ctx.set_output(0, shape_ops::replace_dim(&dy, axis as i64, channels)?);
    for index in [1, 2] {
        ctx.set_output(index, PartialShape::vector(channels));
    }
    for index in [3, 4] {
        ctx.set_output(index, PartialShape::vector(0));
    }
    Ok(())
}

/// What becomes of a channel: `dx = ((dy - shift) - (x - mean) · slope) · factor`.
#[derive(Clone, Copy)]
struct Channel {
    mean: f32,
    shift: f32,
    slope: f32,
    factor: f32,
}

/// `Σ dy` and `Σ dy · (x - mean)` of a channel.
type Sums = [f64; 2];

/// The loops for one type of image, which take `dy` and `x`.
#[derive(Clone, Copy)]
struct Loops {
    /// Sums of the channels from the given one on, whose means are given.
    sums: fn(Elems<'_>, Elems<'_>, Layout, usize, &[f32], &mut [Sums]),
    apply: fn(Parallel<'_>, Elems<'_>, Elems<'_>, Layout, &[Channel], ElemsMut<'_>),
}

struct Gradients;

impl TypedLoop for Gradients {
    type Loop = Loops;
}

impl<T> LoopFor<T> for Gradients
where
    T: Elem + AsPrimitive<f32>,
    f32: AsPrimitive<T>,
{
    const LOOP: Loops = Loops { sums: sums::<T>, apply: apply::<T> };
}

fn sums<T: Elem + AsPrimitive<f32>>(
    dy: Elems<'_>,
    x: Elems<'_>,
    Layout { channels, inner }: Layout,
    first: usize,
    means: &[f32],
    sums: &mut [Sums],
) {
    let (dy, x) = (dy.typed::<T>(), x.typed::<T>());
    let span = first * inner..(first + sums.len()) * inner;
    let slab = channels * inner;
    for (dy, x) in dy.chunks_exact(slab).zip(x.chunks_exact(slab)) {
        let planes = dy[span.clone()].chunks_exact(inner).zip(x[span.clone()].chunks_exact(inner));
        for (([sum, product], (dy, x)), &mean) in sums.iter_mut().zip(planes).zip(means) {
            for (dy, x) in dy.iter().zip(x) {
                let dy = f64::from(dy.as_());
                *sum += dy;
                *product += dy * (f64::from(x.as_()) - f64::from(mean));
            }
        }
    }
}

fn apply<T>(
    parallel: Parallel<'_>,
    dy: Elems<'_>,
    x: Elems<'_>,
    Layout { channels, inner }: Layout,
    all: &[Channel],
    out: ElemsMut<'_>,
) where
    T: Elem + AsPrimitive<f32>,
    f32: AsPrimitive<T>,
{
    let (dy, x) = (dy.typed::<T>(), x.typed::<T>());
    let unit = if inner == 1 { channels } else { inner };
    par_chunks_mut(parallel, out.typed::<T>(), unit, 1 << 13, &|start, piece| {
        let span = start..start + piece.len();
        let (dy, x) = (dy[span.clone()].chunks_exact(unit), x[span].chunks_exact(unit));
        vectorize(
            #[inline(always)]
            || {
                for (index, ((out, dy), x)) in
                    piece.chunks_exact_mut(unit).zip(dy).zip(x).enumerate()
                {
                    if inner == 1 {
                        for (((out, dy), x), channel) in out.iter_mut().zip(dy).zip(x).zip(all) {
                            *out = channel.gradient(dy.as_(), x.as_()).as_();
                        }
                    } else {
                        let channel = all[(start / unit + index) % channels];
                        for ((out, dy), x) in out.iter_mut().zip(dy).zip(x) {
                            *out = channel.gradient(dy.as_(), x.as_()).as_();
                        }
                    }
                }
            },
        );
    });
}

impl Channel {
    #[inline(always)]
    fn gradient(&self, dy: f32, x: f32) -> f32 {
        ((dy - self.shift) - (x - self.mean) * self.slope) * self.factor
    }
}

/// What a node's attrs say.
#[derive(Clone, Copy)]
struct Settings {
    channels_second: bool,
    epsilon: f32,
    training: bool,
}

fn batch_norm_grad(init: &KernelInit<'_>, loops: Loops) -> Result<Box<dyn Kernel>> {
    let (_, axis) = format(init.attrs)?;
    let settings = Settings {
        channels_second: axis == 1,
        epsilon: init.attrs.float("epsilon")?,
        training: init.attrs.bool("is_training")?,
    };
    kernel(move |ctx: &mut OpContext<'_>| compute(ctx, settings, loops))
}

fn compute(ctx: &mut OpContext<'_>, settings: Settings, loops: Loops) -> Result<()> {
    let layout = check(ctx, settings)?;
    let (dy, x) = (ctx.input(0)?, ctx.input(1)?);
    let channels = layout.channels;
    let vector = |index: usize| ctx.input(index)?.as_slice::<f32>();
    let (scale, mean, variance) = (vector(2)?, vector(3)?, vector(4)?);
    let mut dx = ctx.allocate_output(0, x.shape().clone())?;
    let mut sums = vec![Sums::default(); channels];
    let size = x.count().checked_div(channels).unwrap_or(0);
    if x.count() > 0 {
        let grain = (1 << 14) / size + 1;
        par_chunks_mut(ctx.parallel(), &mut sums, 1, grain, &|first, sums| {
            let means = &mean[first..first + sums.len()];
            (loops.sums)(dy.elems(), x.elems(), layout, first, means, sums);
        });
    }
    // `1 / sqrt(variance + epsilon)`
    let inverse: Vec<f32> =
        variance.iter().map(|variance| 1.0 / (variance + settings.epsilon).sqrt()).collect();
    if x.count() > 0 {
        let channel = |index: usize| {
            let [sum, product] = sums[index].map(|sum| sum / size as f64);
            let deviation = f64::from(inverse[index]);
            let slope = product * deviation * deviation;
            // Statistics that were given do not move with `x`.
            let (shift, slope) = if settings.training { (sum, slope) } else { (0.0, 0.0) };
            let factor = scale[index] * inverse[index];
            Channel { mean: mean[index], shift: shift as f32, slope: slope as f32, factor }
        };
        let all: Vec<Channel> = (0..channels).map(channel).collect();
        (loops.apply)(ctx.parallel(), dy.elems(), x.elems(), layout, &all, dx.elems_mut()?);
    }
    // Without elements both gradients are 0, whatever the variance is.
    let by_scale: Vec<f32> = (sums.iter().zip(&inverse))
        .map(|(sum, &inverse)| if size == 0 { 0.0 } else { (sum[1] * f64::from(inverse)) as f32 })
        .collect();
    let by_offset: Vec<f32> = sums.iter().map(|sum| sum[0] as f32).collect();
    ctx.set_output(0, dx);
    for (index, values) in [&by_scale[..], &by_offset, &[], &[]].into_iter().enumerate() {
        ctx.set_output(index + 1, Tensor::from_slice(Shape::vector(values.len()), values)?);
    }
    Ok(())
}

/// Checks the inputs and returns how the channels lie.
fn check(ctx: &OpContext<'_>, settings: Settings) -> Result<Layout> {
    let (dy, x) = (ctx.input(0)?.shape(), ctx.input(1)?.shape());
    for shape in [dy, x] {
        if !matches!(shape.rank(), 4 | 5) {
            return Err(invalid!("input must be 4 or 5-dimensional{shape}"));
        }
    }
    for (index, name) in (2..).zip(["scale", "saved mean", "saved variance"]) {
        let shape = ctx.input(index)?.shape();
        if shape.rank() != 1 {
            return Err(invalid!("{name} must be 1-dimensional{shape}"));
        }
    }
    if dy != x {
        return Err(invalid!(
            "x and y_backprop must have same shape, but x has shape {x} and y_backprop has shape {dy}"
        ));
    }
    if settings.channels_second && !settings.training {
        return Err(invalid!(
            "The implementation of FusedBatchNormGrad with is_training=False only support NHWC tensor format for now."
        ));
    }
    let axis = if settings.channels_second { 1 } else { x.rank() - 1 };
    let channels = x.dim(axis);
    for (index, name) in (2..).zip(["scale", "reserve_space_1", "reserve_space_2"]) {
        let len = ctx.input(index)?.count();
        if len != channels {
            return Err(invalid!(
                "{name} must have the same number of elements as the channels of x, got {len} and {channels}"
            ));
        }
    }
    let inner = x[axis + 1..].iter().product::<i64>() as usize;
    Ok(Layout { channels, inner })
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

    fn attrs(training: bool, format: &str) -> [(&'static str, AttrValue); 5] {
        [
            ("T", AttrValue::Type(DType::FLOAT)),
            ("U", AttrValue::Type(DType::FLOAT)),
            ("epsilon", AttrValue::Float(0.0)),
            ("is_training", AttrValue::Bool(training)),
            ("data_format", AttrValue::string(format)),
        ]
    }

    #[test]
    fn the_statistics_move_in_training_only() {
        // One channel of mean 2 and variance 1, `dy` (1, 0): `Σ dy = 1`, `Σ dy · (x - mean) = -1`.
        let one = |value: f32| floats(&[1], &[value]);
        let statistics = [one(3.0), one(2.0), one(1.0), one(0.0)];
        let (dims, second) = ([1, 2, 1, 1], [1, 1, 2, 1]);
        let cases: [(bool, &str, [i64; 4], [f32; 2]); 3] = [
            // (1 - 1/2 - 1/2) · 3 and (0 - 1/2 + 1/2) · 3
            (true, "NHWC", dims, [0.0, 0.0]),
            (true, "NCHW", second, [0.0, 0.0]),
            (false, "NHWC", dims, [3.0, 0.0]),
        ];
        for (training, format, dims, expected) in cases {
            let mut inputs = vec![floats(&dims, &[1.0, 0.0]), floats(&dims, &[1.0, 3.0])];
            inputs.extend(statistics.clone());
            let attrs = attrs(training, format);
            let out = run_op(&registry(), "FusedBatchNormGradV3", &attrs, &inputs).unwrap();
            let values: Vec<&[f32]> = out.iter().map(|out| out.as_slice().unwrap()).collect();
            assert_eq!(values, [&expected[..], &[-1.0], &[1.0], &[], &[]], "{training} {format}");
        }
    }

    #[test]
    fn shapes_must_agree() {
        let run = |dy: &[i64], channels: i64, training: bool, format: &str| {
            let ones =
                |dims: &[i64]| floats(dims, &vec![1.0; dims.iter().product::<i64>() as usize]);
            let vector = || ones(&[channels]);
            let inputs = [ones(dy), ones(&[1, 2, 2, 3]), vector(), vector(), vector(), vector()];
            let attrs = attrs(training, format);
            run_op(&registry(), "FusedBatchNormGradV3", &attrs, &inputs).unwrap_err()
        };
        let cases = [
            (run(&[1, 2, 1, 3], 3, true, "NHWC"), "x and y_backprop must have same shape"),
            (run(&[1, 2, 2, 3], 2, true, "NHWC"), "scale must have the same number of elements"),
            (run(&[1, 2, 2, 3], 2, false, "NCHW"), "with is_training=False only support NHWC"),
        ];
        for (error, expected) in cases {
            assert!(error.message().contains(expected), "{error}");
        }
        let shape =
            |inputs| infer(&registry(), "FusedBatchNormGradV3", &attrs(true, "NHWC"), inputs, &[]);
        let expected = "[?,4,4,3];[3];[3];[0];[0]";
        assert_eq!(shape("[?,4,4,?];[?,4,4,3];[3];[?];[3];?").unwrap(), expected);
        assert!(shape("[1,4,4,3];[1,4,4,2];[3];[3];[3];?").is_err());
    }
}

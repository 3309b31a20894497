//! `MaxPoolWithArgmax`, its gradient, and the gradients of the gradients of `MaxPool` and `MaxPool3D`.

use std::ops::Range;

use tfcore_base::{
    BFloat16, DType, Elem, LoopFor, RealNumbers, Result, Ring, TypedLoop, invalid, require,
    unimplemented_error,
};
use tfcore_framework::geometry::{ImageFormat, ImageWindow};
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_fns, shape_ops,
};
use tfcore_math::pool::{Parallel, par_chunks_mut};
use tfcore_math::window::{PoolGeometry, max_pool_argmax, max_pool_second};
use tfcore_tensor::{Elems, ElemsMut, Shape, Tensor};

use crate::pool::{
    Pooled, Pooling, input_sizes, max_pool_shape, max_pool_v2_shape_of, output_shape,
};
use crate::pool3d::{self, Volume};

pub(crate) fn register(r: &mut Registry) {
    // `MaxPoolWithArgmax(input: T) -> output: T, argmax: Targmax`, attrs `ksize`, `strides`, `padding`,
    // `include_batch_in_index`: the largest element of each window and where it stands, in its image or in the whole input.
    r.op("MaxPoolWithArgmax")
        .shape(|ctx| {
            max_pool_shape(ctx)?;
            ctx.set_output(1, ctx.output(0).clone());
            Ok(())
        })
        .typed_kernel::<Argmax, RealNumbers>("T", argmax);

    // `MaxPoolGradWithArgmax(input: T, grad: T, argmax: Targmax) -> output: T`, attrs as above.
    r.op("MaxPoolGradWithArgmax")
        .shape(shape_fns::unchanged_of_rank(4))
        .typed_kernel::<Scatter, RealNumbers>("T", argmax_grad);

    // `MaxPoolGradGrad(orig_input: T, orig_output: T, grad: T) -> output: T`, attrs as `MaxPool`: what stands in `grad` at the
    // place of each window's largest element. `V2` has the window's sizes and strides in inputs 3 and 4.
    r.op("MaxPoolGradGrad")
        .shape(|ctx| second_shape(ctx, max_pool_shape))
        .typed_kernel::<Second, RealNumbers>("T", second);
    r.op("MaxPoolGradGradV2")
        .shape(|ctx| second_shape(ctx, |ctx| max_pool_v2_shape_of(ctx, 3)))
        .typed_kernel::<Second, RealNumbers>("T", second_v2);
    r.op("MaxPool3DGradGrad")
        .shape(|ctx| second_shape(ctx, pool3d::pool_shape))
        .typed_kernel::<SecondOfVolumes, (f32, BFloat16)>("T", second_of_volumes);
}

/// The output is pooled by `pooled`, as input 1 is; input 2 is like input 0.
fn second_shape(
    ctx: &mut InferenceContext<'_>,
    pooled: fn(&mut InferenceContext<'_>) -> Result<()>,
) -> Result<()> {
    pooled(ctx)?;
    shape_ops::merge(ctx.input(0), ctx.input(2))?;
    shape_ops::merge(ctx.output(0), ctx.input(1))?;
    Ok(())
}

/// Writes the largest elements to the first output and their places in the input to the second.
type ArgmaxLoop = fn(Parallel<'_>, &PoolGeometry, Elems<'_>, ElemsMut<'_>, &mut [usize]);

struct Argmax;

impl TypedLoop for Argmax {
    type Loop = ArgmaxLoop;
}

impl<T: Elem + tfcore_math::window::MaxElem> LoopFor<T> for Argmax {
    const LOOP: ArgmaxLoop =
        |par, g, x, out, places| max_pool_argmax(par, g, x.typed::<T>(), out.typed(), places);
}

/// The pooling of rows and columns; the reference passes over a window of channels.
fn geometry(pooling: &Pooling, shape: &Shape) -> Result<PoolGeometry> {
    match pooling.of(shape)? {
        Pooled::Spatial(g) => Ok(g),
        Pooled::Depthwise(_) => pooling.of_rows_and_cols(shape),
    }
}

fn argmax(init: &KernelInit<'_>, run: ArgmaxLoop) -> Result<Box<dyn Kernel>> {
    let pooling = Pooling::from_attrs(init.attrs, "AvgPooling")?;
    let with_batch = init.attrs.bool("include_batch_in_index")?;
    kernel(move |ctx: &mut OpContext<'_>| {
        let input = ctx.input(0)?;
        require!(input.rank() == 4, "tensor_in must be 4-dimensional (2)");
        require!(input.count() > 0, "tensor_in must not be empty (2)");
        let g = geometry(&pooling, input.shape())?;
        let shape = output_shape(&g)?;
        let mut out = ctx.allocate_output(0, shape.clone())?;
        let mut places = vec![0; out.count()];
        if out.count() > 0 {
            run(ctx.parallel(), &g, input.elems(), out.elems_mut()?, &mut places);
        }
        let image = g.in_h * g.in_w * g.channels;
        let index = |&place: &usize| if with_batch { place } else { place % image };
        let mut indices = ctx.allocate_output(1, shape)?;
        if indices.dtype() == DType::INT32 {
            let indices = indices.as_mut_slice::<i32>()?;
            indices.iter_mut().zip(&places).for_each(|(to, place)| *to = index(place) as i32);
        } else {
            let indices = indices.as_mut_slice::<i64>()?;
            indices.iter_mut().zip(&places).for_each(|(to, place)| *to = index(place) as i64);
        }
        ctx.set_output(0, out);
        ctx.set_output(1, indices);
        Ok(())
    })
}

/// Adds gradients to the elements that they belong to; returns the first place that there is not.
type ScatterLoop = fn(Elems<'_>, &dyn Fn(usize) -> Option<usize>, ElemsMut<'_>) -> Option<usize>;

struct Scatter;

impl TypedLoop for Scatter {
    type Loop = ScatterLoop;
}

impl<T: Elem + Ring> LoopFor<T> for Scatter {
    const LOOP: ScatterLoop = |gradient, place, out| {
        let out = out.typed::<T>();
        for (index, &gradient) in gradient.typed::<T>().iter().enumerate() {
            match place(index).and_then(|place| out.get_mut(place)) {
                Some(sum) => *sum = sum.plus(gradient),
                None => return Some(index),
            }
        }
        None
    };
}

fn argmax_grad(init: &KernelInit<'_>, run: ScatterLoop) -> Result<Box<dyn Kernel>> {
    let pooling = Pooling::from_attrs(init.attrs, "MaxPoolingGradOp")?;
    let with_batch = init.attrs.bool("include_batch_in_index")?;
    kernel(move |ctx: &mut OpContext<'_>| {
        let (input, gradient, argmax) = (ctx.input(0)?, ctx.input(1)?, ctx.input(2)?);
        let g = geometry(&pooling, input.shape())?;
        let expected = output_shape(&g)?;
        for (tensor, name) in [(gradient, "grad"), (argmax, "argmax")] {
            require!(
                *tensor.shape() == expected,
                "Expected {name} shape to be {expected}, but got {}",
                tensor.shape()
            );
        }
        let mut out = ctx.allocate_zeros(input.dtype(), input.shape().clone())?;
        if out.count() > 0 && gradient.count() > 0 {
            let (indices, count) = (argmax.to_i64s()?, out.count());
            let (image, outputs) = (g.in_h * g.in_w * g.channels, g.out_h * g.out_w * g.channels);
            let place = |index: usize| {
                let (base, range) = match with_batch {
                    true => (0, 0..count),
                    false => (index / outputs * image, 0..image),
                };
                let place = usize::try_from(indices[index]).ok()?;
                range.contains(&place).then_some(base + place)
            };
            if let Some(index) = run(gradient.elems(), &place, out.elems_mut()?) {
                return Err(invalid!(
                    "Invalid output gradient index: {}, 0, {count}",
                    indices[index]
                ));
            }
        }
        ctx.set_output(0, out);
        Ok(())
    })
}

/// Input, output and the gradient's gradient.
type SecondLoop = fn(Parallel<'_>, &PoolGeometry, Elems<'_>, Elems<'_>, Elems<'_>, ElemsMut<'_>);

struct Second;

impl TypedLoop for Second {
    type Loop = SecondLoop;
}

impl<T: Elem + Copy + PartialEq> LoopFor<T> for Second {
    const LOOP: SecondLoop = |par, g, x, y, grad, out| {
        max_pool_second(par, g, x.typed::<T>(), y.typed(), grad.typed(), out.typed());
    };
}

fn second(init: &KernelInit<'_>, run: SecondLoop) -> Result<Box<dyn Kernel>> {
    let pooling = Pooling::from_attrs(init.attrs, "MaxPoolingGradGradOp")?;
    kernel(move |ctx: &mut OpContext<'_>| run_second(ctx, run, &pooling))
}

fn second_v2(init: &KernelInit<'_>, run: SecondLoop) -> Result<Box<dyn Kernel>> {
    let format = ImageFormat::from_attrs(init.attrs)?;
    if format != ImageFormat::Nhwc {
        return Err(invalid!("Default MaxPoolingGradGradOp only supports NHWC on device type CPU"));
    }
    let attrs = init.attrs.clone();
    kernel(move |ctx: &mut OpContext<'_>| {
        let (ksize, strides) = input_sizes(ctx, 3)?;
        let pooling = Pooling::new(ImageWindow::new(&attrs, format, strides, [1; 4])?, ksize)?;
        run_second(ctx, run, &pooling)
    })
}

/// Requires the ranks and shapes of the inputs to fit the pooling's output.
fn check(
    ctx: &OpContext<'_>,
    rank: usize,
    expected: impl Fn(&Shape) -> Result<Shape>,
) -> Result<()> {
    let inputs = [ctx.input(0)?, ctx.input(1)?, ctx.input(2)?];
    for (tensor, name) in inputs.iter().zip(["tensor_in", "tensor_out", "out_grad_backprop"]) {
        require!(tensor.rank() == rank, "{name} must be {rank}-dimensional");
    }
    let pooled = expected(inputs[0].shape())?;
    let pairs = [(inputs[1], "orig_output", &pooled), (inputs[2], "grad", inputs[0].shape())];
    for (tensor, name, expected) in pairs {
        require!(
            tensor.shape() == expected,
            "Expected {name} shape to be {expected}, but got {}",
            tensor.shape()
        );
    }
    Ok(())
}

fn run_second(ctx: &mut OpContext<'_>, run: SecondLoop, pooling: &Pooling) -> Result<()> {
    if pooling.is_depthwise() {
        return Err(unimplemented_error!(
            "MaxPoolingGradGrad is not yet supported on the depth dimension."
        ));
    }
    check(ctx, 4, |shape| output_shape(&pooling.spatial(shape)?))?;
    let (x, y, grad) = (ctx.input(0)?, ctx.input(1)?, ctx.input(2)?);
    let g = pooling.spatial(x.shape())?;
    ctx.produce(0, y.shape().clone(), |out| {
        run(ctx.parallel(), &g, x.elems(), y.elems(), grad.elems(), out);
    })
}

/// Volumes, then as [`SecondLoop`].
type VolumeLoop = fn(Parallel<'_>, &Volume, [&Tensor; 3], ElemsMut<'_>);

struct SecondOfVolumes;

impl TypedLoop for SecondOfVolumes {
    type Loop = VolumeLoop;
}

impl<T: Elem + Copy + Default + PartialEq> LoopFor<T> for SecondOfVolumes {
    const LOOP: VolumeLoop = |par, volume, inputs, out| {
        let [x, y, grad] = inputs.map(|tensor| tensor.elems().typed::<T>());
        let channels = volume.channels;
        par_chunks_mut(par, out.typed::<T>(), channels, 1 << 10, &|start, piece| {
            for (index, out) in (start / channels..).zip(piece.chunks_exact_mut(channels)) {
                let (image, window) = (index / volume.num_windows(), index % volume.num_windows());
                let images: Range<usize> =
                    image * volume.input_len()..(image + 1) * volume.input_len();
                let (x, grad) = (&x[images.clone()], &grad[images]);
                let y = &y[index * channels..][..channels];
                let ranges = volume.ranges(window);
                for (channel, out) in out.iter_mut().enumerate() {
                    *out = T::default();
                    let mut found = false;
                    volume.for_each_point(&ranges, |at| {
                        if !found && x[at + channel] == y[channel] {
                            (*out, found) = (grad[at + channel], true);
                        }
                    });
                }
            }
        });
    };
}

fn second_of_volumes(init: &KernelInit<'_>, run: VolumeLoop) -> Result<Box<dyn Kernel>> {
    let pooling = pool3d::Pooling::from_attrs(init.attrs, "MaxPooling3dGradGradOp")?;
    kernel(move |ctx: &mut OpContext<'_>| {
        check(ctx, 5, |shape| pooling.of(shape)?.output_shape())?;
        let inputs = [ctx.input(0)?, ctx.input(1)?, ctx.input(2)?];
        let volume = pooling.of(inputs[0].shape())?;
        ctx.produce(0, inputs[1].shape().clone(), |out| {
            run(ctx.parallel(), &volume, inputs, out);
        })
    })
}

#[cfg(test)]
mod tests {
    use tfcore_framework::AttrValue;
    use tfcore_framework::testing::{floats, registry_of, run_op, tensor};

    use super::*;

    #[test]
    fn places_and_gradients_by_them() {
        let registry = registry_of(register);
        let ints = |values: &[i64]| AttrValue::ints(values.iter().copied());
        let attrs = [
            ("T", AttrValue::Type(DType::FLOAT)),
            ("Targmax", AttrValue::Type(DType::INT64)),
            ("ksize", ints(&[1, 1, 2, 1])),
            ("strides", ints(&[1, 1, 2, 1])),
            ("padding", AttrValue::string("VALID")),
        ];
        let x = floats(&[2, 1, 4, 1], &[1.0, 4.0, 7.0, 7.0, 3.0, 2.0, f32::NAN, 9.0]);
        let input = std::slice::from_ref(&x);
        let out = run_op(&registry, "MaxPoolWithArgmax", &attrs, input).unwrap();
        let y = out[0].as_slice::<f32>().unwrap();
        assert_eq!(y[..3], [4.0, 7.0, 3.0]);
        assert!(y[3].is_nan());
        assert_eq!(out[1].as_slice::<i64>().unwrap(), [1, 2, 0, 2]);
        let grad = floats(&[2, 1, 2, 1], &[1.0, 2.0, 3.0, 4.0]);
        let inputs = [x.clone(), grad.clone(), out[1].clone()];
        let dx = run_op(&registry, "MaxPoolGradWithArgmax", &attrs, &inputs).unwrap();
        let expected = [0.0, 1.0, 2.0, 0.0, 3.0, 0.0, 4.0, 0.0];
        assert_eq!(dx[0].as_slice::<f32>().unwrap(), expected);
        let wrong = tensor(&[2, 1, 2, 1], &[0i64, 0, 9, 0]);
        assert!(
            run_op(&registry, "MaxPoolGradWithArgmax", &attrs, &[x.clone(), grad, wrong]).is_err()
        );
        let second = floats(&[2, 1, 4, 1], &[0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5]);
        let attrs = [&attrs[..1], &attrs[2..]].concat();
        let out =
            run_op(&registry, "MaxPoolGradGrad", &attrs, &[x, out[0].clone(), second]).unwrap();
        assert_eq!(out[0].as_slice::<f32>().unwrap(), [1.5, 2.5, 4.5, 0.0]);
    }
}

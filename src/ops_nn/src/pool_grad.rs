//! The gradients of pooling.

use tfcore_base::{Elem, Floats, LoopFor, RealNumbers, Result, TypedLoop, invalid};
use tfcore_framework::geometry::{ImageFormat, ImageWindow};
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_fns, shape_ops,
};
use tfcore_math::pool::Parallel;
use tfcore_math::window::{MaxElem, MeanElem, PoolGeometry, avg_pool_backprop, max_pool_backprop};
use tfcore_tensor::{Elems, ElemsMut, Shape};

use crate::pool::{Pooling, input_sizes, output_shape};

pub(crate) fn register(r: &mut Registry) {
    // `MaxPoolGrad(orig_input: T, orig_output: T, grad: T) -> output: T`, attrs as `MaxPool`: each gradient
    // goes to the first of its window's largest elements.
    r.op("MaxPoolGrad")
        .shape(shape_fns::unchanged_of_rank(4))
        .typed_kernel::<MaxBackprop, RealNumbers>("T", max_pool_grad);

    // `MaxPoolGradV2(orig_input: T, orig_output: T, grad: T, ksize: int32, strides: int32) -> output: T`.
    r.op("MaxPoolGradV2")
        .shape(shape_fns::unchanged_of_rank(4))
        .typed_kernel::<MaxBackprop, RealNumbers>("T", max_pool_grad_v2);

    // `AvgPoolGrad(orig_input_shape: int32, grad: T) -> output: T`, attrs as `AvgPool`: each gradient is
    // shared by the elements of its window.
    r.op("AvgPoolGrad")
        .shape(avg_pool_grad_shape)
        .typed_kernel::<MeanBackprop, Floats>("T", avg_pool_grad);
}

/// Input, gradient of the output, gradient of the input.
type MaxLoop = fn(Parallel<'_>, &PoolGeometry, Elems<'_>, Elems<'_>, ElemsMut<'_>);

struct MaxBackprop;

impl TypedLoop for MaxBackprop {
    type Loop = MaxLoop;
}

impl<T: Elem + MaxElem> LoopFor<T> for MaxBackprop {
    const LOOP: MaxLoop = |par, g, input, gradient, out| {
        max_pool_backprop(par, g, input.typed::<T>(), gradient.typed(), out.typed());
    };
}

fn max_pool_grad(init: &KernelInit<'_>, run: MaxLoop) -> Result<Box<dyn Kernel>> {
    let pooling = Pooling::from_attrs(init.attrs, "MaxPoolingGradOp")?;
    kernel(move |ctx: &mut OpContext<'_>| run_max(ctx, run, &pooling))
}

fn max_pool_grad_v2(init: &KernelInit<'_>, run: MaxLoop) -> Result<Box<dyn Kernel>> {
    let format = ImageFormat::from_attrs(init.attrs)?;
    if format != ImageFormat::Nhwc {
        return Err(invalid!("Default MaxPoolingGradOp only supports NHWC on device type CPU"));
    }
    let attrs = init.attrs.clone();
    kernel(move |ctx: &mut OpContext<'_>| {
        let (ksize, strides) = input_sizes(ctx, 3)?;
        let pooling = Pooling::new(ImageWindow::new(&attrs, format, strides, [1; 4])?, ksize)?;
        run_max(ctx, run, &pooling)
    })
}

fn run_max(ctx: &mut OpContext<'_>, run: MaxLoop, pooling: &Pooling) -> Result<()> {
    let (input, output, gradient) = (ctx.input(0)?, ctx.input(1)?, ctx.input(2)?);
    for (tensor, name) in [(input, "tensor_in"), (output, "tensor_out"), (gradient, "out_backprop")]
    {
        if tensor.rank() != 4 {
            return Err(invalid!("{name} must be 4-dimensional"));
        }
    }
    let geometry = pooling.spatial(input.shape())?;
    let expected = output_shape(&geometry)?;
    for (tensor, name) in [(output, "orig_output"), (gradient, "grad")] {
        if *tensor.shape() != expected {
            return Err(invalid!(
                "Expected {name} shape to be {expected}, but got {}",
                tensor.shape()
            ));
        }
    }
    ctx.produce(0, input.shape().clone(), |out| {
        run(ctx.parallel(), &geometry, input.elems(), gradient.elems(), out);
    })
}

fn avg_pool_grad_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    shape_ops::with_rank(ctx.input(0), 1)?;
    let sizes = ctx.operand_shape(0)?;
    ctx.set_output(0, shape_ops::with_rank(&sizes, 4)?);
    Ok(())
}

type MeanLoop = fn(Parallel<'_>, &PoolGeometry, Elems<'_>, ElemsMut<'_>);

struct MeanBackprop;

impl TypedLoop for MeanBackprop {
    type Loop = MeanLoop;
}

impl<T: Elem + MeanElem> LoopFor<T> for MeanBackprop {
    const LOOP: MeanLoop =
        |par, g, gradient, out| avg_pool_backprop(par, g, gradient.typed::<T>(), out.typed());
}

fn avg_pool_grad(init: &KernelInit<'_>, run: MeanLoop) -> Result<Box<dyn Kernel>> {
    let pooling = Pooling::from_attrs(init.attrs, "AvgPoolingGradOp")?;
    kernel(move |ctx: &mut OpContext<'_>| {
        let (sizes, gradient) = (ctx.input(0)?, ctx.input(1)?);
        if sizes.rank() != 1 || sizes.count() != 4 {
            return Err(invalid!("out_backprop must be 1-dimensional and 4 elements"));
        }
        if gradient.rank() != 4 {
            return Err(invalid!("out_backprop must be 4-dimensional"));
        }
        let input = Shape::new(&sizes.to_i64s()?)?;
        let geometry = pooling.spatial(&input)?;
        let expected = output_shape(&geometry)?;
        if *gradient.shape() != expected {
            return Err(invalid!(
                "Expected grad shape to be {expected}, but got {}",
                gradient.shape()
            ));
        }
        ctx.produce(0, input, |out| run(ctx.parallel(), &geometry, gradient.elems(), out))
    })
}

#[cfg(test)]
mod tests {
    use tfcore_base::DType;
    use tfcore_framework::AttrValue;
    use tfcore_framework::testing::{registry_of, run_op};
    use tfcore_tensor::Tensor;

    use super::*;

    #[test]
    fn gradients_reach_the_elements_of_the_windows() {
        let r = registry_of(register);
        let attrs = [
            ("T", AttrValue::Type(DType::FLOAT)),
            ("ksize", AttrValue::ints([1, 1, 2, 1])),
            ("strides", AttrValue::ints([1, 1, 1, 1])),
            ("padding", AttrValue::string("VALID")),
        ];
        let image = |values: &[f32]| {
            let shape = Shape::new(&[1, 1, values.len() as i64, 1]).unwrap();
            Tensor::from_slice(shape, values).unwrap()
        };
        let inputs = [image(&[1.0, 3.0, 2.0]), image(&[3.0, 3.0]), image(&[4.0, 8.0])];
        let out = run_op(&r, "MaxPoolGrad", &attrs, &inputs).unwrap();
        assert_eq!(out[0].as_slice::<f32>().unwrap(), [0.0, 12.0, 0.0]);
        let sizes = Tensor::from_slice(Shape::vector(4), &[1i32, 1, 3, 1]).unwrap();
        let inputs = [sizes, image(&[4.0, 8.0])];
        let out = run_op(&r, "AvgPoolGrad", &attrs, &inputs).unwrap();
        assert_eq!(out[0].as_slice::<f32>().unwrap(), [2.0, 6.0, 4.0]);
        let short = [image(&[1.0, 3.0, 2.0]), image(&[3.0]), image(&[4.0, 8.0])];
        let error = run_op(&r, "MaxPoolGrad", &attrs, &short).unwrap_err();
        assert!(error.message().contains("Expected orig_output shape to be [1,1,2,1]"), "{error}");
    }
}

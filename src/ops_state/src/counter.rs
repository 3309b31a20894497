//! Variables that count.

use tfcore_base::{DType, Result, invalid, out_of_range};
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, Registry, ShapeAndType, kernel, shape_fns, shape_ops,
};
use tfcore_tensor::Tensor;

pub(crate) fn register(r: &mut Registry) {
    // `CountUpTo(ref: Ref(T); limit) -> output: T`, the counter's value before it is raised by one.
    r.op("CountUpTo").shape(shape_fns::unchanged_of_rank(0)).cpu(count);

    // `ResourceCountUpTo(resource; limit) -> output: T`, as `CountUpTo`.
    r.op("ResourceCountUpTo").shape(resource_count_shape).cpu(count);
}

fn resource_count_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let Some([ShapeAndType { shape, dtype }, ..]) = ctx.input_handle(0) else {
        return Err(invalid!("Handle has no shape/type information."));
    };
    let expected = ctx.attrs.dtype("T")?;
    if *dtype != expected {
        return Err(invalid!("Data types do not match: {expected} and {dtype}"));
    }
    let shape = shape_ops::with_rank(shape, 0)?;
    ctx.set_output(0, shape);
    Ok(())
}

fn count(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let limit = init.attrs.int("limit")?;
    let dtype = init.attrs.dtype("T")?;
    kernel(move |ctx| {
        let before = ctx.variable(0)?.update(&ctx.step().buffers, |tensor| {
            if tensor.dtype() != dtype {
                return Err(invalid!("Counter has type {}, not {dtype}", tensor.dtype()));
            }
            if tensor.rank() != 0 {
                return Err(invalid!("input is not a scalar: {}", tensor.shape()));
            }
            let before = tensor.to_i64s()?[0];
            if before >= limit {
                return Err(out_of_range!("Reached limit of {limit}"));
            }
            // A limit beyond the type lets the counter wrap around.
            match dtype {
                DType::INT32 => tensor.as_mut_slice::<i32>()?[0] = (before as i32).wrapping_add(1),
                _ => tensor.as_mut_slice::<i64>()?[0] = before.wrapping_add(1),
            }
            Ok(before)
        })?;
        let out = match dtype {
            DType::INT32 => Tensor::scalar(before as i32),
            _ => Tensor::scalar(before),
        };
        ctx.set_output(0, out);
        Ok(())
    })
}

//! Tensor arrays element by element: making arrays and their gradients, writing and reading.
//!
//! Each op exists three times: with a ref to a pair of strings for a handle, with such a pair, and with a
//! resource handle. The `flow` tensors only put the ops in order.

use std::sync::Arc;

use tfcore_base::{DType, Result, invalid, require};
use tfcore_framework::{Attrs, Kernel, KernelInit, OpContext, Registry, kernel, shape_fns};
use tfcore_tensor::{Shape, Tensor};

use crate::step_handles::{find, handle_pair, keep, output_handle, unique_name, unless_it_exists};
use crate::tensor_array::{ArraySpec, TensorArray};
use crate::{array_shapes, types};

pub(crate) fn register(r: &mut Registry) {
    // `TensorArrayV3(size: int32; dtype, element_shape, dynamic_size, clear_after_read, identical_element_shapes,
    // tensor_array_name) -> handle: resource, flow: float`.
    r.op("TensorArray").shape(shape_fns::unknown).cpu(create);
    r.op("TensorArrayV2").shape(array_shapes::create_v2).cpu(create);
    r.op("TensorArrayV3").shape(array_shapes::create_v3).cpu(create);

    // `TensorArrayGradV3(handle: resource, flow_in: float; source) -> grad_handle: resource, flow_out: float`, the
    // array for the gradients of the elements, one for each `source`.
    r.op("TensorArrayGrad").shape(shape_fns::unknown).cpu(create_gradient);
    r.op("TensorArrayGradV2").shape(array_shapes::gradient_v2).cpu(create_gradient);
    r.op("TensorArrayGradV3").shape(array_shapes::gradient_v3).cpu(create_gradient);

    // `TensorArrayGradWithShape(handle: resource, flow_in: float, shape_to_prepend: int32; source) -> grad_handle:
    // resource, flow_out: float`, where the gradients have more dimensions than the elements.
    r.op("TensorArrayGradWithShape").shape(array_shapes::gradient_with_shape).cpu(create_gradient);

    // `TensorArrayWriteV3(handle: resource, index: int32, value: T, flow_in: float) -> flow_out: float`.
    let written = types::of_arrays();
    let write = |_: &KernelInit<'_>| -> Result<Box<dyn Kernel>> { Ok(Box::new(write)) };
    r.op("TensorArrayWrite").shape(shape_fns::unknown).cpu_for("T", &written, write);
    r.op("TensorArrayWriteV2").shape(array_shapes::write_v2).cpu_for("T", &written, write);
    r.op("TensorArrayWriteV3").shape(array_shapes::write_v3).cpu_for("T", &written, write);

    // `TensorArrayReadV3(handle: resource, index: int32, flow_in: float) -> value: dtype`.
    r.op("TensorArrayRead").shape(shape_fns::unknown).cpu_for("dtype", &written, read);
    r.op("TensorArrayReadV2").shape(array_shapes::read_v2).cpu_for("dtype", &written, read);
    r.op("TensorArrayReadV3").shape(array_shapes::read_v3).cpu_for("dtype", &written, read);

    // `TensorArraySizeV3(handle: resource, flow_in: float) -> size: int32`.
    r.op("TensorArraySize").shape(shape_fns::unknown).compute(size);
    r.op("TensorArraySizeV2").shape(array_shapes::size).compute(size);
    r.op("TensorArraySizeV3").shape(array_shapes::size).compute(size);

    // `TensorArrayCloseV3(handle: resource)`, drops the elements.
    r.op("TensorArrayClose").shape(shape_fns::no_outputs).compute(close);
    r.op("TensorArrayCloseV2").shape(array_shapes::close).compute(close);
    r.op("TensorArrayCloseV3").shape(array_shapes::close).compute(close);
}

/// The containers of arrays and of their gradients, as handles name them.
const ARRAYS: &str = "_tensor_arrays";
const GRADIENTS: &str = "_tensor_array_grads";

fn create(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let attrs = init.attrs;
    let spec = ArraySpec {
        dtype: attrs.dtype("dtype")?,
        element: attrs.shape("element_shape")?.clone(),
        is_dynamic: attrs.bool("dynamic_size")?,
        clears_after_read: attrs.bool("clear_after_read")?,
        has_identical_shapes: has_identical_shapes(attrs)?,
    };
    let name = match attrs.str("tensor_array_name")? {
        "" => init.name.to_string(),
        name => name.to_string(),
    };
    kernel(move |ctx| {
        let size = ctx.input(0)?;
        require!(
            size.rank() == 0,
            "TensorArray size must be scalar, but had shape: {}",
            size.shape()
        );
        let len = usize::try_from(size.scalar_value::<i32>()?)
            .map_err(|_| invalid!("Size should be >= 0."))?;
        let name = unique_name(&name);
        let array = Arc::new(TensorArray::new(name, &spec, len)?);
        keep(ctx, ARRAYS, &array.name, array.clone())?;
        output_array(ctx, ARRAYS, &array)
    })
}

/// Only the newest op has the attr.
fn has_identical_shapes(attrs: &Attrs) -> Result<bool> {
    match attrs.get("identical_element_shapes") {
        Some(_) => attrs.bool("identical_element_shapes"),
        None => Ok(false),
    }
}

/// Sets the outputs to the array's handle and, where the op has one, the first flow.
fn output_array(ctx: &mut OpContext<'_>, container: &str, array: &Arc<TensorArray>) -> Result<()> {
    output_handle(ctx, container, &array.name, array)?;
    if ctx.num_outputs() == 2 {
        ctx.set_output(1, Tensor::scalar(0f32));
    }
    Ok(())
}

fn create_gradient(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let source = init.attrs.str("source")?.to_string();
    let has_strings = init.output_dtypes[0] != DType::RESOURCE;
    let has_prefix = init.input_dtypes.len() > 2;
    kernel(move |ctx| {
        if has_strings {
            let (container, _) = handle_pair::<TensorArray>(ctx)?;
            require!(
                container == ARRAYS,
                "Input container should be '{ARRAYS}',  but received '{container}'"
            );
        } else {
            let key = ctx.handle(0)?;
            require!(key.name.starts_with(ARRAYS), "Wrong input container. {}", key.name);
        }
        let prefix = match has_prefix {
            true => {
                let dims = ctx.input(2)?;
                require!(
                    dims.rank() == 1,
                    "shape must be a vector of {{int32,int64}}, got shape {}",
                    dims.shape()
                );
                Some(Shape::new(&dims.to_i64s()?)?)
            }
            false => None,
        };
        let array = find::<TensorArray>(ctx)?.gradient(&source, prefix.as_ref())?;
        if has_strings {
            unless_it_exists(keep(ctx, GRADIENTS, &array.name, array.clone()))?;
        }
        output_array(ctx, GRADIENTS, &array)
    })
}

/// The index at input 1.
fn index(ctx: &OpContext<'_>) -> Result<i32> {
    let index = ctx.input(1)?;
    require!(
        index.rank() == 0,
        "TensorArray index must be scalar, but had shape: {}",
        index.shape()
    );
    index.scalar_value()
}

fn write(ctx: &mut OpContext<'_>) -> Result<()> {
    let index = index(ctx)?;
    let array = find::<TensorArray>(ctx)?;
    array.require_written_dtype(ctx.input(2)?.dtype())?;
    let value = ctx.take_input(2)?;
    array.write_all(ctx, [(index, value)])?;
    output_flow(ctx, 3)
}

/// Hands the flow at input `index` on.
pub(crate) fn output_flow(ctx: &mut OpContext<'_>, index: usize) -> Result<()> {
    let flow = ctx.take_input(index)?;
    ctx.set_output(0, flow);
    Ok(())
}

fn read(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let dtype = init.attrs.dtype("dtype")?;
    kernel(move |ctx| {
        let index = index(ctx)?;
        let array = find::<TensorArray>(ctx)?;
        array.require_read_dtype(dtype)?;
        let value = array.read_all(ctx, [index])?.pop();
        if let Some(value) = value {
            ctx.set_output(0, value);
        }
        Ok(())
    })
}

fn size(ctx: &mut OpContext<'_>) -> Result<()> {
    let len = find::<TensorArray>(ctx)?.len()?;
    ctx.set_output(0, Tensor::scalar(len as i32));
    Ok(())
}

fn close(ctx: &mut OpContext<'_>) -> Result<()> {
    find::<TensorArray>(ctx)?.close();
    Ok(())
}

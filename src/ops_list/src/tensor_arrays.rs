//! Tensor arrays element by element: making arrays and their gradients, writing and reading.
//!
//! Each op exists three times: with a ref to a pair of strings for a handle, with such a pair, and with a
//! resource handle. The `flow` tensors only put the ops in order.

use std::sync::Arc;

use tfcore_base::{DType, Result, invalid, require};
use tfcore_framework::{Attrs, Kernel, KernelInit, OpContext, Registry, kernel, shape_fns};
use tfcore_tensor::{Shape, Tensor};

use crate::array_shapes;
use crate::step_handles::{find, handle_pair, keep, output_handle, unique_name, unless_it_exists};
use crate::tensor_array::{ArraySpec, TensorArray};

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
    r.op("TensorArrayWrite").shape(shape_fns::unknown).compute(write);
    r.op("TensorArrayWriteV2").shape(array_shapes::write_v2).compute(write);
    r.op("TensorArrayWriteV3").shape(array_shapes::write_v3).compute(write);

    // `TensorArrayReadV3(handle: resource, index: int32, flow_in: float) -> value: dtype`.
    r.op("TensorArrayRead").shape(shape_fns::unknown).cpu(read);
    r.op("TensorArrayReadV2").shape(array_shapes::read_v2).cpu(read);
    r.op("TensorArrayReadV3").shape(array_shapes::read_v3).cpu(read);

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::*;
    use tfcore_framework::AttrValue;
    use tfcore_tensor::PartialShape;

    const FLOAT: AttrValue = AttrValue::Type(DType::FLOAT);

    fn flow() -> Tensor {
        Tensor::scalar(0f32)
    }

    fn array(ops: &Ops, len: i32, attrs: AttrPairs<'_>) -> Tensor {
        let attrs = [&[("dtype", FLOAT)], attrs].concat();
        ops.first("TensorArrayV3", &attrs, vec![Tensor::scalar(len)]).unwrap()
    }

    fn write(ops: &Ops, array: &Tensor, index: i32, value: &[f32]) -> Result<Tensor> {
        let inputs = vec![array.clone(), Tensor::scalar(index), floats(value), flow()];
        ops.first("TensorArrayWriteV3", &[("T", FLOAT)], inputs)
    }

    fn read(ops: &Ops, array: &Tensor, index: i32) -> Result<Vec<f32>> {
        let inputs = vec![array.clone(), Tensor::scalar(index), flow()];
        let value = ops.first("TensorArrayReadV3", &[("dtype", FLOAT)], inputs)?;
        Ok(contents(&value).1)
    }

    fn gradient(ops: &Ops, array: &Tensor) -> Tensor {
        let source = ("source", AttrValue::string("g"));
        ops.first("TensorArrayGradV3", &[source], vec![array.clone(), flow()]).unwrap()
    }

    fn message<T>(result: Result<T>) -> String {
        let error = result.err().unwrap();
        // The number in the array's name differs from run to run.
        let message = error.message().to_string();
        match message.find("op_") {
            Some(start) => {
                let end = message[start + 3..].find(|c: char| !c.is_ascii_digit()).unwrap();
                format!("{}{}", &message[..start + 2], &message[start + 3 + end..])
            }
            None => message,
        }
    }

    #[test]
    fn elements_are_written_once_and_read_once() {
        let ops = Ops::new();
        let once = array(&ops, 2, &[]);
        write(&ops, &once, 1, &[1.0, 2.0]).unwrap();
        assert_eq!(
            message(write(&ops, &once, 1, &[3.0])),
            "TensorArray op: Could not write to TensorArray index 1 because it has already been written to."
        );
        assert_eq!(read(&ops, &once, 1).unwrap(), [1.0, 2.0]);
        assert_eq!(
            message(read(&ops, &once, 1)),
            "TensorArray op: Could not read index 1 twice because it was cleared after a previous read (perhaps \
             try setting clear_after_read = false?)."
        );
        assert_eq!(
            message(write(&ops, &once, 1, &[3.0])),
            "TensorArray op: Could not write to TensorArray index 1 because it has already been read."
        );
        let often = array(&ops, 1, &[("clear_after_read", AttrValue::Bool(false))]);
        write(&ops, &often, 0, &[1.0]).unwrap();
        for _ in 0..2 {
            assert_eq!(read(&ops, &often, 0).unwrap(), [1.0]);
        }
    }

    #[test]
    fn arrays_grow_and_take_shapes_if_they_may() {
        let ops = Ops::new();
        let fixed = array(&ops, 2, &[]);
        for index in [-1, 2] {
            assert_eq!(
                message(write(&ops, &fixed, index, &[1.0])),
                format!(
                    "TensorArray op: Tried to write to index {index} but array is not resizeable and size is: 2"
                )
            );
            assert_eq!(
                message(read(&ops, &fixed, index)),
                format!("Tried to read from index {index} but array size is: 2")
            );
        }
        let dynamic = array(&ops, 0, &[("dynamic_size", AttrValue::Bool(true))]);
        write(&ops, &dynamic, 4, &[1.0]).unwrap();
        let size = ops.first("TensorArraySizeV3", &[], vec![dynamic, flow()]).unwrap();
        assert_eq!(size.scalar_value::<i32>().unwrap(), 5);

        let alike = array(&ops, 3, &[("identical_element_shapes", AttrValue::Bool(true))]);
        write(&ops, &alike, 0, &[1.0, 2.0]).unwrap();
        assert_eq!(
            message(write(&ops, &alike, 1, &[1.0])),
            "TensorArray op: Could not write to TensorArray index 1 because the value shape is [1] which is \
             incompatible with the TensorArray's inferred element shape: [2] (consider setting \
             infer_shape=False)."
        );
        // The shape is known now, and with it the zeros.
        assert_eq!(read(&ops, &alike, 2).unwrap(), [0.0, 0.0]);
        let unknown = array(&ops, 1, &[]);
        assert!(
            message(read(&ops, &unknown, 0))
                .contains("not fully defined: <unknown>.  It is possible")
        );
    }

    #[test]
    fn gradients_are_summed() {
        let ops = Ops::new();
        let element = AttrValue::shape(PartialShape::from_i64s(&[2]).unwrap());
        let forward = array(&ops, 3, &[("element_shape", element)]);
        write(&ops, &forward, 0, &[1.0, 2.0]).unwrap();
        let gradients = gradient(&ops, &forward);
        let value = floats(&[1.0, 1.0]);
        for term in [value.as_slice().unwrap(), &[2.0, 3.0], &[3.0, 5.0]] {
            write(&ops, &gradient(&ops, &forward), 0, term).unwrap();
        }
        // What was written first is not what was added to.
        assert_eq!(contents::<f32>(&value).1, [1.0, 1.0]);
        assert_eq!(read(&ops, &gradients, 0).unwrap(), [6.0, 9.0]);
        for index in [1, 7] {
            assert_eq!(read(&ops, &gradients, index).unwrap(), [0.0, 0.0], "{index}");
        }
        assert_eq!(
            message(write(&ops, &forward, 3, &[0.0, 0.0])),
            "TensorArray op: Tried to write to index 3 but array is not resizeable and size is: 3"
        );
        let again = gradient(&ops, &array(&ops, 1, &[]));
        let source = ("source", AttrValue::string("g"));
        let error = ops.failure("TensorArrayGradV3", &[source], vec![again, flow()]);
        assert!(error.starts_with("Wrong input container. _tensor_array_grads"), "{error}");
    }

    #[test]
    fn arrays_end_when_closed_and_with_their_step() {
        let mut ops = Ops::new();
        let closed = array(&ops, 1, &[]);
        ops.all("TensorArrayCloseV3", &[], vec![closed.clone()]).unwrap();
        assert_eq!(message(read(&ops, &closed, 0)), "TensorArray op has already been closed.");
        let left = array(&ops, 1, &[]);
        ops.next_step();
        let error = message(read(&ops, &left, 0));
        assert!(error.starts_with("Resource __per_step_0/_tensor_arraysop"), "{error}");
    }

    #[test]
    fn strings_are_handles_too() {
        let ops = Ops::new();
        let dtype = [("dtype", FLOAT)];
        let handle = ops.first("TensorArrayV2", &dtype, vec![Tensor::scalar(1)]).unwrap();
        let source = ("source", AttrValue::string("g"));
        let inputs = vec![handle.clone(), flow()];
        let gradients = ops.first("TensorArrayGradV2", &[source], inputs).unwrap();
        let inputs = vec![gradients.clone(), Tensor::scalar(0), floats(&[1.0]), flow()];
        ops.all("TensorArrayWriteV2", &[("T", FLOAT)], inputs).unwrap();
        let read = |handle: Tensor| {
            let inputs = vec![handle, Tensor::scalar(0), flow()];
            ops.first("TensorArrayReadV2", &dtype, inputs)
        };
        assert_eq!(contents::<f32>(&read(gradients).unwrap()).1, [1.0]);
        assert!(message(read(handle)).contains("Could not read from TensorArray index 0."));
        let texts = |texts: &[&str]| {
            let texts: Vec<_> = texts.iter().map(|&text| text.into()).collect();
            Tensor::from_slice::<tfcore_tensor::TString>(Shape::vector(texts.len()), &texts)
                .unwrap()
        };
        assert_eq!(
            message(read(texts(&["_tensor_arrays", "none"]))),
            "Resource __per_step_0/_tensor_arraysnone/N10tensorflow11TensorArrayE does not exist."
        );
        assert_eq!(
            message(read(texts(&["a"]))),
            "Tensor array handle must be 2-element vector, but had shape: [1]"
        );
    }
}

//! What function bodies begin and end with, and what stands for a value that nobody reads.

use tfcore_base::{DType, Result, invalid};
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, Registry, ShapeAndType, kernel, shape_fns,
};
use tfcore_tensor::{Shape, Tensor};

pub(crate) fn register(r: &mut Registry) {
    // _Arg(T, index) -> output: argument `index` of the call.
    r.op("_Arg").shape(arg_shape);
    r.op("_DeviceArg").shape(shape_fns::unknown);
    // _Retval(input: T, index): result `index` of the call.
    r.ops(["_Retval", "_DeviceRetval"], |op| {
        op.shape(shape_fns::no_outputs);
    });
    // FakeParam(dtype, shape) -> output
    r.op("FakeParam").shape(shape_fns::explicit).cpu(fake_param_kernel);
    // DeviceIndex(device_names) -> index: int32
    r.op("DeviceIndex").shape(shape_fns::scalar).cpu(device_index_kernel);
}

/// Yields zeros, or nothing at all if the shape is not known: nobody looks at them.
fn fake_param_kernel(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let shape = init.attrs.shape("shape")?.to_shape().unwrap_or_else(|| Shape::vector(0));
    kernel(move |ctx| {
        let zeros = ctx.allocate_zeros(ctx.output_dtype(0), shape.clone())?;
        ctx.set_output(0, zeros);
        Ok(())
    })
}

/// The place of the device's type in the list, or the list's length.
fn device_index_kernel(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let names = init.attrs.string_list("device_names")?;
    let index = names.iter().position(|name| &**name == b"CPU").unwrap_or(names.len());
    let index = Tensor::scalar(index as i32);
    kernel(move |ctx| {
        ctx.set_output(0, index.clone());
        Ok(())
    })
}

/// Function definitions say what they know of an argument by internal attrs of its node.
fn arg_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    if ctx.attrs.contains("_output_shapes") {
        let shapes = ctx.attrs.shapes("_output_shapes")?;
        let shape = shapes.first().ok_or_else(|| {
            invalid!("Invalid \"_output_shapes\" attribute value for _Arg node: list {{\n}}\n")
        })?;
        ctx.set_output(0, shape.clone());
    }
    let has_handle = ctx.attrs.contains("_handle_dtypes") && ctx.attrs.contains("_handle_shapes");
    if ctx.attrs.dtype("T")? != DType::RESOURCE || !has_handle {
        return Ok(());
    }
    let dtypes = ctx.attrs.dtypes("_handle_dtypes")?;
    let shapes = ctx.attrs.shapes("_handle_shapes")?;
    let invalid_list =
        |name: &str| invalid!("Invalid \"{name}\" attribute value for _Arg node: list {{\n}}\n");
    let dtype = *dtypes.first().ok_or_else(|| invalid_list("_handle_dtypes"))?;
    let shape = shapes.first().ok_or_else(|| invalid_list("_handle_shapes"))?.clone();
    ctx.set_output_handle(0, vec![ShapeAndType { shape, dtype }]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use tfcore_framework::testing::{infer, registry_of};
    use tfcore_framework::{AttrList, AttrValue};
    use tfcore_tensor::PartialShape;

    use super::*;

    #[test]
    fn arguments_have_the_shape_that_the_definition_gives() {
        let registry = registry_of(register);
        let shapes = |shapes: &[&[i64]]| {
            let shapes = shapes.iter().map(|dims| PartialShape::from_i64s(dims).unwrap());
            AttrValue::list(AttrList::Shape(shapes.collect()))
        };
        let attrs = |shapes: Option<AttrValue>| {
            let mut attrs =
                vec![("T", AttrValue::Type(DType::FLOAT)), ("index", AttrValue::Int(0))];
            attrs.extend(shapes.map(|shapes| ("_output_shapes", shapes)));
            attrs
        };
        assert_eq!(infer(&registry, "_Arg", &attrs(None), "", &[]).unwrap(), "?");
        let known = attrs(Some(shapes(&[&[2, -1], &[1]])));
        assert_eq!(infer(&registry, "_Arg", &known, "", &[]).unwrap(), "[2,?]");
        let error = infer(&registry, "_Arg", &attrs(Some(shapes(&[]))), "", &[]).unwrap_err();
        assert!(error.message().starts_with("Invalid \"_output_shapes\" attribute value"));
    }
}

//! What shape functions know of the variable behind a handle.

use tfcore_base::{DType, Result, invalid};
use tfcore_framework::{InferenceContext, ShapeAndType, shape_ops};
use tfcore_tensor::PartialShape;

/// The static shape of the variable behind the handle at input `index`; unknown where nothing is known.
///
/// # Errors
/// `InvalidArgument` if the variable is known to hold another type than `dtype`.
pub(crate) fn variable_shape(
    ctx: &InferenceContext<'_>,
    index: usize,
    dtype: DType,
) -> Result<PartialShape> {
    match ctx.input_handle(index) {
        Some([ShapeAndType { shape, dtype: held }, ..]) => match *held == dtype {
            true => Ok(shape.clone()),
            false => Err(invalid!(
                "Trying to read variable with wrong dtype. Expected {held} got {dtype}"
            )),
        },
        _ => Ok(PartialShape::unknown()),
    }
}

/// The dimensions from `start` on; none where the shape has fewer.
pub(crate) fn suffix(shape: &PartialShape, start: usize) -> PartialShape {
    match shape.dims() {
        Some(dims) => dims.iter().skip(start).copied().collect(),
        None => PartialShape::unknown(),
    }
}

/// For ops that write a value of the variable's shape: it must agree with input 1.
pub(crate) fn writes_value(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let shape = variable_shape(ctx, 0, ctx.attrs.dtype("dtype")?)?;
    shape_ops::merge(&shape, ctx.input(1))?;
    Ok(())
}

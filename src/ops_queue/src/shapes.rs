//! Shape functions of handles, and of ops on them.

use tfcore_base::Result;
use tfcore_framework::{InferenceContext, shape_ops};
use tfcore_tensor::PartialShape;

/// The op hands out a handle of old: a container and a name.
pub(crate) fn ref_handle(ctx: &mut InferenceContext<'_>) -> Result<()> {
    ctx.set_output(0, PartialShape::vector(2));
    Ok(())
}

/// The op hands out a resource handle.
pub(crate) fn resource_handle(ctx: &mut InferenceContext<'_>) -> Result<()> {
    ctx.set_output(0, PartialShape::scalar());
    Ok(())
}

/// Input 0 is a handle of old, and all outputs are scalars.
pub(crate) fn of_ref_handle(ctx: &mut InferenceContext<'_>) -> Result<()> {
    check_ref_handle(ctx)?;
    for index in 0..ctx.num_outputs() {
        ctx.set_output(index, PartialShape::scalar());
    }
    Ok(())
}

/// # Errors
/// `InvalidArgument` if input 0 cannot be a handle of old.
pub(crate) fn check_ref_handle(ctx: &InferenceContext<'_>) -> Result<()> {
    let handle = shape_ops::with_rank(ctx.input(0), 1)?;
    shape_ops::with_value(handle.dim(0), 2)?;
    Ok(())
}

/// Input 1 is a scalar; nothing is known of the outputs.
pub(crate) fn with_scalar_operand(ctx: &mut InferenceContext<'_>) -> Result<()> {
    shape_ops::with_rank(ctx.input(1), 0)?;
    Ok(())
}

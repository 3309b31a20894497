//! What the shape functions of the family share.

use tfcore_base::{Result, invalid};
use tfcore_framework::{InferenceContext, shape_ops};
use tfcore_tensor::PartialShape;

/// Requires inputs to be scalars.
pub(crate) fn scalars(
    ctx: &InferenceContext<'_>,
    inputs: impl IntoIterator<Item = usize>,
) -> Result<()> {
    inputs.into_iter().try_for_each(|index| shape_ops::with_rank(ctx.input(index), 0).map(drop))
}

/// Sets outputs from `first` on to scalars.
pub(crate) fn scalar_outputs(ctx: &mut InferenceContext<'_>, first: usize) {
    (first..ctx.num_outputs()).for_each(|index| ctx.set_output(index, PartialShape::scalar()));
}

/// Output 0 is like input 0, all other inputs and outputs are scalars.
pub(crate) fn like_first(ctx: &mut InferenceContext<'_>) -> Result<()> {
    scalars(ctx, 1..ctx.num_inputs())?;
    ctx.set_output(0, ctx.input(0).clone());
    scalar_outputs(ctx, 1);
    Ok(())
}

/// Ranges in inputs `min` and `min + 1` for the slices along attr `axis` of `input`: scalars without an axis, else vectors. Returns
/// their shape.
pub(crate) fn slice_ranges(
    ctx: &InferenceContext<'_>,
    input: usize,
    min: usize,
) -> Result<PartialShape> {
    let axis = if ctx.attrs.contains("axis") { ctx.attrs.int("axis")? } else { -1 };
    let rank = usize::from(axis != -1);
    let minima = shape_ops::with_rank(ctx.input(min), rank)?;
    let merged = shape_ops::merge(ctx.input(min + 1), &minima)?;
    if axis == -1 {
        return Ok(merged);
    }
    if axis < -1 {
        return Err(invalid!("axis should be at least -1, got {axis}"));
    }
    let input = shape_ops::with_rank_at_least(ctx.input(input), axis as usize + 1)?;
    let depth = shape_ops::merge_dims(merged.dim(0), input.dim(axis as usize))?;
    Ok(PartialShape::vector(depth))
}

//! The shape function of all optimisers.

use tfcore_base::Result;
use tfcore_framework::{InferenceContext, shape_ops};
use tfcore_tensor::{Dim, PartialShape};

use super::driver::{Part, parts};

/// Variable, slots and gradient agree, scalars are scalars; the output is the variable.
pub(crate) fn infer(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let parts = parts(ctx.op);
    let mut shape = PartialShape::unknown();
    for (index, part) in parts.iter().enumerate() {
        let input = ctx.input(index);
        match part {
            Part::Variable => {
                let known = ctx.input_handle(index).and_then(|data| data.first());
                let variable = match (ctx.num_outputs(), known) {
                    (0, Some(data)) => data.shape.clone(),
                    (0, None) => PartialShape::unknown(),
                    _ => input.clone(),
                };
                shape = shape_ops::merge(&shape, &variable)?;
            }
            Part::Scalar(_) | Part::Step => {
                shape_ops::with_rank(input, 0)?;
            }
            Part::Gradient => shape = with_gradient(ctx, &shape, index)?,
            Part::Indices => {}
        }
    }
    if ctx.num_outputs() > 0 {
        ctx.set_output(0, shape);
    }
    Ok(())
}

/// What the gradient at input `index` tells of the variable: all, or for rows named by indices all but their number.
fn with_gradient(
    ctx: &InferenceContext<'_>,
    shape: &PartialShape,
    index: usize,
) -> Result<PartialShape> {
    let grad = ctx.input(index);
    if !ctx.op.inputs.iter().any(|arg| arg.name == "indices") {
        return shape_ops::merge(shape, grad);
    }
    let indices = shape_ops::with_rank(ctx.input(index + 1), 1)?;
    if grad.rank().is_none() {
        return Ok(shape.clone());
    }
    let rows = shape_ops::with_rank_at_least(grad, 1)?;
    shape_ops::merge_dims(indices.dim(0), rows.dim(0))?;
    shape_ops::merge(shape, &shape_ops::replace_dim(&rows, 0, Dim::UNKNOWN)?)
}

//! Shape functions that many ops share.

use tfcore_base::Result;
use tfcore_tensor::PartialShape;

use crate::inference::InferenceContext;
use crate::shape_ops;

/// The first output has the shape of the first input, and what is known of its handle.
pub fn unchanged(ctx: &mut InferenceContext<'_>) -> Result<()> {
    ctx.set_output(0, ctx.input(0).clone());
    ctx.forward_handle(0, 0);
    Ok(())
}

/// The first output is a scalar.
pub fn scalar(ctx: &mut InferenceContext<'_>) -> Result<()> {
    ctx.set_output(0, PartialShape::scalar());
    Ok(())
}

/// There are no outputs.
pub fn no_outputs(_: &mut InferenceContext<'_>) -> Result<()> {
    Ok(())
}

/// Nothing is known of any output.
pub fn unknown(_: &mut InferenceContext<'_>) -> Result<()> {
    Ok(())
}

/// The first output is what the first two inputs broadcast to.
pub fn broadcast_binary(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let shape = shape_ops::broadcast(ctx.input(0), ctx.input(1))?;
    ctx.set_output(0, shape);
    Ok(())
}

/// The first output has the shape that inputs `a` and `b` agree on.
pub fn merged(a: usize, b: usize) -> impl Fn(&mut InferenceContext<'_>) -> Result<()> {
    move |ctx| {
        let shape = shape_ops::merge(ctx.input(a), ctx.input(b))?;
        ctx.set_output(0, shape);
        Ok(())
    }
}

/// The first output has the shape of the first input, which has rank `rank`.
pub fn unchanged_of_rank(rank: usize) -> impl Fn(&mut InferenceContext<'_>) -> Result<()> {
    move |ctx| {
        let shape = shape_ops::with_rank(ctx.input(0), rank)?;
        ctx.set_output(0, shape);
        Ok(())
    }
}

/// The first output has the shape of the first input, which has rank `rank` or more.
pub fn unchanged_of_rank_at_least(rank: usize) -> impl Fn(&mut InferenceContext<'_>) -> Result<()> {
    move |ctx| {
        let shape = shape_ops::with_rank_at_least(ctx.input(0), rank)?;
        ctx.set_output(0, shape);
        Ok(())
    }
}

/// The first output has the shape in attr `shape`.
pub fn explicit(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let shape = ctx.attrs.shape("shape")?.clone();
    ctx.set_output(0, shape);
    Ok(())
}

//! Shape functions of tensor arrays.
//!
//! The oldest ops say nothing of shapes. Handles of the newest say what shape the elements have, as handle
//! data, where it is known.

use tfcore_base::Result;
use tfcore_framework::{InferenceContext, ShapeAndType, shape_ops};
use tfcore_tensor::{Dim, PartialShape};

/// Input 0 is a handle: so the graph says, although resource handles are scalars.
fn require_handle(ctx: &InferenceContext<'_>) -> Result<()> {
    let handle = shape_ops::with_rank(ctx.input(0), 1)?;
    shape_ops::with_value(handle.dim(0), 2)?;
    Ok(())
}

fn require_scalars<const N: usize>(ctx: &InferenceContext<'_>, indices: [usize; N]) -> Result<()> {
    for index in indices {
        shape_ops::with_rank(ctx.input(index), 0)?;
    }
    Ok(())
}

/// What is known of the elements.
fn element<'a>(ctx: &InferenceContext<'a>) -> Option<&'a ShapeAndType> {
    ctx.input_handle(0)?.first()
}

/// `TensorArrayV2`: the output is a handle.
pub(crate) fn create_v2(ctx: &mut InferenceContext<'_>) -> Result<()> {
    require_scalars(ctx, [0])?;
    ctx.set_output(0, PartialShape::vector(2));
    Ok(())
}

pub(crate) fn create_v3(ctx: &mut InferenceContext<'_>) -> Result<()> {
    create_v2(ctx)?;
    ctx.set_output(1, PartialShape::scalar());
    let shape = ctx.attrs.shape("element_shape")?.clone();
    if shape.is_fully_known() || ctx.attrs.bool("identical_element_shapes")? {
        let dtype = ctx.attrs.dtype("dtype")?;
        ctx.set_output_handle(0, vec![ShapeAndType { shape, dtype }]);
    }
    Ok(())
}

pub(crate) fn gradient_v2(ctx: &mut InferenceContext<'_>) -> Result<()> {
    require_handle(ctx)?;
    ctx.set_output(0, PartialShape::vector(2));
    Ok(())
}

pub(crate) fn gradient_v3(ctx: &mut InferenceContext<'_>) -> Result<()> {
    gradient_v2(ctx)?;
    ctx.set_output(1, PartialShape::scalar());
    ctx.forward_handle(0, 0);
    Ok(())
}

/// The elements of the gradients have as many more dimensions as input 2 has elements.
pub(crate) fn gradient_with_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    gradient_v2(ctx)?;
    ctx.set_output(1, PartialShape::scalar());
    let Some(ShapeAndType { shape, dtype }) = element(ctx).cloned() else {
        return Ok(());
    };
    let prefix = ctx.input(2).dims().and_then(|dims| dims.first()?.value());
    let shape = match (shape.rank(), prefix.and_then(|rank| usize::try_from(rank).ok())) {
        (Some(_), Some(rank)) if rank <= tfcore_tensor::MAX_RANK => {
            shape_ops::concatenate(&PartialShape::of_rank(rank), &shape)
        }
        _ => PartialShape::unknown(),
    };
    ctx.set_output_handle(0, vec![ShapeAndType { shape, dtype }]);
    Ok(())
}

/// `TensorArrayWriteV2(handle, index, value, flow_in) -> flow_out`.
pub(crate) fn write_v2(ctx: &mut InferenceContext<'_>) -> Result<()> {
    require_handle(ctx)?;
    require_scalars(ctx, [1, 3])?;
    ctx.set_output(0, PartialShape::scalar());
    Ok(())
}

pub(crate) fn write_v3(ctx: &mut InferenceContext<'_>) -> Result<()> {
    write_v2(ctx)?;
    if let Some(known) = element(ctx) {
        shape_ops::merge(&known.shape, ctx.input(2))?;
    }
    Ok(())
}

/// `TensorArrayReadV2(handle, index, flow_in) -> value`.
pub(crate) fn read_v2(ctx: &mut InferenceContext<'_>) -> Result<()> {
    require_handle(ctx)?;
    require_scalars(ctx, [1, 2])
}

pub(crate) fn read_v3(ctx: &mut InferenceContext<'_>) -> Result<()> {
    read_v2(ctx)?;
    if let Some(known) = element(ctx) {
        ctx.set_output(0, known.shape.clone());
    }
    Ok(())
}

/// `TensorArrayGatherV2(handle, indices, flow_in) -> value`.
pub(crate) fn gather_v2(ctx: &mut InferenceContext<'_>) -> Result<()> {
    require_handle(ctx)?;
    shape_ops::with_rank(ctx.input(1), 1)?;
    require_scalars(ctx, [2])
}

pub(crate) fn gather_v3(ctx: &mut InferenceContext<'_>) -> Result<()> {
    gather_v2(ctx)?;
    let indices = shape_ops::with_rank(ctx.input(1), 1)?;
    let element = match element(ctx) {
        Some(known) => known.shape.clone(),
        None => ctx.attrs.shape("element_shape")?.clone(),
    };
    ctx.set_output(0, shape_ops::concatenate(&indices, &element));
    Ok(())
}

/// `TensorArrayScatterV2(handle, indices, value, flow_in) -> flow_out`.
pub(crate) fn scatter_v2(ctx: &mut InferenceContext<'_>) -> Result<()> {
    require_handle(ctx)?;
    shape_ops::with_rank(ctx.input(1), 1)?;
    require_scalars(ctx, [3])?;
    ctx.set_output(0, PartialShape::scalar());
    Ok(())
}

pub(crate) fn scatter_v3(ctx: &mut InferenceContext<'_>) -> Result<()> {
    scatter_v2(ctx)?;
    let indices = shape_ops::with_rank(ctx.input(1), 1)?;
    let (value, _) = shape_ops::merge_prefix(ctx.input(2), &indices)?;
    if let Some(known) = element(ctx) {
        shape_ops::merge(&known.shape, &shape_ops::subshape(&value, 1, None)?)?;
    }
    Ok(())
}

/// `TensorArrayConcatV2(handle, flow_in) -> value, lengths`.
pub(crate) fn concat(ctx: &mut InferenceContext<'_>) -> Result<()> {
    require_handle(ctx)?;
    require_scalars(ctx, [1])?;
    ctx.set_output(1, PartialShape::vector(Dim::fresh()));
    Ok(())
}

/// `TensorArraySplitV2(handle, value, lengths, flow_in) -> flow_out`.
pub(crate) fn split(ctx: &mut InferenceContext<'_>) -> Result<()> {
    require_handle(ctx)?;
    shape_ops::with_rank(ctx.input(2), 1)?;
    require_scalars(ctx, [3])?;
    ctx.set_output(0, PartialShape::scalar());
    Ok(())
}

/// `TensorArraySizeV2(handle, flow_in) -> size`.
pub(crate) fn size(ctx: &mut InferenceContext<'_>) -> Result<()> {
    require_handle(ctx)?;
    ctx.set_output(0, PartialShape::scalar());
    Ok(())
}

/// `TensorArrayCloseV2(handle)`.
pub(crate) fn close(ctx: &mut InferenceContext<'_>) -> Result<()> {
    require_handle(ctx)
}

//! The shape functions of tables.

use tfcore_base::{DType, Result, invalid, require};
use tfcore_framework::{InferenceContext, ShapeAndType, shape_ops};
use tfcore_tensor::{Dim, PartialShape};

/// Checks the handle at input 0: a scalar, or, of old, two strings.
pub(crate) fn handle(ctx: &InferenceContext<'_>) -> Result<()> {
    if is_resource(ctx) {
        shape_ops::with_rank(ctx.input(0), 0)?;
    } else {
        let shape = shape_ops::with_rank(ctx.input(0), 1)?;
        shape_ops::with_value(shape.dim(0), 2)?;
    }
    Ok(())
}

fn is_resource(ctx: &InferenceContext<'_>) -> bool {
    ctx.op.name.ends_with("V2")
}

/// The handle of a table of old.
pub(crate) fn ref_handle(ctx: &mut InferenceContext<'_>) -> Result<()> {
    ctx.set_output(0, PartialShape::vector(2));
    Ok(())
}

/// The handle of a table of which the shapes of keys and values are known.
pub(crate) fn described(
    ctx: &mut InferenceContext<'_>,
    key: PartialShape,
    value: PartialShape,
) -> Result<()> {
    ctx.set_output(0, PartialShape::scalar());
    let key = ShapeAndType { shape: key, dtype: ctx.attrs.dtype("key_dtype")? };
    let value = ShapeAndType { shape: value, dtype: ctx.attrs.dtype("value_dtype")? };
    ctx.set_output_handle(0, vec![key, value]);
    Ok(())
}

/// The shape of the values of keys, as far as the handle tells.
fn values_of(
    ctx: &InferenceContext<'_>,
    keys: &PartialShape,
    key_attr: &str,
    value_attr: &str,
) -> Result<PartialShape> {
    let Some([key, value]) = ctx.input_handle(0) else {
        return Ok(PartialShape::unknown());
    };
    let check = |known: DType, attr: &str| {
        let read = ctx.attrs.dtype(attr)?;
        require!(
            known == read,
            "Trying to read value with wrong dtype. Expected {known} got {read}"
        );
        Ok(())
    };
    check(key.dtype, key_attr)?;
    check(value.dtype, value_attr)?;
    let (Some(suffix), Some(dims)) = (key.shape.dims(), keys.dims()) else {
        return Ok(PartialShape::unknown());
    };
    let Some(outer) = dims.len().checked_sub(suffix.len()) else {
        return Err(invalid!("Expected keys to have suffix {} but saw shape: {keys}", key.shape));
    };
    let outer: PartialShape = dims[..outer].iter().copied().collect();
    Ok(shape_ops::concatenate(&outer, &value.shape))
}

pub(crate) fn find(ctx: &mut InferenceContext<'_>) -> Result<()> {
    handle(ctx)?;
    if is_resource(ctx) {
        let values = values_of(ctx, ctx.input(1), "Tin", "Tout")?;
        ctx.set_output(0, values);
    } else {
        shape_ops::with_rank_at_most(ctx.input(2), 1)?;
    }
    Ok(())
}

pub(crate) fn export(ctx: &mut InferenceContext<'_>) -> Result<()> {
    handle(ctx)?;
    let (keys, values) = if is_resource(ctx) {
        // The number of entries is not known, and with it nothing of the shapes.
        let keys = PartialShape::unknown();
        let values = values_of(ctx, &keys, "Tkeys", "Tvalues")?;
        (keys, values)
    } else {
        (PartialShape::vector(Dim::fresh()), PartialShape::unknown())
    };
    ctx.set_output(0, keys);
    ctx.set_output(1, values);
    Ok(())
}

pub(crate) fn insert(ctx: &mut InferenceContext<'_>) -> Result<()> {
    handle(ctx)
}

pub(crate) fn remove(ctx: &mut InferenceContext<'_>) -> Result<()> {
    handle(ctx)?;
    shape_ops::with_rank_at_least(ctx.input(1), 1)?;
    Ok(())
}

pub(crate) fn size(ctx: &mut InferenceContext<'_>) -> Result<()> {
    handle(ctx)?;
    ctx.set_output(0, PartialShape::scalar());
    Ok(())
}

pub(crate) fn fill(ctx: &mut InferenceContext<'_>) -> Result<()> {
    handle(ctx)?;
    let keys = shape_ops::with_rank(ctx.input(1), 1)?;
    shape_ops::merge(&keys, ctx.input(2))?;
    Ok(())
}

pub(crate) fn text_file(ctx: &mut InferenceContext<'_>) -> Result<()> {
    handle(ctx)?;
    shape_ops::with_rank(ctx.input(1), 0)?;
    Ok(())
}

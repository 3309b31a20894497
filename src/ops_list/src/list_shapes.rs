//! What shape functions know of lists: the dtype and the shape of the elements, as handle data.

use tfcore_base::{DType, Result, invalid, require};
use tfcore_framework::{InferenceContext, ShapeAndType, shape_ops};
use tfcore_tensor::{Dim, PartialShape};

/// What is known of the list at input `index`: the one entry of its handle data.
pub(crate) fn known_list<'a>(ctx: &InferenceContext<'a>, index: usize) -> Option<&'a ShapeAndType> {
    match ctx.input_handle(index) {
        Some([list]) => Some(list),
        _ => None,
    }
}

/// Refuses handle data that is not that of a list.
fn require_list(ctx: &InferenceContext<'_>, message: &str) -> Result<()> {
    let entries = ctx.input_handle(0).map_or(0, <[ShapeAndType]>::len);
    require!(entries <= 1, "{message}");
    Ok(())
}

/// Output 0 is one list of such elements.
pub(crate) fn set_list(ctx: &mut InferenceContext<'_>, shape: PartialShape) -> Result<()> {
    let dtype = ctx.attrs.dtype("element_dtype")?;
    ctx.set_output(0, PartialShape::scalar());
    ctx.set_output_handle(0, vec![ShapeAndType { shape, dtype }]);
    Ok(())
}

/// The output is a list whose elements have the shape that operand `index` gives.
pub(crate) fn list_of_operand(
    index: usize,
) -> impl Fn(&mut InferenceContext<'_>) -> Result<()> + Send + Sync {
    move |ctx| {
        let shape = ctx.operand_shape_or_unknown(index)?;
        set_list(ctx, shape)
    }
}

/// What is known of the elements of the list that is pushed to.
fn pushed_shape(ctx: &InferenceContext<'_>) -> Result<PartialShape> {
    require_list(ctx, "Trying to push to list with wrong variant data.")?;
    let dtype = ctx.attrs.dtype("element_dtype")?;
    match known_list(ctx, 0) {
        None => Ok(PartialShape::unknown()),
        Some(list) if list.dtype == dtype => Ok(list.shape.clone()),
        Some(list) => Err(invalid!(
            "Trying to push to list with wrong element dtype. List has type {} but trying to push element \
             with type {dtype}",
            list.dtype
        )),
    }
}

pub(crate) fn push_back(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let shape = pushed_shape(ctx)?;
    set_list(ctx, shape)
}

pub(crate) fn push_back_batch(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let lists = shape_ops::with_rank(ctx.input(0), 1)?;
    let tensor = shape_ops::with_rank_at_least(ctx.input(1), 1)?;
    let (_, lists) = shape_ops::merge_prefix(&tensor, &lists)?;
    let shape = pushed_shape(ctx)?;
    set_list(ctx, shape)?;
    ctx.set_output(0, lists);
    Ok(())
}

pub(crate) fn pop_back(ctx: &mut InferenceContext<'_>) -> Result<()> {
    require_list(ctx, "Trying to read from list with invalid variant data.")?;
    let dtype = ctx.attrs.dtype("element_dtype")?;
    ctx.set_output(0, PartialShape::scalar());
    if let Some(list) = known_list(ctx, 0) {
        require!(
            list.dtype == dtype,
            "Trying to read from list with wrong element dtype. List has type {} but trying to push element \
             with type {dtype}",
            list.dtype
        );
        ctx.forward_handle(0, 0);
        ctx.set_output(1, list.shape.clone());
    }
    Ok(())
}

/// The elements' shape as the list tells it, in ops that read whole lists.
fn read_shape(ctx: &InferenceContext<'_>) -> Result<PartialShape> {
    require_list(ctx, "Trying to read from list with wrong variant data.")?;
    let dtype = ctx.attrs.dtype("element_dtype")?;
    match known_list(ctx, 0) {
        None => Ok(PartialShape::unknown()),
        Some(list) if list.dtype == dtype => Ok(list.shape.clone()),
        Some(list) => Err(invalid!(
            "Trying to read from list with wrong element dtype. List has type {} but expected type {dtype}",
            list.dtype
        )),
    }
}

pub(crate) fn stack(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let known = read_shape(ctx)?;
    let element = shape_ops::merge(&known, &ctx.operand_shape_or_unknown(1)?)?;
    let count = match ctx.attrs.int("num_elements")? {
        -1 => Dim::fresh(),
        count => Dim::new(count),
    };
    ctx.set_output(0, shape_ops::concatenate(&PartialShape::vector(count), &element));
    Ok(())
}

/// The elements, which have the shape in attr `element_shape`, one behind the other.
pub(crate) fn concat(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let element = ctx.attrs.shape("element_shape")?.clone();
    concatenated(ctx, &element)
}

/// The elements, which have the shape that operand 1 gives, one behind the other.
pub(crate) fn concat_v2(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let element = ctx.operand_shape_or_unknown(1)?;
    concatenated(ctx, &element)
}

fn concatenated(ctx: &mut InferenceContext<'_>, element: &PartialShape) -> Result<()> {
    let element = shape_ops::merge(element, &read_shape(ctx)?)?;
    if element.rank().is_some() {
        let rest = shape_ops::subshape(&element, 1, None)?;
        ctx.set_output(0, shape_ops::concatenate(&PartialShape::of_rank(1), &rest));
    }
    ctx.set_output(1, PartialShape::of_rank(1));
    Ok(())
}

pub(crate) fn split(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let tensor = shape_ops::with_rank_at_least(ctx.input(0), 1)?;
    shape_ops::with_rank(ctx.input(2), 1)?;
    let rest = shape_ops::subshape(&tensor, 1, None)?;
    let parts = shape_ops::concatenate(&PartialShape::of_rank(1), &rest);
    let element = ctx.operand_shape_or_unknown(1)?;
    shape_ops::merge(&parts, &element)?;
    set_list(ctx, element)
}

pub(crate) fn from_tensor(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let rows = shape_ops::subshape(ctx.input(0), 1, None)?;
    let element = ctx.operand_shape_or_unknown(1)?;
    shape_ops::merge(&rows, &element)?;
    set_list(ctx, element)
}

pub(crate) fn element_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    if let Some(rank) = known_list(ctx, 0).and_then(|list| list.shape.rank()) {
        ctx.set_output(0, PartialShape::vector(rank as i64));
    }
    Ok(())
}

/// The elements' shape as the list tells it, in ops that read single elements.
fn item_shape(ctx: &InferenceContext<'_>) -> Result<PartialShape> {
    let dtype = ctx.attrs.dtype("element_dtype")?;
    match known_list(ctx, 0) {
        None => Ok(PartialShape::unknown()),
        Some(list) => {
            require_element_dtype(list, dtype)?;
            Ok(list.shape.clone())
        }
    }
}

fn require_element_dtype(list: &ShapeAndType, dtype: DType) -> Result<()> {
    require!(
        list.dtype == dtype,
        "Expected list with element dtype {dtype} but got list with element dtype {}",
        list.dtype
    );
    Ok(())
}

pub(crate) fn get_item(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let known = item_shape(ctx)?;
    let shape = shape_ops::merge(&known, &ctx.operand_shape_or_unknown(2)?)?;
    ctx.set_output(0, shape);
    Ok(())
}

pub(crate) fn gather(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let known = item_shape(ctx)?;
    let element = shape_ops::merge(&known, &ctx.operand_shape_or_unknown(2)?)?;
    ctx.set_output(0, shape_ops::concatenate(ctx.input(1), &element));
    Ok(())
}

pub(crate) fn resize(ctx: &mut InferenceContext<'_>) -> Result<()> {
    shape_ops::with_rank(ctx.input(1), 0)?;
    ctx.set_output(0, PartialShape::scalar());
    if known_list(ctx, 0).is_some() {
        ctx.forward_handle(0, 0);
    }
    Ok(())
}

pub(crate) fn set_item(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let Some(list) = known_list(ctx, 0) else {
        return set_list(ctx, PartialShape::unknown());
    };
    shape_ops::merge(ctx.input(2), &list.shape)?;
    ctx.set_output(0, PartialShape::scalar());
    ctx.forward_handle(0, 0);
    Ok(())
}

pub(crate) fn scatter_into(ctx: &mut InferenceContext<'_>) -> Result<()> {
    shape_ops::with_rank_at_least(ctx.input(1), 1)?;
    shape_ops::with_rank(ctx.input(2), 1)?;
    let shape = item_shape(ctx)?;
    set_list(ctx, shape)
}

pub(crate) fn concat_lists(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let lists = shape_ops::merge(ctx.input(0), ctx.input(1))?;
    let dtype = ctx.attrs.dtype("element_dtype")?;
    let first = |index: usize| ctx.input_handle(index).and_then(|data| data.first());
    let shape = match (first(0).or(first(1)), first(1).or(first(0))) {
        (Some(a), Some(b)) => {
            require!(a.dtype == dtype, "input_a.type != element_dtype: {} vs. {dtype}", a.dtype);
            require!(b.dtype == dtype, "input_b.type != element_dtype: {} vs. {dtype}", b.dtype);
            shape_ops::merge(&a.shape, &b.shape)?
        }
        _ => PartialShape::unknown(),
    };
    set_list(ctx, shape)?;
    ctx.set_output(0, lists);
    Ok(())
}

//! Gradients of tensor lists: a list's derivative is the list of the derivatives by its elements.

use tfcore_base::{DType, Result};
use tfcore_framework::{AttrValue, GradientContext, Gradients, Output, Registry};

pub(crate) fn register(r: &mut Registry) {
    r.ops(
        ["EmptyTensorList", "TensorListElementShape", "TensorListLength", "TensorListReserve"],
        |op| {
            op.no_gradient();
        },
    );
    // What was put behind the others is taken off, and the other way round.
    r.op("TensorListPushBack").gradient(|c| {
        let shape = c.shape(c.input(1));
        let popped = c.node("TensorListPopBack", &[c.grad(0), shape], &[element_type(c)?]);
        Ok(vec![Some(popped), Some(popped.at(1))])
    });
    r.op("TensorListPopBack").gradient(|c| {
        let list = c.node("TensorListPushBack", &[c.grad(0), c.grad(1)], &[element_type(c)?]);
        Ok(vec![Some(list), None])
    });
    r.op("TensorListStack").gradient(|c| {
        let shape = element_shape(c, c.input(0));
        let list = c.node("TensorListFromTensor", &[c.grad(0), shape], &[element_type(c)?]);
        Ok(vec![Some(list), None])
    });
    r.op("TensorListFromTensor").gradient(|c| {
        let shape = element_shape(c, c.output(0));
        let tensor = c.node("TensorListStack", &[c.grad(0), shape], &[element_type(c)?]);
        Ok(vec![Some(tensor), None])
    });
    r.op("TensorListGetItem").gradient(get_item);
    r.op("TensorListSetItem").gradient(set_item);
}

/// All other elements have no part in it.
fn get_item(c: &GradientContext<'_>) -> Result<Gradients> {
    let len = c.apply("TensorListLength", [c.input(0)]);
    let shape = element_shape(c, c.input(0));
    let unset = c.node("TensorListReserve", &[shape, len], &[element_type(c)?]);
    let list = [unset, c.input(1), c.grad(0)];
    let list = c.node("TensorListSetItem", &list, &[element_type(c)?]);
    Ok(vec![Some(list), None, None])
}

/// The element that was there has no part in it.
fn set_item(c: &GradientContext<'_>) -> Result<Gradients> {
    let (dlist, index, item) = (c.grad(0), c.input(1), c.input(2));
    let list =
        c.node("TensorListSetItem", &[dlist, index, c.zeros_like(item)], &[element_type(c)?]);
    let shape = c.shape(item);
    let item = c.node("TensorListGetItem", &[dlist, index, shape], &[element_type(c)?]);
    Ok(vec![Some(list), None, Some(item)])
}

fn element_type(c: &GradientContext<'_>) -> Result<(&'static str, AttrValue)> {
    Ok(("element_dtype", AttrValue::Type(c.attrs().dtype("element_dtype")?)))
}

fn element_shape(c: &GradientContext<'_>, list: Output) -> Output {
    let int32 = AttrValue::Type(DType::INT32);
    c.node("TensorListElementShape", &[list], &[("shape_type", int32)])
}

//! Gradients of choices between values.

use tfcore_base::Result;
use tfcore_framework::{GradientContext, Gradients, Output, Registry};

pub(crate) fn register(r: &mut Registry) {
    r.op("Select").gradient(|c| {
        let zeros = c.zeros_like(c.grad(0));
        let dx = c.choose(c.input(0), c.grad(0), zeros);
        let dy = c.choose(c.input(0), zeros, c.grad(0));
        Ok(vec![None, Some(dx), Some(dy)])
    });
    r.op("SelectV2").gradient(|c| {
        let condition = c.input(0);
        let zeros = c.zeros_like(c.grad(0));
        let dx = c.choose_broadcast(condition, c.grad(0), zeros);
        let x_shape = c.shape(c.input(1));
        let result_shape = c.shape(c.output(0));
        let dx = sum_from(c, dx, result_shape, x_shape);
        let dy = c.choose_broadcast(condition, zeros, c.grad(0));
        let dy = sum_from(c, dy, result_shape, c.shape(c.input(2)));
        Ok(vec![None, Some(dx), Some(dy)])
    });
    r.op("ClipByValue").gradient(clip);
}

/// `grad`, of the result's shape, summed to an operand's.
fn sum_from(c: &GradientContext<'_>, grad: Output, result_shape: Output, shape: Output) -> Output {
    let axes = c.stretched_axes(shape, result_shape);
    c.reshape(c.sum(grad, axes, true), shape)
}

/// The gradient goes to the value or to the bound that replaced it.
fn clip(c: &GradientContext<'_>) -> Result<Gradients> {
    let (x, min, max) = (c.input(0), c.input(1), c.input(2));
    let x_shape = c.shape(x);
    let min_shape = c.shape(min);
    let max_shape = c.shape(max);
    let below = c.less(x, min);
    let above = c.greater(x, max);
    let min_axes = c.stretched_axes(x_shape, min_shape);
    let max_axes = c.stretched_axes(x_shape, max_shape);
    let zeros = c.zeros_like(c.grad(0));
    let outside = c.apply("LogicalOr", [below, above]);
    let dx = c.choose(outside, zeros, c.grad(0));
    let dmin = c.choose(below, c.grad(0), zeros);
    let dmin = c.sum_to_shape(dmin, min_axes.at(1), min_shape);
    let dmax = c.choose(above, c.grad(0), zeros);
    let dmax = c.sum_to_shape(dmax, max_axes.at(1), max_shape);
    Ok(vec![Some(dx), Some(dmin), Some(dmax)])
}

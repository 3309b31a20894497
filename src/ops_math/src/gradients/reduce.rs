//! Gradients of reductions and scans.

use tfcore_base::{DType, Result};
use tfcore_framework::{AttrValue, GradientContext, Gradients, Operand, Output, Registry};
use tfcore_tensor::Tensor;

pub(crate) fn register(r: &mut Registry) {
    r.op("Sum").gradient(|c| Ok(vec![Some(spread(c, axes(c))), None]));
    r.op("Mean").gradient(mean);
    r.op("Prod").gradient(product);
    r.ops(["Max", "Min"], |op| {
        op.gradient(extremum);
    });
    r.op("Cumsum").gradient(|c| {
        let attrs = [
            ("exclusive", AttrValue::Bool(c.attrs().bool("exclusive")?)),
            ("reverse", AttrValue::Bool(!c.attrs().bool("reverse")?)),
        ];
        Ok(vec![Some(c.node("Cumsum", &[c.grad(0), c.input(1)], &attrs)), None])
    });
}

/// The axes of the reduction. Shapes are computed in 32 bits, for which the reference fails if the axes have 64.
fn axes(c: &GradientContext<'_>) -> Output {
    let axes = c.input(1);
    if c.dtype(axes) == DType::INT32 { axes } else { c.cast(axes, DType::INT32) }
}

fn int(value: i32) -> Tensor {
    Tensor::scalar(value)
}

/// The shape of a reduction's result if it had kept the axes as 1.
fn kept_shape(c: &GradientContext<'_>, input_shape: Output, axes: Output) -> Output {
    let zero = c.constant(int(0));
    let one = c.constant(int(1));
    let rank = c.size(input_shape);
    // Negative axes count from the end.
    let axes = c.apply("Mod", [c.add(axes, rank), rank]);
    let all_axes = c.range(zero, rank, one);
    let ones = c.ones_like(axes);
    let indices = [all_axes, axes];
    let values = [input_shape, ones];
    c.node_of("DynamicStitch", &[Operand::List(&indices), Operand::List(&values)], &[])
}

/// `a / b`, where a `b` of 0 counts as 1.
fn safe_div(c: &GradientContext<'_>, a: Output, b: Output) -> Output {
    let one = c.constant(int(1));
    c.div(a, c.maximum(b, one))
}

/// The gradient repeated along the axes that were summed over.
fn spread(c: &GradientContext<'_>, axes: Output) -> Output {
    let input_shape = c.shape(c.input(0));
    let kept = kept_shape(c, input_shape, axes);
    let times = safe_div(c, input_shape, kept);
    c.tile(c.reshape(c.grad(0), kept), times)
}

/// The gradient of the sum, over how many elements went into each result.
fn mean(c: &GradientContext<'_>) -> Result<Gradients> {
    let sum = spread(c, axes(c));
    let input_shape = c.shape(c.input(0));
    let output_shape = c.shape(c.output(0));
    let first = c.constant(int(0));
    let inputs = c.prod(input_shape, first);
    let factor = safe_div(c, inputs, c.prod(output_shape, first));
    Ok(vec![Some(c.div(sum, c.cast(factor, c.dtype(sum)))), None])
}

/// For each element the product of all others: what stands before it times what stands behind it, with the axes that
/// are multiplied along brought to the front. Zeros are no harm.
fn product(c: &GradientContext<'_>) -> Result<Gradients> {
    let zero = c.constant(int(0));
    let one = c.constant(int(1));
    let x = c.input(0);
    let given = axes(c);
    let shape = c.shape(x);
    let axes = c.reshape(given, c.vector(&[-1i32]));
    let grad = {
        let kept = kept_shape(c, shape, axes);
        let times = safe_div(c, shape, kept);
        c.tile(c.reshape(c.grad(0), kept), times)
    };
    // Small integers, which need no accelerator.
    let host = &c.on("/cpu:0");
    let rank = host.rank(x);
    let axes = host.apply("Mod", [host.add(axes, rank), rank]);
    let axes = host.cast(axes, DType::INT32);
    let all_axes = host.range(zero, rank, one);
    let others = host.node("ListDiff", &[all_axes, axes], &[]);
    let order = host.concat(&[axes, others], host.literal(int(0)));
    let along = c.apply("Gather", [shape, axes]);
    let along = host.prod(along, host.literal(int(0)));
    let across = c.apply("Gather", [shape, others]);
    let across = host.prod(across, host.literal(int(0)));
    let moved = c.transpose(x, order);
    let moved_shape = c.shape(moved);
    let matrix = c.reshape(moved, c.pack(&[along, across], 0));
    let scan = |reverse| {
        let attrs = [("exclusive", AttrValue::Bool(true)), ("reverse", AttrValue::Bool(reverse))];
        c.node("Cumprod", &[matrix, zero], &attrs)
    };
    let before = scan(false);
    let rest = c.reshape(c.mul(before, scan(true)), moved_shape);
    let back = c.transpose(rest, c.invert_permutation(order));
    Ok(vec![Some(c.reshape(c.mul(grad, back), shape)), None])
}

/// The gradient goes to the elements that won, in equal parts.
fn extremum(c: &GradientContext<'_>) -> Result<Gradients> {
    let x = c.input(0);
    let axes = axes(c);
    let kept = kept_shape(c, c.shape(x), axes);
    let best = c.reshape(c.output(0), kept);
    let grad = c.reshape(c.grad(0), kept);
    let winners = c.cast(c.equal(best, x), c.dtype(c.grad(0)));
    let count = c.reshape(c.sum(winners, axes, false), kept);
    Ok(vec![Some(c.mul(c.div(winners, count), grad)), None])
}

//! Gradients of ops that put tensors together or take them apart.

use tfcore_base::{DType, Result};
use tfcore_framework::{AttrValue, GradientContext, Gradients, Operand, Output, Registry};
use tfcore_tensor::Tensor;

pub(crate) fn register(r: &mut Registry) {
    r.op("ConcatV2").gradient(concat);
    r.op("Split").gradient(|c| Ok(vec![None, Some(join(c, c.input(0)))]));
    r.op("SplitV").gradient(|c| Ok(vec![Some(join(c, c.input(2))), None, None]));
    r.op("Pack").gradient(|c| {
        let count = c.inputs().len();
        let attrs = [
            ("num", AttrValue::Int(count as i64)),
            ("axis", AttrValue::Int(c.attrs().int("axis")?)),
        ];
        let parts = c.node("Unpack", &[c.grad(0)], &attrs);
        Ok((0..count).map(|index| Some(parts.at(index as u32))).collect())
    });
    r.op("Unpack").gradient(|c| Ok(vec![Some(c.pack(c.grads(), c.attrs().int("axis")?))]));
    r.op("DynamicPartition").gradient(partition);
    r.ops(["DynamicStitch", "ParallelDynamicStitch"], |op| {
        op.gradient(|c| {
            let count = c.inputs().len() / 2;
            let rows = (0..count).map(|index| Some(c.gather(c.grad(0), c.input(index))));
            Ok(std::iter::repeat_n(None, count).chain(rows).collect())
        });
    });
}

/// Each operand's part of the gradient.
fn concat(c: &GradientContext<'_>) -> Result<Gradients> {
    let count = c.inputs().len() - 1;
    let axis = c.input(count);
    // Offsets are computed in 32 bits; the reference crashes if the axis has 64.
    let axis = if c.dtype(axis) == DType::INT32 { axis } else { c.cast(axis, DType::INT32) };
    let values = &c.inputs()[..count];
    let shapes = c.node_of("ShapeN", &[Operand::List(values)], &[]);
    let shapes: Vec<Output> = (0..count).map(|index| shapes.at(index as u32)).collect();
    let operands = [Operand::One(axis), Operand::List(&shapes)];
    let offsets = c.node_of("ConcatOffset", &operands, &[]);
    let parts = shapes
        .iter()
        .enumerate()
        .map(|(index, &shape)| Some(c.slice(c.grad(0), offsets.at(index as u32), shape)));
    Ok(parts.chain([None]).collect())
}

/// The gradients by the parts, one behind the other.
fn join(c: &GradientContext<'_>, axis: Output) -> Output {
    match c.grads() {
        // Nothing to concatenate, which the reference fails for.
        [one] => c.identity(*one),
        many => c.concat(many, axis),
    }
}

/// Positions are partitioned like the elements were, and tell where each part's gradient goes.
fn partition(c: &GradientContext<'_>) -> Result<Gradients> {
    let (data, partitions) = (c.input(0), c.input(1));
    let shape = c.shape(partitions);
    let zero = c.constant(Tensor::scalar(0i32));
    let one = c.constant(Tensor::scalar(1i32));
    let count = c.prod(shape, zero);
    let positions = c.reshape(c.range(zero, count, one), shape);
    let attrs = [("num_partitions", AttrValue::Int(c.attrs().int("num_partitions")?))];
    let parts = c.node("DynamicPartition", &[positions, partitions], &attrs);
    let parts: Vec<Output> = (0..c.num_outputs()).map(|index| parts.at(index as u32)).collect();
    let operands = [Operand::List(&parts), Operand::List(c.grads())];
    let rows = c.node_of("DynamicStitch", &operands, &[]);
    Ok(vec![Some(c.reshape(rows, c.shape(data))), None])
}

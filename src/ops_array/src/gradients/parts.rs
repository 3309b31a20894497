//! Gradients of slices and paddings.

use tfcore_base::Result;
use tfcore_framework::{AttrValue, GradientContext, Gradients, Registry};
use tfcore_tensor::Tensor;

use super::{by_first, widened};

pub(crate) fn register(r: &mut Registry) {
    r.op("Slice").gradient(slice);
    r.op("StridedSlice").gradient(strided_slice);
    // No gradient by the value that PadV2 pads with, as in the reference.
    r.ops(["Pad", "PadV2"], |op| {
        op.gradient(pad);
    });
}

/// The gradient, with zeros where the input was left out.
fn slice(c: &GradientContext<'_>) -> Result<Gradients> {
    let (x, begin) = (c.input(0), c.input(1));
    // The reference has shapes of 32 bits only, for which it fails if `begin` has 64.
    let dtype = c.dtype(begin);
    let rank = c.rank(x);
    let size = c.shape_as(c.output(0), dtype);
    let column = c.pack(&[rank, c.int(1)], 0);
    let before = c.reshape(begin, column);
    let after = {
        let shape = c.shape_as(x, dtype);
        let rest = c.sub(shape, size);
        c.reshape(c.sub(rest, begin), column)
    };
    let axis = c.constant(Tensor::scalar(1i32));
    let paddings = c.concat(&[before, after], axis);
    by_first(c, c.apply("Pad", [c.grad(0), paddings]))
}

fn strided_slice(c: &GradientContext<'_>) -> Result<Gradients> {
    let [begin, end, strides] = [1, 2, 3].map(|index| widened(c, c.input(index)));
    // The reference has shapes of 32 bits only, for which it fails if `begin` has 64.
    let shape = c.shape_as(c.input(0), c.dtype(begin));
    let names = ["begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"];
    let mut masks = Vec::with_capacity(names.len());
    for name in names {
        masks.push((name, AttrValue::Int(c.attrs().int(name)?)));
    }
    let inputs = [shape, begin, end, strides, c.grad(0)];
    by_first(c, c.node("StridedSliceGrad", &inputs, &masks))
}

/// The part of the gradient that is not about padding.
fn pad(c: &GradientContext<'_>) -> Result<Gradients> {
    let (x, paddings) = (c.input(0), c.input(1));
    let rank = c.rank(x);
    let column = c.pack(&[rank, c.int(1)], 0);
    let corner = c.vector(&[0i32, 0]);
    let before = c.slice(paddings, corner, column);
    let begin = c.reshape(before, c.vector(&[-1i32]));
    // The reference has shapes of 32 bits only, for which it fails if the paddings have 64.
    let shape = c.shape_as(x, c.dtype(paddings));
    by_first(c, c.slice(c.grad(0), begin, shape))
}

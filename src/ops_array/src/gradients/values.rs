//! Gradients of ops that hand elements on or fill tensors with them, and of those that compute shapes and positions.

use tfcore_base::Result;
use tfcore_framework::{AttrValue, GradientContext, Gradients, Registry};
use tfcore_tensor::Tensor;

use super::by_first;

pub(crate) fn register(r: &mut Registry) {
    r.op("Identity").gradient(|c| Ok(vec![Some(c.identity(c.grad(0)))]));
    // Rounding counts as the identity.
    r.op("QuantizeAndDequantizeV3").gradient(|c| by_first(c, c.identity(c.grad(0))));
    r.op("QuantizeAndDequantizeV4").gradient(quantize_and_dequantize);
    r.op("BroadcastTo").gradient(broadcast);
    r.op("Fill").gradient(fill);
    r.op("Tile").gradient(tile);
    r.op("Diag").gradient(|c| Ok(vec![Some(c.apply("DiagPart", [c.grad(0)]))]));
    r.op("DiagPart").gradient(|c| Ok(vec![Some(c.apply("Diag", [c.grad(0)]))]));
    r.op("MatrixDiag").gradient(|c| Ok(vec![Some(c.apply("MatrixDiagPart", [c.grad(0)]))]));
    r.op("MatrixBandPart")
        .gradient(|c| by_first(c, c.apply("MatrixBandPart", [c.grad(0), c.input(1), c.input(2)])));
    for name in [
        "BroadcastGradientArgs",
        "ConcatOffset",
        "EditDistance",
        "GetSessionHandle",
        "GetSessionHandleV2",
        "GetSessionTensor",
        "InvertPermutation",
        "OneHot",
        "Rank",
        "Shape",
        "ShapeN",
        "Size",
        "StopGradient",
        "ZerosLike",
    ] {
        r.op(name).no_gradient();
    }
}

/// The gradient goes to the values in range and, for those outside, to the bounds.
fn quantize_and_dequantize(c: &GradientContext<'_>) -> Result<Gradients> {
    // The reference hands over a wrong argument, which fails.
    let inputs = [c.grad(0), c.input(0), c.input(1), c.input(2)];
    let axis = AttrValue::Int(c.attrs().int("axis")?);
    let grads = c.node("QuantizeAndDequantizeV4Grad", &inputs, &[("axis", axis)]);
    Ok((0..3).map(|index| Some(grads.at(index))).collect())
}

fn broadcast(c: &GradientContext<'_>) -> Result<Gradients> {
    // The reference computes in 32 bits, for which it fails if the operand has 64.
    let shape = c.shape_as(c.input(0), c.dtype(c.input(1)));
    let axes = c.stretched_axes(shape, c.input(1));
    by_first(c, c.sum_to_shape(c.grad(0), axes, shape))
}

/// The gradient by the value is the sum of all.
fn fill(c: &GradientContext<'_>) -> Result<Gradients> {
    let first = c.constant(Tensor::scalar(0i32));
    let rank = c.rank(c.grad(0));
    let step = c.constant(Tensor::scalar(1i32));
    let axes = c.range(first, rank, step);
    Ok(vec![None, Some(c.sum(c.grad(0), axes, false))])
}

/// Each axis of the result is split in two, the repetitions and the input's own, and the repetitions are summed.
fn tile(c: &GradientContext<'_>) -> Result<Gradients> {
    let times = c.input(1);
    let shape = c.shape_as(c.input(0), c.dtype(times));
    let pairs = c.pack(&[times, shape], 0);
    let order = {
        let rank = c.rank(pairs);
        let last = c.sub(rank, c.int(1));
        c.range(last, c.int(-1), c.int(-1))
    };
    let pairs = c.transpose(pairs, order);
    let split_shape = c.reshape(pairs, c.vector(&[-1i32]));
    let axes = {
        let first = c.constant(Tensor::scalar(0i32));
        let rank = c.size(split_shape);
        c.range(first, rank, c.int(2))
    };
    let split = c.reshape(c.grad(0), split_shape);
    by_first(c, c.sum(split, axes, false))
}

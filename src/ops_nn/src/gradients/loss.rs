//! Gradients of losses.

use tfcore_base::{DType, Result};
use tfcore_framework::{AttrValue, GradientContext, Gradients, Output, Registry};
use tfcore_tensor::Tensor;

pub(crate) fn register(r: &mut Registry) {
    r.op("L2Loss").gradient(|c| Ok(vec![Some(c.mul(c.input(0), c.grad(0)))]));
    r.op("SoftmaxCrossEntropyWithLogits").gradient(softmax_cross_entropy);
}

/// With `p = softmax(logits)`, output 0 is `-Σ labels · log p` in each row, and output 1 is `p - labels`, the derivative of
/// output 0, which second derivatives come by.
fn softmax_cross_entropy(c: &GradientContext<'_>) -> Result<Gradients> {
    let (logits, labels) = (c.input(0), c.input(1));
    let (by_loss, by_slope) = (c.grad(0), c.grad(1));
    let mut dx = times_rows(c, by_loss, c.output(1));
    let has_slope = !c.is_made_by(by_slope, "ZerosLike");
    if has_slope {
        let p = c.apply("Softmax", [logits]);
        // `Σ dslope · p` in each row, as a product of matrices.
        let row = expand(c, by_slope, 1);
        let column = expand(c, p, 2);
        let product = c.apply("BatchMatMul", [row, column]);
        let sum = c.node("Squeeze", &[product], &[("squeeze_dims", AttrValue::ints([1]))]);
        dx = c.add(dx, c.mul(c.sub(by_slope, sum), p));
    }
    let log_p = c.apply("LogSoftmax", [logits]);
    // The reference has a constant of type float, which suits that type only.
    let minus_one = match c.dtype(logits) {
        DType::FLOAT => c.literal(Tensor::scalar(-1.0f32)),
        other => c.real(-1.0, other),
    };
    let by_labels = c.mul(log_p, minus_one);
    let mut dlabels = times_rows(c, by_loss, by_labels);
    if has_slope {
        // Left out by the reference.
        dlabels = c.sub(dlabels, by_slope);
    }
    // The reference forgets that logits and labels may be stretched to each other.
    let shapes = [c.static_shape(logits), c.static_shape(labels)];
    match shapes.each_ref().map(|shape| shape.to_shape()) {
        [Some(of_logits), Some(of_labels)] if of_logits != of_labels => {
            c.sum_to_operands(dx, dlabels)
        }
        _ => Ok(vec![Some(dx), Some(dlabels)]),
    }
}

/// Each row of `matrix` times an element of `vector`.
fn times_rows(c: &GradientContext<'_>, vector: Output, matrix: Output) -> Output {
    c.mul(expand(c, vector, -1), matrix)
}

fn expand(c: &GradientContext<'_>, x: Output, axis: i32) -> Output {
    c.apply("ExpandDims", [x, c.literal(Tensor::scalar(axis))])
}

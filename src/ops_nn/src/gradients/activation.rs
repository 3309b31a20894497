//! Gradients of activations, biases and what normalises rows.

use tfcore_base::Result;
use tfcore_framework::{GradientContext, Gradients, Registry};
use tfcore_tensor::Tensor;

pub(crate) fn register(r: &mut Registry) {
    r.op("Relu").gradient(|c| of_features(c, "ReluGrad"));
    r.op("Relu6").gradient(|c| of_features(c, "Relu6Grad"));
    r.op("Softplus").gradient(|c| of_features(c, "SoftplusGrad"));
    r.op("Softsign").gradient(|c| of_features(c, "SoftsignGrad"));
    r.op("Elu").gradient(|c| of_result(c, "EluGrad"));
    r.op("Selu").gradient(|c| of_result(c, "SeluGrad"));
    r.op("LeakyRelu").gradient(|c| {
        let alpha = c.attrs_named(&["alpha"])?;
        Ok(vec![Some(c.node("LeakyReluGrad", &[c.grad(0), c.input(0)], &alpha))])
    });
    // Linear in the gradients; the features only say which slope applies.
    r.op("LeakyReluGrad").gradient(|c| {
        let alpha = c.attrs_named(&["alpha"])?;
        Ok(vec![Some(c.node("LeakyReluGrad", &[c.grad(0), c.input(1)], &alpha)), None])
    });
    r.op("BiasAdd").gradient(|c| {
        let format = c.attrs_named(&["data_format"])?;
        let bias = c.node("BiasAddGrad", &[c.grad(0)], &format);
        Ok(vec![Some(c.identity(c.grad(0))), Some(bias)])
    });
    r.op("Softmax").gradient(softmax);
    r.op("LogSoftmax").gradient(log_softmax);
}

/// An op made for this gradient, of the gradient by the result and the input.
fn of_features(c: &GradientContext<'_>, op: &str) -> Result<Gradients> {
    Ok(vec![Some(c.apply(op, [c.grad(0), c.input(0)]))])
}

/// An op made for this gradient, of the gradient by the result and the result.
fn of_result(c: &GradientContext<'_>, op: &str) -> Result<Gradients> {
    Ok(vec![Some(c.apply(op, [c.grad(0), c.output(0)]))])
}

/// `dx = (dy - Σ dy · y) · y`.
fn softmax(c: &GradientContext<'_>) -> Result<Gradients> {
    let (dy, y) = (c.grad(0), c.output(0));
    let product = c.mul(dy, y);
    let sum = c.sum(product, c.literal(Tensor::scalar(-1i32)), true);
    Ok(vec![Some(c.mul(c.sub(dy, sum), y))])
}

/// `dx = dy - Σ dy · e^y`.
fn log_softmax(c: &GradientContext<'_>) -> Result<Gradients> {
    let (dy, y) = (c.grad(0), c.output(0));
    let softmax = c.exp(y);
    // The reference sums over axis 1 whatever the rank is, which is the last one of a matrix only.
    let is_matrix = c.static_shape(c.input(0)).rank() == Some(2);
    let sum = c.sum(dy, c.vector(&[if is_matrix { 1i32 } else { -1 }]), true);
    Ok(vec![Some(c.sub(dy, c.mul(sum, softmax)))])
}

//! Gradients of the ops of the family nn.

use tfcore_framework::AttrValue;

use super::harness::{Case, case};

/// Gradients that no kernel can check yet. The list only shrinks.
pub(crate) const UNTESTED: &[&str] = &[];

pub(crate) fn cases() -> Vec<Case> {
    activations()
}

fn activations() -> Vec<Case> {
    // Points on both sides of the corners at 0 and 6.
    let x = [-2.5, -0.4, 0.3, 5.5, 6.5, 1.2];
    let ops = [
        "Elu",
        "L2Loss",
        "LeakyRelu",
        "LogSoftmax",
        "Relu",
        "Relu6",
        "Selu",
        "Softmax",
        "Softplus",
        "Softsign",
    ];
    let mut cases: Vec<Case> = ops.into_iter().map(|op| case(op).x(&[2, 3], &x)).collect();
    cases.push(case("LeakyRelu").x(&[6], &x).attr("alpha", AttrValue::Float(0.5)));
    for op in ["Softmax", "LogSoftmax"] {
        cases.push(case(op).x(&[6], &x));
        cases.push(case(op).x(&[1, 2, 3], &x));
    }
    cases.push(case("LeakyReluGrad").x(&[6], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).fixed(&[6], &x));
    cases.push(case("BiasAdd").x(&[2, 3], &x).x(&[3], &[0.1, 0.2, 0.3]));
    let channels_second = AttrValue::string("NCHW");
    let image = case("BiasAdd").x(&[1, 2, 1, 3], &x).x(&[2], &[0.1, 0.2]);
    cases.push(image.attr("data_format", channels_second));
    cases
}

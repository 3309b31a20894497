//! Ops of neural networks: activations, biases, softmax, pooling, convolutions, normalisation.
#![forbid(unsafe_code)]

mod activation;
mod bias;
mod conv;
mod depthwise;
mod pool;
mod softmax;
mod window_attrs;

use tfcore_framework::Registry;

/// Attaches the behaviour of all ops of the family.
pub fn register(r: &mut Registry) {
    activation::register(r);
    bias::register(r);
    softmax::register(r);
    pool::register(r);
    conv::register(r);
    depthwise::register(r);
}

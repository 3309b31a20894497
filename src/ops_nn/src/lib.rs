//! Ops of neural networks: activations, biases, softmax, pooling, convolutions, normalisation.
#![forbid(unsafe_code)]

mod activation;
mod activation_grad;
mod batch_norm;
mod batch_norm_grad;
mod bias;
mod conv;
mod cross_entropy;
mod depthwise;
mod gradients;
mod l2_loss;
mod lrn;
mod pool;
mod pool3d;
mod pool_grad;
mod softmax;
mod window_attrs;

use tfcore_framework::Registry;

/// Attaches the behaviour of all ops of the family.
pub fn register(r: &mut Registry) {
    activation::register(r);
    activation_grad::register(r);
    bias::register(r);
    softmax::register(r);
    cross_entropy::register(r);
    pool::register(r);
    pool_grad::register(r);
    pool3d::register(r);
    batch_norm::register(r);
    batch_norm_grad::register(r);
    lrn::register(r);
    conv::register(r);
    depthwise::register(r);
    l2_loss::register(r);
    gradients::register(r);
}

//! Ops of neural networks: activations, biases, softmax, pooling, convolutions, normalisation.
#![forbid(unsafe_code)]

mod activation;
mod activation_grad;
mod batch_norm;
mod batch_norm_grad;
mod bias;
mod candidates;
mod conv;
mod conv3d;
mod conv_any;
mod cross_entropy;
mod depthwise;
mod dilation;
mod fused;
mod fused_pad;
mod global_norm;
mod gradients;
mod l2_loss;
mod lrn;
mod pool;
mod pool3d;
mod pool_argmax;
mod pool_fractional;
mod pool_grad;
mod softmax;
mod unary_chain;
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
    conv3d::register(r);
    conv_any::register(r);
    depthwise::register(r);
    l2_loss::register(r);
    dilation::register(r);
    pool_argmax::register(r);
    pool_fractional::register(r);
    candidates::register(r);
    fused::register(r);
    fused_pad::register(r);
    unary_chain::register(r);
    global_norm::register(r);
    gradients::register(r);
}

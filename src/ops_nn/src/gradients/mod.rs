//! The gradients of the ops of neural networks, one file for each kind of op.
//!
//! They build the nodes that TensorFlow's C++ gradients build, in the same order, so that the names are the same.

use tfcore_framework::Registry;

mod activation;
mod conv;
mod loss;
mod normalize;
mod pool;

pub(crate) fn register(r: &mut Registry) {
    activation::register(r);
    conv::register(r);
    loss::register(r);
    normalize::register(r);
    pool::register(r);
}

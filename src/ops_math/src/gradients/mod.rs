//! The gradients of the mathematical ops, one file for each kind of op.
//!
//! They build the nodes that TensorFlow's C++ gradients build, in the same order, so that the names are the same.

use tfcore_framework::Registry;

mod binary;
mod products;
mod reduce;
mod segment;
mod select;
mod unary;

pub(crate) fn register(r: &mut Registry) {
    binary::register(r);
    products::register(r);
    reduce::register(r);
    segment::register(r);
    select::register(r);
    unary::register(r);
}

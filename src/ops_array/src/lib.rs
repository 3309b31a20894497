//! Ops that make, move and select the elements of tensors.
#![forbid(unsafe_code)]

use tfcore_framework::Registry;

mod concat;
mod constants;
mod identity;
use tfcore_framework::movement;
mod queries;
mod reshape;
mod slice;
mod split;
mod transpose;
mod types;

/// Registers the ops of this family.
pub fn register(r: &mut Registry) {
    concat::register(r);
    constants::register(r);
    identity::register(r);
    queries::register(r);
    reshape::register(r);
    slice::register(r);
    split::register(r);
    transpose::register(r);
}

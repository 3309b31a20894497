//! Ops on sparse and ragged tensors.
#![forbid(unsafe_code)]

mod arithmetic;
mod coo;
mod count;
mod fill;
mod matmul;
mod moves;
mod ragged;
mod reduce;
mod to_dense;

#[cfg(test)]
mod tests;

use tfcore_framework::Registry;

/// Attaches the family's behaviour.
pub fn register(r: &mut Registry) {
    arithmetic::register(r);
    count::register(r);
    fill::register(r);
    matmul::register(r);
    moves::register(r);
    ragged::register(r);
    reduce::register(r);
    to_dense::register(r);
}

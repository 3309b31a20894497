//! Ops on sparse and ragged tensors.
#![forbid(unsafe_code)]

mod arithmetic;
mod coo;
mod count;
mod cross;
mod csr;
mod fill;
mod matmul;
mod moves;
mod ragged;
mod ragged_variant;
mod reduce;
mod serialize;
mod to_dense;

#[cfg(test)]
mod tests;

use tfcore_framework::Registry;

/// Attaches the family's behaviour.
pub fn register(r: &mut Registry) {
    arithmetic::register(r);
    count::register(r);
    cross::register(r);
    csr::register(r);
    fill::register(r);
    matmul::register(r);
    moves::register(r);
    ragged::register(r);
    ragged_variant::register(r);
    reduce::register(r);
    serialize::register(r);
    to_dense::register(r);
}

//! Ops that compute: reductions, matrix products, cumulative sums.
#![forbid(unsafe_code)]

use tfcore_framework::Registry;

mod arg;
mod cumulative;
mod matmul;
mod reduce;

/// Registers the ops of this family.
pub fn register(r: &mut Registry) {
    arg::register(r);
    cumulative::register(r);
    matmul::register(r);
    reduce::register(r);
}

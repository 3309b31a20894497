//! The mathematical ops: elementwise functions and arithmetic, conversions, reductions, scans, matrix
//! products and ranges.
#![forbid(unsafe_code)]

use tfcore_framework::Registry;

mod arg;
mod binary;
mod cast;
mod compare;
mod cumulative;
mod division;
mod einsum;
mod float8;
mod matmul;
mod number;
mod reduce;
mod unary;

/// Attaches the behaviour of the mathematical ops.
pub fn register(r: &mut Registry) {
    arg::register(r);
    binary::register(r);
    cast::register(r);
    compare::register(r);
    cumulative::register(r);
    division::register(r);
    einsum::register(r);
    matmul::register(r);
    reduce::register(r);
    unary::register(r);
}

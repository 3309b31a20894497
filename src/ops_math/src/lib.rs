//! The mathematical ops: elementwise functions and arithmetic, conversions, reductions, scans, matrix
//! products and ranges.
#![forbid(unsafe_code)]

use tfcore_framework::Registry;

mod binary;
mod compare;
mod division;
mod number;
mod unary;

/// Attaches the behaviour of the mathematical ops.
pub fn register(r: &mut Registry) {
    unary::register(r);
    binary::register(r);
    division::register(r);
    compare::register(r);
}

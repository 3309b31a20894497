//! The mathematical ops: elementwise functions and arithmetic, conversions, reductions, scans, matrix
//! products and ranges.
#![forbid(unsafe_code)]

use tfcore_framework::Registry;

mod add_n;
mod arg;
mod binary;
mod bincount;
mod cast;
mod check;
mod clip;
mod compare;
mod cross;
mod cumulative;
mod division;
mod einsum;
mod float8;
mod fused_matmul;
mod gradients;
mod histogram;
mod matmul;
mod number;
mod range;
mod reduce;
mod segment;
mod segment_join;
mod select;
mod sparse_segment;
mod special;
mod unary;
mod unary_grad;
mod unsorted_segment;

/// Attaches the behaviour of the mathematical ops.
pub fn register(r: &mut Registry) {
    add_n::register(r);
    arg::register(r);
    binary::register(r);
    bincount::register(r);
    cast::register(r);
    check::register(r);
    clip::register(r);
    compare::register(r);
    cross::register(r);
    cumulative::register(r);
    division::register(r);
    einsum::register(r);
    fused_matmul::register(r);
    gradients::register(r);
    histogram::register(r);
    matmul::register(r);
    range::register(r);
    reduce::register(r);
    segment::register(r);
    segment_join::register(r);
    select::register(r);
    sparse_segment::register(r);
    special::register(r);
    unary::register(r);
    unary_grad::register(r);
    unsorted_segment::register(r);
}

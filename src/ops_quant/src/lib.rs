//! Ops of quantized numbers: integers that stand for reals of a range.
#![forbid(unsafe_code)]

mod elementwise;
mod fake;
mod fused;
mod levels;
mod pool;
mod product;
mod quantize;
mod requantize;
mod round_trip;
mod shape_only;
mod shapes;
mod uniform;
mod uniform_product;

use tfcore_framework::Registry;

/// Attaches the behaviour of all ops of the family.
pub fn register(r: &mut Registry) {
    quantize::register(r);
    fake::register(r);
    fused::register(r);
    round_trip::register(r);
    requantize::register(r);
    elementwise::register(r);
    pool::register(r);
    product::register(r);
    shape_only::register(r);
    uniform::register(r);
    uniform_product::register(r);
}

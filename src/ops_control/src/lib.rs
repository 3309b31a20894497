//! Ops that steer a run: switches and loops, calls of functions, and the ends of function bodies.
#![forbid(unsafe_code)]

use tfcore_framework::Registry;

mod boundary;
mod call;
mod flow;
mod gradients;
mod print;
mod transfer;

/// Registers the ops of this family.
pub fn register(r: &mut Registry) {
    boundary::register(r);
    call::register(r);
    flow::register(r);
    print::register(r);
    transfer::register(r);
    gradients::register(r);
}

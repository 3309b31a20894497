//! Ops on state that outlives a step: variables behind refs and resource handles, and what updates them
//! whole or in parts.
#![forbid(unsafe_code)]

mod arithmetic;
mod assign;
mod counter;
mod gather;
mod gradient_descent;
mod handle_shapes;
mod indices;
mod optimizer;
mod ref_variables;
mod resource_variables;
mod scatter;
mod scatter_nd;
mod session_tensors;
mod strided_slice;

use tfcore_framework::Registry;

/// Attaches the family's behaviour.
pub fn register(r: &mut Registry) {
    ref_variables::register(r);
    resource_variables::register(r);
    assign::register(r);
    counter::register(r);
    gather::register(r);
    gradient_descent::register(r);
    optimizer::register(r);
    scatter::register(r);
    scatter_nd::register(r);
    session_tensors::register(r);
    strided_slice::register(r);
}

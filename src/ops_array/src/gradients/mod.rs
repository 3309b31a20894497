//! Gradients of the ops of this family.

use tfcore_base::{DType, Result};
use tfcore_framework::{GradientContext, Gradients, Output, Registry};

mod gather;
mod join;
mod layout;
mod parts;
mod values;

pub(crate) fn register(r: &mut Registry) {
    gather::register(r);
    join::register(r);
    layout::register(r);
    parts::register(r);
    values::register(r);
}

/// Gradients of an op that is constant in all its inputs but the first.
fn by_first(c: &GradientContext<'_>, dx: Output) -> Result<Gradients> {
    let mut gradients = vec![None; c.inputs().len()];
    gradients[0] = Some(dx);
    Ok(gradients)
}

/// Indices of at least 32 bits, as shapes and what is computed from them have. The reference fails for shorter ones.
fn widened(c: &GradientContext<'_>, indices: Output) -> Output {
    if c.dtype(indices) == DType::INT16 { c.cast(indices, DType::INT32) } else { indices }
}

//! Random ops: TensorFlow's random streams as tensors.
#![forbid(unsafe_code)]

mod distribution;
mod multinomial;
mod operands;
mod shuffle;
mod stateful;
mod stateless;

use tfcore_framework::Registry;

/// Attaches the family's behaviour.
pub fn register(r: &mut Registry) {
    stateful::register(r);
    stateless::register(r);
    shuffle::register(r);
    multinomial::register(r);
}

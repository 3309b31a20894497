//! Random ops: TensorFlow's random streams as tensors.
#![forbid(unsafe_code)]

mod candidates;
mod clustering;
mod crop;
mod distorted_box;
mod distribution;
mod draws;
mod multinomial;
mod operands;
mod samplers;
mod shuffle;
mod sobol;
mod state;
mod stateful;
mod stateless;
mod stochastic_cast;
mod truncated;
mod unigrams;

use tfcore_framework::Registry;

/// Attaches the family's behaviour.
pub fn register(r: &mut Registry) {
    stateful::register(r);
    stateless::register(r);
    shuffle::register(r);
    multinomial::register(r);
    state::register(r);
    draws::register(r);
    truncated::register(r);
    candidates::register(r);
    clustering::register(r);
    sobol::register(r);
    crop::register(r);
    distorted_box::register(r);
    stochastic_cast::register(r);
}

//! Ops that wait for one another: queues, barriers, staging areas, accumulators of gradients, and locks.
#![forbid(unsafe_code)]

mod accumulator;
mod barrier;
mod monitor;
mod mutex;
mod queue;
mod reader;
mod shapes;
mod staging;

#[cfg(test)]
mod harness;
#[cfg(test)]
mod tests;

use tfcore_framework::{Registry, named};

/// Attaches the family's behaviour.
pub fn register(r: &mut Registry) {
    queue::register(r);
    reader::register(r);
    barrier::register(r);
    staging::register(r);
    accumulator::register(r);
    mutex::register(r);
}

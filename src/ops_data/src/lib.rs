//! Datasets and iterators: input pipelines as values, and the resources that go through them.
//!
//! A kind of dataset is a struct with its parameters, a function that reads them of a node, and a [`dataset::Rule`].
#![forbid(unsafe_code)]

mod args;
mod background;
mod batch;
mod compress;
mod csv;
mod dataset;
mod elements;
mod functional;
mod group;
mod indexed;
mod interleave;
mod iterators;
mod monitor;
mod multi_device;
mod optional;
mod passthrough;
mod random;
mod records;
mod resources;
mod rows;
mod saved;
mod shuffle;
mod sources;
mod structure;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use tfcore_framework::Registry;

/// Attaches the family's behaviour.
pub fn register(r: &mut Registry) {
    sources::register(r);
    records::register(r);
    csv::register(r);
    saved::register(r);
    structure::register(r);
    batch::register(r);
    shuffle::register(r);
    functional::register(r);
    interleave::register(r);
    group::register(r);
    indexed::register(r);
    passthrough::register(r);
    iterators::register(r);
    multi_device::register(r);
    optional::register(r);
    elements::register(r);
    compress::register(r);
}

//! Ops that read data from text and messages: examples, CSV, JSON, tensors.
#![forbid(unsafe_code)]

mod csv;
mod example;
mod feature;
mod json;
mod sequence;
mod tensor;

#[cfg(test)]
mod tests;

use tfcore_framework::Registry;

/// Attaches the family's behaviour.
pub fn register(r: &mut Registry) {
    csv::register(r);
    example::register(r);
    json::register(r);
    sequence::register(r);
    tensor::register(r);
}

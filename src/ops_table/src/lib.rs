//! Lookup tables: maps from keys to values that live as resources.
#![forbid(unsafe_code)]

mod column;
mod dense;
mod kernels;
mod keys;
mod make;
mod map;
mod shapes;
mod table;
mod text_file;

#[cfg(test)]
mod tests;

use tfcore_framework::Registry;

/// Attaches the family's behaviour.
pub fn register(r: &mut Registry) {
    make::register(r);
    kernels::register(r);
    text_file::register(r);
}

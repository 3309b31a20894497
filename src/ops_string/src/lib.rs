//! Ops on strings.
#![forbid(unsafe_code)]

use tfcore_framework::Registry;

mod format;
mod join;
mod number;
mod substr;
mod text;

/// Registers the ops of this family.
pub fn register(r: &mut Registry) {
    join::register(r);
    number::register(r);
    substr::register(r);
    text::register(r);
}

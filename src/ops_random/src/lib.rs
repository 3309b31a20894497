//! Placeholder.
#![forbid(unsafe_code)]

use tfcore_framework::Registry;

/// Attaches the behaviour of these ops.
pub fn register(_: &mut Registry) {}

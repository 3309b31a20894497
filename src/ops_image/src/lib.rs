//! Placeholder.
#![forbid(unsafe_code)]

use tfcore_framework::Registry;

/// Attaches the behaviour of these ops.
pub fn register(_: &mut Registry) {}
//! Ops on images.
mod bicubic;
mod bilinear;
mod nearest;
mod resize;
/// Attaches the behaviour of all ops of the family.
pub fn register(r: &mut Registry) {
    bilinear::register(r);
    nearest::register(r);
    bicubic::register(r);
}

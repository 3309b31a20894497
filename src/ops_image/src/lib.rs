//! Ops on images.
#![forbid(unsafe_code)]

mod bicubic;
mod bilinear;
mod gradients;
mod nearest;
mod resize;
mod resize_grad;

use tfcore_framework::Registry;

/// Attaches the behaviour of all ops of the family.
pub fn register(r: &mut Registry) {
    bilinear::register(r);
    nearest::register(r);
    bicubic::register(r);
    resize_grad::register(r);
    gradients::register(r);
}

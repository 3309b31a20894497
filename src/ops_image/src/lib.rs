//! Ops on images.
#![forbid(unsafe_code)]

mod area;
mod bicubic;
mod bilinear;
mod codec;
mod color;
mod combined;
mod crop;
mod draw;
mod glimpse;
mod gradients;
mod nearest;
mod projective;
mod resize;
mod resize_grad;
mod scale;
mod suppression;

use tfcore_framework::Registry;

/// Attaches the behaviour of all ops of the family.
pub fn register(r: &mut Registry) {
    bilinear::register(r);
    nearest::register(r);
    bicubic::register(r);
    resize_grad::register(r);
    gradients::register(r);
    area::register(r);
    color::register(r);
    codec::register(r);
    combined::register(r);
    crop::register(r);
    draw::register(r);
    glimpse::register(r);
    projective::register(r);
    scale::register(r);
    suppression::register(r);
}

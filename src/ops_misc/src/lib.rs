//! Ops of no other family: watching values, summaries, sound, calibration, isotonic regression.
#![forbid(unsafe_code)]

mod audio;
mod calibration;
mod composite;
mod constants;
mod debug;
mod histogram;
mod isotonic;
mod summaries;
mod wav;
mod wire;

use tfcore_framework::Registry;

/// Attaches the family's behaviour.
pub fn register(r: &mut Registry) {
    audio::register(r);
    calibration::register(r);
    composite::register(r);
    constants::register(r);
    debug::register(r);
    isotonic::register(r);
    summaries::register(r);
    wav::register(r);
}

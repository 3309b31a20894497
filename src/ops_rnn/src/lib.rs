//! Ops of recurrent networks: LSTM and GRU cells, connectionist temporal classification.
#![forbid(unsafe_code)]

mod beam_search;
mod ctc_decode;
mod ctc_loss;
mod gru;
mod lstm;
mod matrix;

use tfcore_framework::Registry;

/// Attaches the behaviour of all ops of the family.
pub fn register(r: &mut Registry) {
    lstm::register(r);
    gru::register(r);
    ctc_loss::register(r);
    ctc_decode::register(r);
}

//! Gradients of quantized ops. Rounding has none: what the reference gives instead cannot be compared with difference quotients.

use super::harness::Case;

/// Straight-through gradients, which pass over the rounding.
pub(crate) const UNTESTED: &[&str] = &[
    "FakeQuantWithMinMaxArgs",
    "FakeQuantWithMinMaxVars",
    "FakeQuantWithMinMaxVarsPerChannel",
    "QuantizeAndDequantize",
    "QuantizeAndDequantizeV2",
];

pub(crate) fn cases() -> Vec<Case> {
    Vec::new()
}

//! Gradients of the ops of the family nn.

use super::harness::Case;

/// Gradients that no kernel can check yet. The list only shrinks.
pub(crate) const UNTESTED: &[&str] = &[];

pub(crate) fn cases() -> Vec<Case> {
    Vec::new()
}

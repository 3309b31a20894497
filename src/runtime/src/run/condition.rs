//! The conditions of loops.

use tfcore_base::Result;
use tfcore_framework::truth;
use tfcore_tensor::Tensor;

use crate::run::node::no_selector;

/// Whether a condition says that a loop goes on. Switches, unlike While itself, want a scalar.
pub(crate) fn holds(condition: &Tensor, by_switches: bool) -> Result<bool> {
    match by_switches && condition.rank() != 0 {
        true => Err(no_selector(condition.shape())),
        false => truth(condition),
    }
}

//! Loops over elements of known type, as values. `elementwise.rs` makes them.

use tfcore_base::{DType, Result};
use tfcore_tensor::{Elems, ElemsMut};

/// One loop over elements of known type.
#[derive(Clone, Copy)]
pub struct UnaryLoop {
    pub(crate) run: fn(Elems<'_>, ElemsMut<'_>),
    pub(crate) output: DType,
    pub(crate) cost: usize,
}

/// One loop over pairs of elements of known type.
#[derive(Clone, Copy)]
pub struct BinaryLoop {
    pub(crate) run: fn(Elems<'_>, Elems<'_>, ElemsMut<'_>),
    pub(crate) check: Option<fn(Elems<'_>, Elems<'_>) -> Result<()>>,
    pub(crate) output: DType,
    pub(crate) cost: usize,
}

impl UnaryLoop {
    /// Computes the elements of `out` from as many of `x`.
    pub fn run(&self, x: Elems<'_>, out: ElemsMut<'_>) {
        (self.run)(x, out);
    }

    pub fn output(&self) -> DType {
        self.output
    }
}

impl BinaryLoop {
    /// Computes the elements of `out` from as many of `x` and `y`.
    pub fn run(&self, x: Elems<'_>, y: Elems<'_>, out: ElemsMut<'_>) {
        (self.run)(x, y, out);
    }

    pub fn output(&self) -> DType {
        self.output
    }

    /// True if some operands are refused, so that the loop cannot run without a check.
    pub fn is_checked(&self) -> bool {
        self.check.is_some()
    }
}

//! Recursion over nested functions and loops, on stacks of any size.

use tfcore_base::Result;

/// The bytes of stack that one level of nested functions and loops may take.
const LEFT: usize = 128 << 10;
/// The bytes of the stack that is added if less is left.
const PIECE: usize = 1 << 20;

/// Runs `level`, on a new piece of stack if less than [`LEFT`] bytes of this one are left.
pub(crate) fn deeper<T>(level: impl FnOnce() -> Result<T>) -> Result<T> {
    stacker::maybe_grow(LEFT, PIECE, level)
}

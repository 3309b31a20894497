//! Functions as kernels see them: what a dataset maps with, or an iterator calls long after the step that made it.
//!
//! The runtime implements the traits; kernels know neither plans nor sessions.

use std::sync::Arc;

use tfcore_base::Result;
use tfcore_tensor::Tensor;

use crate::Attrs;
use crate::cancellation::Cancellation;

/// The functions that a step's kernels may call: those of its session.
pub trait FunctionLookup: Send + Sync {
    /// The function `name`, for calls with `attrs` on the device with this full name.
    ///
    /// # Errors
    /// `NotFound` if there is no such function.
    fn function(&self, name: &str, attrs: &Attrs, device: &str) -> Result<Arc<dyn Callable>>;

    /// How many threads the session computes with, the caller's included.
    fn threads(&self) -> usize;
}

/// A function that may be called any number of times, by many threads at once, and after the step that asked for it.
pub trait Callable: Send + Sync {
    fn name(&self) -> &str;

    /// Calls the function on this thread, in a step of its own.
    ///
    /// # Errors
    /// That of the first failing node; `Cancelled` if the caller is cancelled or the session has ended.
    fn call(&self, args: Vec<Tensor>, caller: &Caller) -> Result<Vec<Tensor>>;
}

/// On whose behalf a function is called.
#[derive(Clone, Default)]
pub struct Caller {
    /// Ends the call when it is cancelled.
    pub cancellation: Arc<Cancellation>,
    /// So many calls of this kind are nested already: a function may call itself through a kernel.
    pub depth: u32,
}

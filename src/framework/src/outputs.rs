//! What may be wrong with the outputs of a node, in the reference's words. Both errors end in the node's name.

use tfcore_base::{DType, Error, Result, internal};
use tfcore_tensor::Tensor;

use crate::context::OpContext;

/// The error of an output with another dtype than the node has declared.
pub fn wrong_output_dtype(index: usize, got: DType, declared: DType) -> Error {
    internal!(
        "Output {index} of type {got} does not match declared output type {declared} for node "
    )
    .ending_in_node()
}

/// The error of an output that is read but has not been made.
pub fn missing_output(index: usize) -> Error {
    internal!("Missing {index}-th output from ").ending_in_node()
}

impl OpContext<'_> {
    /// As [`OpContext::set_output`], for a tensor whose dtype only the run tells.
    ///
    /// # Errors
    /// `Internal` if that is not the output's.
    pub fn try_set_output(&self, index: usize, tensor: Tensor) -> Result<()> {
        let declared = self.output_dtype(index);
        if tensor.dtype() != declared {
            return Err(wrong_output_dtype(index, tensor.dtype(), declared));
        }
        self.set_output(index, tensor);
        Ok(())
    }
}

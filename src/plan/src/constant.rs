//! The values of constants.

use tfcore_base::{Result, invalid};
use tfcore_graph::Node;
use tfcore_tensor::Tensor;

/// The value of a Const; `None` for other ops.
///
/// # Errors
/// `InvalidArgument` for a value that cannot be read, or has another type than the node.
pub fn constant(node: &Node) -> Result<Option<Tensor>> {
    if !node.is_const() {
        return Ok(None);
    }
    let tensor = node.attrs.tensor("value")?.tensor().map_err(|error| error.at_node(&node.name))?;
    if tensor.dtype() != node.output_dtypes[0] {
        let error = invalid!(
            "Type mismatch between value ({}) and dtype ({})",
            tensor.dtype(),
            node.output_dtypes[0]
        );
        return Err(error.at_node(&node.name));
    }
    Ok(Some(tensor))
}

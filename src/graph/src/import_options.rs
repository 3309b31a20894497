//! What a client asks of an import, and what it gets back.

use crate::node::{NodeId, OutputRef};
use crate::tensor_ref::TensorRef;

/// How a GraphDef is brought into a graph.
#[derive(Debug, Clone)]
pub struct ImportOptions {
    /// Put before every name, with a slash between.
    pub prefix: String,
    pub uniquify_names: bool,
    pub uniquify_prefix: bool,
    /// Tensors of the graph to read in place of tensors of the GraphDef.
    pub input_map: Vec<(TensorRef, OutputRef)>,
    /// Nodes of the graph to run before every imported node that has no imported inputs.
    pub control_dependencies: Vec<NodeId>,
    pub return_outputs: Vec<TensorRef>,
    pub return_nodes: Vec<String>,
    /// The device of nodes that request none.
    pub default_device: String,
    pub validate_colocation: bool,
    /// Whether names may begin with an underscore.
    pub allow_internal_ops: bool,
    /// Whether `_output_shapes` attrs are compared with the inferred shapes and taken away; else they
    /// stay as they are.
    pub validate_shapes: bool,
}

impl Default for ImportOptions {
    fn default() -> ImportOptions {
        ImportOptions {
            prefix: String::new(),
            uniquify_names: false,
            uniquify_prefix: false,
            input_map: Vec::new(),
            control_dependencies: Vec::new(),
            return_outputs: Vec::new(),
            return_nodes: Vec::new(),
            default_device: String::new(),
            validate_colocation: true,
            allow_internal_ops: false,
            validate_shapes: true,
        }
    }
}

/// What an import hands back.
#[derive(Debug, Clone, Default)]
pub struct ImportResults {
    pub return_outputs: Vec<OutputRef>,
    pub return_nodes: Vec<NodeId>,
    /// Keys of the input map that name nothing in the GraphDef and were not used.
    pub missing_unused_keys: Vec<TensorRef>,
}

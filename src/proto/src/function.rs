//! Function libraries.

use std::collections::BTreeMap;

use prost::Message;

use crate::{AttrValue, NodeDef, OpDef};

/// Functions that a graph may call, and their gradients.
#[derive(Clone, PartialEq, Message)]
pub struct FunctionDefLibrary {
    #[prost(message, repeated, tag = "1")]
    pub function: Vec<FunctionDef>,
    #[prost(message, repeated, tag = "2")]
    pub gradient: Vec<GradientDef>,
    #[prost(message, repeated, tag = "3")]
    pub registered_gradients: Vec<RegisteredGradient>,
}

/// A function: signature, body nodes, and where each output comes from.
#[derive(Clone, PartialEq, Message)]
pub struct FunctionDef {
    #[prost(message, optional, tag = "1")]
    pub signature: Option<OpDef>,
    #[prost(message, repeated, tag = "3")]
    pub node_def: Vec<NodeDef>,
    /// Output name to `node:output:index` or argument name.
    #[prost(btree_map = "string, string", tag = "4")]
    pub ret: BTreeMap<String, String>,
    #[prost(btree_map = "string, message", tag = "5")]
    pub attr: BTreeMap<String, AttrValue>,
    /// Control output name to node name.
    #[prost(btree_map = "string, string", tag = "6")]
    pub control_ret: BTreeMap<String, String>,
    /// By argument index.
    #[prost(btree_map = "uint32, message", tag = "7")]
    pub arg_attr: BTreeMap<u32, function_def::ArgAttrs>,
    /// Arguments with equal ids are the same resource.
    #[prost(btree_map = "uint32, uint32", tag = "8")]
    pub resource_arg_unique_id: BTreeMap<u32, u32>,
}

/// Parts of [`FunctionDef`].
pub mod function_def {
    use std::collections::BTreeMap;

    use prost::Message;

    /// Attributes of one argument.
    #[derive(Clone, PartialEq, Message)]
    pub struct ArgAttrs {
        #[prost(btree_map = "string, message", tag = "1")]
        pub attr: BTreeMap<String, crate::AttrValue>,
    }
}

/// Names the function that computes the gradient of `function_name`.
#[derive(Clone, PartialEq, Message)]
pub struct GradientDef {
    #[prost(string, tag = "1")]
    pub function_name: String,
    #[prost(string, tag = "2")]
    pub gradient_func: String,
}

/// Names the gradient function registered for an op type.
#[derive(Clone, PartialEq, Message)]
pub struct RegisteredGradient {
    #[prost(string, tag = "1")]
    pub gradient_func: String,
    #[prost(string, tag = "2")]
    pub registered_op_type: String,
}

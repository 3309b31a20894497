//! What ops are made of: definitions, attributes, the registry, shape inference, kernels, resources
//! and the geometry that shape functions and kernels share.
//!
//! The framework knows the forms that ops take but not one op.
#![forbid(unsafe_code)]

mod attr;
mod op_def;
mod tensor_attr;

pub use attr::{AttrList, AttrValue, Attrs, Func};
pub use op_def::{ArgDef, ArgKind, AttrDef, OpDef};
pub use tensor_attr::TensorAttr;

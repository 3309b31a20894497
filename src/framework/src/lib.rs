//! What ops are made of: definitions, attributes, the registry, shape inference, kernels, resources
//! and the geometry that shape functions and kernels share.
//!
//! The framework knows the forms that ops take but not one op.
#![forbid(unsafe_code)]

mod api_def;
mod attr;
mod blocking;
mod cancellation;
mod convert;
mod elementwise;
mod forward;
pub mod geometry;
mod gradient;
mod gradient_ops;
mod inference;
mod kernel;
mod kernel_list;
pub mod log;
pub mod movement;
mod name_hash;
mod op_def;
mod op_spec;
pub mod op_table;
mod outputs;
mod raw_attr;
mod registry;
mod rendezvous;
mod resource;
pub mod shape_fns;
pub mod shape_ops;
mod spec_reader;
mod sum;
pub mod sync;
mod tensor_attr;
mod tensor_proto;
#[doc(hidden)]
pub mod testing;
mod text_proto;
mod truth;
mod variable;
mod wire_attr;

pub use api_def::ApiDefMap;
pub use attr::{AttrList, AttrValue, Attrs, Func};
pub use blocking::{BlockingContext, BlockingKernel, Outputs, blocking_kernel};
pub use cancellation::{Cancellation, CancellationToken};
pub use convert::{full_shape_from_proto, shape_from_proto, shape_to_proto};
pub use elementwise::{
    Binary, BinaryForm, BinaryKernel, BinaryLoop, Unary, UnaryForm, UnaryKernel, UnaryLoop,
};
pub use forward::Forward;
pub use gradient::{
    Gradient, GradientBuilder, GradientContext, GradientFn, GradientNode, GradientScope, Gradients,
    NodeRequest, Operand, Output,
};
pub use inference::{HandleData, InferenceContext, Operands, ShapeAndType, shape_from_tensor};
pub use kernel::{
    InputSlot, Kernel, KernelInit, OpContext, ScalarKernel, Step, Value, for_each_part, kernel,
    matching,
};
pub use op_def::{ArgDef, ArgKind, AttrDef, OpDef};
pub use op_spec::OpSpec;
pub use outputs::{missing_output, wrong_output_dtype};
pub use raw_attr::RawAttr;
pub use registry::{Behaviour, DeviceType, KernelDef, KernelFactory, OpEntry, Registry, ShapeFn};
pub use rendezvous::Rendezvous;
pub use resource::{
    DEFAULT_CONTAINER, Resource, ResourceManager, StepContainer, container_and_name,
};
pub use sum::{AddAssign, AddRows, LEFT_OUT, add_assign, add_assign_of_number, add_rows};
pub use tensor_attr::{TensorAttr, describe_tensor, summarize_values};
pub use tensor_proto::{tensor_from_proto, tensor_to_proto};
pub use truth::truth;
pub use variable::Variable;

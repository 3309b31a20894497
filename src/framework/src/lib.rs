//! What ops are made of: definitions, attributes, the registry, shape inference, kernels, resources
//! and the geometry that shape functions and kernels share.
//!
//! The framework knows the forms that ops take but not one op.
#![forbid(unsafe_code)]

mod api_def;
mod attr;
mod blocking;
mod cancellation;
mod context;
mod convert;
mod elementwise;
mod forward;
mod functions;
pub mod geometry;
mod gradient;
mod gradient_ops;
mod inference;
mod kernel;
mod kernel_list;
mod kernel_table;
pub mod log;
mod loops;
pub mod movement;
mod name_hash;
pub mod named;
mod op_def;
mod op_spec;
pub mod op_table;
mod outputs;
mod raw_attr;
mod registry;
mod rendezvous;
mod resource;
mod role;
pub mod shape_fns;
pub mod shape_ops;
mod shape_proto;
mod slice_write;
mod spec_reader;
mod step;
mod sum;
pub mod sync;
mod tensor_attr;
mod tensor_proto;
#[doc(hidden)]
pub mod testing;
mod text_proto;
mod truth;
mod value;
mod variable;
mod wire_attr;

pub use api_def::ApiDefMap;
pub use attr::{AttrList, AttrValue, Attrs, Func};
pub use blocking::{BlockingContext, BlockingKernel};
pub use cancellation::{Cancellation, CancellationToken};
pub use context::{InputSlot, OpContext};
pub use elementwise::{Binary, BinaryKernel, BinaryLoops, Unary, UnaryKernel, UnaryLoops};
pub use forward::Forward;
pub use functions::{Callable, Caller, FunctionLookup};
pub use gradient::{
    Gradient, GradientBuilder, GradientContext, GradientFn, GradientNode, GradientScope, Gradients,
    NodeRequest, Operand, Output,
};
pub use inference::{HandleData, InferenceContext, Operands, ShapeAndType, shape_from_tensor};
pub use kernel::{
    Kernel, KernelForm, KernelInit, ScalarKernel, blocking_kernel, for_each_part, kernel, matching,
};
pub use kernel_table::Constraints;
pub use loops::{BinaryLoop, UnaryLoop};
pub use op_def::{ArgDef, ArgKind, AttrDef, OpDef};
pub use op_spec::OpSpec;
pub use outputs::{missing_output, wrong_output_dtype};
pub use raw_attr::RawAttr;
pub use registry::{Behaviour, DeviceType, KernelDef, KernelFactory, OpEntry, Registry, ShapeFn};
pub use rendezvous::Rendezvous;
pub use resource::{
    DEFAULT_CONTAINER, Resource, ResourceManager, StepContainer, container_and_name,
};
pub use role::Role;
pub use shape_proto::{full_shape_from_proto, shape_from_proto, shape_to_proto};
pub use slice_write::write_slice;
pub use step::Step;
pub use sum::{AddAssign, AddRows, LEFT_OUT, add_assign, add_assign_of_number, add_rows};
pub use tensor_attr::{TensorAttr, describe_tensor, summarize_values};
pub use tensor_proto::{tensor_from_proto, tensor_to_proto, values_to_proto};
pub use truth::truth;
pub use value::{Outputs, Value};
pub use variable::Variable;

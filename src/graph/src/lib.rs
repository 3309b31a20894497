//! The graph: nodes and edges, names, building, shape refinement, import and export.
//!
//! A graph never runs anything but the constant operands that shape functions ask for, and never
//! does I/O.
#![forbid(unsafe_code)]

mod add_node;
mod builder;
mod call_gradients;
mod call_shapes;
mod copy;
mod export;
mod fanout;
mod fold;
mod fold_memo;
mod function;
mod function_gradient;
mod function_text;
mod gradient_scope;
mod gradients;
mod graph;
mod graph_def;
#[cfg(test)]
mod hostile_tests;
mod import;
mod import_options;
mod instantiate;
mod kinds;
mod library;
mod loop_gradients;
mod loops;
mod mutate;
mod name;
mod name_scope;
mod name_table;
mod names;
mod node;
mod operands;
mod partial_value;
mod reach;
mod refine;
mod repeatable;
mod stack;
mod tensor_ref;
mod validate;
mod while_gradients;
mod while_loop;

pub use builder::NodeBuilder;
pub use export::node_to_proto;
pub use function::FunctionRequest;
pub use graph::{FunctionBody, GRAPH_VERSION, Graph, Versions};
pub use graph_def::ParsedGraphDef;
pub use import_options::{ImportOptions, ImportResults};
pub use library::{Function, FunctionLibrary};
pub use name::Name;
pub use node::{Annotations, Edge, Node, NodeId, NodeKind, OutputRef, SINK, SOURCE};
pub use tensor_ref::{TensorRef, parse_tensor};
pub use validate::is_valid_node_name;
pub use while_loop::LoopPart;

//! TensorFlow's protobuf messages as Rust structs, and how bytes become messages.
//!
//! The structs are written for `prost` by hand: the build needs neither `protoc` nor a build script. Names and
//! numbers of fields are the published ones, so every message is compatible on the wire with TensorFlow's. The
//! layout is that of `prost-build`: what is nested in message `OpDef` lives in module `op_def`.
//!
//! - Enums (`DataType` above all) are plain `i32`: values that we do not know survive a round trip.
//! - Maps are `BTreeMap`s: serialization is deterministic.
//! - Unknown fields are skipped. Messages nested more than 100 deep are refused, as TensorFlow refuses them.
#![forbid(unsafe_code)]

mod api;
mod attr;
mod bundle;
mod cluster;
mod config;
mod decode;
mod full_type;
mod function;
mod graph;
mod kernel;
mod op;
mod rewriter;
mod saved_models;
mod stats;
mod tensor;
pub mod text;
pub mod wire;
mod wire_writer;

pub use api::*;
pub use attr::*;
pub use bundle::*;
pub use cluster::*;
pub use config::*;
pub use decode::{ALIGNMENT, LARGE, aligned_copy, decode};
pub use full_type::*;
pub use function::*;
pub use graph::*;
pub use kernel::*;
pub use op::*;
pub use prost::{DecodeError, Message};
pub use rewriter::*;
pub use saved_models::*;
pub use stats::*;
pub use tensor::*;

//! The C API. Each function turns pointers into references, calls one safe method and turns the result
//! into a pointer; what it does is decided below.
//!
//! One file for each public header or part of `c_api.h`; the headers are generated from them.
// The names are those of the C headers.
#![allow(non_camel_case_types)]

mod arena;
pub mod attr_get;
pub mod attr_set;
pub mod deprecated_session;
pub mod device_list;
pub mod experimental;
pub mod function;
pub mod gradients;
pub mod graph;
pub mod handle;
pub mod import;
mod log;
pub mod mutate;
pub mod operation;
pub mod ops;
pub mod partial_run;
pub mod registry;
pub mod session;
pub mod tf_attrtype;
pub mod tf_buffer;
pub mod tf_datatype;
pub mod tf_status;
pub mod tf_tensor;
pub mod tf_tstring;
pub mod tsl_status;
pub mod version;
pub mod while_loop;

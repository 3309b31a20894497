//! The C API. Each function turns pointers into references, calls one safe method and turns the result
//! into a pointer; what it does is decided below.
//!
//! One file for each public header or part of `c_api.h`; the headers are generated from them.
// The names are those of the C headers.
#![allow(non_camel_case_types)]

mod arena;
pub mod attr_get;
pub mod attr_set;
pub mod checkpoint_reader;
pub mod deprecated_session;
pub mod device_list;
mod dynamic;
pub mod eager;
pub mod env;
pub mod env_files;
pub mod experimental;
pub mod filesystem_plugin;
pub mod function;
pub mod gradients;
pub mod graph;
pub mod grappler;
pub mod handle;
pub mod import;
pub mod kernel_builder;
pub mod kernel_construction;
pub mod kernel_context;
pub mod kernel_types;
pub mod kernel_variables;
pub mod library;
pub mod mutate;
pub mod named_queue;
pub mod next_pluggable_device;
mod not_built_in;
pub mod operation;
pub mod ops;
pub mod partial_run;
pub mod registry;
pub mod server;
pub mod session;
pub mod shape_and_type;
pub mod tf_attrtype;
pub mod tf_buffer;
pub mod tf_datatype;
pub mod tf_file_statistics;
pub mod tf_status;
pub mod tf_tensor;
pub mod tf_tstring;
pub mod tsl_status;
pub mod version;
pub mod while_loop;
pub mod xla;

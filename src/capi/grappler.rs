//! `experimental/grappler/grappler.h`: graph optimizers of plug-ins, which are not built in.
#![allow(unused_variables, reason = "the headers have arguments that no implementation needs")]

use std::ffi::{c_char, c_int};
use std::ptr;

use tfcore_base::{invalid, not_found};
use tfcore_graph::{Graph, ImportOptions};
use tfcore_proto as proto;

use super::handle::{ArrayMut, Boxed, BytesMut, CStrIn, In, Mut, Out, Owned, Ref, Status, guard};
use super::not_built_in::not_built_in;
use super::tf_buffer::{TF_Buffer, fill};
use crate::ops;

/// A graph that an optimizer works on. There is none: no optimizer of a plug-in is called.
pub struct TF_GrapplerItem {
    _private: [u8; 0],
}

/// Shapes and types of a graph. There is none.
pub struct TF_GraphProperties {
    _private: [u8; 0],
}

/// Not available. Reports `TF_UNIMPLEMENTED`.
#[unsafe(no_mangle)]
pub extern "C" fn TF_GetNodesToPreserveListSize(
    item: In<TF_GrapplerItem>,
    num_values: Out<c_int>,
    storage_size: Out<usize>,
    status: Status,
) {
    guard(status, (), || Err(not_built_in("TF_GetNodesToPreserveListSize")))
}

/// Not available. Reports `TF_UNIMPLEMENTED`.
#[unsafe(no_mangle)]
pub extern "C" fn TF_GetNodesToPreserveList(
    item: In<TF_GrapplerItem>,
    values: ArrayMut<*mut c_char>,
    lengths: ArrayMut<usize>,
    num_values: c_int,
    storage: BytesMut,
    storage_size: usize,
    status: Status,
) {
    guard(status, (), || Err(not_built_in("TF_GetNodesToPreserveList")))
}

/// Not available. Reports `TF_UNIMPLEMENTED`.
#[unsafe(no_mangle)]
pub extern "C" fn TF_GetFetchNodesListSize(
    item: In<TF_GrapplerItem>,
    num_values: Out<c_int>,
    storage_size: Out<usize>,
    status: Status,
) {
    guard(status, (), || Err(not_built_in("TF_GetFetchNodesListSize")))
}

/// Not available. Reports `TF_UNIMPLEMENTED`.
#[unsafe(no_mangle)]
pub extern "C" fn TF_GetFetchNodesList(
    item: In<TF_GrapplerItem>,
    values: ArrayMut<*mut c_char>,
    lengths: ArrayMut<usize>,
    num_values: c_int,
    storage: BytesMut,
    storage_size: usize,
    status: Status,
) {
    guard(status, (), || Err(not_built_in("TF_GetFetchNodesList")))
}

/// Not available. Returns null.
#[unsafe(no_mangle)]
pub extern "C" fn TF_NewGraphProperties(item: In<TF_GrapplerItem>) -> *mut TF_GraphProperties {
    ptr::null_mut()
}

impl Boxed for TF_GraphProperties {}

/// Deletes properties; null is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn TF_DeleteGraphProperties(graph_properties: Owned<TF_GraphProperties>) {
    drop(graph_properties);
}

/// Not available. Reports `TF_UNIMPLEMENTED`.
#[unsafe(no_mangle)]
pub extern "C" fn TF_InferStatically(
    graph_properties: Ref<TF_GraphProperties>,
    assume_valid_feeds: u8,
    aggressive_shape_inference: u8,
    include_input_tensor_values: u8,
    include_output_tensor_values: u8,
    s: Status,
) {
    guard(s, (), || Err(not_built_in("TF_InferStatically")))
}

/// Not available. Reports `TF_UNIMPLEMENTED`.
#[unsafe(no_mangle)]
pub extern "C" fn TF_GetInputPropertiesListSize(
    graph_properties: Ref<TF_GraphProperties>,
    name: CStrIn,
    num_values: Out<c_int>,
    status: Status,
) {
    guard(status, (), || Err(not_built_in("TF_GetInputPropertiesListSize")))
}

/// Not available. Reports `TF_UNIMPLEMENTED`.
#[unsafe(no_mangle)]
pub extern "C" fn TF_GetOutputPropertiesListSize(
    graph_properties: Ref<TF_GraphProperties>,
    name: CStrIn,
    num_values: Out<c_int>,
    status: Status,
) {
    guard(status, (), || Err(not_built_in("TF_GetOutputPropertiesListSize")))
}

/// Not available. Reports `TF_UNIMPLEMENTED`.
#[unsafe(no_mangle)]
pub extern "C" fn TF_GetInputPropertiesList(
    graph_properties: Ref<TF_GraphProperties>,
    name: CStrIn,
    properties: ArrayMut<*mut TF_Buffer>,
    num_values: c_int,
    status: Status,
) {
    guard(status, (), || Err(not_built_in("TF_GetInputPropertiesList")))
}

/// Not available. Reports `TF_UNIMPLEMENTED`.
#[unsafe(no_mangle)]
pub extern "C" fn TF_GetOutputPropertiesList(
    graph_properties: Ref<TF_GraphProperties>,
    name: CStrIn,
    properties: ArrayMut<*mut TF_Buffer>,
    num_values: c_int,
    status: Status,
) {
    guard(status, (), || Err(not_built_in("TF_GetOutputPropertiesList")))
}

// ---- functions of a graph ----

/// The functions of a graph, with which ops are looked up.
pub struct TF_FunctionLibraryDefinition {
    graph: Graph,
}

impl Boxed for TF_FunctionLibraryDefinition {}

/// Returns the functions of a serialised `GraphDef`, for the caller to delete; null on error.
#[unsafe(no_mangle)]
pub extern "C" fn TF_NewFunctionLibraryDefinition(
    graph_buf: In<TF_Buffer>,
    status: Status,
) -> *mut TF_FunctionLibraryDefinition {
    guard(status, ptr::null_mut(), || {
        let bytes = graph_buf.get("graph_buf")?.bytes("graph_buf")?;
        let mut def: proto::GraphDef =
            proto::decode(bytes).map_err(|_| invalid!("Unparseable GraphDef"))?;
        // The functions alone are looked at.
        def.node.clear();
        let mut graph = Graph::new(ops::registry().clone());
        graph.import(def, &ImportOptions::default())?;
        Ok(TF_FunctionLibraryDefinition { graph }.hand_out())
    })
}

/// Deletes functions; null is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn TF_DeleteFunctionLibraryDefinition(fn_lib: Owned<TF_FunctionLibraryDefinition>) {
    drop(fn_lib);
}

/// Stores the serialised `OpDef` of a function, or of an op if there is no function of this name.
#[unsafe(no_mangle)]
pub extern "C" fn TF_LookUpOpDef(
    fn_lib: Ref<TF_FunctionLibraryDefinition>,
    name: CStrIn,
    buf: Mut<TF_Buffer>,
    s: Status,
) {
    guard(s, (), || {
        let (library, name) = (fn_lib.get("fn_lib")?, name.get("name")?);
        let unknown = || not_found!("{}", Graph::unknown_op(&name));
        fill(buf, &library.graph.op_def(&name).ok_or_else(unknown)?)
    })
}

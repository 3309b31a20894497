//! Graphs, nodes and their versions.

use std::collections::BTreeMap;

use prost::Message;

use crate::{AttrValue, FullTypeDef, FunctionDefLibrary};

/// A graph: its nodes and the functions they call.
#[derive(Clone, PartialEq, Message)]
pub struct GraphDef {
    #[prost(message, repeated, tag = "1")]
    pub node: Vec<NodeDef>,
    #[prost(message, optional, tag = "2")]
    pub library: Option<FunctionDefLibrary>,
    /// Producer version of graphs that are older than `versions`.
    #[prost(int32, tag = "3")]
    pub version: i32,
    #[prost(message, optional, tag = "4")]
    pub versions: Option<VersionDef>,
    #[prost(message, optional, tag = "5")]
    pub debug_info: Option<GraphDebugInfo>,
}

/// One node: an op applied to inputs `name:port`, `name` (port 0) or `^name` (control).
#[derive(Clone, PartialEq, Message)]
pub struct NodeDef {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub op: String,
    /// Data inputs first, then control inputs.
    #[prost(string, repeated, tag = "3")]
    pub input: Vec<String>,
    #[prost(string, tag = "4")]
    pub device: String,
    #[prost(btree_map = "string, message", tag = "5")]
    pub attr: BTreeMap<String, AttrValue>,
    #[prost(message, optional, boxed, tag = "6")]
    pub experimental_debug_info: Option<Box<node_def::ExperimentalDebugInfo>>,
    #[prost(message, optional, boxed, tag = "7")]
    pub experimental_type: Option<Box<FullTypeDef>>,
}

/// Parts of [`NodeDef`].
pub mod node_def {
    use prost::Message;

    /// Where a rewritten node came from.
    #[derive(Clone, PartialEq, Message)]
    pub struct ExperimentalDebugInfo {
        #[prost(string, repeated, tag = "1")]
        pub original_node_names: Vec<String>,
        #[prost(string, repeated, tag = "2")]
        pub original_func_names: Vec<String>,
    }
}

/// Who wrote a graph (or a checkpoint), and who may read it.
#[derive(Clone, PartialEq, Message)]
pub struct VersionDef {
    #[prost(int32, tag = "1")]
    pub producer: i32,
    #[prost(int32, tag = "2")]
    pub min_consumer: i32,
    #[prost(int32, repeated, tag = "3")]
    pub bad_consumers: Vec<i32>,
}

/// Stack traces of the code that created the nodes.
#[derive(Clone, PartialEq, Message)]
pub struct GraphDebugInfo {
    #[prost(string, repeated, tag = "1")]
    pub files: Vec<String>,
    #[prost(btree_map = "string, message", tag = "2")]
    pub traces: BTreeMap<String, graph_debug_info::StackTrace>,
    #[prost(btree_map = "fixed64, message", tag = "4")]
    pub frames_by_id: BTreeMap<u64, graph_debug_info::FileLineCol>,
    #[prost(btree_map = "string, fixed64", tag = "5")]
    pub name_to_trace_id: BTreeMap<String, u64>,
    #[prost(btree_map = "fixed64, message", tag = "6")]
    pub traces_by_id: BTreeMap<u64, graph_debug_info::StackTrace>,
}

/// Parts of [`GraphDebugInfo`].
pub mod graph_debug_info {
    use prost::Message;

    /// One frame of a stack trace.
    #[derive(Clone, PartialEq, Message)]
    pub struct FileLineCol {
        #[prost(int32, tag = "1")]
        pub file_index: i32,
        #[prost(int32, tag = "2")]
        pub line: i32,
        #[prost(int32, tag = "3")]
        pub col: i32,
        #[prost(string, tag = "4")]
        pub func: String,
        #[prost(string, tag = "5")]
        pub code: String,
    }

    /// A stack trace, as frames or as ids of frames.
    #[derive(Clone, PartialEq, Message)]
    pub struct StackTrace {
        #[prost(message, repeated, tag = "1")]
        pub file_line_cols: Vec<FileLineCol>,
        #[prost(fixed64, repeated, tag = "2")]
        pub frame_id: Vec<u64>,
    }
}

//! What a traced run reports.

use std::collections::BTreeMap;

use prost::Message;

use crate::{GraphDef, SessionMetadata, TensorShapeProto};

/// What a run reports back.
#[derive(Clone, PartialEq, Message)]
pub struct RunMetadata {
    #[prost(message, optional, tag = "1")]
    pub step_stats: Option<StepStats>,
    #[prost(message, optional, tag = "2")]
    pub cost_graph: Option<CostGraphDef>,
    #[prost(message, repeated, tag = "3")]
    pub partition_graphs: Vec<GraphDef>,
    #[prost(message, repeated, tag = "4")]
    pub function_graphs: Vec<run_metadata::FunctionGraphs>,
    #[prost(message, optional, tag = "5")]
    pub session_metadata: Option<SessionMetadata>,
}

/// Parts of [`RunMetadata`].
pub mod run_metadata {
    use prost::Message;

    /// Graphs of one function call, before and after optimization.
    #[derive(Clone, PartialEq, Message)]
    pub struct FunctionGraphs {
        #[prost(message, repeated, tag = "1")]
        pub partition_graphs: Vec<crate::GraphDef>,
        #[prost(message, optional, tag = "2")]
        pub pre_optimization_graph: Option<crate::GraphDef>,
        #[prost(message, optional, tag = "3")]
        pub post_optimization_graph: Option<crate::GraphDef>,
    }
}

/// Timing and memory of a step, per device.
#[derive(Clone, PartialEq, Message)]
pub struct StepStats {
    #[prost(message, repeated, tag = "1")]
    pub dev_stats: Vec<DeviceStepStats>,
}

/// Statistics of the nodes that ran on one device.
#[derive(Clone, PartialEq, Message)]
pub struct DeviceStepStats {
    #[prost(string, tag = "1")]
    pub device: String,
    #[prost(message, repeated, tag = "2")]
    pub node_stats: Vec<NodeExecStats>,
    #[prost(btree_map = "uint32, string", tag = "3")]
    pub thread_names: BTreeMap<u32, String>,
}

/// Statistics of one node; the `_rel_` times count from its `all_start`.
#[derive(Clone, PartialEq, Message)]
pub struct NodeExecStats {
    #[prost(string, tag = "1")]
    pub node_name: String,
    #[prost(int64, tag = "2")]
    pub all_start_micros: i64,
    #[prost(int64, tag = "3")]
    pub op_start_rel_micros: i64,
    #[prost(int64, tag = "4")]
    pub op_end_rel_micros: i64,
    #[prost(int64, tag = "5")]
    pub all_end_rel_micros: i64,
    #[prost(message, repeated, tag = "6")]
    pub memory: Vec<AllocatorMemoryUsed>,
    #[prost(message, repeated, tag = "7")]
    pub output: Vec<NodeOutput>,
    #[prost(string, tag = "8")]
    pub timeline_label: String,
    #[prost(int64, tag = "9")]
    pub scheduled_micros: i64,
    #[prost(uint32, tag = "10")]
    pub thread_id: u32,
    #[prost(message, repeated, tag = "11")]
    pub referenced_tensor: Vec<AllocationDescription>,
    #[prost(message, optional, tag = "12")]
    pub memory_stats: Option<MemoryStats>,
    #[prost(int64, tag = "13")]
    pub all_start_nanos: i64,
    #[prost(int64, tag = "14")]
    pub op_start_rel_nanos: i64,
    #[prost(int64, tag = "15")]
    pub op_end_rel_nanos: i64,
    #[prost(int64, tag = "16")]
    pub all_end_rel_nanos: i64,
    #[prost(int64, tag = "17")]
    pub scheduled_nanos: i64,
}

/// What a node took from one allocator.
#[derive(Clone, PartialEq, Message)]
pub struct AllocatorMemoryUsed {
    #[prost(string, tag = "1")]
    pub allocator_name: String,
    #[prost(int64, tag = "2")]
    pub total_bytes: i64,
    #[prost(int64, tag = "3")]
    pub peak_bytes: i64,
    #[prost(int64, tag = "4")]
    pub live_bytes: i64,
    #[prost(int64, tag = "5")]
    pub allocator_bytes_in_use: i64,
    #[prost(message, repeated, tag = "6")]
    pub allocation_records: Vec<AllocationRecord>,
}

/// One allocation (positive) or deallocation (negative).
#[derive(Clone, Copy, PartialEq, Message)]
pub struct AllocationRecord {
    #[prost(int64, tag = "1")]
    pub alloc_micros: i64,
    #[prost(int64, tag = "2")]
    pub alloc_bytes: i64,
}

/// One output of a node.
#[derive(Clone, PartialEq, Message)]
pub struct NodeOutput {
    #[prost(int32, tag = "1")]
    pub slot: i32,
    #[prost(message, optional, tag = "3")]
    pub tensor_description: Option<TensorDescription>,
}

/// Temporary and persistent memory of a node.
#[derive(Clone, PartialEq, Message)]
pub struct MemoryStats {
    #[prost(int64, tag = "1")]
    pub temp_memory_size: i64,
    #[prost(int64, tag = "2")]
    pub device_temp_memory_size: i64,
    #[prost(int64, tag = "3")]
    pub persistent_memory_size: i64,
    #[prost(int64, tag = "4")]
    pub device_persistent_memory_size: i64,
    #[prost(int64, repeated, tag = "5")]
    pub persistent_tensor_alloc_ids: Vec<i64>,
    #[prost(int64, repeated, tag = "6")]
    pub device_persistent_tensor_alloc_ids: Vec<i64>,
}

/// A tensor without its values.
#[derive(Clone, PartialEq, Message)]
pub struct TensorDescription {
    #[prost(int32, tag = "1")]
    pub dtype: i32,
    #[prost(message, optional, tag = "2")]
    pub shape: Option<TensorShapeProto>,
    #[prost(message, optional, tag = "4")]
    pub allocation_description: Option<AllocationDescription>,
}

/// The buffer behind a tensor.
#[derive(Clone, PartialEq, Message)]
pub struct AllocationDescription {
    #[prost(int64, tag = "1")]
    pub requested_bytes: i64,
    #[prost(int64, tag = "2")]
    pub allocated_bytes: i64,
    #[prost(string, tag = "3")]
    pub allocator_name: String,
    #[prost(int64, tag = "4")]
    pub allocation_id: i64,
    #[prost(bool, tag = "5")]
    pub has_single_reference: bool,
    #[prost(uint64, tag = "6")]
    pub ptr: u64,
}

/// Estimated or measured costs of a graph.
#[derive(Clone, PartialEq, Message)]
pub struct CostGraphDef {
    #[prost(message, repeated, tag = "1")]
    pub node: Vec<cost_graph_def::Node>,
    #[prost(message, repeated, tag = "2")]
    pub cost: Vec<cost_graph_def::AggregatedCost>,
}

/// Parts of [`CostGraphDef`].
pub mod cost_graph_def {
    use prost::Message;

    /// Costs of one node.
    #[derive(Clone, PartialEq, Message)]
    pub struct Node {
        #[prost(string, tag = "1")]
        pub name: String,
        #[prost(string, tag = "2")]
        pub device: String,
        #[prost(int32, tag = "3")]
        pub id: i32,
        #[prost(message, repeated, tag = "4")]
        pub input_info: Vec<node::InputInfo>,
        #[prost(message, repeated, tag = "5")]
        pub output_info: Vec<node::OutputInfo>,
        #[prost(int64, tag = "6")]
        pub temporary_memory_size: i64,
        #[prost(bool, tag = "7")]
        pub is_final: bool,
        #[prost(int32, repeated, tag = "8")]
        pub control_input: Vec<i32>,
        #[prost(int64, tag = "9")]
        pub compute_cost: i64,
        #[prost(int64, tag = "10")]
        pub host_temp_memory_size: i64,
        #[prost(int64, tag = "11")]
        pub device_temp_memory_size: i64,
        #[prost(int64, tag = "12")]
        pub persistent_memory_size: i64,
        #[prost(int64, tag = "14")]
        pub compute_time: i64,
        #[prost(int64, tag = "15")]
        pub memory_time: i64,
        #[prost(int64, tag = "16")]
        pub device_persistent_memory_size: i64,
        #[prost(bool, tag = "17")]
        pub inaccurate: bool,
    }

    /// Parts of [`Node`].
    pub mod node {
        use prost::Message;

        /// The producer of one input.
        #[derive(Clone, Copy, PartialEq, Message)]
        pub struct InputInfo {
            #[prost(int32, tag = "1")]
            pub preceding_node: i32,
            #[prost(int32, tag = "2")]
            pub preceding_port: i32,
        }

        /// Size and aliasing of one output.
        #[derive(Clone, PartialEq, Message)]
        pub struct OutputInfo {
            #[prost(int64, tag = "1")]
            pub size: i64,
            #[prost(int64, tag = "2")]
            pub alias_input_port: i64,
            #[prost(message, optional, tag = "3")]
            pub shape: Option<crate::TensorShapeProto>,
            #[prost(int32, tag = "4")]
            pub dtype: i32,
        }
    }

    /// A cost summed over the graph.
    #[derive(Clone, PartialEq, Message)]
    pub struct AggregatedCost {
        #[prost(float, tag = "1")]
        pub cost: f32,
        #[prost(string, tag = "2")]
        pub dimension: String,
    }
}

//! Session and run options.

use std::collections::BTreeMap;

use prost::Message;

use crate::{ClusterDef, RewriterConfig};

/// Options of a session.
#[derive(Clone, PartialEq, Message)]
pub struct ConfigProto {
    /// Device type to how many of them to use.
    #[prost(btree_map = "string, int32", tag = "1")]
    pub device_count: BTreeMap<String, i32>,
    #[prost(int32, tag = "2")]
    pub intra_op_parallelism_threads: i32,
    #[prost(int32, tag = "3")]
    pub placement_period: i32,
    #[prost(string, repeated, tag = "4")]
    pub device_filters: Vec<String>,
    #[prost(int32, tag = "5")]
    pub inter_op_parallelism_threads: i32,
    #[prost(message, optional, tag = "6")]
    pub gpu_options: Option<GPUOptions>,
    #[prost(bool, tag = "7")]
    pub allow_soft_placement: bool,
    #[prost(bool, tag = "8")]
    pub log_device_placement: bool,
    #[prost(bool, tag = "9")]
    pub use_per_session_threads: bool,
    #[prost(message, optional, tag = "10")]
    pub graph_options: Option<GraphOptions>,
    /// Limit of a blocking run, 0 for none.
    #[prost(int64, tag = "11")]
    pub operation_timeout_in_ms: i64,
    #[prost(message, repeated, tag = "12")]
    pub session_inter_op_thread_pool: Vec<ThreadPoolOptionProto>,
    #[prost(message, optional, tag = "13")]
    pub rpc_options: Option<RPCOptions>,
    #[prost(message, optional, tag = "14")]
    pub cluster_def: Option<ClusterDef>,
    #[prost(bool, tag = "15")]
    pub isolate_session_state: bool,
    #[prost(message, optional, tag = "16")]
    pub experimental: Option<config_proto::Experimental>,
    #[prost(bool, tag = "17")]
    pub share_cluster_devices_in_session: bool,
    #[prost(message, optional, tag = "18")]
    pub pluggable_device_options: Option<GPUOptions>,
}

/// Parts of [`ConfigProto`].
pub mod config_proto {
    use prost::Message;

    /// Options that may change between releases.
    #[derive(Clone, PartialEq, Message)]
    pub struct Experimental {
        #[prost(string, tag = "1")]
        pub collective_group_leader: String,
        #[prost(string, tag = "3")]
        pub executor_type: String,
        #[prost(int32, tag = "4")]
        pub recv_buf_max_chunk: i32,
        #[prost(bool, tag = "5")]
        pub use_numa_affinity: bool,
        #[prost(bool, tag = "6")]
        pub collective_deterministic_sequential_execution: bool,
        #[prost(bool, tag = "7")]
        pub collective_nccl: bool,
        #[prost(bool, tag = "8")]
        pub share_session_state_in_clusterspec_propagation: bool,
        #[prost(bool, tag = "9")]
        pub disable_thread_spinning: bool,
        #[prost(bool, tag = "10")]
        pub share_cluster_devices_in_session: bool,
        #[prost(message, optional, tag = "11")]
        pub session_metadata: Option<super::SessionMetadata>,
        #[prost(bool, tag = "12")]
        pub optimize_for_static_graph: bool,
        #[prost(bool, tag = "13")]
        pub enable_mlir_bridge: bool,
        #[prost(bool, tag = "14")]
        pub disable_output_partition_graphs: bool,
        #[prost(int64, tag = "15")]
        pub xla_fusion_autotuner_thresh: i64,
        #[prost(bool, tag = "16")]
        pub enable_mlir_graph_optimization: bool,
        /// A `MlirBridgeRollout`.
        #[prost(int32, tag = "17")]
        pub mlir_bridge_rollout: i32,
        #[prost(bool, tag = "18")]
        pub use_tfrt: bool,
        #[prost(bool, tag = "21")]
        pub disable_functional_ops_lowering: bool,
        #[prost(bool, tag = "22")]
        pub xla_prefer_single_graph_cluster: bool,
        #[prost(message, optional, tag = "23")]
        pub coordination_config: Option<super::CoordinationServiceConfig>,
        #[prost(bool, tag = "24")]
        pub disable_optimize_for_static_graph: bool,
        #[prost(bool, tag = "26")]
        pub disable_eager_executor_streaming_enqueue: bool,
        #[prost(bool, tag = "27")]
        pub enable_multi_host: bool,
        #[prost(int32, tag = "28")]
        pub backend_server_port: i32,
        #[prost(bool, tag = "29")]
        pub target_tpu: bool,
        #[prost(bool, tag = "30")]
        pub target_gpu: bool,
        #[prost(int32, tag = "31")]
        pub stream_merge_threshold: i32,
        #[prost(bool, tag = "32")]
        pub tfrt_use_ifrt: bool,
        #[prost(bool, tag = "33")]
        pub finalize_function_library_runtime: bool,
        #[prost(bool, tag = "34")]
        pub finalize_resource_manager: bool,
        #[prost(string, tag = "35")]
        pub tf2xla_dump_dir: String,
        #[prost(bool, tag = "36")]
        pub online_cost_analysis: bool,
    }
}

/// Memory and stream options of GPU devices.
#[derive(Clone, PartialEq, Message)]
pub struct GPUOptions {
    #[prost(double, tag = "1")]
    pub per_process_gpu_memory_fraction: f64,
    #[prost(string, tag = "2")]
    pub allocator_type: String,
    #[prost(int64, tag = "3")]
    pub deferred_deletion_bytes: i64,
    #[prost(bool, tag = "4")]
    pub allow_growth: bool,
    #[prost(string, tag = "5")]
    pub visible_device_list: String,
    #[prost(int32, tag = "6")]
    pub polling_active_delay_usecs: i32,
    #[prost(int32, tag = "7")]
    pub polling_inactive_delay_msecs: i32,
    #[prost(bool, tag = "8")]
    pub force_gpu_compatible: bool,
    #[prost(message, optional, tag = "9")]
    pub experimental: Option<gpu_options::Experimental>,
}

/// Parts of [`GPUOptions`].
pub mod gpu_options {
    use prost::Message;

    /// Options that may change between releases.
    #[derive(Clone, PartialEq, Message)]
    pub struct Experimental {
        #[prost(message, repeated, tag = "1")]
        pub virtual_devices: Vec<experimental::VirtualDevices>,
        #[prost(bool, tag = "2")]
        pub use_unified_memory: bool,
        #[prost(int32, tag = "3")]
        pub num_dev_to_dev_copy_streams: i32,
        #[prost(string, tag = "4")]
        pub collective_ring_order: String,
        #[prost(bool, tag = "5")]
        pub timestamped_allocator: bool,
        #[prost(int32, tag = "7")]
        pub kernel_tracker_max_interval: i32,
        #[prost(int32, tag = "8")]
        pub kernel_tracker_max_bytes: i32,
        #[prost(int32, tag = "9")]
        pub kernel_tracker_max_pending: i32,
        #[prost(double, tag = "10")]
        pub internal_fragmentation_fraction: f64,
        #[prost(bool, tag = "11")]
        pub use_cuda_malloc_async: bool,
        #[prost(bool, tag = "12")]
        pub disallow_retry_on_allocation_failure: bool,
        #[prost(float, tag = "13")]
        pub gpu_host_mem_limit_in_mb: f32,
        #[prost(bool, tag = "14")]
        pub gpu_host_mem_disallow_growth: bool,
        #[prost(int32, tag = "15")]
        pub num_virtual_devices_per_gpu: i32,
        #[prost(int32, tag = "16")]
        pub gpu_system_memory_size_in_mb: i32,
        #[prost(bool, tag = "17")]
        pub populate_pjrt_gpu_client_creation_info: bool,
        #[prost(int32, tag = "18")]
        pub node_id: i32,
        #[prost(message, optional, tag = "19")]
        pub stream_merge_options: Option<experimental::StreamMergeOptions>,
    }

    /// Parts of [`Experimental`].
    pub mod experimental {
        use prost::Message;

        /// How one physical GPU is split.
        #[derive(Clone, PartialEq, Message)]
        pub struct VirtualDevices {
            #[prost(float, repeated, tag = "1")]
            pub memory_limit_mb: Vec<f32>,
            #[prost(int32, repeated, tag = "2")]
            pub priority: Vec<i32>,
            #[prost(int32, repeated, tag = "3")]
            pub device_ordinal: Vec<i32>,
        }

        /// Which copy streams share the compute stream.
        #[derive(Clone, Copy, PartialEq, Message)]
        pub struct StreamMergeOptions {
            #[prost(bool, tag = "1")]
            pub merge_host_to_device_stream: bool,
            #[prost(bool, tag = "2")]
            pub merge_device_to_host_stream: bool,
            #[prost(bool, tag = "3")]
            pub merge_device_to_device_stream: bool,
        }
    }
}

/// How a session treats its graph.
#[derive(Clone, PartialEq, Message)]
pub struct GraphOptions {
    #[prost(bool, tag = "2")]
    pub enable_recv_scheduling: bool,
    #[prost(message, optional, tag = "3")]
    pub optimizer_options: Option<OptimizerOptions>,
    /// Steps between two builds of the cost model, 0 for none.
    #[prost(int64, tag = "4")]
    pub build_cost_model: i64,
    #[prost(bool, tag = "5")]
    pub infer_shapes: bool,
    #[prost(bool, tag = "6")]
    pub place_pruned_graph: bool,
    #[prost(bool, tag = "7")]
    pub enable_bfloat16_sendrecv: bool,
    #[prost(int32, tag = "8")]
    pub timeline_step: i32,
    #[prost(int64, tag = "9")]
    pub build_cost_model_after: i64,
    #[prost(message, optional, tag = "10")]
    pub rewrite_options: Option<RewriterConfig>,
}

/// Options of the classic graph optimizer.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct OptimizerOptions {
    #[prost(bool, tag = "1")]
    pub do_common_subexpression_elimination: bool,
    #[prost(bool, tag = "2")]
    pub do_constant_folding: bool,
    /// A `Level`.
    #[prost(int32, tag = "3")]
    pub opt_level: i32,
    #[prost(bool, tag = "4")]
    pub do_function_inlining: bool,
    /// A `GlobalJitLevel`.
    #[prost(int32, tag = "5")]
    pub global_jit_level: i32,
    #[prost(int64, tag = "6")]
    pub max_folded_constant_in_bytes: i64,
    #[prost(bool, tag = "7")]
    pub cpu_global_jit: bool,
}

impl OptimizerOptions {
    // `Level`
    pub const L1: i32 = 0;
    pub const L0: i32 = -1;

    // `GlobalJitLevel`
    pub const GLOBAL_JIT_DEFAULT: i32 = 0;
    pub const GLOBAL_JIT_OFF: i32 = -1;
    pub const GLOBAL_JIT_ON_1: i32 = 1;
    pub const GLOBAL_JIT_ON_2: i32 = 2;
}

/// One inter-op thread pool of a session.
#[derive(Clone, PartialEq, Message)]
pub struct ThreadPoolOptionProto {
    #[prost(int32, tag = "1")]
    pub num_threads: i32,
    #[prost(string, tag = "2")]
    pub global_name: String,
}

/// Options of the distributed runtime.
#[derive(Clone, PartialEq, Message)]
pub struct RPCOptions {
    #[prost(bool, tag = "1")]
    pub use_rpc_for_inprocess_master: bool,
    #[prost(string, tag = "2")]
    pub compression_algorithm: String,
    #[prost(int32, tag = "3")]
    pub compression_level: i32,
    #[prost(bool, tag = "4")]
    pub cache_rpc_response: bool,
    #[prost(bool, tag = "5")]
    pub disable_session_connection_sharing: bool,
    #[prost(int32, tag = "6")]
    pub num_channels_per_target: i32,
}

/// Name and version of the model behind a session.
#[derive(Clone, PartialEq, Message)]
pub struct SessionMetadata {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(int64, tag = "2")]
    pub version: i64,
}

/// Options of the coordination service of a cluster.
#[derive(Clone, PartialEq, Message)]
pub struct CoordinationServiceConfig {
    #[prost(string, tag = "1")]
    pub service_type: String,
    #[prost(string, tag = "2")]
    pub service_leader: String,
    #[prost(bool, tag = "3")]
    pub enable_health_check: bool,
    #[prost(int64, tag = "4")]
    pub cluster_register_timeout_in_ms: i64,
    #[prost(int64, tag = "5")]
    pub heartbeat_timeout_in_ms: i64,
    #[prost(int64, tag = "7")]
    pub shutdown_barrier_timeout_in_ms: i64,
    #[prost(bool, tag = "8")]
    pub agent_destruction_without_shutdown: bool,
    #[prost(string, repeated, tag = "9")]
    pub recoverable_jobs: Vec<String>,
    #[prost(message, repeated, tag = "10")]
    pub coordinated_job_list: Vec<CoordinatedJob>,
    #[prost(bool, tag = "11")]
    pub allow_new_incarnation_to_reconnect: bool,
    #[prost(bool, tag = "12")]
    pub force_disable: bool,
    #[prost(bool, tag = "13")]
    pub poll_for_error_from_service_at_startup: bool,
    #[prost(bool, tag = "14")]
    pub cluster_register_with_barrier: bool,
}

/// A job that the coordination service watches.
#[derive(Clone, PartialEq, Message)]
pub struct CoordinatedJob {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(int32, tag = "2")]
    pub num_tasks: i32,
}

/// Options of one run.
#[derive(Clone, PartialEq, Message)]
pub struct RunOptions {
    /// A `TraceLevel`.
    #[prost(int32, tag = "1")]
    pub trace_level: i32,
    /// Limit of this run, 0 for none.
    #[prost(int64, tag = "2")]
    pub timeout_in_ms: i64,
    /// Index into `session_inter_op_thread_pool`; -1 runs in the calling thread.
    #[prost(int32, tag = "3")]
    pub inter_op_thread_pool: i32,
    #[prost(bool, tag = "5")]
    pub output_partition_graphs: bool,
    #[prost(message, optional, tag = "6")]
    pub debug_options: Option<DebugOptions>,
    #[prost(bool, tag = "7")]
    pub report_tensor_allocations_upon_oom: bool,
    #[prost(message, optional, tag = "8")]
    pub experimental: Option<run_options::Experimental>,
}

impl RunOptions {
    // `TraceLevel`
    pub const NO_TRACE: i32 = 0;
    pub const SOFTWARE_TRACE: i32 = 1;
    pub const HARDWARE_TRACE: i32 = 2;
    pub const FULL_TRACE: i32 = 3;
}

/// Parts of [`RunOptions`].
pub mod run_options {
    use prost::Message;

    /// Options that may change between releases.
    #[derive(Clone, PartialEq, Message)]
    pub struct Experimental {
        #[prost(int64, tag = "1")]
        pub collective_graph_key: i64,
        #[prost(bool, tag = "2")]
        pub use_run_handler_pool: bool,
        #[prost(message, optional, tag = "3")]
        pub run_handler_pool_options: Option<experimental::RunHandlerPoolOptions>,
    }

    /// Parts of [`Experimental`].
    pub mod experimental {
        use prost::Message;

        /// Priority of a run in a shared pool.
        #[derive(Clone, Copy, PartialEq, Message)]
        pub struct RunHandlerPoolOptions {
            #[prost(int64, tag = "1")]
            pub priority: i64,
        }
    }
}

/// Which tensors the debugger watches.
#[derive(Clone, PartialEq, Message)]
pub struct DebugOptions {
    #[prost(message, repeated, tag = "4")]
    pub debug_tensor_watch_opts: Vec<DebugTensorWatch>,
    #[prost(int64, tag = "10")]
    pub global_step: i64,
    #[prost(bool, tag = "11")]
    pub reset_disk_byte_usage: bool,
}

/// One watched tensor.
#[derive(Clone, PartialEq, Message)]
pub struct DebugTensorWatch {
    #[prost(string, tag = "1")]
    pub node_name: String,
    #[prost(int32, tag = "2")]
    pub output_slot: i32,
    #[prost(string, repeated, tag = "3")]
    pub debug_ops: Vec<String>,
    #[prost(string, repeated, tag = "4")]
    pub debug_urls: Vec<String>,
    #[prost(bool, tag = "5")]
    pub tolerate_debug_op_creation_failures: bool,
}

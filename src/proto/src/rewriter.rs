//! Options of the graph optimizer.

use prost::Message;

/// Which rewrites are applied; toggles are `DEFAULT`, `ON`, `OFF` or `AGGRESSIVE`.
#[derive(Clone, PartialEq, Message)]
pub struct RewriterConfig {
    /// A `Toggle`.
    #[prost(int32, tag = "1")]
    pub layout_optimizer: i32,
    #[prost(bool, tag = "2")]
    pub disable_model_pruning: bool,
    /// A `Toggle`.
    #[prost(int32, tag = "3")]
    pub constant_folding: i32,
    /// A `MemOptType`.
    #[prost(int32, tag = "4")]
    pub memory_optimization: i32,
    #[prost(message, optional, tag = "5")]
    pub auto_parallel: Option<AutoParallelOptions>,
    #[prost(string, tag = "6")]
    pub memory_optimizer_target_node_name_scope: String,
    /// A `Toggle`.
    #[prost(int32, tag = "7")]
    pub arithmetic_optimization: i32,
    /// A `Toggle`.
    #[prost(int32, tag = "8")]
    pub dependency_optimization: i32,
    /// A `Toggle`.
    #[prost(int32, tag = "9")]
    pub loop_optimization: i32,
    /// A `Toggle`.
    #[prost(int32, tag = "10")]
    pub function_optimization: i32,
    /// A `Toggle`.
    #[prost(int32, tag = "11")]
    pub debug_stripper: i32,
    /// A `NumIterationsType`.
    #[prost(int32, tag = "12")]
    pub meta_optimizer_iterations: i32,
    /// A `Toggle`.
    #[prost(int32, tag = "13")]
    pub shape_optimization: i32,
    /// A `Toggle`.
    #[prost(int32, tag = "14")]
    pub remapping: i32,
    /// A `Toggle`.
    #[prost(int32, tag = "15")]
    pub scoped_allocator_optimization: i32,
    #[prost(message, optional, tag = "16")]
    pub scoped_allocator_opts: Option<ScopedAllocatorOptions>,
    #[prost(int32, tag = "17")]
    pub min_graph_nodes: i32,
    /// A `Toggle`.
    #[prost(int32, tag = "18")]
    pub pin_to_host_optimization: i32,
    #[prost(bool, tag = "19")]
    pub disable_meta_optimizer: bool,
    #[prost(int64, tag = "20")]
    pub meta_optimizer_timeout_ms: i64,
    #[prost(bool, tag = "21")]
    pub fail_on_optimizer_errors: bool,
    /// A `Toggle`.
    #[prost(int32, tag = "22")]
    pub implementation_selector: i32,
    /// A `Toggle`.
    #[prost(int32, tag = "23")]
    pub auto_mixed_precision: i32,
    /// A `Toggle`.
    #[prost(int32, tag = "24")]
    pub common_subgraph_elimination: i32,
    /// A `Toggle`.
    #[prost(int32, tag = "25")]
    pub auto_mixed_precision_mkl: i32,
    #[prost(bool, tag = "26")]
    pub experimental_disable_compressed_tensor_optimization: bool,
    #[prost(bool, tag = "27")]
    pub experimental_disable_folding_quantization_emulation: bool,
    /// A `Toggle`.
    #[prost(int32, tag = "28")]
    pub use_plugin_optimizers: i32,
    /// A `Toggle`.
    #[prost(int32, tag = "29")]
    pub auto_mixed_precision_cpu: i32,
    /// A `Toggle`.
    #[prost(int32, tag = "30")]
    pub experimental_conditional_code_motion: i32,
    /// A `Toggle`.
    #[prost(int32, tag = "31")]
    pub auto_mixed_precision_onednn_bfloat16: i32,
    #[prost(bool, tag = "32")]
    pub disable_tfg_optimizer: bool,
    /// A `CpuLayout`.
    #[prost(int32, tag = "50")]
    pub cpu_layout_conversion: i32,
    #[prost(string, repeated, tag = "100")]
    pub optimizers: Vec<String>,
    #[prost(message, repeated, tag = "200")]
    pub custom_optimizers: Vec<rewriter_config::CustomGraphOptimizer>,
    #[prost(message, optional, tag = "300")]
    pub inter_optimizer_verifier_config: Option<VerifierConfig>,
    #[prost(message, optional, tag = "301")]
    pub post_optimization_verifier_config: Option<VerifierConfig>,
}

impl RewriterConfig {
    // `Toggle`
    pub const DEFAULT: i32 = 0;
    pub const ON: i32 = 1;
    pub const OFF: i32 = 2;
    pub const AGGRESSIVE: i32 = 3;
    pub const EXPERIMENTAL_MLIR: i32 = 4;
    pub const EXPERIMENTAL_BOTH: i32 = 5;

    // `NumIterationsType`
    pub const DEFAULT_NUM_ITERS: i32 = 0;
    pub const ONE: i32 = 1;
    pub const TWO: i32 = 2;

    // `MemOptType`
    pub const DEFAULT_MEM_OPT: i32 = 0;
    pub const NO_MEM_OPT: i32 = 1;
    pub const MANUAL: i32 = 2;
    pub const SWAPPING_HEURISTICS: i32 = 4;
    pub const RECOMPUTATION_HEURISTICS: i32 = 5;
    pub const SCHEDULING_HEURISTICS: i32 = 6;
    pub const HEURISTICS: i32 = 3;
}

/// Parts of [`RewriterConfig`].
pub mod rewriter_config {
    use std::collections::BTreeMap;

    use prost::Message;

    /// A user-registered optimizer with its parameters.
    #[derive(Clone, PartialEq, Message)]
    pub struct CustomGraphOptimizer {
        #[prost(string, tag = "1")]
        pub name: String,
        #[prost(btree_map = "string, message", tag = "2")]
        pub parameter_map: BTreeMap<String, crate::AttrValue>,
    }
}

/// Options of automatic data parallelism.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct AutoParallelOptions {
    #[prost(bool, tag = "1")]
    pub enable: bool,
    #[prost(int32, tag = "2")]
    pub num_replicas: i32,
}

/// Ops whose outputs may share one buffer.
#[derive(Clone, PartialEq, Message)]
pub struct ScopedAllocatorOptions {
    #[prost(string, repeated, tag = "1")]
    pub enable_op: Vec<String>,
}

/// How graphs are checked between rewrites.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct VerifierConfig {
    #[prost(int64, tag = "1")]
    pub verification_timeout_in_ms: i64,
    /// A `Toggle`.
    #[prost(int32, tag = "2")]
    pub structure_verifier: i32,
}

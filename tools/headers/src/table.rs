//! Which header is made of what.

/// A header below `include/`.
pub(crate) struct Header {
    pub(crate) path: &'static str,
    pub(crate) system: &'static [&'static str],
    pub(crate) includes: &'static [&'static str],
    /// Files of `src/capi`, in the order in which their functions appear.
    pub(crate) sources: &'static [&'static str],
    /// What the sources have and the header does not.
    pub(crate) leave_out: &'static [&'static str],
    /// What the header has and no function of it mentions.
    pub(crate) add: &'static [&'static str],
    /// C code before the declarations: what Rust cannot say.
    pub(crate) before: &'static str,
}

/// Rust names with their names in C. A C enum holds any number, a Rust enum does not, so the functions
/// take a struct around an integer where C passes one.
pub(crate) const RENAMED: &[(&str, &str)] = &[
    ("TF_DataTypeNumber", "TF_DataType"),
    ("TF_CodeNumber", "TF_Code"),
    ("TFE_PolicyNumber", "TFE_ContextDevicePlacementPolicy"),
];

const NONE: Header = Header {
    path: "",
    system: &[],
    includes: &[],
    sources: &[],
    leave_out: &[],
    add: &[],
    before: "",
};

pub(crate) const HEADERS: &[Header] = &[
    Header {
        path: "tensorflow/c/c_api_macros.h",
        system: &["stddef.h"],
        before: include_str!("../parts/c_api_macros.h"),
        ..NONE
    },
    Header {
        path: "tensorflow/c/tf_attrtype.h",
        sources: &["tf_attrtype.rs"],
        add: &["TF_AttrType"],
        ..NONE
    },
    Header {
        path: "tensorflow/c/tf_buffer.h",
        system: &["stddef.h"],
        includes: &["tensorflow/c/c_api_macros.h"],
        sources: &["tf_buffer.rs"],
        ..NONE
    },
    Header {
        path: "tensorflow/c/tf_datatype.h",
        system: &["stddef.h"],
        includes: &["tensorflow/c/c_api_macros.h"],
        sources: &["tf_datatype.rs"],
        add: &["TF_DataType"],
        before: "// The older name.\n#define TF_COMPLEX TF_COMPLEX64",
        ..NONE
    },
    Header {
        path: "tensorflow/c/tf_status.h",
        includes: &["tensorflow/c/c_api_macros.h"],
        sources: &["tf_status.rs", "tsl_status.rs"],
        add: &["TF_Code"],
        before: include_str!("../parts/tf_status.h"),
        ..NONE
    },
    Header { path: "xla/tsl/c/tsl_status.h", includes: &["tensorflow/c/tf_status.h"], ..NONE },
    Header {
        path: "tensorflow/c/tf_tensor.h",
        system: &["stdbool.h", "stddef.h", "stdint.h"],
        includes: &[
            "tensorflow/c/c_api_macros.h",
            "tensorflow/c/tf_buffer.h",
            "tensorflow/c/tf_datatype.h",
            "tensorflow/c/tf_status.h",
        ],
        sources: &["tf_tensor.rs"],
        before: include_str!("../parts/tf_tensor.h"),
        ..NONE
    },
    Header {
        path: "tensorflow/c/tf_tstring.h",
        system: &["stdbool.h", "stddef.h", "stdint.h"],
        includes: &["tensorflow/c/c_api_macros.h", "tensorflow/c/tf_tensor.h"],
        sources: &["tf_tstring.rs"],
        leave_out: &["TF_TString", "TF_TString_Type"],
        before: include_str!("../parts/tf_tstring.h"),
        ..NONE
    },
    Header {
        path: "tensorflow/core/platform/ctstring.h",
        includes: &["tensorflow/c/tf_tstring.h"],
        ..NONE
    },
    Header {
        path: "tensorflow/c/c_api.h",
        system: &["stddef.h", "stdint.h"],
        includes: &[
            "tensorflow/c/c_api_macros.h",
            "tensorflow/c/tf_attrtype.h",
            "tensorflow/c/tf_buffer.h",
            "tensorflow/c/tf_datatype.h",
            "tensorflow/c/tf_status.h",
            "tensorflow/c/tf_tensor.h",
            "tensorflow/c/tf_tstring.h",
        ],
        sources: &[
            "version.rs",
            "graph.rs",
            "attr_set.rs",
            "operation.rs",
            "attr_get.rs",
            "mutate.rs",
            "import.rs",
            "function.rs",
            "while_loop.rs",
            "gradients.rs",
            "session.rs",
            "partial_run.rs",
            "deprecated_session.rs",
            "device_list.rs",
            "registry.rs",
            "library.rs",
            "server.rs",
            "filesystem_plugin.rs",
        ],
        leave_out: &["tfcore_version"],
        before: include_str!("../parts/c_api.h"),
        ..NONE
    },
    Header {
        path: "tensorflow/c/c_api_experimental.h",
        system: &["stddef.h", "stdint.h"],
        includes: &["tensorflow/c/c_api.h"],
        sources: &[
            "experimental.rs",
            "checkpoint_reader.rs",
            "xla.rs",
            "named_queue.rs",
            "shape_and_type.rs",
        ],
        ..NONE
    },
    Header {
        path: "tensorflow/c/eager/c_api.h",
        system: &["stddef.h", "stdint.h"],
        includes: &["tensorflow/c/c_api.h"],
        sources: &[
            "eager/context.rs",
            "eager/tensor_handle.rs",
            "eager/op.rs",
            "eager/attrs.rs",
            "eager/functions.rs",
        ],
        ..NONE
    },
    Header {
        path: "tensorflow/c/eager/c_api_experimental.h",
        system: &["stdbool.h", "stddef.h", "stdint.h"],
        includes: &["tensorflow/c/eager/c_api.h"],
        sources: &[
            "eager/experimental.rs",
            "eager/op_experimental.rs",
            "eager/cancellation.rs",
            "eager/executor.rs",
            "eager/op_attrs.rs",
            "eager/placement.rs",
            "eager/tensor_memory.rs",
            "eager/cluster.rs",
            "eager/custom_device.rs",
            "eager/monitoring.rs",
        ],
        ..NONE
    },
    Header {
        path: "tensorflow/c/ops.h",
        system: &["stdbool.h", "stddef.h", "stdint.h"],
        includes: &[
            "tensorflow/c/c_api_macros.h",
            "tensorflow/c/tf_datatype.h",
            "tensorflow/c/tf_status.h",
        ],
        sources: &["ops.rs"],
        ..NONE
    },
    Header {
        path: "tensorflow/c/tf_file_statistics.h",
        system: &["stdbool.h", "stdint.h"],
        sources: &["tf_file_statistics.rs"],
        add: &["TF_FileStatistics"],
        ..NONE
    },
    Header {
        path: "tensorflow/c/env.h",
        system: &["stdbool.h", "stddef.h", "stdint.h"],
        includes: &[
            "tensorflow/c/c_api_macros.h",
            "tensorflow/c/tf_file_statistics.h",
            "tensorflow/c/tf_status.h",
        ],
        sources: &["env.rs", "env_files.rs"],
        ..NONE
    },
    Header {
        path: "tensorflow/c/experimental/filesystem/filesystem_interface.h",
        system: &["stdbool.h", "stddef.h", "stdint.h"],
        includes: &[
            "tensorflow/c/c_api_macros.h",
            "tensorflow/c/tf_file_statistics.h",
            "tensorflow/c/tf_status.h",
        ],
        before: include_str!("../parts/filesystem_interface.h"),
        ..NONE
    },
    Header {
        path: "tensorflow/c/experimental/stream_executor/stream_executor.h",
        system: &["stddef.h", "stdint.h"],
        includes: &["tensorflow/c/c_api_macros.h", "tensorflow/c/tf_status.h"],
        before: include_str!("../parts/stream_executor.h"),
        ..NONE
    },
    Header {
        path: "tensorflow/c/experimental/pluggable_profiler/pluggable_profiler.h",
        system: &["stddef.h", "stdint.h"],
        includes: &["tensorflow/c/c_api_macros.h", "tensorflow/c/tf_status.h"],
        before: include_str!("../parts/pluggable_profiler.h"),
        ..NONE
    },
    Header {
        path: "tensorflow/core/common_runtime/next_pluggable_device/c/tf_rendezvous_c_api.h",
        system: &["stdbool.h", "stdint.h"],
        includes: &[
            "tensorflow/c/c_api_macros.h",
            "tensorflow/c/tf_status.h",
            "tensorflow/c/tf_tensor.h",
        ],
        before: include_str!("../parts/tf_rendezvous_c_api.h"),
        ..NONE
    },
    Header {
        path: "tensorflow/c/kernels.h",
        system: &["stdbool.h", "stddef.h", "stdint.h"],
        includes: &[
            "tensorflow/c/c_api.h",
            "tensorflow/c/experimental/stream_executor/stream_executor.h",
            "tensorflow/core/common_runtime/next_pluggable_device/c/tf_rendezvous_c_api.h",
        ],
        sources: &["kernel_builder.rs", "kernel_construction.rs", "kernel_context.rs"],
        before: include_str!("../parts/kernels.h"),
        ..NONE
    },
    Header {
        path: "tensorflow/c/kernels_experimental.h",
        includes: &["tensorflow/c/kernels.h"],
        sources: &["kernel_variables.rs"],
        ..NONE
    },
    Header {
        path: "tensorflow/c/experimental/grappler/grappler.h",
        system: &["stddef.h", "stdint.h"],
        includes: &["tensorflow/c/c_api.h"],
        sources: &["grappler.rs"],
        leave_out: &["TF_GrapplerItem"],
        before: include_str!("../parts/grappler.h"),
        ..NONE
    },
    Header {
        path: "tensorflow/c/experimental/next_pluggable_device/c_api.h",
        includes: &["tensorflow/c/kernels.h", "tensorflow/c/kernels_experimental.h"],
        sources: &["next_pluggable_device.rs"],
        ..NONE
    },
    Header {
        path: "tfcore.h",
        includes: &[
            "tensorflow/c/c_api.h",
            "tensorflow/c/c_api_experimental.h",
            "tensorflow/c/eager/c_api_experimental.h",
            "tensorflow/c/env.h",
            "tensorflow/c/experimental/filesystem/filesystem_interface.h",
            "tensorflow/c/experimental/grappler/grappler.h",
            "tensorflow/c/experimental/next_pluggable_device/c_api.h",
            "tensorflow/c/experimental/pluggable_profiler/pluggable_profiler.h",
            "tensorflow/c/kernels_experimental.h",
            "tensorflow/c/ops.h",
        ],
        sources: &["version.rs"],
        leave_out: &["TF_Version"],
        ..NONE
    },
];

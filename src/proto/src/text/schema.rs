//! The fields of the messages that have a text form: names, numbers and types, as TensorFlow's `.proto` files
//! declare them.

use tfcore_base::DType;

/// A message.
pub(super) struct Type {
    /// With its package, as errors show it.
    pub(super) name: &'static str,
    pub(super) fields: &'static [Field],
}

/// A field of a message.
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) number: u32,
    pub(super) value: Value,
    pub(super) repeated: bool,
    /// Whether the messages are entries of a map: field 1 is the key, field 2 the value.
    pub(super) is_map: bool,
    /// The group of alternatives that the field belongs to.
    pub(super) oneof: Option<&'static str>,
}

/// What a field holds.
#[derive(Clone, Copy)]
pub(super) enum Value {
    Bool,
    Int32,
    Int64,
    Uint32,
    Uint64,
    Fixed64,
    Float,
    Double,
    String,
    Bytes,
    Enum(&'static EnumType),
    Message(&'static Type),
}

/// The names of numbers.
pub(super) struct EnumType {
    pub(super) number_of: fn(&str) -> Option<i32>,
    pub(super) name_of: fn(i32) -> Option<String>,
}

pub(super) const fn one(number: u32, name: &'static str, value: Value) -> Field {
    Field { name, number, value, repeated: false, is_map: false, oneof: None }
}

pub(super) const fn many(number: u32, name: &'static str, value: Value) -> Field {
    Field { repeated: true, ..one(number, name, value) }
}

pub(super) const fn map(number: u32, name: &'static str, entry: &'static Type) -> Field {
    Field { is_map: true, ..many(number, name, Value::Message(entry)) }
}

pub(super) const fn one_of(
    group: &'static str,
    number: u32,
    name: &'static str,
    value: Value,
) -> Field {
    Field { oneof: Some(group), ..one(number, name, value) }
}

/// `DT_FLOAT`
pub(super) static DATA_TYPE: EnumType = EnumType {
    number_of: |name| match name {
        "DT_INVALID" => Some(0),
        _ if name.starts_with("DT_") => DType::from_name(name).map(DType::to_i32),
        _ => None,
    },
    name_of: |number| match number {
        0 => Some("DT_INVALID".to_string()),
        _ => DType::from_i32(number).map(DType::enum_name),
    },
};

static VISIBILITY: EnumType = EnumType {
    number_of: |name| number_in(VISIBILITIES, name),
    name_of: |number| name_in(VISIBILITIES, number),
};

const VISIBILITIES: &[(&str, i32)] =
    &[("DEFAULT_VISIBILITY", 0), ("VISIBLE", 1), ("SKIP", 2), ("HIDDEN", 3)];

static FULL_TYPE_ID: EnumType = EnumType {
    number_of: |name| number_in(FULL_TYPE_IDS, name),
    name_of: |number| name_in(FULL_TYPE_IDS, number),
};

const FULL_TYPE_IDS: &[(&str, i32)] = &[
    ("TFT_UNSET", 0),
    ("TFT_VAR", 1),
    ("TFT_ANY", 2),
    ("TFT_PRODUCT", 3),
    ("TFT_NAMED", 4),
    ("TFT_FOR_EACH", 20),
    ("TFT_CALLABLE", 100),
    ("TFT_BOOL", 200),
    ("TFT_UINT8", 201),
    ("TFT_UINT16", 202),
    ("TFT_UINT32", 203),
    ("TFT_UINT64", 204),
    ("TFT_INT8", 205),
    ("TFT_INT16", 206),
    ("TFT_INT32", 207),
    ("TFT_INT64", 208),
    ("TFT_HALF", 209),
    ("TFT_FLOAT", 210),
    ("TFT_DOUBLE", 211),
    ("TFT_COMPLEX64", 212),
    ("TFT_COMPLEX128", 213),
    ("TFT_STRING", 214),
    ("TFT_BFLOAT16", 215),
    ("TFT_TENSOR", 1000),
    ("TFT_ARRAY", 1001),
    ("TFT_OPTIONAL", 1002),
    ("TFT_LITERAL", 1003),
    ("TFT_ENCODED", 1004),
    ("TFT_SHAPE_TENSOR", 1005),
    ("TFT_DATASET", 10102),
    ("TFT_RAGGED", 10103),
    ("TFT_ITERATOR", 10104),
    ("TFT_MUTEX_LOCK", 10202),
    ("TFT_LEGACY_VARIANT", 10203),
];

pub(super) fn number_in(names: &[(&str, i32)], name: &str) -> Option<i32> {
    names.iter().find(|(known, _)| *known == name).map(|&(_, number)| number)
}

pub(super) fn name_in(names: &[(&str, i32)], number: i32) -> Option<String> {
    names.iter().find(|&&(_, known)| known == number).map(|(name, _)| name.to_string())
}

pub(super) static GRAPH_DEF: Type = Type {
    name: "tensorflow.GraphDef",
    fields: &[
        many(1, "node", Value::Message(&NODE_DEF)),
        one(2, "library", Value::Message(&FUNCTION_DEF_LIBRARY)),
        one(3, "version", Value::Int32),
        one(4, "versions", Value::Message(&VERSION_DEF)),
        one(5, "debug_info", Value::Message(&GRAPH_DEBUG_INFO)),
    ],
};

pub(super) static NODE_DEF: Type = Type {
    name: "tensorflow.NodeDef",
    fields: &[
        one(1, "name", Value::String),
        one(2, "op", Value::String),
        many(3, "input", Value::String),
        one(4, "device", Value::String),
        map(5, "attr", &NODE_DEF_ATTR_ENTRY),
        one(6, "experimental_debug_info", Value::Message(&NODE_DEF_EXPERIMENTAL_DEBUG_INFO)),
        one(7, "experimental_type", Value::Message(&FULL_TYPE_DEF)),
    ],
};

pub(super) static NODE_DEF_ATTR_ENTRY: Type = Type {
    name: "tensorflow.NodeDef.AttrEntry",
    fields: &[one(1, "key", Value::String), one(2, "value", Value::Message(&ATTR_VALUE))],
};

pub(super) static ATTR_VALUE: Type = Type {
    name: "tensorflow.AttrValue",
    fields: &[
        one_of("value", 1, "list", Value::Message(&ATTR_VALUE_LIST_VALUE)),
        one_of("value", 2, "s", Value::Bytes),
        one_of("value", 3, "i", Value::Int64),
        one_of("value", 4, "f", Value::Float),
        one_of("value", 5, "b", Value::Bool),
        one_of("value", 6, "type", Value::Enum(&DATA_TYPE)),
        one_of("value", 7, "shape", Value::Message(&TENSOR_SHAPE_PROTO)),
        one_of("value", 8, "tensor", Value::Message(&TENSOR_PROTO)),
        one_of("value", 9, "placeholder", Value::String),
        one_of("value", 10, "func", Value::Message(&NAME_ATTR_LIST)),
    ],
};

pub(super) static ATTR_VALUE_LIST_VALUE: Type = Type {
    name: "tensorflow.AttrValue.ListValue",
    fields: &[
        many(2, "s", Value::Bytes),
        many(3, "i", Value::Int64),
        many(4, "f", Value::Float),
        many(5, "b", Value::Bool),
        many(6, "type", Value::Enum(&DATA_TYPE)),
        many(7, "shape", Value::Message(&TENSOR_SHAPE_PROTO)),
        many(8, "tensor", Value::Message(&TENSOR_PROTO)),
        many(9, "func", Value::Message(&NAME_ATTR_LIST)),
    ],
};

pub(super) static TENSOR_SHAPE_PROTO: Type = Type {
    name: "tensorflow.TensorShapeProto",
    fields: &[
        many(2, "dim", Value::Message(&TENSOR_SHAPE_PROTO_DIM)),
        one(3, "unknown_rank", Value::Bool),
    ],
};

pub(super) static TENSOR_SHAPE_PROTO_DIM: Type = Type {
    name: "tensorflow.TensorShapeProto.Dim",
    fields: &[one(1, "size", Value::Int64), one(2, "name", Value::String)],
};

pub(super) static TENSOR_PROTO: Type = Type {
    name: "tensorflow.TensorProto",
    fields: &[
        one(1, "dtype", Value::Enum(&DATA_TYPE)),
        one(2, "tensor_shape", Value::Message(&TENSOR_SHAPE_PROTO)),
        one(3, "version_number", Value::Int32),
        one(4, "tensor_content", Value::Bytes),
        many(5, "float_val", Value::Float),
        many(6, "double_val", Value::Double),
        many(7, "int_val", Value::Int32),
        many(8, "string_val", Value::Bytes),
        many(9, "scomplex_val", Value::Float),
        many(10, "int64_val", Value::Int64),
        many(11, "bool_val", Value::Bool),
        many(12, "dcomplex_val", Value::Double),
        many(13, "half_val", Value::Int32),
        many(14, "resource_handle_val", Value::Message(&RESOURCE_HANDLE_PROTO)),
        many(15, "variant_val", Value::Message(&VARIANT_TENSOR_DATA_PROTO)),
        many(16, "uint32_val", Value::Uint32),
        many(17, "uint64_val", Value::Uint64),
        one(18, "float8_val", Value::Bytes),
    ],
};

pub(super) static RESOURCE_HANDLE_PROTO: Type = Type {
    name: "tensorflow.ResourceHandleProto",
    fields: &[
        one(1, "device", Value::String),
        one(2, "container", Value::String),
        one(3, "name", Value::String),
        one(4, "hash_code", Value::Uint64),
        one(5, "maybe_type_name", Value::String),
        many(6, "dtypes_and_shapes", Value::Message(&RESOURCE_HANDLE_PROTO_DTYPE_AND_SHAPE)),
    ],
};

pub(super) static RESOURCE_HANDLE_PROTO_DTYPE_AND_SHAPE: Type = Type {
    name: "tensorflow.ResourceHandleProto.DtypeAndShape",
    fields: &[
        one(1, "dtype", Value::Enum(&DATA_TYPE)),
        one(2, "shape", Value::Message(&TENSOR_SHAPE_PROTO)),
    ],
};

pub(super) static VARIANT_TENSOR_DATA_PROTO: Type = Type {
    name: "tensorflow.VariantTensorDataProto",
    fields: &[
        one(1, "type_name", Value::String),
        one(2, "metadata", Value::Bytes),
        many(3, "tensors", Value::Message(&TENSOR_PROTO)),
    ],
};

pub(super) static NAME_ATTR_LIST: Type = Type {
    name: "tensorflow.NameAttrList",
    fields: &[one(1, "name", Value::String), map(2, "attr", &NAME_ATTR_LIST_ATTR_ENTRY)],
};

pub(super) static NAME_ATTR_LIST_ATTR_ENTRY: Type = Type {
    name: "tensorflow.NameAttrList.AttrEntry",
    fields: &[one(1, "key", Value::String), one(2, "value", Value::Message(&ATTR_VALUE))],
};

pub(super) static NODE_DEF_EXPERIMENTAL_DEBUG_INFO: Type = Type {
    name: "tensorflow.NodeDef.ExperimentalDebugInfo",
    fields: &[
        many(1, "original_node_names", Value::String),
        many(2, "original_func_names", Value::String),
    ],
};

pub(super) static FULL_TYPE_DEF: Type = Type {
    name: "tensorflow.FullTypeDef",
    fields: &[
        one(1, "type_id", Value::Enum(&FULL_TYPE_ID)),
        many(2, "args", Value::Message(&FULL_TYPE_DEF)),
        one_of("attr", 3, "s", Value::String),
        one_of("attr", 4, "i", Value::Int64),
    ],
};

pub(super) static FUNCTION_DEF_LIBRARY: Type = Type {
    name: "tensorflow.FunctionDefLibrary",
    fields: &[
        many(1, "function", Value::Message(&FUNCTION_DEF)),
        many(2, "gradient", Value::Message(&GRADIENT_DEF)),
        many(3, "registered_gradients", Value::Message(&REGISTERED_GRADIENT)),
    ],
};

pub(super) static FUNCTION_DEF: Type = Type {
    name: "tensorflow.FunctionDef",
    fields: &[
        one(1, "signature", Value::Message(&OP_DEF)),
        many(3, "node_def", Value::Message(&NODE_DEF)),
        map(4, "ret", &FUNCTION_DEF_RET_ENTRY),
        map(5, "attr", &FUNCTION_DEF_ATTR_ENTRY),
        map(6, "control_ret", &FUNCTION_DEF_CONTROL_RET_ENTRY),
        map(7, "arg_attr", &FUNCTION_DEF_ARG_ATTR_ENTRY),
        map(8, "resource_arg_unique_id", &FUNCTION_DEF_RESOURCE_ARG_UNIQUE_ID_ENTRY),
    ],
};

pub(super) static OP_DEF: Type = Type {
    name: "tensorflow.OpDef",
    fields: &[
        one(1, "name", Value::String),
        many(2, "input_arg", Value::Message(&OP_DEF_ARG_DEF)),
        many(3, "output_arg", Value::Message(&OP_DEF_ARG_DEF)),
        many(4, "attr", Value::Message(&OP_DEF_ATTR_DEF)),
        one(5, "summary", Value::String),
        one(6, "description", Value::String),
        one(8, "deprecation", Value::Message(&OP_DEPRECATION)),
        one(16, "is_aggregate", Value::Bool),
        one(17, "is_stateful", Value::Bool),
        one(18, "is_commutative", Value::Bool),
        one(19, "allows_uninitialized_input", Value::Bool),
        many(20, "control_output", Value::String),
        one(21, "is_distributed_communication", Value::Bool),
    ],
};

pub(super) static OP_DEF_ARG_DEF: Type = Type {
    name: "tensorflow.OpDef.ArgDef",
    fields: &[
        one(1, "name", Value::String),
        one(2, "description", Value::String),
        one(3, "type", Value::Enum(&DATA_TYPE)),
        one(4, "type_attr", Value::String),
        one(5, "number_attr", Value::String),
        one(6, "type_list_attr", Value::String),
        many(7, "handle_data", Value::Message(&RESOURCE_HANDLE_PROTO_DTYPE_AND_SHAPE)),
        one(16, "is_ref", Value::Bool),
        one(17, "experimental_full_type", Value::Message(&FULL_TYPE_DEF)),
    ],
};

pub(super) static OP_DEF_ATTR_DEF: Type = Type {
    name: "tensorflow.OpDef.AttrDef",
    fields: &[
        one(1, "name", Value::String),
        one(2, "type", Value::String),
        one(3, "default_value", Value::Message(&ATTR_VALUE)),
        one(4, "description", Value::String),
        one(5, "has_minimum", Value::Bool),
        one(6, "minimum", Value::Int64),
        one(7, "allowed_values", Value::Message(&ATTR_VALUE)),
    ],
};

pub(super) static OP_DEPRECATION: Type = Type {
    name: "tensorflow.OpDeprecation",
    fields: &[one(1, "version", Value::Int32), one(2, "explanation", Value::String)],
};

pub(super) static FUNCTION_DEF_RET_ENTRY: Type = Type {
    name: "tensorflow.FunctionDef.RetEntry",
    fields: &[one(1, "key", Value::String), one(2, "value", Value::String)],
};

pub(super) static FUNCTION_DEF_ATTR_ENTRY: Type = Type {
    name: "tensorflow.FunctionDef.AttrEntry",
    fields: &[one(1, "key", Value::String), one(2, "value", Value::Message(&ATTR_VALUE))],
};

pub(super) static FUNCTION_DEF_CONTROL_RET_ENTRY: Type = Type {
    name: "tensorflow.FunctionDef.ControlRetEntry",
    fields: &[one(1, "key", Value::String), one(2, "value", Value::String)],
};

pub(super) static FUNCTION_DEF_ARG_ATTR_ENTRY: Type = Type {
    name: "tensorflow.FunctionDef.ArgAttrEntry",
    fields: &[
        one(1, "key", Value::Uint32),
        one(2, "value", Value::Message(&FUNCTION_DEF_ARG_ATTRS)),
    ],
};

pub(super) static FUNCTION_DEF_ARG_ATTRS: Type = Type {
    name: "tensorflow.FunctionDef.ArgAttrs",
    fields: &[map(1, "attr", &FUNCTION_DEF_ARG_ATTRS_ATTR_ENTRY)],
};

pub(super) static FUNCTION_DEF_ARG_ATTRS_ATTR_ENTRY: Type = Type {
    name: "tensorflow.FunctionDef.ArgAttrs.AttrEntry",
    fields: &[one(1, "key", Value::String), one(2, "value", Value::Message(&ATTR_VALUE))],
};

pub(super) static FUNCTION_DEF_RESOURCE_ARG_UNIQUE_ID_ENTRY: Type = Type {
    name: "tensorflow.FunctionDef.ResourceArgUniqueIdEntry",
    fields: &[one(1, "key", Value::Uint32), one(2, "value", Value::Uint32)],
};

pub(super) static GRADIENT_DEF: Type = Type {
    name: "tensorflow.GradientDef",
    fields: &[one(1, "function_name", Value::String), one(2, "gradient_func", Value::String)],
};

pub(super) static REGISTERED_GRADIENT: Type = Type {
    name: "tensorflow.RegisteredGradient",
    fields: &[one(1, "gradient_func", Value::String), one(2, "registered_op_type", Value::String)],
};

pub(super) static VERSION_DEF: Type = Type {
    name: "tensorflow.VersionDef",
    fields: &[
        one(1, "producer", Value::Int32),
        one(2, "min_consumer", Value::Int32),
        many(3, "bad_consumers", Value::Int32),
    ],
};

pub(super) static GRAPH_DEBUG_INFO: Type = Type {
    name: "tensorflow.GraphDebugInfo",
    fields: &[
        many(1, "files", Value::String),
        map(2, "traces", &GRAPH_DEBUG_INFO_TRACES_ENTRY),
        map(4, "frames_by_id", &GRAPH_DEBUG_INFO_FRAMES_BY_ID_ENTRY),
        map(5, "name_to_trace_id", &GRAPH_DEBUG_INFO_NAME_TO_TRACE_ID_ENTRY),
        map(6, "traces_by_id", &GRAPH_DEBUG_INFO_TRACES_BY_ID_ENTRY),
    ],
};

pub(super) static GRAPH_DEBUG_INFO_TRACES_ENTRY: Type = Type {
    name: "tensorflow.GraphDebugInfo.TracesEntry",
    fields: &[
        one(1, "key", Value::String),
        one(2, "value", Value::Message(&GRAPH_DEBUG_INFO_STACK_TRACE)),
    ],
};

pub(super) static GRAPH_DEBUG_INFO_STACK_TRACE: Type = Type {
    name: "tensorflow.GraphDebugInfo.StackTrace",
    fields: &[
        many(1, "file_line_cols", Value::Message(&GRAPH_DEBUG_INFO_FILE_LINE_COL)),
        many(2, "frame_id", Value::Fixed64),
    ],
};

pub(super) static GRAPH_DEBUG_INFO_FILE_LINE_COL: Type = Type {
    name: "tensorflow.GraphDebugInfo.FileLineCol",
    fields: &[
        one(1, "file_index", Value::Int32),
        one(2, "line", Value::Int32),
        one(3, "col", Value::Int32),
        one(4, "func", Value::String),
        one(5, "code", Value::String),
    ],
};

pub(super) static GRAPH_DEBUG_INFO_FRAMES_BY_ID_ENTRY: Type = Type {
    name: "tensorflow.GraphDebugInfo.FramesByIdEntry",
    fields: &[
        one(1, "key", Value::Fixed64),
        one(2, "value", Value::Message(&GRAPH_DEBUG_INFO_FILE_LINE_COL)),
    ],
};

pub(super) static GRAPH_DEBUG_INFO_NAME_TO_TRACE_ID_ENTRY: Type = Type {
    name: "tensorflow.GraphDebugInfo.NameToTraceIdEntry",
    fields: &[one(1, "key", Value::String), one(2, "value", Value::Fixed64)],
};

pub(super) static GRAPH_DEBUG_INFO_TRACES_BY_ID_ENTRY: Type = Type {
    name: "tensorflow.GraphDebugInfo.TracesByIdEntry",
    fields: &[
        one(1, "key", Value::Fixed64),
        one(2, "value", Value::Message(&GRAPH_DEBUG_INFO_STACK_TRACE)),
    ],
};

pub(super) static API_DEFS: Type =
    Type { name: "tensorflow.ApiDefs", fields: &[many(1, "op", Value::Message(&API_DEF))] };

pub(super) static API_DEF: Type = Type {
    name: "tensorflow.ApiDef",
    fields: &[
        one(1, "graph_op_name", Value::String),
        one(2, "visibility", Value::Enum(&VISIBILITY)),
        many(3, "endpoint", Value::Message(&API_DEF_ENDPOINT)),
        many(4, "in_arg", Value::Message(&API_DEF_ARG)),
        many(5, "out_arg", Value::Message(&API_DEF_ARG)),
        many(6, "attr", Value::Message(&API_DEF_ATTR)),
        one(7, "summary", Value::String),
        one(8, "description", Value::String),
        one(9, "description_prefix", Value::String),
        one(10, "description_suffix", Value::String),
        many(11, "arg_order", Value::String),
        one(12, "deprecation_message", Value::String),
        one(13, "deprecation_version", Value::Int32),
    ],
};

pub(super) static API_DEF_ENDPOINT: Type = Type {
    name: "tensorflow.ApiDef.Endpoint",
    fields: &[
        one(1, "name", Value::String),
        one(3, "deprecated", Value::Bool),
        one(4, "deprecation_version", Value::Int32),
    ],
};

pub(super) static API_DEF_ARG: Type = Type {
    name: "tensorflow.ApiDef.Arg",
    fields: &[
        one(1, "name", Value::String),
        one(2, "rename_to", Value::String),
        one(3, "description", Value::String),
    ],
};

pub(super) static API_DEF_ATTR: Type = Type {
    name: "tensorflow.ApiDef.Attr",
    fields: &[
        one(1, "name", Value::String),
        one(2, "rename_to", Value::String),
        one(3, "default_value", Value::Message(&ATTR_VALUE)),
        one(4, "description", Value::String),
    ],
};

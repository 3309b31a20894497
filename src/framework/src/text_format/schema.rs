//! The names of the fields of graphs and functions, by their numbers.

/// The fields of a message.
pub(super) struct Schema {
    pub(super) fields: &'static [Field],
    /// Whether it is the entry of a map: fields 1, the key, and 2, the value.
    pub(super) is_entry: bool,
}

pub(super) struct Field {
    pub(super) number: u32,
    pub(super) name: &'static str,
    pub(super) kind: Kind,
}

/// What a field holds, and how it is written.
pub(super) enum Kind {
    Bool,
    Signed,
    Unsigned,
    /// Eight bytes, unsigned.
    Fixed,
    Float,
    Double,
    /// A `DataType`.
    DType,
    /// A `FullTypeId`.
    FullType,
    Text,
    Bytes,
    Message(&'static Schema),
}

use Kind::{Bool, Bytes, Double, Fixed, Float, FullType, Message, Signed, Text, Unsigned};

const fn field(number: u32, name: &'static str, kind: Kind) -> Field {
    Field { number, name, kind }
}

const fn message(fields: &'static [Field]) -> Schema {
    Schema { fields, is_entry: false }
}

const fn entry(fields: &'static [Field; 2]) -> Schema {
    Schema { fields, is_entry: true }
}

pub(super) static GRAPH: Schema = message(&[
    field(1, "node", Message(&NODE)),
    field(2, "library", Message(&LIBRARY)),
    field(3, "version", Signed),
    field(4, "versions", Message(&VERSIONS)),
    field(5, "debug_info", Message(&DEBUG_INFO)),
]);

static NODE: Schema = message(&[
    field(1, "name", Text),
    field(2, "op", Text),
    field(3, "input", Text),
    field(4, "device", Text),
    field(5, "attr", Message(&ATTR_ENTRY)),
    field(6, "experimental_debug_info", Message(&NODE_DEBUG_INFO)),
    field(7, "experimental_type", Message(&FULL_TYPE)),
]);

static NODE_DEBUG_INFO: Schema =
    message(&[field(1, "original_node_names", Text), field(2, "original_func_names", Text)]);

static VERSIONS: Schema = message(&[
    field(1, "producer", Signed),
    field(2, "min_consumer", Signed),
    field(3, "bad_consumers", Signed),
]);

static DEBUG_INFO: Schema = message(&[
    field(1, "files", Text),
    field(2, "traces", Message(&TRACES_ENTRY)),
    field(4, "frames_by_id", Message(&FRAMES_ENTRY)),
    field(5, "name_to_trace_id", Message(&TRACE_ID_ENTRY)),
    field(6, "traces_by_id", Message(&TRACES_BY_ID_ENTRY)),
]);
static TRACES_ENTRY: Schema =
    entry(&[field(1, "key", Text), field(2, "value", Message(&STACK_TRACE))]);
static FRAMES_ENTRY: Schema =
    entry(&[field(1, "key", Fixed), field(2, "value", Message(&FILE_LINE))]);
static TRACE_ID_ENTRY: Schema = entry(&[field(1, "key", Text), field(2, "value", Fixed)]);
static TRACES_BY_ID_ENTRY: Schema =
    entry(&[field(1, "key", Fixed), field(2, "value", Message(&STACK_TRACE))]);
static STACK_TRACE: Schema =
    message(&[field(1, "file_line_cols", Message(&FILE_LINE)), field(2, "frame_id", Fixed)]);
static FILE_LINE: Schema = message(&[
    field(1, "file_index", Signed),
    field(2, "line", Signed),
    field(3, "col", Signed),
    field(4, "func", Text),
    field(5, "code", Text),
]);

static ATTR_ENTRY: Schema = entry(&[field(1, "key", Text), field(2, "value", Message(&ATTR))]);

static ATTR: Schema = message(&[
    field(1, "list", Message(&ATTR_LIST)),
    field(2, "s", Bytes),
    field(3, "i", Signed),
    field(4, "f", Float),
    field(5, "b", Bool),
    field(6, "type", Kind::DType),
    field(7, "shape", Message(&SHAPE)),
    field(8, "tensor", Message(&TENSOR)),
    field(9, "placeholder", Text),
    field(10, "func", Message(&NAME_ATTR_LIST)),
]);

static ATTR_LIST: Schema = message(&[
    field(2, "s", Bytes),
    field(3, "i", Signed),
    field(4, "f", Float),
    field(5, "b", Bool),
    field(6, "type", Kind::DType),
    field(7, "shape", Message(&SHAPE)),
    field(8, "tensor", Message(&TENSOR)),
    field(9, "func", Message(&NAME_ATTR_LIST)),
]);

static NAME_ATTR_LIST: Schema =
    message(&[field(1, "name", Text), field(2, "attr", Message(&ATTR_ENTRY))]);

static SHAPE: Schema = message(&[field(2, "dim", Message(&DIM)), field(3, "unknown_rank", Bool)]);
static DIM: Schema = message(&[field(1, "size", Signed), field(2, "name", Text)]);

static TENSOR: Schema = message(&[
    field(1, "dtype", Kind::DType),
    field(2, "tensor_shape", Message(&SHAPE)),
    field(3, "version_number", Signed),
    field(4, "tensor_content", Bytes),
    field(5, "float_val", Float),
    field(6, "double_val", Double),
    field(7, "int_val", Signed),
    field(8, "string_val", Bytes),
    field(9, "scomplex_val", Float),
    field(10, "int64_val", Signed),
    field(11, "bool_val", Bool),
    field(12, "dcomplex_val", Double),
    field(13, "half_val", Signed),
    field(14, "resource_handle_val", Message(&RESOURCE_HANDLE)),
    field(15, "variant_val", Message(&VARIANT)),
    field(16, "uint32_val", Unsigned),
    field(17, "uint64_val", Unsigned),
    field(18, "float8_val", Bytes),
]);

static RESOURCE_HANDLE: Schema = message(&[
    field(1, "device", Text),
    field(2, "container", Text),
    field(3, "name", Text),
    field(4, "hash_code", Unsigned),
    field(5, "maybe_type_name", Text),
    field(6, "dtypes_and_shapes", Message(&DTYPE_AND_SHAPE)),
]);
static DTYPE_AND_SHAPE: Schema =
    message(&[field(1, "dtype", Kind::DType), field(2, "shape", Message(&SHAPE))]);
static VARIANT: Schema = message(&[
    field(1, "type_name", Text),
    field(2, "metadata", Bytes),
    field(3, "tensors", Message(&TENSOR)),
]);

static FULL_TYPE: Schema = message(&[
    field(1, "type_id", FullType),
    field(2, "args", Message(&FULL_TYPE)),
    field(3, "s", Text),
    field(4, "i", Signed),
]);

static LIBRARY: Schema = message(&[
    field(1, "function", Message(&FUNCTION)),
    field(2, "gradient", Message(&GRADIENT)),
    field(3, "registered_gradients", Message(&REGISTERED_GRADIENT)),
]);
static GRADIENT: Schema =
    message(&[field(1, "function_name", Text), field(2, "gradient_func", Text)]);
static REGISTERED_GRADIENT: Schema =
    message(&[field(1, "gradient_func", Text), field(2, "registered_op_type", Text)]);

pub(super) static FUNCTION: Schema = message(&[
    field(1, "signature", Message(&OP)),
    field(3, "node_def", Message(&NODE)),
    field(4, "ret", Message(&TEXT_ENTRY)),
    field(5, "attr", Message(&ATTR_ENTRY)),
    field(6, "control_ret", Message(&TEXT_ENTRY)),
    field(7, "arg_attr", Message(&ARG_ATTR_ENTRY)),
    field(8, "resource_arg_unique_id", Message(&ID_ENTRY)),
]);
static TEXT_ENTRY: Schema = entry(&[field(1, "key", Text), field(2, "value", Text)]);
static ID_ENTRY: Schema = entry(&[field(1, "key", Unsigned), field(2, "value", Unsigned)]);
static ARG_ATTR_ENTRY: Schema =
    entry(&[field(1, "key", Unsigned), field(2, "value", Message(&ARG_ATTRS))]);
static ARG_ATTRS: Schema = message(&[field(1, "attr", Message(&ATTR_ENTRY))]);

static OP: Schema = message(&[
    field(1, "name", Text),
    field(2, "input_arg", Message(&ARG)),
    field(3, "output_arg", Message(&ARG)),
    field(4, "attr", Message(&ATTR_DEF)),
    field(5, "summary", Text),
    field(6, "description", Text),
    field(8, "deprecation", Message(&DEPRECATION)),
    field(16, "is_aggregate", Bool),
    field(17, "is_stateful", Bool),
    field(18, "is_commutative", Bool),
    field(19, "allows_uninitialized_input", Bool),
    field(20, "control_output", Text),
    field(21, "is_distributed_communication", Bool),
]);
static ARG: Schema = message(&[
    field(1, "name", Text),
    field(2, "description", Text),
    field(3, "type", Kind::DType),
    field(4, "type_attr", Text),
    field(5, "number_attr", Text),
    field(6, "type_list_attr", Text),
    field(7, "handle_data", Message(&DTYPE_AND_SHAPE)),
    field(16, "is_ref", Bool),
    field(17, "experimental_full_type", Message(&FULL_TYPE)),
]);
static ATTR_DEF: Schema = message(&[
    field(1, "name", Text),
    field(2, "type", Text),
    field(3, "default_value", Message(&ATTR)),
    field(4, "description", Text),
    field(5, "has_minimum", Bool),
    field(6, "minimum", Signed),
    field(7, "allowed_values", Message(&ATTR)),
]);
static DEPRECATION: Schema = message(&[field(1, "version", Signed), field(2, "explanation", Text)]);

/// The name of a `FullTypeId`.
pub(super) fn full_type_name(number: u64) -> Option<&'static str> {
    Some(match number {
        0 => "TFT_UNSET",
        1 => "TFT_VAR",
        2 => "TFT_ANY",
        3 => "TFT_PRODUCT",
        4 => "TFT_NAMED",
        20 => "TFT_FOR_EACH",
        100 => "TFT_CALLABLE",
        200 => "TFT_BOOL",
        201 => "TFT_UINT8",
        202 => "TFT_UINT16",
        203 => "TFT_UINT32",
        204 => "TFT_UINT64",
        205 => "TFT_INT8",
        206 => "TFT_INT16",
        207 => "TFT_INT32",
        208 => "TFT_INT64",
        209 => "TFT_HALF",
        210 => "TFT_FLOAT",
        211 => "TFT_DOUBLE",
        212 => "TFT_COMPLEX64",
        213 => "TFT_COMPLEX128",
        214 => "TFT_STRING",
        215 => "TFT_BFLOAT16",
        1000 => "TFT_TENSOR",
        1001 => "TFT_ARRAY",
        1002 => "TFT_OPTIONAL",
        1003 => "TFT_LITERAL",
        1004 => "TFT_ENCODED",
        1005 => "TFT_SHAPE_TENSOR",
        10102 => "TFT_DATASET",
        10103 => "TFT_RAGGED",
        10104 => "TFT_ITERATOR",
        10202 => "TFT_MUTEX_LOCK",
        10203 => "TFT_LEGACY_VARIANT",
        _ => return None,
    })
}

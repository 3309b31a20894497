//! The fields of SavedModels and of what is in them; see `schema.rs`.
//!
//! What only language bindings read is bytes here as it is in the messages: the text form of an object graph is refused.

use super::schema::{
    DATA_TYPE, EnumType, GRAPH_DEF, OP_DEF, TENSOR_PROTO, TENSOR_SHAPE_PROTO, Type, Value, many,
    map, name_in, number_in, one, one_of,
};

static CHECKPOINT_FORMAT_VERSION: EnumType = EnumType {
    number_of: |name| number_in(CHECKPOINT_FORMAT_VERSIONS, name),
    name_of: |number| name_in(CHECKPOINT_FORMAT_VERSIONS, number),
};

const CHECKPOINT_FORMAT_VERSIONS: &[(&str, i32)] = &[("LEGACY", 0), ("V1", 1), ("V2", 2)];

pub(super) static SAVED_MODEL: Type = Type {
    name: "tensorflow.SavedModel",
    fields: &[
        one(1, "saved_model_schema_version", Value::Int64),
        many(2, "meta_graphs", Value::Message(&META_GRAPH_DEF)),
    ],
};

static META_GRAPH_DEF: Type = Type {
    name: "tensorflow.MetaGraphDef",
    fields: &[
        one(1, "meta_info_def", Value::Message(&META_INFO_DEF)),
        one(2, "graph_def", Value::Message(&GRAPH_DEF)),
        one(3, "saver_def", Value::Message(&SAVER_DEF)),
        map(4, "collection_def", &COLLECTION_DEF_ENTRY),
        map(5, "signature_def", &SIGNATURE_DEF_ENTRY),
        many(6, "asset_file_def", Value::Message(&ASSET_FILE_DEF)),
        one(7, "object_graph_def", Value::Bytes),
    ],
};

static META_INFO_DEF: Type = Type {
    name: "tensorflow.MetaGraphDef.MetaInfoDef",
    fields: &[
        one(1, "meta_graph_version", Value::String),
        one(2, "stripped_op_list", Value::Message(&OP_LIST)),
        one(3, "any_info", Value::Message(&ANY)),
        many(4, "tags", Value::String),
        one(5, "tensorflow_version", Value::String),
        one(6, "tensorflow_git_version", Value::String),
        one(7, "stripped_default_attrs", Value::Bool),
        map(8, "function_aliases", &FUNCTION_ALIASES_ENTRY),
    ],
};

static FUNCTION_ALIASES_ENTRY: Type = Type {
    name: "tensorflow.MetaGraphDef.MetaInfoDef.FunctionAliasesEntry",
    fields: &[one(1, "key", Value::String), one(2, "value", Value::String)],
};

static OP_LIST: Type =
    Type { name: "tensorflow.OpList", fields: &[many(1, "op", Value::Message(&OP_DEF))] };

static ANY: Type = Type {
    name: "google.protobuf.Any",
    fields: &[one(1, "type_url", Value::String), one(2, "value", Value::Bytes)],
};

static SAVER_DEF: Type = Type {
    name: "tensorflow.SaverDef",
    fields: &[
        one(1, "filename_tensor_name", Value::String),
        one(2, "save_tensor_name", Value::String),
        one(3, "restore_op_name", Value::String),
        one(4, "max_to_keep", Value::Int32),
        one(5, "sharded", Value::Bool),
        one(6, "keep_checkpoint_every_n_hours", Value::Float),
        one(7, "version", Value::Enum(&CHECKPOINT_FORMAT_VERSION)),
    ],
};

static COLLECTION_DEF_ENTRY: Type = Type {
    name: "tensorflow.MetaGraphDef.CollectionDefEntry",
    fields: &[one(1, "key", Value::String), one(2, "value", Value::Message(&COLLECTION_DEF))],
};

static COLLECTION_DEF: Type = Type {
    name: "tensorflow.CollectionDef",
    fields: &[
        one_of("kind", 1, "node_list", Value::Message(&NODE_LIST)),
        one_of("kind", 2, "bytes_list", Value::Message(&BYTES_LIST)),
        one_of("kind", 3, "int64_list", Value::Message(&INT64_LIST)),
        one_of("kind", 4, "float_list", Value::Message(&FLOAT_LIST)),
        one_of("kind", 5, "any_list", Value::Message(&ANY_LIST)),
    ],
};

static NODE_LIST: Type =
    Type { name: "tensorflow.CollectionDef.NodeList", fields: &[many(1, "value", Value::String)] };

static BYTES_LIST: Type =
    Type { name: "tensorflow.CollectionDef.BytesList", fields: &[many(1, "value", Value::Bytes)] };

static INT64_LIST: Type =
    Type { name: "tensorflow.CollectionDef.Int64List", fields: &[many(1, "value", Value::Int64)] };

static FLOAT_LIST: Type =
    Type { name: "tensorflow.CollectionDef.FloatList", fields: &[many(1, "value", Value::Float)] };

static ANY_LIST: Type = Type {
    name: "tensorflow.CollectionDef.AnyList",
    fields: &[many(1, "value", Value::Message(&ANY))],
};

static SIGNATURE_DEF_ENTRY: Type = Type {
    name: "tensorflow.MetaGraphDef.SignatureDefEntry",
    fields: &[one(1, "key", Value::String), one(2, "value", Value::Message(&SIGNATURE_DEF))],
};

static SIGNATURE_DEF: Type = Type {
    name: "tensorflow.SignatureDef",
    fields: &[
        map(1, "inputs", &SIGNATURE_INPUTS_ENTRY),
        map(2, "outputs", &SIGNATURE_OUTPUTS_ENTRY),
        one(3, "method_name", Value::String),
        map(4, "defaults", &SIGNATURE_DEFAULTS_ENTRY),
    ],
};

static SIGNATURE_INPUTS_ENTRY: Type = Type {
    name: "tensorflow.SignatureDef.InputsEntry",
    fields: &[one(1, "key", Value::String), one(2, "value", Value::Message(&TENSOR_INFO))],
};

static SIGNATURE_OUTPUTS_ENTRY: Type = Type {
    name: "tensorflow.SignatureDef.OutputsEntry",
    fields: &[one(1, "key", Value::String), one(2, "value", Value::Message(&TENSOR_INFO))],
};

static SIGNATURE_DEFAULTS_ENTRY: Type = Type {
    name: "tensorflow.SignatureDef.DefaultsEntry",
    fields: &[one(1, "key", Value::String), one(2, "value", Value::Message(&TENSOR_PROTO))],
};

static TENSOR_INFO: Type = Type {
    name: "tensorflow.TensorInfo",
    fields: &[
        one_of("encoding", 1, "name", Value::String),
        one(2, "dtype", Value::Enum(&DATA_TYPE)),
        one(3, "tensor_shape", Value::Message(&TENSOR_SHAPE_PROTO)),
        one_of("encoding", 4, "coo_sparse", Value::Message(&COO_SPARSE)),
        one_of("encoding", 5, "composite_tensor", Value::Message(&COMPOSITE_TENSOR)),
    ],
};

static COO_SPARSE: Type = Type {
    name: "tensorflow.TensorInfo.CooSparse",
    fields: &[
        one(1, "values_tensor_name", Value::String),
        one(2, "indices_tensor_name", Value::String),
        one(3, "dense_shape_tensor_name", Value::String),
    ],
};

static COMPOSITE_TENSOR: Type = Type {
    name: "tensorflow.TensorInfo.CompositeTensor",
    fields: &[
        one(1, "type_spec", Value::Bytes),
        many(2, "components", Value::Message(&TENSOR_INFO)),
    ],
};

static ASSET_FILE_DEF: Type = Type {
    name: "tensorflow.AssetFileDef",
    fields: &[
        one(1, "tensor_info", Value::Message(&TENSOR_INFO)),
        one(2, "filename", Value::String),
    ],
};

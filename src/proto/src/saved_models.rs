//! Saved models, meta graphs, signatures and collections.

use std::collections::BTreeMap;

use bytes::Bytes;
use prost::Message;

use crate::{GraphDef, TensorProto, TensorShapeProto};

/// The file `saved_model.pb`.
#[derive(Clone, PartialEq, Message)]
pub struct SavedModel {
    #[prost(int64, tag = "1")]
    pub saved_model_schema_version: i64,
    #[prost(message, repeated, tag = "2")]
    pub meta_graphs: Vec<MetaGraphDef>,
}

/// A graph with its signatures, collections and assets.
#[derive(Clone, PartialEq, Message)]
pub struct MetaGraphDef {
    #[prost(message, optional, tag = "1")]
    pub meta_info_def: Option<meta_graph_def::MetaInfoDef>,
    #[prost(message, optional, tag = "2")]
    pub graph_def: Option<GraphDef>,
    #[prost(message, optional, tag = "3")]
    pub saver_def: Option<SaverDef>,
    #[prost(btree_map = "string, message", tag = "4")]
    pub collection_def: BTreeMap<String, CollectionDef>,
    #[prost(btree_map = "string, message", tag = "5")]
    pub signature_def: BTreeMap<String, SignatureDef>,
    #[prost(message, repeated, tag = "6")]
    pub asset_file_def: Vec<AssetFileDef>,
    /// A serialized `SavedObjectGraph`, which only language bindings read.
    #[prost(bytes = "bytes", tag = "7")]
    pub object_graph_def: Bytes,
}

/// Parts of [`MetaGraphDef`].
pub mod meta_graph_def {
    use std::collections::BTreeMap;

    use prost::Message;

    /// Tags of a meta graph, and who wrote it.
    #[derive(Clone, PartialEq, Message)]
    pub struct MetaInfoDef {
        #[prost(string, tag = "1")]
        pub meta_graph_version: String,
        #[prost(message, optional, tag = "2")]
        pub stripped_op_list: Option<crate::OpList>,
        #[prost(message, optional, tag = "3")]
        pub any_info: Option<super::Any>,
        #[prost(string, repeated, tag = "4")]
        pub tags: Vec<String>,
        #[prost(string, tag = "5")]
        pub tensorflow_version: String,
        #[prost(string, tag = "6")]
        pub tensorflow_git_version: String,
        #[prost(bool, tag = "7")]
        pub stripped_default_attrs: bool,
        #[prost(btree_map = "string, string", tag = "8")]
        pub function_aliases: BTreeMap<String, String>,
    }
}

/// A callable: logical names to tensors.
#[derive(Clone, PartialEq, Message)]
pub struct SignatureDef {
    #[prost(btree_map = "string, message", tag = "1")]
    pub inputs: BTreeMap<String, TensorInfo>,
    #[prost(btree_map = "string, message", tag = "2")]
    pub outputs: BTreeMap<String, TensorInfo>,
    #[prost(string, tag = "3")]
    pub method_name: String,
    #[prost(btree_map = "string, message", tag = "4")]
    pub defaults: BTreeMap<String, TensorProto>,
}

/// A tensor of the graph, by name.
#[derive(Clone, PartialEq, Message)]
pub struct TensorInfo {
    #[prost(oneof = "tensor_info::Encoding", tags = "1, 4, 5")]
    pub encoding: Option<tensor_info::Encoding>,
    #[prost(int32, tag = "2")]
    pub dtype: i32,
    #[prost(message, optional, tag = "3")]
    pub tensor_shape: Option<TensorShapeProto>,
}

/// Parts of [`TensorInfo`].
pub mod tensor_info {
    use bytes::Bytes;
    use prost::{Message, Oneof};

    /// Which `encoding` a [`super::TensorInfo`] holds.
    #[derive(Clone, PartialEq, Oneof)]
    pub enum Encoding {
        #[prost(string, tag = "1")]
        Name(String),
        #[prost(message, tag = "4")]
        CooSparse(CooSparse),
        #[prost(message, tag = "5")]
        CompositeTensor(CompositeTensor),
    }

    /// The three tensors of a sparse tensor.
    #[derive(Clone, PartialEq, Message)]
    pub struct CooSparse {
        #[prost(string, tag = "1")]
        pub values_tensor_name: String,
        #[prost(string, tag = "2")]
        pub indices_tensor_name: String,
        #[prost(string, tag = "3")]
        pub dense_shape_tensor_name: String,
    }

    /// The components of a composite tensor.
    #[derive(Clone, PartialEq, Message)]
    pub struct CompositeTensor {
        /// A serialized `TypeSpecProto`, which only language bindings read.
        #[prost(bytes = "bytes", tag = "1")]
        pub type_spec: Bytes,
        #[prost(message, repeated, tag = "2")]
        pub components: Vec<super::TensorInfo>,
    }
}

/// A file that the graph reads, and the tensor that receives its path.
#[derive(Clone, PartialEq, Message)]
pub struct AssetFileDef {
    #[prost(message, optional, tag = "1")]
    pub tensor_info: Option<TensorInfo>,
    #[prost(string, tag = "2")]
    pub filename: String,
}

/// A named collection of a meta graph.
#[derive(Clone, PartialEq, Message)]
pub struct CollectionDef {
    #[prost(oneof = "collection_def::Kind", tags = "1, 2, 3, 4, 5")]
    pub kind: Option<collection_def::Kind>,
}

/// Parts of [`CollectionDef`].
pub mod collection_def {
    use bytes::Bytes;
    use prost::{Message, Oneof};

    /// Which `kind` a [`super::CollectionDef`] holds.
    #[derive(Clone, PartialEq, Oneof)]
    pub enum Kind {
        #[prost(message, tag = "1")]
        NodeList(NodeList),
        #[prost(message, tag = "2")]
        BytesList(BytesList),
        #[prost(message, tag = "3")]
        Int64List(Int64List),
        #[prost(message, tag = "4")]
        FloatList(FloatList),
        #[prost(message, tag = "5")]
        AnyList(AnyList),
    }

    /// Names of nodes or tensors.
    #[derive(Clone, PartialEq, Message)]
    pub struct NodeList {
        #[prost(string, repeated, tag = "1")]
        pub value: Vec<String>,
    }

    /// Serialized messages or strings.
    #[derive(Clone, PartialEq, Message)]
    pub struct BytesList {
        #[prost(bytes = "bytes", repeated, tag = "1")]
        pub value: Vec<Bytes>,
    }

    /// Integers.
    #[derive(Clone, PartialEq, Message)]
    pub struct Int64List {
        #[prost(int64, repeated, tag = "1")]
        pub value: Vec<i64>,
    }

    /// Floats.
    #[derive(Clone, PartialEq, Message)]
    pub struct FloatList {
        #[prost(float, repeated, tag = "1")]
        pub value: Vec<f32>,
    }

    /// Messages of any type.
    #[derive(Clone, PartialEq, Message)]
    pub struct AnyList {
        #[prost(message, repeated, tag = "1")]
        pub value: Vec<super::Any>,
    }
}

/// Names of the nodes that save and restore the variables of a graph.
#[derive(Clone, PartialEq, Message)]
pub struct SaverDef {
    #[prost(string, tag = "1")]
    pub filename_tensor_name: String,
    #[prost(string, tag = "2")]
    pub save_tensor_name: String,
    #[prost(string, tag = "3")]
    pub restore_op_name: String,
    #[prost(int32, tag = "4")]
    pub max_to_keep: i32,
    #[prost(bool, tag = "5")]
    pub sharded: bool,
    #[prost(float, tag = "6")]
    pub keep_checkpoint_every_n_hours: f32,
    /// A `CheckpointFormatVersion`.
    #[prost(int32, tag = "7")]
    pub version: i32,
}

impl SaverDef {
    // `CheckpointFormatVersion`
    pub const LEGACY: i32 = 0;
    pub const V1: i32 = 1;
    pub const V2: i32 = 2;
}

/// A serialized message with the name of its type.
#[derive(Clone, PartialEq, Message)]
pub struct Any {
    #[prost(string, tag = "1")]
    pub type_url: String,
    #[prost(bytes = "bytes", tag = "2")]
    pub value: Bytes,
}

//! `GraphDef` as the mutator sees it: everything that can be damaged by field, nothing lost on the
//! way.
//!
//! Names are bytes, as a damaged one need not be UTF-8, and maps are lists of entries, as a damaged
//! one may have a key twice. Parts that are only ever damaged as bytes stay bytes.

use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct GraphDef {
    #[prost(message, repeated, tag = "1")]
    pub(crate) nodes: Vec<NodeDef>,
    #[prost(message, optional, tag = "2")]
    pub(crate) library: Option<FunctionLibrary>,
    #[prost(int32, tag = "3")]
    pub(crate) version: i32,
    #[prost(message, optional, tag = "4")]
    pub(crate) versions: Option<Versions>,
    #[prost(bytes = "vec", optional, tag = "5")]
    pub(crate) debug_info: Option<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Versions {
    #[prost(int32, tag = "1")]
    pub(crate) producer: i32,
    #[prost(int32, tag = "2")]
    pub(crate) min_consumer: i32,
    #[prost(int32, repeated, tag = "3")]
    pub(crate) bad_consumers: Vec<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct NodeDef {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) name: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) op: Vec<u8>,
    #[prost(bytes = "vec", repeated, tag = "3")]
    pub(crate) inputs: Vec<Vec<u8>>,
    #[prost(bytes = "vec", tag = "4")]
    pub(crate) device: Vec<u8>,
    #[prost(message, repeated, tag = "5")]
    pub(crate) attrs: Vec<AttrEntry>,
    #[prost(bytes = "vec", optional, tag = "6")]
    pub(crate) debug_info: Option<Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "7")]
    pub(crate) full_type: Option<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct AttrEntry {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
    #[prost(message, optional, tag = "2")]
    pub(crate) value: Option<AttrValue>,
}

/// At most one field is set in a sound value; a damaged one may have several.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct AttrValue {
    #[prost(message, optional, tag = "1")]
    pub(crate) list: Option<AttrList>,
    #[prost(bytes = "vec", optional, tag = "2")]
    pub(crate) s: Option<Vec<u8>>,
    #[prost(int64, optional, tag = "3")]
    pub(crate) i: Option<i64>,
    #[prost(float, optional, tag = "4")]
    pub(crate) f: Option<f32>,
    #[prost(bool, optional, tag = "5")]
    pub(crate) b: Option<bool>,
    #[prost(int32, optional, tag = "6")]
    pub(crate) dtype: Option<i32>,
    #[prost(message, optional, tag = "7")]
    pub(crate) shape: Option<Shape>,
    #[prost(message, optional, tag = "8")]
    pub(crate) tensor: Option<Tensor>,
    #[prost(bytes = "vec", optional, tag = "9")]
    pub(crate) placeholder: Option<Vec<u8>>,
    #[prost(message, optional, tag = "10")]
    pub(crate) func: Option<Function>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct AttrList {
    #[prost(bytes = "vec", repeated, tag = "2")]
    pub(crate) s: Vec<Vec<u8>>,
    #[prost(int64, repeated, tag = "3")]
    pub(crate) i: Vec<i64>,
    #[prost(float, repeated, tag = "4")]
    pub(crate) f: Vec<f32>,
    #[prost(bool, repeated, tag = "5")]
    pub(crate) b: Vec<bool>,
    #[prost(int32, repeated, tag = "6")]
    pub(crate) dtype: Vec<i32>,
    #[prost(message, repeated, tag = "7")]
    pub(crate) shape: Vec<Shape>,
    #[prost(message, repeated, tag = "8")]
    pub(crate) tensor: Vec<Tensor>,
    #[prost(message, repeated, tag = "9")]
    pub(crate) func: Vec<Function>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Function {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) name: Vec<u8>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) attrs: Vec<AttrEntry>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Shape {
    #[prost(message, repeated, tag = "2")]
    pub(crate) dims: Vec<Dim>,
    #[prost(bool, tag = "3")]
    pub(crate) unknown_rank: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Dim {
    #[prost(int64, tag = "1")]
    pub(crate) size: i64,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) name: Vec<u8>,
}

/// The fields of values are packed, so each is a piece of bytes on the wire.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Tensor {
    #[prost(int32, tag = "1")]
    pub(crate) dtype: i32,
    #[prost(message, optional, tag = "2")]
    pub(crate) shape: Option<Shape>,
    #[prost(int32, tag = "3")]
    pub(crate) version: i32,
    #[prost(bytes = "vec", tag = "4")]
    pub(crate) content: Vec<u8>,
    #[prost(bytes = "vec", repeated, tag = "5")]
    pub(crate) floats: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "6")]
    pub(crate) doubles: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "7")]
    pub(crate) ints: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "8")]
    pub(crate) strings: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "9")]
    pub(crate) complex64: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "10")]
    pub(crate) int64s: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "11")]
    pub(crate) bools: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "12")]
    pub(crate) complex128: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "13")]
    pub(crate) halves: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "14")]
    pub(crate) resources: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "15")]
    pub(crate) variants: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "16")]
    pub(crate) uint32s: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "17")]
    pub(crate) uint64s: Vec<Vec<u8>>,
    #[prost(bytes = "vec", tag = "18")]
    pub(crate) float8s: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct FunctionLibrary {
    #[prost(message, repeated, tag = "1")]
    pub(crate) functions: Vec<FunctionDef>,
    #[prost(bytes = "vec", repeated, tag = "2")]
    pub(crate) gradients: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "3")]
    pub(crate) registered_gradients: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct FunctionDef {
    /// A serialised `OpDef`.
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) signature: Vec<u8>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) nodes: Vec<NodeDef>,
    #[prost(message, repeated, tag = "4")]
    pub(crate) results: Vec<TextEntry>,
    #[prost(message, repeated, tag = "5")]
    pub(crate) attrs: Vec<AttrEntry>,
    #[prost(message, repeated, tag = "6")]
    pub(crate) control_results: Vec<TextEntry>,
    #[prost(bytes = "vec", repeated, tag = "7")]
    pub(crate) argument_attrs: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "8")]
    pub(crate) resource_ids: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TextEntry {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) value: Vec<u8>,
}

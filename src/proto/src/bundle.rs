//! Records of checkpoints: of the index of a tensor bundle, and of the tables of version 1.

use bytes::Bytes;
use prost::Message;

use crate::{TensorProto, TensorShapeProto, TensorSliceProto, VersionDef};

/// The record under the empty key.
#[derive(Clone, PartialEq, Message)]
pub struct BundleHeaderProto {
    #[prost(int32, tag = "1")]
    pub num_shards: i32,
    /// A `Endianness`.
    #[prost(int32, tag = "2")]
    pub endianness: i32,
    #[prost(message, optional, tag = "3")]
    pub version: Option<VersionDef>,
}

impl BundleHeaderProto {
    // `Endianness`
    pub const LITTLE: i32 = 0;
    pub const BIG: i32 = 1;
}

/// The record of one tensor.
#[derive(Clone, PartialEq, Message)]
pub struct BundleEntryProto {
    #[prost(int32, tag = "1")]
    pub dtype: i32,
    #[prost(message, optional, tag = "2")]
    pub shape: Option<TensorShapeProto>,
    #[prost(int32, tag = "3")]
    pub shard_id: i32,
    #[prost(int64, tag = "4")]
    pub offset: i64,
    #[prost(int64, tag = "5")]
    pub size: i64,
    /// Masked checksum of the tensor's bytes.
    #[prost(fixed32, tag = "6")]
    pub crc32c: u32,
    /// Not empty if the tensor is stored in slices under keys of their own.
    #[prost(message, repeated, tag = "7")]
    pub slices: Vec<TensorSliceProto>,
}

/// A record of a version 1 checkpoint: the first one describes all tensors, the others hold a slice each.
#[derive(Clone, PartialEq, Message)]
pub struct SavedTensorSlices {
    #[prost(message, optional, tag = "1")]
    pub meta: Option<SavedTensorSliceMeta>,
    #[prost(message, optional, tag = "2")]
    pub data: Option<SavedSlice>,
}

/// The tensors of a file.
#[derive(Clone, PartialEq, Message)]
pub struct SavedTensorSliceMeta {
    #[prost(message, repeated, tag = "1")]
    pub tensor: Vec<SavedSliceMeta>,
    #[prost(message, optional, tag = "2")]
    pub versions: Option<VersionDef>,
}

/// A tensor and the slices of it that a file holds.
#[derive(Clone, PartialEq, Message)]
pub struct SavedSliceMeta {
    #[prost(bytes = "bytes", tag = "1")]
    pub name: Bytes,
    #[prost(message, optional, tag = "2")]
    pub shape: Option<TensorShapeProto>,
    #[prost(int32, tag = "3")]
    pub dtype: i32,
    #[prost(message, repeated, tag = "4")]
    pub slice: Vec<TensorSliceProto>,
}

/// The values of a slice, without dtype and shape.
#[derive(Clone, PartialEq, Message)]
pub struct SavedSlice {
    #[prost(bytes = "bytes", tag = "1")]
    pub name: Bytes,
    #[prost(message, optional, tag = "2")]
    pub slice: Option<TensorSliceProto>,
    #[prost(message, optional, tag = "3")]
    pub data: Option<TensorProto>,
}

//! Tensors, shapes, resource handles and slices.

use bytes::Bytes;
use prost::Message;

/// A tensor: packed little-endian bytes in `tensor_content`, or typed values whose last one repeats.
#[derive(Clone, PartialEq, Message)]
pub struct TensorProto {
    #[prost(int32, tag = "1")]
    pub dtype: i32,
    #[prost(message, optional, tag = "2")]
    pub tensor_shape: Option<TensorShapeProto>,
    #[prost(int32, tag = "3")]
    pub version_number: i32,
    #[prost(bytes = "bytes", tag = "4")]
    pub tensor_content: Bytes,
    #[prost(float, repeated, tag = "5")]
    pub float_val: Vec<f32>,
    #[prost(double, repeated, tag = "6")]
    pub double_val: Vec<f64>,
    /// Also the small integers and the quantized types.
    #[prost(int32, repeated, tag = "7")]
    pub int_val: Vec<i32>,
    #[prost(bytes = "bytes", repeated, tag = "8")]
    pub string_val: Vec<Bytes>,
    /// Real and imaginary parts in turn.
    #[prost(float, repeated, tag = "9")]
    pub scomplex_val: Vec<f32>,
    #[prost(int64, repeated, tag = "10")]
    pub int64_val: Vec<i64>,
    #[prost(bool, repeated, tag = "11")]
    pub bool_val: Vec<bool>,
    /// Real and imaginary parts in turn.
    #[prost(double, repeated, tag = "12")]
    pub dcomplex_val: Vec<f64>,
    /// Bits of a half or bfloat16 in the low 16.
    #[prost(int32, repeated, tag = "13")]
    pub half_val: Vec<i32>,
    #[prost(message, repeated, tag = "14")]
    pub resource_handle_val: Vec<ResourceHandleProto>,
    #[prost(message, repeated, tag = "15")]
    pub variant_val: Vec<VariantTensorDataProto>,
    #[prost(uint32, repeated, tag = "16")]
    pub uint32_val: Vec<u32>,
    #[prost(uint64, repeated, tag = "17")]
    pub uint64_val: Vec<u64>,
    /// One byte per element.
    #[prost(bytes = "bytes", tag = "18")]
    pub float8_val: Bytes,
}

/// A shape; a dimension of size -1 is unknown.
#[derive(Clone, PartialEq, Message)]
pub struct TensorShapeProto {
    #[prost(message, repeated, tag = "2")]
    pub dim: Vec<tensor_shape_proto::Dim>,
    #[prost(bool, tag = "3")]
    pub unknown_rank: bool,
}

/// Parts of [`TensorShapeProto`].
pub mod tensor_shape_proto {
    use prost::Message;

    /// One dimension.
    #[derive(Clone, PartialEq, Message)]
    pub struct Dim {
        #[prost(int64, tag = "1")]
        pub size: i64,
        #[prost(string, tag = "2")]
        pub name: String,
    }
}

/// An element of a variant tensor.
#[derive(Clone, PartialEq, Message)]
pub struct VariantTensorDataProto {
    #[prost(string, tag = "1")]
    pub type_name: String,
    #[prost(bytes = "bytes", tag = "2")]
    pub metadata: Bytes,
    #[prost(message, repeated, tag = "3")]
    pub tensors: Vec<TensorProto>,
}

/// A handle to a resource of a device.
#[derive(Clone, PartialEq, Message)]
pub struct ResourceHandleProto {
    #[prost(string, tag = "1")]
    pub device: String,
    #[prost(string, tag = "2")]
    pub container: String,
    #[prost(string, tag = "3")]
    pub name: String,
    #[prost(uint64, tag = "4")]
    pub hash_code: u64,
    #[prost(string, tag = "5")]
    pub maybe_type_name: String,
    #[prost(message, repeated, tag = "6")]
    pub dtypes_and_shapes: Vec<resource_handle_proto::DtypeAndShape>,
}

/// Parts of [`ResourceHandleProto`].
pub mod resource_handle_proto {
    use prost::Message;

    /// What a variable behind a handle holds.
    #[derive(Clone, PartialEq, Message)]
    pub struct DtypeAndShape {
        #[prost(int32, tag = "1")]
        pub dtype: i32,
        #[prost(message, optional, tag = "2")]
        pub shape: Option<super::TensorShapeProto>,
    }
}

/// A slice of a tensor, one extent per dimension.
#[derive(Clone, PartialEq, Message)]
pub struct TensorSliceProto {
    #[prost(message, repeated, tag = "1")]
    pub extent: Vec<tensor_slice_proto::Extent>,
}

/// Parts of [`TensorSliceProto`].
pub mod tensor_slice_proto {
    use prost::Message;

    /// `[start, start + length)`; without a length, the whole dimension.
    #[derive(Clone, PartialEq, Message)]
    pub struct Extent {
        #[prost(int64, tag = "1")]
        pub start: i64,
        #[prost(oneof = "extent::HasLengthHack", tags = "2")]
        pub has_length_hack: Option<extent::HasLengthHack>,
    }

    /// Parts of [`Extent`].
    pub mod extent {
        use prost::Oneof;

        /// Which `has_length_hack` a [`super::Extent`] holds.
        #[derive(Clone, PartialEq, Oneof)]
        pub enum HasLengthHack {
            #[prost(int64, tag = "2")]
            Length(i64),
        }
    }
}

/// A tensor's inferred shape and, for a resource, what its handle points to.
#[derive(Clone, PartialEq, Message)]
pub struct CppShapeInferenceResult {
    #[prost(message, optional, tag = "1")]
    pub shape: Option<TensorShapeProto>,
    #[prost(message, optional, tag = "4")]
    pub handle_data: Option<cpp_shape_inference_result::HandleData>,
}

/// Parts of [`CppShapeInferenceResult`].
pub mod cpp_shape_inference_result {
    use prost::Message;

    /// Shape and type of one value behind a handle.
    #[derive(Clone, PartialEq, Message)]
    pub struct HandleShapeAndType {
        #[prost(message, optional, tag = "1")]
        pub shape: Option<super::TensorShapeProto>,
        #[prost(int32, tag = "2")]
        pub dtype: i32,
        #[prost(message, optional, tag = "4")]
        pub r#type: Option<crate::FullTypeDef>,
    }

    /// The values behind a resource handle.
    #[derive(Clone, PartialEq, Message)]
    pub struct HandleData {
        #[prost(bool, tag = "1")]
        pub is_set: bool,
        #[prost(message, repeated, tag = "2")]
        pub shape_and_type: Vec<HandleShapeAndType>,
    }
}

//! `tf_datatype.h`: the element types of tensors.

use std::ffi::c_int;

use tfcore_base::{DType, Result, invalid};

/// The element types. A value of 100 more is the reference form of a type, as variables hand it
/// out.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TF_DataType {
    TF_FLOAT = 1,
    TF_DOUBLE = 2,
    TF_INT32 = 3,
    TF_UINT8 = 4,
    TF_INT16 = 5,
    TF_INT8 = 6,
    TF_STRING = 7,
    TF_COMPLEX64 = 8,
    TF_INT64 = 9,
    TF_BOOL = 10,
    /// Quantized int8.
    TF_QINT8 = 11,
    /// Quantized uint8.
    TF_QUINT8 = 12,
    /// Quantized int32.
    TF_QINT32 = 13,
    /// The upper 16 bits of a float.
    TF_BFLOAT16 = 14,
    /// Quantized int16.
    TF_QINT16 = 15,
    /// Quantized uint16.
    TF_QUINT16 = 16,
    TF_UINT16 = 17,
    TF_COMPLEX128 = 18,
    TF_HALF = 19,
    TF_RESOURCE = 20,
    TF_VARIANT = 21,
    TF_UINT32 = 22,
    TF_UINT64 = 23,
    TF_FLOAT8_E5M2 = 24,
    TF_FLOAT8_E4M3FN = 25,
    TF_FLOAT8_E4M3FNUZ = 26,
    TF_FLOAT8_E4M3B11FNUZ = 27,
    TF_FLOAT8_E5M2FNUZ = 28,
    TF_INT4 = 29,
    TF_UINT4 = 30,
    TF_INT2 = 31,
    TF_UINT2 = 32,
    TF_FLOAT4_E2M1FN = 33,
}

const _: () = assert!(TF_DataType::TF_FLOAT4_E2M1FN as i32 == DType::FLOAT4_E2M1FN.to_i32());
const _: () = assert!(TF_DataType::TF_HALF as i32 == DType::HALF.to_i32());
const _: () = assert!(TF_DataType::TF_UINT64 as i32 == DType::UINT64.to_i32());

/// A `TF_DataType` as C passes it: any number may come.
#[repr(transparent)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TF_DataTypeNumber(pub(crate) c_int);

impl TF_DataTypeNumber {
    pub(crate) const INVALID: TF_DataTypeNumber = TF_DataTypeNumber(0);

    pub(crate) fn dtype(self) -> Result<DType> {
        DType::from_i32(self.0).ok_or_else(|| invalid!("Invalid data type {}", self.0))
    }
}

impl From<DType> for TF_DataTypeNumber {
    fn from(dtype: DType) -> TF_DataTypeNumber {
        TF_DataTypeNumber(dtype.to_i32())
    }
}

/// Returns the bytes that one element of a type takes; 0 for types of variable size and unknown
/// types.
#[unsafe(no_mangle)]
pub extern "C" fn TF_DataTypeSize(dt: TF_DataTypeNumber) -> usize {
    DType::from_i32(dt.0).filter(|dtype| !dtype.is_ref()).map_or(0, DType::c_size)
}

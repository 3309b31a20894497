//! The dtypes that the kernels of this family are for, as in the reference.

use tfcore_base::{DType, Numbers, Quantized, RealNumbers, TypeSet};

const FLOAT8: [DType; 2] = [DType::FLOAT8_E5M2, DType::FLOAT8_E4M3FN];
const INT4: [DType; 2] = [DType::INT4, DType::UINT4];
/// The quantized types that the older kernels know.
const SOME_QUANTIZED: [DType; 3] = [DType::QINT8, DType::QUINT8, DType::QINT32];
const INDICES: [DType; 2] = [DType::INT32, DType::INT64];
const OBJECTS: [DType; 3] = [DType::STRING, DType::RESOURCE, DType::VARIANT];

fn concat(parts: &[&[DType]]) -> Vec<DType> {
    parts.concat()
}

/// Real numbers.
pub(crate) fn real() -> Vec<DType> {
    RealNumbers::dtypes()
}

/// Numbers and `bool`.
pub(crate) fn plain() -> Vec<DType> {
    concat(&[&Numbers::dtypes(), &[DType::BOOL]])
}

/// Numbers, `bool` and `string`.
pub(crate) fn values() -> Vec<DType> {
    concat(&[&plain(), &[DType::STRING]])
}

/// Real numbers, `bool` and `string`: what has an order or at least a hash.
pub(crate) fn keys() -> Vec<DType> {
    concat(&[&real(), &[DType::BOOL, DType::STRING]])
}

/// Numbers, `bool`, `string`, `resource` and `variant`.
pub(crate) fn all() -> Vec<DType> {
    concat(&[&plain(), &OBJECTS])
}

pub(crate) fn all_and_float8() -> Vec<DType> {
    concat(&[&all(), &FLOAT8])
}

pub(crate) fn all_quantized_and_int4() -> Vec<DType> {
    concat(&[&all(), &Quantized::dtypes(), &INT4])
}

pub(crate) fn all_quantized_and_float8() -> Vec<DType> {
    concat(&[&all(), &Quantized::dtypes(), &FLOAT8])
}

pub(crate) fn all_some_quantized_and_float8() -> Vec<DType> {
    concat(&[&all(), &SOME_QUANTIZED, &FLOAT8])
}

pub(crate) fn values_quantized_and_float8() -> Vec<DType> {
    concat(&[&values(), &Quantized::dtypes(), &FLOAT8])
}

pub(crate) fn values_some_quantized() -> Vec<DType> {
    concat(&[&values(), &SOME_QUANTIZED])
}

pub(crate) fn values_some_quantized_and_float8() -> Vec<DType> {
    concat(&[&values_some_quantized(), &FLOAT8])
}

/// What can be split.
pub(crate) fn splittable() -> Vec<DType> {
    concat(&[&all(), &FLOAT8, &INT4, &[DType::QUINT8]])
}

/// `int32` and `int64`.
pub(crate) fn indices() -> Vec<DType> {
    INDICES.to_vec()
}

/// `int16`, `int32` and `int64`.
pub(crate) fn indices_and_int16() -> Vec<DType> {
    concat(&[&[DType::INT16], &INDICES])
}

/// `int8`, `int32` and `int64`.
pub(crate) fn indices_and_int8() -> Vec<DType> {
    concat(&[&[DType::INT8], &INDICES])
}

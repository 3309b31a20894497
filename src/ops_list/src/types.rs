//! The dtypes that the kernels of this family are for, as in the reference.

use tfcore_base::{DType, Numbers, Quantized, TypeSet};

/// Numbers, `bool` and `string`.
fn values() -> Vec<DType> {
    [Numbers::dtypes(), vec![DType::BOOL, DType::STRING]].concat()
}

/// What lists hold, in kernels that know the type.
pub(crate) fn of_lists() -> Vec<DType> {
    [values(), Quantized::dtypes(), vec![DType::VARIANT]].concat()
}

/// What is written to tensor arrays and read from them, one by one.
pub(crate) fn of_arrays() -> Vec<DType> {
    [values(), vec![DType::RESOURCE, DType::VARIANT]].concat()
}

/// What is gathered from tensor arrays.
pub(crate) fn gathered() -> Vec<DType> {
    [concatenated(), vec![DType::VARIANT]].concat()
}

/// What is concatenated from tensor arrays.
pub(crate) fn concatenated() -> Vec<DType> {
    [values(), vec![DType::QINT8, DType::QUINT8, DType::QINT32]].concat()
}

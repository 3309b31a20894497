//! The Rust types that stand for the element types.

use crate::DType;

/// IEEE 754 binary16.
pub type Half = half::f16;
/// The upper half of an IEEE 754 binary32.
pub type BFloat16 = half::bf16;
/// A complex number of two `f32`.
pub type Complex64 = num_complex::Complex<f32>;
/// A complex number of two `f64`.
pub type Complex128 = num_complex::Complex<f64>;

/// A type whose values are the elements of tensors of one [`DType`].
pub trait Elem: Clone + Default + PartialEq + Send + Sync + 'static {
    const DTYPE: DType;
}

macro_rules! elems {
    ($($type:ty => $dtype:ident),* $(,)?) => {
        $(impl Elem for $type { const DTYPE: DType = DType::$dtype; })*
    };
}

elems! {
    f32 => FLOAT,
    f64 => DOUBLE,
    Half => HALF,
    BFloat16 => BFLOAT16,
    i8 => INT8,
    i16 => INT16,
    i32 => INT32,
    i64 => INT64,
    u8 => UINT8,
    u16 => UINT16,
    u32 => UINT32,
    u64 => UINT64,
    bool => BOOL,
    Complex64 => COMPLEX64,
    Complex128 => COMPLEX128,
}

macro_rules! opaque_elems {
    ($($(#[$doc:meta])* $name:ident($bits:ty) => $dtype:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(transparent)]
        pub struct $name(pub $bits);

        impl Elem for $name {
            const DTYPE: DType = DType::$dtype;
        }
    )*};
}

opaque_elems! {
    /// A quantized 8-bit integer.
    QInt8(i8) => QINT8,
    /// A quantized unsigned 8-bit integer.
    QUInt8(u8) => QUINT8,
    /// A quantized 16-bit integer.
    QInt16(i16) => QINT16,
    /// A quantized unsigned 16-bit integer.
    QUInt16(u16) => QUINT16,
    /// A quantized 32-bit integer.
    QInt32(i32) => QINT32,
    /// A signed 4-bit integer, one to a byte.
    Int4(i8) => INT4,
    /// An unsigned 4-bit integer, one to a byte.
    UInt4(u8) => UINT4,
    /// A signed 2-bit integer, one to a byte.
    Int2(i8) => INT2,
    /// An unsigned 2-bit integer, one to a byte.
    UInt2(u8) => UINT2,
    /// The bits of an 8-bit float with 5 exponent bits.
    Float8E5M2(u8) => FLOAT8_E5M2,
    /// The bits of an 8-bit float with 4 exponent bits and no infinities.
    Float8E4M3Fn(u8) => FLOAT8_E4M3FN,
    /// As `Float8E4M3Fn`, with one zero and one NaN.
    Float8E4M3Fnuz(u8) => FLOAT8_E4M3FNUZ,
    /// As `Float8E4M3Fnuz`, with bias 11.
    Float8E4M3B11(u8) => FLOAT8_E4M3B11FNUZ,
    /// As `Float8E5M2`, with one zero and one NaN.
    Float8E5M2Fnuz(u8) => FLOAT8_E5M2FNUZ,
}

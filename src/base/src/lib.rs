//! The ground floor: the error type, the data types and the Rust types that stand for them.
//!
//! Nothing here knows of tensors, graphs or ops.
#![forbid(unsafe_code)]

mod dtype;
mod elem;
mod error;
mod number;
mod number_text;
mod scratch;
mod sets;
mod text;

pub use dtype::DType;
pub use elem::{
    BFloat16, Complex64, Complex128, Elem, Float8E4M3B11, Float8E4M3Fn, Float8E4M3Fnuz, Float8E5M2,
    Float8E5M2Fnuz, Half, Int2, Int4, QInt8, QInt16, QInt32, QUInt8, QUInt16, UInt2, UInt4,
};
pub use error::{Code, Error, Result};
pub use number::{Number, Ring};
pub use number_text::{format_double, format_float};
pub use scratch::{try_collect, try_filled};
pub use sets::{
    Complexes, Floats, Integers, LoopFor, LoopSet, Numbers, Quantized, RealNumbers, SignedNumbers,
    TypeSet, TypedLoop,
};
pub use text::escape_bytes;

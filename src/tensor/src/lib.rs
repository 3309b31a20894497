//! Tensors: shapes, reference-counted buffers, strings, and typed views of their elements.
//!
//! The unsafe code that turns bytes into typed slices lives here, behind safe functions. What an
//! element *means* to an op is not known here.

mod buffer;
mod elems;
mod handle;
mod memory;
mod partial_shape;
mod pool;
mod scalar;
mod shape;
mod share;
mod tensor;
mod tstring;

pub use buffer::{ALIGNMENT, Buffer, Deallocator};
pub use elems::{Elems, ElemsMut, Lane};
pub use handle::{HandleKey, OpaqueResource, ResourceHandle, Variant, VariantValue};
pub use partial_shape::{Dim, PartialShape};
pub use pool::BufferPool;
pub use scalar::Scalar;
pub use shape::{MAX_RANK, Shape};
pub use tensor::{Tensor, Watch};
pub use tstring::{TString, TStringKind};

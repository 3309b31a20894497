//! Numeric loops: slices in, slices out.
//!
//! This crate knows nothing of tensors, ops or graphs. Callers hand it slices, extents and strides that
//! they have already validated; a breach of a documented precondition is a bug in the caller and panics.
//! Work that is worth sharing out takes a [`pool::Parallel`], which says with how many threads.
//!
//! * [`pool`]: the thread pool and the parallel loop;
//! * [`isa`]: one run-time choice of the vector instruction set for plain loops;
//! * [`gemm`]: matrix products; [`conv`]: convolutions on top of them; [`window`]: pooling windows;
//! * [`wide`]: the types in which sums are kept;
//! * [`reduce`]: reductions along one axis of an (outer, reduced, inner) layout;
//! * [`elementary`]: vectorisable exponentials and their relatives;
//! * [`philox`]: TensorFlow's counter-based random streams.

pub mod conv;
pub mod elementary;
pub mod gemm;
pub mod isa;
pub mod philox;
pub mod pool;
pub mod reduce;
mod sync;
pub mod wide;
pub mod window;

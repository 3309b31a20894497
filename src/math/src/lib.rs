//! Numeric loops: slices in, slices out.
//!
//! This crate knows nothing of tensors, ops or graphs. Callers hand it slices, extents and strides that
//! they have already validated; a breach of a documented precondition is a bug in the caller and panics.
//! Work that is worth sharing out takes a [`pool::Parallel`], which says with how many threads.
//!
//! * [`pool`]: the thread pool and the parallel loop;
//! * [`denormals`]: a mode of threads; `fork`: forks while other threads run;
//! * [`isa`]: one run-time choice of the vector instruction set;
//! * [`gemm`]: matrix products by micro-kernels; [`conv`]: convolutions on top of them; [`window`]: pooling windows;
//! * [`wide`]: the types in which sums are kept;
//! * [`reduce`]: reductions along one axis of an (outer, reduced, inner) layout;
//! * [`elementary`]: vectorisable exponentials and their relatives;
//! * [`hash`]: hashes of bytes that models depend on;
//! * [`special`]: Bessel, gamma and other special functions;
//! * [`philox`]: TensorFlow's counter-based random streams.

pub mod conv;
pub mod denormals;
pub mod elementary;
#[cfg(not(loom))]
pub mod fork;
#[cfg(loom)]
#[path = "fork_modelled.rs"]
pub mod fork;
pub mod gemm;
pub mod hash;
pub mod isa;
pub mod philox;
pub mod pool;
pub mod reduce;
mod scratch;
pub mod special;
mod sync;
pub mod wide;
pub mod window;

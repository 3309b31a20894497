//! Linear algebra and Fourier transforms.
//!
//! Algorithms are written once for real and complex numbers ([`matrix`]); batches of problems are shared out by one
//! driver ([`batch`]).
#![forbid(unsafe_code)]

use tfcore_framework::{Registry, shape_fns};

mod batch;
mod cholesky;
mod entry;
mod exponential;
mod fft;
mod lu;
mod matrix;
mod qr;
mod schur;
mod self_adjoint;
mod shapes;
mod svd;
mod triangular;
mod tridiagonal;

#[cfg(test)]
mod tests;

/// Attaches the behaviour of the ops of linear algebra and of Fourier transforms.
pub fn register(r: &mut Registry) {
    cholesky::register(r);
    exponential::register(r);
    fft::register(r);
    lu::register(r);
    qr::register(r);
    schur::register(r);
    self_adjoint::register(r);
    svd::register(r);
    triangular::register(r);
    tridiagonal::register(r);
    for op in BATCH_OPS {
        r.op(op).shape(shape_fns::unknown);
    }
}

/// The old names of ops on batches of matrices, whose shapes the reference does not infer.
const BATCH_OPS: [&str; 10] = [
    "BatchCholesky",
    "BatchCholeskyGrad",
    "BatchMatrixDeterminant",
    "BatchMatrixInverse",
    "BatchMatrixSolve",
    "BatchMatrixSolveLs",
    "BatchMatrixTriangularSolve",
    "BatchSelfAdjointEig",
    "BatchSelfAdjointEigV2",
    "BatchSvd",
];

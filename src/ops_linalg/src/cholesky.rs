//! Cholesky's decomposition and its gradient.

use num_traits::{Float, Zero};
use smallvec::SmallVec;
use tfcore_base::{Result, require};
use tfcore_framework::Registry;
use tfcore_math::gemm::{MatMut, MatRef, matmul};
use tfcore_math::pool::Parallel;
use tfcore_tensor::ElemsMut;

use crate::batch::{Algorithm, BatchOp, Problem, cube, dims, output};
use crate::entry::register_op;
use crate::matrix::{Fields, Matrix, Scalar, add_scaled};
use crate::shapes;

pub(crate) fn register(r: &mut Registry) {
    // `Cholesky(input: T) -> output: T`, the lower triangular L with `L L^H = A`; NaN if there is none. Reads the lower
    // triangle of A.
    register_op::<CholeskyForm, Fields>(r.op("Cholesky"), shapes::square, BatchOp::SQUARE);
    register_op::<CholeskyForm, (f32, f64)>(r.op("BatchCholesky"), shapes::square, BatchOp::SQUARE);
    // `CholeskyGrad(l: T, grad: T) -> output: T`, the gradient by A from that by L.
    for op in ["CholeskyGrad", "BatchCholeskyGrad"] {
        register_op::<GradForm, (f32, f64)>(r.op(op), shapes::square, GRAD);
    }
}

const GRAD: BatchOp = BatchOp {
    inputs: 2,
    flags: &[],
    parameter: None,
    outputs: |sizes, _| {
        require!(sizes[0] == sizes[1], "Inputs (L and grad) must have the same shape.");
        require!(sizes[0][0] == sizes[0][1], "Inputs must be a square matrices.");
        Ok(SmallVec::from_iter([dims(&sizes[0])]))
    },
    cost: |sizes| cube(sizes[0][0]),
};

/// Columns that are decomposed at once; the rest of the work is products of matrices.
const BLOCK: usize = 32;

pub(crate) struct CholeskyForm;

impl<T: Scalar> Algorithm<T> for CholeskyForm {
    fn solve(problem: &Problem<'_>, outputs: &mut [ElemsMut<'_>]) -> Result<()> {
        let mut l = problem.matrix::<T>(0);
        let is_definite = decompose(&mut l);
        let n = l.rows;
        for i in 0..n {
            l.row_mut(i)[i + 1..].fill(T::zero());
            if !is_definite {
                l.row_mut(i)[..=i].fill(T::of(Float::nan()));
            }
        }
        output::<T>(outputs, 0).copy_from_slice(&l.data);
        Ok(())
    }
}

/// Puts L in the place of the lower triangle of a self-adjoint matrix. Returns false if the matrix is not positive
/// definite; its content is arbitrary then.
pub(crate) fn decompose<T: Scalar>(a: &mut Matrix<T>) -> bool {
    let n = a.rows;
    for start in (0..n).step_by(BLOCK) {
        let end = (start + BLOCK).min(n);
        if !decompose_block(a, start, end) {
            return false;
        }
        if end == n {
            break;
        }
        // Rows below: X L^H = A.
        let width = end - start;
        let mut upper = Matrix::<T>::zeros(width, width);
        for i in 0..width {
            for j in 0..=i {
                upper[(j, i)] = a[(start + i, start + j)].conj();
            }
        }
        for i in end..n {
            let row = &mut a.row_mut(i)[start..end];
            for k in 0..width {
                let x = row[k] / upper[(k, k)];
                row[k] = x;
                add_scaled(&mut row[k + 1..], -x, &upper.row(k)[k + 1..]);
            }
        }
        // The lower triangle of what is left, `A -= X X^H`, in stripes of rows.
        let below = n - end;
        let mut adjoint = Matrix::<T>::zeros(width, below);
        let mut panel = Matrix::<T>::zeros(below, width);
        for i in 0..below {
            for k in 0..width {
                let x = a[(end + i, start + k)];
                panel[(i, k)] = -x;
                adjoint[(k, i)] = x.conj();
            }
        }
        for first in (0..below).step_by(2 * BLOCK) {
            let last = (first + 2 * BLOCK).min(below);
            let left = MatRef::new(&panel.data[first * width..], width, 1);
            let right = MatRef::new(&adjoint.data, below, 1);
            let target = MatMut::new(&mut a.data[(end + first) * n + end..], n, 1);
            matmul(Parallel::SERIAL, last - first, last, width, left, right, target, true);
        }
    }
    true
}

/// Decomposes the block on the diagonal.
fn decompose_block<T: Scalar>(a: &mut Matrix<T>, start: usize, end: usize) -> bool {
    for j in start..end {
        for i in j..end {
            let (l, m) = (&a.row(i)[start..j], &a.row(j)[start..j]);
            let product = l.iter().zip(m).fold(T::zero(), |sum, (&x, &y)| sum + x * y.conj());
            let rest = a[(i, j)] - product;
            if i == j {
                let pivot = rest.re();
                if pivot <= T::Real::zero() {
                    return false;
                }
                a[(j, j)] = T::of(Float::sqrt(pivot));
            } else {
                let pivot = a[(j, j)];
                a[(i, j)] = rest / pivot;
            }
        }
    }
    true
}

/// Solves `L L^H X = B` in place.
pub(crate) fn solve<T: Scalar>(l: &Matrix<T>, b: &mut Matrix<T>) {
    let n = l.rows;
    for i in 0..n {
        for k in 0..i {
            let (x, y) = b.two_rows(k, i);
            add_scaled(y, -l[(i, k)], x);
        }
        let pivot = l[(i, i)];
        b.row_mut(i).iter_mut().for_each(|x| *x = *x / pivot);
    }
    for i in (0..n).rev() {
        for k in i + 1..n {
            let (y, x) = b.two_rows(i, k);
            add_scaled(y, -l[(k, i)].conj(), x);
        }
        let pivot = l[(i, i)];
        b.row_mut(i).iter_mut().for_each(|x| *x = *x / pivot);
    }
}

struct GradForm;

impl<T: Scalar> Algorithm<T> for GradForm {
    fn solve(problem: &Problem<'_>, outputs: &mut [ElemsMut<'_>]) -> Result<()> {
        gradient::<T>(problem, outputs)
    }
}

/// The backward pass of the decomposition, column by column from the last one: with `M = L^H G`, of which the lower
/// triangle and half the diagonal are kept, the gradient is the symmetric part of `L^-H M L^-1`.
fn gradient<T: Scalar>(problem: &Problem<'_>, outputs: &mut [ElemsMut<'_>]) -> Result<()> {
    let (mut l, mut grad) = (problem.matrix::<T>(0), problem.matrix::<T>(1));
    let n = l.rows;
    for i in 0..n {
        l.row_mut(i)[i + 1..].fill(T::zero());
        grad.row_mut(i)[i + 1..].fill(T::zero());
    }
    let half = T::one() / (T::one() + T::one());
    let mut middle = l.adjoint().times(&grad);
    for i in 0..n {
        middle[(i, i)] = middle[(i, i)] * half;
        middle.row_mut(i)[i + 1..].fill(T::zero());
    }
    // L^H X = M.
    solve_adjoint(&l, &mut middle);
    // Y L = X, which is L^H Y^H = X^H.
    let mut turned = middle.adjoint();
    solve_adjoint(&l, &mut turned);
    let whole = turned.adjoint();
    let out = output::<T>(outputs, 0);
    for i in 0..n {
        for j in 0..n {
            out[i * n + j] = half * (whole[(i, j)] + whole[(j, i)]);
        }
    }
    Ok(())
}

/// Solves `L^H X = B` in place.
fn solve_adjoint<T: Scalar>(l: &Matrix<T>, b: &mut Matrix<T>) {
    for i in (0..l.rows).rev() {
        let pivot = l[(i, i)].conj();
        b.row_mut(i).iter_mut().for_each(|x| *x = *x / pivot);
        for k in 0..i {
            let (y, x) = b.two_rows(k, i);
            add_scaled(y, -l[(i, k)].conj(), x);
        }
    }
}

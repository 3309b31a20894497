//! Orthogonal decompositions by reflections: `Qr`, and least squares by them.

use num_traits::{Float, NumCast, Zero};
use smallvec::SmallVec;
use tfcore_base::{Complex64, Complex128, Half, Result, internal, require};
use tfcore_framework::{OpContext, Registry};
use tfcore_tensor::ElemsMut;

use crate::batch::{Algorithm, BatchOp, Problem, cube, dims, output};
use crate::cholesky;
use crate::entry::register_op;
use crate::lu::Element;
use crate::matrix::{Fields, Matrix, Reflector, Scalar};
use crate::shapes;

pub(crate) fn register(r: &mut Registry) {
    // `Qr(input: T) -> (q: T, r: T)`: unitary Q and upper triangular R with `Q R = A`; all columns of Q if attr
    // `full_matrices`.
    register_op::<QrForm, (f32, f64, Half, Complex64, Complex128)>(r.op("Qr"), shapes::qr, QR);
    // `MatrixSolveLs(matrix: T, rhs: T, l2_regularizer: double) -> output: T`: the X for which `|A X - B|² +
    // l2_regularizer |X|²` is least; by Cholesky's decomposition if attr `fast`.
    register_op::<LeastSquaresForm, Fields>(r.op("MatrixSolveLs"), shapes::solve, LEAST_SQUARES);
    register_op::<LeastSquaresForm, (f32, f64)>(
        r.op("BatchMatrixSolveLs"),
        shapes::solve,
        LEAST_SQUARES,
    );
}

const QR: BatchOp = BatchOp {
    inputs: 1,
    flags: &["full_matrices"],
    parameter: None,
    outputs: |sizes, flags| {
        let [m, n] = sizes[0];
        let width = if flags[0] { m } else { m.min(n) };
        Ok(SmallVec::from_iter([dims(&[m, width]), dims(&[width, n])]))
    },
    cost: |sizes| cube(sizes[0][0].max(sizes[0][1])),
};

struct QrForm;

impl<T: Element> Algorithm<T> for QrForm {
    fn solve(problem: &Problem<'_>, outputs: &mut [ElemsMut<'_>]) -> Result<()> {
        let [rows, cols] = problem.sizes[0];
        let data = problem.slice::<T>(0).iter().map(|x| x.widen()).collect();
        let width = if problem.flags[0] { rows } else { rows.min(cols) };
        let mut r = Matrix { rows, cols, data };
        let reflectors = reduce(&mut r);
        let q = unitary(&reflectors, rows, width);
        for (out, &x) in output::<T>(outputs, 0).iter_mut().zip(&q.data) {
            *out = T::narrow(x);
        }
        for (out, &x) in output::<T>(outputs, 1).iter_mut().zip(&r.data) {
            *out = T::narrow(x);
        }
        Ok(())
    }
}

/// Makes a matrix upper triangular by reflections from the left, which it returns.
fn reduce<T: Scalar>(a: &mut Matrix<T>) -> Vec<Reflector<T>> {
    (0..a.rows.min(a.cols)).map(|k| reduce_column(a, k)).collect()
}

/// Reflects the rows from k on so that column k is 0 below the diagonal.
fn reduce_column<T: Scalar>(a: &mut Matrix<T>, k: usize) -> Reflector<T> {
    let column: Vec<T> = (k..a.rows).map(|i| a[(i, k)]).collect();
    let reflector = Reflector::new(&column);
    a[(k, k)] = T::of(reflector.beta);
    for i in k + 1..a.rows {
        a[(i, k)] = T::zero();
    }
    reflector.apply_left(a, k, k + 1);
    reflector
}

/// The first columns of the product of the adjoints of reflections, of which number k leaves the first k + `shift` rows
/// alone.
pub(crate) fn unitary_from<T: Scalar>(
    reflectors: &[Reflector<T>],
    rows: usize,
    width: usize,
    shift: usize,
) -> Matrix<T> {
    let mut q = Matrix::zeros(rows, width);
    for i in 0..rows.min(width) {
        q[(i, i)] = T::one();
    }
    for (k, reflector) in reflectors.iter().enumerate().rev() {
        // Columns before k + shift are those of the identity so far, and stay so.
        reflector.adjoint().apply_left(&mut q, k + shift, (k + shift).min(width));
    }
    q
}

fn unitary<T: Scalar>(reflectors: &[Reflector<T>], rows: usize, width: usize) -> Matrix<T> {
    unitary_from(reflectors, rows, width, 0)
}

const LEAST_SQUARES: BatchOp = BatchOp {
    inputs: 2,
    flags: &["fast"],
    parameter: Some(|ctx: &OpContext<'_>| {
        let regularizer = ctx.input(2)?;
        require!(
            regularizer.rank() == 0,
            "l2_regularizer must be scalar, got shape {}",
            regularizer.shape()
        );
        let regularizer: f64 = regularizer.scalar_value()?;
        require!(regularizer >= 0.0, "l2_regularizer must be >= 0.");
        Ok(regularizer)
    }),
    outputs: |sizes, _| {
        let ([rows, cols], [rhs_rows, rhs_cols]) = (sizes[0], sizes[1]);
        require!(rows == rhs_rows, "Input matrix and rhs are incompatible.");
        Ok(SmallVec::from_iter([dims(&[cols, rhs_cols])]))
    },
    cost: |sizes| cube(sizes[0][0].max(sizes[0][1])),
};

struct LeastSquaresForm;

impl<T: Scalar> Algorithm<T> for LeastSquaresForm {
    fn solve(problem: &Problem<'_>, outputs: &mut [ElemsMut<'_>]) -> Result<()> {
        let out = output::<T>(outputs, 0);
        if problem.slice::<T>(0).is_empty() || out.is_empty() {
            out.fill(T::zero());
            return Ok(());
        }
        let x = if problem.flags[0] {
            normal_equations::<T>(problem)?
        } else {
            least_norm(problem.matrix::<T>(0), problem.matrix(1))
        };
        out.copy_from_slice(&x.data);
        Ok(())
    }
}

/// The solution of `(A^H A + c I) X = A^H B`, or `A^H Z` with `(A A^H + c I) Z = B` for wide matrices.
fn normal_equations<T: Scalar>(problem: &Problem<'_>) -> Result<Matrix<T>> {
    let (a, b) = (problem.matrix::<T>(0), problem.matrix::<T>(1));
    let adjoint = a.adjoint();
    let is_tall = a.rows >= a.cols;
    let mut gramian = if is_tall { adjoint.times(&a) } else { a.times(&adjoint) };
    let regularizer = <T::Real as NumCast>::from(problem.parameter)
        .ok_or_else(|| internal!("a regularizer that is no float"))?;
    if regularizer > T::Real::zero() {
        for i in 0..gramian.rows {
            gramian[(i, i)] = gramian[(i, i)] + T::of(regularizer);
        }
    }
    let hint = if is_tall { "provide a larger" } else { "provide an" };
    require!(
        cholesky::decompose(&mut gramian),
        "Input matrix was rank deficient or ill-conditioned. Try setting fast=False or {hint} \
         l2_regularizer > 0."
    );
    let mut x = if is_tall { adjoint.times(&b) } else { b };
    cholesky::solve(&gramian, &mut x);
    Ok(if is_tall { x } else { adjoint.times(&x) })
}

/// The least of the X for which `|A X - B|` is least, by a decomposition with column pivoting, `A P = Q R`, of which the
/// rows that count are decomposed once more, from the right.
fn least_norm<T: Scalar>(mut a: Matrix<T>, mut b: Matrix<T>) -> Matrix<T> {
    let (m, n) = (a.rows, a.cols);
    let mut order: Vec<usize> = (0..n).collect();
    let mut largest = T::Real::zero();
    let mut rank = 0;
    let count = <T::Real as NumCast>::from(m.min(n)).unwrap_or_else(T::Real::zero);
    let tolerance = <T::Real as Float>::epsilon() * count;
    for k in 0..m.min(n) {
        let norm = |a: &Matrix<T>, j: usize| {
            let squares = (k..m).fold(T::Real::zero(), |sum, i| sum + a[(i, j)].norm_sqr());
            Float::sqrt(squares)
        };
        let mut best = (k, norm(&a, k));
        for j in k + 1..n {
            let norm = norm(&a, j);
            if norm > best.1 {
                best = (j, norm);
            }
        }
        if k == 0 {
            largest = best.1;
        }
        if best.1 <= largest * tolerance {
            break;
        }
        order.swap(k, best.0);
        for i in 0..m {
            let row = a.row_mut(i);
            row.swap(k, best.0);
        }
        reduce_column(&mut a, k).apply_left(&mut b, k, 0);
        rank += 1;
    }
    // [R1 R2]^H = Z S with S upper triangular: X = P Z S^-H (Q^H B).
    let mut wide = Matrix::zeros(rank, n);
    for i in 0..rank {
        wide.row_mut(i).copy_from_slice(a.row(i));
    }
    let mut s = wide.adjoint();
    let reflectors = reduce(&mut s);
    let mut y = Matrix::zeros(n, b.cols);
    for i in 0..rank {
        let mut row = b.row(i).to_vec();
        for k in 0..i {
            let factor = s[(k, i)].conj();
            for (x, &z) in row.iter_mut().zip(y.row(k)) {
                *x = *x - factor * z;
            }
        }
        let pivot = s[(i, i)].conj();
        y.row_mut(i).iter_mut().zip(row).for_each(|(out, x)| *out = x / pivot);
    }
    for (k, reflector) in reflectors.iter().enumerate().rev() {
        reflector.adjoint().apply_left(&mut y, k, 0);
    }
    let mut x = Matrix::zeros(n, b.cols);
    for (k, &column) in order.iter().enumerate() {
        x.row_mut(column).copy_from_slice(y.row(k));
    }
    x
}

//! Eigenvalues and eigenvectors of self-adjoint matrices: reduction to a tridiagonal matrix, then QR steps with implicit
//! shifts.

use num_traits::{Float, One, Zero};
use smallvec::SmallVec;
use tfcore_base::{Result, invalid};
use tfcore_framework::Registry;
use tfcore_tensor::ElemsMut;

use crate::batch::{Algorithm, BatchOp, Problem, check_square, cube, dims, output};
use crate::entry::register_op;
use crate::matrix::{Fields, Matrix, Real, Reflector, Scalar, rotate};
use crate::qr::unitary_from;
use crate::shapes;

pub(crate) fn register(r: &mut Registry) {
    // `SelfAdjointEigV2(input: T) -> (e: T, v: T)`: rising eigenvalues and, if attr `compute_v`, the eigenvectors as columns.
    // Reads the lower triangle.
    let op = BatchOp {
        flags: &["compute_v"],
        outputs: |sizes, flags| {
            check_square(sizes[0])?;
            let values = dims(&sizes[0][..1]);
            Ok(match flags[0] {
                true => SmallVec::from_iter([values, dims(&sizes[0])]),
                false => SmallVec::from_iter([values]),
            })
        },
        cost: |sizes| cube(sizes[0][0]).saturating_mul(10),
        ..BatchOp::SQUARE
    };
    for name in ["SelfAdjointEigV2", "BatchSelfAdjointEigV2"] {
        register_op::<EigenForm, Fields>(r.op(name), shapes::eigen, op);
    }
    // `SelfAdjointEig(input: T) -> output: T`: the eigenvalues, then the eigenvectors, as the rows of one matrix.
    let stacked = BatchOp {
        outputs: |sizes, _| {
            check_square(sizes[0])?;
            Ok(SmallVec::from_iter([dims(&[sizes[0][0] + 1, sizes[0][0]])]))
        },
        cost: |sizes| cube(sizes[0][0]).saturating_mul(10),
        ..BatchOp::SQUARE
    };
    for name in ["SelfAdjointEig", "BatchSelfAdjointEig"] {
        register_op::<StackedForm, (f32, f64)>(r.op(name), shapes::stacked_eigen, stacked);
    }
}

fn no_convergence() -> tfcore_base::Error {
    invalid!("Self-adjoint eigen decomposition was not successful. The input might not be valid.")
}

struct EigenForm;

impl<T: Scalar> Algorithm<T> for EigenForm {
    fn solve(problem: &Problem<'_>, outputs: &mut [ElemsMut<'_>]) -> Result<()> {
        let with_vectors = problem.flags[0];
        let eigen = Eigen::new(problem.matrix::<T>(0), with_vectors).ok_or_else(no_convergence)?;
        for (out, &value) in output::<T>(outputs, 0).iter_mut().zip(&eigen.values) {
            *out = T::of(value);
        }
        if with_vectors {
            let (n, out) = (eigen.values.len(), output::<T>(outputs, 1));
            for i in 0..n {
                for j in 0..n {
                    out[i * n + j] = eigen.vectors[(j, i)];
                }
            }
        }
        Ok(())
    }
}

struct StackedForm;

impl<T: Scalar<Real = T>> Algorithm<T> for StackedForm {
    fn solve(problem: &Problem<'_>, outputs: &mut [ElemsMut<'_>]) -> Result<()> {
        let eigen = Eigen::new(problem.matrix::<T>(0), true).ok_or_else(no_convergence)?;
        let n = eigen.values.len();
        let (values, vectors) = output::<T>(outputs, 0).split_at_mut(n);
        values.copy_from_slice(&eigen.values);
        for i in 0..n {
            for j in 0..n {
                vectors[i * n + j] = eigen.vectors[(j, i)];
            }
        }
        Ok(())
    }
}

pub(crate) struct Eigen<T: Scalar> {
    /// In rising order.
    pub(crate) values: Vec<T::Real>,
    /// The eigenvectors as rows, not conjugated; empty if they are not asked for.
    pub(crate) vectors: Matrix<T>,
}

impl<T: Scalar> Eigen<T> {
    /// `None` if the steps do not converge, which takes NaN or infinity.
    pub(crate) fn new(mut a: Matrix<T>, with_vectors: bool) -> Option<Eigen<T>> {
        let n = a.rows;
        for i in 0..n {
            a[(i, i)] = T::of(a[(i, i)].re());
            for j in i + 1..n {
                a[(i, j)] = a[(j, i)].conj();
            }
        }
        if !a.is_finite() {
            return None;
        }
        let zero = T::Real::zero();
        let largest = a.data.iter().fold(zero, |max, x| Float::max(max, x.abs()));
        let scale = if largest == zero { T::Real::one() } else { largest };
        a.data.iter_mut().for_each(|x| *x = *x / T::of(scale));
        let (mut diagonal, mut below, reflectors) = tridiagonal(&mut a);
        let mut vectors = Matrix::zeros(0, n);
        if with_vectors {
            let q = unitary_from(&reflectors, n, n, 1);
            vectors = Matrix::zeros(n, n);
            for i in 0..n {
                for j in 0..n {
                    vectors[(j, i)] = q[(i, j)];
                }
            }
        }
        if !diagonalize(&mut diagonal, &mut below, &mut vectors) {
            return None;
        }
        // Selection, which leaves equal values in their order.
        for i in 0..n {
            let mut least = i;
            for j in i + 1..n {
                if diagonal[j] < diagonal[least] {
                    least = j;
                }
            }
            if least != i {
                diagonal.swap(i, least);
                if with_vectors {
                    vectors.swap_rows(i, least);
                }
            }
        }
        let values = diagonal.into_iter().map(|value| value * scale).collect();
        Some(Eigen { values, vectors })
    }
}

/// Makes a self-adjoint matrix tridiagonal, `A = Q T Q^H`. Returns the diagonal, what is below it, and the reflections that
/// Q is made of.
fn tridiagonal<T: Scalar>(a: &mut Matrix<T>) -> (Vec<T::Real>, Vec<T::Real>, Vec<Reflector<T>>) {
    let n = a.rows;
    let mut below = Vec::new();
    let mut reflectors = Vec::new();
    for k in 0..n.saturating_sub(1) {
        let column: Vec<T> = (k + 1..n).map(|i| a[(i, k)]).collect();
        let reflector = Reflector::new(&column);
        below.push(reflector.beta);
        reflector.apply_left(a, k + 1, k + 1);
        reflector.adjoint().apply_right(a, k + 1, k + 1);
        reflectors.push(reflector);
    }
    let diagonal = (0..n).map(|i| a[(i, i)].re()).collect();
    (diagonal, below, reflectors)
}

/// Steps that a matrix may take for each row.
const STEPS: usize = 30;

/// Makes a tridiagonal matrix diagonal, and rotates the rows of `vectors` with it. Returns false if that fails.
fn diagonalize<T: Scalar>(
    diagonal: &mut [T::Real],
    below: &mut [T::Real],
    vectors: &mut Matrix<T>,
) -> bool {
    let (zero, n) = (T::Real::zero(), diagonal.len());
    let tiny = <T::Real as Float>::min_positive_value();
    let precision = T::Real::one() / <T::Real as Float>::epsilon();
    let mut end = n.saturating_sub(1);
    let mut steps = 0;
    while end > 0 {
        for i in 0..end {
            let size = Float::abs(below[i]);
            let scaled = precision * size;
            let neighbours = Float::abs(diagonal[i]) + Float::abs(diagonal[i + 1]);
            if size < tiny || scaled * scaled <= neighbours {
                below[i] = zero;
            }
        }
        while end > 0 && below[end - 1] == zero {
            end -= 1;
        }
        if end == 0 {
            break;
        }
        steps += 1;
        if steps > STEPS * n {
            return false;
        }
        let mut start = end - 1;
        while start > 0 && below[start - 1] != zero {
            start -= 1;
        }
        step(diagonal, below, start, end, vectors);
    }
    true
}

/// One QR step with Wilkinson's shift on the rows from `start` to `end`.
fn step<T: Scalar>(
    diagonal: &mut [T::Real],
    below: &mut [T::Real],
    start: usize,
    end: usize,
    vectors: &mut Matrix<T>,
) {
    let zero = T::Real::zero();
    let half = T::Real::one() / (T::Real::one() + T::Real::one());
    let distance = (diagonal[end - 1] - diagonal[end]) * half;
    let e = below[end - 1];
    let mut shift = diagonal[end];
    if distance == zero {
        shift = shift - Float::abs(e);
    } else if e != zero {
        let square = e * e;
        let root = Float::hypot(distance, e);
        let sum = distance + if distance > zero { root } else { -root };
        shift = shift - if square == zero { e / (sum / e) } else { square / sum };
    }
    let mut x = diagonal[start] - shift;
    let mut z = below[start];
    for k in start..end {
        if z == zero {
            break;
        }
        let (c, s) = givens(x, z);
        let sdk = s * diagonal[k] + c * below[k];
        let dkp1 = s * below[k] + c * diagonal[k + 1];
        diagonal[k] =
            c * (c * diagonal[k] - s * below[k]) - s * (c * below[k] - s * diagonal[k + 1]);
        diagonal[k + 1] = s * sdk + c * dkp1;
        below[k] = c * sdk - s * dkp1;
        if k > start {
            below[k - 1] = c * below[k - 1] - s * z;
        }
        x = below[k];
        if k < end - 1 {
            z = -s * below[k + 1];
            below[k + 1] = c * below[k + 1];
        }
        if vectors.rows > 0 {
            rotate(vectors.two_rows(k, k + 1), c, s);
        }
    }
}

/// Cosine and sine with `c p - s q = r` and `s p + c q = 0`.
pub(crate) fn givens<R: Real>(p: R, q: R) -> (R, R) {
    let (zero, one) = (R::zero(), R::one());
    if q == zero {
        (if p < zero { -one } else { one }, zero)
    } else if p == zero {
        (zero, if q < zero { one } else { -one })
    } else if Float::abs(p) > Float::abs(q) {
        let t = q / p;
        let u = Float::sqrt(one + t * t);
        let c = one / if p < zero { -u } else { u };
        (c, -t * c)
    } else {
        let t = p / q;
        let u = Float::sqrt(one + t * t);
        let s = -one / if q < zero { -u } else { u };
        (-t * s, s)
    }
}

//! Schur's decomposition of general matrices, `A = U T U^H` with T upper triangular, and what is computed by it:
//! eigenvalues, square roots and logarithms.

use num_complex::ComplexFloat;
use num_traits::{Float, FromPrimitive, NumCast, One, Zero};
use smallvec::SmallVec;
use tfcore_base::{Complex64, Complex128, DType, Result, invalid, require};
use tfcore_framework::Registry;
use tfcore_tensor::ElemsMut;

use crate::batch::{Algorithm, Algorithms, BatchOp, Problem, check_square, cube, dims, output};
use crate::entry::register_op;
use crate::matrix::{Fields, Matrix, Reflector, Scalar};
use crate::qr::unitary_from;
use crate::shapes;

pub(crate) fn register(r: &mut Registry) {
    // `Eig(input: T) -> (e: Tout, v: Tout)`: eigenvalues by rising absolute value and, if attr `compute_v`, eigenvectors of
    // length 1 as columns.
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
        cost: |sizes| cube(sizes[0][0]).saturating_mul(30),
        ..BatchOp::SQUARE
    };
    r.op("Eig").shape(shapes::eigen).cpu(move |init| {
        let (from, to) = (init.input_dtypes[0], init.output_dtypes[0]);
        let is_single = matches!(from, DType::FLOAT | DType::COMPLEX64);
        let expected = if is_single { DType::COMPLEX64 } else { DType::COMPLEX128 };
        require!(to == expected, "Invalid output dtype {} vs {}", to.to_i32(), expected.to_i32());
        op.kernel(init, init.loop_for::<Algorithms<EigForm>, Fields>(from)?)
    });
    let function =
        BatchOp { cost: |sizes| cube(sizes[0][0]).saturating_mul(30), ..BatchOp::SQUARE };
    // `MatrixSquareRoot(input: T) -> output: T`, the principal one; NaN if there is none of the type.
    register_op::<RootForm, Fields>(r.op("MatrixSquareRoot"), shapes::square, function);
    // `MatrixLogarithm(input: T) -> output: T`, the principal one; NaN for singular matrices.
    register_op::<LogForm, (Complex64, Complex128)>(
        r.op("MatrixLogarithm"),
        shapes::square,
        function,
    );
}

struct EigForm;

impl<T: Scalar> Algorithm<T> for EigForm {
    fn solve(problem: &Problem<'_>, outputs: &mut [ElemsMut<'_>]) -> Result<()> {
        eigen::<T>(problem, outputs)
    }
}

fn eigen<T: Scalar>(problem: &Problem<'_>, outputs: &mut [ElemsMut<'_>]) -> Result<()> {
    let with_vectors = problem.flags[0];
    let Some(Schur { t, u }) = Schur::new(to_complex(&problem.matrix::<T>(0)), with_vectors) else {
        return Err(invalid!(
            "Eigen decomposition was not successful. The input might not be valid."
        ));
    };
    let n = t.rows;
    let mut values: Vec<T::Complex> = (0..n).map(|i| t[(i, i)]).collect();
    // The eigenvectors as rows.
    let mut vectors = if with_vectors { eigenvectors(&t, &u) } else { Matrix::zeros(0, n) };
    for i in 0..n {
        let mut least = i;
        for j in i + 1..n {
            if values[j].abs() < values[least].abs() {
                least = j;
            }
        }
        values.swap(i, least);
        if with_vectors {
            vectors.swap_rows(i, least);
        }
    }
    output::<T::Complex>(outputs, 0).copy_from_slice(&values);
    if with_vectors {
        let out = output::<T::Complex>(outputs, 1);
        for i in 0..n {
            for j in 0..n {
                out[i * n + j] = vectors[(j, i)];
            }
        }
    }
    Ok(())
}

/// The eigenvectors of `U T U^H` as rows.
fn eigenvectors<T: Scalar>(t: &Matrix<T>, u: &Matrix<T>) -> Matrix<T> {
    let n = t.rows;
    let squares = t.data.iter().fold(T::Real::zero(), |sum, x| sum + x.norm_sqr());
    let norm = Float::max(Float::sqrt(squares), <T::Real as Float>::min_positive_value());
    let mut x = Matrix::<T>::zeros(n, n);
    for k in (0..n).rev() {
        x[(k, k)] = T::one();
        for i in (0..k).rev() {
            let mut sum = -t[(i, k)];
            for j in i + 1..k {
                sum = sum - t[(i, j)] * x[(j, k)];
            }
            let mut difference = t[(i, i)] - t[(k, k)];
            if difference == T::zero() {
                difference = T::of(<T::Real as Float>::epsilon() * norm);
            }
            x[(i, k)] = sum / difference;
        }
    }
    let product = u.times(&x);
    let mut rows = Matrix::zeros(n, n);
    for k in 0..n {
        let largest = (0..n).fold(T::Real::zero(), |max, i| Float::max(max, product[(i, k)].abs()));
        let squares = (0..n)
            .fold(T::Real::zero(), |sum, i| sum + (product[(i, k)] / T::of(largest)).norm_sqr());
        let length = Float::sqrt(squares);
        for i in 0..n {
            rows[(k, i)] = product[(i, k)] / T::of(largest) / T::of(length);
        }
    }
    rows
}

fn to_complex<T: Scalar>(a: &Matrix<T>) -> Matrix<T::Complex> {
    let data = a.data.iter().map(|x| x.to_complex()).collect();
    Matrix { rows: a.rows, cols: a.cols, data }
}

/// Steps that a matrix may take for each row.
const STEPS: usize = 30;

/// Schur's decomposition of a complex matrix.
struct Schur<T> {
    t: Matrix<T>,
    /// The identity if it is not asked for.
    u: Matrix<T>,
}

impl<T: Scalar<Complex = T>> Schur<T> {
    /// `None` if the steps do not converge, which takes NaN or infinity.
    fn new(mut t: Matrix<T>, with_vectors: bool) -> Option<Schur<T>> {
        let n = t.rows;
        if !t.is_finite() {
            return None;
        }
        let mut reflectors = Vec::new();
        for k in 0..n.saturating_sub(1) {
            let column: Vec<T> = (k + 1..n).map(|i| t[(i, k)]).collect();
            let reflector = Reflector::new(&column);
            t[(k + 1, k)] = T::of(reflector.beta);
            for i in k + 2..n {
                t[(i, k)] = T::zero();
            }
            reflector.apply_left(&mut t, k + 1, k + 1);
            reflector.adjoint().apply_right(&mut t, 0, k + 1);
            reflectors.push(reflector);
        }
        let u = match with_vectors {
            true => unitary_from(&reflectors, n, n, 1),
            false => Matrix::zeros(0, n),
        };
        let mut schur = Schur { t, u };
        schur.triangularize().then_some(schur)
    }

    fn triangularize(&mut self) -> bool {
        let n = self.t.rows;
        let mut end = n.saturating_sub(1);
        let (mut steps, mut total) = (0, 0);
        loop {
            while end > 0 && self.is_negligible(end - 1) {
                steps = 0;
                end -= 1;
            }
            if end == 0 {
                return true;
            }
            steps += 1;
            total += 1;
            if total > STEPS * n {
                return false;
            }
            let mut start = end - 1;
            while start > 0 && !self.is_negligible(start - 1) {
                start -= 1;
            }
            let shift = self.shift(end, steps);
            let (c, s, _) =
                complex_givens(self.t[(start, start)] - shift, self.t[(start + 1, start)]);
            self.rotate(start, start, end, c, s);
            for k in start + 1..end {
                let (c, s, r) = complex_givens(self.t[(k, k - 1)], self.t[(k + 1, k - 1)]);
                self.t[(k, k - 1)] = r;
                self.t[(k + 1, k - 1)] = T::zero();
                self.rotate(k, k, end, c, s);
            }
        }
    }

    /// Sets an element below the diagonal to 0 if it is small next to its neighbours.
    fn is_negligible(&mut self, k: usize) -> bool {
        let norm1 = |x: T| Float::abs(x.re()) + Float::abs(x.im());
        let sum = norm1(self.t[(k, k)]) + norm1(self.t[(k + 1, k + 1)]);
        let is_small = norm1(self.t[(k + 1, k)]) <= sum * <T::Real as Float>::epsilon();
        if is_small {
            self.t[(k + 1, k)] = T::zero();
        }
        is_small
    }

    /// The eigenvalue of the last two rows that is nearer to the last element; another number now and then, so that no
    /// cycle lasts.
    fn shift(&self, end: usize, steps: usize) -> T {
        let at = |i: usize, j: usize| self.t[(end - 1 + i, end - 1 + j)];
        if (steps == 10 || steps == 20) && end > 1 {
            let real = |i: usize, j: usize| Float::abs(self.t[(i, j)].re());
            return T::of(real(end, end - 1) + real(end - 1, end - 2));
        }
        let norm1 = |x: T| Float::abs(x.re()) + Float::abs(x.im());
        let size = at(0, 0).abs() + at(0, 1).abs() + at(1, 0).abs() + at(1, 1).abs();
        let [a, b, c, d] = [at(0, 0), at(0, 1), at(1, 0), at(1, 1)].map(|x| x / T::of(size));
        let two = T::one() + T::one();
        let product = b * c;
        let root = ((a - d) * (a - d) + two * two * product).sqrt();
        let determinant = a * d - product;
        let mut first = (a + d + root) / two;
        let mut second = (a + d - root) / two;
        if norm1(first) > norm1(second) {
            second = determinant / first;
        } else if norm1(second) != T::Real::zero() {
            first = determinant / second;
        }
        T::of(size) * if norm1(first - d) < norm1(second - d) { first } else { second }
    }

    /// Rotates rows and columns k and k + 1, whose elements before column `from` are 0.
    fn rotate(&mut self, k: usize, from: usize, end: usize, c: T, s: T) {
        let (x, y) = self.t.two_rows(k, k + 1);
        for (x, y) in x[from..].iter_mut().zip(&mut y[from..]) {
            (*x, *y) = (c.conj() * *x - s.conj() * *y, s * *x + c * *y);
        }
        let columns = |matrix: &mut Matrix<T>, rows: usize| {
            for i in 0..rows {
                let (x, y) = (matrix[(i, k)], matrix[(i, k + 1)]);
                matrix[(i, k)] = c * x - s * y;
                matrix[(i, k + 1)] = s.conj() * x + c.conj() * y;
            }
        };
        columns(&mut self.t, (k + 2).min(end) + 1);
        let rows = self.u.rows;
        columns(&mut self.u, rows);
    }

    /// `U f(T) U^H` for a function of T.
    fn compose(&self, f: &Matrix<T>) -> Matrix<T> {
        self.u.times(f).times(&self.u.adjoint())
    }
}

/// Cosine, sine and result with `conj(c) p - conj(s) q = r` and `s p + c q = 0`.
fn complex_givens<T: Scalar>(p: T, q: T) -> (T, T, T) {
    let (zero, one) = (T::Real::zero(), T::Real::one());
    if q == T::zero() {
        let c = if p.re() < zero { -one } else { one };
        return (T::of(c), T::zero(), T::of(c) * p);
    }
    if p == T::zero() {
        let size = q.abs();
        return (T::zero(), -q / T::of(size), T::of(size));
    }
    let norm1 = |x: T| Float::abs(x.re()) + Float::abs(x.im());
    let scale = norm1(p) + norm1(q);
    let (ps, qs) = (p / T::of(scale), q / T::of(scale));
    let (p2, q2) = (ps.norm_sqr(), qs.norm_sqr());
    let root = Float::sqrt(p2 + q2);
    let root = if p.re() < zero { -root } else { root };
    let size = Float::sqrt(p2);
    // c is real, r has the phase of p.
    let c = size / root;
    let phase = ps / T::of(size);
    let s = -qs * phase.conj() / T::of(root);
    (T::of(c), s, phase * T::of(root * scale))
}

struct RootForm;

impl<T: Scalar> Algorithm<T> for RootForm {
    fn solve(problem: &Problem<'_>, outputs: &mut [ElemsMut<'_>]) -> Result<()> {
        let out = output::<T>(outputs, 0);
        let nan = T::of(Float::nan());
        let Some(schur) = Schur::new(to_complex(&problem.matrix::<T>(0)), true) else {
            out.fill(nan);
            return Ok(());
        };
        let root = schur.compose(&triangular_root(&schur.t));
        // The root of a real matrix is real, or there is none of its type.
        let size = |part: fn(T::Complex) -> T::Real| {
            root.data.iter().fold(T::Real::zero(), |max, &x| Float::max(max, Float::abs(part(x))))
        };
        let tolerance = Float::sqrt(<T::Real as Float>::epsilon());
        let is_real = T::from_parts(T::Real::zero(), T::Real::one()) == T::zero();
        let is_lost = is_real && size(|x| x.im()) > tolerance * size(|x| x.re());
        for (out, x) in out.iter_mut().zip(&root.data) {
            *out = if is_lost { nan } else { T::from_parts(x.re(), x.im()) };
        }
        Ok(())
    }
}

/// The principal square root of an upper triangular matrix.
fn triangular_root<T: Scalar>(t: &Matrix<T>) -> Matrix<T> {
    let n = t.rows;
    let mut root = Matrix::zeros(n, n);
    for j in 0..n {
        root[(j, j)] = t[(j, j)].sqrt();
        for i in (0..j).rev() {
            let mut sum = t[(i, j)];
            for k in i + 1..j {
                sum = sum - root[(i, k)] * root[(k, j)];
            }
            root[(i, j)] = sum / (root[(i, i)] + root[(j, j)]);
        }
    }
    root
}

struct LogForm;

impl<T: Scalar<Complex = T>> Algorithm<T> for LogForm {
    fn solve(problem: &Problem<'_>, outputs: &mut [ElemsMut<'_>]) -> Result<()> {
        let out = output::<T>(outputs, 0);
        let schur = Schur::new(problem.matrix::<T>(0), true);
        let log = schur.and_then(|schur| Some(schur.compose(&triangular_log(&schur.t)?)));
        match log {
            Some(log) => out.copy_from_slice(&log.data),
            None => {
                out.fill(T::from_parts(Float::nan(), Float::nan()));
            }
        }
        Ok(())
    }
}

/// The principal logarithm of an upper triangular matrix: of a root that is near the identity, by the series of
/// `2 atanh((T - I) / (T + I))`, times the order of the root. `None` for a singular matrix.
fn triangular_log<T: Scalar>(t: &Matrix<T>) -> Option<Matrix<T>> {
    let n = t.rows;
    let diagonal: Vec<T> = (0..n).map(|i| t[(i, i)]).collect();
    let largest = diagonal.iter().fold(T::Real::zero(), |max, x| Float::max(max, x.abs()));
    let least = largest * <T::Real as Float>::epsilon();
    if diagonal.iter().any(|x| x.abs() <= least) {
        return None;
    }
    let identity = Matrix::identity(n);
    let limit: T::Real = NumCast::from(0.125)?;
    let two = T::one() + T::one();
    let (mut root, mut order) = (t.clone(), T::one());
    let mut halvings = 0;
    while root.minus(&identity).one_norm() > limit {
        root = triangular_root(&root);
        order = order * two;
        halvings += 1;
        // A root of a regular matrix comes near the identity long before.
        if halvings > 200 {
            return None;
        }
    }
    // Z (T + I) = T - I; the two commute, so that it is no matter from which side one divides.
    let z = divide_triangular(&root.plus(&identity), &root.minus(&identity));
    let square = z.times(&z);
    let mut sum = Matrix::zeros(n, n);
    // Terms that are below the precision of f64 for |z| up to 1/15.
    for k in (0..10).rev() {
        let coefficient: T::Real = NumCast::from(1.0 / f64::from_u32(2 * k + 1)?)?;
        sum = square.times(&sum).plus(&identity.map(|x| x * T::of(coefficient)));
    }
    let mut log = z.times(&sum).map(|x| x * two * order);
    for (i, x) in diagonal.into_iter().enumerate() {
        log[(i, i)] = x.ln();
    }
    Some(log)
}

/// X with `A X = B` for upper triangular matrices.
fn divide_triangular<T: Scalar>(a: &Matrix<T>, b: &Matrix<T>) -> Matrix<T> {
    let n = a.rows;
    let mut x = b.clone();
    for j in 0..n {
        for i in (0..=j).rev() {
            let mut sum = x[(i, j)];
            for k in i + 1..=j {
                sum = sum - a[(i, k)] * x[(k, j)];
            }
            x[(i, j)] = sum / a[(i, i)];
        }
    }
    x
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complex_rotations() {
        let i = Complex128::i();
        for (p, q) in [(1.0 + 2.0 * i, 3.0 - i), (0.0 * i, 2.0 * i), (-1.0 + i, 0.0 * i)] {
            let (c, s, r) = complex_givens(p, q);
            assert!((c.conj() * p - s.conj() * q - r).norm() < 1e-14, "{p} {q}");
            assert!((s * p + c * q).norm() < 1e-14, "{p} {q}");
            assert!((c.norm_sqr() + s.norm_sqr() - 1.0).abs() < 1e-14, "{p} {q}");
        }
    }
}

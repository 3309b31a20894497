//! Singular values: reduction to a real bidiagonal matrix by reflections, then QR steps with implicit shifts.

use num_traits::{Float, One, Zero};
use smallvec::SmallVec;
use tfcore_base::Result;
use tfcore_framework::Registry;
use tfcore_tensor::ElemsMut;

use crate::batch::{Algorithm, BatchOp, Problem, cube, dims, output};
use crate::entry::register_op;
use crate::matrix::{Fields, Matrix, Reflector, Scalar, rotate};
use crate::qr::unitary_from;
use crate::self_adjoint::givens;
use crate::shapes;

pub(crate) fn register(r: &mut Registry) {
    // `Svd(input: T) -> (s: T, u: T, v: T)`: falling singular values and, if attr `compute_uv`, unitary U and V with
    // `U diag(s) V^H = A`; all of their columns if attr `full_matrices`.
    let op = BatchOp {
        inputs: 1,
        flags: &["compute_uv", "full_matrices"],
        parameter: None,
        outputs: |sizes, flags| {
            let [m, n] = sizes[0];
            let count = m.min(n);
            let width = |size: usize| if flags[1] { size } else { count };
            let mut shapes = SmallVec::from_iter([dims(&[count])]);
            if flags[0] {
                shapes.push(dims(&[m, width(m)]));
                shapes.push(dims(&[n, width(n)]));
            }
            Ok(shapes)
        },
        cost: |sizes| cube(sizes[0][0].max(sizes[0][1])).saturating_mul(10),
    };
    for name in ["Svd", "BatchSvd"] {
        register_op::<SvdForm, Fields>(r.op(name), shapes::svd, op);
    }
}

struct SvdForm;

impl<T: Scalar> Algorithm<T> for SvdForm {
    fn solve(problem: &Problem<'_>, outputs: &mut [ElemsMut<'_>]) -> Result<()> {
        let ([m, n], [with_vectors, full]) =
            (problem.sizes[0], [problem.flags[0], problem.flags[1]]);
        let a = problem.matrix::<T>(0);
        if !a.is_finite() {
            for index in 0..outputs.len() {
                output::<T>(outputs, index).fill(T::of(Float::nan()));
            }
            return Ok(());
        }
        let is_wide = m < n;
        let tall = if is_wide { a.adjoint() } else { a };
        let width = if full { tall.rows } else { tall.cols };
        let svd = Svd::new(tall, with_vectors.then_some(width));
        for (out, &value) in output::<T>(outputs, 0).iter_mut().zip(&svd.values) {
            *out = T::of(value);
        }
        if with_vectors {
            // A = U S V^H where A^H = V S U^H.
            let (u, v) = if is_wide { (svd.v, svd.u) } else { (svd.u, svd.v) };
            copy_transposed(&u, output::<T>(outputs, 1));
            copy_transposed(&v, output::<T>(outputs, 2));
        }
        Ok(())
    }
}

fn copy_transposed<T: Scalar>(from: &Matrix<T>, to: &mut [T]) {
    for i in 0..from.cols {
        for j in 0..from.rows {
            to[i * from.rows + j] = from[(j, i)];
        }
    }
}

struct Svd<T: Scalar> {
    /// In falling order.
    values: Vec<T::Real>,
    /// The columns of U and V as rows, not conjugated; empty if they are not asked for.
    u: Matrix<T>,
    v: Matrix<T>,
}

impl<T: Scalar> Svd<T> {
    /// Of a matrix with at least as many rows as columns; `width` is the number of columns of U, `None` if there is to be
    /// none.
    fn new(mut a: Matrix<T>, width: Option<usize>) -> Svd<T> {
        let (m, n) = (a.rows, a.cols);
        let zero = T::Real::zero();
        let largest = a.data.iter().fold(zero, |max, x| Float::max(max, x.abs()));
        let scale = if largest == zero { T::Real::one() } else { largest };
        a.data.iter_mut().for_each(|x| *x = *x / T::of(scale));
        let (mut diagonal, mut above) = (Vec::new(), Vec::new());
        let (mut left, mut right) = (Vec::new(), Vec::new());
        for k in 0..n {
            let column: Vec<T> = (k..m).map(|i| a[(i, k)]).collect();
            let reflector = Reflector::new(&column);
            diagonal.push(reflector.beta);
            reflector.apply_left(&mut a, k, k + 1);
            left.push(reflector);
            if k + 1 < n {
                let row: Vec<T> = a.row(k)[k + 1..].iter().map(|x| x.conj()).collect();
                let reflector = Reflector::new(&row);
                above.push(reflector.beta);
                reflector.adjoint().apply_right(&mut a, k + 1, k + 1);
                right.push(reflector);
            }
        }
        let rows_of = |q: Matrix<T>| {
            let mut rows = Matrix::zeros(q.cols, q.rows);
            for i in 0..q.rows {
                for j in 0..q.cols {
                    rows[(j, i)] = q[(i, j)];
                }
            }
            rows
        };
        let (mut u, mut v) = (Matrix::zeros(0, m), Matrix::zeros(0, n));
        if let Some(width) = width {
            u = rows_of(unitary_from(&left, m, width, 0));
            v = rows_of(unitary_from(&right, n, n, 1));
        }
        let mut bidiagonal = Bidiagonal { diagonal, above, u: &mut u, v: &mut v };
        bidiagonal.diagonalize();
        let mut values = bidiagonal.diagonal;
        for i in 0..n {
            if values[i] < zero || values[i].is_sign_negative() {
                values[i] = -values[i];
                if width.is_some() {
                    v.row_mut(i).iter_mut().for_each(|x| *x = -*x);
                }
            }
        }
        for i in 0..n {
            let mut best = i;
            for j in i + 1..n {
                if values[j] > values[best] {
                    best = j;
                }
            }
            if best != i {
                values.swap(i, best);
                if width.is_some() {
                    u.swap_rows(i, best);
                    v.swap_rows(i, best);
                }
            }
        }
        values.iter_mut().for_each(|value| *value = *value * scale);
        Svd { values, u, v }
    }
}

/// An upper bidiagonal matrix and the rows that are rotated with it.
struct Bidiagonal<'a, T: Scalar> {
    diagonal: Vec<T::Real>,
    above: Vec<T::Real>,
    u: &'a mut Matrix<T>,
    v: &'a mut Matrix<T>,
}

/// Steps that a matrix may take for each row.
const STEPS: usize = 60;

impl<T: Scalar> Bidiagonal<'_, T> {
    fn diagonalize(&mut self) {
        let (zero, n) = (T::Real::zero(), self.diagonal.len());
        let epsilon = <T::Real as Float>::epsilon();
        let norm = self
            .diagonal
            .iter()
            .chain(&self.above)
            .fold(zero, |max, &x| Float::max(max, Float::abs(x)));
        let negligible = epsilon * norm;
        let mut end = n.saturating_sub(1);
        for _ in 0..STEPS * n {
            for i in 0..end {
                let neighbours = Float::abs(self.diagonal[i]) + Float::abs(self.diagonal[i + 1]);
                if Float::abs(self.above[i]) <= epsilon * neighbours {
                    self.above[i] = zero;
                }
            }
            while end > 0 && self.above[end - 1] == zero {
                end -= 1;
            }
            if end == 0 {
                return;
            }
            let mut start = end - 1;
            while start > 0 && self.above[start - 1] != zero {
                start -= 1;
            }
            // A 0 on the diagonal splits the matrix, once what is beside it has been rotated away.
            match (start..=end).find(|&i| Float::abs(self.diagonal[i]) <= negligible) {
                Some(i) if i == end => self.clear_column(start, end),
                Some(i) => self.clear_row(i, end),
                None => self.step(start, end),
            }
        }
    }

    fn rotate_u(&mut self, i: usize, j: usize, c: T::Real, s: T::Real) {
        if self.u.rows > 0 {
            rotate(self.u.two_rows(i, j), c, s);
        }
    }

    fn rotate_v(&mut self, i: usize, j: usize, c: T::Real, s: T::Real) {
        if self.v.rows > 0 {
            rotate(self.v.two_rows(i, j), c, s);
        }
    }

    /// Makes row `row`, whose element on the diagonal is 0, vanish by rotations with the rows below it.
    fn clear_row(&mut self, row: usize, end: usize) {
        let zero = T::Real::zero();
        self.diagonal[row] = zero;
        let mut f = self.above[row];
        self.above[row] = zero;
        for k in row + 1..=end {
            // Rotates rows `row` and k so that element (row, k) is 0.
            let (c, s) = givens(self.diagonal[k], f);
            self.diagonal[k] = c * self.diagonal[k] - s * f;
            if k < end {
                f = s * self.above[k];
                self.above[k] = c * self.above[k];
            }
            // The row k takes `c k - s row`, the other one `s k + c row`.
            self.rotate_u(row, k, c, -s);
        }
    }

    /// Makes the last column, whose element on the diagonal is 0, vanish by rotations with the columns before it.
    fn clear_column(&mut self, start: usize, end: usize) {
        let zero = T::Real::zero();
        self.diagonal[end] = zero;
        let mut f = self.above[end - 1];
        self.above[end - 1] = zero;
        for k in (start..end).rev() {
            // Rotates columns k and `end` so that element (k, end) is 0.
            let (c, s) = givens(self.diagonal[k], f);
            self.diagonal[k] = c * self.diagonal[k] - s * f;
            if k > start {
                f = s * self.above[k - 1];
                self.above[k - 1] = c * self.above[k - 1];
            }
            self.rotate_v(k, end, c, s);
        }
    }

    /// One QR step on the rows from `start` to `end`, with the eigenvalue of the last two rows of `B^T B` for a shift.
    fn step(&mut self, start: usize, end: usize) {
        let zero = T::Real::zero();
        let two = T::Real::one() + T::Real::one();
        let before = if end - 1 > start { self.above[end - 2] } else { zero };
        let (d1, d2, e) = (self.diagonal[end - 1], self.diagonal[end], self.above[end - 1]);
        let (t11, t22, t12) = (d1 * d1 + before * before, d2 * d2 + e * e, d1 * e);
        let distance = (t11 - t22) / two;
        let root = Float::hypot(distance, t12);
        let sum = distance + if distance < zero { -root } else { root };
        let shift = if sum == zero { t22 - Float::abs(t12) } else { t22 - t12 * t12 / sum };
        let first = self.diagonal[start];
        let mut y = first * first - shift;
        let mut z = first * self.above[start];
        for k in start..end {
            // Columns k and k + 1.
            let (c, s) = givens(y, z);
            if k > start {
                self.above[k - 1] = c * y - s * z;
            }
            let (d, e, next) = (self.diagonal[k], self.above[k], self.diagonal[k + 1]);
            self.above[k] = s * d + c * e;
            y = c * d - s * e;
            z = -s * next;
            self.diagonal[k + 1] = c * next;
            self.rotate_v(k, k + 1, c, s);
            // Rows k and k + 1.
            let (c, s) = givens(y, z);
            self.diagonal[k] = c * y - s * z;
            let (e, next) = (self.above[k], self.diagonal[k + 1]);
            self.above[k] = c * e - s * next;
            self.diagonal[k + 1] = s * e + c * next;
            if k + 1 < end {
                let after = self.above[k + 1];
                y = self.above[k];
                z = -s * after;
                self.above[k + 1] = c * after;
            }
            self.rotate_u(k, k + 1, c, s);
        }
    }
}

//! Scalars and matrices as the algorithms see them.

use std::fmt::Debug;

use num_complex::ComplexFloat;
use num_traits::Float;
use tfcore_base::{Complex64, Complex128, Elem};
use tfcore_math::gemm::{MatMut, MatRef, MatmulElem, matmul};
use tfcore_math::isa::vectorize;
use tfcore_math::pool::Parallel;

/// The types that all algorithms are defined for.
pub(crate) type Fields = (f32, f64, Complex64, Complex128);

/// A real or complex number.
pub(crate) trait Scalar: Elem + Copy + MatmulElem + ComplexFloat<Real: Real> {
    /// The complex type with parts of the same precision.
    type Complex: Scalar<Real = Self::Real, Complex = Self::Complex>;

    fn of(re: Self::Real) -> Self;
    fn to_complex(self) -> Self::Complex;
    fn from_parts(re: Self::Real, im: Self::Real) -> Self;

    /// `|x|²`.
    fn norm_sqr(self) -> Self::Real {
        self.re() * self.re() + self.im() * self.im()
    }
}

/// A real number.
pub(crate) trait Real: Float + Elem + Copy + Debug {}

impl Real for f32 {}
impl Real for f64 {}

macro_rules! scalars {
    ($($t:ty, $c:ty;)*) => {$(
        impl Scalar for $t {
            type Complex = $c;

            #[inline(always)]
            fn of(re: $t) -> $t {
                re
            }

            fn to_complex(self) -> $c {
                <$c>::new(self, 0.0)
            }

            /// The real part.
            fn from_parts(re: $t, _: $t) -> $t {
                re
            }
        }

        impl Scalar for $c {
            type Complex = $c;

            #[inline(always)]
            fn of(re: $t) -> $c {
                <$c>::new(re, 0.0)
            }

            fn to_complex(self) -> $c {
                self
            }

            fn from_parts(re: $t, im: $t) -> $c {
                <$c>::new(re, im)
            }
        }
    )*};
}
scalars! {
    f32, Complex64;
    f64, Complex128;
}

/// A dense matrix, row by row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Matrix<T> {
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    pub(crate) data: Vec<T>,
}

impl<T: Scalar> Matrix<T> {
    pub(crate) fn zeros(rows: usize, cols: usize) -> Matrix<T> {
        Matrix { rows, cols, data: vec![T::zero(); rows * cols] }
    }

    pub(crate) fn identity(size: usize) -> Matrix<T> {
        let mut matrix = Matrix::zeros(size, size);
        for i in 0..size {
            matrix[(i, i)] = T::one();
        }
        matrix
    }

    /// The matrix of these elements, as many as its size needs.
    pub(crate) fn from_slice([rows, cols]: [usize; 2], data: &[T]) -> Matrix<T> {
        debug_assert_eq!(data.len(), rows * cols);
        Matrix { rows, cols, data: data.to_vec() }
    }

    pub(crate) fn row(&self, row: usize) -> &[T] {
        &self.data[row * self.cols..(row + 1) * self.cols]
    }

    pub(crate) fn row_mut(&mut self, row: usize) -> &mut [T] {
        &mut self.data[row * self.cols..(row + 1) * self.cols]
    }

    /// Two rows, the first of which comes before the second.
    pub(crate) fn two_rows(&mut self, first: usize, second: usize) -> (&mut [T], &mut [T]) {
        let cols = self.cols;
        let (head, tail) = self.data.split_at_mut(second * cols);
        (&mut head[first * cols..(first + 1) * cols], &mut tail[..cols])
    }

    pub(crate) fn swap_rows(&mut self, a: usize, b: usize) {
        if a != b {
            let (first, second) = self.two_rows(a.min(b), a.max(b));
            first.swap_with_slice(second);
        }
    }

    /// The conjugate transpose.
    pub(crate) fn adjoint(&self) -> Matrix<T> {
        let mut out = Matrix::zeros(self.cols, self.rows);
        for i in 0..self.rows {
            for j in 0..self.cols {
                out[(j, i)] = self[(i, j)].conj();
            }
        }
        out
    }

    pub(crate) fn times(&self, other: &Matrix<T>) -> Matrix<T> {
        let mut out = Matrix::zeros(self.rows, other.cols);
        let a = MatRef::new(&self.data, self.cols, 1);
        let b = MatRef::new(&other.data, other.cols, 1);
        let (m, n, k) = (self.rows, other.cols, self.cols);
        if m > 0 && n > 0 {
            matmul(Parallel::SERIAL, m, n, k, a, b, MatMut::new(&mut out.data, n, 1), false);
        }
        out
    }

    pub(crate) fn map(&self, f: impl Fn(T) -> T) -> Matrix<T> {
        let data = self.data.iter().map(|&x| f(x)).collect();
        Matrix { data, ..*self }
    }

    /// Element by element.
    pub(crate) fn zip(&self, other: &Matrix<T>, f: impl Fn(T, T) -> T) -> Matrix<T> {
        let data = self.data.iter().zip(&other.data).map(|(&x, &y)| f(x, y)).collect();
        Matrix { data, ..*self }
    }

    pub(crate) fn plus(&self, other: &Matrix<T>) -> Matrix<T> {
        self.zip(other, |x, y| x + y)
    }

    pub(crate) fn minus(&self, other: &Matrix<T>) -> Matrix<T> {
        self.zip(other, |x, y| x - y)
    }

    /// The largest sum of the absolute values of a column.
    pub(crate) fn one_norm(&self) -> T::Real {
        let mut sums = vec![<T::Real as num_traits::Zero>::zero(); self.cols];
        for i in 0..self.rows {
            for (sum, x) in sums.iter_mut().zip(self.row(i)) {
                *sum = *sum + x.abs();
            }
        }
        // A comparison that holds for NaN on the right keeps it.
        sums.into_iter()
            .fold(<T::Real as num_traits::Zero>::zero(), |a, b| if a > b { a } else { b })
    }

    pub(crate) fn is_finite(&self) -> bool {
        self.data.iter().all(|x| x.is_finite())
    }
}

impl<T> std::ops::Index<(usize, usize)> for Matrix<T> {
    type Output = T;

    #[inline(always)]
    fn index(&self, (row, col): (usize, usize)) -> &T {
        &self.data[row * self.cols + col]
    }
}

impl<T> std::ops::IndexMut<(usize, usize)> for Matrix<T> {
    #[inline(always)]
    fn index_mut(&mut self, (row, col): (usize, usize)) -> &mut T {
        &mut self.data[row * self.cols + col]
    }
}

/// `y += a x`.
#[inline]
pub(crate) fn add_scaled<T: Scalar>(y: &mut [T], a: T, x: &[T]) {
    vectorize(
        #[inline(always)]
        || {
            for (y, &x) in y.iter_mut().zip(x) {
                *y = *y + a * x;
            }
        },
    );
}

/// Rotates two rows: `x' = c x - s y`, `y' = s x + c y`.
#[inline]
pub(crate) fn rotate<T: Scalar>((x, y): (&mut [T], &mut [T]), c: T::Real, s: T::Real) {
    let (c, s) = (T::of(c), T::of(s));
    vectorize(
        #[inline(always)]
        || {
            for (x, y) in x.iter_mut().zip(y) {
                (*x, *y) = (c * *x - s * *y, s * *x + c * *y);
            }
        },
    );
}

/// A reflection `H = I - tau v v^H` with `v[0] = 1`, which maps a vector to `[beta, 0, ..]`, beta being real.
pub(crate) struct Reflector<T: Scalar> {
    pub(crate) v: Vec<T>,
    pub(crate) tau: T,
    pub(crate) beta: T::Real,
}

impl<T: Scalar> Reflector<T> {
    /// The reflection of `x`, which has an element at least. The sign of beta is the opposite of that of the first
    /// element; nothing is reflected if the others are 0.
    pub(crate) fn new(x: &[T]) -> Reflector<T> {
        let zero = <T::Real as num_traits::Zero>::zero();
        let first = x[0];
        let tail = x[1..].iter().fold(zero, |sum, x| sum + x.norm_sqr());
        let tiny = <T::Real as Float>::min_positive_value();
        let mut v = x.to_vec();
        v[0] = T::one();
        if tail <= tiny && first.im() * first.im() <= tiny {
            v[1..].fill(T::zero());
            return Reflector { v, tau: T::zero(), beta: first.re() };
        }
        let norm = Float::sqrt(first.norm_sqr() + tail);
        let beta = if first.re() >= zero { -norm } else { norm };
        let pivot = first - T::of(beta);
        v[1..].iter_mut().for_each(|x| *x = *x / pivot);
        let tau = ((T::of(beta) - first) / T::of(beta)).conj();
        Reflector { v, tau, beta }
    }

    /// The inverse, which is the adjoint.
    pub(crate) fn adjoint(&self) -> Reflector<T> {
        Reflector { v: self.v.clone(), tau: self.tau.conj(), beta: self.beta }
    }

    /// `H A` for the rows of `a` from `row` on and its columns from `col` on.
    pub(crate) fn apply_left(&self, a: &mut Matrix<T>, row: usize, col: usize) {
        if self.tau == T::zero() || col >= a.cols {
            return;
        }
        let mut product = vec![T::zero(); a.cols - col];
        for (i, v) in self.v.iter().enumerate() {
            add_scaled(&mut product, v.conj(), &a.row(row + i)[col..]);
        }
        for (i, &v) in self.v.iter().enumerate() {
            add_scaled(&mut a.row_mut(row + i)[col..], -self.tau * v, &product);
        }
    }

    /// `A H` for the rows of `a` from `row` on and its columns from `col` on.
    pub(crate) fn apply_right(&self, a: &mut Matrix<T>, row: usize, col: usize) {
        if self.tau == T::zero() {
            return;
        }
        let adjoint: Vec<T> = self.v.iter().map(|v| v.conj()).collect();
        for i in row..a.rows {
            let part = &mut a.row_mut(i)[col..];
            let product = part.iter().zip(&self.v).fold(T::zero(), |sum, (&x, &v)| sum + x * v);
            add_scaled(part, -self.tau * product, &adjoint);
        }
    }
}

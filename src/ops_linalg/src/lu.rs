//! Decompositions in triangular factors with partial pivoting, and all that is computed by them: `Lu`, determinants,
//! inverses and solutions of linear equations.

use num_traits::{Float, Zero};
use smallvec::SmallVec;
use tfcore_base::{DType, Elem, Half, Result, internal, require};
use tfcore_framework::Registry;
use tfcore_math::gemm::{MatMut, MatRef, matmul};
use tfcore_math::pool::Parallel;
use tfcore_tensor::ElemsMut;

use crate::batch::{Algorithm, Algorithms, BatchOp, Problem, check_square, cube, dims, output};
use crate::entry::register_op;
use crate::matrix::{Fields, Matrix, Scalar, add_scaled};
use crate::shapes;

pub(crate) fn register(r: &mut Registry) {
    // `Lu(input: T) -> (lu: T, p: output_idx_type)`: the unit lower triangular and the upper triangular factor in one
    // matrix, and the rows of the input in the order of their product.
    let lu = BatchOp {
        outputs: |sizes, _| {
            check_square(sizes[0])?;
            Ok(SmallVec::from_iter([dims(&sizes[0]), dims(&sizes[0][..1])]))
        },
        ..BatchOp::SQUARE
    };
    r.op("Lu").shape(shapes::lu).cpu(move |init| {
        let dtype = init.input_dtypes[0];
        let solve = match init.attrs.dtype("output_idx_type")? {
            DType::INT32 => init.loop_for::<Algorithms<LuForm<i32>>, Fields>(dtype)?,
            _ => init.loop_for::<Algorithms<LuForm<i64>>, Fields>(dtype)?,
        };
        lu.kernel(init, solve)
    });
    // `MatrixDeterminant(input: T) -> output: T`.
    let scalar = BatchOp {
        outputs: |sizes, _| {
            check_square(sizes[0])?;
            Ok(SmallVec::from_iter([dims(&[])]))
        },
        ..BatchOp::SQUARE
    };
    for op in ["MatrixDeterminant", "BatchMatrixDeterminant"] {
        register_op::<DeterminantForm, Fields>(r.op(op), shapes::determinant, scalar);
    }
    // `LogMatrixDeterminant(input: T) -> (sign: T, log_abs_determinant: T)`.
    let scalars = BatchOp {
        outputs: |sizes, _| {
            check_square(sizes[0])?;
            Ok(SmallVec::from_iter([dims(&[]), dims(&[])]))
        },
        ..BatchOp::SQUARE
    };
    register_op::<LogDeterminantForm, Fields>(
        r.op("LogMatrixDeterminant"),
        shapes::log_determinant,
        scalars,
    );
    // `MatrixInverse(input: T) -> output: T`, of the adjoint if attr `adjoint`.
    let inverse = BatchOp { flags: &["adjoint"], ..BatchOp::SQUARE };
    register_op::<InverseForm, (f32, f64, Half, tfcore_base::Complex64, tfcore_base::Complex128)>(
        r.op("MatrixInverse"),
        shapes::square,
        inverse,
    );
    register_op::<InverseForm, (f32, f64, Half)>(
        r.op("BatchMatrixInverse"),
        shapes::square,
        inverse,
    );
    // `MatrixSolve(matrix: T, rhs: T) -> output: T`, X with `A X = B`; the adjoint of A if attr `adjoint`.
    for op in ["MatrixSolve", "BatchMatrixSolve"] {
        register_op::<SolveForm, Fields>(r.op(op), shapes::square_solve, SOLVE);
    }
}

const SOLVE: BatchOp = BatchOp {
    inputs: 2,
    flags: &["adjoint"],
    parameter: None,
    outputs: |sizes, _| {
        let ([rows, cols], [rhs_rows, rhs_cols]) = (sizes[0], sizes[1]);
        require!(rows == cols, "First input (lhs) must be a square matrix.");
        require!(rows == rhs_rows, "Input matrix and rhs are incompatible.");
        Ok(SmallVec::from_iter([dims(&[cols, rhs_cols])]))
    },
    cost: |sizes| cube(sizes[0][0]).saturating_add(sizes[0][0].saturating_mul(sizes[1][1])),
};

/// Columns that are decomposed at once.
const BLOCK: usize = 32;

/// Triangular factors, the unit diagonal of the lower one left out, and the rows in their new order.
pub(crate) struct Factors<T> {
    pub(crate) lu: Matrix<T>,
    pub(crate) rows: Vec<usize>,
    /// True if the order is an odd permutation.
    pub(crate) is_odd: bool,
}

impl<T: Scalar> Factors<T> {
    pub(crate) fn new(mut a: Matrix<T>) -> Factors<T> {
        let n = a.rows;
        let mut rows: Vec<usize> = (0..n).collect();
        let mut is_odd = false;
        for start in (0..n).step_by(BLOCK) {
            let end = (start + BLOCK).min(n);
            for k in start..end {
                // The first of the largest elements of the column.
                let mut pivot = k;
                for i in k + 1..n {
                    if a[(i, k)].abs() > a[(pivot, k)].abs() {
                        pivot = i;
                    }
                }
                if pivot != k {
                    a.swap_rows(k, pivot);
                    rows.swap(k, pivot);
                    is_odd = !is_odd;
                }
                let divisor = a[(k, k)];
                if divisor == T::zero() {
                    continue;
                }
                for i in k + 1..n {
                    let factor = a[(i, k)] / divisor;
                    a[(i, k)] = factor;
                    let (source, target) = a.two_rows(k, i);
                    add_scaled(&mut target[k + 1..end], -factor, &source[k + 1..end]);
                }
            }
            // The rows of the upper factor to the right of the block, then what is left.
            for k in start..end {
                for i in k + 1..end {
                    let factor = a[(i, k)];
                    let (source, target) = a.two_rows(k, i);
                    add_scaled(&mut target[end..], -factor, &source[end..]);
                }
            }
            let (width, below) = (end - start, n - end);
            if below > 0 {
                let mut left = Matrix::<T>::zeros(below, width);
                for i in 0..below {
                    for (x, &y) in left.row_mut(i).iter_mut().zip(&a.row(end + i)[start..end]) {
                        *x = -y;
                    }
                }
                let (head, tail) = a.data.split_at_mut(end * n);
                matmul(
                    Parallel::SERIAL,
                    below,
                    below,
                    width,
                    MatRef::new(&left.data, width, 1),
                    MatRef::new(&head[start * n + end..], n, 1),
                    MatMut::new(&mut tail[end..], n, 1),
                    true,
                );
            }
        }
        Factors { lu: a, rows, is_odd }
    }

    /// True unless an element of the diagonal is 0 or NaN.
    pub(crate) fn is_invertible(&self) -> bool {
        (0..self.lu.rows).all(|i| self.lu[(i, i)].abs() > T::Real::zero())
    }

    /// X with `A X = B`.
    pub(crate) fn solve(&self, b: &Matrix<T>) -> Matrix<T> {
        let n = self.lu.rows;
        let mut x = Matrix::zeros(n, b.cols);
        for (i, &row) in self.rows.iter().enumerate() {
            x.row_mut(i).copy_from_slice(b.row(row));
        }
        for i in 0..n {
            for k in 0..i {
                let (source, target) = x.two_rows(k, i);
                add_scaled(target, -self.lu[(i, k)], source);
            }
        }
        for i in (0..n).rev() {
            for k in i + 1..n {
                let (target, source) = x.two_rows(i, k);
                add_scaled(target, -self.lu[(i, k)], source);
            }
            let pivot = self.lu[(i, i)];
            x.row_mut(i).iter_mut().for_each(|x| *x = *x / pivot);
        }
        x
    }

    /// The sign of the determinant, which is 0 or has absolute value 1, and the logarithm of the absolute value.
    fn sign_and_log(&self) -> (T, T::Real) {
        let mut sign = if self.is_odd { -T::one() } else { T::one() };
        let mut log = T::Real::zero();
        for i in 0..self.lu.rows {
            let pivot = self.lu[(i, i)];
            let size = pivot.abs();
            sign = sign * if size == T::Real::zero() { T::zero() } else { pivot / T::of(size) };
            log = log + Float::ln(size);
        }
        (sign, log)
    }
}

struct LuForm<I>(std::marker::PhantomData<I>);

impl<T: Scalar, I: Elem + TryFrom<usize>> Algorithm<T> for LuForm<I> {
    fn solve(problem: &Problem<'_>, outputs: &mut [ElemsMut<'_>]) -> Result<()> {
        let factors = Factors::new(problem.matrix::<T>(0));
        require!(factors.is_invertible(), "Input is not invertible.");
        output::<T>(outputs, 0).copy_from_slice(&factors.lu.data);
        for (out, row) in output::<I>(outputs, 1).iter_mut().zip(factors.rows) {
            *out = I::try_from(row).map_err(|_| internal!("Row {row} has no index"))?;
        }
        Ok(())
    }
}

struct DeterminantForm;

impl<T: Scalar> Algorithm<T> for DeterminantForm {
    fn solve(problem: &Problem<'_>, outputs: &mut [ElemsMut<'_>]) -> Result<()> {
        let (sign, log) = Factors::new(problem.matrix::<T>(0)).sign_and_log();
        output::<T>(outputs, 0)[0] = sign * T::of(Float::exp(log));
        Ok(())
    }
}

struct LogDeterminantForm;

impl<T: Scalar> Algorithm<T> for LogDeterminantForm {
    fn solve(problem: &Problem<'_>, outputs: &mut [ElemsMut<'_>]) -> Result<()> {
        let (sign, log) = Factors::new(problem.matrix::<T>(0)).sign_and_log();
        output::<T>(outputs, 0)[0] = sign;
        output::<T>(outputs, 1)[0] = T::of(log);
        Ok(())
    }
}

/// Elements and the scalars that they are computed in.
pub(crate) trait Element: Elem + Copy {
    type Wide: Scalar;

    fn widen(self) -> Self::Wide;
    fn narrow(wide: Self::Wide) -> Self;
}

impl<T: Scalar> Element for T {
    type Wide = T;

    fn widen(self) -> T {
        self
    }

    fn narrow(wide: T) -> T {
        wide
    }
}

impl Element for Half {
    type Wide = f32;

    fn widen(self) -> f32 {
        self.to_f32()
    }

    fn narrow(wide: f32) -> Half {
        Half::from_f32(wide)
    }
}

struct InverseForm;

impl<T: Element> Algorithm<T> for InverseForm {
    fn solve(problem: &Problem<'_>, outputs: &mut [ElemsMut<'_>]) -> Result<()> {
        let [rows, cols] = problem.sizes[0];
        let data = problem.slice::<T>(0).iter().map(|x| x.widen()).collect();
        let mut matrix = Matrix { rows, cols, data };
        if problem.flags[0] {
            matrix = matrix.adjoint();
        }
        let factors = Factors::new(matrix);
        require!(factors.is_invertible(), "Input is not invertible.");
        let inverse = factors.solve(&Matrix::identity(rows));
        for (out, &x) in output::<T>(outputs, 0).iter_mut().zip(&inverse.data) {
            *out = T::narrow(x);
        }
        Ok(())
    }
}

struct SolveForm;

impl<T: Scalar> Algorithm<T> for SolveForm {
    fn solve(problem: &Problem<'_>, outputs: &mut [ElemsMut<'_>]) -> Result<()> {
        let (matrix, rhs) = (problem.matrix::<T>(0), problem.matrix::<T>(1));
        if rhs.data.is_empty() {
            return Ok(());
        }
        let matrix = if problem.flags[0] { matrix.adjoint() } else { matrix };
        let factors = Factors::new(matrix);
        require!(factors.is_invertible(), "Input matrix is not invertible.");
        output::<T>(outputs, 0).copy_from_slice(&factors.solve(&rhs).data);
        Ok(())
    }
}

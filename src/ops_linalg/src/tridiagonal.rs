//! Tridiagonal matrices: `TridiagonalSolve`, `TridiagonalMatMul`.

use num_traits::{Float, One, Zero};
use smallvec::SmallVec;
use tfcore_base::{Result, require};
use tfcore_framework::Registry;
use tfcore_tensor::ElemsMut;

use crate::batch::{Algorithm, BatchOp, Problem, dims, output};
use crate::entry::register_op;
use crate::matrix::{Fields, Matrix, Scalar, add_scaled};
use crate::shapes;

pub(crate) fn register(r: &mut Registry) {
    // `TridiagonalSolve(diagonals: T, rhs: T) -> output: T`: the rows of `diagonals` are what is above, on and below the
    // diagonal. NaN for singular matrices, or, if attr `perturb_singular`, the solution for one nearby.
    register_op::<SolveForm, Fields>(r.op("TridiagonalSolve"), shapes::tridiagonal_solve, SOLVE);
    // `TridiagonalMatMul(superdiag: T, maindiag: T, subdiag: T, rhs: T) -> output: T`.
    register_op::<ProductForm, Fields>(
        r.op("TridiagonalMatMul"),
        shapes::tridiagonal_product,
        PRODUCT,
    );
}

const SOLVE: BatchOp = BatchOp {
    inputs: 2,
    flags: &["partial_pivoting", "perturb_singular"],
    parameter: None,
    outputs: |sizes, flags| {
        require!(
            flags[0] || !flags[1],
            "Setting perturb_singular requires also setting partial_pivoting."
        );
        let ([rows, n], [rhs_rows, _]) = (sizes[0], sizes[1]);
        require!(
            rows == 3,
            "Expected diagonals to be provided as a matrix with 3 rows, got {rows} rows."
        );
        require!(
            n == rhs_rows,
            "Expected the same number of left-hand sides and right-hand sides, got {n} and \
             {rhs_rows}."
        );
        Ok(SmallVec::from_iter([dims(&sizes[1])]))
    },
    cost: |sizes| sizes[1][0].saturating_mul(sizes[1][1]).saturating_mul(10),
};

const PRODUCT: BatchOp = BatchOp {
    inputs: 4,
    flags: &[],
    parameter: None,
    outputs: |sizes, _| {
        let n = sizes[3][0];
        for (index, name) in
            ["superdiagonal", "main diagonal", "subdiagonal"].into_iter().enumerate()
        {
            require!(sizes[index] == [1, n], "Invalid {name} shape.");
        }
        Ok(SmallVec::from_iter([dims(&sizes[3])]))
    },
    cost: |sizes| sizes[3][0].saturating_mul(sizes[3][1]).saturating_mul(3),
};

struct SolveForm;

impl<T: Scalar> Algorithm<T> for SolveForm {
    fn solve(problem: &Problem<'_>, outputs: &mut [ElemsMut<'_>]) -> Result<()> {
        solve::<T>(problem, outputs)
    }
}

/// The diagonals: above, on and below the main one.
struct Diagonals<'a, T> {
    above: &'a [T],
    main: &'a [T],
    below: &'a [T],
}

fn solve<T: Scalar>(problem: &Problem<'_>, outputs: &mut [ElemsMut<'_>]) -> Result<()> {
    let (diagonals, rhs) = (problem.slice::<T>(0), problem.matrix::<T>(1));
    let n = rhs.rows;
    if n == 0 {
        return Ok(());
    }
    let diagonals = Diagonals {
        above: &diagonals[..n],
        main: &diagonals[n..2 * n],
        below: &diagonals[2 * n..],
    };
    let [pivoting, perturb] = [problem.flags[0], problem.flags[1]];
    let x = if perturb {
        Some(Elimination::new(&diagonals, rhs, true).solve_perturbed())
    } else if n > 1 && pivoting {
        let elimination = Elimination::new(&diagonals, rhs, false);
        elimination.is_regular.then(|| elimination.solve())
    } else {
        thomas(&diagonals, rhs)
    };
    let out = output::<T>(outputs, 0);
    match x {
        Some(x) => out.copy_from_slice(&x.data),
        // What the reference fills in is NaN for real types, but 0 for complex ones.
        None => {
            let is_real = T::from_parts(T::Real::zero(), T::Real::one()) == T::zero();
            out.fill(if is_real { T::of(Float::nan()) } else { T::zero() });
        }
    }
    Ok(())
}

/// Thomas' algorithm, without pivoting. `None` if a pivot is 0.
fn thomas<T: Scalar>(diagonals: &Diagonals<'_, T>, mut x: Matrix<T>) -> Option<Matrix<T>> {
    let n = x.rows;
    let mut factors = vec![T::zero(); n];
    for i in 0..n {
        let mut pivot = diagonals.main[i];
        if i > 0 {
            pivot = pivot - diagonals.below[i] * factors[i - 1];
            let (source, target) = x.two_rows(i - 1, i);
            add_scaled(target, -diagonals.below[i], source);
        }
        if pivot == T::zero() {
            return None;
        }
        factors[i] = diagonals.above[i] / pivot;
        x.row_mut(i).iter_mut().for_each(|x| *x = *x / pivot);
    }
    for i in (0..n - 1).rev() {
        let (target, source) = x.two_rows(i, i + 1);
        add_scaled(target, -factors[i], source);
    }
    Some(x)
}

/// A system after elimination with partial pivoting, as in LAPACK's `gtsv` and `gttrf`.
struct Elimination<T: Scalar> {
    /// The diagonal of the upper factor and the two above it.
    upper: Vec<[T; 3]>,
    x: Matrix<T>,
    is_regular: bool,
    /// The largest absolute value in the upper factor.
    largest: T::Real,
}

impl<T: Scalar> Elimination<T> {
    /// With `scaled`, pivots are compared by their size next to their rows, and one may be 0.
    fn new(diagonals: &Diagonals<'_, T>, rhs: Matrix<T>, scaled: bool) -> Elimination<T> {
        let Diagonals { above, main, below } = *diagonals;
        let n = rhs.rows;
        let mut upper = vec![[T::zero(); 3]; n];
        upper[0] = [main[0], if n > 1 { above[0] } else { T::zero() }, T::zero()];
        let mut found = Elimination { upper, x: rhs, is_regular: true, largest: T::Real::zero() };
        let mut scale = main[0].abs() + found.upper[0][1].abs();
        for i in 0..n - 1 {
            let [pivot, beside, _] = found.upper[i];
            let (low, next) = (below[i + 1], main[i + 1]);
            let far = if i + 2 < n { above[i + 1] } else { T::zero() };
            let next_scale = low.abs() + next.abs() + far.abs();
            let keeps = match scaled {
                false => pivot.abs() >= low.abs(),
                true if low == T::zero() => true,
                true => {
                    let size = pivot.abs();
                    let relative = if size == T::Real::zero() { size } else { size / scale };
                    low.abs() / next_scale <= relative
                }
            };
            let (current, following) = found.x.two_rows(i, i + 1);
            if keeps {
                scale = next_scale;
                if pivot == T::zero() && !(scaled && low == T::zero()) {
                    found.is_regular = false;
                    return found;
                }
                let factor = if low == T::zero() { T::zero() } else { low / pivot };
                found.upper[i + 1] = [next - factor * beside, far, T::zero()];
                if low != T::zero() {
                    add_scaled(following, -factor, current);
                }
            } else {
                let factor = pivot / low;
                found.upper[i] = [low, next, far];
                found.upper[i + 1] = [beside - factor * next, -factor * far, T::zero()];
                for (x, y) in current.iter_mut().zip(following) {
                    (*x, *y) = (*y, *x - factor * *y);
                }
            }
        }
        found.is_regular = found.upper[n - 1][0] != T::zero();
        let sizes = found.upper.iter().flatten().map(|x| x.abs());
        found.largest = sizes.fold(T::Real::zero(), Float::max);
        found
    }

    /// Subtracts from row i what belongs to the rows after it.
    fn substitute(&mut self, i: usize) {
        for distance in 1..=2 {
            if i + distance < self.x.rows {
                let factor = -self.upper[i][distance];
                let (target, source) = self.x.two_rows(i, i + distance);
                add_scaled(target, factor, source);
            }
        }
    }

    fn solve(mut self) -> Matrix<T> {
        for i in (0..self.x.rows).rev() {
            self.substitute(i);
            let pivot = self.upper[i][0];
            self.x.row_mut(i).iter_mut().for_each(|x| *x = *x / pivot);
        }
        self.x
    }

    /// As [`Elimination::solve`], with pivots moved away from 0, as in LAPACK's `lagts`.
    fn solve_perturbed(mut self) -> Matrix<T> {
        let tolerance = <T::Real as Float>::epsilon() * self.largest;
        for i in (0..self.x.rows).rev() {
            self.substitute(i);
            let pivot = perturbed(self.upper[i][0], tolerance, self.x.row_mut(i));
            let inverse = T::one() / pivot;
            self.x.row_mut(i).iter_mut().for_each(|x| *x = *x * inverse);
        }
        self.x
    }
}

/// A pivot near the given one by which a row can be divided without overflow. The row is scaled up with the pivot if both
/// are tiny.
fn perturbed<T: Scalar>(mut pivot: T, tolerance: T::Real, row: &mut [T]) -> T {
    let (zero, one) = (T::Real::zero(), T::Real::one());
    let safe = <T::Real as Float>::min_positive_value();
    let big = one / safe;
    let mut size = pivot.abs();
    if size >= one {
        return pivot;
    }
    let mut change = Float::max(Float::abs(tolerance), safe);
    if pivot.re() < zero || pivot.re().is_sign_negative() {
        change = -change;
    }
    let largest = row.iter().fold(zero, |max, x| Float::max(max, x.abs()));
    while size < one {
        if size < safe {
            if size == zero || largest * safe > size {
                pivot = pivot + T::of(change);
                change = change + change;
            } else {
                row.iter_mut().for_each(|x| *x = *x * T::of(big));
                return pivot * T::of(big);
            }
        } else if largest > size * big {
            pivot = pivot + T::of(change);
            change = change + change;
        } else {
            break;
        }
        size = pivot.abs();
    }
    pivot
}

struct ProductForm;

impl<T: Scalar> Algorithm<T> for ProductForm {
    fn solve(problem: &Problem<'_>, outputs: &mut [ElemsMut<'_>]) -> Result<()> {
        let [above, main, below] = [0, 1, 2].map(|index| problem.slice::<T>(index));
        let rhs = problem.matrix::<T>(3);
        let (n, out) = (rhs.rows, output::<T>(outputs, 0));
        for (i, out) in out.chunks_exact_mut(rhs.cols.max(1)).enumerate() {
            for (out, &x) in out.iter_mut().zip(rhs.row(i)) {
                *out = x * main[i];
            }
            if i > 0 {
                add_scaled(out, below[i], rhs.row(i - 1));
            }
            if i + 1 < n {
                add_scaled(out, above[i], rhs.row(i + 1));
            }
        }
        Ok(())
    }
}

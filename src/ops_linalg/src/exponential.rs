//! `MatrixExponential`.

use num_traits::{Float, NumCast};
use tfcore_base::Result;
use tfcore_framework::Registry;
use tfcore_tensor::ElemsMut;

use crate::batch::{Algorithm, BatchOp, Problem, cube, output};
use crate::entry::register_op;
use crate::lu::Factors;
use crate::matrix::{Fields, Matrix, Scalar};
use crate::shapes;

pub(crate) fn register(r: &mut Registry) {
    // `MatrixExponential(input: T) -> output: T`.
    let op = BatchOp { cost: |sizes| cube(sizes[0][0]).saturating_mul(15), ..BatchOp::SQUARE };
    register_op::<ExponentialForm, Fields>(r.op("MatrixExponential"), shapes::square, op);
}

/// Coefficients of the numerator of Padé's approximation of order 13, of rising power.
const PADE: [f64; 14] = [
    64_764_752_532_480_000.0,
    32_382_376_266_240_000.0,
    7_771_770_303_897_600.0,
    1_187_353_796_428_800.0,
    129_060_195_264_000.0,
    10_559_470_521_600.0,
    670_442_572_800.0,
    33_522_128_640.0,
    1_323_241_920.0,
    40_840_800.0,
    960_960.0,
    16_380.0,
    182.0,
    1.0,
];

/// The norm up to which the approximation is as exact as f64.
const LIMIT: f64 = 5.371_920_351_148_152;

struct ExponentialForm;

impl<T: Scalar> Algorithm<T> for ExponentialForm {
    fn solve(problem: &Problem<'_>, outputs: &mut [ElemsMut<'_>]) -> Result<()> {
        let out = output::<T>(outputs, 0);
        let a = problem.matrix::<T>(0);
        match exponential(a) {
            Some(exponential) => out.copy_from_slice(&exponential.data),
            None => out.fill(T::of(Float::nan())),
        }
        Ok(())
    }
}

/// `None` if an element is not finite.
fn exponential<T: Scalar>(mut a: Matrix<T>) -> Option<Matrix<T>> {
    if !a.is_finite() {
        return None;
    }
    let norm: f64 = NumCast::from(a.one_norm())?;
    // exp(A) = exp(A / 2^k)^(2^k).
    let halvings = if norm > LIMIT { (norm / LIMIT).log2().ceil() as i32 } else { 0 };
    let scale: T::Real = NumCast::from(0.5f64.powi(halvings))?;
    a = a.map(|x| x * T::of(scale));
    let n = a.rows;
    let square = a.times(&a);
    let (mut even, mut odd) = (Matrix::zeros(n, n), Matrix::zeros(n, n));
    for k in (0..7).rev() {
        let term = |sum: &Matrix<T>, coefficient: f64| -> Option<Matrix<T>> {
            // By the largest of them, so that f32 does not overflow in products.
            let coefficient: T::Real = NumCast::from(coefficient / PADE[0])?;
            let mut next = square.times(sum);
            for i in 0..n {
                next[(i, i)] = next[(i, i)] + T::of(coefficient);
            }
            Some(next)
        };
        even = term(&even, PADE[2 * k])?;
        odd = term(&odd, PADE[2 * k + 1])?;
    }
    let odd = a.times(&odd);
    let factors = Factors::new(even.minus(&odd));
    let mut result = factors.solve(&even.plus(&odd));
    for _ in 0..halvings {
        result = result.times(&result);
    }
    Some(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_exponentials() {
        // A nilpotent matrix, a rotation, a diagonal.
        let exp = |data: &[f64]| exponential(Matrix::from_slice([2, 2], data)).unwrap().data;
        let cases = [
            (exp(&[0.0, 3.0, 0.0, 0.0]), [1.0, 3.0, 0.0, 1.0]),
            (exp(&[0.0, -1.0, 1.0, 0.0]), [1f64.cos(), -1f64.sin(), 1f64.sin(), 1f64.cos()]),
            (exp(&[20.0, 0.0, 0.0, -2.0]), [20f64.exp(), 0.0, 0.0, (-2f64).exp()]),
        ];
        for (found, expected) in cases {
            for (x, y) in found.iter().zip(expected) {
                assert!((x - y).abs() <= 1e-13 * y.abs().max(1.0), "{found:?}");
            }
        }
        assert!(exponential(Matrix::from_slice([1, 1], &[f32::NAN])).is_none());
    }
}

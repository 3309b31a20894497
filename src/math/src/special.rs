//! Special functions of mathematical physics and statistics, for f32 and f64.
//!
//! TensorFlow takes its special functions from Cephes: Chebyshev series and rational approximations, each with a
//! form for f32 that has fewer terms. The functions here evaluate the same approximations in the same order, so
//! that results agree with TensorFlow's within a few units in the last place even where an f32
//! form is far from the exact value. The coefficients are those published with Cephes; where the f32 series is
//! the f64 one without its first terms, the table stands here once.
//!
//! * [`bessel`]: J and Y; [`bessel_modified`]: I and K;
//! * [`gamma`]: digamma, incomplete gamma functions, zeta and polygamma; [`beta`]: the incomplete beta function;
//! * [`normal`]: the inverses of the normal distribution and of the error function;
//! * [`integrals`]: Dawson's, Fresnel's, Spence's and the exponential integral.

// Coefficients are written as published, though a float holds fewer digits.
#![allow(clippy::excessive_precision)]

use num_traits::Float;

pub mod bessel;
pub mod bessel_modified;
pub mod beta;
pub mod gamma;
pub mod integrals;
pub mod normal;

/// A type that the functions of this module are defined for.
pub trait Special: Float + 'static {
    /// The largest number that does not change 1 when it is subtracted; Cephes' `MACHEP`.
    const MACHINE_EPSILON: Self;
    /// Continued fractions are scaled down when they pass this limit.
    const BIG: Self;
    /// The factor by which they are scaled down.
    const BIG_INVERSE: Self;
    /// True for f32, whose forms have fewer terms.
    const IS_SINGLE: bool;

    /// The nearest value of this type.
    fn of(x: f64) -> Self;
    /// The logarithm of the absolute value of the gamma function, as the platform's C library computes it.
    fn ln_gamma(self) -> Self;
}

// The C library of the platform, which std links anyway. Differences of its results at large arguments cancel
// in the incomplete gamma and beta functions, so that another implementation, though as exact, would
// change many digits of theirs.
unsafe extern "C" {
    safe fn lgammaf_r(x: f32, sign: &mut i32) -> f32;
    safe fn lgamma_r(x: f64, sign: &mut i32) -> f64;
}

impl Special for f32 {
    const MACHINE_EPSILON: f32 = f32::EPSILON / 2.0;
    const BIG: f32 = 2.0 / f32::EPSILON;
    const BIG_INVERSE: f32 = f32::EPSILON / 2.0;
    const IS_SINGLE: bool = true;

    #[inline(always)]
    fn of(x: f64) -> f32 {
        x as f32
    }

    fn ln_gamma(self) -> f32 {
        lgammaf_r(self, &mut 0)
    }
}

impl Special for f64 {
    const MACHINE_EPSILON: f64 = f64::EPSILON / 2.0;
    const BIG: f64 = 1.0 / f64::EPSILON;
    const BIG_INVERSE: f64 = f64::EPSILON;
    const IS_SINGLE: bool = false;

    #[inline(always)]
    fn of(x: f64) -> f64 {
        x
    }

    fn ln_gamma(self) -> f64 {
        lgamma_r(self, &mut 0)
    }
}

/// A polynomial, the coefficient of the highest power first.
#[inline(always)]
fn polynomial<T: Special>(x: T, coefficients: &[f64]) -> T {
    let mut sum = T::of(coefficients[0]);
    for &c in &coefficients[1..] {
        sum = sum * x + T::of(c);
    }
    sum
}

/// The quotient of two polynomials.
#[inline(always)]
fn quotient<T: Special>(x: T, numerator: &[f64], denominator: &[f64]) -> T {
    polynomial(x, numerator) / polynomial(x, denominator)
}

/// A series of Chebyshev polynomials of `x / 2`, of which f32 takes the last `single` terms only. The terms of
/// highest degree come first.
#[inline(always)]
fn chebyshev<T: Special>(x: T, terms: &[f64], single: usize) -> T {
    let terms = if T::IS_SINGLE { &terms[terms.len() - single..] } else { terms };
    let (mut b0, mut b1, mut b2) = (T::of(terms[0]), T::zero(), T::zero());
    for &term in &terms[1..] {
        b2 = b1;
        b1 = b0;
        b0 = x * b1 + T::of(term) - b2;
    }
    T::of(0.5) * (b0 - b2)
}

/// Zero for a subnormal number, as on TensorFlow's threads. Applied to intermediate results that decide what follows.
#[inline(always)]
fn flush<T: Special>(x: T) -> T {
    if x.abs() < T::min_positive_value() { T::zero() } else { x }
}

/// A function of one value, for tables of tests.
#[cfg(test)]
type Case = (&'static str, fn(f64) -> f64, fn(f32) -> f32);

/// Compares functions with rows of name, argument, f32 and f64 result.
#[cfg(test)]
fn check_table(cases: &[Case], rows: &[(&str, f64, f32, f64)]) {
    for &(name, x, single, double) in rows {
        let (_, on_f64, on_f32) = cases.iter().find(|case| case.0 == name).expect("a known name");
        check((name, &[x]), (on_f32(x as f32), on_f64(x)), (single, double));
    }
}

/// Compares the f32 and the f64 result of a call with what is expected.
#[cfg(test)]
fn check(call: (&str, &[f64]), actual: (f32, f64), expected: (f32, f64)) {
    let is_close = |a: f64, b: f64, tolerance: f64| {
        a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= tolerance * b.abs()
    };
    let pairs = [(actual.0.into(), expected.0.into(), 1e-6), (actual.1, expected.1, 4e-15)];
    for (actual, expected, tolerance) in pairs {
        assert!(is_close(actual, expected, tolerance), "{call:?}: {actual}, not {expected}");
    }
}

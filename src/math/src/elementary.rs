//! Exponential, logarithm, hyperbolic tangent, logistic and error function.
//!
//! The f32 ones are branch-free, so that a loop over them inside [`vectorize`](crate::isa::vectorize) becomes vector
//! code: arguments are reduced, a polynomial is evaluated, and special cases are picked by selects. The
//! polynomials are minimax fits in f64, their coefficients rounded; errors stay within about 2 units in the last
//! place. As in TensorFlow, whose threads flush subnormal numbers, `exp_f32` gives 0 rather than a
//! subnormal number and `log_f32` takes one for 0.
//!
//! The f64 ones are those of the platform.

// Coefficients are written as fitted, though an f32 holds fewer digits.
#![allow(clippy::excessive_precision)]

use std::f32::consts::LOG2_E;

/// ln 2 in two parts, the first with few enough digits that its product with an exponent is exact.
const LN_2_HIGH: f32 = 0.693_359_375;
const LN_2_LOW: f32 = -2.121_944_4e-4;

/// Adding and subtracting it rounds a small number to a whole one, which is then in its low bits.
const ROUNDER: f32 = 12_582_912.0;

/// e to the power of x.
#[inline(always)]
pub fn exp_f32(x: f32) -> f32 {
    // Beyond these limits the result is infinite or zero. Comparisons, unlike `clamp`, let NaN pass in any order.
    let limited = if x > 89.0 { 89.0 } else { x };
    let limited = if limited < -88.0 { -88.0 } else { limited };
    let rounded = limited * LOG2_E + ROUNDER;
    let exponent = (rounded.to_bits() as i32).wrapping_sub(ROUNDER.to_bits() as i32);
    let whole = rounded - ROUNDER;
    let r = (limited - whole * LN_2_HIGH) - whole * LN_2_LOW;
    let p = polynomial(
        r,
        [0.001_395_060_215, 0.008_368_953_131, 0.041_666_205_972, 0.166_665_181_518, 0.5],
    );
    let power = (p * (r * r) + r) + 1.0;
    // 2^128 is not a float, so the exponent is applied in two halves.
    let half = exponent >> 1;
    let result = power * two_to_the(half) * two_to_the(exponent.wrapping_sub(half));
    // The least argument whose result is not subnormal.
    if x < -87.336_544 { 0.0 } else { result }
}

/// The natural logarithm; NaN below zero.
#[inline(always)]
pub fn log_f32(x: f32) -> f32 {
    let bits = x.to_bits() as i32;
    // x = m · 2^exponent, with m between √½ and √2.
    let exponent = bits.wrapping_sub(std::f32::consts::FRAC_1_SQRT_2.to_bits() as i32) >> 23;
    let m = f32::from_bits(bits.wrapping_sub(exponent << 23) as u32);
    let f = m - 1.0;
    let p = polynomial(
        f,
        [
            -0.085_155_933_954,
            0.132_132_440_805,
            -0.130_111_068_487,
            0.141_153_246_164,
            -0.166_313_961_148,
            0.200_064_346_194,
            -0.250_006_765_127,
            0.333_332_359_791,
        ],
    );
    let e = exponent as f32;
    let square = f * f;
    let finite = ((p * square * f + e * LN_2_LOW) - 0.5 * square + f) + e * LN_2_HIGH;
    let result = if x < f32::MIN_POSITIVE { f32::NEG_INFINITY } else { finite };
    let result = if x <= -f32::MIN_POSITIVE { f32::NAN } else { result };
    // Infinity and NaN are their own logarithms; only the order of this comparison lets NaN pass.
    if x < f32::INFINITY { result } else { x }
}

/// The hyperbolic tangent.
#[inline(always)]
pub fn tanh_f32(x: f32) -> f32 {
    let z = x * x;
    let p = polynomial(
        z,
        [
            -0.005_603_913_683,
            0.020_551_718_771,
            -0.053_714_107_722,
            0.133_311_524_987,
            -0.333_332_717_419,
        ],
    );
    let near_zero = p * z * x + x;
    let beyond = 1.0 - 2.0 / (exp_f32(2.0 * x.abs()) + 1.0);
    select(x.abs() < 0.625, near_zero, beyond).copysign(x)
}

/// The logistic function 1 / (1 + e^-x).
#[inline(always)]
pub fn sigmoid_f32(x: f32) -> f32 {
    1.0 / (1.0 + exp_f32(-x))
}

/// The error function.
#[inline(always)]
pub fn erf_f32(x: f32) -> f32 {
    // erf(x) / x - 1, so that the larger part of the result is not rounded.
    let z = x * x;
    let p = polynomial(
        z,
        [
            7.889_122_935e-5,
            -0.000_802_084_222,
            0.005_189_535_674,
            -0.026_854_444_295,
            0.112_836_003_304,
            -0.376_126_259_565,
            0.128_379_106_522,
        ],
    );
    // Farther out, 1 - erf is e to the power of minus a polynomial. It is fitted up to 4; from there on it is
    // large enough for erf to round to 1.
    let a = x.abs();
    let q = polynomial(
        a,
        [
            2.169_758_955e-5,
            -0.000_441_472_337,
            0.004_205_282_778,
            -0.025_210_333_988,
            0.108_422_093_093,
            0.633_216_381_073,
            1.129_580_259_323,
            -0.000_188_466_627,
        ],
    );
    let beyond = 1.0 - exp_f32(-q);
    select(x.abs() < 1.0, p * x + x, beyond.copysign(x))
}

/// e to the power of x.
pub fn exp_f64(x: f64) -> f64 {
    x.exp()
}

/// The natural logarithm; NaN below zero.
pub fn log_f64(x: f64) -> f64 {
    x.ln()
}

/// The hyperbolic tangent.
pub fn tanh_f64(x: f64) -> f64 {
    x.tanh()
}

/// The logistic function 1 / (1 + e^-x).
pub fn sigmoid_f64(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// The error function.
pub fn erf_f64(x: f64) -> f64 {
    libm::erf(x)
}

/// Horner's scheme, highest coefficient first.
#[inline(always)]
fn polynomial<const N: usize>(x: f32, coefficients: [f32; N]) -> f32 {
    let mut sum = coefficients[0];
    for i in 1..N {
        sum = sum * x + coefficients[i];
    }
    sum
}

/// `a` or `b`, both of which are computed: a branch here would keep the loop around it scalar.
#[inline(always)]
fn select(condition: bool, a: f32, b: f32) -> f32 {
    let mask = u32::from(condition).wrapping_neg();
    f32::from_bits(a.to_bits() & mask | b.to_bits() & !mask)
}

/// 2 to the power of an exponent within the range of normal numbers.
#[inline(always)]
fn two_to_the(exponent: i32) -> f32 {
    f32::from_bits((exponent.wrapping_add(127) as u32) << 23)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::vectorize;

    struct Case {
        name: &'static str,
        f: fn(f32) -> f32,
        exact: fn(f64) -> f64,
        ulps: f64,
    }

    const CASES: [Case; 5] = [
        Case { name: "exp", f: exp_f32, exact: exp_f64, ulps: 1.5 },
        Case { name: "log", f: log_f32, exact: log_f64, ulps: 1.5 },
        Case { name: "tanh", f: tanh_f32, exact: tanh_f64, ulps: 2.0 },
        Case { name: "sigmoid", f: sigmoid_f32, exact: sigmoid_f64, ulps: 2.5 },
        Case { name: "erf", f: erf_f32, exact: erf_f64, ulps: 2.0 },
    ];

    #[test]
    fn errors_are_a_few_units_in_the_last_place() {
        for case in CASES {
            let mut worst = (0.0, 0.0);
            // Every 997th float of either sign.
            for bits in (0..=u32::MAX).step_by(997) {
                let x = f32::from_bits(bits);
                let (actual, exact) = ((case.f)(x), (case.exact)(f64::from(x)));
                let normal = f64::from(f32::MIN_POSITIVE)..=f64::from(f32::MAX);
                if !normal.contains(&exact.abs()) || !x.is_normal() {
                    continue;
                }
                let unit = f64::from((exact as f32).abs().next_up() - (exact as f32).abs());
                let error = (f64::from(actual) - exact).abs() / unit;
                // A result next to the subnormal numbers may be flushed.
                if (error > worst.0 || error.is_nan()) && exact.abs() > 1.2e-38 {
                    worst = (error, x);
                }
            }
            assert!(worst.0 <= case.ulps, "{}: {} units at {}", case.name, worst.0, worst.1);
        }
    }

    #[test]
    fn special_values() {
        const INF: f32 = f32::INFINITY;
        let nan = f32::NAN;
        let table: [(usize, f32, f32); 32] = [
            (0, nan, nan),
            (0, INF, INF),
            (0, -INF, 0.0),
            (0, 0.0, 1.0),
            (0, -0.0, 1.0),
            (0, 1e-45, 1.0),
            (0, 88.8, INF),
            (0, 1e30, INF),
            (0, -87.4, 0.0),
            (0, -1e30, 0.0),
            (1, nan, nan),
            (1, INF, INF),
            (1, -INF, nan),
            (1, 0.0, -INF),
            (1, -0.0, -INF),
            (1, 1e-40, -INF),
            (1, 1.0, 0.0),
            (1, -1.0, nan),
            (2, nan, nan),
            (2, INF, 1.0),
            (2, -INF, -1.0),
            (2, -0.0, -0.0),
            (2, 20.0, 1.0),
            (3, nan, nan),
            (3, INF, 1.0),
            (3, -INF, 0.0),
            (3, -1e5, 0.0),
            (3, 0.0, 0.5),
            (4, nan, nan),
            (4, INF, 1.0),
            (4, -INF, -1.0),
            (4, -0.0, -0.0),
        ];
        for (case, x, expected) in table {
            let actual = (CASES[case].f)(x);
            let same =
                actual.to_bits() == expected.to_bits() || actual.is_nan() && expected.is_nan();
            assert!(same, "{}({x}) is {actual}, not {expected}", CASES[case].name);
        }
    }

    #[test]
    fn vectors_give_the_same_bits() {
        let x: Vec<f32> = (0..10_000).map(|i| (i as f32 - 5000.0) * 0.017).collect();
        let mut y = x.clone();
        vectorize(
            #[inline(always)]
            || y.iter_mut().for_each(|v| *v = tanh_f32(*v) + exp_f32(*v) * log_f32(*v)),
        );
        for (&x, &y) in x.iter().zip(&y) {
            let expected = tanh_f32(x) + exp_f32(x) * log_f32(x);
            assert!(
                y.to_bits() == expected.to_bits() || y.is_nan() && expected.is_nan(),
                "at {x}: {y}, not {expected}"
            );
        }
    }
}

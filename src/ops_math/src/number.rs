//! Functions of floating point numbers.
//!
//! Elementwise functors are written on [`Number::Wide`] with the operations of [`Ring`], [`Field`] or
//! [`Real`], so that one line serves all types of a class.

use num_complex::{Complex, ComplexFloat};
use num_traits::Float;
use tfcore_base::{BFloat16, Complex64, Complex128, Half};
pub(crate) use tfcore_base::{Number, Ring};
use tfcore_math::elementary;
use tfcore_math::special::Special;

/// Floats and complex numbers.
pub(crate) type FloatsAndComplexes = (f32, f64, Half, BFloat16, Complex64, Complex128);

/// What can be divided by a count. Quotients of integers are truncated.
pub(crate) trait Quotient: Ring {
    /// The nearest number of this type.
    fn of(x: f64) -> Self;
    fn quotient(self, count: usize) -> Self;
    /// `self / divisor`, for floats.
    fn divided(self, divisor: f64) -> Self;
    /// `1 / divisor`, for floats; 1 for integers.
    fn inverse(divisor: f64) -> Self;
}

macro_rules! quotients {
    (floats: $($float:ty),*; integers: $($integer:ty),*; complex: $($part:ty),*) => {
        $(impl Quotient for $float {
            fn of(x: f64) -> $float {
                x as $float
            }

            fn quotient(self, count: usize) -> $float {
                self / count as $float
            }

            fn divided(self, divisor: f64) -> $float {
                self / divisor as $float
            }

            fn inverse(divisor: f64) -> $float {
                1.0 / divisor as $float
            }
        })*
        $(impl Quotient for $integer {
            fn of(x: f64) -> $integer {
                x as $integer
            }

            /// The count takes the element's type first, as in the reference; a count that is 0 there divides nothing.
            fn quotient(self, count: usize) -> $integer {
                self.wrapping_div((count as $integer).max(1))
            }

            fn divided(self, _: f64) -> $integer {
                self
            }

            fn inverse(_: f64) -> $integer {
                1
            }
        })*
        $(impl Quotient for Complex<$part> {
            fn of(x: f64) -> Self {
                Complex::new(x as $part, 0.0)
            }

            fn quotient(self, count: usize) -> Self {
                self / count as $part
            }

            fn divided(self, divisor: f64) -> Self {
                self / divisor as $part
            }

            fn inverse(divisor: f64) -> Self {
                Complex::new(1.0 / divisor as $part, 0.0)
            }
        })*
    };
}
quotients!(floats: f32, f64; integers: i8, i16, i32, i64, u8, u16, u32, u64; complex: f32, f64);

/// Floating point numbers, real and complex.
///
/// `exp`, `ln` and `tanh` of [`ComplexFloat`] are those of the platform; the ones here are as exact
/// and vectorise, or avoid an overflow.
pub(crate) trait Field: Ring + ComplexFloat {
    fn exponential(self) -> Self;
    fn logarithm(self) -> Self;
    fn hyperbolic_tangent(self) -> Self;
    fn sigmoid(self) -> Self;
    /// `e^x - 1`, exact near 0.
    fn exp_minus_one(self) -> Self;
    /// `ln(1 + x)`, exact near 0.
    fn log_one_plus(self) -> Self;
    fn tangent(self) -> Self;
    fn power(self, exponent: Self) -> Self;
    fn divided_by(self, divisor: Self) -> Self;
}

macro_rules! real_fields {
    ($($type:ty: $exp:ident $log:ident $tanh:ident $sigmoid:ident;)*) => {$(
        impl Field for $type {
            #[inline(always)]
            fn exponential(self) -> $type {
                elementary::$exp(self)
            }

            #[inline(always)]
            fn logarithm(self) -> $type {
                elementary::$log(self)
            }

            #[inline(always)]
            fn hyperbolic_tangent(self) -> $type {
                elementary::$tanh(self)
            }

            #[inline(always)]
            fn sigmoid(self) -> $type {
                elementary::$sigmoid(self)
            }

            fn exp_minus_one(self) -> $type {
                self.exp_m1()
            }

            fn log_one_plus(self) -> $type {
                self.ln_1p()
            }

            fn tangent(self) -> $type {
                Float::tan(self)
            }

            fn power(self, exponent: $type) -> $type {
                Float::powf(self, exponent)
            }

            #[inline(always)]
            fn divided_by(self, divisor: $type) -> $type {
                self / divisor
            }
        }
    )*};
}
real_fields! {
    f32: exp_f32 log_f32 tanh_f32 sigmoid_f32;
    f64: exp_f64 log_f64 tanh_f64 sigmoid_f64;
}

macro_rules! complex_fields {
    ($($type:ty),*) => {$(
        impl Field for Complex<$type> {
            fn exponential(self) -> Self {
                self.exp()
            }

            fn logarithm(self) -> Self {
                self.ln()
            }

            /// `(sinh 2a + i sin 2b) / (cosh 2a + cos 2b)`.
            fn hyperbolic_tangent(self) -> Self {
                // From 20 on the result is ±1, although the quotient would overflow later.
                let (a, b) = (2.0 * self.re.clamp(-20.0, 20.0), 2.0 * self.im);
                let denominator = a.cosh() + b.cos();
                Complex::new(a.sinh() / denominator, b.sin() / denominator)
            }

            fn sigmoid(self) -> Self {
                Self::ONE.divided_by(Self::ONE + (-self).exp())
            }

            fn exp_minus_one(self) -> Self {
                let half_sine = (0.5 * self.im).sin();
                Complex::new(
                    self.re.exp_m1() * self.im.cos() - 2.0 * half_sine * half_sine,
                    self.re.exp() * self.im.sin(),
                )
            }

            fn log_one_plus(self) -> Self {
                // |1 + z|² - 1, without the cancellation.
                let excess = self.re * (2.0 + self.re) + self.im * self.im;
                Complex::new(0.5 * excess.ln_1p(), self.im.atan2(1.0 + self.re))
            }

            /// `-i tanh(iz)`.
            fn tangent(self) -> Self {
                let turned = Complex::new(-self.im, self.re).hyperbolic_tangent();
                Complex::new(turned.im, -turned.re)
            }

            fn power(self, exponent: Self) -> Self {
                if self == Self::ZERO && exponent.re > 0.0 {
                    return Self::ZERO;
                }
                (exponent * self.ln()).exp()
            }

            fn divided_by(self, divisor: Self) -> Self {
                self / divisor
            }
        }
    )*};
}
complex_fields!(f32, f64);

/// Real floating point numbers.
pub(crate) trait Real: Field + Float {
    /// The nearest whole number, halves to the even one.
    fn round_even(self) -> Self;
    fn error_function(self) -> Self;
    /// `1 - erf(x)`, exact where it is small.
    fn error_complement(self) -> Self;
    fn log_gamma(self) -> Self;
}

impl Real for f32 {
    #[inline(always)]
    fn round_even(self) -> f32 {
        self.round_ties_even()
    }

    #[inline(always)]
    fn error_function(self) -> f32 {
        elementary::erf_f32(self)
    }

    fn error_complement(self) -> f32 {
        libm::erfcf(self)
    }

    fn log_gamma(self) -> f32 {
        Special::ln_gamma(self)
    }
}

impl Real for f64 {
    #[inline(always)]
    fn round_even(self) -> f64 {
        self.round_ties_even()
    }

    /// NaN for infinities, as the reference has it.
    fn error_function(self) -> f64 {
        if self.is_infinite() { f64::NAN } else { elementary::erf_f64(self) }
    }

    fn error_complement(self) -> f64 {
        libm::erfc(self)
    }

    fn log_gamma(self) -> f64 {
        Special::ln_gamma(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complex_functions_agree_with_their_definitions() {
        // From NumPy's complex128 functions.
        let z = Complex::new(0.3, -1.2);
        let cases = [
            (z.hyperbolic_tangent(), Complex::new(1.420874968192412, -1.507489711975405)),
            (z.tangent(), Complex::new(0.08847030015632386, -0.8564692917085155)),
            (z.exp_minus_one(), Complex::new(-0.5108681936261994, -1.258121169197948)),
            (z.log_one_plus(), Complex::new(0.5705165022760309, -0.7454194762741583)),
        ];
        for (index, (actual, expected)) in cases.into_iter().enumerate() {
            assert!((actual - expected).norm() < 1e-14, "case {index}: {actual} {expected}");
        }
        assert_eq!(Complex::new(1000.0, 1.0).hyperbolic_tangent().re, 1.0);
    }
}

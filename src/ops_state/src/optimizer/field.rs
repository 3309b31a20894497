//! Arithmetic of the types that variables are trained in. As in the reference, the short floats are rounded after each operation.

use std::ops::{Add, Div, Mul, Neg, Sub};

use num_complex::Complex;
use tfcore_base::{BFloat16, Elem, Half};

/// Floats and complex numbers.
pub(crate) trait Field:
    Elem
    + Copy
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
{
    const ZERO: Self;
    const ONE: Self;

    fn root(self) -> Self;
    /// `1 / sqrt(self)`, rounded once.
    fn inverse_root(self) -> Self;

    fn square(self) -> Self {
        self * self
    }
}

/// Floats.
pub(crate) trait Real: Field + PartialOrd {
    fn of(value: f64) -> Self;
    fn to_f64(self) -> f64;
    fn magnitude(self) -> Self;
    fn power(self, exponent: Self) -> Self;
    fn exponential(self) -> Self;

    /// -1, 0, 1, or NaN for NaN.
    fn sign(self) -> Self {
        if self > Self::ZERO {
            Self::ONE
        } else if self < Self::ZERO {
            -Self::ONE
        } else {
            self
        }
    }

    /// The larger one; this one if either is NaN.
    fn or_more(self, other: Self) -> Self {
        if self < other { other } else { self }
    }

    /// The smaller one; this one if either is NaN.
    fn or_less(self, other: Self) -> Self {
        if other < self { other } else { self }
    }
}

macro_rules! floats {
    ($($t:ty)*) => {$(
        impl Field for $t {
            const ZERO: $t = 0.0;
            const ONE: $t = 1.0;

            #[inline(always)]
            fn root(self) -> $t {
                self.sqrt()
            }

            #[inline(always)]
            fn inverse_root(self) -> $t {
                1.0 / self.sqrt()
            }
        }

        impl Real for $t {
            #[inline(always)]
            fn of(value: f64) -> $t {
                value as $t
            }

            #[inline(always)]
            fn to_f64(self) -> f64 {
                self.into()
            }

            #[inline(always)]
            fn magnitude(self) -> $t {
                self.abs()
            }

            fn power(self, exponent: $t) -> $t {
                self.powf(exponent)
            }

            fn exponential(self) -> $t {
                self.exp()
            }
        }
    )*};
}

floats!(f32 f64);

macro_rules! short_floats {
    ($($t:ty)*) => {$(
        impl Field for $t {
            const ZERO: $t = <$t>::ZERO;
            const ONE: $t = <$t>::ONE;

            #[inline(always)]
            fn root(self) -> $t {
                <$t>::from_f32(self.to_f32().sqrt())
            }

            #[inline(always)]
            fn inverse_root(self) -> $t {
                <$t>::from_f32(1.0 / self.to_f32().sqrt())
            }
        }

        impl Real for $t {
            #[inline(always)]
            fn of(value: f64) -> $t {
                <$t>::from_f64(value)
            }

            #[inline(always)]
            fn to_f64(self) -> f64 {
                self.into()
            }

            #[inline(always)]
            fn magnitude(self) -> $t {
                <$t>::from_f32(self.to_f32().abs())
            }

            fn power(self, exponent: $t) -> $t {
                <$t>::from_f32(self.to_f32().powf(exponent.to_f32()))
            }

            fn exponential(self) -> $t {
                <$t>::from_f32(self.to_f32().exp())
            }
        }
    )*};
}

short_floats!(Half BFloat16);

macro_rules! complex {
    ($($t:ty)*) => {$(
        impl Field for Complex<$t> {
            const ZERO: Self = Complex { re: 0.0, im: 0.0 };
            const ONE: Self = Complex { re: 1.0, im: 0.0 };

            fn root(self) -> Self {
                self.sqrt()
            }

            fn inverse_root(self) -> Self {
                Self::ONE / self.sqrt()
            }
        }
    )*};
}

complex!(f32 f64);

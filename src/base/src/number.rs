//! Arithmetic of element types: integers wrap, half types compute in f32.
//!
//! An op whose result is rounded once per element is written on [`Number::Wide`]; one that rounds after each
//! step, on [`Ring`] itself.

use num_complex::Complex;

use crate::{BFloat16, Complex64, Complex128, Elem, Half};

/// An element type and the type that its arithmetic is done in.
pub trait Number: Elem + Copy {
    type Wide: Copy + PartialEq + Send + Sync + 'static;

    fn widen(self) -> Self::Wide;
    /// Rounds to the nearest element.
    fn narrow(wide: Self::Wide) -> Self;
}

macro_rules! numbers {
    ($($type:ty),*) => {$(
        impl Number for $type {
            type Wide = $type;

            #[inline(always)]
            fn widen(self) -> $type {
                self
            }

            #[inline(always)]
            fn narrow(wide: $type) -> $type {
                wide
            }
        }
    )*};
}
numbers!(f32, f64, i8, i16, i32, i64, u8, u16, u32, u64, Complex64, Complex128);

macro_rules! half_numbers {
    ($($type:ty),*) => {$(
        impl Number for $type {
            type Wide = f32;

            #[inline(always)]
            fn widen(self) -> f32 {
                self.to_f32()
            }

            #[inline(always)]
            fn narrow(wide: f32) -> $type {
                <$type>::from_f32(wide)
            }
        }
    )*};
}
half_numbers!(Half, BFloat16);

/// Numbers that can be added, subtracted and multiplied. Integers wrap around; half types are rounded
/// after each operation.
pub trait Ring: Copy + PartialEq {
    const ZERO: Self;
    const ONE: Self;

    fn plus(self, other: Self) -> Self;
    fn minus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    fn negated(self) -> Self;
    /// The complex conjugate; a real number itself.
    fn conjugate(self) -> Self;
    /// `x / |x|`, and 0 for 0: for real numbers -1, 0, 1 or NaN.
    fn signum(self) -> Self;
}

macro_rules! float_rings {
    ($($type:ty: $zero:expr, $one:expr;)*) => {$(
        impl Ring for $type {
            const ZERO: $type = $zero;
            const ONE: $type = $one;

            #[inline(always)]
            fn plus(self, other: $type) -> $type {
                self + other
            }

            #[inline(always)]
            fn minus(self, other: $type) -> $type {
                self - other
            }

            #[inline(always)]
            fn times(self, other: $type) -> $type {
                self * other
            }

            #[inline(always)]
            fn negated(self) -> $type {
                -self
            }

            #[inline(always)]
            fn conjugate(self) -> $type {
                self
            }

            #[inline(always)]
            fn signum(self) -> $type {
                // Neither comparison holds for NaN, which `self` then hands on.
                if self > Self::ZERO {
                    Self::ONE
                } else if self < Self::ZERO {
                    -Self::ONE
                } else {
                    self + Self::ZERO
                }
            }
        }
    )*};
}
float_rings! {
    f32: 0.0, 1.0;
    f64: 0.0, 1.0;
    Half: Half::ZERO, Half::ONE;
    BFloat16: BFloat16::ZERO, BFloat16::ONE;
}

macro_rules! integer_rings {
    ($($type:ty),*) => {$(
        impl Ring for $type {
            const ZERO: $type = 0;
            const ONE: $type = 1;

            #[inline(always)]
            fn plus(self, other: $type) -> $type {
                self.wrapping_add(other)
            }

            #[inline(always)]
            fn minus(self, other: $type) -> $type {
                self.wrapping_sub(other)
            }

            #[inline(always)]
            fn times(self, other: $type) -> $type {
                self.wrapping_mul(other)
            }

            #[inline(always)]
            fn negated(self) -> $type {
                self.wrapping_neg()
            }

            #[inline(always)]
            fn conjugate(self) -> $type {
                self
            }

            #[inline(always)]
            fn signum(self) -> $type {
                // -1 is out of reach for unsigned types, whose second comparison never holds.
                #[allow(unused_comparisons)]
                match self {
                    x if x > 0 => 1,
                    x if x < 0 => (0 as $type).wrapping_sub(1),
                    _ => 0,
                }
            }
        }
    )*};
}
integer_rings!(i8, i16, i32, i64, u8, u16, u32, u64);

macro_rules! complex_rings {
    ($($type:ty),*) => {$(
        impl Ring for Complex<$type> {
            const ZERO: Complex<$type> = Complex::new(0.0, 0.0);
            const ONE: Complex<$type> = Complex::new(1.0, 0.0);

            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self + other
            }

            #[inline(always)]
            fn minus(self, other: Self) -> Self {
                self - other
            }

            #[inline(always)]
            fn times(self, other: Self) -> Self {
                self * other
            }

            #[inline(always)]
            fn negated(self) -> Self {
                -self
            }

            #[inline(always)]
            fn conjugate(self) -> Self {
                self.conj()
            }

            fn signum(self) -> Self {
                if self == Self::ZERO { self } else { self / self.norm() }
            }
        }
    )*};
}
complex_rings!(f32, f64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs() {
        assert_eq!([-3.5f32, -0.0, 2.0].map(Ring::signum), [-1.0, 0.0, 1.0]);
        assert!(f32::NAN.signum().is_nan());
        assert_eq!([i8::MIN, 0, 5].map(Ring::signum), [-1, 0, 1]);
        assert_eq!(Ring::signum(7u8), 1);
    }
}

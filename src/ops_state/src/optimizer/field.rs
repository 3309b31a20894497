//! Arithmetic of the types that variables are trained in. As in the reference, the short floats are rounded after each operation;
//! they are kept as `f32` meanwhile, because the conversions cost more than the arithmetic.

use std::ops::{Add, Div, Mul, Neg, Sub};

use half::slice::HalfFloatSliceExt;
use num_complex::Complex;
use tfcore_base::{BFloat16, Elem, Half};

/// A type of elements, and the type in which rules compute.
pub(crate) trait Element: Elem + Copy {
    type Wide: Field;

    /// Writes elements to as many numbers.
    fn widen(from: &[Self], to: &mut [Self::Wide]);
    /// Writes numbers, which are rounded already, to as many elements.
    fn narrow(from: &[Self::Wide], to: &mut [Self]);
}

/// Floats and complex numbers.
pub(crate) trait Field:
    Copy
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

/// Numbers that are rounded to a short float after each operation.
macro_rules! short_floats {
    ($($(#[$doc:meta])* $name:ident: $t:ty, $round:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
        #[repr(transparent)]
        pub(crate) struct $name(f32);

        short_floats!(operators $name, $round: Add add +, Sub sub -, Mul mul *, Div div /);

        impl Neg for $name {
            type Output = $name;

            #[inline(always)]
            fn neg(self) -> $name {
                $name(-self.0)
            }
        }

        impl Field for $name {
            const ZERO: $name = $name(0.0);
            const ONE: $name = $name(1.0);

            #[inline(always)]
            fn root(self) -> $name {
                $name($round(self.0.sqrt()))
            }

            #[inline(always)]
            fn inverse_root(self) -> $name {
                $name($round(1.0 / self.0.sqrt()))
            }
        }

        impl Real for $name {
            #[inline(always)]
            fn of(value: f64) -> $name {
                $name($round(value as f32))
            }

            #[inline(always)]
            fn magnitude(self) -> $name {
                $name(self.0.abs())
            }

            fn power(self, exponent: $name) -> $name {
                $name($round(self.0.powf(exponent.0)))
            }

            fn exponential(self) -> $name {
                $name($round(self.0.exp()))
            }
        }

        impl Element for $t {
            type Wide = $name;

            #[inline(always)]
            fn widen(from: &[$t], to: &mut [$name]) {
                let mut wide = [0.0; BLOCK];
                for (from, to) in from.chunks(BLOCK).zip(to.chunks_mut(BLOCK)) {
                    let wide = &mut wide[..from.len()];
                    from.convert_to_f32_slice(wide);
                    to.iter_mut().zip(wide).for_each(|(to, wide)| to.0 = *wide);
                }
            }

            #[inline(always)]
            fn narrow(from: &[$name], to: &mut [$t]) {
                let mut wide = [0.0; BLOCK];
                for (from, to) in from.chunks(BLOCK).zip(to.chunks_mut(BLOCK)) {
                    let wide = &mut wide[..from.len()];
                    wide.iter_mut().zip(from).for_each(|(wide, from)| *wide = from.0);
                    to.convert_from_f32_slice(wide);
                }
            }
        }
    )*};
    (operators $name:ident, $round:ident: $($trait:ident $method:ident $operator:tt),*) => {$(
        impl $trait for $name {
            type Output = $name;

            #[inline(always)]
            fn $method(self, other: $name) -> $name {
                $name($round(self.0 $operator other.0))
            }
        }
    )*};
}

/// Elements that are stepped at once: two vectors of the widest instructions. More gain nothing, and rows are often short.
pub(crate) const BLOCK: usize = 16;

short_floats! {
    /// An `f32` with the precision and the range of a `half`.
    RoundedHalf: Half, round_half;
    /// An `f32` with the precision of a `bfloat16`.
    RoundedBFloat16: BFloat16, round_bfloat16;
}

/// The nearest `half`, of two the even one.
#[inline(always)]
fn round_half(x: f32) -> f32 {
    // From here on `half` has no number.
    const LIMIT: f32 = 65_520.0;
    const LEAST_NORMAL: f32 = 6.103_515_6e-5;
    let magnitude = x.abs();
    // Subnormal numbers are the multiples of 2^-24, which is the distance of neighbours between 1/2 and 1.
    let subnormal = (magnitude + 0.5) - 0.5;
    let bits = magnitude.to_bits();
    let even = bits >> 13 & 1;
    let normal = f32::from_bits(bits.wrapping_add(0xfff + even) & !0x1fff);
    let rounded = if magnitude < LEAST_NORMAL { subnormal } else { normal };
    let rounded = if magnitude >= LIMIT { f32::INFINITY } else { rounded };
    // NaN fails all comparisons and may not be rounded to an infinity.
    let rounded = if magnitude.is_nan() { magnitude } else { rounded };
    rounded.copysign(x)
}

/// The nearest `bfloat16`, of two the even one.
#[inline(always)]
fn round_bfloat16(x: f32) -> f32 {
    let bits = x.to_bits();
    let even = bits >> 16 & 1;
    let rounded = f32::from_bits(bits.wrapping_add(0x7fff + even) & !0xffff);
    if x.is_nan() { x } else { rounded }
}

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

macro_rules! own_elements {
    ($($t:ty)*) => {$(
        impl Element for $t {
            type Wide = $t;

            #[inline(always)]
            fn widen(from: &[$t], to: &mut [$t]) {
                to.copy_from_slice(from);
            }

            #[inline(always)]
            fn narrow(from: &[$t], to: &mut [$t]) {
                to.copy_from_slice(from);
            }
        }
    )*};
}

own_elements!(f32 f64 Complex<f32> Complex<f64>);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_is_that_of_the_conversions() {
        let mut bits = 1u32;
        for _ in 0..200_000 {
            bits = bits.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            // The numbers of all exponents, and those near to what half has.
            for x in [f32::from_bits(bits), f32::from_bits(bits >> 4 | 0x3000_0000)] {
                let (half, brain) = (Half::from_f32(x).to_f32(), BFloat16::from_f32(x).to_f32());
                assert!(round_half(x) == half || x.is_nan(), "{x:e}");
                assert!(round_bfloat16(x) == brain || x.is_nan(), "{x:e}");
            }
        }
        for x in [65_519.9, 65_520.0, 1e-8, 2.980_232_2e-8, 6.1e-5, f32::INFINITY] {
            assert_eq!(round_half(x), Half::from_f32(x).to_f32());
            assert_eq!(round_half(-x), Half::from_f32(-x).to_f32());
        }
        assert!(round_half(f32::NAN).is_nan() && round_bfloat16(f32::NAN).is_nan());
    }
}

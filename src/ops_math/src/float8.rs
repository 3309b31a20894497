//! The 8-bit floats: their values, and how numbers are rounded to them.

use tfcore_base::{Elem, Float8E4M3Fn, Float8E5M2};

/// The layout of an 8-bit float: a sign, an exponent and a mantissa.
pub(crate) trait Float8: Elem + Copy {
    const MANTISSA_BITS: u32;
    /// The exponent of the least normal number.
    const MIN_EXPONENT: i32;
    /// The bits of the largest finite number, of what is beyond it, and of NaN.
    const LARGEST: u8;
    const OVERFLOW: u8;
    const NAN: u8;

    fn from_bits(bits: u8) -> Self;
    fn to_bits(self) -> u8;
}

impl Float8 for Float8E5M2 {
    const MANTISSA_BITS: u32 = 2;
    const MIN_EXPONENT: i32 = -14;
    const LARGEST: u8 = 0x7b;
    const OVERFLOW: u8 = 0x7c;
    const NAN: u8 = 0x7e;

    fn from_bits(bits: u8) -> Self {
        Float8E5M2(bits)
    }

    fn to_bits(self) -> u8 {
        self.0
    }
}

impl Float8 for Float8E4M3Fn {
    const MANTISSA_BITS: u32 = 3;
    const MIN_EXPONENT: i32 = -6;
    const LARGEST: u8 = 0x7e;
    // There are no infinities.
    const OVERFLOW: u8 = 0x7f;
    const NAN: u8 = 0x7f;

    fn from_bits(bits: u8) -> Self {
        Float8E4M3Fn(bits)
    }

    fn to_bits(self) -> u8 {
        self.0
    }
}

const SIGN: u8 = 0x80;

/// The value of an 8-bit float.
pub(crate) fn decode<T: Float8>(float: T) -> f32 {
    let magnitude = float.to_bits() & !SIGN;
    let exponent = i32::from(magnitude >> T::MANTISSA_BITS);
    let mantissa = f32::from(magnitude & ((1 << T::MANTISSA_BITS) - 1));
    let one = f32::from(1u8 << T::MANTISSA_BITS);
    let value = if magnitude <= T::LARGEST {
        let (significand, exponent) =
            if exponent == 0 { (mantissa, 0) } else { (one + mantissa, exponent - 1) };
        significand / one * 2f32.powi(T::MIN_EXPONENT + exponent)
    } else if T::OVERFLOW != T::NAN && magnitude == T::OVERFLOW {
        f32::INFINITY
    } else {
        f32::NAN
    };
    if float.to_bits() & SIGN == 0 { value } else { -value }
}

/// The nearest 8-bit float, of two the even one. What rounds to more than the largest overflows.
pub(crate) fn encode<T: Float8>(value: f64) -> T {
    let sign = if value.is_sign_negative() { SIGN } else { 0 };
    if value.is_nan() {
        return T::from_bits(sign | T::NAN);
    }
    let magnitude = value.abs();
    // The exponent of a `f64`, whose subnormal numbers are far below those of `T`.
    let exponent = (magnitude.to_bits() >> 52) as i32 - 1023;
    let above = exponent.max(T::MIN_EXPONENT) - T::MIN_EXPONENT;
    if above >= 32 {
        return T::from_bits(sign | T::OVERFLOW);
    }
    let step = 2f64.powi(T::MIN_EXPONENT + above - T::MANTISSA_BITS as i32);
    // Where the significand rounds up to the next power of two, it carries into the exponent.
    let bits = ((above as u32) << T::MANTISSA_BITS) + (magnitude / step).round_ties_even() as u32;
    let bits = if bits > u32::from(T::LARGEST) { T::OVERFLOW } else { bits as u8 };
    T::from_bits(sign | bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_round_trips() {
        fn check<T: Float8>() {
            for bits in 0..=255 {
                let value = decode(T::from_bits(bits));
                if !value.is_nan() {
                    assert_eq!(encode::<T>(value.into()).to_bits(), bits, "{value}");
                }
            }
        }
        check::<Float8E5M2>();
        check::<Float8E4M3Fn>();
    }

    #[test]
    fn roundings() {
        // The value, then what it is rounded to in either type.
        let (inf, nan) = (f32::INFINITY, f32::NAN);
        let cases = [
            (1.999, 2.0, 2.0),
            (3.15, 3.0, 3.25),
            (464.0, 448.0, 448.0),
            (465.0, 448.0, nan),
            (480.0, 512.0, nan),
            (57344.0, 57344.0, nan),
            (61440.0, inf, nan),
            (0.001, 0.0009765625, 0.001953125),
            (1.0 / 65536.0, 1.0 / 65536.0, 0.0),
            (1e-300, 0.0, 0.0),
            (-1e300, -inf, nan),
        ];
        for (value, e5m2, e4m3) in cases {
            assert_eq!(decode(encode::<Float8E5M2>(value)), e5m2, "{value}");
            let actual = decode(encode::<Float8E4M3Fn>(value));
            assert!(actual == e4m3 || (actual.is_nan() && e4m3.is_nan()), "{value}: {actual}");
        }
        assert!(decode(encode::<Float8E5M2>(f64::NAN)).is_nan());
    }
}

//! Quotients and remainders, rounded towards zero or down, element by element with broadcasting.

use num_traits::Float;
use tfcore_base::{
    BFloat16, Complex64, Complex128, Error, Half, Numbers, RealNumbers, Result, internal, invalid,
};
use tfcore_framework::{Binary, Registry, shape_fns};

use crate::number::{Field, Number};

/// `x / y`: exact for floats, rounded towards zero for integers.
struct Div;
/// `x / y` rounded towards zero.
struct TruncateDiv;
/// `x / y` rounded down.
struct FloorDiv;
/// What `TruncateDiv` leaves: a remainder with the sign of `x`.
struct Mod;
/// As `Mod`.
struct TruncateMod;
/// What `FloorDiv` leaves: a remainder with the sign of `y`.
struct FloorMod;

/// Functors for integers; a divisor of 0 is the error of the functor's name.
macro_rules! integer_division {
    ($($name:ident for $($type:ty)*, $error:ident: |$x:ident, $y:ident| $result:expr;)*) => {$($(
        impl Binary<$type> for $name {
            type Out = $type;
            const COST: usize = 10;

            #[inline(always)]
            fn apply($x: $type, $y: $type) -> $type {
                $result
            }

            const CHECK: Option<fn(&[$type], &[$type]) -> Result<()>> =
                Some(|_, y| if y.contains(&0) { Err($error()) } else { Ok(()) });
        }
    )*)*};
}

fn zero_divisor() -> Error {
    invalid!("Integer division by zero")
}

/// What the reference says of the ops of which it does not expect that they can fail.
fn unexpected_zero_divisor() -> Error {
    internal!("Unexpected error in binary operator (only integer div and mod should have errors)")
}

// The least number divided by -1 wraps around.
integer_division! {
    Div for i8 i16 i32 i64 u8 u16 u32 u64, zero_divisor: |x, y| x.wrapping_div(y);
    TruncateDiv for i8 i16 i32 i64 u8 u16 u32 u64, unexpected_zero_divisor:
        |x, y| x.wrapping_div(y);
    Mod for i32 i64, zero_divisor: |x, y| x.wrapping_rem(y);
    TruncateMod for i32 i64, unexpected_zero_divisor: |x, y| x.wrapping_rem(y);
    FloorDiv for i8 i16 i32 i64, zero_divisor: |x, y| {
        let quotient = x.wrapping_div(y);
        let inexact = quotient.wrapping_mul(y) != x;
        if inexact && (x < 0) != (y < 0) { quotient - 1 } else { quotient }
    };
    FloorMod for i8 i16 i32 i64, zero_divisor: |x, y| {
        let remainder = x.wrapping_rem(y);
        if remainder != 0 && (remainder < 0) != (y < 0) { remainder + y } else { remainder }
    };
    FloorDiv for u8 u16 u32 u64, zero_divisor: |x, y| x / y;
    FloorMod for u8 u16 u32 u64, zero_divisor: |x, y| x % y;
}

macro_rules! float_division {
    ($($name:ident for $($type:ty)*: |$x:ident, $y:ident| $result:expr;)*) => {$($(
        impl Binary<$type> for $name {
            type Out = $type;
            const COST: usize = 20;

            #[inline(always)]
            fn apply(x: $type, y: $type) -> $type {
                let ($x, $y) = (x.widen(), y.widen());
                <$type>::narrow($result)
            }
        }
    )*)*};
}

float_division! {
    Div for f32 f64 Half BFloat16 Complex64 Complex128: |x, y| x.divided_by(y);
    Mod for f32 f64: |x, y| x % y;
    TruncateMod for f32 f64: |x, y| x % y;
    FloorMod for f32 f64 Half BFloat16: |x, y| {
        let remainder = x % y;
        if remainder != 0.0 && (remainder < 0.0) != (y < 0.0) { remainder + y } else { remainder }
    };
}

/// Quotients that are rounded to the element type before they are rounded to whole numbers.
macro_rules! whole_quotients {
    ($($name:ident($round:path) for $($type:ty)*;)*) => {$($(
        impl Binary<$type> for $name {
            type Out = $type;
            const COST: usize = 4;

            #[inline(always)]
            fn apply(x: $type, y: $type) -> $type {
                let quotient = <$type>::narrow(x.widen() / y.widen());
                <$type>::narrow($round(quotient.widen()))
            }
        }
    )*)*};
}

whole_quotients! {
    FloorDiv(Float::floor) for f32 f64 Half BFloat16;
    TruncateDiv(Float::trunc) for f32 f64 Half BFloat16;
}

pub(crate) fn register(r: &mut Registry) {
    // `Div(x: T, y: T) -> z: T` and the like.
    r.op("Div").shape(shape_fns::broadcast_binary).binary::<Div, Numbers>();
    r.op("TruncateDiv").shape(shape_fns::broadcast_binary).binary::<TruncateDiv, RealNumbers>();
    r.op("FloorDiv").shape(shape_fns::broadcast_binary).binary::<FloorDiv, RealNumbers>();
    r.op("FloorMod").shape(shape_fns::broadcast_binary).binary::<FloorMod, RealNumbers>();
    type ModTypes = (f32, f64, i32, i64);
    r.op("Mod").shape(shape_fns::broadcast_binary).binary::<Mod, ModTypes>();
    r.op("TruncateMod").shape(shape_fns::broadcast_binary).binary::<TruncateMod, ModTypes>();
}

#[cfg(test)]
mod tests {
    use tfcore_base::{Code, Elem};
    use tfcore_framework::AttrValue;
    use tfcore_framework::testing::{registry_of, run_op};
    use tfcore_tensor::{Shape, Tensor};

    use super::*;

    fn apply<T: Elem>(op: &str, x: &[T], y: &[T]) -> Result<Vec<T>> {
        let registry = registry_of(register);
        let vector = |values: &[T]| Tensor::from_slice(Shape::vector(values.len()), values);
        let attrs = [("T", AttrValue::Type(T::DTYPE))];
        let outputs = run_op(&registry, op, &attrs, &[vector(x)?, vector(y)?])?;
        outputs[0].as_slice().map(<[T]>::to_vec)
    }

    #[test]
    fn signs_of_operands() {
        let cases = [
            ("Div", [3, -3, -3, 3], [3.5, -3.5, -3.5, 3.5]),
            ("TruncateDiv", [3, -3, -3, 3], [3.0, -3.0, -3.0, 3.0]),
            ("FloorDiv", [3, -4, -4, 3], [3.0, -4.0, -4.0, 3.0]),
            ("FloorMod", [1, 1, -1, -1], [1.0, 1.0, -1.0, -1.0]),
            ("Mod", [1, -1, 1, -1], [1.0, -1.0, 1.0, -1.0]),
        ];
        for (op, integers, floats) in cases {
            let results = apply::<i32>(op, &[7, -7, 7, -7], &[2, 2, -2, -2]).unwrap();
            assert_eq!(results, integers, "{op}");
            let results = apply(op, &[7.0f32, -7.0, 7.0, -7.0], &[2.0, 2.0, -2.0, -2.0]).unwrap();
            assert_eq!(results, floats, "{op}");
        }
    }

    #[test]
    fn extremes() {
        for (op, expected) in [("Div", i32::MIN), ("FloorDiv", i32::MIN), ("FloorMod", 0)] {
            assert_eq!(apply::<i32>(op, &[i32::MIN], &[-1]).unwrap(), [expected], "{op}");
            let error = apply::<u16>(op, &[1, 2], &[1, 0]).unwrap_err();
            assert_eq!(error.message(), "Integer division by zero", "{op}");
            assert!(apply::<u16>(op, &[], &[0]).unwrap().is_empty(), "{op}");
        }
        let error = apply::<i32>("TruncateMod", &[1], &[0]).unwrap_err();
        assert_eq!(error.code(), Code::Internal);
        assert_eq!(apply("FloorMod", &[2.0f32], &[f32::INFINITY]).unwrap(), [2.0]);
        assert!(apply("FloorMod", &[2.0f32], &[0.0]).unwrap()[0].is_nan());
    }
}

//! Arithmetic on two values, element by element, with broadcasting.

use num_complex::Complex;
use num_traits::Float;
use tfcore_base::{
    BFloat16, Complex64, Complex128, Floats, Half, Integers, Numbers, RealNumbers, Result, invalid,
};
use tfcore_framework::{Binary, Registry, shape_fns};
use tfcore_tensor::TString;

use crate::number::{Field, FloatsAndComplexes, Number, Real, Ring};

/// Defines functors from `Name(cost): class |x, y| result;`, where `class` is what the wide type must be
/// for `result` to be computed.
macro_rules! functors {
    ($($name:ident($cost:literal): $class:ident |$x:ident, $y:ident| $result:expr;)*) => {$(
        struct $name;

        impl<T: Number<Wide: $class>> Binary<T> for $name {
            type Out = T;
            const COST: usize = $cost;

            #[inline(always)]
            fn apply(x: T, y: T) -> T {
                let ($x, $y) = (x.widen(), y.widen());
                T::narrow($result)
            }
        }
    )*};
}

functors! {
    Add(1): Ring |x, y| x.plus(y);
    Sub(1): Ring |x, y| x.minus(y);
    Mul(1): Ring |x, y| x.times(y);
    SquaredDifference(2): Ring |x, y| x.minus(y).times(x.minus(y).conjugate());
    RealDiv(4): Field |x, y| x.divided_by(y);
    DivNoNan(4): Field |x, y| if y == zero() { zero() } else { x.divided_by(y) };
    MulNoNan(2): Ring |x, y| if y == zero() { zero() } else { x.times(y) };
    Xdivy(4): Field |x, y| if x == zero() { zero() } else { x.divided_by(y) };
    Xlogy(14): Field |x, y| if x == zero() { zero() } else { x.times(y.logarithm()) };
    Xlog1py(30): Field |x, y| if x == zero() { zero() } else { x.times(y.log_one_plus()) };
    Atan2(40): Real |y, x| Float::atan2(y, x);
}

#[inline(always)]
fn zero<T: Ring>() -> T {
    T::ZERO
}

/// The larger value, or NaN if there is one.
struct Maximum;

/// The smaller value, or NaN if there is one.
struct Minimum;

/// Of equal values, such as zeros of either sign, the second one is taken, as the vector instructions do.
macro_rules! selections {
    ($($type:ty)*) => {$(
        impl Binary<$type> for Maximum {
            type Out = $type;

            #[inline(always)]
            fn apply(x: $type, y: $type) -> $type {
                if x > y || is_nan(x) { x } else { y }
            }
        }

        impl Binary<$type> for Minimum {
            type Out = $type;

            #[inline(always)]
            fn apply(x: $type, y: $type) -> $type {
                if x < y || is_nan(x) { x } else { y }
            }
        }
    )*};
}
selections!(f32 f64 i8 i16 i32 i64 u8 u16 u32 u64);

/// Of equal values the first one is taken.
macro_rules! half_selections {
    ($($type:ty)*) => {$(
        impl Binary<$type> for Maximum {
            type Out = $type;

            #[inline(always)]
            fn apply(x: $type, y: $type) -> $type {
                let (wide_x, wide_y) = (x.widen(), y.widen());
                if wide_x < wide_y || wide_y.is_nan() { y } else { x }
            }
        }

        impl Binary<$type> for Minimum {
            type Out = $type;

            #[inline(always)]
            fn apply(x: $type, y: $type) -> $type {
                let (wide_x, wide_y) = (x.widen(), y.widen());
                if wide_x > wide_y || wide_y.is_nan() { y } else { x }
            }
        }
    )*};
}
half_selections!(Half BFloat16);

/// Whether `x` differs from itself, as only NaN does.
#[inline(always)]
#[allow(clippy::eq_op)]
fn is_nan<T: PartialEq>(x: T) -> bool {
    x != x
}

/// What adding is for strings.
struct Concatenate;

impl Binary<TString> for Concatenate {
    type Out = TString;
    const COST: usize = 50;

    fn apply(x: TString, y: TString) -> TString {
        TString::from([x.as_bytes(), y.as_bytes()].concat().as_slice())
    }
}

/// `x` to the power of `y`.
struct Pow;

macro_rules! field_powers {
    ($($type:ty),*) => {$(
        impl Binary<$type> for Pow {
            type Out = $type;
            const COST: usize = 50;

            fn apply(x: $type, y: $type) -> $type {
                <$type>::narrow(x.widen().power(y.widen()))
            }
        }
    )*};
}
field_powers!(f32, f64, Half, BFloat16, Complex64, Complex128);

macro_rules! integer_powers {
    ($($type:ty),*) => {$(
        impl Binary<$type> for Pow {
            type Out = $type;
            const COST: usize = 20;

            /// By repeated squaring; the result wraps around.
            fn apply(mut x: $type, mut y: $type) -> $type {
                let mut power = 1;
                while y > 0 {
                    if y & 1 == 1 {
                        power = x.times(power);
                    }
                    x = x.times(x);
                    y >>= 1;
                }
                power
            }

            const CHECK: Option<fn(&[$type], &[$type]) -> Result<()>> = Some(|_, y| {
                if y.iter().any(|&y| y < 0) {
                    return Err(invalid!("Integers to negative integer powers are not allowed"));
                }
                Ok(())
            });
        }
    )*};
}
integer_powers!(i8, i16, i32, i64);

/// Makes a complex number of its parts.
struct FromParts;

impl Binary<f32> for FromParts {
    type Out = Complex64;

    #[inline(always)]
    fn apply(real: f32, imaginary: f32) -> Complex64 {
        Complex::new(real, imaginary)
    }
}

impl Binary<f64> for FromParts {
    type Out = Complex128;

    #[inline(always)]
    fn apply(real: f64, imaginary: f64) -> Complex128 {
        Complex::new(real, imaginary)
    }
}

struct BitwiseAnd;
struct BitwiseOr;
struct BitwiseXor;
struct LeftShift;
struct RightShift;

macro_rules! bitwise {
    ($($name:ident for $($type:ty)*: |$x:ident, $y:ident| $result:expr;)*) => {$($(
        impl Binary<$type> for $name {
            type Out = $type;

            #[inline(always)]
            fn apply($x: $type, $y: $type) -> $type {
                $result
            }
        }
    )*)*};
}

/// A shift is at least 0 and less than the width.
macro_rules! shift {
    ($y:expr, $x:expr) => {
        $y.clamp(0, (size_of_val(&$x) * 8 - 1) as _) as u32
    };
}

bitwise! {
    BitwiseAnd for i8 i16 i32 i64 u8 u16 u32 u64: |x, y| x & y;
    BitwiseOr for i8 i16 i32 i64 u8 u16 u32 u64: |x, y| x | y;
    BitwiseXor for i8 i16 i32 i64 u8 u16 u32 u64: |x, y| x ^ y;
    LeftShift for i8 i16 i32 i64 u8 u16 u32 u64: |x, y| x << shift!(y, x);
    RightShift for i8 i16 i32 i64 u8 u16 u32 u64: |x, y| x >> shift!(y, x);
}

/// Registers ops with the signature `Name(x: T, y: T) -> z: T`, one line each: name, functor, types.
macro_rules! same_type_ops {
    ($r:ident; $($op:literal $functor:ident $set:ty;)*) => {$(
        $r.op($op).shape(shape_fns::broadcast_binary).binary::<$functor, $set>();
    )*};
}

pub(crate) fn register(r: &mut Registry) {
    same_type_ops! { r;
        "AddV2" Add Numbers;
        "Add" Add (f32, f64, Half, BFloat16, i8, i16, i32, i64, u8, Complex64, Complex128);
        "Add" Concatenate (TString,);
        "Sub" Sub Numbers;
        "Mul" Mul Numbers;
        "SquaredDifference" SquaredDifference
            (f32, f64, Half, BFloat16, i32, i64, Complex64, Complex128);
        "RealDiv" RealDiv FloatsAndComplexes;
        "DivNoNan" DivNoNan FloatsAndComplexes;
        "MulNoNan" MulNoNan FloatsAndComplexes;
        "Xdivy" Xdivy FloatsAndComplexes;
        "Xlogy" Xlogy FloatsAndComplexes;
        "Xlog1py" Xlog1py FloatsAndComplexes;
        "Maximum" Maximum RealNumbers;
        "Minimum" Minimum RealNumbers;
        "Pow" Pow (f32, f64, Half, BFloat16, i8, i16, i32, i64, Complex64, Complex128);
        "Atan2" Atan2 Floats;
        "BitwiseAnd" BitwiseAnd Integers;
        "BitwiseOr" BitwiseOr Integers;
        "BitwiseXor" BitwiseXor Integers;
        "LeftShift" LeftShift Integers;
        "RightShift" RightShift Integers;
    }
    // `Complex(real: T, imag: T) -> out: Tout`, where `T` is the type of the parts of `Tout`.
    r.op("Complex").shape(shape_fns::broadcast_binary).binary::<FromParts, (f32, f64)>();
}

#[cfg(test)]
mod tests {
    use tfcore_base::{DType, Elem};
    use tfcore_framework::AttrValue;
    use tfcore_framework::testing::{infer, registry_of, run_op};
    use tfcore_tensor::{Shape, Tensor};

    use super::*;

    fn registry() -> Registry {
        registry_of(register)
    }

    fn apply<T: Elem>(op: &str, x: &[T], y: &[T]) -> Result<Vec<T>> {
        let vector = |values: &[T]| Tensor::from_slice(Shape::vector(values.len()), values);
        let attrs = [("T", AttrValue::Type(T::DTYPE))];
        let outputs = run_op(&registry(), op, &attrs, &[vector(x)?, vector(y)?])?;
        outputs[0].as_slice().map(<[T]>::to_vec)
    }

    #[test]
    fn floats() {
        let nan = f32::NAN;
        let cases: [(&str, &[f32], &[f32], &[f32]); 9] = [
            ("AddV2", &[1.0, 2.0], &[10.0], &[11.0, 12.0]),
            ("Sub", &[5.0], &[1.0, 2.0], &[4.0, 3.0]),
            ("SquaredDifference", &[5.0, 1.0], &[2.0, 2.0], &[9.0, 1.0]),
            ("DivNoNan", &[6.0, 1.0, nan], &[4.0, 0.0, 0.0], &[1.5, 0.0, 0.0]),
            ("MulNoNan", &[f32::INFINITY, 3.0], &[0.0, 2.0], &[0.0, 6.0]),
            ("Maximum", &[1.0, -2.0], &[0.5, 7.0], &[1.0, 7.0]),
            ("Minimum", &[1.0, -2.0], &[0.5, 7.0], &[0.5, -2.0]),
            ("Xlogy", &[0.0, 2.0], &[0.0, 1.0], &[0.0, 0.0]),
            ("Pow", &[2.0, 4.0], &[3.0, 0.5], &[8.0, 2.0]),
        ];
        for (op, x, y, expected) in cases {
            assert_eq!(apply(op, x, y).unwrap(), expected, "{op}");
        }
        for op in ["Maximum", "Minimum"] {
            let results = apply(op, &[nan, 1.0], &[1.0, nan]).unwrap();
            assert!(results.iter().all(|x| x.is_nan()), "{op}: {results:?}");
        }
    }

    #[test]
    fn integers() {
        let cases: [(&str, &[i8], &[i8], &[i8]); 5] = [
            ("AddV2", &[100], &[100], &[-56]),
            ("Mul", &[64], &[2], &[-128]),
            ("Pow", &[2, 3, -3, 0, -128], &[7, 5, 3, 0, 2], &[-128, -13, -27, 1, 0]),
            ("LeftShift", &[1, 1, 7], &[1, -1, 100], &[2, 1, -128]),
            ("RightShift", &[-8, -8, 7], &[1, 9, 100], &[-4, -1, 0]),
        ];
        for (op, x, y, expected) in cases {
            assert_eq!(apply(op, x, y).unwrap(), expected, "{op}");
        }
        let error = apply("Pow", &[2i32], &[-1]).unwrap_err();
        assert_eq!(error.message(), "Integers to negative integer powers are not allowed");
    }

    #[test]
    fn strings_are_joined() {
        let text = |text: &str| TString::from(text.as_bytes());
        let joined = apply("Add", &[text("ab"), text("")], &[text("cd")]).unwrap();
        assert_eq!(joined, [text("abcd"), text("cd")]);
    }

    #[test]
    fn shapes_are_broadcast() {
        let attrs = [("T", AttrValue::Type(DType::FLOAT))];
        let shape = infer(&registry(), "AddV2", &attrs, "[2,1];[?,3]", &[]).unwrap();
        assert_eq!(shape, "[2,3]");
        let error = apply("AddV2", &[1.0f32, 2.0], &[1.0, 2.0, 3.0]).unwrap_err();
        assert_eq!(error.message(), "Incompatible shapes: [2] vs. [3]");
    }
}

//! Functions of one value, element by element.

use num_complex::ComplexFloat;
use num_traits::Float;
use tfcore_base::{
    BFloat16, Complex64, Complex128, Complexes, DType, Elem, Floats, Half, Integers, LoopFor,
    Numbers, Result, SignedNumbers, invalid,
};
use tfcore_framework::{
    Kernel, KernelInit, OpContext, OpEntry, Registry, Unary, UnaryKernel, UnaryLoops, kernel,
    shape_fns,
};
use tfcore_tensor::{Tensor, Variant};

use crate::number::{Field, FloatsAndComplexes, Number, Real, Ring};

/// Defines functors from `Name(cost): class |x| result;`, where `class` is what the wide type must be
/// for `result` to be computed.
macro_rules! functors {
    ($($name:ident($cost:literal): $class:ident |$x:ident| $result:expr;)*) => {$(
        struct $name;

        impl<T: Number<Wide: $class>> Unary<T> for $name {
            type Out = T;
            const COST: usize = $cost;

            #[inline(always)]
            fn apply(x: T) -> T {
                let $x = x.widen();
                T::narrow($result)
            }
        }
    )*};
}

functors! {
    Neg(1): Ring |x| x.negated();
    Square(1): Ring |x| x.times(x);
    Sign(2): Ring |x| x.signum();
    Conj(1): Ring |x| x.conjugate();
    Reciprocal(4): Field |x| <T::Wide as Ring>::ONE.divided_by(x);
    Sqrt(6): Field |x| ComplexFloat::sqrt(x);
    Rsqrt(8): Field |x| <T::Wide as Ring>::ONE.divided_by(ComplexFloat::sqrt(x));
    Exp(10): Field |x| x.exponential();
    Expm1(30): Field |x| x.exp_minus_one();
    Log(12): Field |x| x.logarithm();
    Log1p(30): Field |x| x.log_one_plus();
    Sigmoid(12): Field |x| x.sigmoid();
    Tanh(14): Field |x| x.hyperbolic_tangent();
    Sin(30): Field |x| ComplexFloat::sin(x);
    Cos(30): Field |x| ComplexFloat::cos(x);
    Tan(40): Field |x| x.tangent();
    Asin(30): Field |x| ComplexFloat::asin(x);
    Acos(30): Field |x| ComplexFloat::acos(x);
    Atan(30): Field |x| ComplexFloat::atan(x);
    Sinh(40): Field |x| ComplexFloat::sinh(x);
    Cosh(40): Field |x| ComplexFloat::cosh(x);
    Asinh(40): Field |x| ComplexFloat::asinh(x);
    Acosh(40): Field |x| ComplexFloat::acosh(x);
    Atanh(40): Field |x| ComplexFloat::atanh(x);
    Erf(14): Real |x| x.error_function();
    Erfc(40): Real |x| x.error_complement();
    Lgamma(60): Real |x| x.log_gamma();
    Floor(1): Real |x| Float::floor(x);
    Ceil(1): Real |x| Float::ceil(x);
    Rint(1): Real |x| x.round_even();
}

/// Functors whose result is of another kind: `Name: |x| result;` for floats.
macro_rules! predicates {
    ($($name:ident |$x:ident| $result:expr;)*) => {$(
        struct $name;

        impl<T: Number<Wide: Real>> Unary<T> for $name {
            type Out = bool;

            #[inline(always)]
            fn apply(x: T) -> bool {
                let $x = x.widen();
                $result
            }
        }
    )*};
}

predicates! {
    IsNan |x| Float::is_nan(x);
    IsInf |x| Float::is_infinite(x);
    IsFinite |x| Float::is_finite(x);
}

struct Abs;

macro_rules! absolute {
    ($($type:ty: |$x:ident| $result:expr;)*) => {$(
        impl Unary<$type> for Abs {
            type Out = $type;

            #[inline(always)]
            fn apply($x: $type) -> $type {
                $result
            }
        }
    )*};
}

absolute! {
    f32: |x| x.abs();
    f64: |x| x.abs();
    Half: |x| Half::from_bits(x.to_bits() & 0x7fff);
    BFloat16: |x| BFloat16::from_bits(x.to_bits() & 0x7fff);
    i8: |x| x.wrapping_abs();
    i16: |x| x.wrapping_abs();
    i32: |x| x.wrapping_abs();
    i64: |x| x.wrapping_abs();
}

/// What the reference makes of integers it is asked to round: 0.
struct RoundedInteger;

impl<T: Elem> Unary<T> for RoundedInteger {
    type Out = T;

    #[inline(always)]
    fn apply(_: T) -> T {
        T::default()
    }
}

struct LogicalNot;

impl Unary<bool> for LogicalNot {
    type Out = bool;

    #[inline(always)]
    fn apply(x: bool) -> bool {
        !x
    }
}

struct Invert;

macro_rules! invert {
    ($($type:ty),*) => {$(
        impl Unary<$type> for Invert {
            type Out = $type;

            #[inline(always)]
            fn apply(x: $type) -> $type {
                !x
            }
        }
    )*};
}
invert!(i8, i16, i32, i64, u8, u16, u32, u64);

/// Functors from complex to real numbers.
macro_rules! parts {
    ($($name:ident($cost:literal) |$z:ident| $result:expr;)*) => {$(
        struct $name;

        impl Unary<Complex64> for $name {
            type Out = f32;
            const COST: usize = $cost;

            #[inline(always)]
            fn apply($z: Complex64) -> f32 {
                $result
            }
        }

        impl Unary<Complex128> for $name {
            type Out = f64;
            const COST: usize = $cost;

            #[inline(always)]
            fn apply($z: Complex128) -> f64 {
                $result
            }
        }
    )*};
}

parts! {
    RealPart(1) |z| z.re;
    ImaginaryPart(1) |z| z.im;
    Angle(30) |z| z.arg();
    ComplexAbs(10) |z| z.norm();
}

pub(crate) fn register(r: &mut Registry) {
    register_arithmetic(r);
    register_functions(r);
    register_rounding(r);
    register_parts(r);
}

/// Registers ops with the signature `Name(x: T) -> y: T`, one line each: name, functor, types.
macro_rules! same_type_ops {
    ($r:ident; $($op:literal $functor:ident $set:ty;)*) => {$(
        $r.op($op).shape(shape_fns::unchanged).unary::<$functor, $set>();
    )*};
}

fn register_arithmetic(r: &mut Registry) {
    same_type_ops! { r;
        "Neg" Neg SignedNumbers;
        "Abs" Abs (f32, f64, Half, BFloat16, i8, i16, i32, i64);
        "Square" Square Numbers;
        "Sign" Sign SignedNumbers;
        "Reciprocal" Reciprocal FloatsAndComplexes;
        "Inv" Reciprocal FloatsAndComplexes;
        "Sqrt" Sqrt FloatsAndComplexes;
        "Rsqrt" Rsqrt FloatsAndComplexes;
        "Invert" Invert Integers;
    }
    // `LogicalNot(x: bool) -> y: bool`.
    r.op("LogicalNot").shape(shape_fns::unchanged).cpu(|init| {
        Ok(Box::new(UnaryKernel::new(init, <UnaryLoops<LogicalNot> as LoopFor<bool>>::LOOP)))
    });
}

fn register_functions(r: &mut Registry) {
    same_type_ops! { r;
        "Exp" Exp FloatsAndComplexes;
        "Expm1" Expm1 FloatsAndComplexes;
        "Log" Log FloatsAndComplexes;
        "Log1p" Log1p FloatsAndComplexes;
        "Sigmoid" Sigmoid FloatsAndComplexes;
        "Tanh" Tanh FloatsAndComplexes;
        "Sin" Sin FloatsAndComplexes;
        "Cos" Cos FloatsAndComplexes;
        "Tan" Tan FloatsAndComplexes;
        "Asin" Asin FloatsAndComplexes;
        "Acos" Acos FloatsAndComplexes;
        "Atan" Atan FloatsAndComplexes;
        "Sinh" Sinh FloatsAndComplexes;
        "Cosh" Cosh FloatsAndComplexes;
        "Asinh" Asinh FloatsAndComplexes;
        "Acosh" Acosh FloatsAndComplexes;
        "Atanh" Atanh FloatsAndComplexes;
        "Erf" Erf Floats;
        "Erfc" Erfc Floats;
        "Lgamma" Lgamma (f32, f64, Half);
    }
}

fn register_rounding(r: &mut Registry) {
    same_type_ops! { r;
        "Floor" Floor Floats;
        "Ceil" Ceil Floats;
        "Rint" Rint (f32, f64);
        "Round" Rint Floats;
        "Round" RoundedInteger (i32, i64);
    }
    // `IsNan(x: T) -> y: bool` and the like.
    r.op("IsNan").shape(shape_fns::unchanged).unary::<IsNan, Floats>();
    r.op("IsInf").shape(shape_fns::unchanged).unary::<IsInf, Floats>();
    r.op("IsFinite").shape(shape_fns::unchanged).unary::<IsFinite, Floats>();
}

fn register_parts(r: &mut Registry) {
    // `Conj(input: T) -> output: T`, the complex conjugate.
    r.op("Conj")
        .shape(shape_fns::unchanged)
        .unary::<Conj, Complexes>()
        .cpu_of::<(Variant,)>("T", |_| kernel(conj_variant));
    // `Real(input: T) -> output: Tout` and the like, where `Tout` is the type of the parts of `T`.
    real_valued::<RealPart>(r.op("Real"));
    real_valued::<ImaginaryPart>(r.op("Imag"));
    real_valued::<Angle>(r.op("Angle"));
    // `ComplexAbs(x: T) -> y: Tout`, `|x|`. Its kernels look at `T` only, then find `Tout` to disagree.
    let build = |init: &KernelInit<'_>, body| -> Result<Box<dyn Kernel>> {
        let (actual, expected) = (init.output_dtypes[0], part_type(init.input_dtypes[0]));
        if actual != expected {
            let complex = init.input_dtypes[0];
            return Err(invalid!(
                "Signature mismatch, have: {complex}->{actual} expected: {complex}->{expected}"
            ));
        }
        Ok(Box::new(UnaryKernel::new(init, body)))
    };
    r.op("ComplexAbs")
        .shape(shape_fns::unchanged)
        .typed_kernel::<UnaryLoops<ComplexAbs>, Complexes>("T", build);
}

/// A function from complex to real numbers, `(T) -> Tout`.
fn real_valued<F>(entry: OpEntry<'_>)
where
    F: Unary<Complex64> + Unary<Complex128>,
{
    entry.shape(shape_fns::unchanged).unary::<F, Complexes>();
}

/// The type of the parts of a complex type.
fn part_type(complex: DType) -> DType {
    if complex == DType::COMPLEX64 { DType::FLOAT } else { DType::DOUBLE }
}

/// The reference has this kernel too, for kinds of variants that nobody has.
fn conj_variant(ctx: &mut OpContext<'_>) -> Result<()> {
    let conjugate = ctx.input(0)?.scalar_value::<Variant>()?.conjugate()?;
    ctx.set_output(0, Tensor::scalar(conjugate));
    Ok(())
}

#[cfg(test)]
mod tests {
    use tfcore_framework::testing::{infer, registry_of, run_op};
    use tfcore_framework::{AttrValue, Registry};
    use tfcore_tensor::{Shape, Tensor};

    use super::*;

    fn registry() -> Registry {
        registry_of(register)
    }

    fn apply<T: Elem, U: Elem>(op: &str, x: &[T]) -> Vec<U> {
        let input = Tensor::from_slice(Shape::vector(x.len()), x).unwrap();
        let attrs = [("T", AttrValue::Type(T::DTYPE))];
        let outputs = run_op(&registry(), op, &attrs, &[input]).unwrap();
        outputs[0].as_slice().unwrap().to_vec()
    }

    #[test]
    fn exact_results() {
        let cases: [(&str, &[f32], &[f32]); 9] = [
            ("Neg", &[1.0, -2.0], &[-1.0, 2.0]),
            ("Abs", &[-0.5, 3.0], &[0.5, 3.0]),
            ("Sign", &[-2.0, 0.0, 7.0], &[-1.0, 0.0, 1.0]),
            ("Sqrt", &[4.0, 2.25], &[2.0, 1.5]),
            ("Rsqrt", &[4.0, 0.25], &[0.5, 2.0]),
            ("Reciprocal", &[4.0, -0.5], &[0.25, -2.0]),
            ("Round", &[0.5, 1.5, 2.5, -1.5, 3.7], &[0.0, 2.0, 2.0, -2.0, 4.0]),
            ("Floor", &[-0.5, 1.5], &[-1.0, 1.0]),
            ("Ceil", &[-1.5, 1.5], &[-1.0, 2.0]),
        ];
        for (op, x, expected) in cases {
            assert_eq!(apply::<f32, f32>(op, x), expected, "{op}");
            let wide: Vec<f64> = x.iter().map(|&x| x.into()).collect();
            let expected: Vec<f64> = expected.iter().map(|&y| y.into()).collect();
            assert_eq!(apply::<f64, f64>(op, &wide), expected, "{op} double");
            let halves: Vec<Half> = wide.iter().map(|&x| Half::from_f64(x)).collect();
            let expected: Vec<Half> = expected.iter().map(|&y| Half::from_f64(y)).collect();
            assert_eq!(apply::<Half, Half>(op, &halves), expected, "{op} half");
        }
    }

    #[test]
    fn integers_wrap() {
        assert_eq!(apply::<i8, i8>("Neg", &[i8::MIN, 5]), [i8::MIN, -5]);
        assert_eq!(apply::<i32, i32>("Abs", &[i32::MIN, -5]), [i32::MIN, 5]);
        assert_eq!(apply::<u8, u8>("Square", &[200, 3]), [64, 9]);
        assert_eq!(apply::<u8, u8>("Invert", &[0, 15]), [255, 240]);
    }

    #[test]
    fn other_kinds_of_results() {
        let special = [1.0f64, f64::NAN, f64::INFINITY];
        assert_eq!(apply::<f64, bool>("IsNan", &special), [false, true, false]);
        assert_eq!(apply::<f64, bool>("IsInf", &special), [false, false, true]);
        assert_eq!(apply::<f64, bool>("IsFinite", &special), [true, false, false]);
        assert_eq!(apply::<Complex64, f32>("ComplexAbs", &[Complex64::new(3.0, -4.0)]), [5.0]);
        assert_eq!(apply::<Complex64, f32>("Imag", &[Complex64::new(3.0, -4.0)]), [-4.0]);
        assert_eq!(apply::<bool, bool>("LogicalNot", &[true, false]), [false, true]);
    }

    #[test]
    fn shapes_are_unchanged() {
        let attrs = [("T", AttrValue::Type(DType::FLOAT))];
        for shape in ["[2,?]", "?", "[]"] {
            assert_eq!(infer(&registry(), "Tanh", &attrs, shape, &[]).unwrap(), shape);
        }
    }
}

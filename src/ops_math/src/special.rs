//! Special functions, element by element: Bessel functions, relatives of the gamma and beta functions, integrals without a
//! closed form, and neighbours of floats.

use num_traits::PrimInt;
use tfcore_base::{DType, Elem, Half, Integers, LoopFor, Result, TypedLoop, require};
use tfcore_framework::{
    Binary, InferenceContext, OpContext, Registry, Unary, for_each_part, kernel, matching,
    shape_fns, shape_ops,
};
use tfcore_math::special::bessel::Bessel;
use tfcore_math::special::{Special, bessel_modified, beta, gamma, integrals, normal};
use tfcore_tensor::{Elems, ElemsMut, PartialShape, Shape};

use crate::number::Number;

/// The types of Bessel functions and digamma.
type ShortFloats = (f32, f64, Half);
/// The types of the other functions.
type PlainFloats = (f32, f64);

/// Defines functors from functions of one value. Half computes in f32.
macro_rules! functions_of_one {
    ($($name:ident $function:path;)*) => {$(
        struct $name;

        impl<T: Number<Wide: Bessel>> Unary<T> for $name {
            type Out = T;
            const COST: usize = 60;

            fn apply(x: T) -> T {
                T::narrow($function(x.widen()))
            }
        }
    )*};
}

functions_of_one! {
    I0 bessel_modified::i0;
    I0e bessel_modified::i0e;
    I1 bessel_modified::i1;
    I1e bessel_modified::i1e;
    K0 bessel_modified::k0;
    K0e bessel_modified::k0e;
    K1 bessel_modified::k1;
    K1e bessel_modified::k1e;
    J0 Bessel::j0;
    J1 Bessel::j1;
    Y0 Bessel::y0;
    Y1 Bessel::y1;
    Digamma gamma::digamma;
    Dawsn integrals::dawson;
    Expint integrals::exponential_integral;
    FresnelCos integrals::fresnel_cos;
    FresnelSin integrals::fresnel_sin;
    Spence integrals::spence;
    Ndtri normal::inverse_normal;
    Erfinv normal::inverse_erf;
}

/// Defines functors from functions of two values.
macro_rules! functions_of_two {
    ($($name:ident $function:path;)*) => {$(
        struct $name;

        impl<T: Elem + Special> Binary<T> for $name {
            type Out = T;
            const COST: usize = 400;

            fn apply(x: T, y: T) -> T {
                $function(x, y)
            }
        }
    )*};
}

functions_of_two! {
    Igamma gamma::igamma;
    Igammac gamma::igammac;
    IgammaGradA gamma::igamma_grad_a;
    RandomGammaGrad gamma::gamma_sample_grad;
    Zeta gamma::zeta;
    Polygamma gamma::polygamma;
}

struct NextAfter;

macro_rules! next_after {
    ($($t:ty),*) => {$(
        impl Binary<$t> for NextAfter {
            type Out = $t;

            #[inline(always)]
            fn apply(x: $t, y: $t) -> $t {
                if x.is_nan() || y.is_nan() {
                    x + y
                } else if x == y {
                    y
                } else if x == 0.0 {
                    <$t>::from_bits(1).copysign(y)
                } else if x < y {
                    x.next_up()
                } else {
                    x.next_down()
                }
            }
        }
    )*};
}
next_after!(f32, f64);

struct PopulationCount;

impl<T: Elem + PrimInt> Unary<T> for PopulationCount {
    type Out = u8;

    #[inline(always)]
    fn apply(x: T) -> u8 {
        x.count_ones() as u8
    }
}

pub(crate) fn register(r: &mut Registry) {
    // `Name(x: T) -> y: T`.
    macro_rules! unary_ops {
        ($set:ty: $($op:literal $functor:ident,)*) => {$(
            r.op($op).shape(shape_fns::unchanged).unary::<$functor, $set>();
        )*};
    }
    unary_ops! { ShortFloats:
        "BesselI0" I0, "BesselI0e" I0e, "BesselI1" I1, "BesselI1e" I1e,
        "BesselK0" K0, "BesselK0e" K0e, "BesselK1" K1, "BesselK1e" K1e,
        "BesselJ0" J0, "BesselJ1" J1, "BesselY0" Y0, "BesselY1" Y1,
        "Digamma" Digamma,
    }
    unary_ops! { PlainFloats:
        "Dawsn" Dawsn, "Expint" Expint, "FresnelCos" FresnelCos, "FresnelSin" FresnelSin,
        "Spence" Spence, "Ndtri" Ndtri, "Erfinv" Erfinv,
    }
    // `Name(a: T, x: T) -> z: T`, with broadcasting.
    macro_rules! binary_ops {
        ($($op:literal $functor:ident,)*) => {$(
            r.op($op).shape(shape_fns::broadcast_binary).binary::<$functor, PlainFloats>();
        )*};
    }
    binary_ops! {
        "Igamma" Igamma, "Igammac" Igammac, "IgammaGradA" IgammaGradA,
        "RandomGammaGrad" RandomGammaGrad, "Zeta" Zeta, "Polygamma" Polygamma,
        "NextAfter" NextAfter,
    }
    // `PopulationCount(x: T) -> y: uint8`, the number of bits that are set.
    r.op("PopulationCount").shape(shape_fns::unchanged).unary::<PopulationCount, Integers>();
    // `ApproximateEqual(x: T, y: T) -> z: bool`, `|x - y| < tolerance`, for x and y of the same shape.
    r.op("ApproximateEqual")
        .shape(|ctx| {
            shape_ops::merge(ctx.input(0), ctx.input(1))?;
            shape_fns::unchanged(ctx)
        })
        .typed_kernel::<NearForm, PlainFloats>("T", |init, body| {
            let tolerance = init.attrs.float("tolerance")?;
            kernel(move |ctx| approximate_equal(ctx, body, tolerance))
        });
    // `Betainc(a: T, b: T, x: T) -> z: T`, the regularised incomplete beta function. Scalars broadcast.
    r.op("Betainc").shape(betainc_shape).typed::<BetaForm, PlainFloats>("T", betainc);
}

type NearLoop = fn(Elems<'_>, Elems<'_>, f32, ElemsMut<'_>);

struct NearForm;

impl TypedLoop for NearForm {
    type Loop = NearLoop;
}

impl<T: Elem + Special> LoopFor<T> for NearForm {
    const LOOP: NearLoop = |x, y, tolerance, out| {
        let tolerance = T::of(tolerance.into());
        let pairs = x.typed::<T>().iter().zip(y.typed::<T>());
        for (out, (&x, &y)) in out.typed::<bool>().iter_mut().zip(pairs) {
            *out = (x - y).abs() < tolerance;
        }
    };
}

fn approximate_equal(ctx: &mut OpContext<'_>, body: NearLoop, tolerance: f32) -> Result<()> {
    let (x, y) = (ctx.input(0)?, ctx.input(1)?);
    require!(
        x.shape() == y.shape(),
        "x and y must be of the same shape. x shape: {}. y shape: {}",
        x.shape(),
        y.shape()
    );
    let mut out = ctx.allocate(DType::BOOL, x.shape().clone())?;
    body(x.elems(), y.elems(), tolerance, out.elems_mut()?);
    ctx.set_output(0, out);
    Ok(())
}

fn betainc_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let mut merged = PartialShape::unknown();
    let mut scalars = 0;
    let mut other = PartialShape::scalar();
    for input in ctx.inputs() {
        match input.rank() {
            // It may turn out to be a scalar.
            None => other = input.clone(),
            Some(0) => scalars += 1,
            Some(_) => {
                merged = shape_ops::merge(&merged, input)?;
                other = merged.clone();
            }
        }
    }
    ctx.set_output(0, if scalars >= 2 { other } else { merged });
    Ok(())
}

/// A loop over operands that are as long as the output, or scalars.
type BetaLoop = fn([Elems<'_>; 3], ElemsMut<'_>);

struct BetaForm;

impl TypedLoop for BetaForm {
    type Loop = BetaLoop;
}

impl<T: Elem + Special> LoopFor<T> for BetaForm {
    const LOOP: BetaLoop = |operands, out| {
        let [a, b, x] = operands.map(|operand| operand.typed::<T>());
        let at = |operand: &[T], index: usize| operand[index % operand.len()];
        for (index, out) in out.typed::<T>().iter_mut().enumerate() {
            *out = beta::betainc(at(a, index), at(b, index), at(x, index));
        }
    };
}

fn betainc(ctx: &mut OpContext<'_>, body: BetaLoop) -> Result<()> {
    let inputs = [ctx.input(0)?, ctx.input(1)?, ctx.input(2)?];
    for (first, second, names) in [(0, 1, "a and b"), (0, 2, "a and x"), (1, 2, "b and x")] {
        let (a, b) = (inputs[first].shape(), inputs[second].shape());
        require!(
            a.rank() == 0 || b.rank() == 0 || a == b,
            "Shapes of {names} are inconsistent: {a} vs. {b}"
        );
    }
    let shape = inputs.iter().map(|input| input.shape()).find(|shape| shape.rank() > 0);
    let mut out = ctx.allocate_output(0, shape.cloned().unwrap_or_else(Shape::scalar))?;
    for_each_part(ctx.parallel(), out.elems_mut()?, 600, &|start, part| {
        let operands = inputs.map(|input| match input.rank() {
            0 => input.elems(),
            _ => matching(input.elems(), start, &part),
        });
        body(operands, part);
    });
    ctx.set_output(0, out);
    Ok(())
}

#[cfg(test)]
mod tests {
    use tfcore_framework::testing::{floats, infer, registry_of, run_op, tensor};
    use tfcore_framework::{AttrValue, Registry};
    use tfcore_tensor::Tensor;

    use super::*;

    fn registry() -> Registry {
        registry_of(register)
    }

    fn run<U: Elem>(op: &str, inputs: &[Tensor]) -> Result<Vec<U>> {
        let attrs = [("T", AttrValue::Type(inputs[0].dtype()))];
        Ok(run_op(&registry(), op, &attrs, inputs)?[0].as_slice()?.to_vec())
    }

    #[test]
    fn ops_have_their_functions() {
        // Known constants: I0(1), K1(1), J1(1), digamma(1), the quartile of the normal distribution, pi² / 12.
        let cases = [
            ("BesselI0", 1.0, 1.266_066),
            ("BesselK1", 1.0, 0.601_907_23),
            ("BesselJ1", 1.0, 0.440_050_6),
            ("Digamma", 1.0, -0.577_215_7),
            ("Ndtri", 0.75, 0.674_489_75),
            ("Spence", 2.0, -0.822_467),
        ];
        for (op, x, expected) in cases {
            let y = run::<f32>(op, &[floats(&[1], &[x])]).unwrap()[0];
            assert!((y - expected).abs() < 2e-6, "{op}: {y}");
        }
        // P(1, 1) = 1 - 1/e; zeta(2) = pi² / 6.
        let two = |op, a, x| run::<f32>(op, &[floats(&[1], &[a]), floats(&[1], &[x])]).unwrap()[0];
        assert!((two("Igamma", 1.0, 1.0) - 0.632_120_56).abs() < 1e-6);
        assert!((two("Zeta", 2.0, 1.0) - 1.644_934).abs() < 1e-6);
    }

    #[test]
    fn neighbours() {
        let x = floats(&[4], &[0.0, 1.0, f32::INFINITY, 2.0]);
        let y = floats(&[4], &[-1.0, 2.0, 0.0, 2.0]);
        let found = run::<f32>("NextAfter", &[x, y]).unwrap();
        assert_eq!(found, [-f32::from_bits(1), 1.0 + f32::EPSILON, f32::MAX, 2.0]);
        let nan = run::<f32>("NextAfter", &[floats(&[], &[f32::NAN]), floats(&[], &[1.0])]);
        assert!(nan.unwrap()[0].is_nan());
    }

    #[test]
    fn bits_and_tolerances() {
        assert_eq!(
            run::<u8>("PopulationCount", &[tensor(&[3], &[-1i8, 5, 0])]).unwrap(),
            [8, 2, 0]
        );
        let attrs = [("T", AttrValue::Type(DType::FLOAT)), ("tolerance", AttrValue::Float(0.1))];
        let near = |x: Tensor, y: Tensor| run_op(&registry(), "ApproximateEqual", &attrs, &[x, y]);
        let x = floats(&[3], &[1.0, 1.0, f32::NAN]);
        let out = near(x.clone(), floats(&[3], &[1.05, 1.5, f32::NAN])).unwrap();
        assert_eq!(out[0].as_slice::<bool>().unwrap(), [true, false, false]);
        let error = near(x, floats(&[1], &[1.0])).err().unwrap();
        assert_eq!(
            error.message(),
            "x and y must be of the same shape. x shape: [3]. y shape: [1]"
        );
    }

    #[test]
    fn betainc_takes_scalars_or_one_shape() {
        let (one, x) = (floats(&[], &[1.0]), floats(&[2], &[0.25, 0.75]));
        // I_x(1, 1) = x.
        assert_eq!(run::<f32>("Betainc", &[one.clone(), one, x.clone()]).unwrap(), [0.25, 0.75]);
        let error = run::<f32>("Betainc", &[x.clone(), floats(&[1], &[1.0]), x]).unwrap_err();
        assert_eq!(error.message(), "Shapes of a and b are inconsistent: [2] vs. [1]");
        let attrs = [("T", AttrValue::Type(DType::FLOAT))];
        let cases = [
            ("[];[];[]", "[]"),
            ("[];[2,?];[]", "[2,?]"),
            ("[?,3];[2,?];[]", "[2,3]"),
            ("?;[];[]", "?"),
            ("?;[2];[]", "[2]"),
        ];
        for (inputs, expected) in cases {
            assert_eq!(infer(&registry(), "Betainc", &attrs, inputs, &[]).unwrap(), expected);
        }
    }
}

//! `_UnaryOpsComposition`: a chain of element-wise functions in one op, as the reference's optimiser makes it.

use num_traits::Float;
use tfcore_base::{Elem, Half, LoopFor, Number, Result, TypedLoop, invalid, require};
use tfcore_framework::{
    Kernel, KernelInit, OpContext, Registry, for_each_part, kernel, matching, shape_fns,
};
use tfcore_math::elementary;
use tfcore_tensor::{Elems, ElemsMut};

pub(crate) fn register(r: &mut Registry) {
    // `_UnaryOpsComposition(x: T) -> y: T`, attr `op_names`: the functions, the first of which is applied first.
    r.op("_UnaryOpsComposition")
        .shape(shape_fns::unchanged)
        .typed_kernel::<Chains, (f32, f64, Half)>("T", chain);
}

/// A function of a float.
type Function<W> = fn(W) -> W;

/// A float with the functions that have code of their own.
trait Elementary: Float {
    fn exponential(self) -> Self;
    fn logarithm(self) -> Self;
    fn hyperbolic_tangent(self) -> Self;
    fn sigmoid(self) -> Self;
    fn constant(value: f64) -> Self;
}

macro_rules! elementary {
    ($t:ty, $exp:ident, $log:ident, $tanh:ident, $sigmoid:ident) => {
        impl Elementary for $t {
            fn exponential(self) -> $t {
                elementary::$exp(self)
            }

            fn logarithm(self) -> $t {
                elementary::$log(self)
            }

            fn hyperbolic_tangent(self) -> $t {
                elementary::$tanh(self)
            }

            fn sigmoid(self) -> $t {
                elementary::$sigmoid(self)
            }

            fn constant(value: f64) -> $t {
                value as $t
            }
        }
    };
}
elementary!(f32, exp_f32, log_f32, tanh_f32, sigmoid_f32);
elementary!(f64, exp_f64, log_f64, tanh_f64, sigmoid_f64);

/// The function called `name`. The second value is true if `half` has it too.
fn function<W: Elementary>(name: &str) -> Option<(Function<W>, bool)> {
    Some(match name {
        "Abs" => (W::abs, true),
        "Acos" => (W::acos, false),
        "Acosh" => (W::acosh, false),
        "Asin" => (W::asin, false),
        "Asinh" => (W::asinh, false),
        "Atan" => (W::atan, false),
        "Atanh" => (W::atanh, false),
        "Ceil" => (W::ceil, true),
        "Cos" => (W::cos, true),
        "Cosh" => (W::cosh, false),
        "Elu" => (elu, true),
        "Exp" => (W::exponential, true),
        "Expm1" => (W::exp_m1, true),
        "Floor" => (W::floor, true),
        "Inv" | "Reciprocal" => (W::recip, true),
        "Log" => (W::logarithm, true),
        "Log1p" => (W::ln_1p, true),
        "Neg" => (|x| -x, true),
        "Relu" => (|x| if x < W::zero() { W::zero() } else { x }, true),
        "Relu6" => (relu6, true),
        "Rint" => (round_to_even, false),
        "Round" => (round_to_even, true),
        "Rsqrt" => (|x| x.sqrt().recip(), true),
        "Selu" => (selu, true),
        "Sigmoid" => (W::sigmoid, true),
        "Sin" => (W::sin, true),
        "Sinh" => (W::sinh, false),
        "Sqrt" => (W::sqrt, true),
        "Square" => (|x| x * x, true),
        "Tan" => (W::tan, false),
        "Tanh" => (W::hyperbolic_tangent, true),
        _ => return None,
    })
}

fn elu<W: Elementary>(x: W) -> W {
    if x < W::zero() { x.exp_m1() } else { x }
}

fn selu<W: Elementary>(x: W) -> W {
    let scale = W::constant(1.050_700_987_355_480_5);
    let scale_alpha = W::constant(1.758_099_340_847_376_8);
    if x < W::zero() { scale_alpha * x.exp_m1() } else { scale * x }
}

fn relu6<W: Elementary>(x: W) -> W {
    let six = W::constant(6.0);
    if x < W::zero() {
        W::zero()
    } else if x > six {
        six
    } else {
        x
    }
}

/// Halves go to the even neighbour.
fn round_to_even<W: Elementary>(x: W) -> W {
    let rounded = x.round();
    let half = W::constant(0.5);
    let two = W::constant(2.0);
    if (x - x.trunc()).abs() == half && rounded % two != W::zero() {
        rounded - x.signum()
    } else {
        rounded
    }
}

/// Makes the chain of functions of these names.
type MakeChain = fn(&[&str]) -> Result<Chain>;

/// Applies a chain to the elements of the first to those of the second.
type Chain = Box<dyn Fn(Elems<'_>, ElemsMut<'_>) + Send + Sync>;

struct Chains;

impl TypedLoop for Chains {
    type Loop = MakeChain;
}

impl<T> LoopFor<T> for Chains
where
    T: Elem + Number,
    T::Wide: Elementary,
{
    const LOOP: MakeChain = |names| {
        let find = |name: &&str| {
            function::<T::Wide>(name)
                .filter(|(_, half)| *half || size_of::<T>() > 2)
                .map(|(function, _)| function)
                .ok_or_else(|| invalid!("Do not have a compute function registered for op: {name}"))
        };
        let functions: Vec<Function<T::Wide>> = names.iter().map(find).collect::<Result<_>>()?;
        Ok(Box::new(move |x, out| {
            for (out, x) in out.typed::<T>().iter_mut().zip(x.typed::<T>()) {
                // Each function rounds to the type.
                *out = functions.iter().fold(*x, |x, function| T::narrow(function(x.widen())));
            }
        }))
    };
}

fn chain(init: &KernelInit<'_>, make: MakeChain) -> Result<Box<dyn Kernel>> {
    let names = init.attrs.string_list("op_names")?;
    let names: Vec<_> = names.iter().map(|name| String::from_utf8_lossy(name)).collect();
    require!(!names.is_empty(), "Unary op composition must have at least one op");
    let names: Vec<&str> = names.iter().map(|name| &**name).collect();
    let chain = make(&names)?;
    let cost = 16 * names.len();
    kernel(move |ctx: &mut OpContext<'_>| {
        let x = ctx.input(0)?;
        ctx.produce(0, x.shape().clone(), |out| {
            for_each_part(ctx.parallel(), out, cost, &|start, part| {
                chain(matching(x.elems(), start, &part), part);
            });
        })
    })
}

#[cfg(test)]
mod tests {
    use tfcore_base::DType;
    use tfcore_framework::AttrValue;
    use tfcore_framework::testing::{floats, registry_of, run_op};

    use super::*;

    #[test]
    fn functions_follow_each_other() {
        let run = |names: &[&str]| -> Result<Vec<f32>> {
            let attrs =
                [("T", AttrValue::Type(DType::FLOAT)), ("op_names", AttrValue::strings(names))];
            let x = floats(&[3], &[-4.0, 0.25, 2.5]);
            let out = run_op(&registry_of(register), "_UnaryOpsComposition", &attrs, &[x])?;
            Ok(out[0].as_slice()?.to_vec())
        };
        assert_eq!(run(&["Abs", "Sqrt", "Neg"]).unwrap()[..2], [-2.0, -0.5]);
        assert_eq!(run(&["Round"]).unwrap(), [-4.0, 0.0, 2.0]);
        assert_eq!(run(&["Square", "Relu6"]).unwrap(), [6.0, 0.0625, 6.0]);
        let error = run(&["Abs", "Sign"]).unwrap_err();
        assert_eq!(error.message(), "Do not have a compute function registered for op: Sign");
        assert!(run(&[]).is_err());
    }
}

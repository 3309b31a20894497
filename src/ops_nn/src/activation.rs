//! Activations: element-wise functions of one tensor.

use std::marker::PhantomData;

use num_traits::AsPrimitive;
use tfcore_base::{
    BFloat16, Elem, Floats, Half, Make, Pick, RealNumbers, Result, TypeSet, internal,
};
use tfcore_framework::{
    Kernel, KernelInit, OpContext, Registry, Unary, for_each_part, kernel, matching, shape_fns,
};
use tfcore_math::isa::vectorize;
use tfcore_tensor::{Elems, ElemsMut};

pub(crate) fn register(r: &mut Registry) {
    // `Relu(features: T) -> activations: T`, `max(x, 0)`.
    r.op("Relu").shape(shape_fns::unchanged).unary::<Relu, RealNumbers>();

    // `Relu6(features: T) -> activations: T`, `min(max(x, 0), 6)`.
    r.op("Relu6").shape(shape_fns::unchanged).unary::<Relu6, RealNumbers>();

    // `Elu(features: T) -> activations: T`, `e^x - 1` below zero, else `x`.
    r.op("Elu").shape(shape_fns::unchanged).unary::<Float<Elu>, Floats>();

    // `Selu(features: T) -> activations: T`, `scale · alpha · (e^x - 1)` below zero, else `scale · x`.
    r.op("Selu").shape(shape_fns::unchanged).unary::<Float<Selu>, Floats>();

    // `Softplus(features: T) -> activations: T`, `log(1 + e^x)`.
    r.op("Softplus").shape(shape_fns::unchanged).unary::<Float<Softplus>, Floats>();

    // `Softsign(features: T) -> activations: T`, `x / (1 + |x|)`.
    r.op("Softsign").shape(shape_fns::unchanged).unary::<Float<Softsign>, Floats>();

    // `LeakyRelu(features: T) -> activations: T`, attr `alpha`: `alpha · x` below zero, else `x`.
    r.op("LeakyRelu").shape(shape_fns::unchanged).cpu_for("T", &RealNumbers::dtypes(), leaky_relu);
}

struct Relu;

impl<T: Elem + Copy + PartialOrd> Unary<T> for Relu {
    type Out = T;

    #[inline(always)]
    fn apply(x: T) -> T {
        // NaN compares false, and so is kept.
        if x <= T::default() { T::default() } else { x }
    }
}

struct Relu6;

impl<T: Elem + Copy + PartialOrd> Unary<T> for Relu6
where
    u8: AsPrimitive<T>,
{
    type Out = T;

    #[inline(always)]
    fn apply(x: T) -> T {
        let six = 6u8.as_();
        let positive = if x <= T::default() { T::default() } else { x };
        if positive > six { six } else { positive }
    }
}

/// A function of floats. Half types go through `f32`.
trait Activation: 'static {
    fn f32(x: f32) -> f32;
    fn f64(x: f64) -> f64;
}

/// Makes an [`Activation`] an element-wise functor.
struct Float<A>(PhantomData<A>);

impl<A: Activation> Unary<f32> for Float<A> {
    type Out = f32;
    const COST: usize = 10;

    #[inline(always)]
    fn apply(x: f32) -> f32 {
        A::f32(x)
    }
}

impl<A: Activation> Unary<f64> for Float<A> {
    type Out = f64;
    const COST: usize = 20;

    #[inline(always)]
    fn apply(x: f64) -> f64 {
        A::f64(x)
    }
}

impl<A: Activation> Unary<Half> for Float<A> {
    type Out = Half;
    const COST: usize = 15;

    #[inline(always)]
    fn apply(x: Half) -> Half {
        Half::from_f32(A::f32(x.to_f32()))
    }
}

impl<A: Activation> Unary<BFloat16> for Float<A> {
    type Out = BFloat16;
    const COST: usize = 15;

    #[inline(always)]
    fn apply(x: BFloat16) -> BFloat16 {
        BFloat16::from_f32(A::f32(x.to_f32()))
    }
}

struct Elu;

impl Activation for Elu {
    fn f32(x: f32) -> f32 {
        if x < 0.0 { x.exp_m1() } else { x }
    }

    fn f64(x: f64) -> f64 {
        if x < 0.0 { x.exp_m1() } else { x }
    }
}

/// The constants with which activations keep mean 0 and variance 1.
const SELU_SCALE: f64 = 1.050_700_987_355_480_5;
const SELU_SCALE_ALPHA: f64 = 1.758_099_340_847_376_6;

struct Selu;

impl Activation for Selu {
    fn f32(x: f32) -> f32 {
        let (scale, scale_alpha) = (SELU_SCALE as f32, SELU_SCALE_ALPHA as f32);
        if x < 0.0 { scale_alpha * x.exp_m1() } else { scale * x }
    }

    fn f64(x: f64) -> f64 {
        if x < 0.0 { SELU_SCALE_ALPHA * x.exp_m1() } else { SELU_SCALE * x }
    }
}

struct Softplus;

impl Activation for Softplus {
    fn f32(x: f32) -> f32 {
        if x > 0.0 { x + (-x).exp().ln_1p() } else { x.exp().ln_1p() }
    }

    fn f64(x: f64) -> f64 {
        if x > 0.0 { x + (-x).exp().ln_1p() } else { x.exp().ln_1p() }
    }
}

struct Softsign;

impl Activation for Softsign {
    fn f32(x: f32) -> f32 {
        x / (1.0 + x.abs())
    }

    fn f64(x: f64) -> f64 {
        x / (1.0 + x.abs())
    }
}

/// The loop of `LeakyRelu` for one type: input, output, slope.
type LeakyLoop = fn(Elems<'_>, ElemsMut<'_>, f32);

struct LeakyForm;

impl<T> Make<T, LeakyLoop> for LeakyForm
where
    T: Elem + Copy + PartialOrd + WrappingScale,
    f32: AsPrimitive<T>,
{
    fn make() -> LeakyLoop {
        |x, out, alpha| {
            let (x, out) = (x.typed::<T>(), out.typed::<T>());
            // The slope is of the element type: 0 for integers, unless it is 1 or more.
            let alpha: T = alpha.as_();
            vectorize(
                #[inline(always)]
                || {
                    for (out, &x) in out.iter_mut().zip(x) {
                        *out = if x > T::default() { x } else { x.scale(alpha) };
                    }
                },
            );
        }
    }
}

/// A product that wraps in integer types.
trait WrappingScale {
    fn scale(self, factor: Self) -> Self;
}

macro_rules! wrapping_scale {
    ($multiply:expr; $($t:ty)*) => {
        $(impl WrappingScale for $t {
            #[inline(always)]
            fn scale(self, factor: $t) -> $t {
                #[allow(clippy::redundant_closure_call)]
                ($multiply)(self, factor)
            }
        })*
    };
}
wrapping_scale!(|x, y| x * y; f32 f64 Half BFloat16);
wrapping_scale!(|x: Self, y| x.wrapping_mul(y); i8 i16 i32 i64 u8 u16 u32 u64);

fn leaky_relu(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let alpha = init.attrs.float("alpha")?;
    let dtype = init.input_dtypes[0].base();
    let body = <RealNumbers as Pick<LeakyForm, LeakyLoop>>::pick(dtype)
        .ok_or_else(|| internal!("LeakyRelu has no kernel for type {dtype}"))?;
    kernel(move |ctx: &mut OpContext<'_>| {
        let input = ctx.input(0)?;
        let mut out = ctx.allocate_output(0, input.shape().clone())?;
        let x = input.elems();
        for_each_part(ctx.parallel(), out.elems_mut()?, 1, &|start, part| {
            body(matching(x, start, &part), part, alpha);
        });
        ctx.set_output(0, out);
        Ok(())
    })
}

//! The gradients of activations.

use num_traits::{AsPrimitive, Float};
use tfcore_base::{Elem, Floats, LoopFor, RealNumbers, Result, Ring, TypedLoop, invalid};
use tfcore_framework::{
    Kernel, KernelInit, OpContext, Registry, for_each_part, kernel, matching, shape_fns,
};
use tfcore_math::isa::vectorize;
use tfcore_tensor::{Elems, ElemsMut};

use crate::activation::selu_constants;

pub(crate) fn register(r: &mut Registry) {
    let shape = || shape_fns::merged(0, 1);

    // `ReluGrad(gradients: T, features: T) -> backprops: T`, the gradients where `features > 0`.
    r.op("ReluGrad").shape(shape()).typed_kernel::<ReluGrad, RealNumbers>("T", gradient);

    // `Relu6Grad(gradients: T, features: T) -> backprops: T`, the gradients where `0 < features < 6`.
    r.op("Relu6Grad").shape(shape()).typed_kernel::<Relu6Grad, RealNumbers>("T", gradient);

    // `LeakyReluGrad(gradients: T, features: T) -> backprops: T`, attr `alpha`: the gradients where
    // `features > 0`, and `alpha` times them elsewhere.
    r.op("LeakyReluGrad").shape(shape()).typed_kernel::<LeakyReluGrad, RealNumbers>("T", gradient);

    // `EluGrad(gradients: T, outputs: T) -> backprops: T`, `g · (y + 1)` below zero, else `g`.
    r.op("EluGrad").shape(shape()).typed_kernel::<EluGrad, Floats>("T", gradient);

    // `SeluGrad(gradients: T, outputs: T) -> backprops: T`, `g · (y + scale · alpha)` below zero, else
    // `g · scale`.
    r.op("SeluGrad").shape(shape()).typed_kernel::<SeluGrad, Floats>("T", gradient);

    // `SoftplusGrad(gradients: T, features: T) -> backprops: T`, `g / (1 + e^-x)`.
    r.op("SoftplusGrad").shape(shape()).typed_kernel::<SoftplusGrad, Floats>("T", gradient);

    // `SoftsignGrad(gradients: T, features: T) -> backprops: T`, `g / (1 + |x|)²`.
    r.op("SoftsignGrad").shape(shape()).typed_kernel::<SoftsignGrad, Floats>("T", gradient);
}

/// Gradients, features or outputs, the slope of `LeakyRelu`, result.
type GradLoop = fn(Elems<'_>, Elems<'_>, f32, ElemsMut<'_>);

fn gradient(init: &KernelInit<'_>, run: GradLoop) -> Result<Box<dyn Kernel>> {
    let op = init.op.clone();
    let alpha = if init.attrs.contains("alpha") { init.attrs.float("alpha")? } else { 0.0 };
    let name = init.name.to_string();
    kernel(move |ctx: &mut OpContext<'_>| {
        let (gradients, features) = (ctx.input(0)?, ctx.input(1)?);
        if gradients.shape() != features.shape() {
            return Err(invalid!(
                "Inputs to operation {name} of type {} must have the same size and shape.  Input 0: {} \
                 != input 1: {}",
                op.name,
                gradients.shape(),
                features.shape()
            ));
        }
        ctx.produce(0, gradients.shape().clone(), |out| {
            for_each_part(ctx.parallel(), out, 2, &|start, part| {
                let features = matching(features.elems(), start, &part);
                run(matching(gradients.elems(), start, &part), features, alpha, part);
            });
        })
    })
}

#[inline(always)]
fn for_each<T: Elem + Copy>(
    gradients: Elems<'_>,
    features: Elems<'_>,
    out: ElemsMut<'_>,
    f: impl Fn(T, T) -> T,
) {
    let (gradients, features) = (gradients.typed::<T>(), features.typed::<T>());
    let out = out.typed::<T>();
    vectorize(
        #[inline(always)]
        || {
            for ((out, &g), &x) in out.iter_mut().zip(gradients).zip(features) {
                *out = f(g, x);
            }
        },
    );
}

struct ReluGrad;

impl TypedLoop for ReluGrad {
    type Loop = GradLoop;
}

impl<T: Elem + Copy + PartialOrd> LoopFor<T> for ReluGrad {
    const LOOP: GradLoop = |g, x, _, out| {
        for_each::<T>(g, x, out, |g, x| if x > T::default() { g } else { T::default() });
    };
}

struct Relu6Grad;

impl TypedLoop for Relu6Grad {
    type Loop = GradLoop;
}

impl<T: Elem + Copy + PartialOrd> LoopFor<T> for Relu6Grad
where
    u8: AsPrimitive<T>,
{
    const LOOP: GradLoop = |g, x, _, out| {
        let (zero, six) = (T::default(), 6u8.as_());
        for_each::<T>(g, x, out, |g, x| if x > zero && x < six { g } else { zero });
    };
}

struct LeakyReluGrad;

impl TypedLoop for LeakyReluGrad {
    type Loop = GradLoop;
}

impl<T: Elem + PartialOrd + Ring> LoopFor<T> for LeakyReluGrad
where
    f32: AsPrimitive<T>,
{
    const LOOP: GradLoop = |g, x, alpha, out| {
        let (zero, alpha) = (T::default(), alpha.as_());
        for_each::<T>(g, x, out, |g, x| if x > zero { g } else { g.times(alpha) });
    };
}

struct EluGrad;

impl TypedLoop for EluGrad {
    type Loop = GradLoop;
}

impl<T: Elem + Float> LoopFor<T> for EluGrad {
    const LOOP: GradLoop = |g, y, _, out| {
        for_each::<T>(g, y, out, |g, y| if y < T::zero() { (y + T::one()) * g } else { g });
    };
}

struct SeluGrad;

impl TypedLoop for SeluGrad {
    type Loop = GradLoop;
}

impl<T: Elem + Float> LoopFor<T> for SeluGrad {
    const LOOP: GradLoop = |g, y, _, out| {
        let (scale, scale_alpha) = selu_constants::<T>();
        for_each::<T>(
            g,
            y,
            out,
            |g, y| {
                if y < T::zero() { g * (y + scale_alpha) } else { g * scale }
            },
        );
    };
}

struct SoftplusGrad;

impl TypedLoop for SoftplusGrad {
    type Loop = GradLoop;
}

impl<T: Elem + Float> LoopFor<T> for SoftplusGrad {
    const LOOP: GradLoop =
        |g, x, _, out| for_each::<T>(g, x, out, |g, x| g / ((-x).exp() + T::one()));
}

struct SoftsignGrad;

impl TypedLoop for SoftsignGrad {
    type Loop = GradLoop;
}

impl<T: Elem + Float> LoopFor<T> for SoftsignGrad {
    const LOOP: GradLoop = |g, x, _, out| {
        for_each::<T>(g, x, out, |g, x| {
            let root = T::one() + x.abs();
            g / (root * root)
        });
    };
}

#[cfg(test)]
mod tests {
    use tfcore_base::DType;
    use tfcore_framework::AttrValue;
    use tfcore_framework::testing::{floats, registry_of, run_op};

    use super::*;

    fn registry() -> Registry {
        registry_of(register)
    }

    #[test]
    fn values() {
        let attrs = [("T", AttrValue::Type(DType::FLOAT))];
        let (g, x) = ([1.0, 2.0, 4.0], [-0.5, 0.5, 6.0]);
        let cases: [(&str, [f32; 3]); 5] = [
            ("ReluGrad", [0.0, 2.0, 4.0]),
            ("Relu6Grad", [0.0, 2.0, 0.0]),
            ("EluGrad", [0.5, 2.0, 4.0]),
            ("SoftplusGrad", [0.377_540_7, 1.244_918_7, 3.990_109_4]),
            ("SoftsignGrad", [4.0 / 9.0, 8.0 / 9.0, 4.0 / 49.0]),
        ];
        for (op, expected) in cases {
            let inputs = [floats(&[3], &g), floats(&[3], &x)];
            let out = run_op(&registry(), op, &attrs, &inputs).unwrap();
            for (actual, expected) in out[0].as_slice::<f32>().unwrap().iter().zip(expected) {
                assert!((actual - expected).abs() < 1e-6, "{op}: {actual} for {expected}");
            }
        }
    }

    #[test]
    fn shapes_must_agree() {
        let attrs = [("T", AttrValue::Type(DType::FLOAT))];
        let inputs = [floats(&[2], &[1.0; 2]), floats(&[3], &[1.0; 3])];
        let error = run_op(&registry(), "ReluGrad", &attrs, &inputs).unwrap_err();
        assert!(error.message().contains("must have the same size and shape"), "{error}");
    }
}

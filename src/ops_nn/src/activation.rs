//! Activations: element-wise functions of one tensor.

use num_traits::{AsPrimitive, Float};
use tfcore_base::{BFloat16, Elem, Floats, Half, LoopFor, RealNumbers, Result, Ring, TypedLoop};
use tfcore_framework::{
    Kernel, KernelInit, OpContext, Registry, Unary, for_each_part, kernel, matching, shape_fns,
};
use tfcore_math::isa::vectorize;
use tfcore_tensor::{Elems, ElemsMut};

pub(crate) fn register(r: &mut Registry) {
    // `Relu(features: T) -> activations: T`, `max(x, 0)`.
    r.op("Relu").shape(shape_fns::unchanged).typed::<Relu, RealNumbers>("T", clamp_features);

    // `Relu6(features: T) -> activations: T`, `min(max(x, 0), 6)`.
    r.op("Relu6").shape(shape_fns::unchanged).typed::<Relu6, RealNumbers>("T", clamp_features);

    // `Elu(features: T) -> activations: T`, `e^x - 1` below zero, else `x`.
    r.op("Elu").shape(shape_fns::unchanged).unary::<Elu, Floats>();

    // `Selu(features: T) -> activations: T`, `scale · alpha · (e^x - 1)` below zero, else `scale · x`.
    r.op("Selu").shape(shape_fns::unchanged).unary::<Selu, Floats>();

    // `Softplus(features: T) -> activations: T`, `log(1 + e^x)`.
    r.op("Softplus").shape(shape_fns::unchanged).unary::<Softplus, Floats>();

    // `Softsign(features: T) -> activations: T`, `x / (1 + |x|)`.
    r.op("Softsign").shape(shape_fns::unchanged).unary::<Softsign, Floats>();

    // `LeakyRelu(features: T) -> activations: T`, attr `alpha`: `alpha · x` below zero, else `x`.
    r.op("LeakyRelu")
        .shape(shape_fns::unchanged)
        .typed_kernel::<LeakyRelu, RealNumbers>("T", leaky_relu);
}

/// The loop of `Relu` or `Relu6` for one type, and how many elements the reference has in a vector.
#[derive(Clone, Copy)]
struct Clamp {
    /// A bound below, and perhaps above, in place. The first so many elements lie in whole vectors.
    run: fn(ElemsMut<'_>, usize),
    lanes: usize,
}

/// A type with the bounds 0 and 6.
trait Bounded: Elem + Copy + PartialOrd {
    /// How many elements lie in a vector of those that turn -0 into 0. The reference's vectors of
    /// `float` and `double` do; its scalar code and the other types keep -0.
    const LANES: usize = usize::MAX;
}

impl Bounded for f32 {
    const LANES: usize = 8;
}

impl Bounded for f64 {
    const LANES: usize = 4;
}

macro_rules! bounded {
    ($($t:ty)*) => { $(impl Bounded for $t {})* };
}
bounded!(Half BFloat16 i8 i16 i32 i64 u8 u16 u32 u64);

struct Relu;

impl TypedLoop for Relu {
    type Loop = Clamp;
}

impl<T: Bounded> LoopFor<T> for Relu {
    const LOOP: Clamp =
        Clamp { run: |out, vectors| clamp::<T>(out, vectors, |x| x), lanes: T::LANES };
}

struct Relu6;

impl TypedLoop for Relu6 {
    type Loop = Clamp;
}

impl<T: Bounded> LoopFor<T> for Relu6
where
    u8: AsPrimitive<T>,
{
    const LOOP: Clamp = Clamp {
        run: |out, vectors| {
            let six = 6u8.as_();
            clamp::<T>(out, vectors, |x| if x > six { six } else { x });
        },
        lanes: T::LANES,
    };
}

#[inline(always)]
fn clamp<T: Bounded>(out: ElemsMut<'_>, vectors: usize, above: impl Fn(T) -> T) {
    let zero = T::default();
    let (vectors, rest) = out.typed::<T>().split_at_mut(vectors);
    vectorize(
        #[inline(always)]
        || {
            // NaN compares false, and so is kept.
            for x in vectors {
                *x = above(if *x <= zero { zero } else { *x });
            }
            for x in rest {
                *x = above(if *x < zero { zero } else { *x });
            }
        },
    );
}

/// Elements that are copied and then bounded while they are in the cache.
const BLOCK: usize = 2048;

fn clamp_features(ctx: &mut OpContext<'_>, Clamp { run, lanes }: Clamp) -> Result<()> {
    let shape = ctx.input(0)?.shape().clone();
    let (mut out, forwarded) = ctx.forward_or_allocate(&[0], 0, shape)?;
    let in_vectors = out.count() - out.count() % lanes;
    let input = if forwarded.is_some() { None } else { Some(ctx.input(0)?.elems()) };
    for_each_part(ctx.parallel(), out.elems_mut()?, 1, &|start, mut part| {
        for at in (0..part.len()).step_by(BLOCK) {
            let mut block = part.slice(at..part.len().min(at + BLOCK));
            let start = start + at;
            if let Some(input) = input {
                let source = matching(input, start, &block);
                block.reborrow().copy_from(source);
            }
            let vectors = in_vectors.saturating_sub(start).min(block.len());
            run(block, vectors);
        }
    });
    ctx.set_output(0, out);
    Ok(())
}

struct Elu;

impl<T: Elem + Float> Unary<T> for Elu {
    type Out = T;
    const COST: usize = 10;

    #[inline(always)]
    fn apply(x: T) -> T {
        if x < T::zero() { x.exp() - T::one() } else { x }
    }
}

/// `scale` and `scale · alpha`, with which activations keep mean 0 and variance 1.
pub(crate) fn selu_constants<T: Float>() -> (T, T) {
    let constant = |value: f64| T::from(value).expect("a float holds a small number");
    (constant(1.050_700_987_355_480_5), constant(1.758_099_340_847_376_6))
}

struct Selu;

impl<T: Elem + Float> Unary<T> for Selu {
    type Out = T;
    const COST: usize = 10;

    #[inline(always)]
    fn apply(x: T) -> T {
        let (scale, scale_alpha) = selu_constants::<T>();
        if x < T::zero() { scale_alpha * (x.exp() - T::one()) } else { scale * x }
    }
}

struct Softplus;

impl<T: Elem + Float> Unary<T> for Softplus {
    type Out = T;
    const COST: usize = 20;

    #[inline(always)]
    fn apply(x: T) -> T {
        // Beyond the threshold the result rounds to one of its limits, x and e^x.
        let threshold = T::epsilon().ln() + T::one() + T::one();
        if x > -threshold {
            x
        } else if x < threshold {
            x.exp()
        } else {
            x.exp().ln_1p()
        }
    }
}

struct Softsign;

impl<T: Elem + Float> Unary<T> for Softsign {
    type Out = T;

    #[inline(always)]
    fn apply(x: T) -> T {
        x / (T::one() + x.abs())
    }
}

/// The loop of `LeakyRelu` for one type: input, output, slope.
type LeakyLoop = fn(Elems<'_>, ElemsMut<'_>, f32);

struct LeakyRelu;

impl TypedLoop for LeakyRelu {
    type Loop = LeakyLoop;
}

impl<T> LoopFor<T> for LeakyRelu
where
    T: Elem + PartialOrd + Ring,
    f32: AsPrimitive<T>,
{
    const LOOP: LeakyLoop = |x, out, alpha| {
        let (x, out) = (x.typed::<T>(), out.typed::<T>());
        // The slope is of the element type: 0 for integers, unless it is 1 or more.
        let alpha: T = alpha.as_();
        vectorize(
            #[inline(always)]
            || {
                for (out, &x) in out.iter_mut().zip(x) {
                    *out = if x > T::default() { x } else { x.times(alpha) };
                }
            },
        );
    };
}

fn leaky_relu(init: &KernelInit<'_>, run: LeakyLoop) -> Result<Box<dyn Kernel>> {
    let alpha = init.attrs.float("alpha")?;
    kernel(move |ctx: &mut OpContext<'_>| {
        let input = ctx.input(0)?;
        ctx.produce(0, input.shape().clone(), |out| {
            for_each_part(ctx.parallel(), out, 1, &|start, part| {
                run(matching(input.elems(), start, &part), part, alpha);
            });
        })
    })
}

#[cfg(test)]
mod tests {
    use tfcore_base::DType;
    use tfcore_framework::AttrValue;
    use tfcore_framework::testing::{floats, registry_of, run_op};
    use tfcore_tensor::{Shape, Tensor};

    use super::*;

    fn registry() -> Registry {
        registry_of(register)
    }

    #[test]
    fn values() {
        let x = [-2.0, -0.5, 0.0, 0.5, 7.0];
        let cases: [(&str, [f32; 5]); 6] = [
            ("Relu", [0.0, 0.0, 0.0, 0.5, 7.0]),
            ("Relu6", [0.0, 0.0, 0.0, 0.5, 6.0]),
            ("Elu", [-0.864_664_7, -0.393_469_3, 0.0, 0.5, 7.0]),
            ("Selu", [-1.520_166_4, -0.691_758_2, 0.0, 0.525_350_5, 7.354_907]),
            ("Softplus", [0.126_928, 0.474_077, std::f32::consts::LN_2, 0.974_077, 7.000_911]),
            ("Softsign", [-2.0 / 3.0, -1.0 / 3.0, 0.0, 1.0 / 3.0, 0.875]),
        ];
        for (op, expected) in cases {
            let attrs = [("T", AttrValue::Type(DType::FLOAT))];
            let out = run_op(&registry(), op, &attrs, &[floats(&[5], &x)]).unwrap();
            for (actual, expected) in out[0].as_slice::<f32>().unwrap().iter().zip(expected) {
                assert!((actual - expected).abs() < 2e-6, "{op}: {actual} for {expected}");
            }
        }
    }

    #[test]
    fn the_slope_of_leaky_relu_is_of_the_element_type() {
        let attrs = [("T", AttrValue::Type(DType::INT32)), ("alpha", AttrValue::Float(2.5))];
        let x = Tensor::from_slice(Shape::vector(2), &[-3i32, 4]).unwrap();
        let out = run_op(&registry(), "LeakyRelu", &attrs, &[x]).unwrap();
        assert_eq!(out[0].as_slice::<i32>().unwrap(), [-6, 4]);
    }

    #[test]
    fn negative_zeros_and_nans() {
        // Nine floats: a vector of eight, whose zeros are positive, and one by itself.
        let attrs = [("T", AttrValue::Type(DType::FLOAT))];
        let x = floats(&[10], &[-0.0, -0.0, 1.0, f32::NAN, -0.0, -0.0, -0.0, -0.0, -0.0, f32::NAN]);
        let out = run_op(&registry(), "Relu", &attrs, &[x]).unwrap();
        let out = out[0].as_slice::<f32>().unwrap();
        assert!(out[0].is_sign_positive() && out[8].is_sign_negative(), "{out:?}");
        assert!(out[3].is_nan() && out[9].is_nan(), "{out:?}");
    }
}

//! Gradients of functions of one value that have an op of their own: of the result and the gradient by it.

use tfcore_base::{LoopFor, Result, TypedLoop, require};
use tfcore_framework::{OpContext, Registry, for_each_part, matching, shape_fns};
use tfcore_math::isa::vectorize;
use tfcore_tensor::{Elems, ElemsMut};

use crate::number::{Field, FloatsAndComplexes, Number, Ring};

/// Results of the function, gradients by them, gradients by its argument.
type GradLoop = fn(Elems<'_>, Elems<'_>, ElemsMut<'_>);

/// Defines functors from `Name: |y, dy, r| dx;`, in the wide type. As the reference does for the narrow floats, every step
/// but the last is rounded by `r`, the last by the macro.
macro_rules! functors {
    ($($name:ident: |$y:ident, $dy:ident, $r:ident| $result:expr;)*) => {$(
        struct $name;

        impl TypedLoop for $name {
            type Loop = GradLoop;
        }

        impl<T: Number<Wide: Field>> LoopFor<T> for $name {
    const LOOP: GradLoop = |ys, dys, out| {
                    let (ys, dys, out) = (ys.typed::<T>(), dys.typed::<T>(), out.typed::<T>());
                    vectorize(
                        #[inline(always)]
                        || {
                            for ((out, y), dy) in out.iter_mut().zip(ys).zip(dys) {
                                let ($y, $dy) = (y.widen(), dy.widen());
                                let $r = |step: T::Wide| T::narrow(step).widen();
                                *out = T::narrow($result);
                            }
                        },
                    );
                };
}
    )*};
}

functors! {
    TanhGrad: |y, dy, r| dy.times(r(one(y).minus(r(y.times(y)))));
    SigmoidGrad: |y, dy, r| r(dy.times(y)).times(r(one(y).minus(y)));
    RsqrtGrad: |y, dy, r| if dy == zero(y) { dy } else {
        let y = y.conjugate();
        r(half(y).negated().times(r(dy.times(y)))).times(r(y.times(y)))
    };
    ReciprocalGrad: |y, dy, r| {
        let y = y.conjugate();
        dy.negated().times(r(y.times(y)))
    };
}

/// `dy / (2 y)`. A gradient of 0 stays 0 where the slope is infinite.
struct SqrtGrad;

impl TypedLoop for SqrtGrad {
    type Loop = GradLoop;
}

/// The elements that the reference computes at once. What is left over it computes by another formula, which rounds differently.
const PACKET: usize = 8;

impl<T: Number<Wide: Field>> LoopFor<T> for SqrtGrad {
    const LOOP: GradLoop = |ys, dys, out| {
        let (ys, dys, out) = (ys.typed::<T>(), dys.typed::<T>(), out.typed::<T>());
        let whole = out.len() / PACKET * PACKET;
        let round = |step: T::Wide| T::narrow(step).widen();
        vectorize(
            #[inline(always)]
            || {
                for (index, (out, (y, dy))) in out.iter_mut().zip(ys.iter().zip(dys)).enumerate() {
                    let (y, dy) = (y.widen().conjugate(), dy.widen());
                    *out = T::narrow(if dy == zero(y) {
                        dy
                    } else if index < whole {
                        round(half(y).divided_by(y)).times(dy)
                    } else {
                        round(half(y).times(dy)).divided_by(y)
                    });
                }
            },
        );
    };
}

#[inline(always)]
fn zero<T: Ring>(_: T) -> T {
    T::ZERO
}

#[inline(always)]
fn one<T: Ring>(_: T) -> T {
    T::ONE
}

#[inline(always)]
fn half<T: Field>(_: T) -> T {
    T::ONE.divided_by(T::ONE.plus(T::ONE))
}

pub(crate) fn register(r: &mut Registry) {
    // `TanhGrad(y: T, dy: T) -> z: T` and the like: `y` is the function's result.
    r.op("TanhGrad")
        .shape(shape_fns::unchanged)
        .typed::<TanhGrad, FloatsAndComplexes>("T", gradient);
    r.op("SigmoidGrad")
        .shape(shape_fns::unchanged)
        .typed::<SigmoidGrad, FloatsAndComplexes>("T", gradient);
    r.op("SqrtGrad")
        .shape(shape_fns::unchanged)
        .typed::<SqrtGrad, FloatsAndComplexes>("T", gradient);
    r.op("RsqrtGrad")
        .shape(shape_fns::unchanged)
        .typed::<RsqrtGrad, FloatsAndComplexes>("T", gradient);
    r.op("ReciprocalGrad")
        .shape(shape_fns::unchanged)
        .typed::<ReciprocalGrad, FloatsAndComplexes>("T", gradient);
    r.op("InvGrad")
        .shape(shape_fns::unchanged)
        .typed::<ReciprocalGrad, FloatsAndComplexes>("T", gradient);
}

fn gradient(ctx: &mut OpContext<'_>, run: GradLoop) -> Result<()> {
    let (y, dy) = (ctx.input(0)?, ctx.input(1)?);
    require!(
        y.count() == dy.count(),
        "The two arguments to a cwise op must have same number of elements, got {} and {}",
        y.count(),
        dy.count()
    );
    ctx.produce(0, y.shape().clone(), |out| {
        let (y, dy) = (y.elems(), dy.elems());
        for_each_part(ctx.parallel(), out, 4, &|start, part| {
            run(matching(y, start, &part), matching(dy, start, &part), part);
        });
    })
}

#[cfg(test)]
mod tests {
    use tfcore_base::{Complex64, Elem};
    use tfcore_framework::AttrValue;
    use tfcore_framework::testing::{registry_of, run_op};
    use tfcore_tensor::{Shape, Tensor};

    use super::*;

    fn apply<T: Elem>(op: &str, y: &[T], dy: &[T]) -> Result<Vec<T>> {
        let registry = registry_of(register);
        let attrs = [("T", AttrValue::Type(T::DTYPE))];
        let vector =
            |values: &[T]| Tensor::from_slice(Shape::vector(values.len()), values).unwrap();
        let out = run_op(&registry, op, &attrs, &[vector(y), vector(dy)])?;
        Ok(out[0].as_slice()?.to_vec())
    }

    #[test]
    fn slopes_from_results() {
        let cases: [(&str, [f64; 2], [f64; 2], [f64; 2]); 6] = [
            ("TanhGrad", [0.5, 0.0], [2.0, 3.0], [1.5, 3.0]),
            ("SigmoidGrad", [0.5, 0.25], [2.0, 4.0], [0.5, 0.75]),
            ("SqrtGrad", [2.0, 0.0], [4.0, 0.0], [1.0, 0.0]),
            ("RsqrtGrad", [2.0, 0.5], [1.0, 2.0], [-4.0, -0.125]),
            ("ReciprocalGrad", [2.0, -0.5], [1.0, 4.0], [-4.0, -1.0]),
            ("InvGrad", [2.0, -0.5], [1.0, 4.0], [-4.0, -1.0]),
        ];
        for (op, y, dy, expected) in cases {
            assert_eq!(apply(op, &y, &dy).unwrap(), expected, "{op}");
        }
        let y = [Complex64::new(1.0, 2.0)];
        let dy = [Complex64::new(1.0, 0.0)];
        // `-conj(1 + 2i)^2 = 3 + 4i`
        assert_eq!(apply("ReciprocalGrad", &y, &dy).unwrap(), [Complex64::new(3.0, 4.0)]);
        let error = apply("TanhGrad", &[1.0, 2.0], &[1.0]).err().unwrap();
        assert!(error.message().ends_with("got 2 and 1"), "{error}");
    }
}

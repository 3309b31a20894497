//! Gradients of functions of one value that have an op of their own: of the result and the gradient by it.

use tfcore_base::{Make, Pick, Result, TypeSet, internal, require};
use tfcore_framework::{
    Kernel, KernelInit, OpContext, Registry, for_each_part, kernel, matching, shape_fns,
};
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

        impl<T: Number<Wide: Field>> Make<T, GradLoop> for $name {
            fn make() -> GradLoop {
                |ys, dys, out| {
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
                }
            }
        }
    )*};
}

functors! {
    TanhGrad: |y, dy, r| dy.times(r(one(y).minus(r(y.times(y)))));
    SigmoidGrad: |y, dy, r| r(dy.times(y)).times(r(one(y).minus(y)));
    // A gradient of 0 stays 0 where the slope is infinite.
    SqrtGrad: |y, dy, r| if dy == zero(y) { dy } else { r(half(y).times(dy)).divided_by(y.conjugate()) };
    RsqrtGrad: |y, dy, r| if dy == zero(y) { dy } else {
        let y = y.conjugate();
        r(half(y).negated().times(r(dy.times(y)))).times(r(y.times(y)))
    };
    ReciprocalGrad: |y, dy, r| {
        let y = y.conjugate();
        r(y.negated().times(dy)).times(y)
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
    grad::<TanhGrad>(r, "TanhGrad");
    grad::<SigmoidGrad>(r, "SigmoidGrad");
    grad::<SqrtGrad>(r, "SqrtGrad");
    grad::<RsqrtGrad>(r, "RsqrtGrad");
    grad::<ReciprocalGrad>(r, "ReciprocalGrad");
    grad::<ReciprocalGrad>(r, "InvGrad");
}

fn grad<F: 'static>(r: &mut Registry, op: &'static str)
where
    FloatsAndComplexes: Pick<F, GradLoop>,
{
    r.op(op).shape(shape_fns::unchanged).cpu_for(
        "T",
        &FloatsAndComplexes::dtypes(),
        grad_kernel::<F>,
    );
}

fn grad_kernel<F>(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>>
where
    FloatsAndComplexes: Pick<F, GradLoop>,
{
    let dtype = init.input_dtypes[0];
    let run = <FloatsAndComplexes as Pick<F, GradLoop>>::pick(dtype)
        .ok_or_else(|| internal!("{} has no kernel for type {dtype}", init.op.name))?;
    kernel(move |ctx: &mut OpContext<'_>| {
        let (y, dy) = (ctx.input(0)?, ctx.input(1)?);
        require!(
            y.count() == dy.count(),
            "The two arguments to a cwise op must have same number of elements, got {} and {}",
            y.count(),
            dy.count()
        );
        let mut out = ctx.allocate_output(0, y.shape().clone())?;
        let (y, dy) = (y.elems(), dy.elems());
        for_each_part(ctx.parallel(), out.elems_mut()?, 4, &|start, part| {
            run(matching(y, start, &part), matching(dy, start, &part), part);
        });
        ctx.set_output(0, out);
        Ok(())
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

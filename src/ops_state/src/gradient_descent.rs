//! `ApplyGradientDescent` and its resource form: a step down the gradient.

use tfcore_base::{
    BFloat16, Code, Complex64, Complex128, Elem, Half, LoopFor, Result, Ring, TypedLoop, internal,
    invalid, require,
};
use tfcore_framework::{InferenceContext, OpContext, Registry, for_each_part, matching, shape_ops};
use tfcore_tensor::{Elems, ElemsMut, PartialShape};

/// The types that have a gradient.
type Types = (f32, f64, Half, BFloat16, Complex64, Complex128);

pub(crate) fn register(r: &mut Registry) {
    // `ApplyGradientDescent(var: Ref(T), alpha: T, delta: T) -> out: Ref(T)`, `var -= alpha * delta`.
    r.op("ApplyGradientDescent").shape(ref_shape).typed::<Descent, Types>("T", |ctx, step| {
        apply(ctx, step)?;
        ctx.set_output_ref(0, ctx.input_ref(0)?.clone());
        Ok(())
    });
    // `ResourceApplyGradientDescent(var: resource, alpha: T, delta: T)`, likewise.
    r.op("ResourceApplyGradientDescent").shape(resource_shape).typed::<Descent, Types>(
        "T",
        |ctx, step| {
            let name = ctx.handle(0)?.name.clone();
            apply(ctx, step).map_err(|error| match error.code() {
                Code::FailedPrecondition | Code::NotFound => {
                    internal!("Invalid variable reference: {name}")
                }
                _ => error,
            })
        },
    );
}

fn ref_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    shape_ops::with_rank(ctx.input(1), 0)?;
    let shape = shape_ops::merge(ctx.input(0), ctx.input(2))?;
    ctx.set_output(0, shape);
    Ok(())
}

fn resource_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    shape_ops::with_rank(ctx.input(1), 0)?;
    let known = ctx.input_handle(0).and_then(|data| data.first());
    let variable = known.map_or_else(PartialShape::unknown, |data| data.shape.clone());
    shape_ops::merge(&variable, ctx.input(2)).map(|_| ())
}

/// One part of a step: variable, gradient, rate.
type StepLoop = fn(ElemsMut<'_>, Elems<'_>, Elems<'_>);

struct Descent;

impl TypedLoop for Descent {
    type Loop = StepLoop;
}

/// `variable - rate * gradient`, rounded as the type's own arithmetic does.
impl<T: Elem + Ring> LoopFor<T> for Descent {
    const LOOP: StepLoop = |variable, gradient, rate| {
        let rate = rate.typed::<T>()[0];
        for (x, &gradient) in variable.typed::<T>().iter_mut().zip(gradient.typed::<T>()) {
            *x = x.minus(rate.times(gradient));
        }
    };
}

fn apply(ctx: &OpContext<'_>, step: StepLoop) -> Result<()> {
    let (alpha, delta) = (ctx.input(1)?, ctx.input(2)?);
    let variable = ctx.variable(0)?;
    require!(variable.dtype() == delta.dtype(), "var and delta do not have the same type");
    variable.update(&ctx.step().buffers, |tensor| {
        require!(alpha.rank() == 0, "alpha is not a scalar: {}", alpha.shape());
        if tensor.shape() != delta.shape() {
            return Err(invalid!(
                "var and delta do not have the same shape{} {}",
                tensor.shape(),
                delta.shape()
            ));
        }
        for_each_part(ctx.parallel(), tensor.elems_mut()?, 1, &|start, part| {
            let gradient = matching(delta.elems(), start, &part);
            step(part, gradient, alpha.elems());
        });
        Ok(())
    })
}

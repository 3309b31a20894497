//! `Cross`: products of vectors in space.

use tfcore_base::{LoopFor, RealNumbers, Result, TypedLoop, failed_precondition, require};
use tfcore_framework::{OpContext, Registry, shape_ops};
use tfcore_tensor::{Elems, ElemsMut};

use crate::number::{Number, Ring};

pub(crate) fn register(r: &mut Registry) {
    // `Cross(a: T, b: T) -> product: T`, `a x b` along the last dimension, which is 3.
    r.op("Cross")
        .shape(|ctx| {
            let a = shape_ops::with_rank_at_least(ctx.input(0), 1)?;
            let b = shape_ops::with_rank_at_least(ctx.input(1), 1)?;
            let shape = shape_ops::merge(&a, &b)?;
            // The last dimension is checked, but stays unknown in the result, as in the reference.
            if let Some(rank) = shape.rank() {
                shape_ops::with_value(shape.dim(rank - 1), 3)?;
            }
            ctx.set_output(0, shape);
            Ok(())
        })
        .typed::<CrossForm, RealNumbers>("T", cross);
}

type CrossLoop = fn(Elems<'_>, Elems<'_>, ElemsMut<'_>);

struct CrossForm;

impl TypedLoop for CrossForm {
    type Loop = CrossLoop;
}

impl<T: Number<Wide: Ring>> LoopFor<T> for CrossForm {
    const LOOP: CrossLoop = |a, b, out| {
        // Halves are rounded after each operation, as the reference's are.
        let times = |x: T, y: T| T::narrow(x.widen().times(y.widen()));
        let minus = |x: T, y: T| T::narrow(x.widen().minus(y.widen()));
        let pairs = a.typed::<T>().chunks_exact(3).zip(b.typed::<T>().chunks_exact(3));
        for (out, (a, b)) in out.typed::<T>().chunks_exact_mut(3).zip(pairs) {
            for axis in 0..3 {
                let (next, last) = ((axis + 1) % 3, (axis + 2) % 3);
                out[axis] = minus(times(a[next], b[last]), times(a[last], b[next]));
            }
        }
    };
}

fn cross(ctx: &mut OpContext<'_>, body: CrossLoop) -> Result<()> {
    let (a, b) = (ctx.input(0)?, ctx.input(1)?);
    require!(
        a.shape() == b.shape(),
        "Both inputs must be of same shape: {} vs. {}",
        a.shape(),
        b.shape()
    );
    require!(a.rank() >= 1, "Input must be at least 1D{}", a.shape());
    if a.dim(a.rank() - 1) != 3 {
        return Err(failed_precondition!("Cross-products are only defined for 3-element vectors."));
    }
    let mut out = ctx.allocate_output(0, a.shape().clone())?;
    body(a.elems(), b.elems(), out.elems_mut()?);
    ctx.set_output(0, out);
    Ok(())
}

#[cfg(test)]
mod tests {
    use tfcore_base::{Code, DType};
    use tfcore_framework::AttrValue;
    use tfcore_framework::testing::{infer, registry_of, run_op, tensor};

    use super::*;

    #[test]
    fn products() {
        let registry = registry_of(register);
        let attrs = [("T", AttrValue::Type(DType::INT32))];
        let run = |a: &[i32], b: &[i32]| {
            let inputs = [tensor(&[a.len() as i64], a), tensor(&[b.len() as i64], b)];
            run_op(&registry, "Cross", &attrs, &inputs)
        };
        let out = run(&[1, 2, 3], &[4, 5, 6]).unwrap();
        assert_eq!(out[0].as_slice::<i32>().unwrap(), [-3, 6, -3]);
        assert_eq!(run(&[1, 2], &[4, 5]).err().unwrap().code(), Code::FailedPrecondition);
        let shape = |inputs: &str| infer(&registry, "Cross", &attrs, inputs, &[]).unwrap();
        assert_eq!(shape("[?,?];[2,?]"), "[2,?]");
        assert_eq!(shape("?;?"), "?");
    }
}

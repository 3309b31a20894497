//! Ops that hand on what they get: `Identity` and its kin, and `NoOp`, which hands on nothing.

use tfcore_base::Result;
use tfcore_framework::{Forward, InferenceContext, OpContext, Registry, shape_fns};

pub(crate) fn register(r: &mut Registry) {
    // `Identity(input: T) -> output: T`, and ops that differ only in what gradients and graph
    // transformations make of them.
    r.ops(["Identity", "StopGradient", "PreventGradient", "GuaranteeConst"], |op| {
        op.shape(shape_fns::unchanged).cpu(|_| Ok(Box::new(Forward)));
    });
    // `Snapshot(input: T) -> output: T`.
    r.op("Snapshot").shape(shape_fns::unchanged).cpu(|_| Ok(Box::new(Forward)));
    // `IdentityN(input: T...) -> output: T...`.
    r.op("IdentityN").shape(each_unchanged).cpu(|_| Ok(Box::new(Forward)));
    // `DeepCopy(x: T) -> y: T`: the same elements in memory of their own.
    r.op("DeepCopy").shape(shape_fns::unchanged).compute(deep_copy);
    // `NoOp()`: only its control edges matter.
    r.op("NoOp").shape(shape_fns::no_outputs).compute(|_| Ok(()));
}

fn each_unchanged(ctx: &mut InferenceContext<'_>) -> Result<()> {
    for index in 0..ctx.num_inputs() {
        ctx.set_output(index, ctx.input(index).clone());
        ctx.forward_handle(index, index);
    }
    Ok(())
}

fn deep_copy(ctx: &mut OpContext<'_>) -> Result<()> {
    let input = ctx.input(0)?;
    let mut copy = ctx.allocate_output(0, input.shape().clone())?;
    copy.elems_mut()?.copy_from(input.elems());
    ctx.set_output(0, copy);
    Ok(())
}

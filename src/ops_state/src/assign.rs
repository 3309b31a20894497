//! Ops that add to or subtract from a whole variable.

use tfcore_base::{Error, Numbers, Pick, Result, TypeSet, invalid, require};
use tfcore_framework::{OpContext, OpEntry, Registry, for_each_part, kernel, matching, shape_fns};

use tfcore_tensor::Shape;

use crate::arithmetic::{Add, RuleForm, Sub, Update};
use crate::handle_shapes::writes_value;

pub(crate) fn register(r: &mut Registry) {
    // `AssignAdd(ref: Ref(T), value: T) -> output_ref: Ref(T)`, `ref += value`.
    of_ref::<Add>(r.op("AssignAdd"));
    // `AssignSub(ref: Ref(T), value: T) -> output_ref: Ref(T)`, `ref -= value`.
    of_ref::<Sub>(r.op("AssignSub"));
    // `AssignAddVariableOp(resource, value: dtype)`, `variable += value`.
    of_resource::<Add>(r.op("AssignAddVariableOp"));
    // `AssignSubVariableOp(resource, value: dtype)`, `variable -= value`.
    of_resource::<Sub>(r.op("AssignSubVariableOp"));
}

fn of_ref<R>(op: OpEntry<'_>)
where
    Numbers: Pick<RuleForm<R>, Update>,
{
    op.shape(shape_fns::merged(0, 1)).cpu_for("T", &Numbers::dtypes(), |init| {
        let update = Update::of::<R, Numbers>(init.attrs.dtype("T")?)?;
        kernel(move |ctx| {
            change(ctx, update, |_, _| invalid!("Parameters and update must be the same size"))?;
            let variable = ctx.input_ref(0)?.clone();
            ctx.set_output_ref(0, variable);
            Ok(())
        })
    });
}

fn of_resource<R>(op: OpEntry<'_>)
where
    Numbers: Pick<RuleForm<R>, Update>,
{
    op.shape(writes_value).cpu_for("dtype", &Numbers::dtypes(), |init| {
        let update = Update::of::<R, Numbers>(init.attrs.dtype("dtype")?)?;
        kernel(move |ctx| {
            change(ctx, update, |variable, value| {
                invalid!(
                    "Cannot update variable with shape {variable} using a Tensor with shape {value}, \
                     shapes must be equal."
                )
            })
        })
    });
}

/// Applies the update by input 1 to the variable at input 0. `unlike` makes the error for their shapes.
fn change(
    ctx: &OpContext<'_>,
    update: Update,
    unlike: impl FnOnce(&Shape, &Shape) -> Error,
) -> Result<()> {
    let value = ctx.input(1)?;
    let variable = ctx.variable(0)?;
    require!(
        variable.dtype() == value.dtype(),
        "DType of variable handle and value does not match."
    );
    variable.update(&ctx.step().buffers, |tensor| {
        if tensor.shape() != value.shape() {
            return Err(unlike(tensor.shape(), value.shape()));
        }
        for_each_part(ctx.parallel(), tensor.elems_mut()?, 1, &|start, part| {
            let by = matching(value.elems(), start, &part);
            (update.apply)(part, by);
        });
        Ok(())
    })
}

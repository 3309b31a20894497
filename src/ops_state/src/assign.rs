//! Ops that add to or subtract from a whole variable.

use tfcore_base::{Error, Numbers, Result, invalid, require};
use tfcore_framework::{OpContext, Registry, for_each_part, matching, shape_fns};

use tfcore_tensor::Shape;

use crate::arithmetic::{Add, Sub, Update, Updates};
use crate::handle_shapes::writes_value;

pub(crate) fn register(r: &mut Registry) {
    // `AssignAdd(ref: Ref(T), value: T) -> output_ref: Ref(T)`, `ref += value`.
    r.op("AssignAdd").shape(shape_fns::merged(0, 1)).typed::<Updates<Add>, Numbers>("T", of_ref);
    // `AssignSub(ref: Ref(T), value: T) -> output_ref: Ref(T)`, `ref -= value`.
    r.op("AssignSub").shape(shape_fns::merged(0, 1)).typed::<Updates<Sub>, Numbers>("T", of_ref);
    // `AssignAddVariableOp(resource, value: dtype)`, `variable += value`.
    r.op("AssignAddVariableOp")
        .shape(writes_value)
        .typed::<Updates<Add>, Numbers>("dtype", of_resource);
    // `AssignSubVariableOp(resource, value: dtype)`, `variable -= value`.
    r.op("AssignSubVariableOp")
        .shape(writes_value)
        .typed::<Updates<Sub>, Numbers>("dtype", of_resource);
}

fn of_ref(ctx: &mut OpContext<'_>, update: Update) -> Result<()> {
    change(ctx, update, |_, _| invalid!("Parameters and update must be the same size"))?;
    ctx.set_output_ref(0, ctx.input_ref(0)?.clone());
    Ok(())
}

fn of_resource(ctx: &mut OpContext<'_>, update: Update) -> Result<()> {
    change(ctx, update, |variable, value| {
        invalid!(
            "Cannot update variable with shape {variable} using a Tensor with shape {value}, shapes \
             must be equal."
        )
    })
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

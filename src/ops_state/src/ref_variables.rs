//! Variables behind refs: `VariableV2` and what replaces, tests or passes on the variable as a whole.

use std::sync::Arc;

use tfcore_base::{Result, invalid};
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, Registry, Variable, container_and_name, kernel,
    shape_fns, shape_ops, wrong_output_dtype,
};
use tfcore_tensor::{Shape, Tensor};

pub(crate) fn register(r: &mut Registry) {
    // `VariableV2(; shape, dtype, container, shared_name) -> ref: Ref(dtype)`, the variable of that name in the
    // session, made without a value at its first use.
    r.op("VariableV2").shape(shape_fns::explicit).cpu(variable);

    // `Variable`, as `VariableV2`; its scalar shape says nothing of the value.
    r.op("Variable").shape(old_variable_shape).cpu(variable);

    // `TemporaryVariable(; shape, dtype, var_name) -> ref: Ref(dtype)`, a variable of this step, to be taken
    // apart by `DestroyTemporaryVariable`.
    r.op("TemporaryVariable").shape(shape_fns::explicit).cpu(temporary_variable);

    // `DestroyTemporaryVariable(ref: Ref(T)) -> value: T`, the last value of a temporary variable.
    r.op("DestroyTemporaryVariable").shape(shape_fns::unchanged).cpu(destroy_temporary_variable);

    // `Assign(ref: Ref(T), value: T) -> output_ref: Ref(T)`, replaces the value.
    r.op("Assign").shape(assign_shape).cpu(assign);

    // `IsVariableInitialized(ref: Ref(dtype)) -> is_initialized: bool`.
    r.op("IsVariableInitialized").shape(shape_fns::scalar).compute(|ctx| {
        let initialized = ctx.input_ref(0)?.is_initialized();
        ctx.set_output(0, Tensor::scalar(initialized));
        Ok(())
    });

    // `RefIdentity(input: Ref(T)) -> output: Ref(T)`, the same ref.
    r.op("RefIdentity").shape(shape_fns::unchanged).compute(|ctx| {
        ctx.set_output_ref(0, ctx.input_ref(0)?.clone());
        Ok(())
    });
}

fn old_variable_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    if ctx.attrs.shape("shape")?.rank() == Some(0) {
        return Ok(());
    }
    shape_fns::explicit(ctx)
}

/// The shape that a variable declares. An unknown rank counts as a scalar.
fn declared_shape(init: &KernelInit<'_>) -> Result<Shape> {
    let shape = init.attrs.shape("shape")?;
    if shape.rank().is_none() {
        return Ok(Shape::scalar());
    }
    shape.to_shape().ok_or_else(|| invalid!("Shape {shape} is not fully defined"))
}

fn variable(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let shape = declared_shape(init)?;
    let dtype = init.attrs.dtype("dtype")?;
    let (container, shared) = container_and_name(init.attrs)?;
    let (container, node) = (container.to_string(), init.name.to_string());
    let name = if shared.is_empty() { node.clone() } else { shared.to_string() };
    kernel(move |ctx| {
        let variable = ctx.resources().get_or_create(&container, Variable::REF, &name, || {
            Ok(Variable::new(node.as_str(), dtype, shape.clone()))
        })?;
        if variable.dtype() != dtype {
            return Err(wrong_output_dtype(0, variable.dtype().make_ref(), dtype.make_ref()));
        }
        ctx.set_output_ref(0, variable);
        Ok(())
    })
}

fn temporary_variable(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let shape = declared_shape(init)?;
    let dtype = init.attrs.dtype("dtype")?;
    let name = match init.attrs.str("var_name")? {
        "" => init.name.to_string(),
        name => name.to_string(),
    };
    kernel(move |ctx| {
        let variable = Variable::new(name.as_str(), dtype, shape.clone());
        // The reference hands out memory as it finds it; ours is clear.
        variable.write(ctx.allocate_zeros(dtype, shape.clone())?);
        ctx.set_output_ref(0, Arc::new(variable));
        Ok(())
    })
}

fn destroy_temporary_variable(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let name = init.attrs.str("var_name")?.to_string();
    if name.is_empty() {
        return Err(invalid!("Missing var_name attribute"));
    }
    kernel(move |ctx| {
        let variable = ctx.input_ref(0)?;
        if variable.name() != name {
            let step = ctx.step().id;
            return Err(tfcore_base::not_found!(
                "Resource __per_step_{step}/{name}/frame:0/iter:0/\
                 N10tensorflow19TemporaryVariableOp6TmpVarE does not exist."
            ));
        }
        let value = variable.read()?;
        ctx.set_output(0, value);
        Ok(())
    })
}

fn assign_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let shape = match ctx.attrs.bool("validate_shape")? {
        true => shape_ops::merge(ctx.input(0), ctx.input(1))?,
        false => ctx.input(1).clone(),
    };
    ctx.set_output(0, shape);
    Ok(())
}

fn assign(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let validate = init.attrs.bool("validate_shape")?;
    kernel(move |ctx| {
        let variable = ctx.input_ref(0)?.clone();
        // The variable gets a buffer of its own: a client may write to the tensor it has fed.
        let value = ctx.take_or_copy_input(1)?;
        let shape = value.shape().clone();
        variable.write_if(value, |old, _| match !validate || *old == shape {
            true => Ok(()),
            false => Err(invalid!(
                "Assign requires shapes of both tensors to match. lhs shape= {old} rhs shape= {shape}"
            )),
        })?;
        ctx.set_output_ref(0, variable);
        Ok(())
    })
}

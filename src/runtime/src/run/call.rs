//! Calls of functions.

use tfcore_base::{Result, invalid};
use tfcore_framework::{Outputs, Value};
use tfcore_plan::plan::{Function, Plan};
use tfcore_plan::stack::with_stack;

use crate::run::exec::{Exec, Inputs};

/// Runs a function's plan on this thread.
pub(crate) fn call(function: &Function, args: Inputs, exec: Exec<'_>) -> Result<Outputs> {
    let exec = exec.deeper(function)?;
    let plan = exec.run.functions.plan(function)?;
    check_args(plan, &args)?;
    with_stack(|| exec.run.engine.run_plan(plan, args, exec))
        .map_err(|error| error.in_function(&function.name))
}

/// Checks what a caller hands to a function.
pub(crate) fn check_args(plan: &Plan, args: &[Value]) -> Result<()> {
    if args.len() != plan.arg_dtypes.len() {
        let (expected, got) = (plan.arg_dtypes.len(), args.len());
        return Err(invalid!("Expects {expected} arguments, but {got} is provided"));
    }
    for (index, (arg, expected)) in args.iter().zip(&plan.arg_dtypes).enumerate() {
        match arg {
            Value::Tensor(tensor) if tensor.dtype() != *expected => {
                let got = tensor.dtype();
                return Err(invalid!(
                    "Expects arg[{index}] to be {expected} but {got} is provided"
                ));
            }
            _ => {}
        }
    }
    Ok(())
}

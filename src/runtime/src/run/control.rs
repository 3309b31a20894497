//! Ops that run other plans: calls, conditionals and loops.

use std::sync::Arc;

use tfcore_base::{Result, internal, invalid};
use tfcore_framework::{Outputs, Value, missing_output, truth, wrong_output_dtype};
use tfcore_plan::place::DeviceSpec;
use tfcore_plan::plan::{CallKind, Control, Function, PlanNode, Task};
use tfcore_plan::stack::with_stack;
use tfcore_tensor::TString;

use crate::run::call::call;
use crate::run::exec::{Exec, Inputs};
use crate::run::map::Rows;
use crate::run::repeat::{self, For, Repeat, While};
use crate::run::straight::run_loop;

/// A While, a For or a map at its beginning.
pub(crate) fn repeat(control: &Control, inputs: Inputs) -> Result<Box<dyn Repeat>> {
    Ok(match &control.task {
        Task::While { cond, body } => {
            Box::new(While::new(cond, body, inputs, control.is_inlined()))
        }
        Task::For { body } => Box::new(For::new(body, inputs)?),
        Task::Map(map) => Box::new(Rows::new(map, inputs)?),
        _ => return Err(internal!("The op calls its functions once")),
    })
}

/// Runs a node with plans of its own to its end on this thread.
pub(crate) fn run(
    control: &Control,
    mut inputs: Inputs,
    outputs: &mut [Value],
    node: &PlanNode,
    exec: Exec<'_>,
) -> Result<()> {
    let results = match &control.task {
        Task::Call { function, kind } => {
            take_target(*kind, &mut inputs, exec)?;
            call(function, inputs, exec)?
        }
        Task::Branch { functions, by_index } => {
            let branch = select(functions, *by_index, inputs.remove(0))?;
            call(branch, inputs, exec)?
        }
        Task::While { .. } | Task::For { .. } | Task::Map(_) => {
            repeat::run(repeat(control, inputs)?, exec)?
        }
        // Loops of loops are nested without calls.
        Task::Loop(made) => {
            return with_stack(|| run_loop(made, inputs, outputs, control.is_inlined(), exec));
        }
    };
    set_outputs(results, outputs, node, control.call_kind())
}

/// Takes from the inputs what is not for the function.
///
/// # Errors
/// What is wrong with a device's name.
pub(crate) fn take_target(kind: CallKind, inputs: &mut Inputs, exec: Exec<'_>) -> Result<()> {
    match kind {
        CallKind::Remote => check_target(&inputs.remove(0), exec),
        CallKind::Call | CallKind::Gradient => Ok(()),
    }
}

/// Makes the results as many as the outputs of `node`.
///
/// # Errors
/// `Internal` for an output that is read and that the function does not return.
fn fit(kind: CallKind, results: &mut Outputs, node: &PlanNode) -> Result<()> {
    let (got, wanted) = (results.len(), node.num_outputs());
    if kind == CallKind::Gradient && got != wanted {
        return Err(invalid!(
            "SymGrad expects to return {wanted} tensor(s), but get {got} tensor(s) instead."
        ));
    }
    if let Some(missing) = (got..wanted).find(|&output| node.is_read(output)) {
        return Err(missing_output(missing));
    }
    results.resize(wanted.max(got), Value::Absent);
    Ok(())
}

/// Checks that the device that a remote call names is one of this run's.
///
/// # Errors
/// `InvalidArgument` for what is no device name, `Internal` for devices that are not here.
fn check_target(target: &Value, exec: Exec<'_>) -> Result<()> {
    let Value::Tensor(target) = target else { return Ok(()) };
    let name = target.as_slice::<TString>()?.first();
    let name = name.map(|name| String::from_utf8_lossy(name.as_bytes())).unwrap_or_default();
    let local = || name.contains(':').then(|| DeviceSpec::parse(&format!("/device:{name}")))?;
    let asked = DeviceSpec::parse(&name).or_else(local);
    let Some(asked) = asked else {
        return Err(invalid!("Could not parse {name} into a device specification."));
    };
    let here = std::iter::once(&exec.run.step).chain(&exec.run.others);
    let mut here = here.filter_map(|step| DeviceSpec::parse(&step.device));
    let Some(first) = here.next() else { return Ok(()) };
    if asked.matches(&first) || here.any(|device| asked.matches(&device)) {
        return Ok(());
    }
    Err(internal!(
        "Currently don't support instantiating functions on device: {}",
        first.overridden_by(&asked)
    ))
}

/// Hands a function's results to its caller.
pub(crate) fn set_outputs(
    mut results: Outputs,
    outputs: &mut [Value],
    node: &PlanNode,
    kind: Option<CallKind>,
) -> Result<()> {
    if let Some(kind) = kind {
        fit(kind, &mut results, node)?;
    }
    let (got, wanted) = (results.len(), outputs.len());
    if got != wanted {
        return Err(internal!("Expect to produce {wanted} tensors, but only get {got}"));
    }
    for (index, (value, declared)) in results.iter().zip(&node.output_dtypes).enumerate() {
        if let Value::Tensor(tensor) = value
            && tensor.dtype() != declared.base()
        {
            let got = tensor.dtype();
            return Err(match kind {
                Some(_) => wrong_output_dtype(index, got, *declared),
                None => internal!("Expect {index}-th output is of type {declared} but get {got}"),
            });
        }
    }
    for (output, value) in outputs.iter_mut().zip(results) {
        *output = value;
    }
    Ok(())
}

/// The function that `selector` stands for: by number, or the second one if it is true.
pub(crate) fn select(
    functions: &[Arc<Function>],
    by_index: bool,
    selector: Value,
) -> Result<&Arc<Function>> {
    let Value::Tensor(selector) = selector else { return Err(internal!("No selector")) };
    if !by_index {
        return Ok(&functions[usize::from(truth(&selector)?)]);
    }
    // A number that is none of the branches' selects the last one.
    if selector.rank() != 0 {
        return Err(invalid!("branch_index must be scalar"));
    }
    let index = usize::try_from(selector.scalar_value::<i32>()?).unwrap_or(usize::MAX);
    Ok(&functions[index.min(functions.len() - 1)])
}

//! Runs one node: how Switch and Merge choose, and how inputs and outputs reach a kernel. All gears use it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use smallvec::SmallVec;
use tfcore_base::{Error, Result, internal, invalid};
use tfcore_framework::{InputSlot, OpContext, Value};
use tfcore_plan::plan::{Action, PlanNode};
use tfcore_tensor::{Shape, Tensor};

use crate::run::exec::{Exec, Inputs};

/// Runs a node on the slots, in which its inputs and outputs lie.
#[inline]
pub(crate) fn run_in_place(node: &PlanNode, values: &mut [Value], exec: Exec<'_>) -> Result<()> {
    let start = exec.run.trace.as_ref().map(|_| Instant::now());
    // Outputs lie behind all inputs.
    let (before, behind) = values.split_at_mut(node.output as usize);
    let outputs = &mut behind[..node.num_outputs()];
    match &node.action {
        Action::Kernel(kernel) if node.refs.is_empty() => {
            let dtypes = &node.output_dtypes;
            let (step, parallel) = (exec.run.step_on(node.device), exec.parallel());
            let mut ctx = OpContext::among(before, &node.inputs, outputs, dtypes, step, parallel);
            kernel.compute(&mut ctx)?;
        }
        Action::Forward | Action::Switch | Action::Merge if node.refs.is_empty() => {
            pass_on(node, &mut InPlace { values: before, inputs: &node.inputs }, outputs)?;
        }
        _ => {
            let inputs = node.inputs.iter().map(|input| take(before, input));
            run_owned(node, inputs.collect(), outputs, exec)?;
        }
    }
    if let (Some(trace), Some(start)) = (&exec.run.trace, start) {
        trace.record(node, start, outputs);
    }
    Ok(())
}

/// Runs a node on values of its own, traced and guarded.
pub(crate) fn run_node(
    node: &PlanNode,
    inputs: Inputs,
    outputs: &mut [Value],
    exec: Exec<'_>,
) -> Result<()> {
    let start = exec.run.trace.as_ref().map(|_| Instant::now());
    catch_unwind(AssertUnwindSafe(|| run_owned(node, inputs, &mut *outputs, exec)))
        .unwrap_or_else(|_| Err(panicked(node)))
        .map_err(|error| exec.blame(node, error))?;
    if let (Some(trace), Some(start)) = (&exec.run.trace, start) {
        trace.record(node, start, outputs);
    }
    Ok(())
}

fn run_owned(
    node: &PlanNode,
    mut inputs: Inputs,
    outputs: &mut [Value],
    exec: Exec<'_>,
) -> Result<()> {
    prepare(node, &mut inputs)?;
    match &node.action {
        Action::Kernel(kernel) | Action::Transfer(kernel) => {
            let dtypes = &node.output_dtypes;
            let (step, parallel) = (exec.run.step_on(node.device), exec.parallel());
            kernel.compute(&mut OpContext::new(&mut inputs, outputs, dtypes, step, parallel))?;
        }
        Action::Forward | Action::Switch | Action::Merge => pass_on(node, &mut inputs, outputs)?,
        Action::Trigger => {}
        Action::Control(control) => exec
            .run
            .engine
            .run_control(control, inputs, outputs, node, exec)
            .map_err(|error| control.style.tell(error, &node.name))?,
    }
    Ok(())
}

/// The inputs of a node that hands one of them on.
trait Operands {
    fn len(&self) -> usize;

    fn get(&self, index: usize) -> &Value;

    /// The value of an input, moved if nothing reads it afterwards.
    fn take(&mut self, index: usize) -> Value;
}

/// Inputs that lie among the values of a run.
struct InPlace<'v> {
    values: &'v mut [Value],
    inputs: &'v [InputSlot],
}

impl Operands for InPlace<'_> {
    #[inline]
    fn len(&self) -> usize {
        self.inputs.len()
    }

    #[inline]
    fn get(&self, index: usize) -> &Value {
        &self.values[self.inputs[index].slot as usize]
    }

    #[inline]
    fn take(&mut self, index: usize) -> Value {
        take(self.values, &self.inputs[index])
    }
}

impl Operands for Inputs {
    fn len(&self) -> usize {
        SmallVec::len(self)
    }

    fn get(&self, index: usize) -> &Value {
        &self[index]
    }

    fn take(&mut self, index: usize) -> Value {
        std::mem::take(&mut self[index])
    }
}

/// Runs a node that hands an input on: Forward, Switch and Merge.
#[inline]
fn pass_on(node: &PlanNode, inputs: &mut impl Operands, outputs: &mut [Value]) -> Result<()> {
    match node.action {
        Action::Switch => {
            let selected = selected_output(inputs.get(1), outputs.len())?;
            outputs[selected] = inputs.take(0);
        }
        Action::Merge => {
            let is_live = |&index: &usize| !matches!(inputs.get(index), Value::Absent);
            let index = (0..inputs.len()).find(is_live);
            let index = index.ok_or_else(|| internal!("All inputs are dead"))?;
            outputs[0] = inputs.take(index);
            // The index is rarely read.
            if node.is_read(1) {
                outputs[1] = Value::Tensor(Tensor::scalar(index as i32));
            }
        }
        _ => outputs[0] = inputs.take(0),
    }
    Ok(())
}

/// The value of an input, moved if nobody reads it afterwards.
fn take(values: &mut [Value], input: &InputSlot) -> Value {
    let value = &mut values[input.slot as usize];
    if input.last { std::mem::take(value) } else { value.clone() }
}

/// What Switches say of a predicate of this shape.
pub(crate) fn no_selector(shape: &Shape) -> Error {
    invalid!("The second input must be a scalar, but it has shape {shape}")
}

/// The output that a Switch forwards to.
fn selected_output(selector: &Value, outputs: usize) -> Result<usize> {
    let Value::Tensor(selector) = selector else { return Err(internal!("No predicate")) };
    if selector.rank() != 0 {
        return Err(no_selector(selector.shape()));
    }
    match selector.scalar_value::<bool>() {
        Ok(predicate) => Ok(usize::from(predicate)),
        Err(_) => {
            // A number that is none of the outputs' selects the last one.
            let index = usize::try_from(selector.scalar_value::<i32>()?).unwrap_or(usize::MAX);
            Ok(index.min(outputs - 1))
        }
    }
}

/// Makes inputs what the kernel wants: the value of a variable, unless it asks for the variable itself.
pub(crate) fn prepare(node: &PlanNode, inputs: &mut [Value]) -> Result<()> {
    for (value, wanted) in inputs.iter_mut().zip(&*node.refs) {
        if let Value::Ref(variable) = value
            && (wanted.deref || !(wanted.may_be_uninitialized || variable.is_initialized()))
        {
            let tensor = variable.read().map_err(|_| wanted.uninitialized())?;
            *value = Value::Tensor(tensor);
        }
    }
    Ok(())
}

/// A panic in a kernel is a bug, which must not take the process down.
pub(crate) fn panicked(node: &PlanNode) -> Error {
    internal!("The kernel of node '{}' panicked", node.name).at_node(&node.name)
}

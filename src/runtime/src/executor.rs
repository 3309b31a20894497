//! The straight gear: nodes one after the other on the caller's thread.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use tfcore_base::{Result, internal, invalid};
use tfcore_framework::{OpContext, Step, Value};
use tfcore_math::pool::{Parallel, Pool};
use tfcore_tensor::Tensor;

use crate::parallel;
use crate::plan::{Input, Plan, PlanNode, Source};
use crate::trace::Trace;

/// From this many nanoseconds a node on average, sharing nodes out pays for handing them over.
const WORTH_SHARING_NANOS: u64 = 5_000;

/// Runs a plan on the fed tensors and returns the fetched ones.
///
/// # Errors
/// The first failing node's error, with its name.
pub(crate) fn run(
    plan: &Arc<Plan>,
    feeds: Vec<Tensor>,
    step: &Arc<Step>,
    pool: Option<&Arc<Pool>>,
    trace: Option<&Arc<Trace>>,
) -> Result<Vec<Tensor>> {
    if let Some(pool) = pool
        && plan.is_wide
        && plan.node_nanos.load(Ordering::Relaxed) >= WORTH_SHARING_NANOS
    {
        return parallel::run(plan, feeds, step, pool, trace);
    }
    let unused = plan.frames.lock().pop();
    let mut slots = unused.unwrap_or_else(|| vec![Value::Absent; plan.num_slots]);
    for (&slot, tensor) in plan.feeds.iter().zip(feeds) {
        slots[slot as usize] = Value::Tensor(tensor);
    }
    let parallel = pool.map_or(Parallel::SERIAL, |pool| Parallel::new(pool));
    let result = run_straight(plan, &mut slots, step, parallel, trace.map(|trace| &**trace));
    slots.fill_with(Value::default);
    plan.frames.lock().push(slots);
    result
}

fn run_straight(
    plan: &Plan,
    slots: &mut [Value],
    step: &Step,
    parallel: Parallel<'_>,
    trace: Option<&Trace>,
) -> Result<Vec<Tensor>> {
    let is_first = plan.is_wide && plan.node_nanos.load(Ordering::Relaxed) == 0;
    let start = is_first.then(Instant::now);
    let mut inputs: Vec<Value> = Vec::new();
    for node in &plan.nodes {
        inputs.clear();
        for input in &node.inputs {
            let value = match input.source {
                Source::Constant(number) => plan.constants[number as usize].clone(),
                Source::Slot { slot, last: true } => std::mem::take(&mut slots[slot as usize]),
                Source::Slot { slot, last: false } => slots[slot as usize].clone(),
            };
            inputs.push(prepare(value, input).map_err(|error| error.at_node(&node.name))?);
        }
        let first = node.output as usize;
        let outputs = &mut slots[first..first + node.output_dtypes.len()];
        compute(node, &mut inputs, outputs, step, parallel, trace)?;
    }
    if let Some(start) = start {
        let nanos = start.elapsed().as_nanos() as u64 / plan.nodes.len().max(1) as u64;
        plan.node_nanos.store(nanos.max(1), Ordering::Relaxed);
    }
    plan.fetches
        .iter()
        .enumerate()
        .map(|(index, &source)| {
            fetched(
                index,
                match source {
                    Source::Constant(number) => plan.constants[number as usize].clone(),
                    Source::Slot { slot, .. } => slots[slot as usize].clone(),
                },
            )
        })
        .collect()
}

/// Runs one kernel. A panic in it is a bug, which must not take the process down.
pub(crate) fn compute(
    node: &PlanNode,
    inputs: &mut [Value],
    outputs: &mut [Value],
    step: &Step,
    parallel: Parallel<'_>,
    trace: Option<&Trace>,
) -> Result<()> {
    let start = trace.map(|_| Instant::now());
    let mut ctx = OpContext::new(inputs, outputs, &node.output_dtypes, step, parallel);
    catch_unwind(AssertUnwindSafe(|| node.kernel.compute(&mut ctx)))
        .unwrap_or_else(|_| Err(internal!("The kernel of node '{}' panicked", node.name)))
        .map_err(|error| error.at_node(&node.name))?;
    if let (Some(trace), Some(start)) = (trace, start) {
        trace.record(&node.name, &node.op.name, start);
    }
    Ok(())
}

/// The value as the kernel wants it: that of a variable, unless it asks for the variable itself.
pub(crate) fn prepare(value: Value, input: &Input) -> Result<Value> {
    match value {
        Value::Ref(variable) if input.deref => variable.read().map(Value::Tensor),
        Value::Ref(variable) if !input.may_be_uninitialized && !variable.is_initialized() => {
            variable.read().map(Value::Tensor)
        }
        other => Ok(other),
    }
}

/// The tensor of fetch `index`.
pub(crate) fn fetched(index: usize, value: Value) -> Result<Tensor> {
    match value {
        Value::Tensor(tensor) => Ok(tensor),
        Value::Ref(variable) => variable.read(),
        Value::Absent => Err(invalid!("Retval[{index}] does not have value")),
    }
}

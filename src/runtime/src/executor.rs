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
    step: &Arc<Step>,
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
    step: &Arc<Step>,
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

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use tfcore_base::{Code, DType};
    use tfcore_framework::{AttrValue, Registry};
    use tfcore_graph::{Graph, Node, NodeBuilder, NodeId, OutputRef};
    use tfcore_tensor::Shape;

    use crate::plan::{Kernels, make_plan};
    use crate::prune::needed_nodes;

    /// Negation and addition of floats, and an Exp that panics.
    pub(crate) fn registry() -> Arc<Registry> {
        let mut registry = Registry::new();
        registry.op("Placeholder").compute(|_| Err(invalid!("not fed")));
        registry.op("Exp").compute(|_| panic!("a bug"));
        registry.op("Neg").compute(|ctx| {
            let mut tensor = ctx.take_or_copy_input(0)?;
            tensor.as_mut_slice::<f32>()?.iter_mut().for_each(|value| *value = -*value);
            ctx.set_output(0, tensor);
            Ok(())
        });
        registry.op("AddV2").compute(|ctx| {
            let mut sum = ctx.take_or_copy_input(0)?;
            for (sum, value) in sum.as_mut_slice::<f32>()?.iter_mut().zip(ctx.input_slice(1)?) {
                *sum += value;
            }
            ctx.set_output(0, sum);
            Ok(())
        });
        Arc::new(registry)
    }

    /// Adds `name = op(inputs)`.
    pub(crate) fn add(graph: &mut Graph, op: &str, name: &str, inputs: &[OutputRef]) -> OutputRef {
        let mut builder = NodeBuilder::new(op, name);
        inputs.iter().for_each(|&input| builder.add_input(input));
        if op == "Placeholder" {
            builder.set_attr("dtype", AttrValue::Type(DType::FLOAT));
        }
        OutputRef::new(builder.finish(graph).unwrap(), 0)
    }

    pub(crate) fn nodes_of(graph: &Graph) -> Vec<Arc<Node>> {
        (0..graph.num_ids()).map(|index| graph.node(NodeId(index as u32)).clone()).collect()
    }

    pub(crate) fn plan_of(graph: &Graph, feeds: &[OutputRef], fetches: &[OutputRef]) -> Plan {
        let nodes = nodes_of(graph);
        let order = needed_nodes(&nodes, feeds, fetches, &[]).unwrap();
        let kernels = Kernels::default();
        make_plan(graph.registry(), &kernels, &nodes, &order, feeds, fetches).unwrap()
    }

    pub(crate) fn vector(values: &[f32]) -> Tensor {
        Tensor::from_slice(Shape::vector(values.len()), values).unwrap()
    }

    fn step() -> Arc<Step> {
        Arc::default()
    }

    /// What both gears give for a plan fed with `x`.
    fn both_gears(plan: Plan, x: &Tensor) -> [Result<Vec<Tensor>>; 2] {
        let (plan, step, pool) = (Arc::new(plan), step(), Arc::new(Pool::new(3)));
        let straight = run(&plan, vec![x.clone()], &step, None, None);
        [straight, parallel::run(&plan, vec![x.clone()], &step, &pool, None)]
    }

    #[test]
    fn both_gears_give_the_same() {
        let mut graph = Graph::new(registry());
        let x = add(&mut graph, "Placeholder", "x", &[]);
        let a = add(&mut graph, "Neg", "a", &[x]);
        let b = add(&mut graph, "Neg", "b", &[x]);
        let twice = add(&mut graph, "AddV2", "twice", &[a, a]);
        let sum = add(&mut graph, "AddV2", "sum", &[twice, b]);
        let last = add(&mut graph, "AddV2", "last", &[sum, x]);
        let fed = vector(&[1.0, -2.0]);
        for _ in 0..50 {
            // Values that are fetched, or read twice, must not be overwritten by those that follow.
            let plan = plan_of(&graph, &[x], &[last, a, sum, a]);
            for result in both_gears(plan, &fed) {
                let values: Vec<Vec<f32>> =
                    result.unwrap().iter().map(|t| t.as_slice().unwrap().to_vec()).collect();
                assert_eq!(values, [[-2.0, 4.0], [-1.0, 2.0], [-3.0, 6.0], [-1.0, 2.0]]);
            }
            assert_eq!(fed.as_slice::<f32>().unwrap(), [1.0, -2.0]);
        }
    }

    #[test]
    fn a_failing_node_is_named_in_both_gears() {
        let cases = [
            ("Exp", Code::Internal, "panicked"),
            ("Placeholder", Code::InvalidArgument, "not fed"),
        ];
        for (op, code, message) in cases {
            let mut graph = Graph::new(registry());
            let x = add(&mut graph, "Placeholder", "x", &[]);
            let inputs = if op == "Exp" { &[x][..] } else { &[] };
            let bad = add(&mut graph, op, "bad", inputs);
            let sum = add(&mut graph, "AddV2", "sum", &[x, bad]);
            for result in both_gears(plan_of(&graph, &[x], &[sum]), &vector(&[1.0])) {
                let error = result.unwrap_err();
                assert_eq!(error.code(), code);
                assert!(error.message().contains(message), "{error}");
                assert!(error.message().ends_with("[[{{node bad}}]]"), "{error}");
            }
        }
    }
}

//! The executor: chooses the gear of a plan, and runs nodes one after the other on the caller's thread.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use parking_lot::Mutex;
use tfcore_base::{
    Code, Error, Result, cancelled, deadline_exceeded, internal, invalid, resource_exhausted,
};
use tfcore_framework::{InputSlot, OpContext, Outputs, Step, Value};
use tfcore_math::pool::{Parallel, Pool};
use tfcore_tensor::{Shape, Tensor};

use crate::control::Inputs;
use crate::functions::{Function, Functions};
use crate::plan::{Action, Body, Gear, Plan, PlanNode, Slots};
use crate::retval;
use crate::trace::Trace;
use crate::{flow, parallel};

/// From this many nanoseconds a node on average, sharing nodes out pays for handing them over.
const WORTH_SHARING_NANOS: u64 = 5_000;

/// Functions may call each other so deep. Recursion that never ends is an error, not a crash.
const MAX_DEPTH: u32 = 10_000;

/// A call goes on with a new piece of stack if less than this is left, which is more than a call and a kernel use ...
pub(crate) const STACK_LEFT: usize = 128 << 10;
/// ... and the new piece has this size.
pub(crate) const STACK_PIECE: usize = 2 << 20;

/// What a plan is part of: what a cancelled step says depends on where that is noticed between two nodes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Within {
    Step,
    /// A loop of Switches.
    Loop,
    /// A While that is not lowered to them.
    Call,
}

impl Within {
    fn cancelled(self) -> Error {
        match self {
            Within::Step => cancelled!("Step was cancelled"),
            Within::Loop => cancelled!("Loop execution was cancelled."),
            Within::Call => cancelled!("Function was cancelled before it was started"),
        }
    }
}

/// What all plans of a step share.
pub(crate) struct Run {
    /// The step on the first device.
    pub(crate) step: Arc<Step>,
    /// The step on the other devices.
    pub(crate) others: Vec<Arc<Step>>,
    pub(crate) pool: Option<Arc<Pool>>,
    pub(crate) trace: Option<Arc<Trace>>,
    pub(crate) deadline: Option<Instant>,
    /// Of a partial run: when the calls that go on with it now have to be over, each for itself.
    pub(crate) call_deadlines: Option<Mutex<Vec<Instant>>>,
    pub(crate) functions: Arc<Functions>,
    /// The error for which the step was cancelled, whichever of its plans it arose in.
    pub(crate) cause: OnceLock<Error>,
}

impl Run {
    /// Whether a run that is over can be the next one: nobody holds on to anything of it.
    pub(crate) fn is_untouched(&mut self) -> bool {
        self.others.is_empty()
            && self.trace.is_none()
            && self.cause.get().is_none()
            && Arc::get_mut(&mut self.step).is_some_and(Step::is_untouched)
    }

    /// Whether its time is over.
    fn is_late(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// The step on the device with this number.
    #[inline]
    pub(crate) fn step_on(&self, device: u16) -> &Arc<Step> {
        match device {
            0 => &self.step,
            other => &self.others[usize::from(other) - 1],
        }
    }
}

/// Where in a step a plan runs.
#[derive(Clone, Copy)]
pub(crate) struct Scope {
    /// So many calls deep.
    depth: u32,
    within: Within,
}

impl Scope {
    /// That of the plan for the request.
    pub(crate) const STEP: Scope = Scope { depth: 0, within: Within::Step };
}

/// A step, seen from one of its plans.
#[derive(Clone, Copy)]
pub(crate) struct Exec<'r> {
    pub(crate) run: &'r Arc<Run>,
    pub(crate) scope: Scope,
}

impl<'r> Exec<'r> {
    pub(crate) fn new(run: &'r Arc<Run>) -> Exec<'r> {
        Exec { run, scope: Scope::STEP }
    }

    /// The view from a part of the plan.
    pub(crate) fn within(self, within: Within) -> Exec<'r> {
        Exec { scope: Scope { within, ..self.scope }, ..self }
    }

    pub(crate) fn parallel(self) -> Parallel<'r> {
        self.run.pool.as_ref().map_or(Parallel::SERIAL, |pool| Parallel::new(pool))
    }

    /// Whether the step is to go on.
    ///
    /// # Errors
    /// `Cancelled` or `DeadlineExceeded`.
    #[inline]
    pub(crate) fn check(self) -> Result<()> {
        if self.run.step.cancellation.is_cancelled() {
            return Err(self.scope.within.cancelled());
        }
        match (&self.run.deadline, &self.run.call_deadlines) {
            (None, None) => Ok(()),
            _ => self.check_time(),
        }
    }

    fn check_time(self) -> Result<()> {
        let deadline = match &self.run.call_deadlines {
            None => self.run.deadline,
            Some(deadlines) => deadlines.lock().iter().min().copied(),
        };
        match deadline {
            Some(deadline) if Instant::now() >= deadline => Err(timed_out()),
            _ => Ok(()),
        }
    }

    /// The error of a node, with its name. What memory is in use is noted before it is given back.
    #[cold]
    pub(crate) fn blame(self, node: &PlanNode, error: Error) -> Error {
        if error.code() == Code::ResourceExhausted
            && let Some(trace) = &self.run.trace
        {
            trace.note_usage();
        }
        error.at_node(&node.name)
    }

    /// The view of a function that is called.
    pub(crate) fn deeper(self, callee: &Function) -> Result<Exec<'r>> {
        let Scope { depth, .. } = self.scope;
        if depth == MAX_DEPTH {
            return Err(resource_exhausted!(
                "Calls are nested deeper than {MAX_DEPTH}, at function '{}'",
                callee.name()
            ));
        }
        Ok(Exec { scope: Scope { depth: depth + 1, ..self.scope }, ..self })
    }
}

/// The error of a step whose time is over.
pub(crate) fn timed_out() -> Error {
    deadline_exceeded!("Timed out waiting for notification")
}

/// Runs a plan on the fed tensors and returns the fetched ones, every one a tensor.
///
/// # Errors
/// The first failing node's error, with its name.
pub(crate) fn run(plan: &Arc<Plan>, feeds: Inputs, run: &Arc<Run>) -> Result<Outputs> {
    let mut results =
        run_plan(plan, feeds, Exec::new(run)).map_err(|error| match run.cause.get() {
            // It arose between nodes, wherever it was noticed.
            _ if error.code() == Code::DeadlineExceeded && run.is_late() => timed_out(),
            Some(cause) if error.code() == Code::Cancelled => cause.clone(),
            _ => error,
        })?;
    let mut is_missing = false;
    for value in results.iter_mut().filter(|value| !matches!(value, Value::Tensor(_))) {
        match fetched(value.clone()) {
            Ok(tensor) => *value = Value::Tensor(tensor),
            Err(_) => is_missing = true,
        }
    }
    if is_missing { Err(retval::missing(&plan.retvals, &results)) } else { Ok(results) }
}

/// Runs a function's plan on this thread.
pub(crate) fn call(function: &Function, args: Inputs, exec: Exec<'_>) -> Result<Outputs> {
    let exec = exec.deeper(function)?;
    let plan = function.plan(&exec.run.functions, &[])?;
    check_args(plan, &args)?;
    stacker::maybe_grow(STACK_LEFT, STACK_PIECE, || run_plan(plan, args, exec))
        .map_err(|error| error.in_function(function.name()))
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

/// Runs a plan to its end; this thread takes part.
pub(crate) fn run_plan(plan: &Arc<Plan>, args: Inputs, exec: Exec<'_>) -> Result<Outputs> {
    match &plan.gear {
        Gear::Straight => run_straight(plan, args, exec),
        Gear::Parallel(dependencies) => {
            if let Some(pool) = &exec.run.pool
                && dependencies.node_nanos.load(Ordering::Relaxed) >= WORTH_SHARING_NANOS
            {
                return parallel::run(plan, dependencies, args, pool, exec);
            }
            let is_first = dependencies.node_nanos.load(Ordering::Relaxed) == 0;
            let start = is_first.then(Instant::now);
            let result = run_straight(plan, args, exec)?;
            if let Some(start) = start {
                note_time(&dependencies.node_nanos, start, plan.body.nodes.len());
            }
            Ok(result)
        }
        Gear::Dataflow(dataflow) => flow::run(plan, dataflow, args, exec),
    }
}

fn note_time(node_nanos: &AtomicU64, start: Instant, nodes: usize) {
    let nanos = start.elapsed().as_nanos() as u64 / nodes.max(1) as u64;
    node_nanos.store(nanos.max(1), Ordering::Relaxed);
}

fn run_straight(plan: &Plan, args: Inputs, exec: Exec<'_>) -> Result<Outputs> {
    let body = &plan.body;
    let mut slots = body.take_slots();
    for (slot, arg) in slots.values[body.args()].iter_mut().zip(args) {
        *slot = arg;
    }
    if let Err(error) = run_range(body, 0..body.nodes.len(), &mut slots, exec) {
        body.give_back(slots);
        return Err(error);
    }
    let results = body.results.iter().map(|&slot| {
        let value = &mut slots.values[slot as usize];
        if body.moves_results { std::mem::take(value) } else { value.clone() }
    });
    let results = results.collect();
    body.give_back_done(slots);
    Ok(results)
}

/// Runs some nodes of a body, one after the other.
///
/// # Errors
/// The failing node's error, with its name.
pub(crate) fn run_range(
    body: &Body,
    range: Range<usize>,
    slots: &mut Slots,
    exec: Exec<'_>,
) -> Result<()> {
    // Where a panic happened; one guard for all nodes costs them nothing.
    let mut at = range.start;
    let end = range.end;
    // A trace is of nodes.
    let mut groups = if exec.run.trace.is_some() { &[] } else { body.scalars.starting_at(at) };
    let mut go_on = || -> Result<()> {
        while at < end {
            exec.check()?;
            let node = &body.nodes[at];
            if let Some((group, rest)) = groups.split_first()
                && group.nodes().start == at
            {
                groups = rest;
                let done = body.scalars.run(group, slots);
                if done.map_err(|error| error.at_node(&node.name))? {
                    at = group.nodes().end;
                    continue;
                }
            }
            if body.may_be_dead && is_dead(node, slots) {
                slots.dead[at] = true;
                // In a loop they may still hold what they were in the last iteration.
                let outputs = node.output as usize..node.output as usize + node.num_outputs();
                slots.values[outputs].fill_with(Value::default);
                drop_unread(node, &mut slots.values);
            } else {
                run_in_place(node, &mut slots.values, exec)
                    .map_err(|error| exec.blame(node, error))?;
                if body.may_be_dead {
                    slots.dead[at] = false;
                }
            }
            at += 1;
        }
        Ok(())
    };
    match catch_unwind(AssertUnwindSafe(&mut go_on)) {
        Ok(result) => result,
        Err(_) => Err(panicked(&body.nodes[at])),
    }
}

/// A panic in a kernel is a bug, which must not take the process down.
fn panicked(node: &PlanNode) -> Error {
    internal!("The kernel of node '{}' panicked", node.name).at_node(&node.name)
}

/// Whether a node must not run: something that it reads or runs after is dead.
fn is_dead(node: &PlanNode, slots: &Slots) -> bool {
    let is_absent = |slot: u32| matches!(slots.values[slot as usize], Value::Absent);
    match node.action {
        Action::Trigger | Action::Transfer(_) => false,
        Action::Merge => node.inputs.iter().all(|input| is_absent(input.slot)),
        _ => {
            node.inputs.iter().any(|input| is_absent(input.slot))
                || node.controls.iter().any(|&control| slots.dead[control as usize])
        }
    }
}

fn drop_unread(node: &PlanNode, values: &mut [Value]) {
    for &slot in &node.drops {
        values[slot as usize] = Value::Absent;
    }
}

/// Runs a node on the slots, in which its inputs and outputs lie.
#[inline]
fn run_in_place(node: &PlanNode, values: &mut [Value], exec: Exec<'_>) -> Result<()> {
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
        Action::Forward if node.refs.is_empty() => outputs[0] = take(before, &node.inputs[0]),
        Action::Switch if node.refs.is_empty() => {
            let selector = &before[node.inputs[1].slot as usize];
            let selected = selected_output(selector, outputs.len())?;
            outputs[selected] = take(before, &node.inputs[0]);
        }
        Action::Merge if node.refs.is_empty() => {
            let is_live = |input: &InputSlot| !matches!(before[input.slot as usize], Value::Absent);
            let index = node.inputs.iter().position(is_live).ok_or_else(all_dead)?;
            outputs[0] = take(before, &node.inputs[index]);
            // Nearly nobody asks which input it was.
            if !node.drops.contains(&(node.output + 1)) {
                outputs[1] = Value::Tensor(Tensor::scalar(index as i32));
            }
        }
        _ => {
            let inputs = node.inputs.iter().map(|input| take(before, input));
            run_owned(node, inputs.collect(), outputs, exec)?;
        }
    }
    if let (Some(trace), Some(start)) = (&exec.run.trace, start) {
        trace.record(node, start, outputs);
    }
    drop_unread(node, values);
    Ok(())
}

/// The value of an input, moved if nobody reads it afterwards.
fn take(values: &mut [Value], input: &InputSlot) -> Value {
    let value = &mut values[input.slot as usize];
    if input.last { std::mem::take(value) } else { value.clone() }
}

fn all_dead() -> Error {
    internal!("All inputs are dead")
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
        Action::Forward => outputs[0] = inputs.swap_remove(0),
        Action::Switch => {
            let selected = selected_output(&inputs[1], outputs.len())?;
            outputs[selected] = inputs.swap_remove(0);
        }
        Action::Merge => {
            let index = inputs.iter().position(|input| !matches!(input, Value::Absent));
            let index = index.ok_or_else(all_dead)?;
            outputs[0] = inputs.swap_remove(index);
            outputs[1] = Value::Tensor(Tensor::scalar(index as i32));
        }
        Action::Trigger => {}
        Action::Control(control) => control
            .run(inputs, outputs, node, exec)
            .map_err(|error| control.style.tell(error, &node.name))?,
    }
    Ok(())
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

/// The tensor of a value that is fetched.
pub(crate) fn fetched(value: Value) -> Result<Tensor> {
    match value {
        Value::Tensor(tensor) => Ok(tensor),
        Value::Ref(variable) => variable.read(),
        Value::Absent => Err(internal!("A dead value has no tensor")),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use tfcore_base::{Code, DType};
    use tfcore_framework::{AttrValue, Registry};
    use tfcore_graph::{Graph, Node, NodeBuilder, NodeId, OutputRef};
    use tfcore_tensor::Shape;

    use crate::device::DeviceInfo;
    use crate::place::{Placement, Placer};
    use crate::planner::{Kernels, Planner};

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

    fn functions_of(graph: &Graph) -> Arc<Functions> {
        let placer = Placer::new(&[DeviceInfo::cpu(0)], false, false);
        Arc::new(Functions::new(graph.registry().clone(), Arc::new(placer)))
    }

    pub(crate) fn plan_of(graph: &Graph, feeds: &[OutputRef], fetches: &[OutputRef]) -> Plan {
        let functions = functions_of(graph);
        functions.set_library(graph.library());
        let planner = Planner {
            registry: graph.registry(),
            functions: &functions,
            kernels: &Kernels::default(),
            nodes: &nodes_of(graph),
            placement: &Placement::default(),
            callers: &[],
            in_function: false,
        };
        planner.plan(feeds, fetches, &[]).unwrap()
    }

    pub(crate) fn vector(values: &[f32]) -> Tensor {
        Tensor::from_slice(Shape::vector(values.len()), values).unwrap()
    }

    pub(crate) fn run_of(graph: &Graph, pool: Option<Arc<Pool>>) -> Arc<Run> {
        let functions = functions_of(graph);
        Arc::new(Run {
            step: Arc::default(),
            others: Vec::new(),
            pool,
            trace: None,
            deadline: None,
            call_deadlines: None,
            functions,
            cause: OnceLock::new(),
        })
    }

    /// What both gears give for a plan fed with `x`.
    fn both_gears(graph: &Graph, plan: Plan, x: &Tensor) -> [Result<Vec<Tensor>>; 2] {
        let plan = Arc::new(plan);
        let tensors = |results: Outputs| results.into_iter().map(fetched).collect();
        let args = || [Value::Tensor(x.clone())].into_iter().collect();
        let straight = run(&plan, args(), &run_of(graph, None)).and_then(tensors);
        let Gear::Parallel(dependencies) = &plan.gear else { return [straight.clone(), straight] };
        let pool = Arc::new(Pool::new(3));
        let run = run_of(graph, Some(pool.clone()));
        let results = parallel::run(&plan, dependencies, args(), &pool, Exec::new(&run));
        [straight, results.and_then(tensors)]
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
            for result in both_gears(&graph, plan, &fed) {
                let values: Vec<Vec<f32>> =
                    result.unwrap().iter().map(|t| t.as_slice().unwrap().to_vec()).collect();
                assert_eq!(values, [[-2.0, 4.0], [-1.0, 2.0], [-3.0, 6.0], [-1.0, 2.0]]);
            }
            assert_eq!(fed.as_slice::<f32>().unwrap(), [1.0, -2.0]);
        }
    }

    #[test]
    fn the_caller_does_what_the_pool_does_not() {
        let mut graph = Graph::new(registry());
        let x = add(&mut graph, "Placeholder", "x", &[]);
        let mut sums: Vec<OutputRef> =
            (0..8).map(|i| add(&mut graph, "Neg", &format!("neg{i}"), &[x])).collect();
        while let [first, second, ..] = sums[..] {
            let name = format!("sum{}", graph.num_ids());
            sums.push(add(&mut graph, "AddV2", &name, &[first, second]));
            sums.drain(..2);
        }
        let plan = Arc::new(plan_of(&graph, &[x], &sums));
        let Gear::Parallel(dependencies) = &plan.gear else { panic!("the graph is wide") };
        // Threads that have something else to do are as good as none.
        let pool = Arc::new(Pool::new(2));
        let (release, wait) = std::sync::mpsc::channel::<()>();
        let wait = Arc::new(Mutex::new(wait));
        for _ in 0..2 {
            let wait = wait.clone();
            pool.spawn(Box::new(move || {
                let _ = wait.lock().recv();
            }));
        }
        let run = run_of(&graph, Some(pool.clone()));
        let args = [Value::Tensor(vector(&[1.0]))].into_iter().collect();
        let results = parallel::run(&plan, dependencies, args, &pool, Exec::new(&run)).unwrap();
        let sum = fetched(results[0].clone()).unwrap();
        assert_eq!(sum.as_slice::<f32>().unwrap(), [-8.0]);
        drop(release);
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
            for result in both_gears(&graph, plan_of(&graph, &[x], &[sum]), &vector(&[1.0])) {
                let error = result.unwrap_err();
                assert_eq!(error.code(), code);
                assert!(error.message().contains(message), "{error}");
                assert!(error.message().ends_with("[[{{node bad}}]]"), "{error}");
            }
        }
    }
}

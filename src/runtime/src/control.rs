//! Ops that run other plans: calls, conditionals and loops.

use std::collections::HashSet;
use std::sync::Arc;

use smallvec::SmallVec;
use tfcore_base::{DType, Error, Result, internal, invalid};
use tfcore_framework::{Attrs, Func, Outputs, Value, missing_output, truth, wrong_output_dtype};
use tfcore_graph::Node;
use tfcore_tensor::{TString, Tensor};

use crate::executor::{Exec, Within, call, no_selector, run_range};
use crate::functions::Function;
use crate::map::Map;
use crate::place::DeviceSpec;
use crate::plan::{Body, PlanNode, Slots};
use crate::planner::Planner;
use crate::repeat::{self, For, Repeat, While};
use crate::scalars::ScalarLoop;

/// A node with plans of its own.
pub(crate) struct Control {
    pub(crate) task: Task,
    pub(crate) style: Style,
}

/// How the reference runs the functions of a node, which its errors show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// It puts their nodes in place of the node.
    Inlined,
    /// It runs them apart.
    Called,
}

impl Style {
    /// Adds to an error that has left a function how the node `name` calls that.
    pub(crate) fn tell(self, error: Error, name: &str) -> Error {
        match self {
            Style::Inlined => error.inlined_at(name),
            Style::Called => error.called_by(name),
        }
    }
}

/// What it does.
pub(crate) enum Task {
    /// Calls the function with the inputs.
    Call {
        function: Arc<Function>,
        kind: CallKind,
    },
    /// Calls the function that the first input selects, with the other inputs.
    Branch {
        functions: Vec<Arc<Function>>,
        by_index: bool,
    },
    While {
        cond: Arc<Function>,
        body: Arc<Function>,
    },
    /// Calls the function with a counter before the other inputs.
    For {
        body: Arc<Function>,
    },
    /// Calls the function for every row.
    Map(Arc<Map>),
    Loop(Arc<Loop>),
}

/// The ops that call one function once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallKind {
    /// PartitionedCall, or a node that is called after the function.
    Call,
    /// RemoteCall, whose first input names the device. There is one memory for all.
    Remote,
    /// SymbolicGradient.
    Gradient,
}

impl CallKind {
    /// Takes from the inputs what is not for the function.
    ///
    /// # Errors
    /// What is wrong with a device's name.
    pub(crate) fn take_target(self, inputs: &mut Inputs, exec: Exec<'_>) -> Result<()> {
        match self {
            CallKind::Remote => check_target(&inputs.remove(0), exec),
            CallKind::Call | CallKind::Gradient => Ok(()),
        }
    }

    /// Makes the results as many as the outputs of `node`.
    ///
    /// # Errors
    /// `Internal` for an output that is read and that the function does not return.
    fn fit(self, results: &mut Outputs, node: &PlanNode) -> Result<()> {
        let (got, wanted) = (results.len(), node.num_outputs());
        if self == CallKind::Gradient && got != wanted {
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
}

/// The inputs of a node, in its own hands.
pub type Inputs = SmallVec<[Value; 3]>;

impl Control {
    /// What `node` does, if it is one of these ops or is called after a function. The functions are planned.
    pub(crate) fn of_node(node: &Node, planner: &Planner<'_>) -> Result<Option<Control>> {
        let function = |attr: &str| -> Result<Arc<Function>> {
            let func = node.attrs.func(attr)?;
            plan(planner, node, &func.name, &func.attrs)
        };
        let task = match &*node.op.name {
            "PartitionedCall" | "StatefulPartitionedCall" => {
                let name = &node.attrs.func("f")?.name;
                if !planner.functions.contains(name) {
                    return Err(invalid!("Failed to find function \"{name}\" in function library"));
                }
                let function = function("f")?;
                check_arity(&function, node)?;
                Task::Call { function, kind: CallKind::Call }
            }
            "SymbolicGradient" => {
                let func = node.attrs.func("f")?;
                let site = planner.call_site(node);
                let function = planner.functions.gradient_of(&func.name, &func.attrs, site);
                function.plan_with_caller(planner.functions, planner.callers)?;
                Task::Call { function, kind: CallKind::Gradient }
            }
            "RemoteCall" => Task::Call { function: function("f")?, kind: CallKind::Remote },
            "If" | "StatelessIf" | "_If" => Task::Branch {
                functions: vec![function("else_branch")?, function("then_branch")?],
                by_index: false,
            },
            "Case" | "StatelessCase" => {
                let branches = node.attrs.funcs("branches")?.iter();
                let functions = branches.map(|func| plan(planner, node, &func.name, &func.attrs));
                Task::Branch { functions: functions.collect::<Result<_>>()?, by_index: true }
            }
            "While" | "StatelessWhile" | "_While" => {
                let function = |attr: &str| -> Result<Arc<Function>> {
                    let func = node.attrs.func(attr)?;
                    Ok(planner.functions.get(&func.name, &func.attrs, planner.call_site(node)))
                };
                let (cond, body) = (function("cond")?, function("body")?);
                match planner.functions.while_loop(&cond, &body, planner.callers) {
                    Some(made) if made.takes(&node.input_dtypes) => Task::Loop(made),
                    _ => {
                        cond.plan_with_caller(planner.functions, planner.callers)?;
                        body.plan_with_caller(planner.functions, planner.callers)?;
                        Task::While { cond, body }
                    }
                }
            }
            "For" => Task::For { body: function("body")? },
            "MapDefun" => Task::Map(Arc::new(Map {
                function: function("f")?,
                num_mapped: node.attrs.dtypes("Targuments")?.len(),
                output_shapes: node.attrs.shapes("output_shapes")?.to_vec(),
            })),
            name if planner.functions.contains(name) => {
                let function = plan(planner, node, name, &node.attrs)?;
                Task::Call { function, kind: CallKind::Call }
            }
            _ => return Ok(None),
        };
        let is_inlined = match &task {
            Task::Call { kind, .. } => *kind == CallKind::Call,
            _ => node.attrs.bool("_lower_using_switch_merge").unwrap_or(false),
        };
        Ok(Some(Control { task, style: if is_inlined { Style::Inlined } else { Style::Called } }))
    }

    /// A loop of the graph as one node.
    pub(crate) fn lifted(made: Loop) -> Control {
        Control { task: Task::Loop(Arc::new(made)), style: Style::Inlined }
    }

    fn is_inlined(&self) -> bool {
        matches!(self.style, Style::Inlined)
    }

    /// Which op it is, if it calls one function.
    pub(crate) fn call_kind(&self) -> Option<CallKind> {
        match &self.task {
            Task::Call { kind, .. } => Some(*kind),
            _ => None,
        }
    }

    /// Whether a node within may wait for another node of the step.
    pub(crate) fn may_wait(&self) -> bool {
        match &self.task {
            Task::Call { function, .. } | Task::For { body: function } => function.may_wait(),
            Task::Branch { functions, .. } => functions.iter().any(|f| f.may_wait()),
            Task::While { cond, body } => cond.may_wait() || body.may_wait(),
            Task::Map(map) => map.function.may_wait(),
            Task::Loop(_) => false,
        }
    }

    /// A While, a For or a map at its beginning.
    pub(crate) fn repeat(&self, inputs: Inputs) -> Result<Box<dyn Repeat>> {
        Ok(match &self.task {
            Task::While { cond, body } => {
                Box::new(While::new(cond, body, inputs, self.is_inlined()))
            }
            Task::For { body } => Box::new(For::new(body, inputs)?),
            Task::Map(map) => Box::new(map.start(inputs)?),
            _ => return Err(internal!("The op calls its functions once")),
        })
    }

    /// Runs to the end on this thread.
    pub(crate) fn run(
        &self,
        mut inputs: Inputs,
        outputs: &mut [Value],
        node: &PlanNode,
        exec: Exec<'_>,
    ) -> Result<()> {
        let results = match &self.task {
            Task::Call { function, kind } => {
                kind.take_target(&mut inputs, exec)?;
                call(function, inputs, exec)?
            }
            Task::Branch { functions, by_index } => {
                let branch = select(functions, *by_index, inputs.remove(0))?;
                call(branch, inputs, exec)?
            }
            Task::While { .. } | Task::For { .. } | Task::Map(_) => {
                repeat::run(self.repeat(inputs)?, exec)?
            }
            Task::Loop(made) => return made.run(inputs, outputs, self.is_inlined(), exec),
        };
        set_outputs(results, outputs, node, self.call_kind())
    }
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

/// Checks that a call hands over as many values as the function has arguments.
fn check_arity(function: &Function, node: &Node) -> Result<()> {
    match function.known_plan() {
        Some(plan) if plan.arg_dtypes.len() != node.inputs.len() => Err(invalid!(
            "InstantiateOptions.input_devices must have the same length as the number of arguments: \
             input_devices length = {} number of arguments = {}",
            node.inputs.len(),
            plan.arg_dtypes.len()
        )),
        _ => Ok(()),
    }
}

/// The functions that `node` may call, each at most once, with its inputs from the one of this number on.
pub(crate) fn called_functions(
    node: &Node,
    planner: &Planner<'_>,
) -> Option<(Vec<Arc<Function>>, usize)> {
    let function =
        |func: &Func| planner.functions.get(&func.name, &func.attrs, planner.call_site(node));
    let named = |attr: &str| node.attrs.func(attr).ok().map(function);
    match &*node.op.name {
        "PartitionedCall" | "StatefulPartitionedCall" => Some((vec![named("f")?], 0)),
        "If" | "StatelessIf" => Some((vec![named("else_branch")?, named("then_branch")?], 1)),
        "Case" | "StatelessCase" => {
            Some((node.attrs.funcs("branches").ok()?.iter().map(function).collect(), 1))
        }
        name if planner.functions.contains(name) => {
            let function = planner.functions.get(name, &node.attrs, planner.call_site(node));
            Some((vec![function], 0))
        }
        _ => None,
    }
}

fn plan(planner: &Planner<'_>, node: &Node, name: &str, attrs: &Attrs) -> Result<Arc<Function>> {
    let function = planner.functions.get(name, attrs, planner.call_site(node));
    function.plan_with_caller(planner.functions, planner.callers)?;
    Ok(function)
}

/// Whether a condition says that a loop goes on. Switches, unlike While itself, want a scalar.
pub(crate) fn holds(condition: &Tensor, by_switches: bool) -> Result<bool> {
    match by_switches && condition.rank() != 0 {
        true => Err(no_selector(condition.shape())),
        false => truth(condition),
    }
}

/// Hands a function's results to its caller.
pub(crate) fn set_outputs(
    mut results: Outputs,
    outputs: &mut [Value],
    node: &PlanNode,
    kind: Option<CallKind>,
) -> Result<()> {
    if let Some(kind) = kind {
        kind.fit(&mut results, node)?;
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

/// A loop whose condition and body lie in one body, so that an iteration costs no more than its nodes.
pub(crate) struct Loop {
    /// The arguments are the variables and the invariants; the results are the condition and the variables'
    /// next values.
    body: Body,
    /// The first node that runs only if the condition holds.
    split: usize,
    /// For each variable, whether its last value is an output.
    exits: Vec<bool>,
    /// For each variable, whether its next value may be moved: nobody else wants it.
    moves: Vec<bool>,
    /// Whether all may: then no next value is a variable itself, and each can go straight to its place.
    all_move: bool,
    /// The loop on bare scalars, if it is nothing but arithmetic.
    scalars: Option<ScalarLoop>,
    /// The dtypes of the variables of a While.
    dtypes: Vec<DType>,
    /// The functions of a While: its condition and its body.
    functions: Option<[String; 2]>,
}

impl Loop {
    pub(crate) fn new(body: Body, split: usize, exits: Vec<bool>) -> Loop {
        let next = &body.results[1..];
        let outputs = body.args().end as u32;
        // Of several readers the last one may move.
        let mut read_later: HashSet<u32> = HashSet::from([body.results[0]]);
        let mut moves: Vec<bool> =
            next.iter().rev().map(|&slot| read_later.insert(slot) && slot >= outputs).collect();
        moves.reverse();
        let all_move = moves.iter().all(|&moves| moves);
        let scalars = ScalarLoop::new(&body, split);
        Loop { body, split, exits, moves, all_move, scalars, dtypes: Vec::new(), functions: None }
    }

    /// Notes the dtypes of the variables, and the functions that it was made of.
    pub(crate) fn with_functions(self, dtypes: Vec<DType>, cond: &str, body: &str) -> Loop {
        Loop { dtypes, functions: Some([cond.to_string(), body.to_string()]), ..self }
    }

    /// Notes in an error of the condition (0) or the body (1) which function it has left.
    fn leave(&self, part: usize, error: Error) -> Error {
        match &self.functions {
            Some(functions) => error.in_function(&functions[part]),
            None => error,
        }
    }

    /// Whether the variables have these dtypes.
    pub(crate) fn takes(&self, dtypes: &[DType]) -> bool {
        self.dtypes.iter().copied().eq(dtypes.iter().map(|dtype| dtype.base()))
    }

    /// As if made of Switches, where `by_switches`: they want a scalar for a condition.
    fn run(
        &self,
        inputs: Inputs,
        outputs: &mut [Value],
        by_switches: bool,
        exec: Exec<'_>,
    ) -> Result<()> {
        let mut slots = self.body.take_slots();
        let calls = self.functions.is_some() && !by_switches;
        let exec = exec.within(if calls { Within::Call } else { Within::Loop });
        let result = self.iterate(&mut slots, inputs, by_switches, exec);
        if result.is_ok() {
            let vars = &mut slots.values[self.body.args()];
            let exits = vars.iter_mut().zip(&self.exits).filter(|(_, exits)| **exits);
            for ((var, _), output) in exits.zip(outputs) {
                *output = std::mem::take(var);
            }
        }
        self.body.give_back(slots);
        result
    }

    fn iterate(
        &self,
        slots: &mut Slots,
        inputs: Inputs,
        by_switches: bool,
        exec: Exec<'_>,
    ) -> Result<()> {
        let (body, args) = (&self.body, self.body.args());
        for (slot, input) in slots.values[args.clone()].iter_mut().zip(inputs) {
            *slot = input;
        }
        // A trace is of nodes.
        if let (Some(scalars), None) = (&self.scalars, &exec.run.trace)
            && scalars.run(&mut slots.values, || exec.check())?
        {
            return Ok(());
        }
        let mut next: SmallVec<[Value; 8]> = SmallVec::new();
        loop {
            run_range(body, 0..self.split, slots, exec).map_err(|error| self.leave(0, error))?;
            let Value::Tensor(predicate) = &slots.values[body.results[0] as usize] else {
                return Err(invalid!("The condition of a loop is dead"));
            };
            if !holds(predicate, by_switches)? {
                return Ok(());
            }
            run_range(body, self.split..body.nodes.len(), slots, exec)
                .map_err(|error| self.leave(1, error))?;
            exec.check()?;
            if self.all_move {
                for (var, &slot) in args.clone().zip(&body.results[1..]) {
                    slots.values[var] = std::mem::take(&mut slots.values[slot as usize]);
                }
                continue;
            }
            for (&slot, &moves) in body.results[1..].iter().zip(&self.moves) {
                let value = &mut slots.values[slot as usize];
                next.push(if moves { std::mem::take(value) } else { value.clone() });
            }
            for (slot, value) in slots.values[args.clone()].iter_mut().zip(next.drain(..)) {
                *slot = value;
            }
        }
    }
}

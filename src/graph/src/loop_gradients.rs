//! Gradients of loops of the old kind.
//!
//! The loop is extended by a counter of its iterations, and by a list of the values that each variable had in them. A second
//! loop runs as often, takes the values off the lists from the end, computes the body again and carries the
//! gradients back through it. Values that no iteration changes need no list.

use std::collections::HashSet;

use tfcore_base::{DType, Result, invalid, unimplemented_error};
use tfcore_framework::{AttrValue, Operand, Output, Role};
use tfcore_tensor::Tensor;

use crate::copy::Copy;
use crate::gradient_scope::{Scope, to_output, to_ref};
use crate::loops::{BodyPart, Loop};
use crate::node::{NodeId, OutputRef};

/// How deep loops may lie in each other.
const MAX_DEPTH: usize = 32;

/// The gradients by what enters a loop, first by the variables, then by the invariants. `dys` are those by the variables'
/// last values, `wanted` says which of the results are of use.
pub(crate) fn loop_gradient(
    scope: &mut Scope<'_>,
    found: &Loop,
    dys: &[Option<Output>],
    wanted: &[bool],
) -> Result<Vec<Option<Output>>> {
    let count = found.variables.len();
    let mut results = vec![None; wanted.len()];
    let active = active_variables(scope, found, dys, wanted)?;
    if active.is_empty() {
        return Ok(results);
    }
    if scope.depth == MAX_DEPTH {
        return Err(invalid!(
            "Gradients of loops that lie more than {MAX_DEPTH} deep in each other"
        ));
    }
    let part = found.body(scope.graph, &active)?;
    let (forward, times) = Forward::new(scope, found)?;
    let prefix = scope.names.unique(scope.graph, "loop");
    let (backward, pivot) = Backward::new(scope, found, prefix.clone(), times)?;

    // The values of this iteration, in the second loop.
    let mut replaced: Vec<(OutputRef, OutputRef)> = Vec::new();
    let outer = scope.pivot;
    for &index in &part.variables {
        let variable = &found.variables[index];
        let value = if variable.is_constant() {
            backward.enter(scope, to_output(variable.first), true)?
        } else {
            let (all, dtype) = forward.collect(scope, variable.value())?;
            scope.pivot = Some(pivot);
            let value = backward.take_last(scope, all, dtype)?;
            scope.pivot = outer;
            value
        };
        replaced.push((variable.value(), to_ref(value)));
    }
    for &enter in &part.invariants {
        let source = scope.graph.node(enter).inputs[0].source;
        let value = backward.enter(scope, to_output(source), true)?;
        replaced.push((OutputRef::new(enter, 0), to_ref(value)));
    }
    check_repeatable(&part)?;
    let copy = Copy { replaced: &replaced, prefix: &prefix, control: pivot, renames_frames: true };
    let copied = copy.nodes(part.nodes, scope.graph)?;

    // The gradients by the variables go around; those that are left as they are collect what each iteration adds.
    let mut carried = Vec::with_capacity(active.len());
    let (mut ys, mut grads) = (Vec::new(), Vec::new());
    for &index in &active {
        let variable = &found.variables[index];
        let first = match dys[index] {
            Some(dy) => dy,
            None => {
                let last = scope.single(
                    "Exit",
                    Operand::One(Output { index: 0, ..to_output(variable.value()) }),
                )?;
                scope.single("ZerosLike", Operand::One(last))?
            }
        };
        let gradient = backward.variable(scope, first)?;
        if !variable.is_constant() {
            ys.push(
                copied
                    .find(variable.next)
                    .ok_or_else(|| invalid!("A loop variable has no next value"))?,
            );
            grads.push(gradient.value());
        }
        carried.push((index, gradient));
    }
    let invariants: Vec<(usize, NodeId)> = found
        .invariants
        .iter()
        .enumerate()
        .filter(|(index, enter)| {
            wanted[count + index] && part.invariants.binary_search(enter).is_ok()
        })
        .map(|(index, &enter)| (count + index, enter))
        .collect();
    let mut xs: Vec<OutputRef> = Vec::new();
    let find =
        |output: OutputRef| copied.find(output).ok_or_else(|| invalid!("A value was not copied"));
    let mut with_values = Vec::new();
    for (position, (index, _)) in carried.iter().enumerate() {
        if part.variables.binary_search(index).is_ok() {
            with_values.push(position);
            xs.push(find(found.variables[*index].value())?);
        }
    }
    for &(_, enter) in &invariants {
        xs.push(find(OutputRef::new(enter, 0))?);
    }
    let frontier: HashSet<NodeId> = replaced.iter().map(|(_, to)| to.node).collect();
    scope.pivot = Some(pivot);
    scope.depth += 1;
    let by_values = scope.backprop(&ys, &grads, &xs, Some(&frontier));
    scope.depth -= 1;
    let by_values = by_values?;
    let mut by_variables: Vec<Option<Output>> = vec![None; carried.len()];
    for (&position, grad) in with_values.iter().zip(&by_values) {
        by_variables[position] = *grad;
    }
    for ((index, gradient), grad) in carried.into_iter().zip(by_variables) {
        let is_constant = found.variables[index].is_constant();
        let next = match (grad, is_constant) {
            (Some(grad), true) => scope.pair("Add", gradient.value(), grad)?,
            (None, true) => gradient.value(),
            (Some(grad), false) => grad,
            (None, false) => scope.single("ZerosLike", Operand::One(gradient.value()))?,
        };
        scope.pivot = outer;
        let total = gradient.close(scope, next)?;
        scope.pivot = Some(pivot);
        if wanted[index] {
            results[index] = Some(total);
        }
    }
    for (&(index, enter), grad) in invariants.iter().zip(&by_values[with_values.len()..]) {
        scope.pivot = outer;
        let Some(grad) = *grad else {
            continue;
        };
        let source = scope.graph.node(enter).inputs[0].source;
        let zeros = scope.single("ZerosLike", Operand::One(to_output(source)))?;
        let sum = backward.variable(scope, zeros)?;
        let next = scope.pair("Add", sum.value(), grad)?;
        results[index] = Some(sum.close(scope, next)?);
    }
    scope.pivot = outer;
    backward.count_down(scope, pivot)?;
    forward.count_up(scope)?;
    Ok(results)
}

/// The variables that carry a gradient: an `x` has a part in them, and they in a `y`.
fn active_variables(
    scope: &Scope<'_>,
    found: &Loop,
    dys: &[Option<Output>],
    wanted: &[bool],
) -> Result<Vec<usize>> {
    let (by_variables, by_invariants) = wanted.split_at(found.variables.len());
    let all: Vec<usize> = (0..found.variables.len()).collect();
    let body = found.body(scope.graph, &all)?;
    let mut useful = by_variables.to_vec();
    let invariants = found.invariants.iter().zip(by_invariants);
    let invariants = invariants.filter(|(_, wanted)| **wanted).map(|(&enter, _)| enter);
    found.spread_forth(&body, &mut useful, invariants);
    let mut needed: Vec<bool> = dys.iter().map(Option::is_some).collect();
    found.spread_back(scope.graph, &mut needed);
    let mut active = Vec::new();
    for index in all {
        let dtype = scope.graph.output_dtype(found.variables[index].first)?.base();
        if useful[index] && needed[index] && (dtype.is_float() || dtype.is_complex()) {
            active.push(index);
        }
    }
    Ok(active)
}

/// The body is computed again, which must give the same values.
fn check_repeatable(part: &BodyPart) -> Result<()> {
    let changes = |node: &&std::sync::Arc<crate::Node>| {
        node.op.is_stateful
            && node.output_dtypes.iter().any(|dtype| dtype.is_plain())
            && node.role() != Role::ReadVariable
    };
    match part.nodes.iter().find(changes) {
        None => Ok(()),
        Some(node) => Err(unimplemented_error!(
            "The gradient of a loop whose body depends on {} '{}', which has a state",
            node.op.name,
            node.name
        )),
    }
}

/// What is added to the loop itself: a counter and lists of values.
struct Forward {
    counter: Variable,
}

impl Forward {
    /// The loop with a counter, and the number of iterations.
    fn new(scope: &mut Scope<'_>, found: &Loop) -> Result<(Forward, Output)> {
        let zero = scope.constant(Tensor::scalar(0i32), None)?;
        let frame = Frame {
            name: found.frame.clone(),
            parallel_iterations: found.parallel_iterations,
            condition: Some(to_output(found.condition)),
        };
        let counter = frame.variable(scope, zero)?;
        let times = scope.single("Exit", Operand::One(counter.switch))?;
        Ok((Forward { counter }, times))
    }

    /// The list of the values that `value` has in the iterations, and their dtype.
    fn collect(&self, scope: &mut Scope<'_>, value: OutputRef) -> Result<(Output, DType)> {
        let dtype = scope.graph.output_dtype(value)?.base();
        if dtype == DType::RESOURCE {
            return Err(unimplemented_error!(
                "The gradient of a loop with a resource that changes from one iteration to the next"
            ));
        }
        let unknown = scope.constant(Tensor::scalar(-1i32), None)?;
        let element = [("element_dtype", AttrValue::Type(dtype))];
        let empty = scope.node("EmptyTensorList", &[unknown, unknown], &element)?;
        let list = self.counter.frame.variable(scope, empty)?;
        let longer =
            scope.node("TensorListPushBack", &[list.value(), to_output(value)], &element)?;
        Ok((list.close(scope, longer)?, dtype))
    }

    fn count_up(self, scope: &mut Scope<'_>) -> Result<()> {
        let one = scope.constant(Tensor::scalar(1i32), Some(self.counter.switch))?;
        let next = scope.pair("Add", self.counter.value(), one)?;
        self.counter.go_around(scope, next)
    }
}

/// The second loop.
struct Backward {
    frame: Frame,
    counter: Variable,
}

impl Backward {
    /// The loop, and a node that runs in each of its iterations.
    fn new(
        scope: &mut Scope<'_>,
        found: &Loop,
        name: String,
        times: Output,
    ) -> Result<(Backward, NodeId)> {
        let mut frame =
            Frame { name, parallel_iterations: found.parallel_iterations, condition: None };
        let merge = frame.begin(scope, times)?;
        let zero = scope.constant(Tensor::scalar(0i32), Some(merge))?;
        let condition = scope.pair("Greater", merge, zero)?;
        frame.condition = Some(scope.single("LoopCond", Operand::One(condition))?);
        let counter = frame.decide(scope, merge)?;
        let pivot = scope.single("Identity", Operand::One(counter.value()))?;
        Ok((Backward { frame, counter }, to_ref(pivot).node))
    }

    /// A value from outside that is the same in all iterations.
    fn enter(&self, scope: &mut Scope<'_>, value: Output, is_constant: bool) -> Result<Output> {
        self.frame.enter(scope, value, is_constant)
    }

    fn variable(&self, scope: &mut Scope<'_>, first: Output) -> Result<Variable> {
        self.frame.variable(scope, first)
    }

    /// Takes the last value off a list that goes around.
    fn take_last(&self, scope: &mut Scope<'_>, list: Output, dtype: DType) -> Result<Output> {
        let rest = self.frame.variable(scope, list)?;
        let unknown = scope.constant(Tensor::scalar(-1i32), None)?;
        let element = [("element_dtype", AttrValue::Type(dtype))];
        let popped = scope.node("TensorListPopBack", &[rest.value(), unknown], &element)?;
        rest.go_around(scope, popped)?;
        Ok(popped.at(1))
    }

    fn count_down(self, scope: &mut Scope<'_>, pivot: NodeId) -> Result<()> {
        let one =
            scope.constant(Tensor::scalar(1i32), Some(to_output(OutputRef::new(pivot, 0))))?;
        let next = scope.pair("Sub", self.counter.value(), one)?;
        self.counter.go_around(scope, next)
    }
}

/// A frame in which variables go around.
#[derive(Clone)]
struct Frame {
    name: String,
    parallel_iterations: i64,
    /// The LoopCond, once it is there.
    condition: Option<Output>,
}

/// A loop variable that has no next value yet.
struct Variable {
    frame: Frame,
    merge: Output,
    switch: Output,
}

impl Frame {
    fn enter(&self, scope: &mut Scope<'_>, value: Output, is_constant: bool) -> Result<Output> {
        let attrs = [
            ("frame_name", AttrValue::string(&self.name)),
            ("is_constant", AttrValue::Bool(is_constant)),
            ("parallel_iterations", AttrValue::Int(self.parallel_iterations)),
        ];
        scope.node("Enter", &[value], &attrs)
    }

    /// The Merge of a variable that begins with `first`.
    fn begin(&self, scope: &mut Scope<'_>, first: Output) -> Result<Output> {
        let enter = self.enter(scope, first, false)?;
        scope.single("Merge", Operand::List(&[enter, enter]))
    }

    fn decide(&self, scope: &mut Scope<'_>, merge: Output) -> Result<Variable> {
        let condition = self.condition.ok_or_else(|| invalid!("A loop without a condition"))?;
        let switch = scope.pair("Switch", merge, condition)?;
        Ok(Variable { frame: self.clone(), merge, switch })
    }

    fn variable(&self, scope: &mut Scope<'_>, first: Output) -> Result<Variable> {
        let merge = self.begin(scope, first)?;
        self.decide(scope, merge)
    }
}

impl Variable {
    /// The value in the body.
    fn value(&self) -> Output {
        self.switch.at(1)
    }

    fn go_around(self, scope: &mut Scope<'_>, next: Output) -> Result<()> {
        let next = scope.single("NextIteration", Operand::One(next))?;
        scope.graph.set_input(to_ref(self.merge).node, 1, to_ref(next).into());
        Ok(())
    }

    /// Ends the variable, and returns its value after the last iteration.
    fn close(self, scope: &mut Scope<'_>, next: Output) -> Result<Output> {
        let exit = scope.single("Exit", Operand::One(self.switch))?;
        self.go_around(scope, next)?;
        Ok(exit)
    }
}

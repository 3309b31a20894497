//! Gradients of While: loops made of functions.
//!
//! The loop is run a second time, with a counter of its iterations and a list of the values that each variable had in
//! them. Another loop runs as often, takes the values off the lists from the end and carries the gradients back through
//! the body. Values that no iteration changes need no list.

use std::collections::HashMap;
use std::rc::Rc;

use tfcore_base::{DType, Result, invalid, unimplemented_error};
use tfcore_framework::{AttrList, AttrValue, Func, Gradients, Operand, Output};
use tfcore_tensor::{PartialShape, Tensor};

use crate::function_gradient::Wanted;
use crate::gradient_scope::{GradientFunction, Scope, func_attr, has_gradient, inputs_of, to_ref};
use crate::graph::FunctionBody;
use crate::node::{Node, NodeId, OutputRef};
use crate::reach::{reach, readers};
use crate::repeatable::check_repeatable;

/// The gradients by the first values of a loop's variables.
pub(crate) fn while_gradient(
    scope: &mut Scope<'_>,
    node: &Node,
    grads: &[Option<Output>],
    wanted: &[bool],
) -> Result<Gradients> {
    let mut results = vec![None; node.inputs.len()];
    let found = Loop::new(scope, node)?;
    let active = found.active(scope, grads, wanted)?;
    let moving: Vec<usize> =
        active.iter().copied().filter(|&index| !found.is_constant[index]).collect();
    let asked = Wanted { function: found.body, ys: &moving, xs: &active, zeros: &[] };
    let gradient = scope.gradient_function(&asked)?;
    let mut carried = Vec::with_capacity(active.len());
    for (position, &index) in active.iter().enumerate() {
        match gradient.dtypes[position] {
            // The derivative passes by all iterations.
            None if found.is_constant[index] => results[index] = grads[index],
            dtype => carried.push(Carried { index, dtype }),
        }
    }
    if carried.is_empty() {
        return Ok(results);
    }
    let needs_value = |index: usize| {
        let at = carried.binary_search_by_key(&index, |carried| carried.index);
        gradient.reads[index] || at.is_ok_and(|at| carried[at].dtype.is_none())
    };
    let saved: Vec<usize> = (0..node.inputs.len())
        .filter(|&index| !found.is_constant[index] && needs_value(index))
        .collect();
    if saved.iter().chain(&moving).any(|&index| found.dtype(index) == DType::RESOURCE) {
        return Err(unimplemented_error!(
            "The gradient of '{}', a loop with a resource that changes from one iteration to the next",
            node.name
        ));
    }
    let forward = found.run_again(scope, &saved)?;
    let backward = Backward { found: &found, gradient: &gradient, carried, moving, saved };
    for (index, total) in backward.run(scope, forward, grads)? {
        results[index] = Some(total);
    }
    Ok(results)
}

/// A loop variable with a gradient.
struct Carried {
    index: usize,
    /// The type of the derivative that an iteration adds; `None` if the next value does not depend on the variable.
    dtype: Option<DType>,
}

/// A node While.
struct Loop<'n> {
    node: &'n Node,
    inputs: Vec<Output>,
    cond: &'n Func,
    body: &'n Func,
    /// For each variable, whether the body hands it on as it is.
    is_constant: Vec<bool>,
}

impl<'n> Loop<'n> {
    fn new(scope: &Scope<'_>, node: &'n Node) -> Result<Loop<'n>> {
        let (cond, body) = (node.attrs.func("cond")?, node.attrs.func("body")?);
        let FunctionBody { graph, args, rets, .. } = scope.body(body)?;
        if (args.len(), rets.len()) != (node.inputs.len(), node.inputs.len()) {
            return Err(invalid!(
                "The body of loop '{}' has {} arguments and {} results where the loop has {} variables",
                node.name,
                args.len(),
                rets.len(),
                node.inputs.len()
            ));
        }
        let is_constant = |(&ret, &arg)| graph.node(ret).inputs[0].source == OutputRef::new(arg, 0);
        let is_constant = rets.iter().zip(&args).map(is_constant).collect();
        Ok(Loop { node, inputs: inputs_of(node), cond, body, is_constant })
    }

    /// The variables that carry a gradient: a wanted one has a part in them, and they in a result.
    fn active(
        &self,
        scope: &Scope<'_>,
        grads: &[Option<Output>],
        wanted: &[bool],
    ) -> Result<Vec<usize>> {
        let FunctionBody { graph, args, rets, .. } = scope.body(self.body)?;
        // What an iteration leaves behind is what the next one begins with.
        let by_arg: HashMap<NodeId, NodeId> =
            args.iter().copied().zip(rets.iter().copied()).collect();
        let by_ret: HashMap<NodeId, NodeId> =
            rets.iter().copied().zip(args.iter().copied()).collect();
        let readers = readers(graph.nodes());
        let begin = args.iter().zip(wanted).filter(|(_, wanted)| **wanted);
        let useful = reach(begin.map(|(&arg, _)| arg).collect(), |id, queue| {
            queue.extend(readers.get(&id).into_iter().flatten());
            queue.extend(by_ret.get(&id));
        });
        let end = rets.iter().zip(grads).filter(|(_, grad)| grad.is_some());
        let needed = reach(end.map(|(&ret, _)| ret).collect(), |id, queue| {
            queue.extend(graph.node(id).inputs.iter().map(|edge| edge.source.node));
            queue.extend(by_arg.get(&id));
        });
        let is_active = |&index: &usize| {
            let is_useful = wanted[index] || useful.contains(&rets[index]);
            let is_needed = grads[index].is_some() || needed.contains(&args[index]);
            is_useful && is_needed && has_gradient(self.dtype(index))
        };
        Ok((0..self.inputs.len()).filter(is_active).collect())
    }

    fn dtype(&self, index: usize) -> DType {
        self.node.input_dtypes[index].base()
    }

    fn dtypes(&self) -> Vec<DType> {
        (0..self.inputs.len()).map(|index| self.dtype(index)).collect()
    }

    /// Calls a function that may be as stateful as the loop is.
    fn call(
        &self,
        scope: &mut Scope<'_>,
        function: Func,
        inputs: &[Output],
        dtypes: Vec<DType>,
    ) -> Result<Output> {
        let is_stateful = self.node.op.is_stateful;
        let op = if is_stateful { "StatefulPartitionedCall" } else { "PartitionedCall" };
        let attrs = [("f", func_attr(function)), ("Tout", AttrValue::types(dtypes))];
        scope.list_node(op, &[Operand::List(inputs)], &attrs)
    }

    /// A loop of the kind of this one, whose results have these shapes.
    fn repeat(
        &self,
        scope: &mut Scope<'_>,
        cond: Func,
        body: Func,
        inputs: &[Output],
        shapes: Vec<PartialShape>,
    ) -> Result<Output> {
        let parallel = self.node.attrs.int("parallel_iterations")?;
        let attrs = [
            ("output_shapes", AttrValue::list(AttrList::Shape(shapes))),
            ("cond", func_attr(cond)),
            ("body", func_attr(body)),
            ("parallel_iterations", AttrValue::Int(parallel)),
        ];
        scope.list_node(&self.node.op.name, &[Operand::List(inputs)], &attrs)
    }

    /// Checks that the loop may run again; returns the type of what the condition yields.
    fn check(&self, scope: &Scope<'_>) -> Result<DType> {
        let mut dtype = DType::BOOL;
        for function in [self.body, self.cond] {
            let body = scope.body(function)?;
            let inner = body.graph.nodes().iter().map(|node| node.id);
            let inner: Vec<_> =
                inner.filter(|id| !body.args.contains(id) && !body.rets.contains(id)).collect();
            check_repeatable(&function.name, &body.graph, &inner)?;
            if let Some(&ret) = body.rets.first() {
                dtype = body.graph.output_dtype(body.graph.node(ret).inputs[0].source)?;
            }
        }
        Ok(dtype)
    }

    /// The number of iterations, and lists of the values that the `saved` variables had in them.
    fn run_again(&self, scope: &mut Scope<'_>, saved: &[usize]) -> Result<Forward> {
        let condition = self.check(scope)?;
        let count = self.inputs.len();
        // The variables, a counter, and the lists.
        let mut dtypes = self.dtypes();
        dtypes.push(DType::INT32);
        dtypes.extend(saved.iter().map(|_| DType::VARIANT));
        let name = format!("{}_counted", self.cond.name);
        let cond = scope.function_of(name, &dtypes, |scope, args| {
            Ok(vec![self.call(scope, self.cond.clone(), &args[..count], vec![condition])?])
        })?;
        let name = format!("{}_counted", self.body.name);
        let body = scope.function_of(name, &dtypes, |scope, args| {
            let (vars, dtypes) = (&args[..count], self.dtypes());
            let next = self.call(scope, self.body.clone(), vars, dtypes)?;
            let mut results: Vec<Output> = (0..count).map(|index| next.at(index as u32)).collect();
            let one = scope.constant(Tensor::scalar(1i32), None)?;
            results.push(scope.pair("AddV2", args[count], one)?);
            for (&index, &list) in saved.iter().zip(&args[count + 1..]) {
                let element = [("element_dtype", AttrValue::Type(self.dtype(index)))];
                results.push(scope.node("TensorListPushBack", &[list, vars[index]], &element)?);
            }
            Ok(results)
        })?;
        let mut inputs = self.inputs.clone();
        inputs.push(scope.constant(Tensor::scalar(0i32), None)?);
        for &index in saved {
            let unknown = scope.constant(Tensor::scalar(-1i32), None)?;
            let element = [("element_dtype", AttrValue::Type(self.dtype(index)))];
            inputs.push(scope.node("EmptyTensorList", &[unknown, unknown], &element)?);
        }
        let shapes = vec![PartialShape::unknown(); inputs.len()];
        let again = self.repeat(scope, cond, body, &inputs, shapes)?;
        let lists = (count + 1..inputs.len()).map(|index| again.at(index as u32)).collect();
        Ok(Forward { times: again.at(count as u32), lists })
    }
}

/// What there is to know of the iterations of a loop.
struct Forward {
    times: Output,
    lists: Vec<Output>,
}

/// The loop that carries the gradients back.
struct Backward<'a> {
    found: &'a Loop<'a>,
    /// Of the body.
    gradient: &'a Rc<GradientFunction>,
    /// In order, as are the next two.
    carried: Vec<Carried>,
    /// The variables whose next values the body's gradient has derivatives by.
    moving: Vec<usize>,
    saved: Vec<usize>,
}

impl Backward<'_> {
    /// The gradients by variables.
    fn run(
        &self,
        scope: &mut Scope<'_>,
        forward: Forward,
        grads: &[Option<Output>],
    ) -> Result<Vec<(usize, Output)>> {
        let found = self.found;
        // The number of iterations left, the gradients, the lists, and the values that stay.
        let mut inputs = vec![forward.times];
        for carried in &self.carried {
            inputs.push(match (grads[carried.index], carried.dtype) {
                (Some(grad), _) => grad,
                (None, Some(dtype)) if found.is_constant[carried.index] => {
                    scope.zeros_like(found.inputs[carried.index], dtype)?
                }
                (None, _) => {
                    let last = Output { node: found.node.id.0, index: carried.index as u32 };
                    scope.single("ZerosLike", Operand::One(last))?
                }
            });
        }
        inputs.extend(forward.lists);
        inputs.extend(self.staying().map(|index| found.inputs[index]));
        let mut dtypes = Vec::with_capacity(inputs.len());
        for &input in &inputs {
            dtypes.push(scope.graph.output_dtype(to_ref(input))?.base());
        }
        let name = format!("{}_left", found.cond.name);
        let cond = scope.function_of(name, &dtypes, |scope, args| {
            let zero = scope.constant(Tensor::scalar(0i32), None)?;
            Ok(vec![scope.pair("Greater", args[0], zero)?])
        })?;
        let name = format!("{}_backward", found.body.name);
        let body = scope.function_of(name, &dtypes, |scope, args| self.iteration(scope, args))?;
        // A derivative has the shape of the first value, whatever shapes the variable goes through.
        let mut shapes = vec![PartialShape::unknown(); inputs.len()];
        for (shape, carried) in shapes[1..].iter_mut().zip(&self.carried) {
            *shape = scope.gradient_shape(found.inputs[carried.index])?;
        }
        let done = found.repeat(scope, cond, body, &inputs, shapes)?;
        let totals = self.carried.iter().enumerate();
        Ok(totals.map(|(at, carried)| (carried.index, done.at(at as u32 + 1))).collect())
    }

    /// The variables whose first values are those of all iterations, or are good for what does not matter.
    fn staying(&self) -> impl Iterator<Item = usize> {
        (0..self.found.inputs.len()).filter(|index| self.saved.binary_search(index).is_err())
    }

    fn iteration(&self, scope: &mut Scope<'_>, args: &[Output]) -> Result<Vec<Output>> {
        let found = self.found;
        let one = scope.constant(Tensor::scalar(1i32), None)?;
        let left = scope.pair("Sub", args[0], one)?;
        let (grads, rest) = args[1..].split_at(self.carried.len());
        let (lists, staying) = rest.split_at(self.saved.len());
        // The values in this iteration.
        let mut values = vec![args[0]; found.inputs.len()];
        self.staying().zip(staying).for_each(|(index, &value)| values[index] = value);
        let mut shorter = Vec::with_capacity(lists.len());
        for (&index, &list) in self.saved.iter().zip(lists) {
            let unknown = scope.constant(Tensor::scalar(-1i32), None)?;
            let element = [("element_dtype", AttrValue::Type(found.dtype(index)))];
            let popped = scope.node("TensorListPopBack", &[list, unknown], &element)?;
            shorter.push(popped);
            values[index] = popped.at(1);
        }
        // All of the moving ones are carried.
        let dys = self.carried.iter().zip(grads);
        let dys = dys.filter(|(carried, _)| self.moving.binary_search(&carried.index).is_ok());
        let inputs: Vec<Output> = values.iter().copied().chain(dys.map(|(_, &dy)| dy)).collect();
        let dtypes: Vec<DType> = self.gradient.dtypes.iter().copied().flatten().collect();
        let call = match dtypes.is_empty() {
            true => None,
            false => {
                let function = scope.call_to(self.gradient);
                Some(found.call(scope, function, &inputs, dtypes)?)
            }
        };
        let mut results = vec![left];
        let mut outputs = (0..).map_while(|index| call.map(|call| call.at(index)));
        for (carried, &grad) in self.carried.iter().zip(grads) {
            let new = carried.dtype.and_then(|_| outputs.next());
            results.push(match (new, found.is_constant[carried.index]) {
                (Some(new), false) => new,
                (Some(new), true) => scope.single("AddN", Operand::List(&[grad, new]))?,
                (None, _) => scope.single("ZerosLike", Operand::One(values[carried.index]))?,
            });
        }
        results.extend(shorter);
        results.extend(staying);
        Ok(results)
    }
}

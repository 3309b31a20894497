//! Gradients of nodes that call functions: calls, conditionals, and SymbolicGradient itself.
//!
//! A call's gradient is a SymbolicGradient, as in the reference, which has the function's body differentiated when it
//! runs. A conditional's gradient is a conditional over gradient functions of the branches. Either computes the
//! function again.

use std::rc::Rc;

use tfcore_base::{DType, Result, invalid, unimplemented_error};
use tfcore_framework::{AttrList, AttrValue, Func, Gradients, Operand, Output, Role};
use tfcore_tensor::PartialShape;

use crate::function_gradient::Wanted;
use crate::gradient_scope::{GradientFunction, Scope, func_attr, has_gradient, inputs_of};
use crate::node::Node;
use crate::while_gradients::while_gradient;

/// The gradients by the inputs of a node that calls functions; `None` if it does not. `wanted` says which of them are of
/// use.
///
/// # Errors
/// See [`crate::Graph::add_gradients`], and `Unimplemented` for a function that has to be computed again and has a state.
pub(crate) fn call_gradient(
    scope: &mut Scope<'_>,
    node: &Node,
    grads: &[Option<Output>],
    wanted: &[bool],
) -> Result<Option<Gradients>> {
    // The reference's passes write `_If` and `_While`, which have no gradients.
    if grads.iter().all(Option::is_none) || node.op.name.starts_with('_') {
        return Ok(None);
    }
    let gradients = match node.role() {
        Role::Call => function_call(scope, node, node.attrs.func("f")?, grads, wanted)?,
        Role::If | Role::Case => branches(scope, node, grads, wanted)?,
        Role::While => while_gradient(scope, node, grads, wanted)?,
        Role::SymbolicGradient => second_derivative(scope, node, grads)?,
        Role::Function => {
            let function = Func { name: node.op.name.to_string(), attrs: node.attrs.clone() };
            function_call(scope, node, &function, grads, wanted)?
        }
        _ => return Ok(None),
    };
    Ok(Some(gradients))
}

fn function_call(
    scope: &mut Scope<'_>,
    node: &Node,
    function: &Func,
    grads: &[Option<Output>],
    wanted: &[bool],
) -> Result<Gradients> {
    let dtypes = node.input_dtypes.iter().chain(&node.output_dtypes);
    let has_own = scope.graph.library().gradient(&function.name).is_some();
    if has_own || dtypes.copied().all(DType::is_plain) {
        let dense = scope.dense(node, grads)?;
        let inputs = [inputs_of(node), dense].concat();
        // All attrs of the node go along, as they do in the reference.
        let mut attrs = function.attrs.clone();
        node.attrs.iter().for_each(|(name, value)| attrs.set(name.clone(), value.clone()));
        let dtypes = node.input_dtypes.iter().map(|dtype| dtype.base());
        let function = AttrValue::func(&*function.name, attrs);
        return symbolic_gradient(scope, &inputs, dtypes, function);
    }
    // Derivatives by resources are of other types than these, and there are no zeros like them.
    let asked = Asked::new(node, 0, grads, wanted);
    let gradient = asked.gradient_of(scope, function, &[])?;
    if gradient.dtypes.iter().all(Option::is_none) {
        return Ok(vec![None; node.inputs.len()]);
    }
    let inputs = [inputs_of(node), asked.dys].concat();
    let attrs = [
        ("f", func_attr(scope.call_to(&gradient))),
        ("Tout", AttrValue::types(gradient.dtypes.iter().copied().flatten())),
    ];
    let op = if node.op.is_stateful { "StatefulPartitionedCall" } else { "PartitionedCall" };
    let call = scope.list_node(op, &[Operand::List(&inputs)], &attrs)?;
    Ok(spread(node.inputs.len(), &asked.xs, &gradient.dtypes, call))
}

fn symbolic_gradient(
    scope: &mut Scope<'_>,
    inputs: &[Output],
    dtypes: impl Iterator<Item = DType>,
    function: AttrValue,
) -> Result<Gradients> {
    let dtypes: Vec<DType> = dtypes.collect();
    let has_gradients: Vec<bool> = dtypes.iter().map(|&dtype| has_gradient(dtype)).collect();
    let attrs = [("Tout", AttrValue::types(dtypes)), ("f", function)];
    let node = scope.list_node("SymbolicGradient", &[Operand::List(inputs)], &attrs)?;
    // The other outputs are there, but the reference would go on with zeros that are no derivatives.
    Ok((0..).zip(has_gradients).map(|(index, has)| has.then(|| node.at(index))).collect())
}

/// The gradient of a gradient: SymbolicGradient of the gradient function.
fn second_derivative(
    scope: &mut Scope<'_>,
    node: &Node,
    grads: &[Option<Output>],
) -> Result<Gradients> {
    let function = node.attrs.func("f")?;
    let (num_xs, num_inputs) = (node.num_outputs(), node.inputs.len());
    let ys: Vec<usize> = (0..num_inputs.saturating_sub(num_xs)).collect();
    let xs: Vec<usize> = (0..num_xs).collect();
    let own = scope.graph.library().gradient(&function.name).map(str::to_string);
    let gradient = match own {
        Some(name) => AttrValue::func(name, function.attrs.clone()),
        None if node.input_dtypes.iter().all(|dtype| dtype.is_plain()) => {
            let zeros: Vec<Option<DType>> = node.output_dtypes.iter().copied().map(Some).collect();
            let wanted = Wanted { function, ys: &ys, xs: &xs, zeros: &zeros };
            let gradient = scope.gradient_function(&wanted)?;
            func_attr(scope.call_to(&gradient))
        }
        None => {
            return Err(unimplemented_error!(
                "The gradient of SymbolicGradient '{}', which has inputs that are no plain tensors",
                node.name
            ));
        }
    };
    let inputs = [inputs_of(node), scope.dense(node, grads)?].concat();
    let dtypes = node.input_dtypes.iter().map(|dtype| dtype.base());
    symbolic_gradient(scope, &inputs, dtypes, gradient)
}

/// What is asked of the gradients of the functions that a node calls.
pub(crate) struct Asked {
    /// The results that there are derivatives by, and those.
    ys: Vec<usize>,
    pub(crate) dys: Vec<Output>,
    /// The arguments to differentiate by.
    pub(crate) xs: Vec<usize>,
}

impl Asked {
    /// The first inputs of the node, so many, are not for the function.
    fn new(node: &Node, skip: usize, grads: &[Option<Output>], wanted: &[bool]) -> Asked {
        let found = grads.iter().enumerate().filter_map(|(y, grad)| grad.map(|grad| (y, grad)));
        let (ys, dys) = found.filter(|&(y, _)| has_gradient(node.output_dtypes[y])).unzip();
        let is_x = |x: &usize| wanted[x + skip] && has_gradient(node.input_dtypes[x + skip]);
        Asked { ys, dys, xs: (0..node.inputs.len() - skip).filter(is_x).collect() }
    }

    fn gradient_of(
        &self,
        scope: &Scope<'_>,
        function: &Func,
        zeros: &[Option<DType>],
    ) -> Result<Rc<GradientFunction>> {
        scope.gradient_function(&Wanted { function, ys: &self.ys, xs: &self.xs, zeros })
    }
}

/// The outputs of a node with a result for each of the `xs` that has a derivative, by input.
fn spread(num_inputs: usize, xs: &[usize], dtypes: &[Option<DType>], node: Output) -> Gradients {
    let mut gradients = vec![None; num_inputs];
    let found = xs.iter().zip(dtypes).filter(|(_, dtype)| dtype.is_some());
    for (index, (&x, _)) in (0..).zip(found) {
        gradients[x] = Some(node.at(index));
    }
    gradients
}

fn branches(
    scope: &mut Scope<'_>,
    node: &Node,
    grads: &[Option<Output>],
    wanted: &[bool],
) -> Result<Gradients> {
    let by_index = node.role() == Role::Case;
    let functions: Vec<&Func> = match by_index {
        true => node.attrs.funcs("branches")?.iter().collect(),
        false => vec![node.attrs.func("then_branch")?, node.attrs.func("else_branch")?],
    };
    let mut asked = Asked::new(node, 1, grads, wanted);
    // Where one branch has a derivative, the others have zeros.
    let mut zeros: Vec<Option<DType>> = vec![None; asked.xs.len()];
    for function in &functions {
        let gradient = asked.gradient_of(scope, function, &[])?;
        for (known, new) in zeros.iter_mut().zip(&gradient.dtypes) {
            *known = known.or(*new);
        }
    }
    let mut depends = zeros.iter().map(Option::is_some);
    asked.xs.retain(|_| depends.next().unwrap_or(false));
    zeros.retain(Option::is_some);
    if asked.xs.is_empty() {
        return Ok(vec![None; node.inputs.len()]);
    }
    let mut calls = Vec::with_capacity(functions.len());
    for function in &functions {
        let gradient = asked.gradient_of(scope, function, &zeros)?;
        if gradient.dtypes != zeros {
            return Err(invalid!(
                "The branches of '{}' have gradients of different types",
                node.name
            ));
        }
        calls.push(scope.call_to(&gradient));
    }
    let inputs = inputs_of(node);
    let shapes: Vec<PartialShape> =
        asked.xs.iter().map(|x| scope.gradient_shape(inputs[x + 1])).collect::<Result<_>>()?;
    let mut attrs = vec![
        ("Tout", AttrValue::types(zeros.iter().copied().flatten())),
        ("output_shapes", AttrValue::list(AttrList::Shape(shapes))),
    ];
    if by_index {
        attrs.push(("branches", AttrValue::list(AttrList::Func(calls))));
    } else {
        let calls = calls.into_iter().map(func_attr);
        attrs.extend(["then_branch", "else_branch"].into_iter().zip(calls));
    }
    let arguments = [&inputs[1..], &asked.dys].concat();
    let operands = [Operand::One(inputs[0]), Operand::List(&arguments)];
    let conditional = scope.list_node(&node.op.name, &operands, &attrs)?;
    let mut gradients = vec![None];
    gradients.extend(spread(inputs.len() - 1, &asked.xs, &zeros, conditional));
    Ok(gradients)
}

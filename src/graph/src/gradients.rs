//! Gradients: nodes that compute the derivatives of some outputs by others, added to the graph.
//!
//! Reverse-mode differentiation. The nodes between the `xs` and the `ys` are gone through from the `ys` back. A node's turn
//! comes when all its consumers among them have had theirs; then the sum of what they handed back is the gradient by its
//! output, and the op's gradient function makes of it the gradients by its inputs. Nothing recurses, and each edge is
//! visited a fixed number of times.

use std::collections::{HashMap, VecDeque};

use smallvec::SmallVec;
use tfcore_base::{DType, Result, internal, invalid, not_found};
use tfcore_framework::{
    Gradient, GradientBuilder, GradientContext, GradientFn, GradientNode, GradientScope, Gradients,
    NodeRequest, Operand, Output,
};
use tfcore_tensor::{PartialShape, Tensor};

use crate::fold::constant_value;
use crate::name_scope::NameScope;
use crate::node::{NodeId, OutputRef};
use crate::{Graph, NodeBuilder};

/// What names begin with unless the client says otherwise.
const DEFAULT_PREFIX: &str = "gradients";

impl Graph {
    /// Adds the nodes that compute the derivatives of the sum of `ys` by each of `xs`, and returns those; `None` where
    /// nothing flows back, because an op on the way is constant in its input.
    ///
    /// `dys` are the derivatives of whatever is to be differentiated by the `ys`, one each; ones without. All names are in
    /// the scope `prefix`, without one in the first free of `gradients`, `gradients_1` and so on.
    ///
    /// # Errors
    /// `InvalidArgument` if the prefix is in use or no `y` depends on an `x`, `NotFound` for an op without a gradient, and
    /// what building nodes reports. The graph is then as it was.
    pub fn add_gradients(
        &mut self,
        ys: &[OutputRef],
        xs: &[OutputRef],
        dys: Option<&[OutputRef]>,
        prefix: Option<&str>,
    ) -> Result<Vec<Option<OutputRef>>> {
        for &output in ys.iter().chain(xs).chain(dys.unwrap_or_default()) {
            self.output_dtype(output)?;
        }
        if dys.is_some_and(|dys| dys.len() != ys.len()) {
            return Err(invalid!("Must specify a gradient input for each output."));
        }
        let prefix = match prefix {
            Some(prefix) => self.unused_prefix(prefix)?,
            None => self.default_prefix(),
        };
        let checkpoint = self.checkpoint();
        let scope = Scope { graph: self, names: NameScope::new(&prefix) };
        let outcome = differentiate(scope, ys, xs, dys);
        if outcome.is_err() {
            self.restore(checkpoint);
        }
        outcome
    }

    fn unused_prefix(&self, prefix: &str) -> Result<String> {
        if prefix.is_empty() {
            return Err(internal!(
                "BUG: The gradients prefix have been unexpectedly altered when adding the nodes to the graph. This is a \
                 bug. Please file an issue at https://github.com/tensorflow/tensorflow/issues."
            ));
        }
        if self.is_name_or_scope(prefix) {
            let inside = |name: &str| {
                name.strip_prefix(prefix)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            };
            let node = self.nodes().iter().find(|node| inside(&node.name));
            let name = node.map_or(prefix, |node| &node.name);
            return Err(invalid!(
                "prefix [{prefix}] conflicts with existing node in the graph named [{name}]"
            ));
        }
        Ok(prefix.to_string())
    }

    fn default_prefix(&self) -> String {
        NameScope::new("").unique(self, DEFAULT_PREFIX)
    }
}

/// The part of the graph where gradient nodes go.
struct Scope<'g> {
    graph: &'g mut Graph,
    names: NameScope,
}

impl GradientScope for Scope<'_> {
    fn add(&mut self, request: &NodeRequest<'_>) -> Result<u32> {
        let name = self.names.unique(self.graph, request.stem) + request.suffix;
        let mut builder = NodeBuilder::new(request.op, name);
        for operand in request.operands {
            match operand {
                Operand::One(output) => builder.add_input(to_ref(*output)),
                Operand::List(outputs) => {
                    builder.add_input_list(outputs.iter().copied().map(to_ref).collect());
                }
            }
        }
        for (name, value) in request.attrs {
            builder.set_attr(*name, value.clone());
        }
        for &control in request.controls {
            builder.add_control_input(NodeId(control));
        }
        builder.set_device(request.device);
        Ok(builder.finish(self.graph)?.0)
    }

    fn dtype(&self, output: Output) -> Result<DType> {
        self.graph.output_dtype(to_ref(output))
    }

    fn shape(&self, output: Output) -> Result<PartialShape> {
        self.graph.shape(to_ref(output)).cloned()
    }

    fn constant(&self, output: Output) -> Option<Tensor> {
        constant_value(self.graph, to_ref(output))
    }
}

fn to_ref(output: Output) -> OutputRef {
    OutputRef { node: NodeId(output.node), index: output.index }
}

fn to_output(output: OutputRef) -> Output {
    Output { node: output.node.0, index: output.index }
}

fn differentiate(
    mut scope: Scope<'_>,
    ys: &[OutputRef],
    xs: &[OutputRef],
    dys: Option<&[OutputRef]>,
) -> Result<Vec<Option<OutputRef>>> {
    let dys: Vec<Output> = match dys {
        Some(dys) => dys.iter().copied().map(to_output).collect(),
        None => ys
            .iter()
            .map(|&y| scope.single("OnesLike", Operand::One(to_output(y))))
            .collect::<Result<_>>()?,
    };
    let mut region = Region::between(scope.graph, xs, ys)?;
    let mut ready = VecDeque::new();
    for (y, dy) in ys.iter().zip(dys) {
        region.hand_back(*y, Some(dy), &mut ready);
    }
    let mut results = vec![None; xs.len()];
    while let Some(id) = ready.pop_front() {
        let grads = scope.sum_up(&mut region, id)?;
        for &index in region.requested.get(&id).map_or(&[][..], |list| list) {
            results[index] = grads[xs[index].port()].map(to_ref);
        }
        let node = scope.graph.node(id).clone();
        if !node.inputs.iter().any(|edge| region.contains(edge.source.node)) {
            continue;
        }
        let by_inputs = scope.gradients_by_inputs(id, &grads)?;
        for (index, edge) in node.inputs.iter().enumerate() {
            let Some(grad) = by_inputs.get(index) else {
                let count = by_inputs.len();
                return Err(internal!("Invalid gradient output index: {index} size: {count}"));
            };
            region.hand_back(edge.source, *grad, &mut ready);
        }
    }
    Ok(results)
}

impl Scope<'_> {
    /// A node of one argument.
    fn single(&mut self, op: &str, operand: Operand<'_>) -> Result<Output> {
        let node = self.add(&NodeRequest {
            op,
            stem: op,
            suffix: "",
            operands: &[operand],
            attrs: &[],
            controls: &[],
            device: "",
        })?;
        Ok(Output { node, index: 0 })
    }

    /// The gradients by the outputs of a node, of what its consumers have handed back.
    fn sum_up(&mut self, region: &mut Region, id: NodeId) -> Result<Gradients> {
        let mut parts: Vec<SmallVec<[Output; 2]>> =
            vec![SmallVec::new(); self.graph.node(id).num_outputs()];
        for (index, grad) in region.take(id) {
            parts[index as usize].push(grad);
        }
        parts
            .into_iter()
            .map(|parts| match &parts[..] {
                [] => Ok(None),
                [one] => Ok(Some(*one)),
                many => self.single("AddN", Operand::List(many)).map(Some),
            })
            .collect()
    }

    /// The gradients by the inputs of a node.
    fn gradients_by_inputs(&mut self, id: NodeId, grads: &[Option<Output>]) -> Result<Gradients> {
        let node = self.graph.node(id).clone();
        let nothing = || Ok(vec![None; node.inputs.len()]);
        if grads.iter().all(Option::is_none) {
            return nothing();
        }
        let function: GradientFn = match self.graph.registry().gradient(&node.op.name) {
            Gradient::Zero => return nothing(),
            Gradient::Function(function) => function,
            Gradient::Undefined => {
                return Err(not_found!(
                    "No gradient defined for op: {}. Please see \
                     https://www.tensorflow.org/code/tensorflow/cc/gradients/README.md for instructions on how to add \
                     C++ gradients.",
                    node.op.name
                ));
            }
        };
        // An output that nothing flows back from among others that have a gradient.
        let mut dense = Vec::with_capacity(grads.len());
        for (index, grad) in grads.iter().enumerate() {
            dense.push(match grad {
                Some(grad) => *grad,
                None => {
                    let output = to_output(OutputRef::new(id, index));
                    self.single("ZerosLike", Operand::One(output))?
                }
            });
        }
        let inputs: SmallVec<[Output; 4]> =
            node.inputs.iter().map(|edge| to_output(edge.source)).collect();
        let seen = GradientNode {
            op: &node.op.name,
            attrs: &node.attrs,
            inputs: &inputs,
            num_outputs: node.num_outputs(),
            id: id.0,
            grads: &dense,
        };
        let builder = GradientBuilder::new(self);
        let gradients = function(&GradientContext::new(&seen, &builder));
        builder.finish()?;
        gradients
    }
}

/// The nodes that depend on an `x` and that a `y` depends on.
struct Region {
    /// By node number: 1 + the position in `nodes`, or 0.
    positions: Vec<u32>,
    nodes: Vec<Pending>,
    /// The `x`s by node: their positions among the `x`s.
    requested: HashMap<NodeId, SmallVec<[usize; 1]>>,
}

/// A node whose gradient is being collected.
#[derive(Default)]
struct Pending {
    /// How many consumers have not handed anything back yet.
    missing: u32,
    /// Gradients by outputs.
    grads: SmallVec<[(u32, Output); 2]>,
}

impl Region {
    /// # Errors
    /// `InvalidArgument` if no `y` depends on one of the `xs`.
    fn between(graph: &Graph, xs: &[OutputRef], ys: &[OutputRef]) -> Result<Region> {
        let order = ancestors(graph, ys);
        let mut requested: HashMap<NodeId, SmallVec<[usize; 1]>> = HashMap::new();
        for (index, x) in xs.iter().enumerate() {
            requested.entry(x.node).or_default().push(index);
        }
        let mut region =
            Region { positions: vec![0; graph.num_ids()], nodes: Vec::new(), requested };
        // Inputs come before their consumers, so one pass tells what depends on an `x`.
        for id in order {
            let node = graph.node(id);
            let depends = node.inputs.iter().any(|edge| region.contains(edge.source.node));
            if !depends && !region.requested.contains_key(&id) {
                continue;
            }
            for edge in &node.inputs {
                if let Some(pending) = region.pending(edge.source.node) {
                    pending.missing += 1;
                }
            }
            region.nodes.push(Pending::default());
            region.positions[id.index()] = region.nodes.len() as u32;
        }
        if let Some(x) = xs.iter().find(|x| !region.contains(x.node)) {
            return Err(invalid!(
                "Cannot compute the partial derivative for node '{}' as it's unreachable from the output node(s).",
                graph.node(x.node).name
            ));
        }
        for y in ys {
            if let Some(pending) = region.pending(y.node) {
                pending.missing += 1;
            }
        }
        Ok(region)
    }

    fn contains(&self, id: NodeId) -> bool {
        self.positions[id.index()] != 0
    }

    fn pending(&mut self, id: NodeId) -> Option<&mut Pending> {
        match self.positions[id.index()] {
            0 => None,
            position => Some(&mut self.nodes[position as usize - 1]),
        }
    }

    /// What has been handed back to a node.
    fn take(&mut self, id: NodeId) -> SmallVec<[(u32, Output); 2]> {
        self.pending(id).map_or(SmallVec::new(), |pending| std::mem::take(&mut pending.grads))
    }

    /// Hands a gradient to the node it belongs to, which is ready when it has them all.
    fn hand_back(&mut self, to: OutputRef, grad: Option<Output>, ready: &mut VecDeque<NodeId>) {
        let Some(pending) = self.pending(to.node) else {
            return;
        };
        if let Some(grad) = grad {
            pending.grads.push((to.index, grad));
        }
        pending.missing -= 1;
        if pending.missing == 0 {
            ready.push_back(to.node);
        }
    }
}

/// The nodes that `ys` depend on through data, each after its inputs.
fn ancestors(graph: &Graph, ys: &[OutputRef]) -> Vec<NodeId> {
    let mut order = Vec::new();
    let mut entered = vec![false; graph.num_ids()];
    // A node, and how many of its inputs have been gone into.
    let mut stack: Vec<(NodeId, usize)> = Vec::new();
    for y in ys {
        if !std::mem::replace(&mut entered[y.node.index()], true) {
            stack.push((y.node, 0));
        }
        while let Some((id, next)) = stack.last_mut() {
            match graph.node(*id).inputs.get(*next) {
                Some(edge) => {
                    *next += 1;
                    let source = edge.source.node;
                    if !std::mem::replace(&mut entered[source.index()], true) {
                        stack.push((source, 0));
                    }
                }
                None => {
                    order.push(*id);
                    stack.pop();
                }
            }
        }
    }
    order
}

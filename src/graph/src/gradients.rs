//! Gradients: nodes that compute the derivatives of some outputs by others, added to the graph.
//!
//! Reverse-mode differentiation. The nodes between the `xs` and the `ys` are gone through from the `ys` back. A node's turn
//! comes when all its consumers among them have had theirs; then the sum of what they handed back is the gradient by its
//! output, and the op's gradient function makes of it the gradients by its inputs. Nothing recurses, and each edge is
//! visited a fixed number of times.

use std::collections::{HashMap, HashSet, VecDeque};
use std::rc::Rc;

use smallvec::SmallVec;
use tfcore_base::{Result, internal, invalid, not_found};
use tfcore_framework::{
    Gradient, GradientBuilder, GradientContext, GradientFn, GradientNode, Gradients, Operand,
    Output,
};

use crate::call_gradients::call_gradient;
use crate::function_gradient;
use crate::gradient_scope::{Request, Scope, to_output, to_ref};
use crate::loop_gradients::loop_gradient;
use crate::loops::Loop;
use crate::name_scope::NameScope;
use crate::node::{NodeId, OutputRef};
use crate::{FunctionBody, Graph};

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
        let request = Request::new(backprop);
        let scope = Scope {
            graph: self,
            names: NameScope::new(&prefix),
            pivot: None,
            depth: 0,
            request: request.clone(),
        };
        let outcome = differentiate(scope, ys, xs, dys)
            .and_then(|found| request.derived.borrow().add_to(self).map(|()| found));
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

    pub(crate) fn default_prefix(&self) -> String {
        NameScope::new("").unique(self, DEFAULT_PREFIX)
    }
}

impl FunctionBody {
    /// The body that takes the arguments and, for each result, a derivative by it, and returns the derivatives
    /// by the arguments: zeros where nothing depends on one. Functions that it needs are in the library of its graph.
    ///
    /// # Errors
    /// `NotFound` for an op without a gradient, and what building nodes reports.
    pub fn gradient(mut self) -> Result<FunctionBody> {
        let request = Request::new(backprop);
        let ys: Vec<usize> = (0..self.rets.len()).collect();
        let xs: Vec<usize> = (0..self.args.len()).collect();
        let found = function_gradient::differentiate(&mut self, &ys, &xs, &request, 0)?;
        let mut args = self.args;
        args.extend(found.dys.iter().map(|dy| dy.node));
        let mut rets = Vec::with_capacity(xs.len());
        for (x, dx) in found.xs.into_iter().zip(found.dxs) {
            let dx = match dx {
                Some(dx) => dx,
                None => {
                    let mut scope = Scope::new(&mut self.graph, &request, 0);
                    to_ref(scope.single("ZerosLike", Operand::One(to_output(x)))?)
                }
            };
            let dtype = self.graph.output_dtype(dx)?;
            rets.push(function_gradient::boundary(
                &mut self.graph,
                "_Retval",
                rets.len(),
                dtype,
                Some(dx),
            )?);
        }
        request.derived.borrow().add_to(&mut self.graph)?;
        Ok(FunctionBody { args, rets, ..self })
    }
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
    let grads = scope.backprop(ys, &dys, xs, None)?;
    Ok(grads.into_iter().map(|grad| grad.map(to_ref)).collect())
}

/// [`Scope::backprop`]
fn backprop(
    scope: &mut Scope<'_>,
    ys: &[OutputRef],
    dys: &[Output],
    xs: &[OutputRef],
    frontier: Option<&HashSet<NodeId>>,
) -> Result<Vec<Option<Output>>> {
    let mut region = Region::between(scope.graph, xs, ys, frontier)?;
    let mut ready = VecDeque::new();
    for (y, dy) in ys.iter().zip(dys) {
        region.hand_back(*y, Some(*dy), &mut ready);
    }
    let mut results = vec![None; xs.len()];
    while let Some(id) = ready.pop_front() {
        let grads = scope.sum_up(&mut region, id)?;
        for &index in region.requested.get(&id).map_or(&[][..], |list| list) {
            results[index] = grads[xs[index].port()];
        }
        let node = scope.graph.node(id).clone();
        if let Some(at) = region.loops.of_exit(id) {
            let Some((found, dys)) = region.loops.leave(at, id, grads[0]) else {
                continue;
            };
            let sources = found.sources(scope.graph);
            let wanted: Vec<bool> =
                sources.iter().map(|source| region.contains(source.node)).collect();
            let dys: Gradients = dys.iter().map(|parts| scope.sum(parts)).collect::<Result<_>>()?;
            let by_sources = loop_gradient(scope, &found, &dys, &wanted)?;
            for (source, grad) in sources.into_iter().zip(by_sources) {
                region.hand_back(source, grad, &mut ready);
            }
            continue;
        }
        let wanted: SmallVec<[bool; 4]> =
            node.inputs.iter().map(|edge| region.contains(edge.source.node)).collect();
        if !wanted.contains(&true) {
            continue;
        }
        let by_inputs = match call_gradient(scope, &node, &grads, &wanted)? {
            Some(gradients) => gradients,
            None => scope.gradients_by_inputs(id, &grads)?,
        };
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
    /// The gradients by the outputs of a node, of what its consumers have handed back.
    fn sum_up(&mut self, region: &mut Region, id: NodeId) -> Result<Gradients> {
        let mut parts: Vec<SmallVec<[Output; 2]>> =
            vec![SmallVec::new(); self.graph.node(id).num_outputs()];
        for (index, grad) in region.take(id) {
            parts[index as usize].push(grad);
        }
        parts.iter().map(|parts| self.sum(parts)).collect()
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
        let dense = self.dense(&node, grads)?;
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
    loops: Loops,
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
    /// `InvalidArgument` if no `y` depends on one of the `xs`, or for a loop that is not built as loops are.
    fn between(
        graph: &Graph,
        xs: &[OutputRef],
        ys: &[OutputRef],
        frontier: Option<&HashSet<NodeId>>,
    ) -> Result<Region> {
        let mut loops = Loops::default();
        let order = ancestors(graph, ys, frontier, &mut loops)?;
        let mut requested: HashMap<NodeId, SmallVec<[usize; 1]>> = HashMap::new();
        for (index, x) in xs.iter().enumerate() {
            requested.entry(x.node).or_default().push(index);
        }
        let mut region =
            Region { positions: vec![0; graph.num_ids()], nodes: Vec::new(), requested, loops };
        // Inputs come before their consumers, so one pass tells what depends on an `x`.
        for id in order {
            let known = region.loops.depends(id);
            let sources = match known {
                Some(_) => SmallVec::new(),
                None => region.loops.sources(graph, id),
            };
            let depends =
                known.unwrap_or_else(|| sources.iter().any(|source| region.contains(source.node)));
            region.loops.set_depends(id, depends);
            if !depends && !region.requested.contains_key(&id) {
                continue;
            }
            // What enters a loop hears from it once, however many exits it has.
            if region.loops.enter(id) {
                for source in sources {
                    if let Some(pending) = region.pending(source.node) {
                        pending.missing += 1;
                    }
                }
            }
            region.nodes.push(Pending::default());
            region.positions[id.index()] = region.nodes.len() as u32;
        }
        let unreached = xs.iter().find(|x| !region.contains(x.node));
        if let (Some(x), None) = (unreached, frontier) {
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

/// The loops among the ancestors, each of which counts as one node with several exits.
#[derive(Default)]
struct Loops {
    /// The loop of an exit, and the variable.
    by_exit: HashMap<NodeId, (usize, usize)>,
    all: Vec<PassedLoop>,
}

struct PassedLoop {
    found: Rc<Loop>,
    /// Whether what enters the loop has been gone through: for all of its exits at once.
    is_entered: bool,
    /// Whether what enters the loop depends on an `x`, once that is known.
    depends: Option<bool>,
    /// How many of its exits in the region have not had their turn.
    missing: usize,
    /// The gradients by the last values of its variables, from each exit.
    dys: Vec<Vec<Output>>,
}

impl Loops {
    /// Remembers the loop of an exit.
    fn add(&mut self, graph: &Graph, exit: NodeId) -> Result<()> {
        if self.by_exit.contains_key(&exit) {
            return Ok(());
        }
        let found = Loop::of_exit(graph, exit)?;
        for (index, variable) in found.variables.iter().enumerate() {
            let place = (self.all.len(), index);
            self.by_exit.extend(variable.exits.iter().map(|&exit| (exit, place)));
        }
        let dys = vec![Vec::new(); found.variables.len()];
        let found = Rc::new(found);
        self.all.push(PassedLoop { found, is_entered: false, depends: None, missing: 0, dys });
        Ok(())
    }

    fn of_exit(&self, id: NodeId) -> Option<usize> {
        self.by_exit.get(&id).map(|&(at, _)| at)
    }

    /// What a node reads; for an exit, what enters the loop.
    fn sources(&self, graph: &Graph, id: NodeId) -> SmallVec<[OutputRef; 4]> {
        match self.of_exit(id) {
            Some(at) => self.all[at].found.sources(graph).into(),
            None => graph.node(id).inputs.iter().map(|edge| edge.source).collect(),
        }
    }

    /// What a node reads that has not been gone through for another exit of the same loop.
    fn new_sources(&mut self, graph: &Graph, id: NodeId) -> SmallVec<[OutputRef; 4]> {
        match self.of_exit(id).map(|at| &mut self.all[at].is_entered) {
            Some(true) => SmallVec::new(),
            Some(is_entered) => {
                *is_entered = true;
                self.sources(graph, id)
            }
            None => self.sources(graph, id),
        }
    }

    /// Whether what an exit's loop reads depends on an `x`, if another exit has told.
    fn depends(&self, id: NodeId) -> Option<bool> {
        self.all[self.of_exit(id)?].depends
    }

    fn set_depends(&mut self, id: NodeId, depends: bool) {
        if let Some(at) = self.of_exit(id) {
            self.all[at].depends = Some(depends);
        }
    }

    /// Takes a node into the region; whether its sources have not been counted yet.
    fn enter(&mut self, id: NodeId) -> bool {
        match self.of_exit(id) {
            Some(at) => {
                self.all[at].missing += 1;
                self.all[at].missing == 1
            }
            None => true,
        }
    }

    /// Takes the gradient by an exit, and returns the loop with the gradients by all of its variables when this was the
    /// last one.
    fn leave(
        &mut self,
        at: usize,
        exit: NodeId,
        grad: Option<Output>,
    ) -> Option<(Rc<Loop>, Vec<Vec<Output>>)> {
        let passed = &mut self.all[at];
        if let Some(&(_, index)) = self.by_exit.get(&exit) {
            passed.dys[index].extend(grad);
        }
        passed.missing -= 1;
        (passed.missing == 0).then(|| (passed.found.clone(), std::mem::take(&mut passed.dys)))
    }
}

/// The nodes that `ys` depend on through data, each after its inputs. Of loops, there are the exits only.
///
/// # Errors
/// `InvalidArgument` for a `y` in a loop.
fn ancestors(
    graph: &Graph,
    ys: &[OutputRef],
    frontier: Option<&HashSet<NodeId>>,
    loops: &mut Loops,
) -> Result<Vec<NodeId>> {
    let mut order = Vec::new();
    let mut entered = vec![false; graph.num_ids()];
    // A node, what it reads, and how much of that has been gone into.
    let mut stack: Vec<(NodeId, SmallVec<[OutputRef; 4]>, usize)> = Vec::new();
    for y in ys {
        let mut found = Some(y.node);
        loop {
            let new = found.take().filter(|id| !std::mem::replace(&mut entered[id.index()], true));
            if let Some(id) = new {
                let node = graph.node(id);
                if node.is_exit() {
                    loops.add(graph, id)?;
                } else if node.is_next_iteration() {
                    return Err(invalid!(
                        "Cannot differentiate the value of node '{}' from inside its loop",
                        graph.node(y.node).name
                    ));
                }
                let is_last = frontier.is_some_and(|nodes| nodes.contains(&id));
                let sources = match is_last {
                    true => SmallVec::new(),
                    false => loops.new_sources(graph, id),
                };
                stack.push((id, sources, 0));
            }
            match stack.last_mut() {
                None => break,
                Some((_, sources, next)) if *next < sources.len() => {
                    found = Some(sources[*next].node);
                    *next += 1;
                }
                Some((id, ..)) => {
                    order.push(*id);
                    stack.pop();
                }
            }
        }
    }
    Ok(order)
}

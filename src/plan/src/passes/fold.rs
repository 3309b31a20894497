//! Fold: nodes that only read constants are computed once, when the plan is made, and identities are read through.
//!
//! A node keeps running if its value could differ or be missed: stateful nodes, nodes with control inputs, fed, fetched and
//! target nodes, nodes in loops, and nodes of which the kernel fails, so that a run reports its error. Values are bounded by the
//! static shapes, so that a small graph cannot stand for a large plan. Bodies of functions are left alone: traces list their nodes.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use smallvec::SmallVec;
use tfcore_base::Result;
use tfcore_framework::{KernelForm, OpContext, Role, Step, Value};
use tfcore_graph::{Node, NodeId, OutputRef};
use tfcore_math::pool::Parallel;
use tfcore_tensor::{Shape, Tensor};

use crate::constant::constant;
use crate::context::PassContext;
use crate::graph::PlanGraph;
use crate::loops::ROOT;
use crate::passes::pass::Pass;
use crate::passes::prune::prune;

/// Values of more bytes are computed by each run, as in the reference.
const MAX_BYTES: usize = 10 << 20;

/// All that a plan folds takes at most so many bytes, operands included.
const MAX_TOTAL: usize = 64 << 20;

/// See the module's documentation.
pub struct Fold;

impl Pass for Fold {
    fn name(&self) -> &'static str {
        "fold"
    }

    fn run(&self, graph: &mut PlanGraph<'_>, context: &PassContext<'_>) -> Result<()> {
        if context.in_function {
            return Ok(());
        }
        let kept = graph.source.results.iter().map(|output| output.node);
        let kept = kept.chain(graph.source.targets.iter().copied());
        let kept: HashSet<NodeId> = kept.chain(graph.fed.iter().map(|o| o.node)).collect();
        let has_folded = fold_constants(graph, context, &kept);
        let has_read_through = graph.frames.is_flat() && read_through(graph, &kept);
        if has_folded || has_read_through { prune(graph) } else { Ok(()) }
    }
}

/// Computes what only reads constants. Returns true if there was any.
fn fold_constants(
    graph: &mut PlanGraph<'_>,
    context: &PassContext<'_>,
    kept: &HashSet<NodeId>,
) -> bool {
    let mut is_constant: HashSet<NodeId> = HashSet::new();
    let mut constants: HashMap<NodeId, Tensor> = HashMap::new();
    let mut left = MAX_TOTAL;
    let mut step: Option<Arc<Step>> = None;
    let mut has_folded = false;
    for id in graph.order.clone() {
        let node = graph.node(id).clone();
        if !node.control_inputs.is_empty() || kept.contains(&id) || graph.frames.of(id) != ROOT {
            continue;
        }
        if node.is_const() {
            is_constant.insert(id);
            continue;
        }
        let reads_constants =
            node.inputs.iter().all(|edge| is_constant.contains(&edge.source.node));
        if !reads_constants || !may_fold(graph, &node) {
            continue;
        }
        let step = step.get_or_insert_with(Arc::default);
        if let Some(values) = compute(graph, context, &node, &mut constants, step, &mut left) {
            graph.set_values(id, values);
            is_constant.insert(id);
            has_folded = true;
        }
    }
    has_folded
}

/// True if a node computes the same value in each run, of a size that is known and small.
fn may_fold(graph: &PlanGraph<'_>, node: &Node) -> bool {
    let has_kernel_only = matches!(
        node.role(),
        Role::Plain
            | Role::Identity
            | Role::StopGradient
            | Role::Shape
            | Role::ShapeN
            | Role::Rank
            | Role::Size
            | Role::Cast
            | Role::Pack
            | Role::Concat
            | Role::ConcatV2
            | Role::StridedSlice
    );
    let is_small = |port: usize| bytes_of(graph, OutputRef::new(node.id, port)).is_some();
    has_kernel_only
        && !node.op.is_stateful
        && !node.inputs.is_empty()
        && node.num_outputs() > 0
        && (0..node.num_outputs()).all(is_small)
}

/// The size of an output, if it is known and may be folded.
fn bytes_of(graph: &PlanGraph<'_>, output: OutputRef) -> Option<usize> {
    let dtype = graph.dtype(output);
    if dtype.is_ref() || !dtype.is_plain() {
        return None;
    }
    let count = Shape::new(graph.shape(output)?).ok()?.count();
    count.checked_mul(dtype.size()).filter(|&bytes| bytes <= MAX_BYTES)
}

/// The outputs of a node that only reads constants; `None` if it does not compute them, or too much is folded already.
fn compute(
    graph: &PlanGraph<'_>,
    context: &PassContext<'_>,
    node: &Node,
    constants: &mut HashMap<NodeId, Tensor>,
    step: &Arc<Step>,
    left: &mut usize,
) -> Option<SmallVec<[Tensor; 1]>> {
    let mut inputs: SmallVec<[Value; 3]> = SmallVec::new();
    let mut bytes = 0;
    for edge in &node.inputs {
        let (source, port) = (edge.source.node, edge.source.port());
        let tensor = match graph.values(source) {
            Some(values) => values.get(port)?.clone(),
            None => match constants.get(&source) {
                Some(tensor) => tensor.clone(),
                None => {
                    let tensor = constant(graph.node(source)).ok()??;
                    constants.entry(source).or_insert(tensor).clone()
                }
            },
        };
        bytes += tensor.count().checked_mul(tensor.dtype().size())?;
        inputs.push(Value::Tensor(tensor));
    }
    for port in 0..node.num_outputs() {
        bytes += bytes_of(graph, OutputRef::new(node.id, port))?;
    }
    let rest = left.checked_sub(bytes)?;
    let kernel = context.kernel_of(node).ok()?;
    if matches!(kernel.form(), KernelForm::Waits | KernelForm::CallsFunctions) {
        return None;
    }
    let mut outputs: SmallVec<[Value; 1]> = SmallVec::from_elem(Value::Absent, node.num_outputs());
    let computed = catch_unwind(AssertUnwindSafe(|| {
        let dtypes = &node.output_dtypes;
        let mut op = OpContext::new(&mut inputs, &mut outputs, dtypes, step, Parallel::SERIAL);
        kernel.compute(&mut op)
    }));
    // An error, or a panic, is for the run to report.
    computed.ok()?.ok()?;
    *left = rest;
    let values = outputs.into_iter().zip(&node.output_dtypes).map(|(value, dtype)| match value {
        Value::Tensor(tensor) if tensor.dtype() == dtype.base() => Some(tensor),
        _ => None,
    });
    values.collect()
}

/// Reads the input of an identity instead of its output. Returns true if there was one. Nodes that run after an identity
/// without reading it still do.
fn read_through(graph: &mut PlanGraph<'_>, kept: &HashSet<NodeId>) -> bool {
    let mut passed: HashMap<NodeId, OutputRef> = HashMap::new();
    let mut changes = Vec::new();
    for &id in &graph.order {
        let node = graph.node(id);
        if graph.values(id).is_some() {
            continue;
        }
        for (index, edge) in node.inputs.iter().enumerate() {
            if let Some(&source) = passed.get(&edge.source.node)
                && !graph.fed.contains(&edge.source)
            {
                changes.push((id, index, source));
            }
        }
        let passes = matches!(node.role(), Role::Identity | Role::StopGradient)
            && node.inputs.len() == 1
            && node.control_inputs.is_empty()
            && !kept.contains(&id);
        if passes && !graph.dtype(node.inputs[0].source).is_ref() && !node.output_dtypes[0].is_ref()
        {
            let source = node.inputs[0].source;
            let first = match graph.fed.contains(&source) {
                true => source,
                false => passed.get(&source.node).copied().unwrap_or(source),
            };
            passed.insert(id, first);
        }
    }
    let has_changed = !changes.is_empty();
    changes.into_iter().for_each(|(id, index, source)| graph.set_input(id, index, source));
    has_changed
}

#[cfg(test)]
mod tests {
    use tfcore_base::{DType, internal};
    use tfcore_framework::{AttrValue, Registry};
    use tfcore_graph::{Graph, NodeBuilder};
    use tfcore_tensor::PartialShape;

    use super::*;
    use crate::passes;
    use crate::testing::{self, add, graph_of, vector, with_context};

    /// All values are vectors of two elements.
    fn registry() -> Arc<Registry> {
        testing::registry_with(|registry| {
            registry.op("Log").compute(|_| Err(internal!("fails")));
            for name in ["Const", "Neg", "AddV2", "Exp", "Log"] {
                registry.op(name).shape(|ctx| {
                    ctx.set_output(0, PartialShape::from_i64s(&[2])?);
                    Ok(())
                });
            }
        })
    }

    fn constant(graph: &mut Graph, name: &str, values: &[f32]) -> OutputRef {
        let mut builder = NodeBuilder::new("Const", name);
        builder.set_attr("dtype", AttrValue::Type(DType::FLOAT));
        builder.set_attr("value", AttrValue::tensor(vector(values)));
        OutputRef::new(builder.finish(graph).unwrap(), 0)
    }

    /// The nodes that are left after all passes, folded ones in brackets.
    fn folded(graph: &Graph, feeds: &[OutputRef], fetches: &[OutputRef]) -> Vec<String> {
        graph_of(graph, feeds, fetches, &[], |plan_graph| {
            with_context(graph, |context| passes::run(passes::ALL, plan_graph, context)).unwrap();
            let name = |&id: &NodeId| match plan_graph.values(id) {
                Some(_) => format!("[{}]", plan_graph.node(id).name),
                None => plan_graph.node(id).name.to_string(),
            };
            plan_graph.order.iter().map(name).collect()
        })
    }

    #[test]
    fn constants_are_folded_and_identities_read_through() {
        let mut graph = Graph::new(registry());
        let x = add(&mut graph, "Placeholder", "x", &[]);
        let c = constant(&mut graph, "c", &[1.0, 2.0]);
        let a = add(&mut graph, "Neg", "a", &[c]);
        let b = add(&mut graph, "AddV2", "b", &[a, c]);
        let same = add(&mut graph, "Identity", "same", &[x]);
        let y = add(&mut graph, "AddV2", "y", &[same, b]);
        assert_eq!(folded(&graph, &[x], &[y]), ["[b]", "y"]);
        // Results and fed nodes stay, and what depends on a feed.
        assert_eq!(folded(&graph, &[x], &[b]), ["c", "[a]", "b"]);
        assert_eq!(folded(&graph, &[x, a], &[y]), ["c", "b", "y"]);
        assert_eq!(folded(&graph, &[x], &[same]), ["same"]);
    }

    #[test]
    fn errors_are_left_to_the_run() {
        let mut graph = Graph::new(registry());
        let c = constant(&mut graph, "c", &[1.0, 2.0]);
        let bad = add(&mut graph, "Log", "bad", &[c]);
        let panics = add(&mut graph, "Exp", "panics", &[c]);
        let sum = add(&mut graph, "AddV2", "sum", &[bad, panics]);
        assert_eq!(folded(&graph, &[], &[sum]), ["c", "panics", "bad", "sum"]);
    }
}

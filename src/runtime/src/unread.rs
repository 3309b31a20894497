//! Inputs that the functions of a node do not read.
//!
//! The reference puts functions in place of their calls before it looks for what a request needs: what feeds nothing but
//! an unread argument does not run, and may be a placeholder without a value. Here the node reads a zero instead.

use std::collections::HashSet;
use std::sync::Arc;

use tfcore_base::{DType, Result};
use tfcore_framework::AttrValue;
use tfcore_graph::{Graph, Node, NodeBuilder, NodeId, OutputRef};
use tfcore_tensor::{Shape, Tensor};

use crate::control::called_functions;
use crate::functions::Parts;
use crate::planner::Planner;
use crate::prune::needed_nodes;

/// The planner's nodes with zeros for what is not read, where there is such a thing in `order`; the zeros lie behind the others.
pub(crate) fn without_unread(planner: &Planner<'_>, order: &[NodeId]) -> Option<Vec<Arc<Node>>> {
    if planner.functions.is_empty() {
        return None;
    }
    let nodes = order.iter().map(|id| &planner.nodes[id.index()]);
    let may_be_dead = nodes.clone().any(|node| is_switch(node));
    let mut changed: Option<Vec<Arc<Node>>> = None;
    for node in nodes {
        let unread = unread_inputs(planner, node);
        // What reads nothing any more would not be dead where it should be.
        if unread.is_empty() || may_be_dead && unread.len() == node.inputs.len() {
            continue;
        }
        let nodes = changed.get_or_insert_with(|| planner.nodes.to_vec());
        let mut node = Node::clone(node);
        for input in unread {
            let Ok(zero) = zero(planner, node.input_dtypes[input], nodes.len()) else { continue };
            node.inputs[input] = OutputRef::new(zero.id, 0).into();
            nodes.push(Arc::new(zero));
        }
        let index = node.id.index();
        nodes[index] = Arc::new(node);
    }
    changed
}

/// Whether some output is dead.
fn is_switch(node: &Node) -> bool {
    matches!(&*node.op.name, "Switch" | "RefSwitch" | "_SwitchN")
}

/// The inputs that none of the functions reads which `node` may call.
fn unread_inputs(planner: &Planner<'_>, node: &Node) -> Vec<usize> {
    let Some((functions, first)) = called_functions(node, planner) else { return Vec::new() };
    let mut unread: Vec<usize> = (first..node.inputs.len()).collect();
    unread.retain(|&input| node.input_dtypes[input].is_plain());
    for function in functions {
        if unread.is_empty() {
            break;
        }
        let reads = function.reads(planner.functions, planner.callers);
        unread.retain(|&input| reads.get(input - first) == Some(&false));
    }
    unread
}

/// Which arguments the results of a body come from. Where it does something besides, all of them: it has to wait for them.
pub(crate) fn read_args(planner: &Planner<'_>, parts: &Parts) -> Result<Vec<bool>> {
    let needed = |nodes: &[Arc<Node>]| needed_nodes(nodes, &[], &parts.results, &[]);
    let mut order = needed(planner.nodes)?;
    if let Some(nodes) = without_unread(planner, &order) {
        order = needed(&nodes)?;
    }
    let order: HashSet<NodeId> = order.into_iter().collect();
    let has_effects = parts.targets.iter().any(|target| !order.contains(target));
    Ok(parts.args.iter().map(|arg| has_effects || order.contains(&arg.node)).collect())
}

/// A constant that becomes the node of this number.
fn zero(planner: &Planner<'_>, dtype: DType, number: usize) -> Result<Node> {
    let mut graph = Graph::new(planner.functions.registry().clone());
    let mut builder = NodeBuilder::new("Const", "unread");
    builder.set_attr("dtype", AttrValue::Type(dtype));
    builder.set_attr("value", AttrValue::tensor(Tensor::zeros(dtype, Shape::scalar())?));
    let id = builder.finish(&mut graph)?;
    Ok(Node { id: NodeId(number as u32), ..Node::clone(graph.node(id)) })
}

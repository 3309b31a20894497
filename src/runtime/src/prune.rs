//! Which nodes a request needs, and in which order they can run.

use std::collections::HashSet;
use std::sync::Arc;

use tfcore_base::{Result, invalid, unimplemented_error};
use tfcore_graph::{Node, NodeId, OutputRef};

/// The nodes that fetches and targets depend on, each after those it reads, stopping at fed outputs.
///
/// # Errors
/// `InvalidArgument` if the nodes form a cycle, `Unimplemented` if it is a loop.
pub(crate) fn needed_nodes(
    nodes: &[Arc<Node>],
    feeds: &[OutputRef],
    fetches: &[OutputRef],
    targets: &[NodeId],
) -> Result<Vec<NodeId>> {
    let fed: HashSet<OutputRef> = feeds.iter().copied().collect();
    let mut seen = vec![false; nodes.len()];
    let mut order = Vec::new();
    let mut stack: Vec<(NodeId, bool)> = Vec::new();
    let roots = fetches
        .iter()
        .filter(|output| !fed.contains(output))
        .map(|output| output.node)
        .chain(targets.iter().copied());
    for root in roots {
        stack.push((root, false));
        while let Some((id, inputs_done)) = stack.pop() {
            if inputs_done {
                order.push(id);
                continue;
            }
            if std::mem::replace(&mut seen[id.index()], true) {
                continue;
            }
            stack.push((id, true));
            let node = &nodes[id.index()];
            let data = node.inputs.iter().filter(|edge| !fed.contains(&edge.source));
            let sources = data.map(|edge| edge.source.node).chain(controls(nodes, &fed, node));
            // A source that is seen but not in the order yet closes a cycle; the check below reports it.
            stack.extend(
                sources.filter(|source| !seen[source.index()]).map(|source| (source, false)),
            );
        }
    }
    check_order(nodes, &fed, &order)?;
    Ok(order)
}

/// The nodes that must have run before `node`. A placeholder that is fed has, with its feed.
fn controls<'n>(
    nodes: &'n [Arc<Node>],
    fed: &'n HashSet<OutputRef>,
    node: &'n Node,
) -> impl Iterator<Item = NodeId> + 'n {
    node.control_inputs.iter().copied().filter(move |&id| {
        let is_placeholder = matches!(&*nodes[id.index()].op.name, "Placeholder" | "PlaceholderV2");
        !(is_placeholder && fed.contains(&OutputRef::new(id, 0)))
    })
}

fn check_order(nodes: &[Arc<Node>], fed: &HashSet<OutputRef>, order: &[NodeId]) -> Result<()> {
    let mut emitted = vec![false; nodes.len()];
    for &id in order {
        let node = &nodes[id.index()];
        let data = node.inputs.iter().filter(|edge| !fed.contains(&edge.source));
        let mut sources = data.map(|edge| edge.source.node).chain(controls(nodes, fed, node));
        if let Some(source) = sources.find(|source| !emitted[source.index()]) {
            let source = &nodes[source.index()];
            if source.is_next_iteration() {
                return Err(unimplemented_error!("Loops (at node '{}')", source.name));
            }
            return Err(invalid!("The graph has a cycle through node '{}'", node.name));
        }
        emitted[id.index()] = true;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::tests::{add, nodes_of, registry};
    use tfcore_graph::{Graph, NodeBuilder};

    #[test]
    fn only_what_is_needed_runs() {
        let mut graph = Graph::new(registry());
        let x = add(&mut graph, "Placeholder", "x", &[]);
        let a = add(&mut graph, "Neg", "a", &[x]);
        let b = add(&mut graph, "Neg", "b", &[a]);
        let mut builder = NodeBuilder::new("NoOp", "after");
        builder.add_control_input(x.node);
        builder.add_control_input(b.node);
        let after = builder.finish(&mut graph).unwrap();
        let nodes = nodes_of(&graph);
        let cases: [(&[OutputRef], &[OutputRef], &[NodeId], &[&str]); 5] = [
            (&[], &[b], &[], &["x", "a", "b"]),
            (&[x], &[b], &[], &["a", "b"]),
            (&[a], &[b], &[], &["b"]),
            (&[b], &[], &[b.node], &["x", "a", "b"]),
            (&[x], &[a], &[after], &["a", "b", "after"]),
        ];
        for (feeds, fetches, targets, expected) in cases {
            let order = needed_nodes(&nodes, feeds, fetches, targets).unwrap();
            let names: Vec<&str> = order.iter().map(|id| &*nodes[id.index()].name).collect();
            assert_eq!(names, expected, "{feeds:?} {fetches:?} {targets:?}");
        }
    }
}

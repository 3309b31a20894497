//! Which nodes a request needs, and in which order they can run.

use std::collections::HashSet;
use std::sync::Arc;

use tfcore_base::{Result, invalid};
use tfcore_graph::{Node, NodeId, OutputRef};

/// The nodes that fetches and targets depend on, each after those it reads, stopping at fed outputs. The back edge
/// of a loop, from a NextIteration to a Merge, does not count for the order.
///
/// # Errors
/// `InvalidArgument` if the nodes form any other cycle.
pub(crate) fn needed_nodes(
    nodes: &[Arc<Node>],
    feeds: &[OutputRef],
    fetches: &[OutputRef],
    targets: &[NodeId],
) -> Result<Vec<NodeId>> {
    let fed: HashSet<OutputRef> = feeds.iter().copied().collect();
    let mut search =
        Search { nodes, fed: &fed, state: vec![State::New; nodes.len()], order: Vec::new() };
    let fetched = fetches.iter().filter(|output| !fed.contains(output)).map(|output| output.node);
    let mut roots: Vec<NodeId> = fetched.chain(targets.iter().copied()).collect();
    // What comes back to a Merge is needed too, but after the Merge.
    while !roots.is_empty() {
        let mut back = Vec::new();
        for root in roots {
            search.visit(root, &mut back)?;
        }
        roots = back;
    }
    Ok(search.order)
}

/// A depth-first search, by hand: a chain of a million nodes must not need a million stack frames.
struct Search<'n> {
    nodes: &'n [Arc<Node>],
    fed: &'n HashSet<OutputRef>,
    state: Vec<State>,
    order: Vec<NodeId>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    New,
    /// Its sources are being visited.
    Open,
    Done,
}

impl Search<'_> {
    /// Puts `root` and all that it depends on into the order; `back` receives the sources of back edges.
    fn visit(&mut self, root: NodeId, back: &mut Vec<NodeId>) -> Result<()> {
        let mut stack = vec![root];
        while let Some(&id) = stack.last() {
            match self.state[id.index()] {
                State::New => {
                    self.state[id.index()] = State::Open;
                    self.push_sources(id, &mut stack, back)?;
                }
                State::Open => {
                    self.state[id.index()] = State::Done;
                    self.order.push(id);
                    stack.pop();
                }
                State::Done => {
                    stack.pop();
                }
            }
        }
        Ok(())
    }

    fn push_sources(
        &self,
        id: NodeId,
        stack: &mut Vec<NodeId>,
        back: &mut Vec<NodeId>,
    ) -> Result<()> {
        let node = &*self.nodes[id.index()];
        for source in sources(self.nodes, self.fed, node) {
            match self.state[source.index()] {
                State::New if is_back_edge(self.nodes, source, node) => back.push(source),
                State::New => stack.push(source),
                State::Open if !is_back_edge(self.nodes, source, node) => {
                    return Err(invalid!("The graph has a cycle through node '{}'", node.name));
                }
                State::Open | State::Done => {}
            }
        }
        Ok(())
    }
}

/// Whether values travel from `source` back to `node`, which begins an iteration of a loop.
pub(crate) fn is_back_edge(nodes: &[Arc<Node>], source: NodeId, node: &Node) -> bool {
    node.is_merge() && nodes[source.index()].is_next_iteration()
}

/// The nodes that `node` reads, or runs after. Back edges are among them.
pub(crate) fn sources<'n>(
    nodes: &'n [Arc<Node>],
    fed: &'n HashSet<OutputRef>,
    node: &'n Node,
) -> impl Iterator<Item = NodeId> + 'n {
    let data = node.inputs.iter().filter(|edge| !fed.contains(&edge.source));
    data.map(|edge| edge.source.node).chain(controls(nodes, fed, node))
}

/// The nodes that must have run before `node`. A placeholder that is fed has, with its feed.
fn controls<'n>(
    nodes: &'n [Arc<Node>],
    fed: &'n HashSet<OutputRef>,
    node: &'n Node,
) -> impl Iterator<Item = NodeId> + 'n {
    node.control_inputs.iter().copied().filter(move |&id| {
        let is_placeholder =
            matches!(&*nodes[id.index()].op.name, "Placeholder" | "PlaceholderV2" | "_Arg");
        !(is_placeholder && fed.contains(&OutputRef::new(id, 0)))
    })
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

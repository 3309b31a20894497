//! Prune: which nodes run, and in which order.

use tfcore_base::{Result, invalid};
use tfcore_graph::NodeId;

use crate::context::PassContext;
use crate::graph::PlanGraph;
use crate::passes::pass::Pass;

/// Finds the nodes that results and targets depend on, each after those it reads, stopping at fed outputs. The back edge
/// of a loop, from a NextIteration to a Merge, does not count for the order.
pub struct Prune;

impl Pass for Prune {
    fn name(&self) -> &'static str {
        "prune"
    }

    fn is_required(&self) -> bool {
        true
    }

    fn run(&self, graph: &mut PlanGraph<'_>, _: &PassContext<'_>) -> Result<()> {
        prune(graph)
    }
}

/// As the pass.
///
/// # Errors
/// `InvalidArgument` if the nodes form a cycle that is no loop.
pub fn prune(graph: &mut PlanGraph<'_>) -> Result<()> {
    let state = vec![State::New; graph.num_ids()];
    let mut search = Search { graph, state, order: Vec::new() };
    let results = graph.source.results.iter().filter(|output| !graph.fed.contains(*output));
    let targets = graph.source.targets.iter().copied();
    let mut roots: Vec<NodeId> = results.map(|output| output.node).chain(targets).collect();
    // What comes back to a Merge is needed too, but after the Merge.
    while !roots.is_empty() {
        let mut back = Vec::new();
        for root in roots {
            search.visit(root, &mut back)?;
        }
        roots = back;
    }
    graph.order = search.order;
    Ok(())
}

/// A depth-first search, by hand: a chain of a million nodes must not need a million stack frames.
struct Search<'n> {
    graph: &'n PlanGraph<'n>,
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
        let node = self.graph.node(id);
        for source in self.graph.sources(node) {
            match self.state[source.index()] {
                State::New if self.graph.is_back_edge(source, node) => back.push(source),
                State::New => stack.push(source),
                State::Open if !self.graph.is_back_edge(source, node) => {
                    return Err(invalid!("The graph has a cycle through node '{}'", node.name));
                }
                State::Open | State::Done => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{add, graph_of, registry};
    use tfcore_graph::{Graph, NodeBuilder, OutputRef};

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
        let nodes = &graph;
        let cases: [(&[OutputRef], &[OutputRef], &[NodeId], &[&str]); 5] = [
            (&[], &[b], &[], &["x", "a", "b"]),
            (&[x], &[b], &[], &["a", "b"]),
            (&[a], &[b], &[], &["b"]),
            (&[b], &[], &[b.node], &["x", "a", "b"]),
            (&[x], &[a], &[after], &["a", "b", "after"]),
        ];
        for (feeds, fetches, targets, expected) in cases {
            let pruned = graph_of(nodes, feeds, fetches, targets, |graph| {
                prune(graph).unwrap();
                graph.order.iter().map(|&id| graph.node(id).name.to_string()).collect()
            });
            let names: Vec<String> = pruned;
            assert_eq!(names, expected, "{feeds:?} {fetches:?} {targets:?}");
        }
    }
}

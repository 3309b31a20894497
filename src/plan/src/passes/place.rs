//! Place: the devices of nodes that passes have added. Those of the client's nodes are found when a session takes them in.

use tfcore_base::Result;

use crate::context::PassContext;
use crate::graph::PlanGraph;
use crate::passes::pass::Pass;

/// Puts each added node where its first reader is.
pub struct Place;

impl Pass for Place {
    fn name(&self) -> &'static str {
        "place"
    }

    fn is_required(&self) -> bool {
        true
    }

    fn run(&self, graph: &mut PlanGraph<'_>, _: &PassContext<'_>) -> Result<()> {
        let first_added = graph.source.nodes.len();
        let mut placed = Vec::new();
        for &id in graph.order.iter().filter(|_| graph.num_ids() > first_added) {
            for edge in &graph.node(id).inputs {
                if edge.source.node.index() >= first_added {
                    placed.push((edge.source.node, graph.device(id)));
                }
            }
        }
        // The first reader comes last, and stays.
        placed.into_iter().rev().for_each(|(id, device)| graph.set_device(id, device));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tfcore_graph::{Graph, Node, NodeId, OutputRef};

    use super::*;
    use crate::testing::{add, graph_of, registry, with_context};

    #[test]
    fn an_added_node_is_where_it_is_read() {
        let mut graph = Graph::new(registry());
        let x = add(&mut graph, "Placeholder", "x", &[]);
        let a = add(&mut graph, "Neg", "a", &[x]);
        graph_of(&graph, &[x], &[a], &[], |plan_graph| {
            plan_graph.set_device(a.node, 3);
            let copy = Node::clone(plan_graph.node(x.node));
            let copy = plan_graph.add(copy);
            assert_eq!(copy, NodeId(graph.num_ids() as u32));
            plan_graph.set_input(a.node, 0, OutputRef::new(copy, 0));
            plan_graph.order = vec![copy, a.node];
            with_context(&graph, |context| Place.run(plan_graph, context)).unwrap();
            assert_eq!(plan_graph.device(copy), 3);
        });
    }
}

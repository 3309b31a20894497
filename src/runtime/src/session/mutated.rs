//! What a session checks of a graph whose nodes were changed after they had been added.
//!
//! Building and import see to it that types fit and that only loops have cycles. The graph's mutators do not.

use std::sync::Arc;

use tfcore_base::{Result, invalid};
use tfcore_graph::{Node, SOURCE};

/// How many nodes of a cycle its message names.
const MAX_NAMES: usize = 3;

/// Checks the nodes from number `first` on, and that no cycle is closed.
///
/// # Errors
/// `InvalidArgument` for edges that do not fit and for cycles, `NotFound` for an attr that tells the type of an
/// input or output and is not there.
pub(crate) fn check_nodes(nodes: &[Arc<Node>], first: usize) -> Result<()> {
    check_acyclic(nodes)?;
    nodes[first..].iter().try_for_each(|node| check_edges(nodes, node))
}

fn check_edges(nodes: &[Arc<Node>], node: &Node) -> Result<()> {
    let missing_attr = |error: tfcore_base::Error| {
        let error = error.at_node(&node.name);
        let message = format!("{}\n\t [[{}]]", error.message(), node.name);
        error.with_message(message)
    };
    let expected = node.op.input_dtypes(&node.attrs).map_err(missing_attr)?;
    node.op.output_dtypes(&node.attrs).map_err(missing_attr)?;
    if expected.len() != node.inputs.len() {
        return Err(invalid!(
            "Node '{}' has {} inputs, and its attrs tell of {}",
            node.name,
            node.inputs.len(),
            expected.len()
        ));
    }
    for (input, (edge, expected)) in node.inputs.iter().zip(expected).enumerate() {
        if edge.source.node == SOURCE {
            continue;
        }
        let from = &nodes[edge.source.node.index()];
        let Some(&actual) = from.output_dtypes.get(edge.source.port()) else {
            return Err(invalid!(
                "Node '{}': Connecting to invalid output {} of source node {} which has {} outputs.",
                node.name,
                edge.source.index,
                from.name,
                from.num_outputs()
            ));
        };
        if actual != expected && actual.base() != expected {
            return Err(invalid!(
                "Input {input} of node {} was passed {actual} from {}:{} incompatible with expected \
                 {expected}.",
                node.name,
                from.name,
                edge.source.index
            ));
        }
    }
    Ok(())
}

/// Takes away nodes that wait for none, until only cycles and what waits for them are left. A Merge does not wait for the
/// NextIteration of its loop.
fn check_acyclic(nodes: &[Arc<Node>]) -> Result<()> {
    let mut pending = vec![0usize; nodes.len()];
    let mut waiting: Vec<Vec<u32>> = vec![Vec::new(); nodes.len()];
    for node in nodes {
        let closes_loop = |source: &Node| node.is_merge() && source.is_next_iteration();
        let data = node.inputs.iter().map(|edge| edge.source.node);
        let data = data.filter(|id| !closes_loop(&nodes[id.index()]));
        for source in data.chain(node.control_inputs.iter().copied()) {
            waiting[source.index()].push(node.id.0);
            pending[node.id.index()] += 1;
        }
    }
    let mut ready: Vec<usize> = (0..nodes.len()).filter(|&node| pending[node] == 0).collect();
    let mut left = nodes.len();
    while let Some(node) = ready.pop() {
        left -= 1;
        for &consumer in &waiting[node] {
            let count = &mut pending[consumer as usize];
            *count -= 1;
            if *count == 0 {
                ready.push(consumer as usize);
            }
        }
    }
    if left == 0 {
        return Ok(());
    }
    let names: Vec<&str> = nodes
        .iter()
        .filter(|node| pending[node.id.index()] > 0)
        .map(|node| &*node.name)
        .take(MAX_NAMES)
        .collect();
    Err(invalid!(
        "Graph is invalid, contains a cycle with {left} nodes, including: {}",
        names.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use tfcore_framework::AttrValue;
    use tfcore_graph::{Graph, OutputRef};

    use super::*;
    use tfcore_plan::testing::{add, nodes_of, registry};

    /// x, a = -x, b = -a, c = -b.
    fn chain() -> (Graph, [OutputRef; 4]) {
        let mut graph = Graph::new(registry());
        let x = add(&mut graph, "Placeholder", "x", &[]);
        let a = add(&mut graph, "Neg", "a", &[x]);
        let b = add(&mut graph, "Neg", "b", &[a]);
        let c = add(&mut graph, "Neg", "c", &[b]);
        (graph, [x, a, b, c])
    }

    #[test]
    fn what_mutators_leave_unchecked_is_found() {
        type Mutate = fn(&mut Graph, [OutputRef; 4]);
        let cases: [(Mutate, &str); 6] = [
            (|_, _| (), ""),
            (|graph, [x, _, b, _]| graph.update_edge(x, b.node, 0).unwrap(), ""),
            (
                |graph, [_, a, b, _]| graph.update_edge(b, a.node, 0).unwrap(),
                "Graph is invalid, contains a cycle with 3 nodes, including: a, b, c",
            ),
            (
                |graph, [x, _, _, c]| graph.add_control_input(x.node, c.node),
                "Graph is invalid, contains a cycle with 4 nodes, including: x, a, b",
            ),
            (
                |graph, [_, _, b, _]| {
                    graph.set_attr(b.node, "T", AttrValue::Type(tfcore_base::DType::INT32));
                },
                "Input 0 of node b was passed float from a:0 incompatible with expected int32.",
            ),
            (
                |graph, [_, _, b, _]| graph.clear_attr(b.node, "T"),
                "No attr named 'T' in NodeDef:\n\t [[{{node b}}]]\n\t [[b]]",
            ),
        ];
        for (mutate, expected) in cases {
            let (mut graph, outputs) = chain();
            mutate(&mut graph, outputs);
            let message = check_nodes(&nodes_of(&graph), 0).err();
            let message = message.as_ref().map_or("", |error| error.message());
            assert_eq!(message, expected);
        }
    }

    #[test]
    fn an_output_that_is_gone_is_found() {
        let (mut graph, [x, a, ..]) = chain();
        let split = add(&mut graph, "Neg", "split", &[x]);
        graph.update_edge(split, a.node, 0).unwrap();
        let mut nodes = nodes_of(&graph);
        Arc::make_mut(&mut nodes[split.node.index()]).output_dtypes.clear();
        let error = check_nodes(&nodes, a.node.index()).unwrap_err();
        assert!(error.message().contains("Connecting to invalid output 0 of source node split"));
    }
}

//! `Retval`: what messages call a fetch. Clients see the numbers and names of TensorFlow's rewritten graph, which
//! has feeds and fetches in the order of their names, and a node of its own for each fetch.

use std::sync::Arc;

use tfcore_base::{Error, failed_precondition, internal, invalid};
use tfcore_framework::Value;
use tfcore_graph::{Node, OutputRef};

/// What messages call a fetch.
pub struct Retval {
    /// Where it stands among the fetches, ordered by name.
    position: usize,
    /// Name of the node that is fetched, and the number of its output.
    source: (Box<str>, u32),
}

impl Retval {
    /// The fetches of a request, in its order.
    pub fn all(nodes: &[Arc<Node>], fetches: &[OutputRef]) -> Vec<Retval> {
        let positions = positions(nodes, fetches);
        let retval = |(output, position): (&OutputRef, usize)| Retval {
            position,
            source: (nodes[output.node.index()].name.to_string().into(), output.index),
        };
        fetches.iter().zip(positions).map(retval).collect()
    }

    /// The error of a fetch inside of a loop that has a value in a second iteration.
    pub fn set_twice(&self) -> Error {
        let error = internal!("Retval[{}] has already been set.", self.position);
        error.at_node(&self.node_name())
    }

    fn uninitialized(&self) -> Error {
        let (name, port) = &self.source;
        let error = match port {
            0 => failed_precondition!("Attempting to use uninitialized value {name}"),
            _ => failed_precondition!("Attempting to use uninitialized value {name}:{port}"),
        };
        error.at_node(&self.node_name())
    }

    fn node_name(&self) -> String {
        let (name, port) = &self.source;
        format!("_retval_{name}_{port}_{}", self.position)
    }
}

/// Where each output stands when they are ordered by name, as text.
pub fn positions(nodes: &[Arc<Node>], outputs: &[OutputRef]) -> Vec<usize> {
    let name = |o: &OutputRef| format!("{}:{}", nodes[o.node.index()].name, o.index);
    let mut order: Vec<usize> = (0..outputs.len()).collect();
    order.sort_by_cached_key(|&index| name(&outputs[index]));
    let mut positions = vec![0; outputs.len()];
    for (position, index) in order.into_iter().enumerate() {
        positions[index] = position;
    }
    positions
}

/// The error of results of which some are no tensors: the first by position, those that are not initialized before
/// those that are dead.
pub fn missing(retvals: &[Retval], results: &[Value]) -> Error {
    let bad = |is_bad: fn(&Value) -> bool| {
        let fetches = retvals.iter().zip(results).filter(|(_, value)| is_bad(value));
        fetches.map(|(retval, _)| retval).min_by_key(|retval| retval.position)
    };
    if let Some(retval) = bad(|value| matches!(value, Value::Ref(_))) {
        return retval.uninitialized();
    }
    let dead = bad(|value| matches!(value, Value::Absent));
    invalid!("Retval[{}] does not have value", dead.map_or(0, |retval| retval.position))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{add, nodes_of, registry};
    use tfcore_graph::Graph;

    #[test]
    fn fetches_are_numbered_by_name() {
        let mut graph = Graph::new(registry());
        let b = add(&mut graph, "Placeholder", "b", &[]);
        let a10 = add(&mut graph, "Neg", "a10", &[b]);
        let a2 = add(&mut graph, "Neg", "a2", &[b]);
        let nodes = nodes_of(&graph);
        assert_eq!(positions(&nodes, &[b, a2, a10, b]), [2, 1, 0, 3]);
        let retvals = Retval::all(&nodes, &[b, a2, a10]);
        let message = |results: &[Value]| missing(&retvals, results).message().to_string();
        let dead = [Value::Absent, Value::Absent, Value::Absent];
        assert_eq!(message(&dead), "Retval[0] does not have value");
        let expected = "Retval[1] has already been set.\n\t [[{{node _retval_a2_0_1}}]]";
        assert_eq!(retvals[1].set_twice().message(), expected);
    }
}

//! What can be reached from some nodes.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::node::{Node, NodeId};

/// The nodes that are reached from those in `queue`, which count as reached. `follow` adds what comes after a node, and is
/// asked once for each.
pub(crate) fn reach(
    mut queue: Vec<NodeId>,
    follow: impl Fn(NodeId, &mut Vec<NodeId>),
) -> HashSet<NodeId> {
    let mut reached = HashSet::new();
    while let Some(id) = queue.pop() {
        if reached.insert(id) {
            follow(id, &mut queue);
        }
    }
    reached
}

/// Which of `nodes` read the outputs of a node.
pub(crate) fn readers(nodes: &[Arc<Node>]) -> HashMap<NodeId, Vec<NodeId>> {
    let mut readers: HashMap<NodeId, Vec<NodeId>> = HashMap::new();
    for node in nodes {
        for edge in &node.inputs {
            readers.entry(edge.source.node).or_default().push(node.id);
        }
    }
    readers
}

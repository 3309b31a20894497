//! Finding nodes by name, and telling names from scopes.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::{Arc, Mutex, PoisonError};

use crate::Name;
use crate::name_table::NameTable;
use crate::node::{Node, NodeId, SINK};

/// The nodes of a graph by name. The names themselves stand in the nodes.
#[derive(Default)]
pub(crate) struct Names {
    table: NameTable,
    /// Brought up to date when somebody asks for a scope, which most programs never do. Behind a lock, as
    /// asking changes it.
    sorted: Mutex<Sorted>,
}

/// The names in order, by which the scope `a/b` is in front of the names of all nodes in it.
#[derive(Default)]
struct Sorted {
    names: BTreeSet<Name>,
    /// The nodes below this number are in it.
    len: usize,
}

impl Names {
    pub(crate) fn find(&self, nodes: &[Arc<Node>], name: &str) -> Option<NodeId> {
        self.table.find(name, |number| &nodes[number as usize].name).map(NodeId)
    }

    /// Notes the name of a node, which must be new.
    pub(crate) fn insert(&mut self, name: &str, id: NodeId) {
        self.table.insert(name, id.0);
    }

    pub(crate) fn reserve(&mut self, additional: usize) {
        self.table.reserve(additional);
    }

    /// Forgets nodes, of which the first has number `start`.
    pub(crate) fn remove(&mut self, start: usize, nodes: &[Arc<Node>]) {
        let sorted = self.sorted.get_mut().unwrap_or_else(PoisonError::into_inner);
        for node in nodes {
            self.table.remove(&node.name, node.id.0);
            sorted.names.remove(node.name.as_str());
        }
        sorted.len = sorted.len.min(start);
    }

    /// Whether one of the graph's `nodes` lies in the scope `name`: `a` and `a/b` are scopes of `a/b/c`.
    pub(crate) fn is_scope(&self, nodes: &[Arc<Node>], name: &str) -> bool {
        let mut sorted = self.sorted.lock().unwrap_or_else(PoisonError::into_inner);
        let start = sorted.len.max(SINK.index() + 1);
        let new = nodes.get(start..).unwrap_or_default();
        sorted.names.extend(new.iter().map(|node| node.name.clone()));
        sorted.len = nodes.len();
        let scope = [name, "/"].concat();
        let from = (Bound::Included(scope.as_str()), Bound::Unbounded);
        sorted.names.range::<str, _>(from).next().is_some_and(|first| first.starts_with(&scope))
    }
}

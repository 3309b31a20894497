//! Finding nodes by name, and telling names from scopes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use hashbrown::DefaultHashBuilder;

use crate::name_table::NameTable;
use crate::node::{Node, NodeId, SINK};

/// The nodes of a graph by name. The names themselves stand in the nodes.
#[derive(Default)]
pub(crate) struct Names {
    table: NameTable,
    /// Counted when somebody asks, which most programs never do. Behind a lock, as asking changes it.
    scopes: Mutex<Scopes>,
}

/// How many nodes lie in each scope: in `a` and in `a/b` for a node `a/b/c`.
#[derive(Default)]
struct Scopes {
    counts: HashMap<Box<str>, u32, DefaultHashBuilder>,
    /// The nodes below this number have been counted.
    counted: usize,
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
        for node in nodes {
            self.table.remove(&node.name, node.id.0);
        }
        let scopes = self.scopes.get_mut().unwrap_or_else(PoisonError::into_inner);
        let counted = scopes.counted.saturating_sub(start).min(nodes.len());
        nodes[..counted].iter().for_each(|node| scopes.remove(&node.name));
        scopes.counted = scopes.counted.min(start);
    }

    /// Whether `name` is a scope around one of the graph's `nodes`.
    pub(crate) fn is_scope(&self, nodes: &[Arc<Node>], name: &str) -> bool {
        let mut scopes = self.scopes.lock().unwrap_or_else(PoisonError::into_inner);
        let start = scopes.counted.max(SINK.index() + 1);
        for node in nodes.get(start..).unwrap_or_default() {
            scopes.add(&node.name);
        }
        scopes.counted = nodes.len();
        scopes.counts.contains_key(name)
    }
}

impl Scopes {
    fn add(&mut self, name: &str) {
        for scope in scopes_of(name) {
            match self.counts.get_mut(scope) {
                Some(count) => *count += 1,
                None => {
                    self.counts.insert(scope.into(), 1);
                }
            }
        }
    }

    fn remove(&mut self, name: &str) {
        for scope in scopes_of(name) {
            if let Some(count) = self.counts.get_mut(scope) {
                *count -= 1;
                if *count == 0 {
                    self.counts.remove(scope);
                }
            }
        }
    }
}

fn scopes_of(name: &str) -> impl Iterator<Item = &str> {
    name.match_indices('/').map(|(end, _)| &name[..end])
}

//! Finding nodes by name, and telling names from scopes.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, PoisonError};

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::node::{Node, NodeId, SINK};

/// The nodes of a graph by name. The names themselves stand in the nodes.
#[derive(Default)]
pub(crate) struct Names {
    table: HashTable<Entry>,
    /// Seeded anew for each graph: names come from outside.
    hasher: DefaultHashBuilder,
    /// Counted when somebody asks, which most programs never do. Behind a lock, as asking changes it.
    scopes: Mutex<Scopes>,
}

/// With a part of the hash, so that neither growing the table nor passing by another name looks at a node.
struct Entry {
    hash: u32,
    id: NodeId,
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
        let hash = self.hash(name);
        let is_it = |entry: &Entry| entry.hash == hash && *nodes[entry.id.index()].name == *name;
        self.table.find(spread(hash), is_it).map(|entry| entry.id)
    }

    /// Notes the name of a node, which must be new.
    pub(crate) fn insert(&mut self, name: &str, id: NodeId) {
        let hash = self.hash(name);
        self.table.insert_unique(spread(hash), Entry { hash, id }, |entry| spread(entry.hash));
    }

    pub(crate) fn reserve(&mut self, additional: usize) {
        self.table.reserve(additional, |entry| spread(entry.hash));
    }

    /// Forgets nodes, of which the first has number `start`.
    pub(crate) fn remove(&mut self, start: usize, nodes: &[Arc<Node>]) {
        for node in nodes {
            let hash = self.hash(&node.name);
            if let Ok(entry) = self.table.find_entry(spread(hash), |entry| entry.id == node.id) {
                entry.remove();
            }
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

    fn hash(&self, name: &str) -> u32 {
        self.hasher.hash_one(name) as u32
    }
}

/// The table takes its bits from both ends of a hash.
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
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

//! `NameScope`: names for nodes that the library adds on its own account.

use std::collections::HashMap;

use crate::Graph;

/// A prefix, and how often each name has been given out behind it.
pub(crate) struct NameScope {
    prefix: String,
    used: HashMap<Box<str>, u32>,
}

impl NameScope {
    /// Names that begin with `prefix` and a slash; as they are for an empty prefix.
    pub(crate) fn new(prefix: &str) -> NameScope {
        let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        NameScope { prefix, used: HashMap::new() }
    }

    /// The first of `stem`, `stem_1`, `stem_2` and so on that neither this scope nor the graph has, with the prefix before
    /// it.
    pub(crate) fn unique(&mut self, graph: &Graph, stem: &str) -> String {
        let mut name = match self.used.get_mut(stem) {
            Some(count) => {
                *count += 1;
                format!("{}{stem}_{count}", self.prefix)
            }
            None => {
                self.used.insert(stem.into(), 0);
                format!("{}{stem}", self.prefix)
            }
        };
        while graph.is_name_or_scope(&name) {
            let count = self.used.entry(stem.into()).or_insert(0);
            *count += 1;
            name = format!("{}{stem}_{count}", self.prefix);
        }
        name
    }
}

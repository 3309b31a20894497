//! `Map`: keys in a hash map.

use hashbrown::hash_table::Entry;
use hashbrown::{DefaultHashBuilder, HashTable};
use tfcore_base::{Result, resource_exhausted};
use tfcore_tensor::{Elems, ElemsMut};

use crate::column::Column;
use crate::keys::{Key, Keys, MISSING};

/// Scalar keys with their rows.
pub(crate) struct Map<K> {
    entries: HashTable<(K, u32)>,
    state: DefaultHashBuilder,
    /// Rows that have been given up.
    free: Vec<u32>,
    /// The number of rows, given up ones included.
    rows: u32,
}

impl<K: Key> Map<K> {
    pub(crate) fn new() -> Map<K> {
        Map {
            entries: HashTable::new(),
            state: DefaultHashBuilder::default(),
            free: Vec::new(),
            rows: 0,
        }
    }
}

impl<K: Key> Keys for Map<K> {
    fn len(&self) -> usize {
        self.entries.len()
    }

    fn find(&self, keys: Elems<'_>, rows: &mut [u32]) -> Result<()> {
        for (row, key) in rows.iter_mut().zip(keys.typed::<K>()) {
            let found = self.entries.find(key.map_hash(&self.state), |(other, _)| other == key);
            *row = found.map_or(MISSING, |(_, row)| *row);
        }
        Ok(())
    }

    fn insert(&mut self, keys: Elems<'_>, values: &mut dyn Column) -> Result<Vec<(u32, bool)>> {
        let keys = keys.typed::<K>();
        let mut rows = Vec::with_capacity(keys.len());
        for key in keys {
            let Map { entries, state, .. } = self;
            let same = |entry: &(K, u32)| entry.0 == *key;
            match entries.entry(key.map_hash(state), same, |(key, _)| key.map_hash(state)) {
                Entry::Occupied(entry) => rows.push((entry.get().1, false)),
                Entry::Vacant(entry) => {
                    let row = match self.free.pop() {
                        Some(row) => row,
                        None if self.rows < MISSING - 1 => {
                            self.rows += 1;
                            self.rows - 1
                        }
                        None => return Err(resource_exhausted!("A table has too many entries")),
                    };
                    entry.insert((key.clone(), row));
                    rows.push((row, true));
                }
            }
        }
        values.resize(self.rows as usize);
        Ok(rows)
    }

    fn remove(&mut self, keys: Elems<'_>) -> Result<()> {
        for key in keys.typed::<K>() {
            let hash = key.map_hash(&self.state);
            if let Ok(entry) = self.entries.find_entry(hash, |(other, _)| other == key) {
                let ((_, row), _) = entry.remove();
                self.free.push(row);
            }
        }
        Ok(())
    }

    fn replace(&mut self, _: Elems<'_>, _: &mut dyn Column) -> Option<Result<Vec<u32>>> {
        None
    }

    fn clear(&mut self) {
        self.entries.clear();
        self.free.clear();
        self.rows = 0;
    }

    /// In the order of the rows, so that it does not depend on the hashes.
    fn exported(&self) -> Vec<u32> {
        let mut rows: Vec<u32> = self.entries.iter().map(|(_, row)| *row).collect();
        rows.sort_unstable();
        rows
    }

    fn export(&self, rows: &[u32], out: ElemsMut<'_>) {
        let out = out.typed::<K>();
        for (key, row) in &self.entries {
            if let Ok(position) = rows.binary_search(row) {
                out[position] = key.clone();
            }
        }
    }
}

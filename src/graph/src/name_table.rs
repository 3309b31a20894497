//! `NameTable`: numbers by name, where the names stand with what is numbered.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

/// A hash table of numbers. Whoever asks says which name belongs to a number.
#[derive(Default)]
pub(crate) struct NameTable {
    table: HashTable<Entry>,
    /// Seeded anew for each table: names come from outside.
    hasher: DefaultHashBuilder,
}

/// With a part of the hash, so that neither growing the table nor passing by another name looks at a name.
struct Entry {
    hash: u32,
    number: u32,
}

impl NameTable {
    pub(crate) fn reserve(&mut self, additional: usize) {
        self.table.reserve(additional, |entry| spread(entry.hash));
    }

    pub(crate) fn find<'n>(&self, name: &str, name_of: impl Fn(u32) -> &'n str) -> Option<u32> {
        let hash = self.hash(name);
        let is_it = |entry: &Entry| entry.hash == hash && name_of(entry.number) == name;
        self.table.find(spread(hash), is_it).map(|entry| entry.number)
    }

    /// Adds a name that the table lacks.
    pub(crate) fn insert(&mut self, name: &str, number: u32) {
        let hash = self.hash(name);
        self.table.insert_unique(spread(hash), Entry { hash, number }, |entry| spread(entry.hash));
    }

    /// Removes the number that `name` belongs to.
    pub(crate) fn remove(&mut self, name: &str, number: u32) {
        let hash = self.hash(name);
        if let Ok(entry) = self.table.find_entry(spread(hash), |entry| entry.number == number) {
            entry.remove();
        }
    }

    fn hash(&self, name: &str) -> u32 {
        self.hasher.hash_one(name) as u32
    }
}

/// The table takes its bits from both ends of a hash.
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

//! `Recent`: values by key, of which those that have not been used for the longest time go when there are too many.

use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hashbrown::HashMap;
use parking_lot::RwLock;

/// A map whose values have weights, with a bound on their sum.
pub(crate) struct Recent<K, V> {
    entries: RwLock<Entries<K, V>>,
    max_weight: usize,
    /// Counts uses.
    clock: AtomicU64,
}

struct Entries<K, V> {
    by_key: HashMap<K, Entry<V>>,
    weight: usize,
}

struct Entry<V> {
    value: Arc<V>,
    weight: usize,
    /// The clock at the last use.
    used: AtomicU64,
}

impl<K: Eq + Hash + Clone, V> Recent<K, V> {
    /// A map whose values weigh at most `max_weight` together, except that the newest one always stays.
    pub(crate) fn new(max_weight: usize) -> Recent<K, V> {
        let entries = Entries { by_key: HashMap::new(), weight: 0 };
        Recent { entries: RwLock::new(entries), max_weight, clock: AtomicU64::new(0) }
    }

    pub(crate) fn get(&self, key: &K) -> Option<Arc<V>> {
        let entries = self.entries.read();
        let entry = entries.by_key.get(key)?;
        entry.used.store(self.clock.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        Some(entry.value.clone())
    }

    /// Returns the value of a key: the one that is there, else the given one, which is added.
    pub(crate) fn get_or_insert(&self, key: &K, value: V, weight: usize) -> Arc<V> {
        let mut dropped = Vec::new();
        let mut entries = self.entries.write();
        if let Some(entry) = entries.by_key.get(key) {
            return entry.value.clone();
        }
        while entries.weight.saturating_add(weight) > self.max_weight {
            let used = |(_, entry): &(&K, &Entry<V>)| entry.used.load(Ordering::Relaxed);
            let Some((oldest, _)) = entries.by_key.iter().min_by_key(used) else { break };
            let oldest = oldest.clone();
            if let Some(entry) = entries.by_key.remove(&oldest) {
                entries.weight -= entry.weight;
                dropped.push(entry);
            }
        }
        let value = Arc::new(value);
        let used = AtomicU64::new(self.clock.fetch_add(1, Ordering::Relaxed));
        entries.by_key.insert(key.clone(), Entry { value: value.clone(), weight, used });
        entries.weight += weight;
        drop(entries);
        // Dropping may take long; others may look values up in the meantime.
        drop(dropped);
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_goes_first() {
        let recent = Recent::new(10);
        let known = |keys: &[u32]| keys.iter().map(|key| recent.get(key).is_some()).collect();
        for key in [1, 2, 3] {
            recent.get_or_insert(&key, key, 3);
        }
        assert_eq!(*recent.get(&1).unwrap(), 1);
        assert_eq!(*recent.get_or_insert(&1, 7, 3), 1);
        recent.get_or_insert(&4, 4, 3);
        let after: Vec<bool> = known(&[2, 1, 3, 4]);
        assert_eq!(after, [false, true, true, true]);
        recent.get_or_insert(&5, 5, 7);
        let after: Vec<bool> = known(&[1, 3, 4, 5]);
        assert_eq!(after, [false, false, true, true]);
        // A value that is too heavy by itself stays until the next one comes.
        recent.get_or_insert(&6, 6, 100);
        let after: Vec<bool> = known(&[4, 5, 6]);
        assert_eq!(after, [false, false, true]);
        recent.get_or_insert(&7, 7, 1);
        let after: Vec<bool> = known(&[6, 7]);
        assert_eq!(after, [false, true]);
    }
}

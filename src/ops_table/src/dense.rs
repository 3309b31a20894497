//! `Dense`: keys in buckets that clients see. An export has all buckets, and an import brings them.

use tfcore_base::{Result, internal, invalid, require, resource_exhausted};
use tfcore_tensor::{Elems, ElemsMut};

use crate::column::Column;
use crate::keys::{Key, Keys, MISSING};

/// The most buckets that a table can have.
const MAX_BUCKETS: usize = 1 << 28;

/// Keys of some elements each, by quadratic probing; two keys that no entry may have stand for empty buckets and for those
/// whose entry has been removed.
pub(crate) struct Dense<K> {
    /// The elements of a key.
    width: usize,
    empty: Vec<K>,
    deleted: Vec<K>,
    buckets: Vec<K>,
    entries: usize,
    max_load: f32,
}

impl<K: Key> Dense<K> {
    /// # Errors
    /// `ResourceExhausted` if there are too many buckets.
    pub(crate) fn new(
        empty: &[K],
        deleted: &[K],
        buckets: usize,
        max_load: f32,
        values: &mut dyn Column,
    ) -> Result<Dense<K>> {
        let width = empty.len();
        let mut dense = Dense {
            width,
            empty: empty.to_vec(),
            deleted: deleted.to_vec(),
            buckets: Vec::new(),
            entries: 0,
            max_load,
        };
        dense.allocate(buckets)?;
        values.rearrange(buckets, &[]);
        Ok(dense)
    }

    /// Makes all buckets empty.
    fn allocate(&mut self, buckets: usize) -> Result<()> {
        let elements = buckets.checked_mul(self.width).filter(|&count| count <= MAX_BUCKETS);
        let elements = elements.ok_or_else(|| too_many(buckets))?;
        let mut keys = Vec::new();
        keys.try_reserve_exact(elements).map_err(|_| too_many(buckets))?;
        (0..buckets).for_each(|_| keys.extend_from_slice(&self.empty));
        self.buckets = keys;
        self.entries = 0;
        Ok(())
    }

    fn count(&self) -> usize {
        self.buckets.len().checked_div(self.width).unwrap_or(0)
    }

    fn key(&self, bucket: usize) -> &[K] {
        &self.buckets[bucket * self.width..(bucket + 1) * self.width]
    }

    fn check(&self, key: &[K]) -> Result<()> {
        require!(key != self.empty, "Using the empty_key as a table key is not allowed");
        require!(key != self.deleted, "Using the deleted_key as a table key is not allowed");
        Ok(())
    }

    /// The first bucket on the way of `key` that `ends` it.
    fn probe(&self, key: &[K], ends: impl Fn(&[K]) -> bool) -> Option<usize> {
        let count = self.count();
        let mask = count.checked_sub(1)?;
        let mut bucket = hash(key) as usize & mask;
        for step in 1..=count {
            if ends(self.key(bucket)) {
                return Some(bucket);
            }
            bucket = (bucket + step) & mask;
        }
        None
    }

    /// The bucket of a key, if it is there.
    fn bucket(&self, key: &[K]) -> Result<Option<usize>> {
        let bucket = self
            .probe(key, |other| other == key || other == self.empty)
            .ok_or_else(|| internal!("Internal error in MutableDenseHashTable lookup"))?;
        Ok((self.key(bucket) == key).then_some(bucket))
    }

    /// Puts a key into its bucket. Returns that, and whether the key is new.
    fn place(&mut self, key: &[K]) -> Result<(u32, bool)> {
        // A removed entry's bucket is taken even if the key has another one further on.
        let ends = |other: &[K]| other == key || other == self.empty || other == self.deleted;
        let bucket = self
            .probe(key, ends)
            .ok_or_else(|| internal!("Internal error in MutableDenseHashTable insert"))?;
        let is_new = self.key(bucket) != key;
        if is_new {
            self.entries += 1;
            self.buckets[bucket * self.width..][..self.width].clone_from_slice(key);
        }
        Ok((bucket as u32, is_new))
    }

    /// Makes room for `more` entries.
    fn reserve(&mut self, more: usize, values: &mut dyn Column) -> Result<()> {
        let pending = (self.entries + more) as f32;
        let mut buckets = self.count();
        while pending > buckets as f32 * self.max_load {
            buckets = buckets.checked_mul(2).ok_or_else(|| too_many(buckets))?;
        }
        if buckets == self.count() {
            return Ok(());
        }
        let (old, entries) = (std::mem::take(&mut self.buckets), self.entries);
        if let Err(error) = self.allocate(buckets) {
            (self.buckets, self.entries) = (old, entries);
            return Err(error);
        }
        let mut moves = Vec::new();
        for (from, key) in old.chunks_exact(self.width).enumerate() {
            if key != self.empty && key != self.deleted {
                moves.push((from as u32, self.place(key)?.0));
            }
        }
        values.rearrange(buckets, &moves);
        Ok(())
    }
}

#[cold]
fn too_many(buckets: usize) -> tfcore_base::Error {
    resource_exhausted!("A table cannot have {buckets} buckets")
}

/// The hash of a key of any number of elements.
fn hash<K: Key>(key: &[K]) -> u64 {
    match key {
        [one] => one.fixed_hash(),
        all => all.iter().fold(0, |hash: u64, one| {
            let mixed = one
                .fixed_hash()
                .wrapping_add(0x9e37_79b9_7f4a_7800)
                .wrapping_add(hash << 10)
                .wrapping_add(hash >> 4);
            hash ^ mixed
        }),
    }
}

impl<K: Key> Keys for Dense<K> {
    fn len(&self) -> usize {
        self.entries
    }

    fn find(&self, keys: Elems<'_>, rows: &mut [u32]) -> Result<()> {
        for (row, key) in rows.iter_mut().zip(keys.typed::<K>().chunks_exact(self.width)) {
            self.check(key)?;
            *row = self.bucket(key)?.map_or(MISSING, |bucket| bucket as u32);
        }
        Ok(())
    }

    fn insert(&mut self, keys: Elems<'_>, values: &mut dyn Column) -> Result<Vec<(u32, bool)>> {
        let keys = keys.typed::<K>();
        self.reserve(keys.len() / self.width, values)?;
        keys.chunks_exact(self.width)
            .map(|key| {
                self.check(key)?;
                self.place(key)
            })
            .collect()
    }

    fn remove(&mut self, keys: Elems<'_>) -> Result<()> {
        for key in keys.typed::<K>().chunks_exact(self.width) {
            self.check(key)?;
            if let Some(bucket) = self.bucket(key)? {
                self.entries -= 1;
                self.buckets[bucket * self.width..][..self.width].clone_from_slice(&self.deleted);
            }
        }
        Ok(())
    }

    fn replace(&mut self, keys: Elems<'_>, values: &mut dyn Column) -> Option<Result<Vec<u32>>> {
        let keys = keys.typed::<K>();
        let buckets = keys.len() / self.width;
        // The mask that finds the first bucket needs a power of two.
        if !buckets.is_power_of_two() || buckets > MAX_BUCKETS {
            return Some(Err(invalid!(
                "Number of buckets must be at least 4 and a power of 2, got: {buckets}"
            )));
        }
        self.buckets = keys.to_vec();
        let is_used = |key: &&[K]| *key != self.empty && *key != self.deleted;
        self.entries = keys.chunks_exact(self.width).filter(is_used).count();
        values.rearrange(buckets, &[]);
        Some(Ok((0..buckets as u32).collect()))
    }

    fn clear(&mut self) {
        let count = self.count();
        self.buckets.clear();
        (0..count).for_each(|_| self.buckets.extend_from_slice(&self.empty));
        self.entries = 0;
    }

    fn exported(&self) -> Vec<u32> {
        (0..self.count() as u32).collect()
    }

    fn export(&self, _: &[u32], out: ElemsMut<'_>) {
        out.typed::<K>().clone_from_slice(&self.buckets);
    }
}

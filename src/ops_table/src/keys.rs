//! `Keys`: where the value of a key stands.

use std::hash::{BuildHasher, Hash};

use tfcore_base::{DType, Elem, Result, internal};
use tfcore_math::hash::murmur64;
use tfcore_tensor::{Elems, ElemsMut, TString};

use crate::column::Column;

/// Stands for the row of a key that a table lacks.
pub(crate) const MISSING: u32 = u32::MAX;

/// The keys of a table, each with the row of its value.
pub(crate) trait Keys: Send + Sync {
    /// The number of keys.
    fn len(&self) -> usize;

    /// Writes the row of each key, [`MISSING`] for those that are not there.
    ///
    /// # Errors
    /// `InvalidArgument` for keys that no entry may have.
    fn find(&self, keys: Elems<'_>, rows: &mut [u32]) -> Result<()>;

    /// The rows of keys, of which new ones get rows that `values` has room for. Returns for each whether it is new, too.
    ///
    /// # Errors
    /// `InvalidArgument` for keys that no entry may have, `ResourceExhausted` if there is no room.
    fn insert(&mut self, keys: Elems<'_>, values: &mut dyn Column) -> Result<Vec<(u32, bool)>>;

    /// Takes keys out, as far as they are there.
    ///
    /// # Errors
    /// `InvalidArgument` for keys that no entry may have.
    fn remove(&mut self, keys: Elems<'_>) -> Result<()>;

    /// Replaces all keys. `None` if that is done by clearing and inserting.
    ///
    /// # Errors
    /// `InvalidArgument` if these cannot be all keys.
    fn replace(&mut self, keys: Elems<'_>, values: &mut dyn Column) -> Option<Result<Vec<u32>>>;

    /// Takes all keys out.
    fn clear(&mut self);

    /// The rows that an export of the table has, in order.
    fn exported(&self) -> Vec<u32>;

    /// Writes the keys of those rows.
    fn export(&self, rows: &[u32], out: ElemsMut<'_>);
}

/// A type of keys.
pub(crate) trait Key: Elem + Eq + Hash {
    /// The hash by which dense tables are laid out.
    fn fixed_hash(&self) -> u64;

    /// The hash for maps in memory.
    fn map_hash(&self, state: &hashbrown::DefaultHashBuilder) -> u64;
}

impl Key for i32 {
    fn fixed_hash(&self) -> u64 {
        i64::from(*self) as u64
    }

    #[inline]
    fn map_hash(&self, state: &hashbrown::DefaultHashBuilder) -> u64 {
        state.hash_one(self)
    }
}

impl Key for i64 {
    fn fixed_hash(&self) -> u64 {
        *self as u64
    }

    #[inline]
    fn map_hash(&self, state: &hashbrown::DefaultHashBuilder) -> u64 {
        state.hash_one(self)
    }
}

impl Key for TString {
    fn fixed_hash(&self) -> u64 {
        murmur64(self.as_bytes())
    }

    #[inline]
    fn map_hash(&self, state: &hashbrown::DefaultHashBuilder) -> u64 {
        state.hash_one(self.as_bytes())
    }
}

/// Calls something for the type of keys of a dtype.
pub(crate) trait WithKey {
    type Out;

    fn call<K: Key>(self) -> Self::Out;
}

/// # Errors
/// `Internal` for a dtype that no table has.
pub(crate) fn with_key<W: WithKey>(dtype: DType, with: W) -> Result<W::Out> {
    match dtype {
        DType::INT32 => Ok(with.call::<i32>()),
        DType::INT64 => Ok(with.call::<i64>()),
        DType::STRING => Ok(with.call::<TString>()),
        dtype => Err(internal!("Tables have no keys of type {dtype}")),
    }
}

//! Reading a checkpoint of either version.

use std::collections::BTreeMap;
use std::path::Path;

use tfcore_base::{DType, Result};
use tfcore_files::Files;
use tfcore_tensor::{Shape, Tensor};

use crate::bundle_reader::BundleReader;
use crate::entry;
use crate::names::index_path;
use crate::v1::V1Reader;

/// A checkpoint open for reading; see [`BundleReader`] and [`V1Reader`].
pub enum Checkpoint<'f> {
    V1(V1Reader),
    V2(BundleReader<'f>),
}

impl<'f> Checkpoint<'f> {
    /// Opens the version 2 checkpoint `pattern`, or version 1 files that match it as a glob pattern.
    ///
    /// # Errors
    /// `NotFound` if there is neither, `DataLoss` if files are damaged.
    pub fn open(files: &'f Files, pattern: &Path) -> Result<Checkpoint<'f>> {
        let is_v2 = files.matching(&index_path(pattern)).is_ok_and(|found| !found.is_empty());
        match is_v2 {
            true => Ok(Checkpoint::V2(BundleReader::open(files, pattern)?)),
            false => Ok(Checkpoint::V1(V1Reader::open(files, pattern)?)),
        }
    }

    /// The names of all tensors with their dtypes and shapes. Slices are left out.
    ///
    /// # Errors
    /// `DataLoss` for a damaged entry.
    pub fn tensors(&self) -> Result<BTreeMap<Vec<u8>, (DType, Shape)>> {
        let reader = match self {
            Checkpoint::V1(reader) => return Ok(reader.tensors()),
            Checkpoint::V2(reader) => reader,
        };
        let mut tensors = BTreeMap::new();
        for item in reader.entries() {
            let (key, proto) = item?;
            // Keys of slices are the only ones that begin with a zero byte.
            if key.first() != Some(&0) {
                tensors.insert(key.to_vec(), entry::dtype_and_shape(key, &proto)?);
            }
        }
        Ok(tensors)
    }

    /// True if there is a tensor of this name.
    pub fn contains(&self, name: &[u8]) -> bool {
        match self {
            Checkpoint::V1(reader) => reader.dtype_and_shape(name).is_some(),
            Checkpoint::V2(reader) => reader.contains(name),
        }
    }

    /// A whole tensor.
    ///
    /// # Errors
    /// `NotFound` if there is none of this name; those of the readers.
    pub fn read(&self, name: &[u8]) -> Result<Tensor> {
        match self {
            Checkpoint::V1(reader) => reader.read(name),
            Checkpoint::V2(reader) => reader.read(name),
        }
    }
}

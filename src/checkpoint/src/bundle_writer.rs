//! Writing a version 2 checkpoint.

use std::path::{Path, PathBuf};

use tfcore_base::{Code, DType, Result, invalid, unimplemented_error};
use tfcore_files::{Files, Replacement, dirname};
use tfcore_proto::{BundleEntryProto, BundleHeaderProto, VersionDef};
use tfcore_tensor::{Shape, Tensor};

use crate::checksum::mask;
use crate::entry::{Entries, HEADER_KEY, index_table, shape_proto, show};
use crate::names::data_path;
use crate::ordered_code::slice_key;
use crate::publish::publish;
use crate::slice::TensorSlice;
use crate::strings;
use crate::versions::VERSION;

/// Bytes that are checksummed and written at a time: they are still in the cache when they are written.
const CHUNK: usize = 256 * 1024;

/// A checkpoint in the making. One that is dropped before [`BundleWriter::finish`] leaves no trace.
pub struct BundleWriter<'f> {
    files: &'f Files,
    prefix: PathBuf,
    data: Replacement,
    /// Bytes written to the data file.
    size: u64,
    entries: Entries,
}

impl<'f> BundleWriter<'f> {
    /// A writer for the checkpoint `prefix`; creates the directory.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn new(files: &'f Files, prefix: &Path) -> Result<BundleWriter<'f>> {
        make_directory(files, prefix)?;
        let data = files.replace(&data_path(prefix, 0, 1))?;
        Ok(BundleWriter {
            files,
            prefix: prefix.to_path_buf(),
            data,
            size: 0,
            entries: Entries::new(),
        })
    }

    /// Writes a tensor under the name `key`.
    ///
    /// # Errors
    /// `InvalidArgument` if there is one of this name, or the name is empty; those of the file system.
    pub fn add(&mut self, key: &[u8], tensor: &Tensor) -> Result<()> {
        if key == HEADER_KEY {
            return Err(invalid!("A tensor in a checkpoint must have a name"));
        }
        if self.entries.contains_key(key) {
            return Err(invalid!("Adding duplicate key: {}", show(key)));
        }
        let (size, crc) = match tensor.dtype() {
            DType::STRING => {
                let (bytes, crc) = strings::encode(tensor.as_slice()?);
                self.data.append(&bytes)?;
                (bytes.len() as u64, crc)
            }
            dtype if !dtype.is_plain() => {
                return Err(unimplemented_error!(
                    "Saving tensor {} of type {dtype} is not supported",
                    show(key)
                ));
            }
            _ => {
                let bytes = tensor.elems().bytes();
                let mut crc = 0;
                for chunk in bytes.chunks(CHUNK) {
                    crc = crc32c::crc32c_append(crc, chunk);
                    self.data.append(chunk)?;
                }
                (bytes.len() as u64, crc)
            }
        };
        let entry = BundleEntryProto {
            dtype: tensor.dtype().to_i32(),
            shape: Some(shape_proto(tensor.shape())),
            shard_id: 0,
            offset: self.size as i64,
            size: size as i64,
            crc32c: mask(crc),
            slices: Vec::new(),
        };
        self.size += size;
        self.entries.insert(key.to_vec(), entry);
        Ok(())
    }

    /// Writes a slice of a tensor of shape `shape`. All slices of a tensor have the same `key`.
    ///
    /// # Errors
    /// As [`BundleWriter::add`]; `InvalidArgument` if another slice has stated another dtype or shape.
    pub fn add_slice(
        &mut self,
        key: &[u8],
        shape: &Shape,
        slice: &TensorSlice,
        tensor: &Tensor,
    ) -> Result<()> {
        if slice.shape_of(shape)? == *shape {
            return self.add(key, tensor);
        }
        if key == HEADER_KEY {
            return Err(invalid!("A tensor in a checkpoint must have a name"));
        }
        let (dtype, shape) = (tensor.dtype().to_i32(), Some(shape_proto(shape)));
        if let Some(entry) = self.entries.get(key)
            && (entry.dtype != dtype || entry.shape != shape || entry.slices.is_empty())
        {
            return Err(invalid!(
                "Slice {slice} of tensor {} has another dtype or full shape than what was added before",
                show(key)
            ));
        }
        self.add(&slice_key(key, slice), tensor)?;
        let entry = self.entries.entry(key.to_vec()).or_default();
        (entry.dtype, entry.shape) = (dtype, shape);
        entry.slices.push(slice.to_proto());
        Ok(())
    }

    /// Writes everything to the device and puts the files in place. A checkpoint that was there is replaced in one step.
    ///
    /// # Errors
    /// Those of the file system; the old checkpoint is still there then.
    pub fn finish(mut self) -> Result<()> {
        self.data.close()?;
        let mut data = Some(self.data);
        let place = |_: usize, path: &Path| data.take().map_or(Ok(()), |data| data.commit_as(path));
        let entries = &self.entries;
        publish(self.files, &self.prefix, 1, place, |shards| index_table(&header(shards), entries))
    }
}

fn header(num_shards: i32) -> BundleHeaderProto {
    let version = VersionDef { producer: VERSION, ..Default::default() };
    BundleHeaderProto { num_shards, endianness: BundleHeaderProto::LITTLE, version: Some(version) }
}

/// Creates the directory of a checkpoint, but none above it.
pub(crate) fn make_directory(files: &Files, prefix: &Path) -> Result<()> {
    match files.create_dir(dirname(prefix)) {
        Err(error) if error.code() != Code::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

//! Checkpoints of version 1: tables whose first record describes the tensors; the others hold their values.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use tfcore_base::{
    Code, DType, Error, Result, data_loss, internal, invalid, not_found, unimplemented_error,
};
use tfcore_files::{Files, Replacement};
use tfcore_framework::{full_shape_from_proto, tensor_from_proto, values_to_proto};
use tfcore_proto::{
    Message, SavedSlice, SavedSliceMeta, SavedTensorSliceMeta, SavedTensorSlices, TensorProto,
    VersionDef,
};
use tfcore_tensor::{Shape, Tensor};

use crate::entry::{shape_proto, show};
use crate::ordered_code::slice_key;
use crate::slice::{TensorSlice, copy_common};
use crate::slice_set::SliceSet;
use crate::table::Table;
use crate::table_builder::TableBuilder;
use crate::versions::{self, VERSION};

/// The record that describes the tensors comes first in the table.
const META_KEY: &[u8] = b"";

/// The largest message that other readers take.
const MAX_MESSAGE: usize = i32::MAX as usize;

/// A version 1 checkpoint in the making.
pub struct V1Writer<'f> {
    files: &'f Files,
    path: PathBuf,
    meta: Vec<SavedSliceMeta>,
    by_name: BTreeMap<Vec<u8>, usize>,
    records: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl<'f> V1Writer<'f> {
    pub fn new(files: &'f Files, path: &Path) -> V1Writer<'f> {
        let (meta, by_name, records) = Default::default();
        V1Writer { files, path: path.to_path_buf(), meta, by_name, records }
    }

    /// Adds a slice of a tensor of shape `shape`.
    ///
    /// # Errors
    /// `Internal` if slices of the same name differ in shape or dtype, `Unimplemented` for a dtype that the format
    /// does not have.
    pub fn add(
        &mut self,
        name: &[u8],
        shape: &Shape,
        slice: &TensorSlice,
        tensor: &Tensor,
    ) -> Result<()> {
        let dtype = tensor.dtype();
        check_dtype(dtype)?;
        let (proto, shape_proto) = (slice.to_proto(), shape_proto(shape));
        let index = match self.by_name.get(name) {
            Some(&index) => {
                let known = &self.meta[index];
                let known_shape = known.shape.as_ref().map(full_shape_from_proto).transpose()?;
                if let Some(known) = known_shape.filter(|known| known != shape) {
                    return Err(internal!(
                        "Mismatching shapes: existing tensor = {known}, trying to add name {}, shape = {shape}",
                        show(name)
                    ));
                }
                if let Some(known) = DType::from_i32(known.dtype).filter(|known| *known != dtype) {
                    return Err(internal!(
                        "Mismatching types: existing type = {known}, trying to add name {}, type = {dtype}",
                        show(name)
                    ));
                }
                index
            }
            None => {
                self.meta.push(SavedSliceMeta {
                    name: Bytes::copy_from_slice(name),
                    shape: Some(shape_proto),
                    dtype: dtype.to_i32(),
                    slice: Vec::new(),
                });
                self.by_name.insert(name.to_vec(), self.meta.len() - 1);
                self.meta.len() - 1
            }
        };
        self.meta[index].slice.push(proto.clone());
        let record = SavedSlice {
            name: Bytes::copy_from_slice(name),
            slice: Some(proto),
            data: Some(values_to_proto(tensor)),
        };
        let record = SavedTensorSlices { meta: None, data: Some(record) };
        let size = record.encoded_len();
        if size > MAX_MESSAGE {
            return Err(invalid!(
                "Tensor slice is too large to serialize (conservative estimate: {size} bytes)"
            ));
        }
        self.records.insert(slice_key(name, slice), record.encode_to_vec());
        Ok(())
    }

    /// Writes the file; one that was there is replaced in one step.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn finish(self) -> Result<()> {
        let versions = Some(VersionDef { producer: VERSION, ..Default::default() });
        let meta = SavedTensorSliceMeta { tensor: self.meta, versions };
        let meta = SavedTensorSlices { meta: Some(meta), data: None };
        let mut table = TableBuilder::new();
        table.add(META_KEY, &meta.encode_to_vec());
        for (key, value) in &self.records {
            table.add(key, value);
        }
        let mut file: Replacement = self.files.replace(&self.path)?;
        file.append(&table.finish())?;
        file.commit()
    }
}

/// Checks that tensors of a dtype can be stored.
fn check_dtype(dtype: DType) -> Result<()> {
    match dtype {
        DType::FLOAT
        | DType::DOUBLE
        | DType::INT64
        | DType::INT32
        | DType::INT16
        | DType::INT8
        | DType::UINT16
        | DType::UINT8
        | DType::QINT32
        | DType::QINT16
        | DType::QINT8
        | DType::QUINT16
        | DType::QUINT8
        | DType::BOOL
        | DType::HALF
        | DType::COMPLEX64
        | DType::COMPLEX128
        | DType::STRING => Ok(()),
        DType::UINT32 | DType::UINT64 => {
            Err(invalid!("Tensor slice serialization not implemented for dtype {}", dtype.to_i32()))
        }
        _ => Err(unimplemented_error!("Saving data type {dtype} not yet supported")),
    }
}

/// Version 1 files open for reading: all that match a pattern make up one checkpoint.
pub struct V1Reader {
    pattern: PathBuf,
    tables: Vec<Table>,
    tensors: BTreeMap<Vec<u8>, SliceSet>,
}

impl V1Reader {
    /// Opens the files that match a glob pattern.
    ///
    /// # Errors
    /// `NotFound` if there is none, `DataLoss` if one is no table, `Internal` if one does not begin with the
    /// description of its tensors or two have the same slice.
    pub fn open(files: &Files, pattern: &Path) -> Result<V1Reader> {
        let mut paths = files.matching(pattern).map_err(|error| {
            invalid!(
                "Unsuccessful TensorSliceReader constructor: Failed to get matching files on {}: {error}",
                pattern.display()
            )
        })?;
        if paths.is_empty() {
            return Err(not_found!(
                "Unsuccessful TensorSliceReader constructor: Failed to find any matching files for {}",
                pattern.display()
            ));
        }
        paths.sort();
        let mut reader = V1Reader {
            pattern: pattern.to_path_buf(),
            tables: Vec::new(),
            tensors: BTreeMap::new(),
        };
        for path in &paths {
            let table = Table::open(files, path).map_err(|error| cannot_open(path, &error))?;
            reader.describe(&table, path)?;
            reader.tables.push(table);
        }
        Ok(reader)
    }

    /// Takes over what a table says of its tensors.
    fn describe(&mut self, table: &Table, path: &Path) -> Result<()> {
        let meta = table.get(META_KEY).ok().flatten();
        let meta = meta.and_then(|bytes| SavedTensorSlices::decode(&bytes[..]).ok());
        let Some(meta) = meta else {
            return Err(internal!(
                "Failed to find the saved tensor slices at the beginning of the checkpoint file: {}",
                path.display()
            ));
        };
        let meta = meta.meta.unwrap_or_default();
        versions::check(meta.versions.as_ref())?;
        for tensor in &meta.tensor {
            let bad = || data_loss!("Invalid description of tensor {}", show(&tensor.name));
            let shape = tensor.shape.as_ref().map(full_shape_from_proto).transpose();
            let shape = shape.map_err(|_| bad())?.unwrap_or_else(Shape::scalar);
            let dtype =
                DType::from_i32(tensor.dtype).filter(|dtype| !dtype.is_ref()).ok_or_else(bad)?;
            let set = self
                .tensors
                .entry(tensor.name.to_vec())
                .or_insert_with(|| SliceSet::new(shape.clone(), dtype));
            if set.shape != shape || set.dtype != dtype {
                return Err(internal!(
                    "Incompatible tensor shapes or types detected for tensor {}",
                    show(&tensor.name)
                ));
            }
            for slice in &tensor.slice {
                set.add(TensorSlice::from_proto(slice)?, self.tables.len())?;
            }
        }
        Ok(())
    }

    /// The names of all tensors with their dtypes and shapes.
    pub fn tensors(&self) -> BTreeMap<Vec<u8>, (DType, Shape)> {
        let facts = |set: &SliceSet| (set.dtype, set.shape.clone());
        self.tensors.iter().map(|(name, set)| (name.clone(), facts(set))).collect()
    }

    /// The dtype and full shape of a tensor.
    pub fn dtype_and_shape(&self, name: &[u8]) -> Option<(DType, Shape)> {
        self.tensors.get(name).map(|set| (set.dtype, set.shape.clone()))
    }

    /// The number of slices that a tensor is stored in.
    pub fn num_slices(&self, name: &[u8]) -> usize {
        self.tensors.get(name).map_or(0, SliceSet::len)
    }

    /// A whole tensor that is stored in one slice.
    ///
    /// # Errors
    /// `NotFound` if there is none of this name, `Unimplemented` if it is stored in several slices.
    pub fn read(&self, name: &[u8]) -> Result<Tensor> {
        let set = self
            .tensors
            .get(name)
            .ok_or_else(|| not_found!("{} not found in checkpoint file", show(name)))?;
        if set.len() > 1 {
            return Err(unimplemented_error!("Sliced checkpoints are not supported"));
        }
        self.read_slice(name, &TensorSlice::full(set.shape.rank()))
    }

    /// A slice of a tensor, put together from those that are stored.
    ///
    /// # Errors
    /// `NotFound` if there is no tensor of this name, `InvalidArgument` if not all of the slice is stored, `DataLoss`
    /// if a record is damaged.
    pub fn read_slice(&self, name: &[u8], wanted: &TensorSlice) -> Result<Tensor> {
        let set = self.tensors.get(name).ok_or_else(|| {
            not_found!(
                "Tensor name \"{}\" not found in checkpoint files {}",
                show(name),
                self.pattern.display()
            )
        })?;
        let stored = set.covering(wanted).ok_or_else(|| {
            invalid!(
                "Does not have sufficient slices for tensor {} to restore {wanted}",
                show(name)
            )
        })?;
        let parts = stored.into_iter().map(|(slice, file)| {
            Ok((slice, self.read_stored(name, set, slice, &self.tables[*file])?))
        });
        let mut parts = parts.collect::<Result<Vec<_>>>()?;
        if let [(slice, _)] = &parts[..]
            && *slice == wanted
        {
            return Ok(parts.remove(0).1);
        }
        let mut tensor = Tensor::zeros(set.dtype, wanted.shape_of(&set.shape)?)?;
        for (slice, part) in &parts {
            copy_common(&set.shape, (slice, part), (wanted, &mut tensor))?;
        }
        Ok(tensor)
    }

    fn read_stored(
        &self,
        name: &[u8],
        set: &SliceSet,
        slice: &TensorSlice,
        table: &Table,
    ) -> Result<Tensor> {
        let bad = |why: &str| {
            data_loss!("Failed to read the record for tensor {}, slice {slice}: {why}", show(name))
        };
        let record = table.get(&slice_key(name, slice))?.ok_or_else(|| bad("it is missing"))?;
        let record =
            SavedTensorSlices::decode(Bytes::from(record)).map_err(|_| bad("not parseable"))?;
        let mut data = record.data.and_then(|slice| slice.data).ok_or_else(|| bad("no values"))?;
        let shape = slice.shape_of(&set.shape)?;
        if count_of(&data, set.dtype) != Some(shape.count()) {
            return Err(bad("the number of values is wrong"));
        }
        data.dtype = set.dtype.to_i32();
        data.tensor_shape = Some(shape_proto(&shape));
        tensor_from_proto(&data).map_err(|error| bad(error.message()))
    }
}

/// The number of elements in the field of a dtype. `None` for a dtype that version 1 does not store.
fn count_of(proto: &TensorProto, dtype: DType) -> Option<usize> {
    Some(match dtype {
        DType::FLOAT => proto.float_val.len(),
        DType::DOUBLE => proto.double_val.len(),
        DType::INT64 => proto.int64_val.len(),
        DType::UINT32 => proto.uint32_val.len(),
        DType::UINT64 => proto.uint64_val.len(),
        DType::BOOL => proto.bool_val.len(),
        DType::HALF | DType::BFLOAT16 => proto.half_val.len(),
        DType::COMPLEX64 => proto.scomplex_val.len() / 2,
        DType::COMPLEX128 => proto.dcomplex_val.len() / 2,
        DType::STRING => proto.string_val.len(),
        DType::RESOURCE | DType::VARIANT => return None,
        _ => proto.int_val.len(),
    })
}

fn cannot_open(path: &Path, error: &Error) -> Error {
    let code = match error.code() {
        Code::DataLoss => "DATA_LOSS",
        Code::NotFound => "NOT_FOUND",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        _ => "UNKNOWN",
    };
    let hint = match error.code() {
        Code::DataLoss => {
            ": perhaps your file is in a different file format and you need to use a different restore operator?"
        }
        _ => "",
    };
    data_loss!("Unable to open table file {}: {code}: {error}{hint}", path.display())
}

//! Readers of checkpoints.

use std::collections::BTreeMap;
use std::ffi::{CString, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

use tfcore_base::{DType, Result, invalid, not_found, out_of_range};
use tfcore_checkpoint::Checkpoint;
use tfcore_tensor::Shape;

use super::handle::{ArrayMut, Boxed, CStrIn, Owned, Ref, Status, count, guard, quiet, to_int};
use super::tf_datatype::TF_DataTypeNumber;
use super::tf_tensor::TF_Tensor;
use crate::ops;

/// An open checkpoint.
pub struct TF_CheckpointReader {
    checkpoint: Checkpoint<'static>,
    tensors: BTreeMap<Vec<u8>, (DType, Shape)>,
    /// The names of all tensors, sorted.
    names: Vec<CString>,
}

impl Boxed for TF_CheckpointReader {}

impl TF_CheckpointReader {
    fn open(prefix: &Path) -> Result<TF_CheckpointReader> {
        let checkpoint = Checkpoint::open(ops::registry().files(), prefix)?;
        let tensors = checkpoint.tensors()?;
        // C sees a name up to a NUL.
        let name = |name: &Vec<u8>| {
            let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
            CString::new(&name[..end]).unwrap_or_default()
        };
        let names = tensors.keys().map(name).collect();
        Ok(TF_CheckpointReader { checkpoint, tensors, names })
    }

    /// The dtype and shape of the tensor of a name.
    fn facts(&self, name: &CStrIn) -> Result<&(DType, Shape)> {
        let name = name.c_str().map_or(&[][..], |name| name.to_bytes());
        self.tensors.get(name).ok_or_else(|| {
            not_found!("Key {} not found in checkpoint", String::from_utf8_lossy(name))
        })
    }
}

/// The path that a C string is.
pub(crate) fn path<'a>(text: &'a CStrIn, name: &str) -> Result<&'a Path> {
    let text = text.c_str().ok_or_else(|| invalid!("{name} is null"))?;
    Ok(Path::new(OsStr::from_bytes(text.to_bytes())))
}

/// Opens the checkpoint whose prefix is `filename`, or the files of the older version that match it as a pattern.
/// Returns null on error. The caller deletes the reader.
#[unsafe(no_mangle)]
pub extern "C" fn TF_NewCheckpointReader(
    filename: CStrIn,
    status: Status,
) -> *mut TF_CheckpointReader {
    guard(status, ptr::null_mut(), || {
        Ok(TF_CheckpointReader::open(path(&filename, "filename")?)?.hand_out())
    })
}

/// Deletes a reader; null is allowed. Tensors that it has read stay.
#[unsafe(no_mangle)]
pub extern "C" fn TF_DeleteCheckpointReader(reader: Owned<TF_CheckpointReader>) {
    drop(reader);
}

/// Returns 1 if there is a tensor of this name, else 0.
#[unsafe(no_mangle)]
pub extern "C" fn TF_CheckpointReaderHasTensor(
    reader: Ref<TF_CheckpointReader>,
    name: CStrIn,
) -> c_int {
    quiet(0, || Ok(c_int::from(reader.get("reader")?.facts(&name).is_ok())))
}

/// Returns the name of the tensor at `index` in the sorted list of names; it lives as long as the reader. Null if there
/// are not so many.
#[unsafe(no_mangle)]
pub extern "C" fn TF_CheckpointReaderGetVariable(
    reader: Ref<TF_CheckpointReader>,
    index: c_int,
) -> *const c_char {
    quiet(ptr::null(), || {
        let names = &reader.get("reader")?.names;
        let name = names.get(count(index, "index")?);
        Ok(name.ok_or_else(|| out_of_range!("No tensor {index}"))?.as_ptr())
    })
}

/// Returns the number of tensors.
#[unsafe(no_mangle)]
pub extern "C" fn TF_CheckpointReaderSize(reader: Ref<TF_CheckpointReader>) -> c_int {
    quiet(0, || Ok(to_int(reader.get("reader")?.names.len())))
}

/// Returns the type of a tensor; 0 if there is none of this name.
#[unsafe(no_mangle)]
pub extern "C" fn TF_CheckpointReaderGetVariableDataType(
    reader: Ref<TF_CheckpointReader>,
    name: CStrIn,
) -> TF_DataTypeNumber {
    quiet(TF_DataTypeNumber::INVALID, || {
        Ok(TF_DataTypeNumber(reader.get("reader")?.facts(&name)?.0.to_i32()))
    })
}

/// Stores the shape of a tensor in `dims`, which must have room for `num_dims` sizes, the rank.
#[unsafe(no_mangle)]
pub extern "C" fn TF_CheckpointReaderGetVariableShape(
    reader: Ref<TF_CheckpointReader>,
    name: CStrIn,
    mut dims: ArrayMut<i64>,
    num_dims: c_int,
    status: Status,
) {
    guard(status, (), || {
        let (_, shape) = reader.get("reader")?.facts(&name)?;
        if to_int(shape.rank()) != num_dims {
            return Err(invalid!(
                "Expected rank is {num_dims} but actual rank is {}",
                shape.rank()
            ));
        }
        dims.get(shape.rank(), "dims")?.copy_from_slice(shape.dims());
        Ok(())
    })
}

/// Returns the rank of a tensor; -1 if there is none of this name.
#[unsafe(no_mangle)]
pub extern "C" fn TF_CheckpointReaderGetVariableNumDims(
    reader: Ref<TF_CheckpointReader>,
    name: CStrIn,
) -> c_int {
    quiet(-1, || Ok(to_int(reader.get("reader")?.facts(&name)?.1.rank())))
}

/// Reads a tensor. Returns null on error. The caller deletes the tensor.
#[unsafe(no_mangle)]
pub extern "C" fn TF_CheckpointReaderGetTensor(
    reader: Ref<TF_CheckpointReader>,
    name: CStrIn,
    status: Status,
) -> *mut TF_Tensor {
    guard(status, ptr::null_mut(), || {
        let name = name.c_str().map_or(&[][..], |name| name.to_bytes());
        Ok(TF_Tensor::new(reader.get("reader")?.checkpoint.read(name)?))
    })
}

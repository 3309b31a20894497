//! Arguments that ops on files have in common.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use tfcore_base::{Result, invalid, require};
use tfcore_checkpoint::{TensorSlice, parse_shape_and_slice};
use tfcore_framework::{InferenceContext, shape_ops};
use tfcore_tensor::{Shape, TString, Tensor};

/// The path that a string of a tensor is.
pub(crate) fn path(text: &TString) -> &Path {
    Path::new(OsStr::from_bytes(text.as_bytes()))
}

/// The string of a tensor that has one element, whatever its rank.
pub(crate) fn single(tensor: &Tensor) -> Option<&TString> {
    match tensor.as_slice::<TString>() {
        Ok([text]) => Some(text),
        _ => None,
    }
}

/// A string for messages.
pub(crate) fn show(text: &TString) -> String {
    String::from_utf8_lossy(text.as_bytes()).into_owned()
}

/// What a `shape_and_slice` says; `None` if it is empty, for a whole tensor.
pub(crate) fn shape_and_slice(text: &TString) -> Result<Option<(Shape, TensorSlice)>> {
    if text.is_empty() {
        return Ok(None);
    }
    let text = std::str::from_utf8(text.as_bytes())
        .map_err(|_| invalid!("Non numerical dimension in shape_and_slice: {}", show(text)))?;
    parse_shape_and_slice(text).map(Some)
}

/// Checks that a tensor that is saved has the shape of the slice that it is.
pub(crate) fn check_slice(text: &TString, tensor: &Tensor) -> Result<Option<(Shape, TensorSlice)>> {
    let parsed = shape_and_slice(text)?;
    if let Some((shape, slice)) = &parsed {
        require!(
            slice.shape_of(shape)? == *tensor.shape(),
            "Slice in shape_and_slice specification does not match the shape of the tensor to  save: {}, \
             tensor: {}",
            show(text),
            tensor.shape()
        );
    }
    Ok(parsed)
}

/// Checks that input `index` is a vector of `len` elements, as far as its shape is known.
pub(crate) fn vector_of(ctx: &InferenceContext<'_>, index: usize, len: usize) -> Result<()> {
    let shape = shape_ops::with_rank(ctx.input(index), 1)?;
    shape_ops::with_value(shape.dim(0), len as i64).map(|_| ())
}

/// Checks that inputs are scalars, as far as their shapes are known.
pub(crate) fn scalars(ctx: &InferenceContext<'_>, inputs: &[usize]) -> Result<()> {
    for &index in inputs {
        shape_ops::with_rank(ctx.input(index), 0)?;
    }
    Ok(())
}

//! Attrs of eager ops.
//!
//! Functions without a status keep what is wrong with an argument for the execution.

use std::ffi::{c_int, c_uchar};

use tfcore_base::{Result, invalid};
use tfcore_framework::{AttrList, AttrValue, Attrs, Func};
use tfcore_tensor::PartialShape;

use super::op::TFE_Op;
use crate::capi::attr_set::{byte_strings, kept, list};
use crate::capi::graph::partial_shape;
use crate::capi::handle::{
    Array, ArrayMut, Bytes, CStrIn, In, Mut, Ref, Status, count, guard, quiet,
};
use crate::capi::tf_datatype::TF_DataTypeNumber;
use crate::capi::tf_tensor::TF_Tensor;

/// Sets an attr to the value that `make` yields, or keeps its error.
fn set(mut op: Mut<TFE_Op>, attr_name: CStrIn, make: impl FnOnce() -> Result<AttrValue>) {
    quiet((), || {
        let op = op.get("op")?;
        match attr_name.get("attr_name").and_then(|name| Ok((name, make()?))) {
            Ok((name, value)) => op.op.set_attr(&name, value),
            Err(error) => drop(op.error.get_or_insert(error)),
        }
        Ok(())
    });
}

/// Sets an attr to the value that `make` yields.
pub(super) fn try_set(
    mut op: Mut<TFE_Op>,
    attr_name: CStrIn,
    status: Status,
    make: impl FnOnce(&str) -> Result<AttrValue>,
) {
    guard(status, (), || {
        let (op, name) = (op.get("op")?, attr_name.get("attr_name")?);
        op.op.set_attr(&name, make(&name)?);
        Ok(())
    })
}

/// No tensor has a higher rank.
const MAX_RANK: c_int = 254;

/// The shape that is the value of attr `name`.
fn shape(name: &str, dims: Array<i64>, num_dims: c_int) -> Result<PartialShape> {
    if num_dims > MAX_RANK {
        return Err(invalid!(
            "Value specified for `{name}` has {num_dims} dimensions which is over the limit of {MAX_RANK}."
        ));
    }
    partial_shape(dims, num_dims)
}

/// The function that another op stands for, with the attrs of that op.
fn function(op: &TFE_Op) -> Func {
    Func { name: op.op.op().name.to_string(), attrs: op.op.attrs().clone() }
}

/// Sets an attr of type string.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_OpSetAttrString(
    op: Mut<TFE_Op>,
    attr_name: CStrIn,
    value: Bytes,
    length: usize,
) {
    set(op, attr_name, || Ok(AttrValue::string(value.get(length, "value")?)));
}

/// Sets an attr of type int.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_OpSetAttrInt(op: Mut<TFE_Op>, attr_name: CStrIn, value: i64) {
    set(op, attr_name, || Ok(AttrValue::Int(value)));
}

/// Sets an attr of type float.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_OpSetAttrFloat(op: Mut<TFE_Op>, attr_name: CStrIn, value: f32) {
    set(op, attr_name, || Ok(AttrValue::Float(value)));
}

/// Sets an attr of type bool; any value but 0 is true.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_OpSetAttrBool(op: Mut<TFE_Op>, attr_name: CStrIn, value: c_uchar) {
    set(op, attr_name, || Ok(AttrValue::Bool(value != 0)));
}

/// Sets an attr of type type.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_OpSetAttrType(op: Mut<TFE_Op>, attr_name: CStrIn, value: TF_DataTypeNumber) {
    set(op, attr_name, || value.dtype().map(AttrValue::Type));
}

/// Sets an attr of type shape: -1 for an unknown dimension, `num_dims` -1 for an unknown rank.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_OpSetAttrShape(
    op: Mut<TFE_Op>,
    attr_name: CStrIn,
    dims: Array<i64>,
    num_dims: c_int,
    out_status: Status,
) {
    try_set(op, attr_name, out_status, |name| Ok(AttrValue::shape(shape(name, dims, num_dims)?)));
}

/// Sets an attr of type func to the function of `value`, with the attrs that are set there.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_OpSetAttrFunction(op: Mut<TFE_Op>, attr_name: CStrIn, value: In<TFE_Op>) {
    set(op, attr_name, || {
        let Func { name, attrs } = function(value.get("value")?);
        Ok(AttrValue::func(name, attrs))
    });
}

/// Sets an attr of type func to a function without attrs of its own.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_OpSetAttrFunctionName(
    op: Mut<TFE_Op>,
    attr_name: CStrIn,
    data: CStrIn,
    length: usize,
) {
    set(op, attr_name, || {
        let name = String::from_utf8_lossy(data.bytes(length, "data")?);
        Ok(AttrValue::func(name, Attrs::new()))
    });
}

/// Sets an attr of type tensor; the tensor stays the caller's.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_OpSetAttrTensor(
    op: Mut<TFE_Op>,
    attr_name: CStrIn,
    tensor: Ref<TF_Tensor>,
    status: Status,
) {
    try_set(op, attr_name, status, |_| Ok(AttrValue::tensor(kept(tensor.get("tensor")?)?)));
}

/// Sets an attr of type list(string).
#[unsafe(no_mangle)]
pub extern "C" fn TFE_OpSetAttrStringList(
    op: Mut<TFE_Op>,
    attr_name: CStrIn,
    values: Array<Bytes>,
    lengths: Array<usize>,
    num_values: c_int,
) {
    set(op, attr_name, || Ok(AttrValue::strings(byte_strings(&values, lengths, num_values)?)));
}

/// Sets an attr of type list(int).
#[unsafe(no_mangle)]
pub extern "C" fn TFE_OpSetAttrIntList(
    op: Mut<TFE_Op>,
    attr_name: CStrIn,
    values: Array<i64>,
    num_values: c_int,
) {
    set(op, attr_name, || list(values, num_values, Ok, AttrList::Int));
}

/// Sets an attr of type list(float).
#[unsafe(no_mangle)]
pub extern "C" fn TFE_OpSetAttrFloatList(
    op: Mut<TFE_Op>,
    attr_name: CStrIn,
    values: Array<f32>,
    num_values: c_int,
) {
    set(op, attr_name, || list(values, num_values, Ok, AttrList::Float));
}

/// Sets an attr of type list(bool).
#[unsafe(no_mangle)]
pub extern "C" fn TFE_OpSetAttrBoolList(
    op: Mut<TFE_Op>,
    attr_name: CStrIn,
    values: Array<c_uchar>,
    num_values: c_int,
) {
    set(op, attr_name, || list(values, num_values, |v| Ok(v != 0), AttrList::Bool));
}

/// Sets an attr of type list(type).
#[unsafe(no_mangle)]
pub extern "C" fn TFE_OpSetAttrTypeList(
    op: Mut<TFE_Op>,
    attr_name: CStrIn,
    values: Array<TF_DataTypeNumber>,
    num_values: c_int,
) {
    set(op, attr_name, || list(values, num_values, TF_DataTypeNumber::dtype, AttrList::Type));
}

/// Sets an attr of type list(shape).
#[unsafe(no_mangle)]
pub extern "C" fn TFE_OpSetAttrShapeList(
    op: Mut<TFE_Op>,
    attr_name: CStrIn,
    dims: ArrayMut<Array<i64>>,
    num_dims: Array<c_int>,
    num_values: c_int,
    out_status: Status,
) {
    try_set(op, attr_name, out_status, |name| {
        let (num, dims) = (count(num_values, "num_values")?, dims.as_array());
        let pairs = dims.get(num, "dims")?.iter().zip(num_dims.get(num, "num_dims")?);
        let shapes = pairs.map(|(&dims, &rank)| shape(name, dims, rank));
        Ok(AttrValue::list(AttrList::Shape(shapes.collect::<Result<_>>()?)))
    });
}

/// Sets an attr of type list(func) to the functions of other ops.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_OpSetAttrFunctionList(
    op: Mut<TFE_Op>,
    attr_name: CStrIn,
    value: ArrayMut<In<TFE_Op>>,
    num_values: c_int,
) {
    set(op, attr_name, || {
        let values = value.as_array();
        let values = values.get(count(num_values, "num_values")?, "value")?;
        let functions = values.iter().map(|value| Ok(function(value.get("value")?)));
        Ok(AttrValue::list(AttrList::Func(functions.collect::<Result<_>>()?)))
    });
}

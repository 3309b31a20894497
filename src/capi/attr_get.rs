//! Queries about the attributes of operations.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use std::sync::Arc;

use tfcore_base::{Result, invalid, out_of_range};
use tfcore_framework::{AttrList, AttrValue, shape_to_proto};
use tfcore_graph::Node;
use tfcore_tensor::{PartialShape, Tensor};

use super::graph::TF_Operation;
use super::handle::{
    ArrayMut, BytesMut, CStrIn, Mut, Out, Ref, Status, count, guard, quiet, to_int,
};
use super::operation::no_attr;
use super::tf_attrtype::TF_AttrType;
use super::tf_buffer::{self, TF_Buffer, fill};
use super::tf_datatype::TF_DataTypeNumber;
use super::tf_tensor::TF_Tensor;

/// What an attribute is and how much room its value needs.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct TF_AttrMetadata {
    /// 1 for a list, else 0.
    pub is_list: u8,
    /// The length of a list, else -1.
    pub list_size: i64,
    /// The type of the value, or of a list's items.
    pub r#type: TF_AttrType,
    /// Strings: the length, summed over a list. Shapes: the rank (-1 if unknown), summed over a list. Else
    /// -1.
    pub total_size: i64,
}

/// The node and one of its attrs.
fn attr(oper: Ref<TF_Operation>, attr_name: CStrIn) -> Result<(String, AttrValue)> {
    let (oper, name) = (oper.get("oper")?, attr_name.get("attr_name")?);
    let value = oper.node().attrs.get(&name).cloned().ok_or_else(|| no_attr(oper, &name))?;
    Ok((name.into_owned(), value))
}

/// As [`attr`], for a list.
fn list(oper: Ref<TF_Operation>, attr_name: CStrIn) -> Result<(String, Arc<AttrList>)> {
    match attr(oper, attr_name)? {
        (name, AttrValue::List(list)) => Ok((name, list)),
        (name, _) => Err(invalid!("Value for '{name}' is not a list")),
    }
}

/// Reads a scalar attr of the node with the typed getters of attributes and stores it.
fn store<T>(
    oper: Ref<TF_Operation>,
    attr_name: CStrIn,
    mut value: Out<T>,
    status: Status,
    read: impl FnOnce(&Node, &str) -> Result<T>,
) {
    guard(status, (), || {
        let (oper, name) = (oper.get("oper")?, attr_name.get("attr_name")?);
        let read = read(&oper.node(), &name)?;
        value.put(read, "value")
    })
}

/// Stores the first `max` items.
pub(super) fn store_items<T>(
    items: impl ExactSizeIterator<Item = T>,
    mut values: ArrayMut<T>,
    max: c_int,
) -> Result<()> {
    let len = items.len().min(count(max, "max_values")?);
    let values = values.get(len, "values")?;
    for (out, item) in values.iter_mut().zip(items) {
        *out = item;
    }
    Ok(())
}

/// Reads a list attr of the node and stores its first `max` items; `items` yields those of a list of
/// the right type.
fn store_list<T>(
    oper: Ref<TF_Operation>,
    attr_name: CStrIn,
    values: ArrayMut<T>,
    max: c_int,
    status: Status,
    item_type: &str,
    items: impl FnOnce(&AttrList) -> Option<Vec<T>>,
) {
    guard(status, (), || {
        let (name, list) = list(oper, attr_name)?;
        let items = match &*list {
            AttrList::Empty => Vec::new(),
            other => items(other).ok_or_else(|| wrong_items(&name, other, item_type))?,
        };
        store_items(items.into_iter(), values, max)
    })
}

pub(super) fn wrong_items(name: &str, list: &AttrList, expected: &str) -> tfcore_base::Error {
    let actual = AttrValue::List(Arc::new(list.clone())).type_name();
    invalid!(
        "AttrValue had value with type '{actual}' when 'list({expected})' expected\n\t for attr '{name}'"
    )
}

/// Returns what an attribute is and how much room its value needs.
#[unsafe(no_mangle)]
pub extern "C" fn TF_OperationGetAttrMetadata(
    oper: Ref<TF_Operation>,
    attr_name: CStrIn,
    status: Status,
) -> TF_AttrMetadata {
    let failure = TF_AttrMetadata {
        is_list: 0,
        list_size: 0,
        r#type: TF_AttrType::TF_ATTR_STRING,
        total_size: 0,
    };
    guard(status, failure, || {
        let (name, value) = attr(oper, attr_name)?;
        let declared = oper.get("oper")?.op.attr(&name);
        metadata(&value, declared.map(|attr| attr.type_name.as_ref()))
    })
}

/// An empty list has the type that the op declares. A value that came malformed has nothing to tell.
pub(super) fn metadata(value: &AttrValue, declared: Option<&str>) -> Result<TF_AttrMetadata> {
    use TF_AttrType::*;
    let rank = |shape: &PartialShape| shape.rank().map_or(-1, |rank| rank as i64);
    let single =
        |r#type, total_size| Ok(TF_AttrMetadata { is_list: 0, list_size: -1, r#type, total_size });
    let list = match value {
        AttrValue::String(text) => return single(TF_ATTR_STRING, text.len() as i64),
        AttrValue::Int(_) => return single(TF_ATTR_INT, -1),
        AttrValue::Float(_) => return single(TF_ATTR_FLOAT, -1),
        AttrValue::Bool(_) => return single(TF_ATTR_BOOL, -1),
        AttrValue::Type(_) => return single(TF_ATTR_TYPE, -1),
        AttrValue::Shape(shape) => return single(TF_ATTR_SHAPE, rank(shape)),
        AttrValue::Tensor(_) => return single(TF_ATTR_TENSOR, -1),
        AttrValue::Func(_) => return single(TF_ATTR_FUNC, -1),
        AttrValue::Placeholder(_) => return single(TF_ATTR_PLACEHOLDER, -1),
        AttrValue::List(list) => list,
        AttrValue::Raw(raw) => return Err(raw.error()),
    };
    let (r#type, total_size) = match &**list {
        AttrList::String(items) => {
            (TF_ATTR_STRING, items.iter().map(|text| text.len() as i64).sum())
        }
        AttrList::Int(_) => (TF_ATTR_INT, -1),
        AttrList::Float(_) => (TF_ATTR_FLOAT, -1),
        AttrList::Bool(_) => (TF_ATTR_BOOL, -1),
        AttrList::Type(_) => (TF_ATTR_TYPE, -1),
        AttrList::Shape(items) => {
            (TF_ATTR_SHAPE, items.iter().map(|shape| rank(shape).max(0)).sum())
        }
        AttrList::Tensor(_) => (TF_ATTR_TENSOR, -1),
        AttrList::Func(_) => (TF_ATTR_FUNC, -1),
        AttrList::Empty => match declared {
            Some("list(int)") => (TF_ATTR_INT, -1),
            Some("list(float)") => (TF_ATTR_FLOAT, -1),
            Some("list(bool)") => (TF_ATTR_BOOL, -1),
            Some("list(type)") => (TF_ATTR_TYPE, -1),
            Some("list(shape)") => (TF_ATTR_SHAPE, -1),
            Some("list(tensor)") => (TF_ATTR_TENSOR, -1),
            Some("list(func)") => (TF_ATTR_FUNC, -1),
            _ => (TF_ATTR_STRING, 0),
        },
    };
    Ok(TF_AttrMetadata { is_list: 1, list_size: list.len() as i64, r#type, total_size })
}

/// Copies at most `max_length` bytes of a string attr, without a terminator.
#[unsafe(no_mangle)]
pub extern "C" fn TF_OperationGetAttrString(
    oper: Ref<TF_Operation>,
    attr_name: CStrIn,
    mut value: BytesMut,
    max_length: usize,
    status: Status,
) {
    guard(status, (), || match attr(oper, attr_name)? {
        (_, AttrValue::String(text)) => {
            let len = text.len().min(max_length);
            value.get(len, "value")?.copy_from_slice(&text[..len]);
            Ok(())
        }
        (name, _) => Err(invalid!("Attribute '{name}' is not a string")),
    })
}

/// Copies the strings of a list one behind the other into `storage` and stores where each is.
#[unsafe(no_mangle)]
pub extern "C" fn TF_OperationGetAttrStringList(
    oper: Ref<TF_Operation>,
    attr_name: CStrIn,
    values: ArrayMut<*mut c_void>,
    lengths: ArrayMut<usize>,
    max_values: c_int,
    storage: BytesMut,
    storage_size: usize,
    status: Status,
) {
    guard(status, (), || {
        let (name, list) = list(oper, attr_name)?;
        let items: &[Arc<[u8]>] = match &*list {
            AttrList::Empty => &[],
            AttrList::String(items) => items,
            other => return Err(wrong_items(&name, other, "string")),
        };
        store_texts(items, values, lengths, max_values, storage, storage_size)
    })
}

/// Copies the first `max` texts one behind the other into `storage` and stores the address and the length of each.
pub(super) fn store_texts<C>(
    items: &[Arc<[u8]>],
    mut values: ArrayMut<*mut C>,
    mut lengths: ArrayMut<usize>,
    max: c_int,
    storage: BytesMut,
    storage_size: usize,
) -> Result<()> {
    let len = items.len().min(count(max, "max_values")?);
    let (values, lengths) = (values.get(len, "values")?, lengths.get(len, "lengths")?);
    let mut at = 0;
    for (index, text) in items[..len].iter().enumerate() {
        if text.len() > storage_size - at {
            return Err(invalid!("Not enough storage to hold the requested list of strings"));
        }
        let mut target = storage.from(at);
        target.get(text.len(), "storage")?.copy_from_slice(text);
        (values[index], lengths[index]) = (target.as_ptr().cast(), text.len());
        at += text.len();
    }
    Ok(())
}

/// Stores an int attr.
#[unsafe(no_mangle)]
pub extern "C" fn TF_OperationGetAttrInt(
    oper: Ref<TF_Operation>,
    attr_name: CStrIn,
    value: Out<i64>,
    status: Status,
) {
    store(oper, attr_name, value, status, |node, name| node.attrs.int(name))
}

/// Stores the first `max_values` items of a list(int) attr.
#[unsafe(no_mangle)]
pub extern "C" fn TF_OperationGetAttrIntList(
    oper: Ref<TF_Operation>,
    attr_name: CStrIn,
    values: ArrayMut<i64>,
    max_values: c_int,
    status: Status,
) {
    let items = |list: &AttrList| match list {
        AttrList::Int(items) => Some(items.clone()),
        _ => None,
    };
    store_list(oper, attr_name, values, max_values, status, "int", items)
}

/// Stores a float attr.
#[unsafe(no_mangle)]
pub extern "C" fn TF_OperationGetAttrFloat(
    oper: Ref<TF_Operation>,
    attr_name: CStrIn,
    value: Out<f32>,
    status: Status,
) {
    store(oper, attr_name, value, status, |node, name| node.attrs.float(name))
}

/// Stores the first `max_values` items of a list(float) attr.
#[unsafe(no_mangle)]
pub extern "C" fn TF_OperationGetAttrFloatList(
    oper: Ref<TF_Operation>,
    attr_name: CStrIn,
    values: ArrayMut<f32>,
    max_values: c_int,
    status: Status,
) {
    let items = |list: &AttrList| match list {
        AttrList::Float(items) => Some(items.clone()),
        _ => None,
    };
    store_list(oper, attr_name, values, max_values, status, "float", items)
}

/// Stores a bool attr.
#[unsafe(no_mangle)]
pub extern "C" fn TF_OperationGetAttrBool(
    oper: Ref<TF_Operation>,
    attr_name: CStrIn,
    value: Out<u8>,
    status: Status,
) {
    store(oper, attr_name, value, status, |node, name| node.attrs.bool(name).map(u8::from))
}

/// Stores the first `max_values` items of a list(bool) attr.
#[unsafe(no_mangle)]
pub extern "C" fn TF_OperationGetAttrBoolList(
    oper: Ref<TF_Operation>,
    attr_name: CStrIn,
    values: ArrayMut<u8>,
    max_values: c_int,
    status: Status,
) {
    let items = |list: &AttrList| match list {
        AttrList::Bool(items) => Some(items.iter().map(|&value| u8::from(value)).collect()),
        _ => None,
    };
    store_list(oper, attr_name, values, max_values, status, "bool", items)
}

/// Stores a type attr.
#[unsafe(no_mangle)]
pub extern "C" fn TF_OperationGetAttrType(
    oper: Ref<TF_Operation>,
    attr_name: CStrIn,
    value: Out<TF_DataTypeNumber>,
    status: Status,
) {
    store(oper, attr_name, value, status, |node, name| node.attrs.dtype(name).map(Into::into))
}

/// Stores the first `max_values` items of a list(type) attr.
#[unsafe(no_mangle)]
pub extern "C" fn TF_OperationGetAttrTypeList(
    oper: Ref<TF_Operation>,
    attr_name: CStrIn,
    values: ArrayMut<TF_DataTypeNumber>,
    max_values: c_int,
    status: Status,
) {
    let items = |list: &AttrList| match list {
        AttrList::Type(items) => Some(items.iter().map(|&dtype| dtype.into()).collect()),
        _ => None,
    };
    store_list(oper, attr_name, values, max_values, status, "type", items)
}

/// Stores the first `num_dims` dimensions of a shape attr, -1 for unknown ones.
#[unsafe(no_mangle)]
pub extern "C" fn TF_OperationGetAttrShape(
    oper: Ref<TF_Operation>,
    attr_name: CStrIn,
    value: ArrayMut<i64>,
    num_dims: c_int,
    status: Status,
) {
    guard(status, (), || {
        let (oper, name) = (oper.get("oper")?, attr_name.get("attr_name")?);
        let node = oper.node();
        let shape = node.attrs.shape(&name)?;
        let dims = shape.dims().unwrap_or_default();
        if num_dims < 0 {
            return Ok(());
        }
        store_items(dims.iter().map(|dim| dim.to_i64()), value, num_dims)
    })
}

/// Stores the shapes of a list one behind the other in `storage`, where each is, and each rank, -1 for an
/// unknown one.
#[unsafe(no_mangle)]
pub extern "C" fn TF_OperationGetAttrShapeList(
    oper: Ref<TF_Operation>,
    attr_name: CStrIn,
    mut dims: ArrayMut<*mut i64>,
    mut num_dims: ArrayMut<c_int>,
    num_shapes: c_int,
    storage: ArrayMut<i64>,
    storage_size: c_int,
    status: Status,
) {
    guard(status, (), || {
        let (name, list) = list(oper, attr_name)?;
        let shapes = shapes_of(&name, &list)?;
        let len = shapes.len().min(count(num_shapes, "num_shapes")?);
        let (dims, ranks) = (dims.get(len, "dims")?, num_dims.get(len, "num_dims")?);
        let (mut at, size) = (0, count(storage_size, "storage_size")?);
        for (index, shape) in shapes[..len].iter().enumerate() {
            let known = shape.dims().unwrap_or_default();
            if known.len() > size - at {
                return Err(invalid!("Not enough storage to hold the requested list of shapes"));
            }
            let mut target = storage.from(at);
            let out = target.get(known.len(), "storage")?;
            for (out, dim) in out.iter_mut().zip(known) {
                *out = dim.to_i64();
            }
            (dims[index], ranks[index]) = (target.as_ptr(), shape.rank().map_or(-1, to_int));
            at += known.len();
        }
        Ok(())
    })
}

fn shapes_of<'l>(name: &str, list: &'l AttrList) -> Result<&'l [PartialShape]> {
    match list {
        AttrList::Empty => Ok(&[]),
        AttrList::Shape(items) => Ok(items),
        other => Err(wrong_items(name, other, "shape")),
    }
}

/// Stores a shape attr as a serialised `TensorShapeProto`.
#[unsafe(no_mangle)]
pub extern "C" fn TF_OperationGetAttrTensorShapeProto(
    oper: Ref<TF_Operation>,
    attr_name: CStrIn,
    value: Mut<TF_Buffer>,
    status: Status,
) {
    guard(status, (), || match attr(oper, attr_name)? {
        (_, AttrValue::Shape(shape)) => fill(value, &shape_to_proto(&shape)),
        (name, _) => Err(invalid!("Value for '{name}' is not a shape.")),
    })
}

/// Stores the first `max_values` items of a list(shape) attr as new buffers, which the caller deletes.
#[unsafe(no_mangle)]
pub extern "C" fn TF_OperationGetAttrTensorShapeProtoList(
    oper: Ref<TF_Operation>,
    attr_name: CStrIn,
    values: ArrayMut<*mut TF_Buffer>,
    max_values: c_int,
    status: Status,
) {
    guard(status, (), || {
        let (name, list) = list(oper, attr_name)?;
        let shapes = shapes_of(&name, &list)?;
        let buffers = shapes.iter().map(|shape| tf_buffer::new(&shape_to_proto(shape)));
        store_items(buffers, values, max_values)
    })
}

/// Stores a tensor attr as a new tensor with memory of its own, which the caller deletes.
#[unsafe(no_mangle)]
pub extern "C" fn TF_OperationGetAttrTensor(
    oper: Ref<TF_Operation>,
    attr_name: CStrIn,
    mut value: Out<*mut TF_Tensor>,
    status: Status,
) {
    // The caller may write the tensor, the attr is nobody's to change.
    let read = |node: &Node, name: &str| {
        Ok(TF_Tensor::new(node.attrs.tensor(name)?.tensor()?.deep_copy()?))
    };
    value.put(ptr::null_mut(), "value").ok();
    store(oper, attr_name, value, status, read);
}

/// Stores the first `max_values` items of a list(tensor) attr as new tensors with memory of their own, which the
/// caller deletes.
#[unsafe(no_mangle)]
pub extern "C" fn TF_OperationGetAttrTensorList(
    oper: Ref<TF_Operation>,
    attr_name: CStrIn,
    mut values: ArrayMut<*mut TF_Tensor>,
    max_values: c_int,
    status: Status,
) {
    guard(status, (), || {
        let (name, list) = list(oper, attr_name)?;
        let tensors = match &*list {
            AttrList::Empty => Vec::new(),
            AttrList::Tensor(items) => {
                items.iter().map(|item| item.tensor()).collect::<Result<Vec<_>>>()?
            }
            other => return Err(wrong_items(&name, other, "tensor")),
        };
        let len = tensors.len().min(count(max_values, "max_values")?);
        let values = values.get(len, "values")?;
        let copies = tensors[..len].iter().map(Tensor::deep_copy).collect::<Result<Vec<_>>>()?;
        for (out, copy) in values.iter_mut().zip(copies) {
            *out = TF_Tensor::new(copy);
        }
        Ok(())
    })
}

/// Stores an attr as a serialised `AttrValue`.
#[unsafe(no_mangle)]
pub extern "C" fn TF_OperationGetAttrValueProto(
    oper: Ref<TF_Operation>,
    attr_name: CStrIn,
    output_attr_value: Mut<TF_Buffer>,
    status: Status,
) {
    guard(status, (), || {
        let (_, value) = attr(oper, attr_name)?;
        fill(output_attr_value, &value.to_proto())
    })
}

/// Returns the number of attributes.
#[unsafe(no_mangle)]
pub extern "C" fn TF_OperationGetNumAttrs(oper: Ref<TF_Operation>) -> c_int {
    oper.opt().map_or(0, |oper| to_int(oper.node().attrs.len()))
}

fn attr_name(oper: &TF_Operation, index: c_int) -> Result<Arc<str>> {
    let node = oper.node();
    let name = usize::try_from(index).ok().and_then(|index| node.attrs.iter().nth(index));
    match name {
        Some((name, _)) => Ok(name.clone()),
        None => Err(out_of_range!("Cannot get attr name at index {index}")),
    }
}

/// Returns the length of the name of attribute `i`, without a terminator; -1 if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn TF_OperationGetAttrNameLength(oper: Ref<TF_Operation>, i: c_int) -> c_int {
    quiet(-1, || Ok(to_int(attr_name(oper.get("oper")?, i)?.len())))
}

/// Copies the name of attribute `i` with a terminator.
#[unsafe(no_mangle)]
pub extern "C" fn TF_OperationGetAttrName(
    oper: Ref<TF_Operation>,
    i: c_int,
    mut output: ArrayMut<c_char>,
    status: Status,
) {
    guard(status, (), || {
        let name = attr_name(oper.get("oper")?, i)?;
        output.put_text(&name, "output")
    })
}

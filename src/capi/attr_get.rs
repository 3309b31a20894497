//! Queries about the attributes of operations.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use std::sync::Arc;

use tfcore_base::{Result, invalid, out_of_range};
use tfcore_framework::{AttrList, AttrValue, shape_to_proto};
use tfcore_graph::Node;
use tfcore_tensor::{PartialShape, Tensor};

use super::graph::TF_Operation;
use super::handle::{count, get, guard, put, quiet, slice_mut, text, to_int};
use super::operation::no_attr;
use super::tf_attrtype::TF_AttrType;
use super::tf_buffer::{self, TF_Buffer, fill};
use super::tf_datatype::TF_DataTypeNumber;
use super::tf_status::TF_Status;
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
///
/// # Safety
/// `oper` must be null or live, `attr_name` a NUL-terminated string.
unsafe fn attr(oper: *mut TF_Operation, attr_name: *const c_char) -> Result<(String, AttrValue)> {
    // SAFETY: as the caller promises.
    let (oper, name) = unsafe { (get(oper, "oper")?, text(attr_name, "attr_name")?) };
    let value = oper.node().attrs.get(&name).cloned().ok_or_else(|| no_attr(oper, &name))?;
    Ok((name.into_owned(), value))
}

/// As [`attr`], for a list.
///
/// # Safety
/// As for [`attr`].
unsafe fn list(
    oper: *mut TF_Operation,
    attr_name: *const c_char,
) -> Result<(String, Arc<AttrList>)> {
    // SAFETY: as the caller promises.
    match unsafe { attr(oper, attr_name)? } {
        (name, AttrValue::List(list)) => Ok((name, list)),
        (name, _) => Err(invalid!("Value for '{name}' is not a list")),
    }
}

/// Reads a scalar attr of the node with the typed getters of attributes and stores it.
///
/// # Safety
/// The pointers must be null or live.
unsafe fn store<T>(
    oper: *mut TF_Operation,
    attr_name: *const c_char,
    value: *mut T,
    status: *mut TF_Status,
    read: impl FnOnce(&Node, &str) -> Result<T>,
) {
    let body = || {
        // SAFETY: as the caller promises.
        let (oper, name) = unsafe { (get(oper, "oper")?, text(attr_name, "attr_name")?) };
        let read = read(&oper.node(), &name)?;
        // SAFETY: as the caller promises.
        unsafe { put(value, read, "value") }
    };
    // SAFETY: as the caller promises.
    unsafe { guard(status, (), body) }
}

/// Stores the first `max` items.
///
/// # Safety
/// `values` must be writable for `max` elements.
unsafe fn store_items<T>(
    items: impl ExactSizeIterator<Item = T>,
    values: *mut T,
    max: c_int,
) -> Result<()> {
    let len = items.len().min(count(max, "max_values")?);
    // SAFETY: as the caller promises.
    let values = unsafe { slice_mut(values, len, "values")? };
    for (out, item) in values.iter_mut().zip(items) {
        *out = item;
    }
    Ok(())
}

/// Reads a list attr of the node and stores its first `max` items; `items` yields those of a list of
/// the right type.
///
/// # Safety
/// `oper` and `status` must be null or live, `values` writable for `max` elements.
unsafe fn store_list<T>(
    oper: *mut TF_Operation,
    attr_name: *const c_char,
    values: *mut T,
    max: c_int,
    status: *mut TF_Status,
    item_type: &str,
    items: impl FnOnce(&AttrList) -> Option<Vec<T>>,
) {
    let body = || {
        // SAFETY: as the caller promises.
        let (name, list) = unsafe { list(oper, attr_name)? };
        let items = match &*list {
            AttrList::Empty => Vec::new(),
            other => items(other).ok_or_else(|| wrong_items(&name, other, item_type))?,
        };
        // SAFETY: as the caller promises.
        unsafe { store_items(items.into_iter(), values, max) }
    };
    // SAFETY: as the caller promises.
    unsafe { guard(status, (), body) }
}

fn wrong_items(name: &str, list: &AttrList, expected: &str) -> tfcore_base::Error {
    let actual = AttrValue::List(Arc::new(list.clone())).type_name();
    invalid!(
        "AttrValue had value with type '{actual}' when 'list({expected})' expected\n\t for attr '{name}'"
    )
}

/// Returns what an attribute is and how much room its value needs.
///
/// # Safety
/// `oper` must be live, `attr_name` a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_OperationGetAttrMetadata(
    oper: *mut TF_Operation,
    attr_name: *const c_char,
    status: *mut TF_Status,
) -> TF_AttrMetadata {
    let failure = TF_AttrMetadata {
        is_list: 0,
        list_size: 0,
        r#type: TF_AttrType::TF_ATTR_STRING,
        total_size: 0,
    };
    let body = || {
        // SAFETY: as the caller promises.
        let (name, value) = unsafe { attr(oper, attr_name)? };
        // SAFETY: as the caller promises.
        let declared =
            unsafe { get(oper, "oper")? }.op.attr(&name).map(|attr| attr.type_name.clone());
        metadata(&value, declared.as_deref())
    };
    // SAFETY: as the caller promises.
    unsafe { guard(status, failure, body) }
}

/// An empty list has the type that the op declares. A value that came malformed has nothing to tell.
fn metadata(value: &AttrValue, declared: Option<&str>) -> Result<TF_AttrMetadata> {
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
///
/// # Safety
/// `oper` must be live, `value` writable for `max_length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_OperationGetAttrString(
    oper: *mut TF_Operation,
    attr_name: *const c_char,
    value: *mut c_void,
    max_length: usize,
    status: *mut TF_Status,
) {
    let body = || {
        // SAFETY: as the caller promises.
        match unsafe { attr(oper, attr_name)? } {
            (_, AttrValue::String(text)) => {
                let len = text.len().min(max_length);
                // SAFETY: as the caller promises.
                let out = unsafe { slice_mut::<u8>(value.cast(), len, "value")? };
                out.copy_from_slice(&text[..len]);
                Ok(())
            }
            (name, _) => Err(invalid!("Attribute '{name}' is not a string")),
        }
    };
    // SAFETY: as the caller promises.
    unsafe { guard(status, (), body) }
}

/// Copies the strings of a list one behind the other into `storage` and stores where each is.
///
/// # Safety
/// `oper` must be live, `values` and `lengths` writable for `max_values` elements, `storage` for
/// `storage_size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_OperationGetAttrStringList(
    oper: *mut TF_Operation,
    attr_name: *const c_char,
    values: *mut *mut c_void,
    lengths: *mut usize,
    max_values: c_int,
    storage: *mut c_void,
    storage_size: usize,
    status: *mut TF_Status,
) {
    let body = || {
        // SAFETY: as the caller promises.
        let (name, list) = unsafe { list(oper, attr_name)? };
        let items: &[Arc<[u8]>] = match &*list {
            AttrList::Empty => &[],
            AttrList::String(items) => items,
            other => return Err(wrong_items(&name, other, "string")),
        };
        let len = items.len().min(count(max_values, "max_values")?);
        // SAFETY: as the caller promises.
        let (values, lengths) =
            unsafe { (slice_mut(values, len, "values")?, slice_mut(lengths, len, "lengths")?) };
        let mut at = 0;
        for (index, text) in items[..len].iter().enumerate() {
            if text.len() > storage_size - at {
                return Err(invalid!("Not enough storage to hold the requested list of strings"));
            }
            let target = storage.cast::<u8>().wrapping_add(at);
            // SAFETY: the storage has room for so many bytes.
            unsafe { slice_mut(target, text.len(), "storage")? }.copy_from_slice(text);
            (values[index], lengths[index]) = (target.cast(), text.len());
            at += text.len();
        }
        Ok(())
    };
    // SAFETY: as the caller promises.
    unsafe { guard(status, (), body) }
}

/// Stores an int attr.
///
/// # Safety
/// `oper` must be live, `value` writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_OperationGetAttrInt(
    oper: *mut TF_Operation,
    attr_name: *const c_char,
    value: *mut i64,
    status: *mut TF_Status,
) {
    // SAFETY: as the caller promises.
    unsafe { store(oper, attr_name, value, status, |node, name| node.attrs.int(name)) }
}

/// Stores the first `max_values` items of a list(int) attr.
///
/// # Safety
/// `oper` must be live, `values` writable for `max_values` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_OperationGetAttrIntList(
    oper: *mut TF_Operation,
    attr_name: *const c_char,
    values: *mut i64,
    max_values: c_int,
    status: *mut TF_Status,
) {
    let items = |list: &AttrList| match list {
        AttrList::Int(items) => Some(items.clone()),
        _ => None,
    };
    // SAFETY: as the caller promises.
    unsafe { store_list(oper, attr_name, values, max_values, status, "int", items) }
}

/// Stores a float attr.
///
/// # Safety
/// `oper` must be live, `value` writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_OperationGetAttrFloat(
    oper: *mut TF_Operation,
    attr_name: *const c_char,
    value: *mut f32,
    status: *mut TF_Status,
) {
    // SAFETY: as the caller promises.
    unsafe { store(oper, attr_name, value, status, |node, name| node.attrs.float(name)) }
}

/// Stores the first `max_values` items of a list(float) attr.
///
/// # Safety
/// `oper` must be live, `values` writable for `max_values` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_OperationGetAttrFloatList(
    oper: *mut TF_Operation,
    attr_name: *const c_char,
    values: *mut f32,
    max_values: c_int,
    status: *mut TF_Status,
) {
    let items = |list: &AttrList| match list {
        AttrList::Float(items) => Some(items.clone()),
        _ => None,
    };
    // SAFETY: as the caller promises.
    unsafe { store_list(oper, attr_name, values, max_values, status, "float", items) }
}

/// Stores a bool attr.
///
/// # Safety
/// `oper` must be live, `value` writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_OperationGetAttrBool(
    oper: *mut TF_Operation,
    attr_name: *const c_char,
    value: *mut u8,
    status: *mut TF_Status,
) {
    // SAFETY: as the caller promises.
    unsafe {
        store(oper, attr_name, value, status, |node, name| node.attrs.bool(name).map(u8::from))
    }
}

/// Stores the first `max_values` items of a list(bool) attr.
///
/// # Safety
/// `oper` must be live, `values` writable for `max_values` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_OperationGetAttrBoolList(
    oper: *mut TF_Operation,
    attr_name: *const c_char,
    values: *mut u8,
    max_values: c_int,
    status: *mut TF_Status,
) {
    let items = |list: &AttrList| match list {
        AttrList::Bool(items) => Some(items.iter().map(|&value| u8::from(value)).collect()),
        _ => None,
    };
    // SAFETY: as the caller promises.
    unsafe { store_list(oper, attr_name, values, max_values, status, "bool", items) }
}

/// Stores a type attr.
///
/// # Safety
/// `oper` must be live, `value` writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_OperationGetAttrType(
    oper: *mut TF_Operation,
    attr_name: *const c_char,
    value: *mut TF_DataTypeNumber,
    status: *mut TF_Status,
) {
    // SAFETY: as the caller promises.
    unsafe {
        store(oper, attr_name, value, status, |node, name| node.attrs.dtype(name).map(Into::into))
    }
}

/// Stores the first `max_values` items of a list(type) attr.
///
/// # Safety
/// `oper` must be live, `values` writable for `max_values` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_OperationGetAttrTypeList(
    oper: *mut TF_Operation,
    attr_name: *const c_char,
    values: *mut TF_DataTypeNumber,
    max_values: c_int,
    status: *mut TF_Status,
) {
    let items = |list: &AttrList| match list {
        AttrList::Type(items) => Some(items.iter().map(|&dtype| dtype.into()).collect()),
        _ => None,
    };
    // SAFETY: as the caller promises.
    unsafe { store_list(oper, attr_name, values, max_values, status, "type", items) }
}

/// Stores the first `num_dims` dimensions of a shape attr, -1 for unknown ones.
///
/// # Safety
/// `oper` must be live, `value` writable for `num_dims` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_OperationGetAttrShape(
    oper: *mut TF_Operation,
    attr_name: *const c_char,
    value: *mut i64,
    num_dims: c_int,
    status: *mut TF_Status,
) {
    let body = || {
        // SAFETY: as the caller promises.
        let (oper, name) = unsafe { (get(oper, "oper")?, text(attr_name, "attr_name")?) };
        let node = oper.node();
        let shape = node.attrs.shape(&name)?;
        let dims = shape.dims().unwrap_or_default();
        if num_dims < 0 {
            return Ok(());
        }
        // SAFETY: as the caller promises.
        unsafe { store_items(dims.iter().map(|dim| dim.to_i64()), value, num_dims) }
    };
    // SAFETY: as the caller promises.
    unsafe { guard(status, (), body) }
}

/// Stores the shapes of a list one behind the other in `storage`, where each is, and each rank, -1 for an
/// unknown one.
///
/// # Safety
/// `oper` must be live, `dims` and `num_dims` writable for `num_shapes` elements, `storage` for
/// `storage_size`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_OperationGetAttrShapeList(
    oper: *mut TF_Operation,
    attr_name: *const c_char,
    dims: *mut *mut i64,
    num_dims: *mut c_int,
    num_shapes: c_int,
    storage: *mut i64,
    storage_size: c_int,
    status: *mut TF_Status,
) {
    let body = || {
        // SAFETY: as the caller promises.
        let (name, list) = unsafe { list(oper, attr_name)? };
        let shapes = shapes_of(&name, &list)?;
        let len = shapes.len().min(count(num_shapes, "num_shapes")?);
        // SAFETY: as the caller promises.
        let (dims, ranks) =
            unsafe { (slice_mut(dims, len, "dims")?, slice_mut(num_dims, len, "num_dims")?) };
        let (mut at, size) = (0, count(storage_size, "storage_size")?);
        for (index, shape) in shapes[..len].iter().enumerate() {
            let known = shape.dims().unwrap_or_default();
            if known.len() > size - at {
                return Err(invalid!("Not enough storage to hold the requested list of shapes"));
            }
            let target = storage.wrapping_add(at);
            // SAFETY: the storage has room for so many elements.
            let out = unsafe { slice_mut(target, known.len(), "storage")? };
            for (out, dim) in out.iter_mut().zip(known) {
                *out = dim.to_i64();
            }
            (dims[index], ranks[index]) = (target, shape.rank().map_or(-1, to_int));
            at += known.len();
        }
        Ok(())
    };
    // SAFETY: as the caller promises.
    unsafe { guard(status, (), body) }
}

fn shapes_of<'l>(name: &str, list: &'l AttrList) -> Result<&'l [PartialShape]> {
    match list {
        AttrList::Empty => Ok(&[]),
        AttrList::Shape(items) => Ok(items),
        other => Err(wrong_items(name, other, "shape")),
    }
}

/// Stores a shape attr as a serialised `TensorShapeProto`.
///
/// # Safety
/// `oper`, the buffer and `status` must be live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_OperationGetAttrTensorShapeProto(
    oper: *mut TF_Operation,
    attr_name: *const c_char,
    value: *mut TF_Buffer,
    status: *mut TF_Status,
) {
    let body = || {
        // SAFETY: as the caller promises.
        match unsafe { attr(oper, attr_name)? } {
            // SAFETY: as the caller promises.
            (_, AttrValue::Shape(shape)) => unsafe { fill(value, &shape_to_proto(&shape)) },
            (name, _) => Err(invalid!("Value for '{name}' is not a shape.")),
        }
    };
    // SAFETY: as the caller promises.
    unsafe { guard(status, (), body) }
}

/// Stores the first `max_values` items of a list(shape) attr as new buffers, which the caller deletes.
///
/// # Safety
/// `oper` must be live, `values` writable for `max_values` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_OperationGetAttrTensorShapeProtoList(
    oper: *mut TF_Operation,
    attr_name: *const c_char,
    values: *mut *mut TF_Buffer,
    max_values: c_int,
    status: *mut TF_Status,
) {
    let body = || {
        // SAFETY: as the caller promises.
        let (name, list) = unsafe { list(oper, attr_name)? };
        let shapes = shapes_of(&name, &list)?;
        let buffers = shapes.iter().map(|shape| tf_buffer::new(&shape_to_proto(shape)));
        // SAFETY: as the caller promises.
        unsafe { store_items(buffers, values, max_values) }
    };
    // SAFETY: as the caller promises.
    unsafe { guard(status, (), body) }
}

/// Stores a tensor attr as a new tensor with memory of its own, which the caller deletes.
///
/// # Safety
/// `oper` must be live, `value` writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_OperationGetAttrTensor(
    oper: *mut TF_Operation,
    attr_name: *const c_char,
    value: *mut *mut TF_Tensor,
    status: *mut TF_Status,
) {
    // The caller may write the tensor, the attr is nobody's to change.
    let read = |node: &Node, name: &str| {
        Ok(TF_Tensor::new(node.attrs.tensor(name)?.tensor()?.deep_copy()?))
    };
    // SAFETY: as the caller promises.
    unsafe {
        if let Some(value) = value.as_mut() {
            *value = ptr::null_mut();
        }
        store(oper, attr_name, value, status, read);
    }
}

/// Stores the first `max_values` items of a list(tensor) attr as new tensors with memory of their own, which the
/// caller deletes.
///
/// # Safety
/// `oper` must be live, `values` writable for `max_values` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_OperationGetAttrTensorList(
    oper: *mut TF_Operation,
    attr_name: *const c_char,
    values: *mut *mut TF_Tensor,
    max_values: c_int,
    status: *mut TF_Status,
) {
    let body = || {
        // SAFETY: as the caller promises.
        let (name, list) = unsafe { list(oper, attr_name)? };
        let tensors = match &*list {
            AttrList::Empty => Vec::new(),
            AttrList::Tensor(items) => {
                items.iter().map(|item| item.tensor()).collect::<Result<Vec<_>>>()?
            }
            other => return Err(wrong_items(&name, other, "tensor")),
        };
        let len = tensors.len().min(count(max_values, "max_values")?);
        // SAFETY: as the caller promises.
        let values = unsafe { slice_mut(values, len, "values")? };
        let copies = tensors[..len].iter().map(Tensor::deep_copy).collect::<Result<Vec<_>>>()?;
        for (out, copy) in values.iter_mut().zip(copies) {
            *out = TF_Tensor::new(copy);
        }
        Ok(())
    };
    // SAFETY: as the caller promises.
    unsafe { guard(status, (), body) }
}

/// Stores an attr as a serialised `AttrValue`.
///
/// # Safety
/// `oper`, the buffer and `status` must be live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_OperationGetAttrValueProto(
    oper: *mut TF_Operation,
    attr_name: *const c_char,
    output_attr_value: *mut TF_Buffer,
    status: *mut TF_Status,
) {
    let body = || {
        // SAFETY: as the caller promises.
        let (_, value) = unsafe { attr(oper, attr_name)? };
        // SAFETY: as the caller promises.
        unsafe { fill(output_attr_value, &value.to_proto()) }
    };
    // SAFETY: as the caller promises.
    unsafe { guard(status, (), body) }
}

/// Returns the number of attributes.
///
/// # Safety
/// `oper` must be null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_OperationGetNumAttrs(oper: *mut TF_Operation) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { oper.as_ref() }.map_or(0, |oper| to_int(oper.node().attrs.len()))
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
///
/// # Safety
/// `oper` must be null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_OperationGetAttrNameLength(oper: *mut TF_Operation, i: c_int) -> c_int {
    quiet(-1, || {
        // SAFETY: as the caller promises.
        Ok(to_int(attr_name(unsafe { get(oper, "oper")? }, i)?.len()))
    })
}

/// Copies the name of attribute `i` with a terminator.
///
/// # Safety
/// `oper` must be live, `output` writable for one byte more than the name's length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_OperationGetAttrName(
    oper: *mut TF_Operation,
    i: c_int,
    output: *mut c_char,
    status: *mut TF_Status,
) {
    let body = || {
        // SAFETY: as the caller promises.
        let name = attr_name(unsafe { get(oper, "oper")? }, i)?;
        // SAFETY: as the caller promises.
        let out = unsafe { slice_mut::<u8>(output.cast(), name.len() + 1, "output")? };
        out[..name.len()].copy_from_slice(name.as_bytes());
        out[name.len()] = 0;
        Ok(())
    };
    // SAFETY: as the caller promises.
    unsafe { guard(status, (), body) }
}

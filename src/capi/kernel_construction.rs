//! `kernels.h`: the node that a kernel is made for: its name and its attrs.

use std::ffi::{c_char, c_int};
use std::ptr;

use tfcore_base::{DType, Error, Result, invalid};
use tfcore_framework::{AttrList, AttrValue, KernelInit};
use tfcore_proto as proto;

use super::attr_get::{metadata, store_items, store_texts, wrong_items};
use super::handle::{ArrayMut, BytesMut, CStrIn, Mut, Out, Ref, Status, guard, quiet};
use super::kernel_types::TF_StringView;
use super::tf_buffer::{self, TF_Buffer};
use super::tf_datatype::TF_DataTypeNumber;
use super::tf_status::TF_Status;
use super::tf_tensor::TF_Tensor;

/// A node whose kernel is being made. It lives as long as the call of the function that it was passed to.
pub struct TF_OpKernelConstruction {
    _construction: (),
}

/// The object behind a `TF_OpKernelConstruction`.
pub(super) struct Construction<'a> {
    pub(super) init: KernelInit<'a>,
    failure: Option<Error>,
}

impl Construction<'_> {
    pub(super) fn new<'a>(init: &KernelInit<'a>) -> Construction<'a> {
        Construction { init: *init, failure: None }
    }

    pub(super) fn as_ptr(&mut self) -> *mut TF_OpKernelConstruction {
        ptr::from_mut(self).cast()
    }

    /// The error that the client has noted.
    pub(super) fn result(&mut self) -> Result<()> {
        self.failure.take().map_or(Ok(()), Err)
    }

    /// # Errors
    /// `InvalidArgument` if the node lacks the attr.
    fn attr(&self, name: &str) -> Result<&AttrValue> {
        let missing = || invalid!("Operation '{}' has no attr named '{name}'.", self.init.name);
        self.init.attrs.get(name).ok_or_else(missing)
    }
}

/// The construction behind a pointer.
pub(super) fn construction(
    ctx: &mut Mut<TF_OpKernelConstruction>,
) -> Result<&mut Construction<'static>> {
    // SAFETY: `Construction::as_ptr` makes these pointers, of a construction that lives during the call of the client's
    // function; no C function keeps a part of it.
    unsafe { ctx.get_as("ctx") }
}

/// Reads an attr of the node and stores it.
fn store<T>(
    mut ctx: Mut<TF_OpKernelConstruction>,
    attr_name: CStrIn,
    mut value: Out<T>,
    status: Status,
    read: impl FnOnce(&KernelInit<'static>, &str) -> Result<T>,
) {
    guard(status, (), || {
        let read = read(&construction(&mut ctx)?.init, &attr_name.get("attr_name")?)?;
        value.put(read, "val")
    })
}

/// Reads a list attr of the node and stores its first `max` items; `items` yields those of a list of the right type.
fn store_list<T>(
    mut ctx: Mut<TF_OpKernelConstruction>,
    attr_name: CStrIn,
    values: ArrayMut<T>,
    max: c_int,
    status: Status,
    item_type: &str,
    items: impl FnOnce(&AttrList) -> Option<Vec<T>>,
) {
    guard(status, (), || {
        let name = attr_name.get("attr_name")?;
        let AttrValue::List(list) = construction(&mut ctx)?.attr(&name)? else {
            return Err(invalid!("Value for '{name}' is not a list."));
        };
        let items = match &**list {
            AttrList::Empty => Vec::new(),
            other => items(other).ok_or_else(|| wrong_items(&name, other, item_type))?,
        };
        store_items(items.into_iter(), values, max.max(0))
    })
}

/// Says that the kernel cannot be made: the node fails with this status.
#[unsafe(no_mangle)]
pub extern "C" fn TF_OpKernelConstruction_Failure(
    mut ctx: Mut<TF_OpKernelConstruction>,
    status: Ref<TF_Status>,
) {
    quiet((), || {
        let error = status.get("status")?.result().err();
        construction(&mut ctx)?.failure = error;
        Ok(())
    });
}

/// Stores the number of items of an attr that is a list, else -1, and the room that its value needs: the length of a
/// string, summed over a list, the rank of a shape, summed over a list, else -1.
#[unsafe(no_mangle)]
pub extern "C" fn TF_OpKernelConstruction_GetAttrSize(
    mut ctx: Mut<TF_OpKernelConstruction>,
    attr_name: CStrIn,
    mut list_size: Out<i32>,
    mut total_size: Out<i32>,
    status: Status,
) {
    guard(status, (), || {
        list_size.put(-1, "list_size")?;
        total_size.put(-1, "total_size")?;
        let value = construction(&mut ctx)?.attr(&attr_name.get("attr_name")?)?;
        let (items, total) = match value {
            AttrValue::List(list) if list.is_empty() => (0, -1),
            value => metadata(value, None).map(|data| (data.list_size, data.total_size))?,
        };
        let to_i32 = |size: i64| i32::try_from(size).unwrap_or(i32::MAX);
        list_size.put(to_i32(items), "list_size")?;
        total_size.put(to_i32(total), "total_size")
    })
}

/// Stores a type attr.
#[unsafe(no_mangle)]
pub extern "C" fn TF_OpKernelConstruction_GetAttrType(
    ctx: Mut<TF_OpKernelConstruction>,
    attr_name: CStrIn,
    val: Out<TF_DataTypeNumber>,
    status: Status,
) {
    store(ctx, attr_name, val, status, |init, name| init.attrs.dtype(name).map(Into::into))
}

/// Stores an int attr. Reports `TF_INVALID_ARGUMENT` if it does not fit.
#[unsafe(no_mangle)]
pub extern "C" fn TF_OpKernelConstruction_GetAttrInt32(
    ctx: Mut<TF_OpKernelConstruction>,
    attr_name: CStrIn,
    val: Out<i32>,
    status: Status,
) {
    store(ctx, attr_name, val, status, |init, name| {
        let value = init.attrs.int(name)?;
        let too_large = || invalid!("Attr {name} has value {value} out of range for an int32");
        i32::try_from(value).map_err(|_| too_large())
    })
}

/// Stores an int attr.
#[unsafe(no_mangle)]
pub extern "C" fn TF_OpKernelConstruction_GetAttrInt64(
    ctx: Mut<TF_OpKernelConstruction>,
    attr_name: CStrIn,
    val: Out<i64>,
    status: Status,
) {
    store(ctx, attr_name, val, status, |init, name| init.attrs.int(name))
}

/// Stores a float attr.
#[unsafe(no_mangle)]
pub extern "C" fn TF_OpKernelConstruction_GetAttrFloat(
    ctx: Mut<TF_OpKernelConstruction>,
    attr_name: CStrIn,
    val: Out<f32>,
    status: Status,
) {
    store(ctx, attr_name, val, status, |init, name| init.attrs.float(name))
}

/// Stores a bool attr.
#[unsafe(no_mangle)]
pub extern "C" fn TF_OpKernelConstruction_GetAttrBool(
    ctx: Mut<TF_OpKernelConstruction>,
    attr_name: CStrIn,
    val: Out<u8>,
    status: Status,
) {
    store(ctx, attr_name, val, status, |init, name| init.attrs.bool(name).map(u8::from))
}

/// Copies at most `max_length` bytes of a string attr, without a terminator.
#[unsafe(no_mangle)]
pub extern "C" fn TF_OpKernelConstruction_GetAttrString(
    mut ctx: Mut<TF_OpKernelConstruction>,
    attr_name: CStrIn,
    mut val: ArrayMut<c_char>,
    max_length: usize,
    status: Status,
) {
    guard(status, (), || {
        let text = construction(&mut ctx)?.init.attrs.bytes(&attr_name.get("attr_name")?)?;
        let out = val.get(text.len().min(max_length), "val")?;
        for (out, &byte) in out.iter_mut().zip(text) {
            *out = byte as c_char;
        }
        Ok(())
    })
}

/// Stores a tensor attr as a new tensor with memory of its own, which the caller deletes; null on error.
#[unsafe(no_mangle)]
pub extern "C" fn TF_OpKernelConstruction_GetAttrTensor(
    ctx: Mut<TF_OpKernelConstruction>,
    attr_name: CStrIn,
    mut val: Out<*mut TF_Tensor>,
    status: Status,
) {
    val.put(ptr::null_mut(), "val").ok();
    store(ctx, attr_name, val, status, |init, name| {
        Ok(TF_Tensor::new(init.attrs.tensor(name)?.tensor()?.deep_copy()?))
    })
}

/// Stores the first `max_vals` items of a list(type) attr.
#[unsafe(no_mangle)]
pub extern "C" fn TF_OpKernelConstruction_GetAttrTypeList(
    ctx: Mut<TF_OpKernelConstruction>,
    attr_name: CStrIn,
    vals: ArrayMut<TF_DataTypeNumber>,
    max_vals: c_int,
    status: Status,
) {
    let items = |list: &AttrList| match list {
        AttrList::Type(items) => Some(items.iter().map(|&dtype: &DType| dtype.into()).collect()),
        _ => None,
    };
    store_list(ctx, attr_name, vals, max_vals, status, "type", items)
}

/// Stores the first `max_vals` items of a list(int) attr, each without the bits that do not fit.
#[unsafe(no_mangle)]
pub extern "C" fn TF_OpKernelConstruction_GetAttrInt32List(
    ctx: Mut<TF_OpKernelConstruction>,
    attr_name: CStrIn,
    vals: ArrayMut<i32>,
    max_vals: c_int,
    status: Status,
) {
    let items = |list: &AttrList| match list {
        AttrList::Int(items) => Some(items.iter().map(|&value| value as i32).collect()),
        _ => None,
    };
    store_list(ctx, attr_name, vals, max_vals, status, "int", items)
}

/// Stores the first `max_vals` items of a list(int) attr.
#[unsafe(no_mangle)]
pub extern "C" fn TF_OpKernelConstruction_GetAttrInt64List(
    ctx: Mut<TF_OpKernelConstruction>,
    attr_name: CStrIn,
    vals: ArrayMut<i64>,
    max_vals: c_int,
    status: Status,
) {
    let items = |list: &AttrList| match list {
        AttrList::Int(items) => Some(items.clone()),
        _ => None,
    };
    store_list(ctx, attr_name, vals, max_vals, status, "int", items)
}

/// Stores the first `max_vals` items of a list(float) attr.
#[unsafe(no_mangle)]
pub extern "C" fn TF_OpKernelConstruction_GetAttrFloatList(
    ctx: Mut<TF_OpKernelConstruction>,
    attr_name: CStrIn,
    vals: ArrayMut<f32>,
    max_vals: c_int,
    status: Status,
) {
    let items = |list: &AttrList| match list {
        AttrList::Float(items) => Some(items.clone()),
        _ => None,
    };
    store_list(ctx, attr_name, vals, max_vals, status, "float", items)
}

/// Stores the first `max_vals` items of a list(bool) attr.
#[unsafe(no_mangle)]
pub extern "C" fn TF_OpKernelConstruction_GetAttrBoolList(
    ctx: Mut<TF_OpKernelConstruction>,
    attr_name: CStrIn,
    vals: ArrayMut<u8>,
    max_vals: c_int,
    status: Status,
) {
    let items = |list: &AttrList| match list {
        AttrList::Bool(items) => Some(items.iter().map(|&value| u8::from(value)).collect()),
        _ => None,
    };
    store_list(ctx, attr_name, vals, max_vals, status, "bool", items)
}

/// Copies the first `max_values` strings of a list one behind the other into `storage` and stores the address and the
/// length of each.
#[unsafe(no_mangle)]
pub extern "C" fn TF_OpKernelConstruction_GetAttrStringList(
    mut ctx: Mut<TF_OpKernelConstruction>,
    attr_name: CStrIn,
    values: ArrayMut<*mut c_char>,
    lengths: ArrayMut<usize>,
    max_values: c_int,
    storage: BytesMut,
    storage_size: usize,
    status: Status,
) {
    guard(status, (), || {
        let construction = construction(&mut ctx)?;
        let items = construction.init.attrs.string_list(&attr_name.get("attr_name")?)?;
        store_texts(items, values, lengths, max_values.max(0), storage, storage_size)
    })
}

/// Stores the first `max_values` items of a list(tensor) attr as new tensors with memory of their own, which the caller
/// deletes.
#[unsafe(no_mangle)]
pub extern "C" fn TF_OpKernelConstruction_GetAttrTensorList(
    mut ctx: Mut<TF_OpKernelConstruction>,
    attr_name: CStrIn,
    mut vals: ArrayMut<*mut TF_Tensor>,
    max_values: c_int,
    status: Status,
) {
    guard(status, (), || {
        let name = attr_name.get("attr_name")?;
        let items = match construction(&mut ctx)?.init.attrs.require(&name)? {
            AttrValue::List(list) => match &**list {
                AttrList::Empty => &[][..],
                AttrList::Tensor(items) => items,
                other => return Err(wrong_items(&name, other, "tensor")),
            },
            _ => return Err(invalid!("Value for '{name}' is not a list.")),
        };
        let len = items.len().min(usize::try_from(max_values).unwrap_or(0));
        let copies = items[..len].iter().map(|item| item.tensor()?.deep_copy());
        let copies = copies.collect::<Result<Vec<_>>>()?;
        for (out, copy) in vals.get(len, "vals")?.iter_mut().zip(copies) {
            *out = TF_Tensor::new(copy);
        }
        Ok(())
    })
}

/// Returns an attr of type func as a serialised `NameAttrList`, for the caller to delete; null on error.
#[unsafe(no_mangle)]
pub extern "C" fn TF_OpKernelConstruction_GetAttrFunction(
    mut ctx: Mut<TF_OpKernelConstruction>,
    attr_name: CStrIn,
    status: Status,
) -> *mut TF_Buffer {
    guard(status, ptr::null_mut(), || {
        let attrs = construction(&mut ctx)?.init.attrs;
        let name = attr_name.get("attr_name")?;
        attrs.func(&name)?;
        match attrs.require(&name)?.to_proto().value {
            Some(proto::attr_value::Value::Func(function)) => Ok(tf_buffer::new(&*function)),
            _ => Ok(ptr::null_mut()),
        }
    })
}

/// Returns true if the node has the attr.
#[unsafe(no_mangle)]
pub extern "C" fn TF_OpKernelConstruction_HasAttr(
    mut ctx: Mut<TF_OpKernelConstruction>,
    attr_name: CStrIn,
    status: Status,
) -> bool {
    guard(status, false, || {
        Ok(construction(&mut ctx)?.init.attrs.contains(&attr_name.get("attr_name")?))
    })
}

/// Returns the name of the node. It lives as long as the construction.
#[unsafe(no_mangle)]
pub extern "C" fn TF_OpKernelConstruction_GetName(
    mut ctx: Mut<TF_OpKernelConstruction>,
) -> TF_StringView {
    quiet(TF_StringView::new(""), || Ok(TF_StringView::new(construction(&mut ctx)?.init.name)))
}

/// Returns the node as a serialised `NodeDef` without inputs, for the caller to delete; null on error.
#[unsafe(no_mangle)]
pub extern "C" fn TF_OpKernelConstruction_GetNodeDef(
    mut ctx: Mut<TF_OpKernelConstruction>,
    status: Status,
) -> *mut TF_Buffer {
    guard(status, ptr::null_mut(), || {
        let init = &construction(&mut ctx)?.init;
        let attr = init.attrs.iter().map(|(name, value)| (name.to_string(), value.to_proto()));
        let def = proto::NodeDef {
            name: init.name.to_string(),
            op: init.op.name.to_string(),
            attr: attr.collect(),
            ..Default::default()
        };
        Ok(tf_buffer::new(&def))
    })
}

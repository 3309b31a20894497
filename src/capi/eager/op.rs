//! Ops of eager execution: their inputs, and how they are run.

use std::ffi::{CString, c_char, c_int, c_uchar};
use std::ptr;
use std::sync::Arc;

use tfcore_base::{Error, Result, invalid, unimplemented_error};
use tfcore_framework::{AttrDef, Cancellation};

use tfcore_runtime::{DeviceSpec, EagerContext, EagerOp};

use super::context::TFE_Context;
use super::op_attrs::TFE_OpAttrs;
use super::tensor_handle::TFE_TensorHandle;
use crate::capi::handle::{
    ArrayMut, Boxed, CStrIn, Counted, In, Mut, Out, Owned, Ref, Status, count, guard, to_int,
};
use crate::capi::tf_attrtype::TF_AttrType;

/// An op with inputs and attrs, to be executed once or several times.
pub struct TFE_Op {
    pub(super) client_context: Ref<TFE_Context>,
    context: Arc<EagerContext>,
    pub(super) op: EagerOp,
    /// The handles as the client passed them.
    inputs: Vec<Arc<TFE_TensorHandle>>,
    device: CString,
    pub(super) cancellation: Option<Arc<Cancellation>>,
    /// The first thing that was wrong with an attr; the calls have no status to report it by.
    pub(super) error: Option<Error>,
    /// What `TFE_OpGetAttrs` has handed out.
    pub(super) attrs: Option<Box<TFE_OpAttrs>>,
}

impl Boxed for TFE_Op {}

impl TFE_Op {
    pub(super) fn new(ctx: Ref<TFE_Context>, name: &str) -> Result<TFE_Op> {
        let context = TFE_Context::of(&ctx)?.clone();
        let op = EagerOp::new(context.find_op(name)?);
        Ok(TFE_Op {
            client_context: ctx,
            context,
            op,
            inputs: Vec::new(),
            device: CString::default(),
            cancellation: None,
            error: None,
            attrs: None,
        })
    }

    pub(super) fn set_device(&mut self, device: &str) -> Result<()> {
        let name = &self.op.op().name;
        let spec = match device {
            "" => String::new(),
            _ => DeviceSpec::parse(device)
                .ok_or_else(|| {
                    invalid!(
                        "Malformed device specification '{device}' in eager op: Name: {name}\nDevice Name: []"
                    )
                })?
                .to_string(),
        };
        self.device = c_string(&spec)?;
        self.op.set_device(spec);
        Ok(())
    }

    fn add_input(&mut self, input: Ref<TFE_TensorHandle>) -> Result<()> {
        TFE_TensorHandle::of(&input)?;
        let input = TFE_TensorHandle::share(input, "input")?;
        self.op.add_input(input.handle.clone());
        self.inputs.push(input);
        Ok(())
    }
}

fn c_string(text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| invalid!("A name holds a NUL"))
}

/// Returns an op, or a call of a function of the context, for the caller to delete; null on error.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_NewOp(
    ctx: Ref<TFE_Context>,
    op_or_function_name: CStrIn,
    status: Status,
) -> *mut TFE_Op {
    guard(status, ptr::null_mut(), || {
        Ok(TFE_Op::new(ctx, &op_or_function_name.get("op_or_function_name")?)?.hand_out())
    })
}

/// Deletes an op; null is allowed. Its inputs and outputs stay the caller's.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_DeleteOp(op: Owned<TFE_Op>) {
    drop(op);
}

/// Returns the name of the op or function, which lives as long as the op; null on error.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_OpGetName(op: In<TFE_Op>, status: Status) -> *const c_char {
    guard(status, ptr::null(), || Ok(op.get("op")?.op.op().c_name.as_ptr()))
}

/// Returns the context that the op was made for.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_OpGetContext(op: In<TFE_Op>, status: Status) -> *mut TFE_Context {
    guard(status, ptr::null_mut(), || Ok(op.get("op")?.client_context.as_ptr()))
}

/// Requests a device; an empty string requests none. Parts of the name may be left out.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_OpSetDevice(mut op: Mut<TFE_Op>, device_name: CStrIn, status: Status) {
    guard(status, (), || op.get("op")?.set_device(&device_name.get("device_name")?))
}

/// Returns the device that was requested, or, once the op has been executed, that of the execution. It lives until the device
/// changes.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_OpGetDevice(op: In<TFE_Op>, status: Status) -> *const c_char {
    guard(status, ptr::null(), || Ok(op.get("op")?.device.as_ptr()))
}

/// Adds the next input, where the op takes one tensor. The handle stays the caller's.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_OpAddInput(
    mut op: Mut<TFE_Op>,
    input: Ref<TFE_TensorHandle>,
    status: Status,
) {
    guard(status, (), || op.get("op")?.add_input(input))
}

/// Adds the next input, where the op takes a list. The handles stay the caller's.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_OpAddInputList(
    mut op: Mut<TFE_Op>,
    mut inputs: ArrayMut<Ref<TFE_TensorHandle>>,
    num_inputs: c_int,
    status: Status,
) {
    guard(status, (), || {
        let op = op.get("op")?;
        let inputs = inputs.get(count(num_inputs, "num_inputs")?, "inputs")?;
        let shared = inputs.iter().map(|input| {
            TFE_TensorHandle::of(input)?;
            TFE_TensorHandle::share(*input, "inputs")
        });
        let shared = shared.collect::<Result<Vec<_>>>()?;
        op.op.add_input_list(shared.iter().map(|input| input.handle.clone()));
        op.inputs.extend(shared);
        Ok(())
    })
}

/// Returns the number of tensors that have been added as inputs.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_OpGetFlatInputCount(op: In<TFE_Op>, status: Status) -> c_int {
    guard(status, 0, || Ok(to_int(op.get("op")?.inputs.len())))
}

/// Returns an input, which stays the op's; null if there is none of that index.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_OpGetFlatInput(
    op: In<TFE_Op>,
    index: c_int,
    status: Status,
) -> *mut TFE_TensorHandle {
    guard(status, ptr::null_mut(), || {
        let inputs = &op.get("op")?.inputs;
        let input = usize::try_from(index).ok().and_then(|index| inputs.get(index));
        let input = input.ok_or_else(|| invalid!("The op has no input {index}"))?;
        Ok(Arc::as_ptr(input).cast_mut())
    })
}

/// The type of a declared attr, and whether it is a list.
fn attr_type(attr: Option<&AttrDef>, name: &str) -> Result<(TF_AttrType, bool)> {
    let attr =
        attr.ok_or_else(|| invalid!("Attribute '{name}' does not exist for this operation"))?;
    let item = attr.type_name.strip_prefix("list(").and_then(|rest| rest.strip_suffix(')'));
    let type_name = item.unwrap_or(&attr.type_name);
    let number = match type_name {
        "string" => TF_AttrType::TF_ATTR_STRING,
        "int" => TF_AttrType::TF_ATTR_INT,
        "float" => TF_AttrType::TF_ATTR_FLOAT,
        "bool" => TF_AttrType::TF_ATTR_BOOL,
        "type" => TF_AttrType::TF_ATTR_TYPE,
        "shape" => TF_AttrType::TF_ATTR_SHAPE,
        "tensor" => TF_AttrType::TF_ATTR_TENSOR,
        "func" => TF_AttrType::TF_ATTR_FUNC,
        other => return Err(unimplemented_error!("Unsupported attribute type {other}")),
    };
    Ok((number, item.is_some()))
}

/// Returns the type of an attr and stores whether it is a list. `TF_ATTR_INT` on error.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_OpGetAttrType(
    op: Ref<TFE_Op>,
    attr_name: CStrIn,
    mut is_list: Out<c_uchar>,
    status: Status,
) -> TF_AttrType {
    guard(status, TF_AttrType::TF_ATTR_INT, || {
        let name = attr_name.get("attr_name")?;
        let (number, is) = attr_type(op.get("op")?.op.op().attr(&name), &name)?;
        is_list.put(c_uchar::from(is), "is_list")?;
        Ok(number)
    })
}

/// As `TFE_OpGetAttrType`, for the name of an op or function.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_OpNameGetAttrType(
    ctx: Ref<TFE_Context>,
    op_or_function_name: CStrIn,
    attr_name: CStrIn,
    mut is_list: Out<c_uchar>,
    status: Status,
) -> TF_AttrType {
    guard(status, TF_AttrType::TF_ATTR_INT, || {
        let op = TFE_Context::of(&ctx)?.find_op(&op_or_function_name.get("name")?)?;
        let name = attr_name.get("attr_name")?;
        let (number, is) = attr_type(op.attr(&name), &name)?;
        is_list.put(c_uchar::from(is), "is_list")?;
        Ok(number)
    })
}

/// Returns the number of tensors of an input argument, as far as inputs and attrs tell; -1 on error.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_OpGetInputLength(
    op: Ref<TFE_Op>,
    input_name: CStrIn,
    status: Status,
) -> c_int {
    guard(status, -1, || Ok(to_int(op.get("op")?.op.input_len(&input_name.get("input_name")?)?)))
}

/// Returns the number of tensors of an output argument, as far as inputs and attrs tell; -1 on error.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_OpGetOutputLength(
    op: Ref<TFE_Op>,
    output_name: CStrIn,
    status: Status,
) -> c_int {
    guard(status, -1, || Ok(to_int(op.get("op")?.op.output_len(&output_name.get("output_name")?)?)))
}

/// Executes the op, or has the thread's executor do so. `*num_retvals` is the room in `retvals`, and then the number of outputs, whose
/// handles the caller deletes.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_Execute(
    mut op: Mut<TFE_Op>,
    mut retvals: ArrayMut<*mut TFE_TensorHandle>,
    mut num_retvals: Mut<c_int>,
    status: Status,
) {
    guard(status, (), || {
        let (op, num) = (op.get("op")?, num_retvals.get("num_retvals")?);
        if let Some(error) = &op.error {
            return Err(error.clone());
        }
        let TFE_Op { context, op, cancellation, device, .. } = op;
        let room = usize::try_from(*num).unwrap_or(0);
        let handles = context.execute(op, room, cancellation.as_ref());
        if device.as_bytes() != op.device().as_bytes() {
            *device = c_string(op.device())?;
        }
        let handles = handles?;
        let retvals = retvals.get(handles.len(), "retvals")?;
        *num = to_int(handles.len());
        for (retval, handle) in retvals.iter_mut().zip(handles) {
            *retval = TFE_TensorHandle::in_context(context, handle);
        }
        Ok(())
    })
}

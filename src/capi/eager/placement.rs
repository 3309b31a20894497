//! Switches of contexts: placement, and ways of executing that make no difference here.

use std::ffi::{c_char, c_int, c_uchar};
use std::ptr;

use super::context::TFE_Context;
use super::tensor_handle::TFE_TensorHandle;
use crate::capi::handle::{Ref, Status, guard};

/// Has ops that request a device that there is not run on another one.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_ContextSetSoftDevicePlacement(
    ctx: Ref<TFE_Context>,
    enable: c_uchar,
    status: Status,
) {
    guard(status, (), || {
        TFE_Context::of(&ctx)?.set_soft_placement(enable != 0);
        Ok(())
    })
}

/// Has the device of each op logged. Nothing is logged yet.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_ContextSetLogDevicePlacement(
    ctx: Ref<TFE_Context>,
    _enable: c_uchar,
    status: Status,
) {
    guard(status, (), || TFE_Context::of(&ctx).map(drop))
}

/// Has ops run as functions of one op, which makes no difference.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_ContextSetRunEagerOpAsFunction(
    ctx: Ref<TFE_Context>,
    _enable: c_uchar,
    status: Status,
) {
    guard(status, (), || TFE_Context::of(&ctx).map(drop))
}

/// Has functions compiled by XLA, which is not built in: nothing changes.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_ContextSetJitCompileRewrite(
    ctx: Ref<TFE_Context>,
    _enable: c_uchar,
    status: Status,
) {
    guard(status, (), || TFE_Context::of(&ctx).map(drop))
}

/// Returns the type of the device of a tensor, such as "CPU"; null on error. It lives as long as the process.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_TensorHandleDeviceType(
    h: Ref<TFE_TensorHandle>,
    status: Status,
) -> *const c_char {
    guard(status, ptr::null(), || {
        TFE_TensorHandle::of(&h)?;
        Ok(c"CPU".as_ptr())
    })
}

/// Returns the number of the device of a tensor among those of its type; -1 on error.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_TensorHandleDeviceID(h: Ref<TFE_TensorHandle>, status: Status) -> c_int {
    guard(status, -1, || Ok(c_int::from(TFE_TensorHandle::of(&h)?.handle.device())))
}

/// Stores the error of the op that was to make the tensor, if it is known already.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_TensorHandleGetStatus(h: Ref<TFE_TensorHandle>, status: Status) {
    guard(status, (), || TFE_TensorHandle::of(&h)?.handle.known_status())
}

//! Handles of tensors in eager execution.

use std::ffi::{CStr, c_char, c_int};
use std::ptr;
use std::sync::Arc;

use tfcore_base::{DType, Result, invalid};
use tfcore_runtime::{EagerContext, TensorHandle};
use tfcore_tensor::Tensor;

use super::context::TFE_Context;
use crate::capi::handle::{
    Boxed, CStrIn, Counted, Handle, In, Owned, Ref, Status, guard, quiet, to_int,
};
use crate::capi::tf_datatype::TF_DataTypeNumber;
use crate::capi::tf_tensor::TF_Tensor;

/// A tensor on a device: one that is there, or one that an op will have made. Handles never change.
pub struct TFE_TensorHandle {
    pub(crate) handle: Arc<TensorHandle>,
    /// The full name of the device.
    device: Arc<CStr>,
}

impl Counted for TFE_TensorHandle {}

impl Handle for TFE_TensorHandle {
    unsafe fn free(handle: *mut TFE_TensorHandle) {
        // SAFETY: as the caller promises.
        drop(unsafe { TFE_TensorHandle::take_back(handle) });
    }
}

/// The first device, which every context has.
const FIRST: &CStr = c"/job:localhost/replica:0/task:0/device:CPU:0";

impl TFE_TensorHandle {
    /// The handle of a tensor on the first device.
    pub(crate) fn of_tensor(tensor: Tensor) -> *mut TFE_TensorHandle {
        let handle = Arc::new(TensorHandle::new(tensor, 0));
        Arc::new(TFE_TensorHandle { handle, device: FIRST.into() }).hand_out_counted()
    }

    /// A handle on a device of `context`.
    pub(crate) fn in_context(
        context: &EagerContext,
        handle: TensorHandle,
    ) -> *mut TFE_TensorHandle {
        let device = context.devices().get(usize::from(handle.device()));
        let device = device.map_or(FIRST.into(), |device| device.c_name.as_c_str().into());
        Arc::new(TFE_TensorHandle { handle: Arc::new(handle), device }).hand_out_counted()
    }

    /// The handle of an argument.
    ///
    /// # Errors
    /// `InvalidArgument` for null.
    pub(crate) fn of(h: &Ref<TFE_TensorHandle>) -> Result<&TFE_TensorHandle> {
        h.opt().ok_or_else(|| invalid!("Invalid handle"))
    }

    pub(crate) fn device(&self) -> &CStr {
        &self.device
    }
}

/// Returns a handle of a tensor, for the caller to delete; null on error. It shares the tensor's memory, which must not be changed
/// any more.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_NewTensorHandle(t: In<TF_Tensor>, status: Status) -> *mut TFE_TensorHandle {
    guard(status, ptr::null_mut(), || Ok(TFE_TensorHandle::of_tensor(t.get("t")?.tensor()?)))
}

/// Deletes a handle; null is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_DeleteTensorHandle(h: Owned<TFE_TensorHandle>) {
    drop(h);
}

/// Returns the dtype.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_TensorHandleDataType(h: Ref<TFE_TensorHandle>) -> TF_DataTypeNumber {
    quiet(DType::FLOAT.into(), || Ok(TFE_TensorHandle::of(&h)?.handle.dtype().into()))
}

/// Returns the rank; waits for the tensor. -1 on error.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_TensorHandleNumDims(h: Ref<TFE_TensorHandle>, status: Status) -> c_int {
    guard(status, -1, || Ok(to_int(TFE_TensorHandle::of(&h)?.handle.tensor()?.rank())))
}

/// Returns the number of elements; waits for the tensor. -1 on error.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_TensorHandleNumElements(h: Ref<TFE_TensorHandle>, status: Status) -> i64 {
    guard(status, -1, || Ok(TFE_TensorHandle::of(&h)?.handle.tensor()?.count() as i64))
}

/// Returns a dimension; waits for the tensor. -1 on error.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_TensorHandleDim(
    h: Ref<TFE_TensorHandle>,
    dim_index: c_int,
    status: Status,
) -> i64 {
    guard(status, -1, || {
        let tensor = TFE_TensorHandle::of(&h)?.handle.tensor()?;
        let dims = tensor.shape().dims();
        let dim = usize::try_from(dim_index).ok().and_then(|index| dims.get(index));
        dim.copied()
            .ok_or_else(|| invalid!("A tensor of rank {} has no dimension {dim_index}", dims.len()))
    })
}

/// Returns the full name of the device of the op that made the tensor, which lives as long as the handle; null on error.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_TensorHandleDeviceName(
    h: Ref<TFE_TensorHandle>,
    status: Status,
) -> *const c_char {
    guard(status, ptr::null(), || Ok(TFE_TensorHandle::of(&h)?.device().as_ptr()))
}

/// Returns the full name of the device whose memory holds the tensor, which lives as long as the handle; null on error.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_TensorHandleBackingDeviceName(
    h: Ref<TFE_TensorHandle>,
    status: Status,
) -> *const c_char {
    TFE_TensorHandleDeviceName(h, status)
}

/// Returns another handle of the same tensor, for the caller to delete; null on error.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_TensorHandleCopySharingTensor(
    h: Ref<TFE_TensorHandle>,
    status: Status,
) -> *mut TFE_TensorHandle {
    guard(status, ptr::null_mut(), || {
        let TFE_TensorHandle { handle, device } = TFE_TensorHandle::of(&h)?;
        let copy = TFE_TensorHandle { handle: handle.clone(), device: device.clone() };
        Ok(Arc::new(copy).hand_out_counted())
    })
}

/// Returns the tensor, for the caller to delete; waits for it. It shares the handle's memory, which must not be changed. Null on
/// error: that of the op.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_TensorHandleResolve(
    h: Ref<TFE_TensorHandle>,
    status: Status,
) -> *mut TF_Tensor {
    guard(status, ptr::null_mut(), || {
        Ok(TF_Tensor::new(TFE_TensorHandle::of(&h)?.handle.tensor()?.clone()))
    })
}

/// Returns a handle of the tensor on a device of `ctx`, for the caller to delete; null on error. `device_name` is a full name.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_TensorHandleCopyToDevice(
    h: Ref<TFE_TensorHandle>,
    ctx: Ref<TFE_Context>,
    device_name: CStrIn,
    status: Status,
) -> *mut TFE_TensorHandle {
    guard(status, ptr::null_mut(), || {
        let context = TFE_Context::of(&ctx)?;
        let device = context.device_named(&device_name.get("device_name")?)?;
        let tensor = TFE_TensorHandle::of(&h)?.handle.tensor()?.clone();
        Ok(TFE_TensorHandle::in_context(context, TensorHandle::new(tensor, device)))
    })
}

/// How a tensor lies in the memory of its device.
pub struct TFE_TensorDebugInfo {
    dims: Vec<i64>,
}

impl Boxed for TFE_TensorDebugInfo {}

/// Returns how the tensor lies in memory, for the caller to delete; null on error.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_TensorHandleTensorDebugInfo(
    h: Ref<TFE_TensorHandle>,
    status: Status,
) -> *mut TFE_TensorDebugInfo {
    guard(status, ptr::null_mut(), || {
        let dims = TFE_TensorHandle::of(&h)?.handle.tensor()?.shape().dims().to_vec();
        Ok(TFE_TensorDebugInfo { dims }.hand_out())
    })
}

/// Deletes the description; null is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_DeleteTensorDebugInfo(debug_info: Owned<TFE_TensorDebugInfo>) {
    drop(debug_info);
}

/// Returns the rank of the tensor in memory.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_TensorDebugInfoOnDeviceNumDims(
    debug_info: Ref<TFE_TensorDebugInfo>,
) -> c_int {
    quiet(-1, || Ok(to_int(debug_info.get("debug_info")?.dims.len())))
}

/// Returns a dimension of the tensor in memory; -1 if there is none of that index.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_TensorDebugInfoOnDeviceDim(
    debug_info: Ref<TFE_TensorDebugInfo>,
    dim_index: c_int,
) -> i64 {
    quiet(-1, || {
        let dims = &debug_info.get("debug_info")?.dims;
        let dim = usize::try_from(dim_index).ok().and_then(|index| dims.get(index));
        Ok(dim.copied().unwrap_or(-1))
    })
}

//! The memory behind handles.

use std::ffi::{c_int, c_void};
use std::ptr;

use tfcore_base::invalid;
use tfcore_runtime::TensorHandle;

use super::context::TFE_Context;
use super::tensor_handle::TFE_TensorHandle;
use crate::capi::handle::{Array, ArrayMut, CStrIn, Mut, Owned, Ref, Status, guard};
use crate::capi::not_built_in::not_built_in;
use crate::capi::tf_buffer::{TF_Buffer, fill_with};
use crate::capi::tf_datatype::TF_DataTypeNumber;
use crate::capi::tf_tensor::{TF_AllocateTensor, TF_NewTensor, TF_Tensor};

/// Returns the address of a tensor in the memory of its device; waits for it. Null on error. It must not be written.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_TensorHandleDevicePointer(
    h: Ref<TFE_TensorHandle>,
    status: Status,
) -> *mut c_void {
    guard(status, ptr::null_mut(), || Ok(TFE_TensorHandle::of(&h)?.handle.tensor()?.data().cast()))
}

/// Returns the size in bytes of a tensor in the memory of its device; waits for it. 0 on error.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_TensorHandleDeviceMemorySize(
    h: Ref<TFE_TensorHandle>,
    status: Status,
) -> usize {
    guard(status, 0, || Ok(TFE_TensorHandle::of(&h)?.handle.tensor()?.byte_size()))
}

/// Returns a handle over memory of a device, for the caller to delete; null on error. As with `TF_NewTensor`, `deallocator` is called
/// exactly once.
///
/// # Safety
/// As for `TF_NewTensor`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TFE_NewTensorHandleFromDeviceMemory(
    ctx: Ref<TFE_Context>,
    device_name: CStrIn,
    dtype: TF_DataTypeNumber,
    dims: Array<i64>,
    num_dims: c_int,
    data: *mut c_void,
    len: usize,
    deallocator: Option<unsafe extern "C" fn(data: *mut c_void, len: usize, arg: *mut c_void)>,
    deallocator_arg: *mut c_void,
    status: Status,
) -> *mut TFE_TensorHandle {
    // SAFETY: as the caller promises.
    let tensor =
        unsafe { TF_NewTensor(dtype, dims, num_dims, data, len, deallocator, deallocator_arg) };
    // SAFETY: a pointer that this library has just handed out, or null.
    let tensor: Owned<TF_Tensor> = unsafe { Owned::new(tensor) };
    guard(status, ptr::null_mut(), || {
        let context = TFE_Context::of(&ctx)?;
        let device = context.device_named(&device_name.get("device_name")?)?;
        let tensor = tensor.opt().ok_or_else(|| invalid!("The memory is no tensor"))?.tensor()?;
        Ok(TFE_TensorHandle::in_context(context, TensorHandle::new(tensor, device)))
    })
}

/// Stores the name of the part of the device names that hosts the context.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_HostAddressSpace(ctx: Ref<TFE_Context>, buf: Mut<TF_Buffer>) {
    crate::capi::handle::quiet((), || {
        TFE_Context::of(&ctx)?;
        fill_with(buf, b"/job:localhost/replica:0/task:0")
    });
}

/// Returns a tensor in the memory of the host, for the caller to delete; null on error.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_AllocateHostTensor(
    ctx: Ref<TFE_Context>,
    dtype: TF_DataTypeNumber,
    dims: Array<i64>,
    num_dims: c_int,
    status: Status,
) -> *mut TF_Tensor {
    guard(status, ptr::null_mut(), || {
        TFE_Context::of(&ctx)?;
        let shape = crate::capi::tf_tensor::shape(dims, num_dims)?;
        let len = shape.count().checked_mul(dtype.dtype()?.size());
        let len = len.ok_or_else(|| invalid!("A tensor of shape {shape} is too large"))?;
        let tensor = TF_AllocateTensor(dtype, dims, num_dims, len);
        if tensor.is_null() {
            Err(invalid!("There is no memory for shape {shape}"))
        } else {
            Ok(tensor)
        }
    })
}

/// As `TFE_NewTensorHandle`.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_NewTensorHandleFromTensor(
    _ctx: Ref<TFE_Context>,
    t: Ref<TF_Tensor>,
    status: Status,
) -> *mut TFE_TensorHandle {
    guard(status, ptr::null_mut(), || Ok(TFE_TensorHandle::of_tensor(t.get("t")?.tensor()?)))
}

/// Makes one handle of the tensors of several devices. Not implemented.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_CreatePackedTensorHandle(
    _ctx: Ref<TFE_Context>,
    _handles: ArrayMut<Ref<TFE_TensorHandle>>,
    _num_handles: Mut<c_int>,
    status: Status,
) -> *mut TFE_TensorHandle {
    guard(status, ptr::null_mut(), || Err(not_built_in("TFE_CreatePackedTensorHandle")))
}

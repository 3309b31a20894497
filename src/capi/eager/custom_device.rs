//! Devices that the program implements, which are not built in.

use std::ffi::{c_int, c_void};
use std::ptr;

use super::context::TFE_Context;
use super::op::TFE_Op;
use super::tensor_handle::TFE_TensorHandle;
use crate::capi::handle::{CStrIn, Ref, Status, guard};
use crate::capi::not_built_in::not_built_in;
use crate::capi::tf_buffer::TF_Buffer;
use crate::capi::tf_datatype::TF_DataTypeNumber;
use crate::capi::tf_status::TF_Status;

/// What a device of the program does. No function of it is called.
#[repr(C)]
pub struct TFE_CustomDevice {
    pub version: c_int,
    pub copy_tensor_to_device: Option<
        unsafe extern "C" fn(
            context: *mut TFE_Context,
            tensor: *mut TFE_TensorHandle,
            status: *mut TF_Status,
            device_info: *mut c_void,
        ) -> *mut TFE_TensorHandle,
    >,
    pub copy_tensor_from_device: Option<
        unsafe extern "C" fn(
            context: *mut TFE_Context,
            tensor: *mut TFE_TensorHandle,
            target_device_name: *const std::ffi::c_char,
            status: *mut TF_Status,
            device_info: *mut c_void,
        ) -> *mut TFE_TensorHandle,
    >,
    pub execute: Option<
        unsafe extern "C" fn(
            op: *const TFE_Op,
            num_outputs: *mut c_int,
            outputs: *mut *mut TFE_TensorHandle,
            s: *mut TF_Status,
            device_info: *mut c_void,
        ),
    >,
    pub delete_device: Option<unsafe extern "C" fn(device_info: *mut c_void)>,
    pub pack: Option<
        unsafe extern "C" fn(
            context: *mut TFE_Context,
            handles: *mut *mut TFE_TensorHandle,
            num_handles: c_int,
            s: *mut TF_Status,
            device_info: *mut c_void,
        ) -> *mut TFE_TensorHandle,
    >,
    pub shall_pin_to_this_device:
        Option<unsafe extern "C" fn(op: *const TFE_Op, s: *mut TF_Status) -> bool>,
}

/// What a tensor of a device of the program is. No function of it is called.
#[repr(C)]
pub struct TFE_CustomDeviceTensorHandle {
    pub version: c_int,
    pub num_dims: Option<unsafe extern "C" fn(data: *mut c_void, status: *mut TF_Status) -> c_int>,
    pub dim: Option<
        unsafe extern "C" fn(data: *mut c_void, dim_index: c_int, status: *mut TF_Status) -> i64,
    >,
    pub deallocator: Option<unsafe extern "C" fn(data: *mut c_void)>,
    pub summarize:
        Option<unsafe extern "C" fn(data: *mut c_void, status: *mut TF_Status) -> *mut TF_Buffer>,
}

/// Adds a device that the program implements. Not implemented.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_RegisterCustomDevice(
    _ctx: Ref<TFE_Context>,
    _device: TFE_CustomDevice,
    _device_name: CStrIn,
    _device_info: *mut c_void,
    status: Status,
) {
    guard(status, (), || Err(not_built_in("TFE_RegisterCustomDevice")))
}

/// Returns whether the program implements a device, which it never does.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_IsCustomDevice(_ctx: Ref<TFE_Context>, _device_name: CStrIn) -> bool {
    false
}

/// Returns a handle of a tensor on a device of the program. Not implemented.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_NewCustomDeviceTensorHandle(
    _ctx: Ref<TFE_Context>,
    _device_name: CStrIn,
    _dtype: TF_DataTypeNumber,
    _data: *mut c_void,
    _methods: TFE_CustomDeviceTensorHandle,
    status: Status,
) -> *mut TFE_TensorHandle {
    guard(status, ptr::null_mut(), || Err(not_built_in("TFE_NewCustomDeviceTensorHandle")))
}

/// Gives the context several CPU devices. Not implemented: ask for them in the configuration, by `device_count`.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_SetLogicalCpuDevices(
    _ctx: Ref<TFE_Context>,
    _num_cpus: c_int,
    _prefix: CStrIn,
    status: Status,
) {
    guard(status, (), || Err(not_built_in("TFE_SetLogicalCpuDevices")))
}

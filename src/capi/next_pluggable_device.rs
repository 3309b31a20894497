//! `experimental/next_pluggable_device/c_api.h`: what devices of plug-ins need, which are not built in.
#![allow(unused_variables, reason = "the headers have arguments that no implementation needs")]

use std::ffi::{c_int, c_void};
use std::ptr;

use super::handle::{ArrayMut, Boxed, CStrIn, Out, Owned, Ref, Status, guard};
use super::kernel_context::TF_OpKernelContext;
use super::not_built_in::not_built_in;
use super::tf_buffer::TF_Buffer;
use super::tf_tensor::TF_Tensor;

/// A device of a plug-in. There is none.
pub struct TF_Device {
    _private: [u8; 0],
}

/// A variable of a running kernel. There is none.
pub struct TF_VariableInfo {
    _private: [u8; 0],
}

/// The agent of a cluster's coordination service. There is none.
pub struct TF_CoordinationServiceAgent {
    _private: [u8; 0],
}

/// A client of PJRT. There is none.
pub struct PJRT_Client {
    _private: [u8; 0],
}

/// A buffer of PJRT. There is none.
pub struct PJRT_Buffer {
    _private: [u8; 0],
}

/// An option of a client of PJRT.
pub struct PJRT_NamedValue {
    _private: [u8; 0],
}

/// Not available. Returns null.
#[unsafe(no_mangle)]
pub extern "C" fn TF_GetDevice(ctx: Ref<TF_OpKernelContext>) -> *mut TF_Device {
    ptr::null_mut()
}

/// Not available. Reports `TF_UNIMPLEMENTED`.
#[unsafe(no_mangle)]
pub extern "C" fn TF_CreatePluginResource(
    ctx: Ref<TF_OpKernelContext>,
    container_name: CStrIn,
    plugin_resource_name: CStrIn,
    plugin_resource: *mut c_void,
    delete_func: Option<unsafe extern "C" fn(*mut c_void)>,
    status: Status,
) {
    guard(status, (), || Err(not_built_in("TF_CreatePluginResource")))
}

/// Not available. Reports `TF_UNIMPLEMENTED`.
#[unsafe(no_mangle)]
pub extern "C" fn TF_LookupOrCreatePluginResource(
    ctx: Ref<TF_OpKernelContext>,
    container_name: CStrIn,
    plugin_resource_name: CStrIn,
    result_plugin_resource: Out<*mut c_void>,
    create_func: Option<unsafe extern "C" fn(*mut c_void) -> *mut c_void>,
    create_func_args: *mut c_void,
    delete_func: Option<unsafe extern "C" fn(*mut c_void)>,
    status: Status,
) {
    guard(status, (), || Err(not_built_in("TF_LookupOrCreatePluginResource")))
}

/// Not available. Reports `TF_UNIMPLEMENTED` and returns null.
#[unsafe(no_mangle)]
pub extern "C" fn TF_CreateVariableInfoFromContext(
    ctx: Ref<TF_OpKernelContext>,
    index: c_int,
    status: Status,
) -> *mut TF_VariableInfo {
    guard(status, ptr::null_mut(), || Err(not_built_in("TF_CreateVariableInfoFromContext")))
}

/// Not available. Reports `TF_UNIMPLEMENTED`.
#[unsafe(no_mangle)]
pub extern "C" fn TF_LockVariableInfos(
    vars: ArrayMut<*mut TF_VariableInfo>,
    num_vars: c_int,
    status: Status,
) {
    guard(status, (), || Err(not_built_in("TF_LockVariableInfos")))
}

/// Not available. Reports `TF_UNIMPLEMENTED`.
#[unsafe(no_mangle)]
pub extern "C" fn TF_AllocateTempForVariableInfo(
    ctx: Ref<TF_OpKernelContext>,
    var_info: Ref<TF_VariableInfo>,
    status: Status,
) {
    guard(status, (), || Err(not_built_in("TF_AllocateTempForVariableInfo")))
}

/// Not available. Reports `TF_UNIMPLEMENTED` and returns null.
#[unsafe(no_mangle)]
pub extern "C" fn TF_GetTensorFromVariableInfo(
    var_info: Ref<TF_VariableInfo>,
    status: Status,
) -> *mut TF_Tensor {
    guard(status, ptr::null_mut(), || Err(not_built_in("TF_GetTensorFromVariableInfo")))
}

impl Boxed for TF_VariableInfo {}

/// Deletes a variable; null is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn TF_DeleteVariableInfo(var_info: Owned<TF_VariableInfo>) {
    drop(var_info);
}

/// Not available. Returns null: there is no coordination service.
#[unsafe(no_mangle)]
pub extern "C" fn TF_GetCoordinationServiceAgent(
    ctx: Ref<TF_OpKernelContext>,
) -> *mut TF_CoordinationServiceAgent {
    ptr::null_mut()
}

/// Returns false: there is no coordination service.
#[unsafe(no_mangle)]
pub extern "C" fn TF_CoordinationServiceIsInitialized(
    agent: Ref<TF_CoordinationServiceAgent>,
) -> bool {
    false
}

/// Not available. Reports `TF_UNIMPLEMENTED`.
#[unsafe(no_mangle)]
pub extern "C" fn TF_CoordinationServiceInsertKeyValue(
    key: CStrIn,
    key_size: i64,
    value: CStrIn,
    value_size: i64,
    agent: Ref<TF_CoordinationServiceAgent>,
    status: Status,
) {
    guard(status, (), || Err(not_built_in("TF_CoordinationServiceInsertKeyValue")))
}

/// Not available. Reports `TF_UNIMPLEMENTED` and returns null.
#[unsafe(no_mangle)]
pub extern "C" fn TF_CoordinationServiceGetKeyValue(
    key: CStrIn,
    key_size: i64,
    agent: Ref<TF_CoordinationServiceAgent>,
    status: Status,
) -> *mut TF_Buffer {
    guard(status, ptr::null_mut(), || Err(not_built_in("TF_CoordinationServiceGetKeyValue")))
}

/// Not available. Reports `TF_UNIMPLEMENTED` and returns null.
#[unsafe(no_mangle)]
pub extern "C" fn TF_CoordinationServiceGetKeyValueWithTimeout(
    key: CStrIn,
    key_size: i64,
    timeout_seconds: i64,
    agent: Ref<TF_CoordinationServiceAgent>,
    status: Status,
) -> *mut TF_Buffer {
    guard(status, ptr::null_mut(), || {
        Err(not_built_in("TF_CoordinationServiceGetKeyValueWithTimeout"))
    })
}

/// Not available. Reports `TF_UNIMPLEMENTED` and returns null.
#[unsafe(no_mangle)]
pub extern "C" fn TF_CoordinationServiceTryGetKeyValue(
    key: CStrIn,
    key_size: i64,
    agent: Ref<TF_CoordinationServiceAgent>,
    status: Status,
) -> *mut TF_Buffer {
    guard(status, ptr::null_mut(), || Err(not_built_in("TF_CoordinationServiceTryGetKeyValue")))
}

/// Not available. Reports `TF_UNIMPLEMENTED`.
#[unsafe(no_mangle)]
pub extern "C" fn TF_CoordinationServiceDeleteKeyValue(
    key: CStrIn,
    key_size: i64,
    agent: Ref<TF_CoordinationServiceAgent>,
    status: Status,
) {
    guard(status, (), || Err(not_built_in("TF_CoordinationServiceDeleteKeyValue")))
}

/// Not available. Reports `TF_UNIMPLEMENTED`.
#[unsafe(no_mangle)]
pub extern "C" fn TF_CreateAndSetPjRtCApiClient(
    device_type: CStrIn,
    status: Status,
    create_options: Ref<PJRT_NamedValue>,
    num_options: c_int,
) {
    guard(status, (), || Err(not_built_in("TF_CreateAndSetPjRtCApiClient")))
}

/// Not available. Reports `TF_UNIMPLEMENTED`.
#[unsafe(no_mangle)]
pub extern "C" fn TF_ResetPjRtCClient(device_type: CStrIn, status: Status) {
    guard(status, (), || Err(not_built_in("TF_ResetPjRtCClient")))
}

/// Not available. Reports `TF_UNIMPLEMENTED` and returns null.
#[unsafe(no_mangle)]
pub extern "C" fn TF_GetPjRtCClient(device_type: CStrIn, status: Status) -> *mut PJRT_Client {
    guard(status, ptr::null_mut(), || Err(not_built_in("TF_GetPjRtCClient")))
}

/// Not available. Reports `TF_UNIMPLEMENTED` and returns null.
#[unsafe(no_mangle)]
pub extern "C" fn TF_GetPjRtCBuffer(c_tensor: Ref<TF_Tensor>, status: Status) -> *mut PJRT_Buffer {
    guard(status, ptr::null_mut(), || Err(not_built_in("TF_GetPjRtCBuffer")))
}

/// Not available. Reports `TF_UNIMPLEMENTED`.
#[unsafe(no_mangle)]
pub extern "C" fn TF_CreatePjRtBuffer(
    c_tensor: Ref<TF_Tensor>,
    c_buffer: Ref<PJRT_Buffer>,
    device_type: CStrIn,
    status: Status,
) {
    guard(status, (), || Err(not_built_in("TF_CreatePjRtBuffer")))
}

//! Contexts of a cluster, which are not built in.

use std::ffi::c_int;

use super::context::TFE_Context;
use crate::capi::handle::{Bytes, CStrIn, Mut, Ref, Status, guard};
use crate::capi::not_built_in::not_built_in;
use crate::capi::tf_buffer::TF_Buffer;

/// Changes the cluster of the context. Not implemented.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_ContextUpdateServerDef(
    _ctx: Ref<TFE_Context>,
    _keep_alive_secs: c_int,
    _proto: Bytes,
    _proto_len: usize,
    status: Status,
) {
    guard(status, (), || Err(not_built_in("TFE_ContextUpdateServerDef")))
}

/// Changes the cluster of the context. Not implemented.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_ContextUpdateServerDefWithTimeout(
    _ctx: Ref<TFE_Context>,
    _keep_alive_secs: c_int,
    _proto: Bytes,
    _proto_len: usize,
    _init_timeout_in_ms: i64,
    status: Status,
) {
    guard(status, (), || Err(not_built_in("TFE_ContextUpdateServerDefWithTimeout")))
}

/// Makes the context one of a cluster. Not implemented.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_ContextSetServerDefWithTimeout(
    _ctx: Ref<TFE_Context>,
    _keep_alive_secs: c_int,
    _proto: Bytes,
    _proto_len: usize,
    _init_timeout_in_ms: i64,
    status: Status,
    _clear_existing_contexts: bool,
) {
    guard(status, (), || Err(not_built_in("TFE_ContextSetServerDefWithTimeout")))
}

/// Makes the context one of a cluster. Not implemented.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_ContextSetServerDefWithTimeoutAndRetries(
    _ctx: Ref<TFE_Context>,
    _keep_alive_secs: c_int,
    _proto: Bytes,
    _proto_len: usize,
    _init_timeout_in_ms: i64,
    _retries: c_int,
    status: Status,
    _clear_existing_contexts: bool,
) {
    guard(status, (), || Err(not_built_in("TFE_ContextSetServerDefWithTimeoutAndRetries")))
}

/// Returns whether a worker of the cluster answers. Not implemented.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_ContextCheckAlive(
    _ctx: Ref<TFE_Context>,
    _worker_name: CStrIn,
    status: Status,
) -> bool {
    guard(status, false, || Err(not_built_in("TFE_ContextCheckAlive")))
}

/// Makes the context one of a cluster of one task. Not implemented.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_InitializeLocalOnlyContext(
    _ctx: Ref<TFE_Context>,
    _keep_alive_secs: c_int,
    _proto: Bytes,
    _proto_len: usize,
    status: Status,
) {
    guard(status, (), || Err(not_built_in("TFE_InitializeLocalOnlyContext")))
}

/// Stores a value in the coordination service. Not implemented.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_InsertConfigKeyValue(
    _ctx: Ref<TFE_Context>,
    _key: CStrIn,
    _value: CStrIn,
    status: Status,
) {
    guard(status, (), || Err(not_built_in("TFE_InsertConfigKeyValue")))
}

/// Reads a value of the coordination service. Not implemented.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_GetConfigKeyValue(
    _ctx: Ref<TFE_Context>,
    _key: CStrIn,
    _timeout_in_ms: i64,
    _value_buf: Mut<TF_Buffer>,
    status: Status,
) {
    guard(status, (), || Err(not_built_in("TFE_GetConfigKeyValue")))
}

/// Deletes a value of the coordination service. Not implemented.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_DeleteConfigKeyValue(_ctx: Ref<TFE_Context>, _key: CStrIn, status: Status) {
    guard(status, (), || Err(not_built_in("TFE_DeleteConfigKeyValue")))
}

/// Tells the coordination service of an error. Not implemented.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_ReportErrorToCluster(
    _ctx: Ref<TFE_Context>,
    _error_code: c_int,
    _error_message: CStrIn,
    status: Status,
) {
    guard(status, (), || Err(not_built_in("TFE_ReportErrorToCluster")))
}

/// Waits for the other tasks of the cluster. Not implemented.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_WaitAtBarrier(
    _ctx: Ref<TFE_Context>,
    _barrier_id: CStrIn,
    _barrier_timeout_in_ms: i64,
    status: Status,
) {
    guard(status, (), || Err(not_built_in("TFE_WaitAtBarrier")))
}

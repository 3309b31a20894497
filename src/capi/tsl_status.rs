//! The status functions under the names that some header generators find.

use std::ffi::{c_char, c_int, c_void};

use super::tf_status::{
    TF_CodeNumber, TF_DeleteStatus, TF_ForEachPayload, TF_GetCode, TF_Message, TF_NewStatus,
    TF_PayloadVisitor, TF_SetPayload, TF_SetStatus, TF_SetStatusFromIOError, TF_Status,
};

/// As `TF_NewStatus`.
#[unsafe(no_mangle)]
pub extern "C" fn TSL_NewStatus() -> *mut TF_Status {
    TF_NewStatus()
}

/// As `TF_DeleteStatus`.
///
/// # Safety
/// As for `TF_DeleteStatus`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TSL_DeleteStatus(status: *mut TF_Status) {
    // SAFETY: the same contract.
    unsafe { TF_DeleteStatus(status) }
}

/// As `TF_SetStatus`.
///
/// # Safety
/// As for `TF_SetStatus`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TSL_SetStatus(
    status: *mut TF_Status,
    code: TF_CodeNumber,
    msg: *const c_char,
) {
    // SAFETY: the same contract.
    unsafe { TF_SetStatus(status, code, msg) }
}

/// As `TF_SetPayload`.
///
/// # Safety
/// As for `TF_SetPayload`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TSL_SetPayload(
    status: *mut TF_Status,
    key: *const c_char,
    value: *const c_char,
) {
    // SAFETY: the same contract.
    unsafe { TF_SetPayload(status, key, value) }
}

/// As `TF_ForEachPayload`.
///
/// # Safety
/// As for `TF_ForEachPayload`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TSL_ForEachPayload(
    status: *const TF_Status,
    visitor: TF_PayloadVisitor,
    capture: *mut c_void,
) {
    // SAFETY: the same contract.
    unsafe { TF_ForEachPayload(status, visitor, capture) }
}

/// As `TF_SetStatusFromIOError`.
///
/// # Safety
/// As for `TF_SetStatusFromIOError`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TSL_SetStatusFromIOError(
    status: *mut TF_Status,
    error_code: c_int,
    context: *const c_char,
) {
    // SAFETY: the same contract.
    unsafe { TF_SetStatusFromIOError(status, error_code, context) }
}

/// As `TF_GetCode`.
///
/// # Safety
/// As for `TF_GetCode`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TSL_GetCode(status: *const TF_Status) -> TF_CodeNumber {
    // SAFETY: the same contract.
    unsafe { TF_GetCode(status) }
}

/// As `TF_Message`.
///
/// # Safety
/// As for `TF_Message`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TSL_Message(status: *const TF_Status) -> *const c_char {
    // SAFETY: the same contract.
    unsafe { TF_Message(status) }
}

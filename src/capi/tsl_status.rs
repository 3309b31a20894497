//! The status functions under the names that some header generators find.

use std::ffi::{c_char, c_int, c_void};

use super::handle::{CStrIn, In, Mut, Owned};
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
#[unsafe(no_mangle)]
pub extern "C" fn TSL_DeleteStatus(status: Owned<TF_Status>) {
    TF_DeleteStatus(status)
}

/// As `TF_SetStatus`.
#[unsafe(no_mangle)]
pub extern "C" fn TSL_SetStatus(status: Mut<TF_Status>, code: TF_CodeNumber, msg: CStrIn) {
    TF_SetStatus(status, code, msg)
}

/// As `TF_SetPayload`.
#[unsafe(no_mangle)]
pub extern "C" fn TSL_SetPayload(status: Mut<TF_Status>, key: CStrIn, value: CStrIn) {
    TF_SetPayload(status, key, value)
}

/// As `TF_ForEachPayload`.
///
/// # Safety
/// As for `TF_ForEachPayload`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TSL_ForEachPayload(
    status: In<TF_Status>,
    visitor: TF_PayloadVisitor,
    capture: *mut c_void,
) {
    // SAFETY: the same contract.
    unsafe { TF_ForEachPayload(status, visitor, capture) }
}

/// As `TF_SetStatusFromIOError`.
#[unsafe(no_mangle)]
pub extern "C" fn TSL_SetStatusFromIOError(
    status: Mut<TF_Status>,
    error_code: c_int,
    context: CStrIn,
) {
    TF_SetStatusFromIOError(status, error_code, context)
}

/// As `TF_GetCode`.
#[unsafe(no_mangle)]
pub extern "C" fn TSL_GetCode(status: In<TF_Status>) -> TF_CodeNumber {
    TF_GetCode(status)
}

/// As `TF_Message`.
#[unsafe(no_mangle)]
pub extern "C" fn TSL_Message(status: In<TF_Status>) -> *const c_char {
    TF_Message(status)
}

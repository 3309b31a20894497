//! `tf_status.h`: status objects.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_int, c_void};

use tfcore_base::{Code, Error, Result};

use super::handle::{get, get_mut, quiet, text};
use crate::errno;

/// The outcome of a call: a code, a message and payloads.
#[derive(Default)]
pub struct TF_Status {
    /// `None` is OK, without a message.
    error: Option<(Code, CString)>,
    payloads: BTreeMap<CString, CString>,
}

/// The status codes.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TF_Code {
    /// Not an error; returned on success.
    TF_OK = 0,
    /// The operation was cancelled, typically by the caller.
    TF_CANCELLED = 1,
    /// An error of unknown origin.
    TF_UNKNOWN = 2,
    /// The caller specified an argument that is wrong whatever the state of the system.
    TF_INVALID_ARGUMENT = 3,
    /// The deadline passed before the operation could complete.
    TF_DEADLINE_EXCEEDED = 4,
    /// A requested entity was not found.
    TF_NOT_FOUND = 5,
    /// An entity that was to be created exists already.
    TF_ALREADY_EXISTS = 6,
    /// The caller may not do this.
    TF_PERMISSION_DENIED = 7,
    /// A resource, such as memory, has been exhausted.
    TF_RESOURCE_EXHAUSTED = 8,
    /// The system is not in the state that the operation requires.
    TF_FAILED_PRECONDITION = 9,
    /// The operation was aborted, typically because of a conflict.
    TF_ABORTED = 10,
    /// The operation was tried past the valid range.
    TF_OUT_OF_RANGE = 11,
    /// The operation is not implemented or not supported.
    TF_UNIMPLEMENTED = 12,
    /// An invariant of the library is broken.
    TF_INTERNAL = 13,
    /// The service is unavailable at the moment.
    TF_UNAVAILABLE = 14,
    /// Data is lost or corrupt beyond recovery.
    TF_DATA_LOSS = 15,
    /// The caller has no valid credentials.
    TF_UNAUTHENTICATED = 16,
}

const _: () = assert!(TF_Code::TF_UNAUTHENTICATED as i32 == Code::Unauthenticated as i32);
const _: () = assert!(TF_Code::TF_OUT_OF_RANGE as i32 == Code::OutOfRange as i32);

/// A `TF_Code` as C passes it: any number may come.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct TF_CodeNumber(pub(crate) c_int);

/// Receives one payload: key, value, and the caller's argument.
pub type TF_PayloadVisitor =
    Option<unsafe extern "C" fn(*const c_char, *const c_char, *mut c_void)>;

impl TF_Status {
    pub(crate) fn set_ok(&mut self) {
        if self.error.is_some() {
            *self = TF_Status::default();
        }
    }

    pub(crate) fn set_error(&mut self, error: &Error) {
        self.set(error.code(), error.message().as_bytes());
    }

    /// An OK status has neither message nor payloads.
    fn set(&mut self, code: Code, message: &[u8]) {
        self.payloads.clear();
        let message: Vec<u8> = message.iter().copied().take_while(|&byte| byte != 0).collect();
        self.error = match code {
            Code::Ok => None,
            code => Some((code, CString::new(message).unwrap_or_default())),
        };
    }

    /// The code and the message as a result.
    pub fn result(&self) -> Result<()> {
        match &self.error {
            None => Ok(()),
            Some((code, message)) => Err(Error::new(*code, message.to_string_lossy())),
        }
    }
}

/// Returns a new status, which is OK.
#[unsafe(no_mangle)]
pub extern "C" fn TF_NewStatus() -> *mut TF_Status {
    Box::into_raw(Box::default())
}

/// Deletes a status; null is allowed.
///
/// # Safety
/// `status` must be null or come from `TF_NewStatus` and not have been deleted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_DeleteStatus(status: *mut TF_Status) {
    if !status.is_null() {
        // SAFETY: the caller hands the status over.
        drop(unsafe { Box::from_raw(status) });
    }
}

/// Sets the code and a copy of the message. An OK status keeps no message. Payloads are cleared.
///
/// # Safety
/// `status` must be live, `msg` null or a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_SetStatus(
    status: *mut TF_Status,
    code: TF_CodeNumber,
    msg: *const c_char,
) {
    quiet((), || {
        // SAFETY: as the caller promises.
        let (status, message) = unsafe { (get_mut(status, "status")?, bytes(msg)) };
        status.set(Code::from_i32(code.0).unwrap_or(Code::Unknown), message);
        Ok(())
    });
}

/// # Safety
/// The pointer must be null or point at a NUL-terminated string.
unsafe fn bytes<'a>(pointer: *const c_char) -> &'a [u8] {
    if pointer.is_null() {
        return &[];
    }
    // SAFETY: as the caller promises.
    unsafe { CStr::from_ptr(pointer) }.to_bytes()
}

/// Records `value` under `key`; the same key overwrites. Ignored on an OK status.
///
/// # Safety
/// `status` must be live, `key` and `value` NUL-terminated strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_SetPayload(
    status: *mut TF_Status,
    key: *const c_char,
    value: *const c_char,
) {
    quiet((), || {
        // SAFETY: as the caller promises.
        let (status, key, value) =
            unsafe { (get_mut(status, "status")?, bytes(key), bytes(value)) };
        if status.error.is_some() {
            let own = |text: &[u8]| CString::new(text).unwrap_or_default();
            status.payloads.insert(own(key), own(value));
        }
        Ok(())
    });
}

/// Calls `visitor` once for each payload, with `capture` as its last argument.
///
/// # Safety
/// `status` must be live; `visitor` must not change it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_ForEachPayload(
    status: *const TF_Status,
    visitor: TF_PayloadVisitor,
    capture: *mut c_void,
) {
    quiet((), || {
        // SAFETY: as the caller promises.
        let status = unsafe { get(status, "status")? };
        if let Some(visitor) = visitor {
            for (key, value) in &status.payloads {
                // SAFETY: the strings live during the call; `capture` is the caller's.
                unsafe { visitor(key.as_ptr(), value.as_ptr(), capture) };
            }
        }
        Ok(())
    });
}

/// Sets the code that belongs to an `errno` and the message "context; text of the errno".
///
/// # Safety
/// `status` must be live, `context` null or a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_SetStatusFromIOError(
    status: *mut TF_Status,
    error_code: c_int,
    context: *const c_char,
) {
    quiet((), || {
        // SAFETY: as the caller promises.
        let status = unsafe { get_mut(status, "status")? };
        // SAFETY: as the caller promises.
        let context = unsafe { text(context, "context") }.unwrap_or_default();
        status.set_error(&errno::error(error_code, &context));
        Ok(())
    });
}

/// Returns the code.
///
/// # Safety
/// `status` must be null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_GetCode(status: *const TF_Status) -> TF_CodeNumber {
    // SAFETY: as the caller promises.
    let error = unsafe { status.as_ref() }.and_then(|status| status.error.as_ref());
    TF_CodeNumber(error.map_or(Code::Ok, |(code, _)| *code) as c_int)
}

/// Returns the message, which lives until the status changes; empty for an OK status.
///
/// # Safety
/// `status` must be null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_Message(status: *const TF_Status) -> *const c_char {
    // SAFETY: as the caller promises.
    let error = unsafe { status.as_ref() }.and_then(|status| status.error.as_ref());
    error.map_or(c"".as_ptr(), |(_, message)| message.as_ptr())
}

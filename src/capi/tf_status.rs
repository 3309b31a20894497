//! `tf_status.h`: status objects.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_int, c_void};

use tfcore_base::{Code, Error, Result};

use super::handle::{Boxed, CStrIn, In, Mut, Owned, quiet};

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

impl Boxed for TF_Status {}

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
    TF_Status::default().hand_out()
}

/// Deletes a status; null is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn TF_DeleteStatus(status: Owned<TF_Status>) {
    drop(status);
}

/// Sets the code and a copy of the message. An OK status keeps no message. Payloads are cleared.
#[unsafe(no_mangle)]
pub extern "C" fn TF_SetStatus(mut status: Mut<TF_Status>, code: TF_CodeNumber, msg: CStrIn) {
    quiet((), || {
        let (status, message) = (status.get("status")?, bytes(&msg));
        status.set(Code::from_i32(code.0).unwrap_or(Code::Unknown), message);
        Ok(())
    });
}

/// The bytes of a string; none for null.
fn bytes(text: &CStrIn) -> &[u8] {
    text.c_str().map_or(&[], CStr::to_bytes)
}

/// Records `value` under `key`; the same key overwrites. Ignored on an OK status.
#[unsafe(no_mangle)]
pub extern "C" fn TF_SetPayload(mut status: Mut<TF_Status>, key: CStrIn, value: CStrIn) {
    quiet((), || {
        let (status, key, value) = (status.get("status")?, bytes(&key), bytes(&value));
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
/// `capture` must be what `visitor` takes; `visitor` must not change the status.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_ForEachPayload(
    status: In<TF_Status>,
    visitor: TF_PayloadVisitor,
    capture: *mut c_void,
) {
    quiet((), || {
        let status = status.get("status")?;
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
#[unsafe(no_mangle)]
pub extern "C" fn TF_SetStatusFromIOError(
    mut status: Mut<TF_Status>,
    error_code: c_int,
    context: CStrIn,
) {
    quiet((), || {
        let status = status.get("status")?;
        let context = context.opt().unwrap_or_default();
        status.set_error(&tfcore_files::error_of_errno(error_code, &context));
        Ok(())
    });
}

/// Returns the code.
#[unsafe(no_mangle)]
pub extern "C" fn TF_GetCode(status: In<TF_Status>) -> TF_CodeNumber {
    let error = status.opt().and_then(|status| status.error.as_ref());
    TF_CodeNumber(error.map_or(Code::Ok, |(code, _)| *code) as c_int)
}

/// Returns the message, which lives until the status changes; empty for an OK status.
#[unsafe(no_mangle)]
pub extern "C" fn TF_Message(status: In<TF_Status>) -> *const c_char {
    let error = status.opt().and_then(|status| status.error.as_ref());
    error.map_or(c"".as_ptr(), |(_, message)| message.as_ptr())
}

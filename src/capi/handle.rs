//! From C to Rust and back: the guard around every function, and the few functions that make
//! references from pointers.

use std::any::Any;
use std::borrow::Cow;
use std::ffi::{CStr, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use tfcore_base::{Error, Result, internal, invalid};

use super::tf_status::TF_Status;

/// Runs the body of a C function. An error or a panic goes to `status`, and `failure` is returned.
///
/// # Safety
/// `status` must be null or a live status that nobody else uses.
pub(crate) unsafe fn guard<R>(
    status: *mut TF_Status,
    failure: R,
    body: impl FnOnce() -> Result<R>,
) -> R {
    let result =
        catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| Err(panicked(&*panic)));
    // SAFETY: as the caller promises.
    let status = unsafe { status.as_mut() };
    match (result, status) {
        (Ok(value), status) => {
            if let Some(status) = status {
                status.set_ok();
            }
            value
        }
        (Err(error), status) => {
            if let Some(status) = status {
                status.set_error(&error);
            }
            failure
        }
    }
}

/// Runs the body of a C function that has no status.
pub(crate) fn quiet<R>(failure: R, body: impl FnOnce() -> Result<R>) -> R {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(value)) => value,
        Ok(Err(_)) | Err(_) => failure,
    }
}

fn panicked(panic: &(dyn Any + Send)) -> Error {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    internal!("panic in the library: {text}")
}

/// The object behind a pointer.
///
/// # Errors
/// `InvalidArgument` naming the argument if it is null.
///
/// # Safety
/// The pointer must be null or point at a live object that is not changed during `'a`.
pub(crate) unsafe fn get<'a, T>(pointer: *const T, name: &str) -> Result<&'a T> {
    // SAFETY: as the caller promises.
    unsafe { pointer.as_ref() }.ok_or_else(|| is_null(name))
}

/// As [`get`], for an object that is changed.
///
/// # Safety
/// The pointer must be null or point at a live object that nobody else uses during `'a`.
pub(crate) unsafe fn get_mut<'a, T>(pointer: *mut T, name: &str) -> Result<&'a mut T> {
    // SAFETY: as the caller promises.
    unsafe { pointer.as_mut() }.ok_or_else(|| is_null(name))
}

/// Stores a value behind a pointer.
///
/// # Safety
/// The pointer must be null or valid for a write.
pub(crate) unsafe fn put<T>(pointer: *mut T, value: T, name: &str) -> Result<()> {
    if pointer.is_null() {
        return Err(is_null(name));
    }
    // SAFETY: as the caller promises.
    unsafe { pointer.write(value) };
    Ok(())
}

/// A C string. Bytes that are no UTF-8 are replaced.
///
/// # Safety
/// The pointer must be null or point at a NUL-terminated string that lives during `'a`.
pub(crate) unsafe fn text<'a>(pointer: *const c_char, name: &str) -> Result<Cow<'a, str>> {
    if pointer.is_null() {
        return Err(is_null(name));
    }
    // SAFETY: as the caller promises.
    Ok(unsafe { CStr::from_ptr(pointer) }.to_string_lossy())
}

/// An array. The pointer is not looked at for no elements.
///
/// # Safety
/// For `len` above 0 the pointer must be null or point at so many valid elements that live during
/// `'a`.
pub(crate) unsafe fn slice<'a, T>(pointer: *const T, len: usize, name: &str) -> Result<&'a [T]> {
    if len == 0 {
        return Ok(&[]);
    }
    if pointer.is_null() {
        return Err(is_null(name));
    }
    if len > isize::MAX as usize / size_of::<T>().max(1) {
        return Err(invalid!("Argument '{name}' cannot have {len} elements"));
    }
    // SAFETY: as the caller promises.
    Ok(unsafe { std::slice::from_raw_parts(pointer, len) })
}

/// An array that is written.
///
/// # Safety
/// As for [`slice`], and nobody else uses the elements during `'a`.
pub(crate) unsafe fn slice_mut<'a, T>(
    pointer: *mut T,
    len: usize,
    name: &str,
) -> Result<&'a mut [T]> {
    if len == 0 {
        return Ok(&mut []);
    }
    if pointer.is_null() {
        return Err(is_null(name));
    }
    if len > isize::MAX as usize / size_of::<T>().max(1) {
        return Err(invalid!("Argument '{name}' cannot have {len} elements"));
    }
    // SAFETY: as the caller promises.
    Ok(unsafe { std::slice::from_raw_parts_mut(pointer, len) })
}

/// A count as C passes it.
///
/// # Errors
/// `InvalidArgument` naming the argument if it is negative.
pub(crate) fn count(value: c_int, name: &str) -> Result<usize> {
    usize::try_from(value).map_err(|_| invalid!("Argument '{name}' is negative: {value}"))
}

/// A count for C, which has no more than `int` for it.
pub(crate) fn to_int(value: usize) -> c_int {
    c_int::try_from(value).unwrap_or(c_int::MAX)
}

fn is_null(name: &str) -> Error {
    invalid!("Argument '{name}' is null")
}

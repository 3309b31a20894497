//! `tf_tstring.h`: the string elements of tensors.

use std::ffi::c_char;
use std::ptr;

use tfcore_tensor::{TString, TStringKind};

use super::handle::{get_mut, quiet, slice};

/// Where a string's bytes live.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TF_TString_Type {
    /// In the struct itself.
    TF_TSTR_SMALL = 0,
    /// In a block of malloc.
    TF_TSTR_LARGE = 1,
    /// At an offset from the struct.
    TF_TSTR_OFFSET = 2,
    /// In memory of somebody else.
    TF_TSTR_VIEW = 3,
}

/// A string element: 24 bytes in a frozen layout.
pub type TF_TString = TString;

/// Makes an empty string of uninitialised memory. Never call it on a string that owns a block.
///
/// # Safety
/// `str` must be valid for writes of 24 bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_StringInit(str: *mut TF_TString) {
    if !str.is_null() {
        // SAFETY: as the caller promises.
        unsafe { str.write(TString::new()) };
    }
}

/// Replaces the content of `dst` by a copy of `size` bytes.
///
/// # Safety
/// `dst` must be an initialised string, `src` point at `size` readable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_StringCopy(dst: *mut TF_TString, src: *const c_char, size: usize) {
    quiet((), || {
        // SAFETY: as the caller promises.
        let (dst, bytes) = unsafe { (get_mut(dst, "dst")?, slice(src.cast(), size, "src")?) };
        dst.assign(bytes);
        Ok(())
    });
}

/// Makes `dst` a view of `size` bytes, which it does not own.
///
/// # Safety
/// `dst` must be an initialised string; the bytes must live as long as it is read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_StringAssignView(
    dst: *mut TF_TString,
    src: *const c_char,
    size: usize,
) {
    // SAFETY: as the caller promises.
    unsafe {
        if let Some(dst) = dst.as_mut() {
            dst.assign_view(src.cast(), size);
        }
    }
}

/// Returns the address of the first byte.
///
/// # Safety
/// `tstr` must be null or an initialised string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_StringGetDataPointer(tstr: *const TF_TString) -> *const c_char {
    // SAFETY: as the caller promises.
    unsafe { tstr.as_ref() }.map_or(ptr::null(), |string| string.as_ptr().cast())
}

/// Returns where the bytes live.
///
/// # Safety
/// `str` must be null or an initialised string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_StringGetType(str: *const TF_TString) -> TF_TString_Type {
    // SAFETY: as the caller promises.
    match unsafe { str.as_ref() }.map_or(TStringKind::Small, TString::kind) {
        TStringKind::Small => TF_TString_Type::TF_TSTR_SMALL,
        TStringKind::Large => TF_TString_Type::TF_TSTR_LARGE,
        TStringKind::Offset => TF_TString_Type::TF_TSTR_OFFSET,
        TStringKind::View => TF_TString_Type::TF_TSTR_VIEW,
    }
}

/// Returns the number of bytes.
///
/// # Safety
/// `tstr` must be null or an initialised string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_StringGetSize(tstr: *const TF_TString) -> usize {
    // SAFETY: as the caller promises.
    unsafe { tstr.as_ref() }.map_or(0, TString::len)
}

/// Returns the number of bytes that fit without a new block.
///
/// # Safety
/// `str` must be null or an initialised string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_StringGetCapacity(str: *const TF_TString) -> usize {
    // SAFETY: as the caller promises.
    unsafe { str.as_ref() }.map_or(0, TString::capacity)
}

/// Frees what the string owns; afterwards it is empty and may be used again.
///
/// # Safety
/// `tstr` must be null or an initialised string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_StringDealloc(tstr: *mut TF_TString) {
    // SAFETY: as the caller promises.
    if let Some(string) = unsafe { tstr.as_mut() } {
        string.dealloc();
    }
}

//! `tf_tstring.h`: the string elements of tensors.

use std::ffi::c_char;
use std::ptr;

use tfcore_tensor::{TString, TStringKind};

use super::handle::{CStrIn, In, Mut, Out, quiet};

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
#[unsafe(no_mangle)]
pub extern "C" fn TF_StringInit(mut str: Out<TF_TString>) {
    quiet((), || str.put(TString::new(), "str"));
}

/// Replaces the content of `dst` by a copy of `size` bytes.
#[unsafe(no_mangle)]
pub extern "C" fn TF_StringCopy(mut dst: Mut<TF_TString>, src: CStrIn, size: usize) {
    quiet((), || {
        let (dst, bytes) = (dst.get("dst")?, src.bytes(size, "src")?);
        dst.assign(bytes);
        Ok(())
    });
}

/// Makes `dst` a view of `size` bytes, which it does not own.
///
/// # Safety
/// The bytes must live as long as `dst` is read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_StringAssignView(
    mut dst: Mut<TF_TString>,
    src: *const c_char,
    size: usize,
) {
    if let Some(dst) = dst.opt() {
        // SAFETY: as the caller promises.
        unsafe { dst.assign_view(src.cast(), size) };
    }
}

/// Returns the address of the first byte.
#[unsafe(no_mangle)]
pub extern "C" fn TF_StringGetDataPointer(tstr: In<TF_TString>) -> *const c_char {
    tstr.opt().map_or(ptr::null(), |string| string.as_ptr().cast())
}

/// Returns where the bytes live.
#[unsafe(no_mangle)]
pub extern "C" fn TF_StringGetType(str: In<TF_TString>) -> TF_TString_Type {
    match str.opt().map_or(TStringKind::Small, TString::kind) {
        TStringKind::Small => TF_TString_Type::TF_TSTR_SMALL,
        TStringKind::Large => TF_TString_Type::TF_TSTR_LARGE,
        TStringKind::Offset => TF_TString_Type::TF_TSTR_OFFSET,
        TStringKind::View => TF_TString_Type::TF_TSTR_VIEW,
    }
}

/// Returns the number of bytes.
#[unsafe(no_mangle)]
pub extern "C" fn TF_StringGetSize(tstr: In<TF_TString>) -> usize {
    tstr.opt().map_or(0, TString::len)
}

/// Returns the number of bytes that fit without a new block.
#[unsafe(no_mangle)]
pub extern "C" fn TF_StringGetCapacity(str: In<TF_TString>) -> usize {
    str.opt().map_or(0, TString::capacity)
}

/// Frees what the string owns; afterwards it is empty and may be used again.
#[unsafe(no_mangle)]
pub extern "C" fn TF_StringDealloc(mut tstr: Mut<TF_TString>) {
    if let Some(string) = tstr.opt() {
        string.dealloc();
    }
}

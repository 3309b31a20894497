//! Shared libraries that are loaded at run time.

use std::ffi::{CStr, c_void};
use std::ptr;

use tfcore_base::{Error, Result, not_found};

use super::handle::CStrIn;
use super::version::TF_Version;

/// Loads a library with all of its symbols bound.
///
/// # Errors
/// `NotFound` with the loader's message, which names the file or the first symbol that is missing.
pub(super) fn open(path: &CStrIn, name: &str) -> Result<*mut c_void> {
    path.get(name)?;
    offer_own_symbols();
    let path = path.c_str().unwrap_or_default();
    // SAFETY: a NUL-terminated path. The library's constructors run; that they are sound is up to the program that names it.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if handle.is_null() { Err(explained(last_error())) } else { Ok(handle) }
}

/// The address of a symbol.
///
/// # Errors
/// `NotFound` with the loader's message.
///
/// # Safety
/// `handle` must be null, which stands for the program, or come from [`open`].
pub(super) unsafe fn symbol(handle: *mut c_void, symbol: &CStr) -> Result<*mut c_void> {
    // SAFETY: as the caller promises; null is `RTLD_DEFAULT`.
    let address = unsafe { libc::dlsym(handle, symbol.as_ptr()) };
    if address.is_null() { Err(not_found!("{}", last_error())) } else { Ok(address) }
}

/// Makes the functions of this library visible to those that are loaded after it, as a plug-in that names no library as
/// needed must find them. The program may have loaded this library for itself alone.
fn offer_own_symbols() {
    // SAFETY: plain data, which the call fills in.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: the address of a function of this library, and a place for the result.
    let found = unsafe { libc::dladdr(TF_Version as *const c_void, &mut info) };
    if found != 0 && !info.dli_fname.is_null() {
        let flags = libc::RTLD_NOW | libc::RTLD_GLOBAL | libc::RTLD_NOLOAD;
        // SAFETY: the path of a library that is loaded; this changes its visibility alone. A program that has linked the
        // library into itself is not found under this name, and its symbols are visible if it exports them.
        unsafe { libc::dlopen(info.dli_fname, flags) };
    }
}

fn last_error() -> String {
    // SAFETY: the message lives until the next call of the loader by this thread.
    let message = unsafe { libc::dlerror().as_ref() };
    message.map_or(String::new(), |text| {
        // SAFETY: a NUL-terminated string.
        unsafe { CStr::from_ptr(ptr::from_ref(text)) }.to_string_lossy().into()
    })
}

/// The loader's message, with the reason if the missing symbol is one of C++.
fn explained(message: String) -> Error {
    match message.contains("undefined symbol: _Z") {
        true => not_found!(
            "{message}: the library needs TensorFlow's C++ symbols, and this library has those of its C API only"
        ),
        false => not_found!("{message}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_of_c_plus_plus_are_explained() {
        let cases = [
            ("a.so: cannot open shared object file", false),
            ("a.so: undefined symbol: TF_Missing", false),
            ("a.so: undefined symbol: _ZN10tensorflow8OpKernelE", true),
        ];
        for (message, has_reason) in cases {
            let error = explained(message.to_string());
            assert!(error.message().starts_with(message), "{message}");
            assert_eq!(error.message().len() > message.len(), has_reason, "{message}");
        }
    }
}

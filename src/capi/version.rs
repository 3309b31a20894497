//! The version, and the marks by which this library is told from others.

use std::ffi::c_char;

/// Returns the version of TensorFlow whose behaviour this library has, as a static string such as
/// "2.21.0".
#[unsafe(no_mangle)]
pub extern "C" fn TF_Version() -> *const c_char {
    c"2.21.0".as_ptr()
}

/// Returns the version of tfcore itself, as a static string such as "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn tfcore_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

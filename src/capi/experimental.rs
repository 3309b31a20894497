//! `c_api_experimental.h`.

use std::ffi::c_char;
use std::ptr;

use tfcore_base::internal;

use super::function::TF_Function;
use super::graph::TF_Graph;
use super::handle::{get, guard, put, quiet, text};
use super::tf_status::TF_Status;

/// Returns the function as text for people and stores its length in `len`. The caller frees it with
/// `free`.
///
/// # Safety
/// `func` must be live, `len` valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_FunctionDebugString(
    func: *mut TF_Function,
    len: *mut usize,
) -> *mut c_char {
    quiet(ptr::null_mut(), || {
        // SAFETY: as the caller promises.
        let text = unsafe { get(func, "func")? }.function.to_string();
        // SAFETY: as the caller promises.
        unsafe { put(len, text.len(), "len")? };
        // SAFETY: malloc of a positive size; the caller frees the block with `free`.
        let copy: *mut c_char = unsafe { libc::malloc(text.len() + 1) }.cast();
        if copy.is_null() {
            return Err(internal!("no memory for {} bytes", text.len()));
        }
        // SAFETY: the block has room for the text and the NUL behind it.
        unsafe {
            ptr::copy_nonoverlapping(text.as_ptr().cast(), copy, text.len());
            copy.add(text.len()).write(0);
        }
        Ok(copy)
    })
}

/// Takes a function out of the graph's library. Operations that call it stay.
///
/// # Errors
/// `TF_INVALID_ARGUMENT` if there is no function of this name.
///
/// # Safety
/// `g` must be live, `func_name` a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_GraphRemoveFunction(
    g: *mut TF_Graph,
    func_name: *const c_char,
    status: *mut TF_Status,
) {
    let body = || {
        // SAFETY: as the caller promises.
        let (graph, name) = unsafe { (get(g, "g")?, text(func_name, "func_name")?) };
        graph.shared.lock().library_mut().remove(&name)
    };
    // SAFETY: as the caller promises.
    unsafe { guard(status, (), body) }
}

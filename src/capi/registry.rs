//! What the library knows: ops, how bindings present them, kernels; and who hears what ops print.

use std::ffi::{CStr, CString, c_char};
use std::ptr;
use std::sync::Arc;

use parking_lot::Mutex;
use tfcore_base::invalid;
use tfcore_framework::{ApiDefMap, log};
use tfcore_proto as proto;

use super::handle::{get, guard, quiet, slice, text};
use super::tf_buffer::{self, TF_Buffer};
use super::tf_status::TF_Status;
use crate::ops;

/// How language bindings present ops.
pub struct TF_ApiDefMap {
    map: Mutex<ApiDefMap>,
}

/// Returns the definitions of all ops as a serialised `OpList`, for the caller to delete.
#[unsafe(no_mangle)]
pub extern "C" fn TF_GetAllOpList() -> *mut TF_Buffer {
    quiet(ptr::null_mut(), || {
        let op = ops::registry().defs().iter().map(|def| def.to_proto()).collect();
        Ok(tf_buffer::new(&proto::OpList { op }))
    })
}

/// Returns a map with what the ops of a serialised `OpList` imply, for the caller to delete; null on error.
///
/// # Safety
/// `op_list_buffer` and `status` must be live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_NewApiDefMap(
    op_list_buffer: *mut TF_Buffer,
    status: *mut TF_Status,
) -> *mut TF_ApiDefMap {
    let body = || {
        // SAFETY: as the caller promises.
        let bytes = unsafe { tf_buffer::bytes(op_list_buffer, "op_list_buffer")? };
        let ops: proto::OpList =
            proto::decode(bytes).map_err(|_| invalid!("Unparseable OpList"))?;
        Ok(Box::into_raw(Box::new(TF_ApiDefMap { map: Mutex::new(ApiDefMap::new(&ops)) })))
    };
    // SAFETY: as the caller promises.
    unsafe { guard(status, ptr::null_mut(), body) }
}

/// Deletes a map; null is allowed.
///
/// # Safety
/// `apimap` must be null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_DeleteApiDefMap(apimap: *mut TF_ApiDefMap) {
    if !apimap.is_null() {
        // SAFETY: the caller hands the map over.
        drop(unsafe { Box::from_raw(apimap) });
    }
}

/// Overrides definitions with the `ApiDefs` in `text`, which is in the text format of protocol buffers; a string may also
/// stand on lines of its own, from `<<END` to `END`. Ops that the map lacks are skipped.
///
/// After `TF_ApiDefMapGet` the map cannot be changed: `TF_FAILED_PRECONDITION`.
///
/// # Safety
/// `api_def_map` and `status` must be live, `text` point at so many bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_ApiDefMapPut(
    api_def_map: *mut TF_ApiDefMap,
    text: *const c_char,
    text_len: usize,
    status: *mut TF_Status,
) {
    // SAFETY: as the caller promises.
    let body = || unsafe {
        get(api_def_map, "api_def_map")?.map.lock().put(slice(text.cast(), text_len, "text")?)
    };
    // SAFETY: as the caller promises.
    unsafe { guard(status, (), body) }
}

/// Returns the serialised `ApiDef` of an op, for the caller to delete; null, without an error, if the map lacks it.
///
/// # Safety
/// `api_def_map` and `status` must be live, `name` point at so many bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_ApiDefMapGet(
    api_def_map: *mut TF_ApiDefMap,
    name: *const c_char,
    name_len: usize,
    status: *mut TF_Status,
) -> *mut TF_Buffer {
    let body = || {
        // SAFETY: as the caller promises.
        let (map, name) =
            unsafe { (get(api_def_map, "api_def_map")?, slice(name.cast(), name_len, "name")?) };
        Ok(map
            .map
            .lock()
            .get(&String::from_utf8_lossy(name))
            .map_or(ptr::null_mut(), tf_buffer::new))
    };
    // SAFETY: as the caller promises.
    unsafe { guard(status, ptr::null_mut(), body) }
}

/// Returns all kernels as a serialised `KernelList`, for the caller to delete.
///
/// # Safety
/// `status` must be live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_GetAllRegisteredKernels(status: *mut TF_Status) -> *mut TF_Buffer {
    // SAFETY: as the caller promises.
    unsafe { guard(status, ptr::null_mut(), || Ok(tf_buffer::new(&ops::registry().kernel_list()))) }
}

/// Returns the kernels of an op as a serialised `KernelList`, for the caller to delete; an empty one if it has none.
///
/// # Safety
/// `name` must be a NUL-terminated string, `status` live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_GetRegisteredKernelsForOp(
    name: *const c_char,
    status: *mut TF_Status,
) -> *mut TF_Buffer {
    // SAFETY: as the caller promises.
    let body =
        || unsafe { Ok(tf_buffer::new(&ops::registry().kernel_list_of(&text(name, "name")?))) };
    // SAFETY: as the caller promises.
    unsafe { guard(status, ptr::null_mut(), body) }
}

/// Adds a function that gets what ops such as PrintV2 print, each text whole and with its line end, instead of the streams
/// of the process. Each listener hears everything, for the rest of the process.
///
/// # Safety
/// `listener` must be null, which adds none, or live as long as the process; it may be called from any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_RegisterLogListener(
    listener: Option<unsafe extern "C" fn(*const c_char)>,
) {
    let Some(listener) = listener else {
        return;
    };
    log::add_listener(Arc::new(move |text| {
        // C hears what comes before the first NUL.
        let text = CString::new(text.split('\0').next().unwrap_or_default()).unwrap_or_default();
        // SAFETY: the client's function gets a string that lives during the call.
        unsafe { listener(CStr::as_ptr(&text)) };
    }));
}

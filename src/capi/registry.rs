//! What the library knows: ops, how bindings present them, kernels; and who hears what ops print.

use std::ffi::{CStr, CString, c_char};
use std::ptr;
use std::sync::Arc;

use parking_lot::Mutex;
use tfcore_base::invalid;
use tfcore_framework::{ApiDefMap, log};
use tfcore_proto as proto;

use super::handle::{Boxed, CStrIn, Owned, Ref, Status, guard, quiet};
use super::tf_buffer::{self, TF_Buffer};
use crate::ops;

/// How language bindings present ops.
pub struct TF_ApiDefMap {
    map: Mutex<ApiDefMap>,
}

impl Boxed for TF_ApiDefMap {}

/// Returns the definitions of all ops as a serialised `OpList`, for the caller to delete.
#[unsafe(no_mangle)]
pub extern "C" fn TF_GetAllOpList() -> *mut TF_Buffer {
    quiet(ptr::null_mut(), || {
        let op = ops::registry().defs().iter().map(|def| def.to_proto()).collect();
        Ok(tf_buffer::new(&proto::OpList { op }))
    })
}

/// Returns a map with what the ops of a serialised `OpList` imply, for the caller to delete; null on error.
#[unsafe(no_mangle)]
pub extern "C" fn TF_NewApiDefMap(
    op_list_buffer: Ref<TF_Buffer>,
    status: Status,
) -> *mut TF_ApiDefMap {
    guard(status, ptr::null_mut(), || {
        let bytes = op_list_buffer.get("op_list_buffer")?.bytes("op_list_buffer")?;
        let ops: proto::OpList =
            proto::decode(bytes).map_err(|_| invalid!("Unparseable OpList"))?;
        Ok(TF_ApiDefMap { map: Mutex::new(ApiDefMap::new(&ops)) }.hand_out())
    })
}

/// Deletes a map; null is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn TF_DeleteApiDefMap(apimap: Owned<TF_ApiDefMap>) {
    drop(apimap);
}

/// Overrides definitions with the `ApiDefs` in `text`, which is in the text format of protocol buffers; a string may also
/// stand on lines of its own, from `<<END` to `END`. Ops that the map lacks are skipped.
///
/// After `TF_ApiDefMapGet` the map cannot be changed: `TF_FAILED_PRECONDITION`.
#[unsafe(no_mangle)]
pub extern "C" fn TF_ApiDefMapPut(
    api_def_map: Ref<TF_ApiDefMap>,
    text: CStrIn,
    text_len: usize,
    status: Status,
) {
    guard(status, (), || {
        api_def_map.get("api_def_map")?.map.lock().put(text.bytes(text_len, "text")?)
    })
}

/// Returns the serialised `ApiDef` of an op, for the caller to delete; null, without an error, if the map lacks it.
#[unsafe(no_mangle)]
pub extern "C" fn TF_ApiDefMapGet(
    api_def_map: Ref<TF_ApiDefMap>,
    name: CStrIn,
    name_len: usize,
    status: Status,
) -> *mut TF_Buffer {
    guard(status, ptr::null_mut(), || {
        let (map, name) = (api_def_map.get("api_def_map")?, name.bytes(name_len, "name")?);
        Ok(map
            .map
            .lock()
            .get(&String::from_utf8_lossy(name))
            .map_or(ptr::null_mut(), tf_buffer::new))
    })
}

/// Returns all kernels as a serialised `KernelList`, for the caller to delete.
#[unsafe(no_mangle)]
pub extern "C" fn TF_GetAllRegisteredKernels(status: Status) -> *mut TF_Buffer {
    guard(status, ptr::null_mut(), || Ok(tf_buffer::new(&ops::registry().kernel_list())))
}

/// Returns the kernels of an op as a serialised `KernelList`, for the caller to delete; an empty one if it has none.
#[unsafe(no_mangle)]
pub extern "C" fn TF_GetRegisteredKernelsForOp(name: CStrIn, status: Status) -> *mut TF_Buffer {
    let body = || Ok(tf_buffer::new(&ops::registry().kernel_list_of(&name.get("name")?)));
    guard(status, ptr::null_mut(), body)
}

/// Adds a function that gets what ops such as PrintV2 print, each text whole and with its line end, instead of the streams
/// of the process. Each listener hears everything, for the rest of the process.
///
/// # Safety
/// `listener` must live as long as the process; it may be called from any thread.
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

//! Libraries with ops and kernels.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ptr;
use std::sync::Arc;

use parking_lot::ReentrantMutex;
use tfcore_base::Result;
use tfcore_proto::{self as proto, Message};

use super::dynamic;
use super::handle::{Boxed, Bytes, CStrIn, Owned, Ref, Status, guard};
use super::tf_buffer::TF_Buffer;
use crate::ops;

/// A library that has been loaded.
pub struct TF_Library {
    /// The ops that it has registered, a serialised `OpList`.
    ops: Arc<[u8]>,
}

impl Boxed for TF_Library {}

/// The ops that libraries have registered, by the loader's handle. A library's constructors run under the lock, so that ops
/// of two libraries are not confused; they may load another library.
static LOADED: ReentrantMutex<RefCell<Option<HashMap<usize, Arc<[u8]>>>>> =
    ReentrantMutex::new(RefCell::new(None));

/// Loads a shared library, whose constructors register ops and kernels. Returns a handle for the caller to delete; null on
/// error. A library is loaded once; it stays loaded until the process ends.
///
/// Reports `TF_NOT_FOUND` if there is no such file, or if a symbol that it needs is missing.
#[unsafe(no_mangle)]
pub extern "C" fn TF_LoadLibrary(library_filename: CStrIn, status: Status) -> *mut TF_Library {
    guard(status, ptr::null_mut(), || Ok(TF_Library { ops: load(&library_filename)? }.hand_out()))
}

fn load(path: &CStrIn) -> Result<Arc<[u8]>> {
    let lock = LOADED.lock();
    let known = ops::registry().added();
    let handle = dynamic::open(path, "library_filename")? as usize;
    let mut loaded = lock.borrow_mut();
    let ops = loaded.get_or_insert_default().entry(handle).or_insert_with(|| {
        let mut added = ops::registry().added();
        added.retain(|op| !known.iter().any(|known| Arc::ptr_eq(known, op)));
        let op = added.iter().map(|op| op.to_proto()).collect();
        proto::OpList { op }.encode_to_vec().into()
    });
    Ok(ops.clone())
}

/// Returns the ops that the library has registered, a serialised `OpList`. The bytes live as long as the handle.
#[unsafe(no_mangle)]
pub extern "C" fn TF_GetOpList(lib_handle: Ref<TF_Library>) -> TF_Buffer {
    let ops = lib_handle.opt().map_or(&[][..], |library| &library.ops);
    // SAFETY: the bytes live as long as the handle, and the caller uses them no longer.
    let data = unsafe { Bytes::new(ops.as_ptr().cast()) };
    TF_Buffer { data, length: ops.len(), data_deallocator: None }
}

/// Deletes a handle; null is allowed. The library stays loaded.
#[unsafe(no_mangle)]
pub extern "C" fn TF_DeleteLibraryHandle(lib_handle: Owned<TF_Library>) {
    drop(lib_handle);
}

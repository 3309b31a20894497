//! Servers of a cluster, which are not built in.
#![allow(unused_variables, reason = "the headers have arguments that no implementation needs")]

use std::ffi::c_char;
use std::ptr;

use super::handle::{Boxed, Bytes, Owned, Ref, Status, guard};
use super::not_built_in::not_built_in;

/// A server of a cluster. There is none: `TF_NewServer` makes none.
pub struct TF_Server {
    _private: [u8; 0],
}

impl Boxed for TF_Server {}

/// Not available. Reports `TF_UNIMPLEMENTED` and returns null.
#[unsafe(no_mangle)]
pub extern "C" fn TF_NewServer(proto: Bytes, proto_len: usize, status: Status) -> *mut TF_Server {
    guard(status, ptr::null_mut(), || Err(not_built_in("TF_NewServer")))
}

/// Not available. Reports `TF_UNIMPLEMENTED`.
#[unsafe(no_mangle)]
pub extern "C" fn TF_ServerStart(server: Ref<TF_Server>, status: Status) {
    guard(status, (), || Err(not_built_in("TF_ServerStart")))
}

/// Not available. Reports `TF_UNIMPLEMENTED`.
#[unsafe(no_mangle)]
pub extern "C" fn TF_ServerStop(server: Ref<TF_Server>, status: Status) {
    guard(status, (), || Err(not_built_in("TF_ServerStop")))
}

/// Not available. Reports `TF_UNIMPLEMENTED`.
#[unsafe(no_mangle)]
pub extern "C" fn TF_ServerJoin(server: Ref<TF_Server>, status: Status) {
    guard(status, (), || Err(not_built_in("TF_ServerJoin")))
}

/// Returns an empty string: there are no servers.
#[unsafe(no_mangle)]
pub extern "C" fn TF_ServerTarget(server: Ref<TF_Server>) -> *const c_char {
    c"".as_ptr()
}

/// Deletes a server; null is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn TF_DeleteServer(server: Owned<TF_Server>) {
    drop(server);
}

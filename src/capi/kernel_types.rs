//! Structs of `kernels.h` that its headers define by hand.

use std::ffi::{c_char, c_void};
use std::ptr;

/// A string with its length.
#[repr(C)]
pub struct TF_StringView {
    pub data: *const c_char,
    pub len: usize,
}

impl TF_StringView {
    /// A view of text that C may read as long as it lives.
    pub(crate) fn new(text: &str) -> TF_StringView {
        TF_StringView { data: text.as_ptr().cast(), len: text.len() }
    }
}

/// The memory that a plug-in asks for.
#[repr(C)]
pub struct TF_AllocatorAttributes {
    pub struct_size: usize,
    pub on_host: u8,
}

/// A stream of a plug-in's device.
pub type SP_Stream = *mut c_void;

/// The functions of a step's rendezvous.
#[repr(C)]
pub struct TF_RendezvousThunk {
    pub rendezvous: *mut c_void,
    pub send_func: *mut c_void,
    pub async_recv_func: *mut c_void,
    pub start_abort_func: *mut c_void,
}

impl TF_RendezvousThunk {
    pub(crate) const NONE: TF_RendezvousThunk = TF_RendezvousThunk {
        rendezvous: ptr::null_mut(),
        send_func: ptr::null_mut(),
        async_recv_func: ptr::null_mut(),
        start_abort_func: ptr::null_mut(),
    };
}

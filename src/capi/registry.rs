//! The ops that the library knows.

use std::ptr;

use tfcore_proto as proto;

use super::handle::quiet;
use super::tf_buffer::{self, TF_Buffer};
use crate::ops;

/// Returns the definitions of all ops as a serialised `OpList`, for the caller to delete.
#[unsafe(no_mangle)]
pub extern "C" fn TF_GetAllOpList() -> *mut TF_Buffer {
    quiet(ptr::null_mut(), || {
        let op = ops::registry().defs().iter().map(|def| def.to_proto()).collect();
        Ok(tf_buffer::new(&proto::OpList { op }))
    })
}

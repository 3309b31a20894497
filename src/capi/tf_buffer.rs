//! `tf_buffer.h`: blocks of bytes with a deallocator.

use std::ffi::{c_char, c_void};
use std::ptr;

use tfcore_base::{Result, invalid};
use tfcore_proto::Message;

use super::handle::{Bytes, Handle, Mut, Owned, Ref, quiet};

/// A block of bytes. `data_deallocator`, where it is set, frees them.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct TF_Buffer {
    pub data: Bytes,
    pub length: usize,
    pub data_deallocator: Option<unsafe extern "C" fn(data: *mut c_void, length: usize)>,
}

impl TF_Buffer {
    const EMPTY: TF_Buffer = TF_Buffer { data: Bytes::NULL, length: 0, data_deallocator: None };

    /// The bytes.
    ///
    /// # Errors
    /// `InvalidArgument` naming the argument if there is a length but no data.
    pub(crate) fn bytes(&self, name: &str) -> Result<&[u8]> {
        self.data.get(self.length, name)
    }

    fn hand_out(self) -> *mut TF_Buffer {
        Box::into_raw(Box::new(self))
    }

    /// A copy of `bytes`.
    fn of(bytes: &[u8]) -> TF_Buffer {
        // One of no bytes has a block, too: it has been filled.
        // SAFETY: malloc of a positive size; clients may free the block with `free`.
        let data = unsafe { libc::malloc(bytes.len().max(1)) };
        assert!(!data.is_null(), "out of memory for a buffer of {} bytes", bytes.len());
        // SAFETY: the block has so many bytes.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), data.cast(), bytes.len()) };
        // SAFETY: as above.
        let data = unsafe { Bytes::new(data) };
        TF_Buffer { data, length: bytes.len(), data_deallocator: Some(free) }
    }
}

impl Handle for TF_Buffer {
    unsafe fn free(buffer: *mut TF_Buffer) {
        // SAFETY: made by `hand_out`, as the caller promises.
        let buffer = unsafe { Box::from_raw(buffer) };
        if let Some(deallocator) = buffer.data_deallocator {
            // SAFETY: the deallocator belongs to the data.
            unsafe { deallocator(buffer.data.as_ptr().cast_mut(), buffer.length) };
        }
    }
}

unsafe extern "C" fn free(data: *mut c_void, _: usize) {
    // SAFETY: the block came from malloc.
    unsafe { libc::free(data) }
}

/// Fills an empty buffer with a serialised message.
///
/// # Errors
/// `InvalidArgument` "Passing non-empty TF_Buffer is invalid."
pub(crate) fn fill(buffer: Mut<TF_Buffer>, message: &impl Message) -> Result<()> {
    fill_with(buffer, &message.encode_to_vec())
}

/// Fills an empty buffer with a copy of `bytes`.
///
/// # Errors
/// `InvalidArgument` "Passing non-empty TF_Buffer is invalid."
pub(crate) fn fill_with(mut buffer: Mut<TF_Buffer>, bytes: &[u8]) -> Result<()> {
    let buffer = buffer.get("buffer")?;
    if !buffer.data.is_null() {
        return Err(invalid!("Passing non-empty TF_Buffer is invalid."));
    }
    *buffer = TF_Buffer::of(bytes);
    Ok(())
}

/// A NUL-terminated copy of `text`, for the caller to free with `free`.
pub(crate) fn malloc_text(text: &str) -> *const c_char {
    let bytes = [text.as_bytes(), b"\0"].concat();
    TF_Buffer::of(&bytes).data.as_ptr().cast()
}

/// A new buffer with a serialised message, for the caller to delete.
pub(crate) fn new(message: &impl Message) -> *mut TF_Buffer {
    TF_Buffer::of(&message.encode_to_vec()).hand_out()
}

/// Returns a buffer with a copy of `proto_len` bytes.
#[unsafe(no_mangle)]
pub extern "C" fn TF_NewBufferFromString(proto: Bytes, proto_len: usize) -> *mut TF_Buffer {
    quiet(ptr::null_mut(), || {
        let bytes = proto.get(proto_len, "proto")?;
        Ok(TF_Buffer::of(bytes).hand_out())
    })
}

/// Returns an empty buffer.
#[unsafe(no_mangle)]
pub extern "C" fn TF_NewBuffer() -> *mut TF_Buffer {
    TF_Buffer::EMPTY.hand_out()
}

/// Calls the deallocator, if there is one, and deletes the buffer; null is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn TF_DeleteBuffer(buffer: Owned<TF_Buffer>) {
    drop(buffer);
}

/// Returns a copy of the struct; the data stays the buffer's.
#[unsafe(no_mangle)]
pub extern "C" fn TF_GetBuffer(buffer: Ref<TF_Buffer>) -> TF_Buffer {
    buffer.opt().copied().unwrap_or(TF_Buffer::EMPTY)
}

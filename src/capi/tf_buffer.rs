//! `tf_buffer.h`: blocks of bytes with a deallocator.

use std::ffi::{c_char, c_void};
use std::ptr;

use tfcore_base::{Result, invalid};
use tfcore_proto::Message;

use super::handle::{get, slice};

/// A block of bytes. `data_deallocator`, where it is set, frees them.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct TF_Buffer {
    pub data: *const c_void,
    pub length: usize,
    pub data_deallocator: Option<unsafe extern "C" fn(data: *mut c_void, length: usize)>,
}

impl TF_Buffer {
    const EMPTY: TF_Buffer = TF_Buffer { data: ptr::null(), length: 0, data_deallocator: None };

    fn of(bytes: &[u8]) -> TF_Buffer {
        // One of no bytes has a block, too: it has been filled.
        // SAFETY: malloc of a positive size; clients may free the block with `free`.
        let data = unsafe { libc::malloc(bytes.len().max(1)) };
        assert!(!data.is_null(), "out of memory for a buffer of {} bytes", bytes.len());
        // SAFETY: the block has so many bytes.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), data.cast(), bytes.len()) };
        TF_Buffer { data, length: bytes.len(), data_deallocator: Some(free) }
    }
}

unsafe extern "C" fn free(data: *mut c_void, _: usize) {
    // SAFETY: the block came from malloc.
    unsafe { libc::free(data) }
}

/// The bytes of a buffer.
///
/// # Safety
/// The buffer must be null or live, with readable data.
pub(crate) unsafe fn bytes<'a>(buffer: *const TF_Buffer, name: &str) -> Result<&'a [u8]> {
    // SAFETY: as the caller promises.
    unsafe {
        let buffer = get(buffer, name)?;
        slice(buffer.data.cast(), buffer.length, name)
    }
}

/// Fills an empty buffer with a serialised message.
///
/// # Errors
/// `InvalidArgument` "Passing non-empty TF_Buffer is invalid."
///
/// # Safety
/// The buffer must be null or live.
pub(crate) unsafe fn fill(buffer: *mut TF_Buffer, message: &impl Message) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { fill_with(buffer, &message.encode_to_vec()) }
}

/// Fills an empty buffer with a copy of `bytes`.
///
/// # Errors
/// `InvalidArgument` "Passing non-empty TF_Buffer is invalid."
///
/// # Safety
/// The buffer must be null or live.
pub(crate) unsafe fn fill_with(buffer: *mut TF_Buffer, bytes: &[u8]) -> Result<()> {
    // SAFETY: as the caller promises.
    let buffer = unsafe { super::handle::get_mut(buffer, "buffer")? };
    if !buffer.data.is_null() {
        return Err(invalid!("Passing non-empty TF_Buffer is invalid."));
    }
    *buffer = TF_Buffer::of(bytes);
    Ok(())
}

/// A NUL-terminated copy of `text`, for the caller to free with `free`.
pub(crate) fn malloc_text(text: &str) -> *const c_char {
    let bytes = [text.as_bytes(), b"\0"].concat();
    TF_Buffer::of(&bytes).data.cast()
}

/// A new buffer with a serialised message, for the caller to delete.
pub(crate) fn new(message: &impl Message) -> *mut TF_Buffer {
    Box::into_raw(Box::new(TF_Buffer::of(&message.encode_to_vec())))
}

/// Returns a buffer with a copy of `proto_len` bytes.
///
/// # Safety
/// `proto` must point at so many readable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_NewBufferFromString(
    proto: *const c_void,
    proto_len: usize,
) -> *mut TF_Buffer {
    super::handle::quiet(ptr::null_mut(), || {
        // SAFETY: as the caller promises.
        let bytes = unsafe { slice(proto.cast(), proto_len, "proto")? };
        Ok(Box::into_raw(Box::new(TF_Buffer::of(bytes))))
    })
}

/// Returns an empty buffer.
#[unsafe(no_mangle)]
pub extern "C" fn TF_NewBuffer() -> *mut TF_Buffer {
    Box::into_raw(Box::new(TF_Buffer::EMPTY))
}

/// Calls the deallocator, if there is one, and deletes the buffer; null is allowed.
///
/// # Safety
/// `buffer` must be null or come from this library and not have been deleted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_DeleteBuffer(buffer: *mut TF_Buffer) {
    if buffer.is_null() {
        return;
    }
    // SAFETY: the caller hands the buffer over.
    let buffer = unsafe { Box::from_raw(buffer) };
    if let Some(deallocator) = buffer.data_deallocator {
        // SAFETY: the deallocator belongs to the data.
        unsafe { deallocator(buffer.data.cast_mut(), buffer.length) };
    }
}

/// Returns a copy of the struct; the data stays the buffer's.
///
/// # Safety
/// `buffer` must be null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_GetBuffer(buffer: *mut TF_Buffer) -> TF_Buffer {
    // SAFETY: as the caller promises.
    unsafe { buffer.as_ref() }.copied().unwrap_or(TF_Buffer::EMPTY)
}

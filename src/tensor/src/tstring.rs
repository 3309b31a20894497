//! `TString`: the string element of tensors, in the C API's 24-byte layout.
//!
//! The low two bits of the first byte are the kind; sizes are stored shifted left by two. The
//! layout is little endian and frozen: C headers of clients read and write it inline.

use std::ffi::c_void;
use std::fmt;
use std::ptr;

use tfcore_base::{DType, Elem};

/// Where a string's bytes live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum TStringKind {
    /// In the struct itself: up to 22 bytes.
    Small = 0,
    /// In a block of `malloc` that the string owns.
    Large = 1,
    /// At a distance from the struct's own address.
    Offset = 2,
    /// In memory of somebody else.
    View = 3,
}

/// One string element: 24 bytes, owned by whoever owns the array around it.
#[repr(C, align(8))]
pub struct TString {
    bytes: [u8; 24],
}

const SMALL_CAPACITY: usize = 22;

/// The owner record that a view may carry in its third word.
#[repr(C)]
struct ViewOwner {
    retain: Option<unsafe extern "C" fn(*mut c_void)>,
    release: Option<unsafe extern "C" fn(*mut c_void)>,
    object: *mut c_void,
}

impl TString {
    pub const fn new() -> TString {
        TString { bytes: [0; 24] }
    }

    pub fn kind(&self) -> TStringKind {
        match self.bytes[0] & 3 {
            0 => TStringKind::Small,
            1 => TStringKind::Large,
            2 => TStringKind::Offset,
            _ => TStringKind::View,
        }
    }

    fn word(&self, index: usize) -> u64 {
        let mut word = [0; 8];
        word.copy_from_slice(&self.bytes[index * 8..index * 8 + 8]);
        u64::from_le_bytes(word)
    }

    fn set_word(&mut self, index: usize, value: u64) {
        self.bytes[index * 8..index * 8 + 8].copy_from_slice(&value.to_le_bytes());
    }

    fn half_word(&self, index: usize) -> u32 {
        let mut word = [0; 4];
        word.copy_from_slice(&self.bytes[index * 4..index * 4 + 4]);
        u32::from_le_bytes(word)
    }

    pub fn len(&self) -> usize {
        match self.kind() {
            TStringKind::Small => usize::from(self.bytes[0] >> 2),
            TStringKind::Offset => (self.half_word(0) >> 2) as usize,
            TStringKind::Large | TStringKind::View => (self.word(0) >> 2) as usize,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that fit without a new block: 22 for small strings, 0 for offsets and views.
    pub fn capacity(&self) -> usize {
        match self.kind() {
            TStringKind::Small => SMALL_CAPACITY,
            TStringKind::Large => self.word(1) as usize,
            TStringKind::Offset | TStringKind::View => 0,
        }
    }

    /// The address of the first byte.
    pub fn as_ptr(&self) -> *const u8 {
        match self.kind() {
            TStringKind::Small => self.bytes[1..].as_ptr(),
            TStringKind::Large => self.word(2) as *const u8,
            TStringKind::View => self.word(1) as *const u8,
            TStringKind::Offset => {
                ptr::from_ref(self).cast::<u8>().wrapping_add(self.half_word(1) as usize)
            }
        }
    }

    pub fn as_bytes(&self) -> &[u8] {
        let len = self.len();
        if len == 0 {
            return &[];
        }
        // SAFETY: a string's size and address describe readable memory that lives as long as the
        // string; for views and offsets whoever made them has promised it.
        unsafe { std::slice::from_raw_parts(self.as_ptr(), len) }
    }

    /// Replaces the content by a copy of `bytes`.
    ///
    /// A block that is large enough is kept unless the new size is below half of it.
    pub fn assign(&mut self, bytes: &[u8]) {
        let size = bytes.len();
        if size <= SMALL_CAPACITY {
            // `bytes` may be a part of the block that is freed here, so it is copied first.
            let mut small = [0; 24];
            small[0] = (size << 2) as u8;
            small[1..=size].copy_from_slice(bytes);
            self.clear();
            self.bytes = small;
            return;
        }
        let capacity = ((size + 16) & !15) - 1;
        let keeps = self.kind() == TStringKind::Large
            && size <= self.capacity()
            && size >= self.capacity() / 2;
        let (block, capacity) = if keeps {
            (self.word(2) as *mut u8, self.capacity())
        } else {
            // SAFETY: plain malloc; C clients free large strings with `free`.
            let block = unsafe { libc::malloc(capacity + 1) }.cast::<u8>();
            assert!(!block.is_null(), "out of memory for a string of {size} bytes");
            (block, capacity)
        };
        // SAFETY: the block has room for `capacity + 1 > size` bytes; `copy` allows overlap.
        unsafe {
            ptr::copy(bytes.as_ptr(), block, size);
            *block.add(size) = 0;
        }
        if !keeps {
            self.clear();
        }
        self.set_word(0, (size as u64) << 2 | TStringKind::Large as u64);
        self.set_word(1, capacity as u64);
        self.set_word(2, block as u64);
    }

    /// Makes this a view of memory that it does not own.
    ///
    /// # Safety
    /// `data` must be readable for `size` bytes for as long as this string or a bitwise copy of it
    /// is read.
    pub unsafe fn assign_view(&mut self, data: *const u8, size: usize) {
        self.clear();
        self.set_word(0, (size as u64) << 2 | TStringKind::View as u64);
        self.set_word(1, data as u64);
    }

    /// Frees what the string owns and leaves the empty string. Views without an owner and offsets
    /// stay as they are, as the C API's `TF_StringDealloc` has it.
    pub fn dealloc(&mut self) {
        match self.kind() {
            TStringKind::Large => {
                // SAFETY: a large string owns its block, which came from malloc.
                unsafe { libc::free(self.word(2) as *mut c_void) };
                self.bytes = [0; 24];
            }
            TStringKind::View if self.word(2) != 0 => {
                // SAFETY: a non-zero third word of a view is its owner record.
                unsafe {
                    let owner = &*(self.word(2) as *const ViewOwner);
                    if let Some(release) = owner.release {
                        release(owner.object);
                    }
                }
                self.bytes = [0; 24];
            }
            TStringKind::Small => self.bytes = [0; 24],
            TStringKind::View | TStringKind::Offset => {}
        }
    }

    fn clear(&mut self) {
        self.dealloc();
        self.bytes = [0; 24];
    }
}

impl Drop for TString {
    fn drop(&mut self) {
        self.dealloc();
    }
}

impl Default for TString {
    fn default() -> TString {
        TString::new()
    }
}

impl Clone for TString {
    fn clone(&self) -> TString {
        TString::from(self.as_bytes())
    }
}

impl From<&[u8]> for TString {
    fn from(bytes: &[u8]) -> TString {
        let mut string = TString::new();
        string.assign(bytes);
        string
    }
}

impl From<&str> for TString {
    fn from(text: &str) -> TString {
        TString::from(text.as_bytes())
    }
}

impl PartialEq for TString {
    fn eq(&self, other: &TString) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for TString {}

impl PartialOrd for TString {
    fn partial_cmp(&self, other: &TString) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for TString {
    fn cmp(&self, other: &TString) -> std::cmp::Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl std::hash::Hash for TString {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

impl fmt::Debug for TString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", tfcore_base::escape_bytes(self.as_bytes()))
    }
}

impl Elem for TString {
    const DTYPE: DType = DType::STRING;
}

const _: () = assert!(size_of::<TString>() == 24);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_choose_the_kind() {
        for size in [0, 1, 22, 23, 47, 1000] {
            let bytes = vec![b'x'; size];
            let string = TString::from(&bytes[..]);
            assert_eq!(string.as_bytes(), &bytes[..]);
            let kind = if size <= 22 { TStringKind::Small } else { TStringKind::Large };
            assert_eq!(string.kind(), kind, "{size}");
            assert!(string.capacity() >= size);
        }
        assert_eq!(TString::from(&[0; 23][..]).capacity(), 31);
    }

    #[test]
    fn assignment_reuses_the_block_until_half() {
        let mut string = TString::from(&[1u8; 100][..]);
        let block = string.as_ptr();
        string.assign(&[2; 60]);
        assert_eq!((string.as_ptr(), string.len()), (block, 60));
        string.assign(&[3; 30]);
        assert_eq!(string.as_bytes(), [3; 30]);
        string.assign(b"small");
        assert_eq!(string.kind(), TStringKind::Small);
    }

    #[test]
    fn a_view_copies_into_an_owned_string() {
        let text = b"forty-two characters of somebody else's memory";
        let mut view = TString::new();
        // SAFETY: `text` is static.
        unsafe { view.assign_view(text.as_ptr(), text.len()) };
        assert_eq!(view.kind(), TStringKind::View);
        assert_eq!(view.clone().kind(), TStringKind::Large);
        assert_eq!(view, view.clone());
    }
}

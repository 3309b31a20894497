//! `Name`: text that C can hold on to.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::ffi::{CStr, c_char};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

/// A shared string with a NUL behind it. Its address stays the same for as long as any clone lives.
#[derive(Clone)]
pub struct Name(Arc<str>);

impl Name {
    /// The text up to its first NUL, if it has one.
    pub fn new(text: &str) -> Name {
        Name::joined("", text.split('\0').next().unwrap_or(""))
    }

    /// Two texts in one, neither of which may hold a NUL.
    pub(crate) fn joined(first: &str, second: &str) -> Name {
        debug_assert!(!first.contains('\0') && !second.contains('\0'));
        // Put together on the stack, a name takes one allocation.
        let mut buffer = [0; 120];
        let len = first.len() + second.len();
        if len >= buffer.len() {
            return Name([first, second, "\0"].concat().into());
        }
        buffer[..first.len()].copy_from_slice(first.as_bytes());
        buffer[first.len()..len].copy_from_slice(second.as_bytes());
        Name(str::from_utf8(&buffer[..=len]).expect("texts in a row are text").into())
    }

    pub fn as_str(&self) -> &str {
        &self.0[..self.0.len() - 1]
    }

    /// The address of the NUL-terminated text.
    pub fn as_ptr(&self) -> *const c_char {
        self.0.as_ptr().cast()
    }

    pub fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_with_nul(self.0.as_bytes()).expect("a name ends with its only NUL")
    }
}

impl Deref for Name {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Name) -> bool {
        self.0 == other.0
    }
}

impl Eq for Name {}

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Name) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Name {
    fn cmp(&self, other: &Name) -> Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_at_the_first_nul() {
        let name = Name::new("a\0b");
        assert_eq!(name.as_str(), "a");
        assert_eq!(name.as_c_str().to_bytes(), b"a");
        assert_eq!(Name::new("").as_c_str().to_bytes(), b"");
        for len in [118, 119, 120, 121, 500] {
            let text = "n".repeat(len);
            assert_eq!(
                Name::joined("p/", &text).as_c_str().to_bytes(),
                format!("p/{text}").as_bytes()
            );
        }
    }
}

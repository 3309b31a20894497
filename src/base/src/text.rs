//! Escaping of bytes for messages.

/// Escapes `bytes` as a C string literal does: printable ASCII stays, the rest becomes `\n`, `\t`, `\r`,
/// `\"`, `\'`, `\\` or three octal digits.
pub fn escape_bytes(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for &byte in bytes {
        match byte {
            b'\n' => text.push_str("\\n"),
            b'\r' => text.push_str("\\r"),
            b'\t' => text.push_str("\\t"),
            b'"' => text.push_str("\\\""),
            b'\'' => text.push_str("\\'"),
            b'\\' => text.push_str("\\\\"),
            0x20..0x7f => text.push(char::from(byte)),
            _ => text.push_str(&format!("\\{byte:03o}")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn escapes_like_a_c_literal() {
        assert_eq!(super::escape_bytes(b"a\"b\n\x01\xff\\'"), "a\\\"b\\n\\001\\377\\\\\\'");
    }
}

//! Messages written from their end to their beginning: a length is known when its turn comes.

use std::ops::Range;

/// A growing message. What is written stands before what was written earlier, so the fields of a message are
/// written last to first.
#[derive(Debug, Default)]
pub struct Writer {
    /// The message is at the end.
    buffer: Vec<u8>,
    free: usize,
}

impl Writer {
    pub fn with_capacity(capacity: usize) -> Writer {
        Writer { buffer: vec![0; capacity], free: capacity }
    }

    /// The message.
    pub fn as_bytes(&self) -> &[u8] {
        &self.buffer[self.free..]
    }

    /// The number of bytes that have been written.
    pub fn len(&self) -> usize {
        self.buffer.len() - self.free
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes bytes as they are.
    #[inline]
    pub fn raw(&mut self, bytes: &[u8]) {
        let start = self.reserve(bytes.len());
        self.buffer[start..start + bytes.len()].copy_from_slice(bytes);
    }

    /// Writes once more what was written when the length grew from the range's start to its end.
    pub fn repeat(&mut self, lengths: Range<usize>) {
        let start = self.reserve(lengths.len());
        let end = self.buffer.len();
        self.buffer.copy_within(end - lengths.end..end - lengths.start, start);
    }

    /// Makes room before the message; returns where it begins now.
    #[inline]
    fn reserve(&mut self, len: usize) -> usize {
        if self.free < len {
            self.grow(len);
        }
        self.free -= len;
        self.free
    }

    #[cold]
    fn grow(&mut self, len: usize) {
        let written = self.len();
        let capacity = (self.buffer.len() * 2).max(written + len).max(64);
        let mut buffer = vec![0; capacity];
        buffer[capacity - written..].copy_from_slice(self.as_bytes());
        (self.buffer, self.free) = (buffer, capacity - written);
    }

    #[inline]
    pub fn varint(&mut self, value: u64) {
        if value < 0x80 {
            return self.raw(&[value as u8]);
        }
        let mut bytes = [0; 10];
        let mut len = 0;
        let mut rest = value;
        while rest >= 0x80 {
            bytes[len] = rest as u8 | 0x80;
            rest >>= 7;
            len += 1;
        }
        bytes[len] = rest as u8;
        self.raw(&bytes[..=len]);
    }

    #[inline]
    fn tag(&mut self, number: u32, wire_type: u32) {
        self.varint(u64::from(number << 3 | wire_type));
    }

    /// An integer, enum or bool field; signed values of fewer bits are extended by the caller.
    pub fn varint_field(&mut self, number: u32, value: u64) {
        self.varint(value);
        self.tag(number, 0);
    }

    pub fn float_field(&mut self, number: u32, value: f32) {
        self.raw(&value.to_le_bytes());
        self.tag(number, 5);
    }

    /// A `bytes` or `string` field, or a message that has been written elsewhere.
    #[inline]
    pub fn bytes_field(&mut self, number: u32, bytes: &[u8]) {
        self.raw(bytes);
        self.close(number, bytes.len());
    }

    /// A field whose value `write` writes, last part first.
    #[inline]
    pub fn field(&mut self, number: u32, write: impl FnOnce(&mut Writer)) {
        let before = self.len();
        write(self);
        self.close(number, self.len() - before);
    }

    /// As [`Writer::field`], but an empty value is left out.
    pub fn field_unless_empty(&mut self, number: u32, write: impl FnOnce(&mut Writer)) {
        let before = self.len();
        write(self);
        match self.len() - before {
            0 => {}
            len => self.close(number, len),
        }
    }

    #[inline]
    fn close(&mut self, number: u32, len: usize) {
        self.varint(len as u64);
        self.tag(number, 2);
    }

    /// A number in decimal digits, for a text.
    pub fn decimal(&mut self, mut value: u32) {
        loop {
            self.raw(&[b'0' + (value % 10) as u8]);
            value /= 10;
            if value == 0 {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;
    use crate::{AttrValue, NameAttrList, attr_value};

    #[test]
    fn fields_read_as_the_message() {
        let mut writer = Writer::default();
        writer.field(2, |entry| {
            entry.field_unless_empty(2, |value| value.varint_field(3, -3i64 as u64));
            entry.bytes_field(1, b"a");
        });
        writer.field(2, |entry| {
            entry.field_unless_empty(2, |_| {});
            entry.bytes_field(1, &[b'b'; 300]);
        });
        let start = writer.len();
        writer.field(1, |name| {
            [1_000_000, 7, 0].into_iter().for_each(|number| name.decimal(number));
        });
        let int = AttrValue { value: Some(attr_value::Value::I(-3)) };
        let attr = [("a".to_string(), int), ("b".repeat(300), AttrValue::default())];
        let message = NameAttrList { name: "071000000".to_string(), attr: attr.into() };
        assert_eq!(NameAttrList::decode(writer.as_bytes()), Ok(message));

        let written = writer.as_bytes().to_vec();
        writer.repeat(start..writer.len());
        let name = &written[..written.len() - start];
        assert_eq!(writer.as_bytes(), [name, &written].concat());
    }

    #[test]
    fn varints_are_those_of_the_format() {
        for bits in 0..64 {
            for value in [(1 << bits) - 1, 1 << bits] {
                let mut writer = Writer::default();
                writer.varint_field(3, value);
                let message = AttrValue { value: Some(attr_value::Value::I(value as i64)) };
                assert_eq!(writer.as_bytes(), message.encode_to_vec(), "{value}");
            }
        }
    }
}

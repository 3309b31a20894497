//! The wire format, for messages that are read in place: fields borrowed from the bytes they stand in.
//!
//! Graphs are read and written so, as a tree of messages takes longer to make than a graph. What is accepted is
//! what [`crate::decode`] accepts.

use std::fmt;

pub use crate::wire_writer::Writer;

/// How deep unknown groups may be nested.
const MAX_GROUPS: usize = 100;

/// Bytes that are no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("malformed message")
    }
}

impl std::error::Error for Malformed {}

impl From<crate::DecodeError> for Malformed {
    fn from(_: crate::DecodeError) -> Malformed {
        Malformed
    }
}

/// The value of a field.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(&'a [u8]),
    /// An obsolete form, of which no known field is.
    Group,
}

impl<'a> Value<'a> {
    /// Of an integer, enum or bool field; signed ones are cut to their width by the caller.
    pub fn varint(self) -> Result<u64, Malformed> {
        match self {
            Value::Varint(value) => Ok(value),
            _ => Err(Malformed),
        }
    }

    pub fn float(self) -> Result<f32, Malformed> {
        match self {
            Value::Fixed32(bits) => Ok(f32::from_bits(bits)),
            _ => Err(Malformed),
        }
    }

    /// Of a `bytes` or message field.
    pub fn bytes(self) -> Result<&'a [u8], Malformed> {
        match self {
            Value::Bytes(bytes) => Ok(bytes),
            _ => Err(Malformed),
        }
    }

    /// Of a `string` field, which must be UTF-8.
    pub fn text(self) -> Result<&'a str, Malformed> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Malformed)
    }
}

/// The fields of a message, one after the other.
#[derive(Debug, Clone)]
pub struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub fn new(message: &'a [u8]) -> Fields<'a> {
        Fields { rest: message }
    }

    /// The bytes that have not been read.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The number and the value of the next field; `None` at the end.
    ///
    /// # Errors
    /// [`Malformed`] if what follows is no field.
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "`?` reads better on a Result of an Option")]
    pub fn next(&mut self) -> Result<Option<(u32, Value<'a>)>, Malformed> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let (number, wire_type) = self.tag()?;
        let value = match wire_type {
            0 => Value::Varint(self.varint()?),
            1 => Value::Fixed64(u64::from_le_bytes(self.take_array()?)),
            2 => {
                let len = usize::try_from(self.varint()?).map_err(|_| Malformed)?;
                Value::Bytes(self.take(len)?)
            }
            3 => {
                self.skip_group(number)?;
                Value::Group
            }
            5 => Value::Fixed32(u32::from_le_bytes(self.take_array()?)),
            _ => return Err(Malformed),
        };
        Ok(Some((number, value)))
    }

    /// The number of a field and the form of its value.
    #[inline]
    fn tag(&mut self) -> Result<(u32, u32), Malformed> {
        let tag = u32::try_from(self.varint()?).map_err(|_| Malformed)?;
        match tag >> 3 {
            0 => Err(Malformed),
            number => Ok((number, tag & 7)),
        }
    }

    #[inline]
    fn varint(&mut self) -> Result<u64, Malformed> {
        match self.rest {
            [byte, rest @ ..] if *byte < 0x80 => {
                self.rest = rest;
                Ok(u64::from(*byte))
            }
            _ => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0;
        for (index, &byte) in self.rest.iter().take(10).enumerate() {
            // Of the tenth byte, one bit fits.
            if index == 9 && byte > 1 {
                return Err(Malformed);
            }
            value |= u64::from(byte & 0x7f) << (7 * index);
            if byte < 0x80 {
                self.rest = &self.rest[index + 1..];
                return Ok(value);
            }
        }
        Err(Malformed)
    }

    #[inline]
    fn take(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(Malformed)?;
        self.rest = rest;
        Ok(taken)
    }

    fn take_array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(Malformed)?;
        self.rest = rest;
        Ok(*taken)
    }

    /// Goes behind the end of a group whose beginning has been read.
    fn skip_group(&mut self, number: u32) -> Result<(), Malformed> {
        let mut open = vec![number];
        while let Some(&innermost) = open.last() {
            let (number, wire_type) = self.tag()?;
            match wire_type {
                0 => drop(self.varint()?),
                1 => drop(self.take(8)?),
                2 => {
                    let len = usize::try_from(self.varint()?).map_err(|_| Malformed)?;
                    self.take(len)?;
                }
                3 if open.len() < MAX_GROUPS => open.push(number),
                4 if number == innermost => drop(open.pop()),
                5 => drop(self.take(4)?),
                _ => return Err(Malformed),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;
    use crate::{AttrValue, NodeDef, TensorProto, attr_value};

    fn all(bytes: &[u8]) -> Result<Vec<(u32, Value<'_>)>, Malformed> {
        let mut fields = Fields::new(bytes);
        let mut list = Vec::new();
        while let Some(field) = fields.next()? {
            list.push(field);
        }
        Ok(list)
    }

    #[test]
    fn fields_are_those_of_the_message() {
        let tensor = TensorProto { dtype: 3, version_number: -1, ..Default::default() };
        let value = attr_value::Value::Tensor(Box::new(tensor.clone()));
        let attr = AttrValue { value: Some(value) }.encode_to_vec();
        assert_eq!(all(&attr), Ok(vec![(8, Value::Bytes(&tensor.encode_to_vec()))]));
        let fields = [(1, Value::Varint(3)), (3, Value::Varint(-1i64 as u64))];
        assert_eq!(all(&tensor.encode_to_vec()).unwrap(), fields);
        let float = AttrValue { value: Some(attr_value::Value::F(0.5)) }.encode_to_vec();
        assert_eq!(all(&float).unwrap()[0].1.float(), Ok(0.5));
    }

    #[test]
    fn what_prost_refuses_is_malformed() {
        let cases: &[(&[u8], bool)] = &[
            (b"", true),
            (&[0x08, 0x96, 0x01], true),
            (&[0x08], false),
            (&[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01], true),
            (&[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02], false),
            (&[0x08, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01], false),
            // A length beyond the end, and one beyond everything.
            (&[0xa2, 0x06, 3, 1, 2], false),
            (&[0xa2, 0x06, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01], false),
            // Field 0, forms that there are not, and a number that is none.
            (&[0x02, 0], false),
            (&[0x0e, 0], false),
            (&[0x0f, 0], false),
            (&[0xf8, 0xff, 0xff, 0xff, 0x7f, 0], false),
            // Numbers of eight and of four bytes.
            (&[0xa1, 0x06, 1, 2, 3, 4, 5, 6, 7, 8], true),
            (&[0xa1, 0x06, 1, 2, 3, 4, 5, 6, 7], false),
            (&[0xa5, 0x06, 1, 2, 3, 4], true),
            (&[0xa5, 0x06, 1, 2, 3], false),
            // Groups: closed, within one another, with something in them, open, closed twice, wrongly.
            (&[0xa3, 0x06, 0xa4, 0x06], true),
            (&[0xa3, 0x06, 0xab, 0x06, 0x08, 1, 0xac, 0x06, 0xa4, 0x06], true),
            (&[0xa3, 0x06], false),
            (&[0xa4, 0x06], false),
            (&[0xa3, 0x06, 0xac, 0x06], false),
        ];
        for (bytes, accepted) in cases {
            // As unknown fields; field 1 is known to neither.
            let own = all(bytes).is_ok();
            assert_eq!(own, *accepted, "{bytes:02x?}");
            let first = bytes.first().is_some_and(|byte| *byte != 0x08);
            assert!(!first || NodeDef::decode(*bytes).is_ok() == own, "{bytes:02x?}");
        }
        let mut deep = [0xa3, 0x06].repeat(10_000);
        deep.extend([0xa4, 0x06].repeat(10_000));
        assert_eq!(all(&deep), Err(Malformed));
    }
}

//! Summaries as bytes: the fields of the few messages that they are made of.

/// A message that is being written.
#[derive(Default)]
pub(crate) struct Message(pub(crate) Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn key(&mut self, field: u32, wire_type: u32) {
        self.varint(u64::from(field << 3 | wire_type));
    }

    /// An integer; nothing for 0.
    pub(crate) fn int(&mut self, field: u32, value: i64) {
        if value != 0 {
            self.key(field, 0);
            self.varint(value as u64);
        }
    }

    /// A double; nothing for +0.
    pub(crate) fn double(&mut self, field: u32, value: f64) {
        if value.to_bits() != 0 {
            self.key(field, 1);
            self.0.extend(value.to_le_bytes());
        }
    }

    /// A float, whatever its value: a member of a oneof.
    pub(crate) fn float_set(&mut self, field: u32, value: f32) {
        self.key(field, 5);
        self.0.extend(value.to_le_bytes());
    }

    /// A float; nothing for +0.
    pub(crate) fn float(&mut self, field: u32, value: f32) {
        if value.to_bits() != 0 {
            self.float_set(field, value);
        }
    }

    /// Bytes, a string or a message, whatever its length.
    pub(crate) fn bytes_set(&mut self, field: u32, bytes: &[u8]) {
        self.key(field, 2);
        self.varint(bytes.len() as u64);
        self.0.extend(bytes);
    }

    /// Bytes or a string; nothing if it is empty.
    pub(crate) fn bytes(&mut self, field: u32, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.bytes_set(field, bytes);
        }
    }

    /// Packed doubles.
    pub(crate) fn doubles(&mut self, field: u32, values: &[f64]) {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.bytes(field, &bytes);
    }
}

/// The fields of a message: number and, for strings, bytes and messages, the content. `None` if the bytes are no message.
pub(crate) fn fields(mut bytes: &[u8]) -> Option<Vec<(u32, &[u8])>> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes)?;
        let content = match key & 7 {
            0 => {
                varint(&mut bytes)?;
                &[][..]
            }
            1 => take(&mut bytes, 8)?,
            2 => {
                let len = varint(&mut bytes)?;
                take(&mut bytes, usize::try_from(len).ok()?)?
            }
            5 => take(&mut bytes, 4)?,
            _ => return None,
        };
        fields.push((u32::try_from(key >> 3).ok().filter(|&number| number > 0)?, content));
    }
    Some(fields)
}

/// The last value of an integer field; 0 if there is none. `None` if the bytes are no message.
pub(crate) fn int_field(mut bytes: &[u8], number: u64) -> Option<u64> {
    let mut found = 0;
    while !bytes.is_empty() {
        let key = varint(&mut bytes)?;
        match key & 7 {
            0 => {
                let value = varint(&mut bytes)?;
                if key >> 3 == number {
                    found = value;
                }
            }
            1 => {
                take(&mut bytes, 8)?;
            }
            2 => {
                let len = varint(&mut bytes)?;
                take(&mut bytes, usize::try_from(len).ok()?)?;
            }
            5 => {
                take(&mut bytes, 4)?;
            }
            _ => return None,
        }
    }
    Some(found)
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..70).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

fn take<'a>(bytes: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut message = Message::default();
        message.bytes(1, b"tag");
        message.float_set(2, 1.5);
        message.int(3, 300);
        message.double(4, 0.0);
        let found = fields(&message.0).unwrap();
        assert_eq!(found.iter().map(|field| field.0).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(found[0].1, b"tag");
        for len in [1, 3, 7] {
            assert!(fields(&message.0[..len]).is_none(), "{len}");
        }
        assert!(fields(&[0xff; 20]).is_none());
    }
}

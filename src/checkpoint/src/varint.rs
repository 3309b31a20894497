//! Variable-length integers of tables and string tensors.

/// Takes a varint off the front of `bytes`. `None` if it is cut or has more than 64 bits.
pub(crate) fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for (index, &byte) in bytes.iter().enumerate().take(10) {
        let part = u64::from(byte & 0x7f);
        if index == 9 && part > 1 {
            return None;
        }
        value |= part << (7 * index);
        if byte < 0x80 {
            *bytes = &bytes[index + 1..];
            return Some(value);
        }
    }
    None
}

/// As [`take`], for a length or position in memory.
pub(crate) fn take_len(bytes: &mut &[u8]) -> Option<usize> {
    usize::try_from(take(bytes)?).ok()
}

pub(crate) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_come_back() {
        for value in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX] {
            let mut bytes = Vec::new();
            put(&mut bytes, value);
            assert_eq!(take(&mut &bytes[..]), Some(value));
            assert_eq!(take(&mut &bytes[..bytes.len() - 1]), None, "{value}");
        }
        assert_eq!(take(&mut &[0xff; 10][..]), None);
        assert_eq!(take(&mut &[0x80; 11][..]), None);
    }
}

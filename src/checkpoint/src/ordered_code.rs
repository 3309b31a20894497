//! Names of slices as table keys that sort like the slices.

use crate::slice::TensorSlice;

/// The key of a slice of the tensor `name`. Keys of slices begin with a zero byte, so that they sort before names.
pub(crate) fn slice_key(name: &[u8], slice: &TensorSlice) -> Vec<u8> {
    let mut key = Vec::new();
    put_number(&mut key, 0);
    put_string(&mut key, name);
    put_number(&mut key, slice.rank() as u64);
    for axis in 0..slice.rank() {
        let (start, len) = slice.extent(axis).unwrap_or((0, -1));
        put_signed(&mut key, start);
        put_signed(&mut key, len);
    }
    key
}

/// The number of significant bytes, then the bytes, most significant first.
fn put_number(out: &mut Vec<u8>, value: u64) {
    let bytes = value.to_be_bytes();
    let skipped = (value.leading_zeros() / 8) as usize;
    out.push((bytes.len() - skipped) as u8);
    out.extend_from_slice(&bytes[skipped..]);
}

/// The bytes with 0 and 255 escaped, and an end that sorts before any byte.
fn put_string(out: &mut Vec<u8>, text: &[u8]) {
    for &byte in text {
        match byte {
            0x00 => out.extend_from_slice(&[0x00, 0xff]),
            0xff => out.extend_from_slice(&[0xff, 0x00]),
            _ => out.push(byte),
        }
    }
    out.extend_from_slice(&[0x00, 0x01]);
}

/// A signed number: as many leading ones as the encoding has bytes, a zero, and the value in two's complement below;
/// all of it inverted for negative values.
fn put_signed(out: &mut Vec<u8>, value: i64) {
    let magnitude = if value < 0 { !value } else { value };
    // One bit for the sign; six of each eight bits of the first byte and seven of each further one are payload.
    let bits = 65 - magnitude.leading_zeros();
    let len = (bits as usize).div_ceil(7).clamp(1, 10);
    // Sign extension to ten bytes, of which the last `len` are written.
    let mut bytes = [if value < 0 { 0xff } else { 0 }; 10];
    bytes[2..].copy_from_slice(&value.to_be_bytes());
    let bytes = &mut bytes[10 - len..];
    let header: u16 = !(0xffff >> len);
    let [high, low] = header.to_be_bytes();
    bytes[0] ^= high;
    if let Some(second) = bytes.get_mut(1) {
        *second ^= low;
    }
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys found in checkpoints that TensorFlow wrote.
    #[test]
    fn keys_are_those_of_tensorflow() {
        let slice = |text: &str| TensorSlice::parse(text).unwrap();
        let cases: [(&[u8], &str, &[u8]); 4] = [
            (b"x", "0,1:-", b"\x00x\x00\x01\x01\x02\x80\x81\x80\x7f"),
            (b"x", "1,1:-", b"\x00x\x00\x01\x01\x02\x81\x81\x80\x7f"),
            (b"s", "-", b"\x00s\x00\x01\x01\x01\x80\x7f"),
            (b"y", "", b"\x00y\x00\x01\x00"),
        ];
        for (name, text, expected) in cases {
            assert_eq!(slice_key(name, &slice(text)), expected, "{text}");
        }
    }

    #[test]
    fn signed_numbers_sort_by_value() {
        let values = [
            i64::MIN,
            -(1 << 40),
            -8193,
            -8192,
            -65,
            -64,
            -1,
            0,
            1,
            63,
            64,
            8191,
            8192,
            1 << 20,
            1 << 34,
            1 << 41,
            1 << 48,
            1 << 55,
            i64::MAX - 1,
            i64::MAX,
        ];
        let keys: Vec<Vec<u8>> = values
            .iter()
            .map(|&value| {
                let mut key = Vec::new();
                put_signed(&mut key, value);
                key
            })
            .collect();
        assert!(keys.windows(2).all(|pair| pair[0] < pair[1]), "{keys:x?}");
        assert_eq!(keys[9], [0xbf]);
        assert_eq!(keys[10], [0xc0, 0x40]);
        assert_eq!(keys[5], [0x40]);
        assert_eq!(keys[4], [0x3f, 0xbf]);
    }
}

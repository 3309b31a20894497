//! String tensors in data files: all lengths as varints, their masked checksum, then all bytes.

use tfcore_base::{Result, data_loss};
use tfcore_tensor::TString;

use crate::checksum::{mask, unmask};
use crate::varint::{put, take};

/// The checksum of lengths, each as a number of 32 bits, or of 64 if it does not fit.
fn add_length(crc: u32, len: u64, swap: bool) -> u32 {
    match u32::try_from(len) {
        Ok(len) => {
            let len = if swap { len.swap_bytes() } else { len };
            crc32c::crc32c_append(crc, &len.to_le_bytes())
        }
        Err(_) => {
            let len = if swap { len.swap_bytes() } else { len };
            crc32c::crc32c_append(crc, &len.to_le_bytes())
        }
    }
}

/// The bytes of strings in a data file, and their checksum.
pub(crate) fn encode(strings: &[TString]) -> (Vec<u8>, u32) {
    let total: usize = strings.iter().map(|text| text.len() + 2).sum();
    let mut out = Vec::with_capacity(total + 4);
    let mut crc = 0;
    for text in strings {
        put(&mut out, text.len() as u64);
        crc = add_length(crc, text.len() as u64, false);
    }
    let lengths = mask(crc).to_le_bytes();
    out.extend_from_slice(&lengths);
    crc = crc32c::crc32c_append(crc, &lengths);
    for text in strings {
        out.extend_from_slice(text.as_bytes());
        crc = crc32c::crc32c_append(crc, text.as_bytes());
    }
    (out, crc)
}

/// Sets `out` to the strings that `bytes` hold; `swap` if a machine of the other byte order wrote them. Returns the
/// checksum.
///
/// # Errors
/// `DataLoss` if the bytes do not hold so many strings.
pub(crate) fn decode(bytes: &[u8], out: &mut [TString], swap: bool) -> Result<u32> {
    let too_short = || data_loss!("String lengths longer than expected offset {}", bytes.len());
    let mut rest = bytes;
    let mut crc = 0;
    for _ in 0..out.len() {
        crc = add_length(crc, take(&mut rest).ok_or_else(too_short)?, swap);
    }
    let lengths = &bytes[..bytes.len() - rest.len()];
    let (stored, mut rest) = rest.split_first_chunk::<4>().ok_or_else(too_short)?;
    let checksum = u32::from_le_bytes(*stored);
    let expected = unmask(if swap { checksum.swap_bytes() } else { checksum });
    if expected != crc {
        return Err(data_loss!(
            "The length checksum does not match: expected {expected:08} but actual is {crc:08}"
        ));
    }
    crc = crc32c::crc32c_append(crc, stored);
    let mut lengths = lengths;
    for text in out {
        let len =
            take(&mut lengths).and_then(|len| usize::try_from(len).ok()).ok_or_else(too_short)?;
        let (head, tail) = rest.split_at_checked(len).ok_or_else(too_short)?;
        crc = crc32c::crc32c_append(crc, head);
        text.assign(head);
        rest = tail;
    }
    if !rest.is_empty() {
        return Err(data_loss!("{} bytes behind the last string", rest.len()));
    }
    Ok(crc)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes that TensorFlow writes for `["hello", "", 300 * "w"]`.
    #[test]
    fn strings_are_stored_as_tensorflow_stores_them() {
        let long = "w".repeat(300);
        let strings = ["hello", "", &long].map(TString::from);
        let (bytes, crc) = encode(&strings);
        assert_eq!(bytes[..4], [5, 0, 0xac, 0x02]);
        assert_eq!(bytes[8..13], *b"hello");
        assert_eq!(bytes.len(), 313);
        assert_eq!(mask(crc), 0xa266_9b40);
        let mut out = [const { TString::new() }; 3];
        assert_eq!(decode(&bytes, &mut out, false).unwrap(), crc);
        assert_eq!(out, strings);
        for len in 0..bytes.len() {
            assert!(decode(&bytes[..len], &mut out, false).is_err(), "{len}");
        }
        assert!(decode(&[&bytes[..], b"x"].concat(), &mut out, false).is_err());
    }
}

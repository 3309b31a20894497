//! Masked CRC32C checksums.

/// Added to the rotated checksum, so that the checksum of bytes that hold checksums stays a good one.
const MASK_DELTA: u32 = 0xa282_ead8;

/// A checksum as files store it.
pub fn mask(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(MASK_DELTA)
}

/// The checksum that a file stores as `masked`.
pub fn unmask(masked: u32) -> u32 {
    masked.wrapping_sub(MASK_DELTA).rotate_left(15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_reversible() {
        for crc in [0, 1, 0xffff_ffff, 0x1234_5678] {
            assert_eq!(unmask(mask(crc)), crc);
        }
        // The checksum of nothing, masked.
        assert_eq!(mask(0), 0xa282_ead8);
        // From RFC 3720, B.4.
        assert_eq!(crc32c::crc32c(&[0; 32]), 0x8a91_36aa);
    }
}

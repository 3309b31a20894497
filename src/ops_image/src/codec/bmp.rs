//! BMP, without compression or palette.

use tfcore_base::{Result, invalid, require};

use super::{Picture, Pixels, check_size};

/// The picture with so many channels (0: as many as the file has).
pub(super) fn decode(bytes: &[u8], channels: usize) -> Result<Picture> {
    require!(
        bytes.len() >= 32,
        "Incomplete bmp content, requires at least 32 bytes to find the header size, width, height, and bpp, got {} bytes",
        bytes.len()
    );
    let word =
        |at: usize| i32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let (header, width, height) = (word(10), word(18), word(22));
    let bits = i16::from_le_bytes([bytes[28], bytes[29]]);
    require!(width > 0, "Width must be positive");
    require!(height != 0 && height != i32::MIN, "Height must be nonzero");
    require!(header >= 0, "header size must be nonnegative");
    let rows = height.unsigned_abs();
    let bytes_claimed = (width as u64 * u64::from(rows)).saturating_mul(4);
    require!(bytes_claimed < 1 << 32, "Total possible pixel bytes must be less than 2^30");
    check_size("BMP", width as u64, rows.into())?;
    let found = match bits {
        8 => 1,
        24 => 3,
        32 => 4,
        other => {
            return Err(invalid!(
                "Number of channels inherent in the image must be 1, 3 or 4, was {}",
                other / 8
            ));
        }
    };
    require!(
        matches!(channels, 0 | 3 | 4),
        "`channels` must be 0, 3 or 4 for BMP, but got {channels}"
    );
    let channels = if channels == 0 { found } else { channels };
    let (width, rows) = (width as usize, rows as usize);
    // Rows are padded to four bytes.
    let row_len = (width * found).next_multiple_of(4);
    let expected = header as i64 + row_len as i64 * rows as i64;
    require!(
        expected == bytes.len() as i64,
        "Input size should match (header_size + row_size * abs_height) but they differ by {}",
        bytes.len() as i64 - expected
    );
    let data = &bytes[header as usize..];
    let mut pixels = Vec::with_capacity(rows * width * channels);
    for row in 0..rows {
        // A negative height means that the first row is the top one.
        let at = if height < 0 { row } else { rows - 1 - row } * row_len;
        for pixel in data[at..at + width * found].chunks_exact(found) {
            let (colours, alpha) = match *pixel {
                [grey] => ([grey; 3], 255),
                [blue, green, red] => ([red, green, blue], 255),
                [blue, green, red, alpha] => ([red, green, blue], alpha),
                _ => continue,
            };
            pixels.extend(&colours[..channels.min(3)]);
            if channels == 4 {
                pixels.push(alpha);
            }
        }
    }
    Ok(Picture { height: rows, width, channels, pixels: Pixels::Narrow(pixels) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(width: i32, height: i32, bits: u16, data: &[u8]) -> Vec<u8> {
        let mut file = vec![0; 54];
        file[0..2].copy_from_slice(b"BM");
        file[10..14].copy_from_slice(&54i32.to_le_bytes());
        file[18..22].copy_from_slice(&width.to_le_bytes());
        file[22..26].copy_from_slice(&height.to_le_bytes());
        file[28..30].copy_from_slice(&bits.to_le_bytes());
        file.extend(data);
        file
    }

    #[test]
    fn rows_are_turned_and_colours_swapped() {
        let data = [1, 2, 3, 0, 4, 5, 6, 0];
        for (height, expected) in [(2, [6, 5, 4, 3, 2, 1]), (-2, [3, 2, 1, 6, 5, 4])] {
            let picture = decode(&file(1, height, 24, &data), 0).unwrap();
            assert!(matches!(picture.pixels, Pixels::Narrow(pixels) if pixels == expected));
        }
    }

    #[test]
    fn claims_are_checked() {
        let whole = file(2, 2, 32, &[0; 16]);
        for len in 0..whole.len() {
            assert!(decode(&whole[..len], 0).is_err(), "{len}");
        }
        for (width, height) in [(i32::MAX, i32::MAX), (0, 1), (1, 0), (-1, 1), (1, i32::MIN)] {
            assert!(decode(&file(width, height, 24, &[0; 16]), 0).is_err());
        }
        for at in 0..whole.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut damaged = whole.clone();
                damaged[at] = value;
                let _ = decode(&damaged, 0);
            }
        }
    }
}

//! PNG.

use std::io::Cursor;

use png::{BitDepth, ColorType, Compression, Decoder, Encoder, Limits, Transformations};
use tfcore_base::{Result, invalid, try_filled};

use super::{Picture, Pixels, check_size};

/// The picture with so many channels (0: as many as the file has), in 16 bits if `wide` and the file has them.
pub(super) fn decode(bytes: &[u8], channels: usize, wide: bool) -> Result<Picture> {
    let failed = || invalid!("Invalid PNG. Failed to initialize decoder.");
    let mut decoder = Decoder::new_with_limits(Cursor::new(bytes), Limits { bytes: 1 << 31 });
    decoder.set_transformations(Transformations::EXPAND);
    let mut reader = decoder.read_info().map_err(|_| failed())?;
    let info = reader.info();
    let (width, height) = (info.width, info.height);
    check_size("PNG", width.into(), height.into())?;
    let own_channels = match (info.color_type, info.trns.is_some()) {
        (ColorType::Grayscale, _) => 1,
        (ColorType::GrayscaleAlpha, _) => 2,
        (ColorType::Rgb, _) | (ColorType::Indexed, false) => 3,
        (ColorType::Rgba, _) | (ColorType::Indexed, true) => 4,
    };
    let channels = if channels == 0 { own_channels } else { channels };
    let size = reader.output_buffer_size().ok_or_else(failed)?;
    // A row of the file takes at least a byte for a thousand pixels, however well it is compressed.
    if size as u64 / 4096 > bytes.len() as u64 * 64 {
        return Err(invalid!("Invalid PNG data, size {}", bytes.len()));
    }
    let mut buffer = try_filled(0u8, size)?;
    let frame = reader
        .next_frame(&mut buffer)
        .map_err(|_| invalid!("Invalid PNG data, size {}", bytes.len()))?;
    let found = frame.color_type.samples();
    let pixels = match frame.bit_depth {
        BitDepth::Sixteen => {
            let words = buffer.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
            if wide {
                let words: Vec<u16> = words.collect();
                Pixels::Wide(convert(&words, found, channels, u16::MAX, 1 << 14))
            } else {
                // The low byte is cut off before colours are mixed.
                let bytes: Vec<u8> = words.map(|word| (word >> 8) as u8).collect();
                Pixels::Narrow(convert(&bytes, found, channels, u8::MAX, 0))
            }
        }
        _ => Pixels::Narrow(convert(&buffer, found, channels, u8::MAX, 0)),
    };
    Ok(Picture { height: height as usize, width: width as usize, channels, pixels })
}

/// Pixels of `from` channels as ones of `to`. Grey is 0.299 of red, 0.587 of green and the rest of blue, as libpng sums
/// them up: 8 bits are cut off, 16 rounded.
fn convert<T>(pixels: &[T], from: usize, to: usize, opaque: T, rounding: u64) -> Vec<T>
where
    T: Copy + PartialEq + Into<u64> + TryFrom<u64>,
{
    const RED: u64 = 9798;
    const GREEN: u64 = 19_235;
    const BLUE: u64 = 32768 - RED - GREEN;
    let mut out = Vec::with_capacity(pixels.len() / from * to);
    for pixel in pixels.chunks_exact(from) {
        let alpha = if from.is_multiple_of(2) { pixel[from - 1] } else { opaque };
        let colours = if from < 3 { [pixel[0]; 3] } else { [pixel[0], pixel[1], pixel[2]] };
        if to < 3 {
            let [red, green, blue] = colours;
            let grey = match red == green && red == blue {
                true => red,
                false => {
                    let sum = RED * red.into() + GREEN * green.into() + BLUE * blue.into();
                    T::try_from((sum + rounding) >> 15).unwrap_or(opaque)
                }
            };
            out.push(grey);
        } else {
            out.extend(colours);
        }
        if to.is_multiple_of(2) {
            out.push(alpha);
        }
    }
    out
}

/// `None` if the picture cannot be encoded.
pub(super) fn encode(
    bytes: &[u8],
    width: usize,
    height: usize,
    channels: usize,
    is_wide: bool,
    compression: i64,
) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut encoder =
        Encoder::new(&mut out, u32::try_from(width).ok()?, u32::try_from(height).ok()?);
    encoder.set_color(match channels {
        1 => ColorType::Grayscale,
        2 => ColorType::GrayscaleAlpha,
        3 => ColorType::Rgb,
        _ => ColorType::Rgba,
    });
    encoder.set_depth(if is_wide { BitDepth::Sixteen } else { BitDepth::Eight });
    encoder.set_compression(match compression {
        0 => Compression::NoCompression,
        1..=3 => Compression::Fast,
        7..=9 => Compression::High,
        _ => Compression::Balanced,
    });
    let mut writer = encoder.write_header().ok()?;
    writer.write_image_data(bytes).ok()?;
    writer.finish().ok()?;
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_come_back() {
        for (channels, is_wide) in [(1, false), (2, false), (3, true), (4, false)] {
            let width = if is_wide { 2 } else { 1 };
            let bytes: Vec<u8> = (0..3 * 2 * channels * width).map(|i| (i * 7) as u8).collect();
            let file = encode(&bytes, 3, 2, channels, is_wide, -1).unwrap();
            let picture = decode(&file, 0, true).unwrap();
            assert_eq!((picture.width, picture.height, picture.channels), (3, 2, channels));
            match picture.pixels {
                Pixels::Narrow(pixels) => assert_eq!(pixels, bytes),
                Pixels::Wide(pixels) => {
                    let back: Vec<u8> = pixels.iter().flat_map(|v| v.to_be_bytes()).collect();
                    assert_eq!(back, bytes);
                }
            }
        }
    }

    #[test]
    fn channels_are_converted() {
        let pixels = [10u8, 20, 30, 40];
        assert_eq!(convert(&pixels, 4, 3, 255, 0), [10, 20, 30]);
        // 2.99 + 11.74 + 3.42
        assert_eq!(convert(&pixels, 4, 1, 255, 0), [18]);
        assert_eq!(convert(&pixels, 1, 4, 255, 0)[..4], [10, 10, 10, 255]);
        assert_eq!(convert(&pixels[..2], 2, 3, 255, 0), [10, 10, 10]);
    }

    #[test]
    fn damaged_files_do_not_panic() {
        let bytes: Vec<u8> = (0..48).collect();
        let file = encode(&bytes, 4, 4, 3, false, -1).unwrap();
        for len in 0..file.len() {
            let _ = decode(&file[..len], 0, false);
        }
        for at in 0..file.len() {
            for flip in [1, 0x80, 0xff] {
                let mut damaged = file.clone();
                damaged[at] ^= flip;
                let _ = decode(&damaged, 3, true);
            }
        }
    }
}

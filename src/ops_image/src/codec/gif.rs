//! GIF, with all frames.

use gif::{ColorOutput, DecodeOptions, MemoryLimit};
use tfcore_base::{Result, invalid, require, try_filled};

use super::{Picture, Pixels, check_size};

/// The frames, one below the other, and their number; only the first unless `all`.
pub(super) fn decode(bytes: &[u8], all: bool) -> Result<(Picture, usize)> {
    let mut options = DecodeOptions::new();
    options.set_color_output(ColorOutput::Indexed);
    options.set_memory_limit(MemoryLimit::Bytes(std::num::NonZeroU64::MIN.saturating_add(1 << 30)));
    let mut decoder = options
        .read_info(bytes)
        .map_err(|_| invalid!("failed to open gif file: No screen descriptor detected"))?;
    let (width, height) = (usize::from(decoder.width()), usize::from(decoder.height()));
    check_size("GIF", width as u64, height as u64)?;
    let global = decoder.global_palette().map(<[u8]>::to_vec);
    let frame_len = width * height * 3;
    let mut pixels: Vec<u8> = Vec::new();
    let mut frames = 0;
    loop {
        let frame = match decoder.read_next_frame() {
            Ok(Some(frame)) => frame,
            Ok(None) => break,
            // A file that ends early keeps its whole frames.
            Err(_) if frames > 0 => break,
            Err(_) => return Err(invalid!("failed to slurp gif file: image is damaged")),
        };
        let Some(palette) = frame.palette.as_ref().or(global.as_ref()) else {
            return Err(invalid!("missing color map for frame {frames}"));
        };
        // A frame begins as the one before, the first one black.
        let mut canvas = match frames {
            0 => try_filled(0u8, frame_len)?,
            _ => pixels[pixels.len() - frame_len..].to_vec(),
        };
        let (left, top) = (usize::from(frame.left), usize::from(frame.top));
        let row_len = usize::from(frame.width).max(1);
        for (row, indices) in frame.buffer.chunks(row_len).enumerate() {
            for (col, &index) in indices.iter().enumerate() {
                let (x, y) = (left + col, top + row);
                if x >= width || y >= height || frame.transparent == Some(index) {
                    continue;
                }
                let at = usize::from(index) * 3;
                let Some(colour) = palette.get(at..at + 3) else {
                    return Err(invalid!("found color index {index} outside of color map range"));
                };
                let to = (y * width + x) * 3;
                canvas[to..to + 3].copy_from_slice(colour);
            }
        }
        pixels.extend(canvas);
        frames += 1;
        require!(
            pixels.len() < 1 << 31,
            "GIF size too large for int: {frames} frames of {width} by {height}"
        );
        if !all {
            break;
        }
    }
    require!(frames > 0, "gif file does not contain any image");
    let picture =
        Picture { height: frames * height, width, channels: 3, pixels: Pixels::Narrow(pixels) };
    Ok((picture, frames))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_files_do_not_panic() {
        let mut file = vec![];
        let palette = [1, 2, 3, 4, 5, 6];
        let mut encoder = gif::Encoder::new(&mut file, 2, 1, &palette).unwrap();
        for indices in [[0, 1], [1, 1]] {
            let mut frame = gif::Frame::default();
            (frame.width, frame.height) = (2, 1);
            frame.buffer = indices.to_vec().into();
            encoder.write_frame(&frame).unwrap();
        }
        drop(encoder);
        let (picture, frames) = decode(&file, true).unwrap();
        assert_eq!((frames, picture.height, picture.width), (2, 2, 2));
        let expected = [1, 2, 3, 4, 5, 6, 4, 5, 6, 4, 5, 6];
        assert!(matches!(picture.pixels, Pixels::Narrow(pixels) if pixels == expected));
        for len in 0..file.len() {
            let _ = decode(&file[..len], true);
        }
        for at in 0..file.len() {
            for flip in [1, 0x80, 0xff] {
                let mut damaged = file.clone();
                damaged[at] ^= flip;
                let _ = decode(&damaged, true);
            }
        }
    }
}

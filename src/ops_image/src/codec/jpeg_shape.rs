//! `ExtractJpegShape`: the size that a JPEG file claims, without decoding it.

use tfcore_base::{DType, invalid, require};
use tfcore_framework::{Registry, shape_ops};
use tfcore_tensor::{PartialShape, Shape, TString, Tensor};

pub(super) fn register(r: &mut Registry) {
    // `ExtractJpegShape(contents: string) -> image_shape: output_type`: height, width, channels.
    r.op("ExtractJpegShape")
        .shape(|ctx| {
            shape_ops::with_rank(ctx.input(0), 0)?;
            ctx.set_output(0, PartialShape::vector(3));
            Ok(())
        })
        .compute(|ctx| {
            let contents = ctx.input(0)?;
            require!(
                contents.rank() == 0,
                "contents must be scalar, got shape {}",
                contents.shape()
            );
            let contents = contents.scalar_value::<TString>()?;
            let bytes = contents.as_bytes();
            let size = frame_size(bytes)
                .ok_or_else(|| invalid!("Invalid JPEG data, size {}", bytes.len()))?;
            let shape = Shape::vector(3);
            ctx.set_output(
                0,
                match ctx.output_dtype(0) {
                    DType::INT64 => Tensor::from_slice(shape, &size.map(i64::from))?,
                    _ => Tensor::from_slice(shape, &size.map(i32::from))?,
                },
            );
            Ok(())
        });
}

/// Height, width and channels, from the first frame header; `None` for data without one.
fn frame_size(bytes: &[u8]) -> Option<[u16; 3]> {
    let mut rest = bytes.strip_prefix(b"\xff\xd8")?;
    loop {
        // Markers may be preceded by any number of fill bytes.
        let marker = rest.iter().position(|&byte| byte != 0xff).filter(|&at| at > 0)?;
        let kind = rest[marker];
        rest = &rest[marker + 1..];
        match kind {
            // Markers without a segment.
            0x01 | 0xd0..=0xd7 => continue,
            0xd8..=0xda => return None,
            _ => {}
        }
        let len = usize::from(u16::from_be_bytes([*rest.first()?, *rest.get(1)?]));
        let segment = rest.get(2..len.max(2))?;
        let is_frame = matches!(kind, 0xc0..=0xcf) && !matches!(kind, 0xc4 | 0xc8 | 0xcc);
        if is_frame {
            let &[_, h1, h0, w1, w0, channels, ..] = segment else {
                return None;
            };
            let (height, width) = (u16::from_be_bytes([h1, h0]), u16::from_be_bytes([w1, w0]));
            let is_empty = height == 0 || width == 0 || channels == 0;
            return (!is_empty).then_some([height, width, channels.into()]);
        }
        rest = &rest[len.max(2)..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_stand_in_the_frame_header() {
        let mut file = b"\xff\xd8\xff\xe0\x00\x04ab\xff\xff\xc2\x00\x0b\x08".to_vec();
        file.extend([0, 9, 1, 2, 3, 0, 0, 0]);
        assert_eq!(frame_size(&file), Some([9, 258, 3]));
        for len in 0..file.len() - 3 {
            assert_eq!(frame_size(&file[..len]), None, "{len}");
        }
        for at in 0..file.len() {
            for value in [0, 1, 0xd9, 0xff] {
                let mut damaged = file.clone();
                damaged[at] = value;
                let _ = frame_size(&damaged);
            }
        }
    }
}

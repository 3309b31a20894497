//! Encoded pictures: `DecodePng`, `DecodeJpeg` and their relatives, `EncodePng`, `EncodeJpegVariableQuality`.
//!
//! JPEG XL and WebP are recognised and refused by name.

mod bmp;
mod gif;
mod jpeg;
mod jpeg_shape;
mod png;

use tfcore_base::{Code, DType, Error, Result, invalid, require, unimplemented_error};
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_ops,
};
use tfcore_tensor::{Dim, PartialShape, Shape, TString, Tensor};

pub(crate) fn register(r: &mut Registry) {
    jpeg_shape::register(r);
    // `DecodePng(contents: string; channels, dtype) -> image: dtype`, `[height, width, channels]`; `DecodeBmp`, `DecodeGif`
    // (`[frames, height, width, 3]`) and `DecodeImage` likewise. Each decodes any of the formats.
    r.op("DecodePng").shape(image_shape).cpu(|init| decode(init, Wanted::Png));
    r.op("DecodeBmp").shape(image_shape).cpu(|init| decode(init, Wanted::Bmp));
    r.op("DecodeGif")
        .shape(|ctx| {
            shape_ops::with_rank(ctx.input(0), 0)?;
            let fresh = Dim::fresh;
            ctx.set_output(0, [fresh(), fresh(), fresh(), Dim::new(3)].into_iter().collect());
            Ok(())
        })
        .cpu(|init| decode(init, Wanted::Gif));
    // `DecodeJpeg(contents: string; channels, ratio, fancy_upscaling, try_recover_truncated, acceptable_fraction, dct_method)
    // -> image: uint8`; `DecodeAndCropJpeg(contents, crop_window: int32[4]; ...)` with top, left, height and width.
    r.op("DecodeJpeg").shape(image_shape).cpu(|init| decode(init, Wanted::Jpeg));
    r.op("DecodeAndCropJpeg").shape(crop_shape).cpu(|init| decode(init, Wanted::Crop));
    r.op("DecodeImage").shape(any_shape).cpu(|init| decode(init, Wanted::Any));

    // `EncodePng(image: T; compression) -> contents: string`, for each image of a batch.
    r.op("EncodePng")
        .shape(|ctx| {
            let images = shape_ops::with_rank_at_least(ctx.input(0), 3)?;
            let batch = shape_ops::subshape(&images, 0, Some(-3))?;
            ctx.set_output(0, batch);
            Ok(())
        })
        .cpu(encode_png);

    // `EncodeJpegVariableQuality(images: uint8, quality: int32) -> contents: string`, for one image, with chroma of half the
    // size.
    r.op("EncodeJpegVariableQuality")
        .shape(|ctx| {
            shape_ops::with_rank(ctx.input(0), 3)?;
            ctx.set_output(0, PartialShape::scalar());
            Ok(())
        })
        .compute(encode_jpeg);
}

/// An op that decodes.
#[derive(Clone, Copy, PartialEq)]
enum Wanted {
    Png,
    Bmp,
    Gif,
    Jpeg,
    Crop,
    Any,
}

fn image_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    shape_ops::with_rank(ctx.input(0), 0)?;
    let channels = match ctx.attrs.int("channels")? {
        0 => Dim::fresh(),
        channels @ 1.. => Dim::new(channels),
        other => return Err(invalid!("channels must be non-negative, got {other}")),
    };
    ctx.set_output(0, [Dim::fresh(), Dim::fresh(), channels].into_iter().collect());
    Ok(())
}

fn any_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    image_shape(ctx)?;
    if ctx.attrs.bool("expand_animations")? {
        ctx.set_output(0, PartialShape::unknown());
    }
    Ok(())
}

/// The height and width are those of a constant crop window.
fn crop_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    image_shape(ctx)?;
    let channels = ctx.output(0).dim(2);
    let window = shape_ops::with_rank(ctx.input(1), 1)?;
    shape_ops::with_value(window.dim(0), 4)?;
    let size = |value: i64| if value < 0 { Dim::fresh() } else { Dim::new(value) };
    let [rows, cols] = match ctx.operand_i64s(1)?.as_deref() {
        Some(&[_, _, rows, cols]) => [size(rows), size(cols)],
        _ => [Dim::fresh(), Dim::fresh()],
    };
    ctx.set_output(0, [rows, cols, channels].into_iter().collect());
    Ok(())
}

/// A decoded picture of 8 or 16 bits for each channel.
pub(crate) struct Picture {
    pub(crate) height: usize,
    pub(crate) width: usize,
    pub(crate) channels: usize,
    pub(crate) pixels: Pixels,
}

pub(crate) enum Pixels {
    Narrow(Vec<u8>),
    Wide(Vec<u16>),
}

/// The most pixels that the reference decodes.
pub(crate) const MAX_PIXELS: u64 = 1 << 29;

/// # Errors
/// `InvalidArgument` for sizes that the reference refuses. Sizes are claims of a header: nothing is allocated before they
/// are checked.
pub(crate) fn check_size(what: &str, width: u64, height: u64) -> Result<()> {
    let fits = width > 0
        && height > 0
        && width < 1 << 27
        && height < 1 << 27
        && width.checked_mul(height).is_some_and(|pixels| pixels < MAX_PIXELS);
    require!(fits, "{what} size too large for int: {width} by {height}");
    Ok(())
}

fn decode(init: &KernelInit<'_>, wanted: Wanted) -> Result<Box<dyn Kernel>> {
    let attrs = init.attrs;
    let channels = if attrs.contains("channels") { attrs.int("channels")? } else { 0 };
    require!(
        matches!(channels, 0 | 1 | 3 | 4),
        "`channels` must be 0, 1, 3 or 4 but got {channels}"
    );
    let channels = channels as usize;
    let animates = match wanted {
        Wanted::Any => attrs.bool("expand_animations")?,
        other => other == Wanted::Gif,
    };
    let options = jpeg_options(init, wanted)?;
    let dtype = init.output_dtypes[0];
    kernel(move |ctx: &mut OpContext<'_>| {
        let contents = ctx.input(0)?;
        require!(
            contents.rank() == 0,
            "`contents` must be scalar but got shape {}",
            contents.shape()
        );
        let contents = contents.scalar_value::<TString>()?;
        let bytes = contents.as_bytes();
        require!(!bytes.is_empty(), "Input is empty.");
        let is_png = bytes.starts_with(b"\x89PNG\r\n\x1a\n");
        let is_bmp = bytes.starts_with(b"BM");
        if wanted == Wanted::Crop && (is_png || is_bmp || bytes.starts_with(b"GIF8")) {
            let found = match (is_png, is_bmp) {
                (true, _) => "PNG",
                (_, true) => "BMP",
                _ => "GIF",
            };
            return Err(invalid!(
                "DecodeAndCropJpeg operation can run on JPEG only, but detected {found}."
            ));
        }
        if is_png {
            let picture = png::decode(bytes, channels, dtype != DType::UINT8)?;
            return deliver(ctx, picture, None, wanted);
        }
        if bytes.starts_with(b"GIF8") {
            require!(matches!(channels, 0 | 3), "channels must be 0 or 3 for GIF, got {channels}");
            let (picture, frames) = gif::decode(bytes, animates)?;
            return deliver(ctx, picture, animates.then_some(frames), wanted);
        }
        if is_bmp {
            require!(
                wanted != Wanted::Jpeg,
                "Trying to decode BMP format using a wrong op. Use `decode_bmp` or `decode_image` instead. Op used: DecodeJpeg"
            );
            let picture = bmp::decode(bytes, channels)?;
            return deliver(ctx, picture, None, wanted);
        }
        if bytes.starts_with(b"\xff\xd8\xff") {
            require!(channels != 4, "JPEG does not support 4 channels");
            require!(
                wanted != Wanted::Bmp,
                "Trying to decode JPEG format using DecodeBmp op. Use `decode_jpeg` or `decode_image` instead."
            );
            let crop = match wanted {
                Wanted::Crop => Some(crop_window(ctx.input(1)?)?),
                _ => None,
            };
            let mut picture = jpeg::decode(bytes, channels, options, crop)?;
            if let (DType::UINT16, Pixels::Narrow(pixels)) = (dtype, &picture.pixels) {
                // Unlike those of other formats, the largest value does not stay the largest.
                let wide = pixels.iter().map(|&value| u16::from(value) << 8);
                picture.pixels = Pixels::Wide(tfcore_base::try_collect(wide)?);
            }
            return deliver(ctx, picture, None, wanted);
        }
        let refused = if bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") {
            "WebP"
        } else if bytes.starts_with(b"\xff\x0a") || bytes.starts_with(b"\0\0\0\x0cJXL ") {
            "JPEG XL"
        } else {
            return Err(invalid!(
                "Unknown image file format. One of JPEG, JPEG XL, PNG, GIF, BMP, WebP required."
            ));
        };
        Err(unimplemented_error!("Decoding {refused} images is not supported"))
    })
}

/// The attrs of `DecodeJpeg`; their defaults for ops without them.
fn jpeg_options(init: &KernelInit<'_>, wanted: Wanted) -> Result<jpeg::Options> {
    if !matches!(wanted, Wanted::Jpeg | Wanted::Crop) {
        return Ok(jpeg::Options::default());
    }
    let attrs = init.attrs;
    let ratio = attrs.int("ratio")?;
    require!(matches!(ratio, 1 | 2 | 4 | 8), "ratio must be 1, 2, 4, or 8, got {ratio}");
    let method = match attrs.str("dct_method")? {
        "" | "INTEGER_FAST" => jpeg::Method::Fast,
        "INTEGER_ACCURATE" => jpeg::Method::Accurate,
        _ => {
            return Err(invalid!(
                "dct_method must be one of {{'', 'INTEGER_FAST', 'INTEGER_ACCURATE'}}"
            ));
        }
    };
    Ok(jpeg::Options {
        ratio: ratio as usize,
        fancy_upscaling: attrs.bool("fancy_upscaling")?,
        try_recover_truncated: attrs.bool("try_recover_truncated")?,
        acceptable_fraction: attrs.float("acceptable_fraction")?,
        method,
    })
}

fn crop_window(window: &Tensor) -> Result<jpeg::Crop> {
    require!(window.rank() == 1, "crop_window must be 1-D, got shape {}", window.shape());
    let window = window.as_slice::<i32>()?;
    window.try_into().map_err(|_| invalid!("crop_size must have four elements [{}]", window.len()))
}

/// Sets the output: a picture or, with a number of frames, an animation, whose frames stand one below the other.
fn deliver(
    ctx: &OpContext<'_>,
    picture: Picture,
    frames: Option<usize>,
    wanted: Wanted,
) -> Result<()> {
    let Picture { height, width, channels, pixels } = picture;
    let frames = match wanted {
        Wanted::Gif => Some(frames.unwrap_or(1)),
        _ => frames,
    };
    let dims = match frames {
        Some(frames) => {
            vec![frames as i64, (height / frames) as i64, width as i64, channels as i64]
        }
        None => vec![height as i64, width as i64, channels as i64],
    };
    ctx.produce(0, Shape::new(&dims)?, |out| match (out.dtype(), pixels) {
        (DType::UINT8, Pixels::Narrow(pixels)) => out.typed::<u8>().copy_from_slice(&pixels),
        (DType::UINT8, Pixels::Wide(pixels)) => {
            let out = out.typed::<u8>().iter_mut();
            out.zip(pixels).for_each(|(out, value)| *out = (value >> 8) as u8);
        }
        (DType::UINT16, Pixels::Wide(pixels)) => out.typed::<u16>().copy_from_slice(&pixels),
        (DType::UINT16, Pixels::Narrow(pixels)) => {
            // 8 bits as the same part of 16.
            let out = out.typed::<u16>().iter_mut();
            out.zip(pixels).for_each(|(out, value)| *out = u16::from(value) * 257);
        }
        (_, Pixels::Narrow(pixels)) => {
            let out = out.typed::<f32>().iter_mut();
            out.zip(pixels).for_each(|(out, value)| *out = f32::from(value) * (1.0 / 255.0));
        }
        (_, Pixels::Wide(pixels)) => {
            let out = out.typed::<f32>().iter_mut();
            out.zip(pixels).for_each(|(out, value)| *out = f32::from(value) * (1.0 / 65535.0));
        }
    })
}

/// The largest width and height of a file.
const MAX_JPEG_SIZE: usize = 65500;

fn encode_jpeg(ctx: &mut OpContext<'_>) -> Result<()> {
    let (image, quality) = (ctx.input(0)?, ctx.input(1)?);
    let shape = image.shape();
    require!(image.rank() == 3, "image must be 3-dimensional{shape}");
    require!(shape.count() < i32::MAX as usize, "Cannot encode images with >= max int32 elements");
    require!(quality.rank() == 0, "quality must be scalar: {}", quality.shape());
    let quality = quality.scalar_value::<i32>()?;
    require!((0..=100).contains(&quality), "quality must be in [0,100], got {quality}");
    let dims = shape.to_usizes();
    let [height, width, channels] = [dims[0], dims[1], dims[2]];
    require!(matches!(channels, 1 | 3), "image must have 1 or 3 channels, got {shape}");
    let sizes = 1..=MAX_JPEG_SIZE;
    if !sizes.contains(&height) || !sizes.contains(&width) || height * width >= 1 << 29 {
        return Err(Error::new(Code::Internal, "JPEG encoding failed"));
    }
    let file = jpeg::encode(image.as_slice::<u8>()?, width, height, channels, quality);
    ctx.set_output(0, Tensor::from_slice(Shape::scalar(), &[TString::from(&file[..])])?);
    Ok(())
}

fn encode_png(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let compression = init.attrs.int("compression")?;
    require!((-1..=9).contains(&compression), "compression should be in [-1,9], got {compression}");
    kernel(move |ctx: &mut OpContext<'_>| {
        let images = ctx.input(0)?;
        let rank = images.rank();
        require!(rank >= 3, "images must be at least rank 3{}", images.shape());
        let dims = images.shape().to_usizes();
        let [height, width, channels] = [dims[rank - 3], dims[rank - 2], dims[rank - 1]];
        require!(
            (1..=4).contains(&channels),
            "image must have 1, 2, 3, or 4 channels{}",
            images.shape()
        );
        let batch = Shape::new(&images.shape().dims()[..rank - 3])?;
        let len = height * width * channels;
        let mut encoded = Vec::new();
        for index in 0..batch.count() {
            let range = index * len..(index + 1) * len;
            let bytes: Vec<u8> = match images.dtype() {
                DType::UINT16 => {
                    images.as_slice::<u16>()?[range].iter().flat_map(|v| v.to_be_bytes()).collect()
                }
                _ => images.as_slice::<u8>()?[range].to_vec(),
            };
            let is_wide = images.dtype() == DType::UINT16;
            let png = match (height, width) {
                (0, _) | (_, 0) => None,
                _ => png::encode(&bytes, width, height, channels, is_wide, compression),
            };
            let png = png.ok_or_else(|| {
                let message = "PNG encoding failed at the following flattened batch indices: ";
                Error::new(Code::Internal, format!("{message}{index}"))
            })?;
            encoded.push(TString::from(&png[..]));
        }
        ctx.set_output(0, Tensor::from_slice(batch, &encoded)?);
        Ok(())
    })
}

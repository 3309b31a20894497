//! JPEG, pixel by pixel as libjpeg-turbo decodes it. Arithmetic coding is not supported.

mod encode;
mod frame;
mod idct;
mod sample;
mod source;
#[cfg(test)]
mod tests;

use tfcore_base::{Result, invalid};

use super::{Picture, Pixels};
pub(super) use encode::encode;
use frame::{Found, Frame};
pub(crate) use idct::Method;
use sample::{Space, Upsampler, Window};
use source::{Source, Step, Stop};

/// Attrs of the op that decodes.
#[derive(Clone, Copy)]
pub(crate) struct Options {
    /// 1, 2, 4 or 8: the picture is so many times smaller than its file says.
    pub(crate) ratio: usize,
    pub(crate) fancy_upscaling: bool,
    pub(crate) try_recover_truncated: bool,
    pub(crate) acceptable_fraction: f32,
    pub(crate) method: Method,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            ratio: 1,
            fancy_upscaling: true,
            try_recover_truncated: false,
            acceptable_fraction: 1.0,
            method: Method::Fast,
        }
    }
}

/// The part of the picture that is wanted: top, left, height and width.
pub(crate) type Crop = [i32; 4];

/// Most visits of each block by the scans of a file; larger than any encoder makes, and small enough that short damaged
/// files do not keep a core busy.
const MAX_VISITS: usize = 64;

/// The picture with 1 or 3 channels (0: as many as the file has, at most 3).
pub(crate) fn decode(
    bytes: &[u8],
    channels: usize,
    options: Options,
    crop: Option<Crop>,
) -> Result<Picture> {
    picture(bytes, channels, options, crop)
        .map_err(|_| invalid!("jpeg::Uncompress failed. Invalid JPEG data or crop window."))
}

fn picture(bytes: &[u8], channels: usize, options: Options, crop: Option<Crop>) -> Step<Picture> {
    let source = &mut Source::new(bytes, options.try_recover_truncated);
    let frame = &mut Frame::default();
    Frame::start(source)?;
    let Found::Scan(first) = frame.segments(source)? else { return Err(Stop::Failed) };
    let space = Space::of(frame, &frame.ids());
    let count = frame.components.len();
    let channels = if channels == 0 { count.min(3) } else { channels };
    let is_known = match space {
        Space::Grey | Space::Rgb | Space::Ycc => matches!(channels, 1 | 3),
        Space::Cmyk | Space::Ycck => channels == 3,
        Space::Unknown => false,
    };
    let (width, height) =
        (frame.width.div_ceil(options.ratio), frame.height.div_ceil(options.ratio));
    if !is_known || width * height * count >= 1 << 29 {
        return Err(Stop::Failed);
    }
    let min_size = 8 / options.ratio;
    let unit_rows = frame.unit_rows();
    let is_multiple = frame.has_several_scans(&first);
    let kept_rows = if is_multiple { unit_rows } else { 1 };
    frame.allocate(kept_rows, min_size).ok_or(Stop::Failed)?;
    let [top, left, rows, cols] = match crop {
        None => [0, 0, height, width],
        Some(window) => {
            let window = window.map(|value| usize::try_from(value).unwrap_or(usize::MAX));
            let [top, left, rows, cols] = window;
            let is_inside = rows > 0
                && cols > 0
                && top.checked_add(rows).is_some_and(|end| end <= height)
                && left.checked_add(cols).is_some_and(|end| end <= width);
            if !is_inside {
                return Err(Stop::Failed);
            }
            window
        }
    };

    // Rows of units that were read before the data ended.
    let mut whole = unit_rows;
    if is_multiple {
        let (mut scan, mut visits, mut blocks) = (first, 0, 1 << 20);
        blocks += frame.blocks() * MAX_VISITS;
        loop {
            visits += frame.work(&scan);
            if visits > blocks {
                return Err(Stop::Failed);
            }
            frame.scan(source, &scan, None)?;
            match frame.segments(source)? {
                Found::Scan(next) => scan = next,
                Found::End => break,
            }
        }
        frame.transform(0..unit_rows, options.method);
    } else {
        let mut done = 0;
        let mut finish = |frame: &mut Frame, row: usize| {
            frame.transform(row..row + 1, options.method);
            done = row + 1;
        };
        match frame.scan(source, &first, Some(&mut finish)) {
            Ok(()) => match frame.segments(source) {
                Ok(Found::End) | Err(Stop::Suspended) => {}
                _ => return Err(Stop::Failed),
            },
            Err(Stop::Suspended) => whole = done,
            Err(Stop::Failed) => return Err(Stop::Failed),
        }
    }

    let unit_width = min_size * if frame.has_one_component() { 1 } else { frame.max_h };
    let window = match cols == width {
        true => Window { left: 0, width },
        false => {
            let start = left / unit_width * unit_width;
            Window { left: start, width: cols + left - start }
        }
    };
    let needed = if channels == 1 && space == Space::Ycc { 1 } else { count };
    let mut upsamplers = Vec::with_capacity(needed);
    for at in 0..needed {
        upsamplers.push(Upsampler::new(frame, at, min_size, options.fancy_upscaling, window)?);
    }
    let mut read = height;
    if whole < unit_rows {
        // The last row of a row of units waits for the next one where its neighbours are mixed in.
        let groups = whole * min_size;
        let waits = usize::from(upsamplers.iter().any(Upsampler::needs_context));
        read = (groups.saturating_sub(waits) * frame.max_v).min(height);
    }
    let read = read.saturating_sub(top).min(rows);
    if (read as f32 / rows as f32) < options.acceptable_fraction.min(1.0) {
        return Err(Stop::Failed);
    }
    let mut pixels =
        tfcore_base::try_filled(0u8, rows * cols * channels).map_err(|_| Stop::Failed)?;
    let mut lines = vec![Vec::new(); needed];
    for (y, out) in pixels.chunks_exact_mut(cols * channels).take(read).enumerate() {
        for (upsampler, line) in upsamplers.iter().zip(&mut lines) {
            upsampler.row(top + y, line);
        }
        let skip = left - window.left;
        sample::convert(space, channels, frame.adobe.is_some(), &lines, skip, out)?;
    }
    Ok(Picture { height: rows, width: cols, channels, pixels: Pixels::Narrow(pixels) })
}

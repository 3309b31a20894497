//! From planes of components to rows of pixels.

use super::frame::{Component, Frame};
use super::source::{Step, Stop};

/// A way to bring a component to the size of the picture.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Upsampling {
    Repeat { h: usize, v: usize },
    Wide,
    Tall,
    Both,
}

impl Upsampling {
    fn of(frame: &Frame, component: &Component, min_size: usize, fancy: bool) -> Step<Self> {
        let h = component.h * component.size / min_size;
        let v = component.v * component.size / min_size;
        if !frame.max_h.is_multiple_of(h) || !frame.max_v.is_multiple_of(v) {
            return Err(Stop::Failed);
        }
        let (h, v) = (frame.max_h / h, frame.max_v / v);
        let fancy = fancy && min_size > 1;
        Ok(match (h, v) {
            (2, 1) if fancy && component.width > 2 => Self::Wide,
            (1, 2) if fancy => Self::Tall,
            (2, 2) if fancy && component.width > 2 => Self::Both,
            _ => Self::Repeat { h, v },
        })
    }
}

/// The columns of the picture that are computed; the left one stands at a unit's border.
#[derive(Clone, Copy)]
pub(super) struct Window {
    pub(super) left: usize,
    pub(super) width: usize,
}

/// A component's way to rows of the picture.
pub(super) struct Upsampler<'a> {
    component: &'a Component,
    kind: Upsampling,
    /// Columns of the plane.
    left: usize,
    width: usize,
}

impl<'a> Upsampler<'a> {
    pub(super) fn new(
        frame: &'a Frame,
        at: usize,
        min_size: usize,
        fancy: bool,
        window: Window,
    ) -> Step<Self> {
        let component = &frame.components[at];
        let mut kind = Upsampling::of(frame, component, min_size, fancy)?;
        let (own, all) = (component.h * component.size, frame.max_h * min_size);
        let width = (window.width * own).div_ceil(all);
        // A window of a single column leaves no neighbour to mix in.
        if width < 2 && component.width >= 2 {
            kind = match kind {
                Upsampling::Wide => Upsampling::Repeat { h: 2, v: 1 },
                Upsampling::Both => Upsampling::Repeat { h: 2, v: 2 },
                other => other,
            };
        }
        Ok(Self { component, kind, left: window.left * own / all, width })
    }

    /// True if rows take part of their neighbours.
    pub(super) fn needs_context(&self) -> bool {
        matches!(self.kind, Upsampling::Tall | Upsampling::Both)
    }

    fn line(&self, row: usize) -> &[u8] {
        let row = row.min(self.component.height.saturating_sub(1));
        &self.component.plane[row * self.component.stride + self.left..][..self.width]
    }

    /// The row of the picture, at least as wide as the window.
    pub(super) fn row(&self, y: usize, out: &mut Vec<u8>) {
        out.clear();
        let mix = |near: &[u8], far: &[u8]| -> Vec<u32> {
            near.iter().zip(far).map(|(&n, &f)| u32::from(n) * 3 + u32::from(f)).collect()
        };
        let neighbours = |y: usize| {
            let near = y / 2;
            let far = if y.is_multiple_of(2) { near.saturating_sub(1) } else { near + 1 };
            (self.line(near), self.line(far))
        };
        match self.kind {
            Upsampling::Repeat { h: 1, v } => out.extend(self.line(y / v)),
            Upsampling::Repeat { h, v } => {
                for &value in self.line(y / v) {
                    out.extend(std::iter::repeat_n(value, h));
                }
            }
            Upsampling::Tall => {
                let (near, far) = neighbours(y);
                let bias = if y.is_multiple_of(2) { 1 } else { 2 };
                out.extend(mix(near, far).into_iter().map(|sum| ((sum + bias) >> 2) as u8));
            }
            Upsampling::Wide => {
                let line: Vec<u32> = self.line(y).iter().map(|&value| value.into()).collect();
                widen(&line, 1, 2, 2, out);
            }
            Upsampling::Both => {
                let (near, far) = neighbours(y);
                widen(&mix(near, far), 8, 7, 4, out);
            }
        }
    }
}

/// Twice as many values: three quarters of the nearer and one of the farther one, each with its own rounding.
fn widen(line: &[u32], left_bias: u32, right_bias: u32, shift: u32, out: &mut Vec<u8>) {
    for (at, &value) in line.iter().enumerate() {
        let left = line[at.saturating_sub(1)];
        let right = line[(at + 1).min(line.len() - 1)];
        out.push(((value * 3 + left + left_bias) >> shift) as u8);
        out.push(((value * 3 + right + right_bias) >> shift) as u8);
    }
}

/// Colours of a file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Space {
    Grey,
    Rgb,
    Ycc,
    Cmyk,
    Ycck,
    Unknown,
}

impl Space {
    pub(super) fn of(frame: &Frame, ids: &[u8]) -> Self {
        match (frame.components.len(), frame.adobe) {
            (1, _) => Self::Grey,
            (3, _) if frame.has_jfif => Self::Ycc,
            (3, Some(0)) => Self::Rgb,
            (3, None) if ids == [82, 71, 66] => Self::Rgb,
            (3, _) => Self::Ycc,
            (4, Some(0) | None) => Self::Cmyk,
            (4, _) => Self::Ycck,
            _ => Self::Unknown,
        }
    }
}

/// Red, green and blue of a luma and two chromas, with 16 bits behind the point of each constant.
fn rgb(y: u8, cb: u8, cr: u8) -> [u8; 3] {
    let (y, cb, cr) = (i32::from(y), i32::from(cb) - 128, i32::from(cr) - 128);
    let half = 1 << 15;
    let red = y + ((91881 * cr + half) >> 16);
    let green = y + ((-22554 * cb - 46802 * cr + half) >> 16);
    let blue = y + ((116_130 * cb + half) >> 16);
    [red, green, blue].map(|value| value.clamp(0, 255) as u8)
}

/// Pixels of the picture; `inverted` is how Adobe's programs write inks.
pub(super) fn convert(
    space: Space,
    channels: usize,
    inverted: bool,
    rows: &[Vec<u8>],
    skip: usize,
    out: &mut [u8],
) -> Step<()> {
    let pixels = out.chunks_exact_mut(channels).enumerate();
    let at = |component: usize, x: usize| rows[component][skip + x];
    match (space, channels) {
        (Space::Grey | Space::Ycc, 1) => pixels.for_each(|(x, out)| out[0] = at(0, x)),
        (Space::Rgb, 1) => pixels.for_each(|(x, out)| {
            let [r, g, b] = [0, 1, 2].map(|component| u32::from(at(component, x)));
            out[0] = ((19595 * r + 38470 * g + 7471 * b + (1 << 15)) >> 16) as u8;
        }),
        (Space::Grey, 3) => pixels.for_each(|(x, out)| out.fill(at(0, x))),
        (Space::Rgb, 3) => {
            pixels.for_each(|(x, out)| out.copy_from_slice(&[at(0, x), at(1, x), at(2, x)]))
        }
        (Space::Ycc, 3) => {
            pixels.for_each(|(x, out)| out.copy_from_slice(&rgb(at(0, x), at(1, x), at(2, x))))
        }
        (Space::Cmyk | Space::Ycck, 3) => pixels.for_each(|(x, out)| {
            let inks = [at(0, x), at(1, x), at(2, x)];
            let inks = match space {
                Space::Ycck => rgb(inks[0], inks[1], inks[2]).map(|value| 255 - value),
                _ => inks,
            };
            let black = u32::from(at(3, x));
            for (out, ink) in out.iter_mut().zip(inks) {
                let ink = u32::from(ink);
                let product = if inverted { black * ink } else { (255 - black) * (255 - ink) };
                *out = (product / 255) as u8;
            }
        }),
        _ => return Err(Stop::Failed),
    }
    Ok(())
}

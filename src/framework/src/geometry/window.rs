//! `WindowAxis`, `ImageWindow`: windows that slide over images, as pooling and convolution use them.

use tfcore_base::{Error, Result, invalid};
use tfcore_tensor::{Dim, PartialShape};

use crate::{Attrs, shape_ops};

/// How an image is padded along one axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AxisPadding {
    /// Not at all: windows lie inside.
    Valid,
    /// So that with stride 1 the output is as large as the input; an odd element goes behind.
    Same,
    /// By so many elements.
    Explicit { before: i64, after: i64 },
}

/// A window that slides along one axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowAxis {
    pub stride: i64,
    /// The distance of neighbouring elements of the window; 1 leaves no holes.
    pub dilation: i64,
    pub padding: AxisPadding,
}

/// Where the windows along one axis lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowPlaces {
    /// How many windows there are.
    pub count: usize,
    /// Padding before the first and after the last element of the input. With `Valid` padding some of
    /// the input may be left over; with `Same`, this is exactly what the windows reach over the edges.
    pub before: usize,
    pub after: usize,
}

impl WindowAxis {
    /// The number of windows, as far as it is known.
    ///
    /// # Errors
    /// `InvalidArgument` "Stride must be > 0, but got 0", "Dilation rate must be >= 1, but got 0" or
    /// "Negative dimension size caused by subtracting 3 from 2".
    pub fn output_dim(&self, input: Dim, window: impl Into<Dim>) -> Result<Dim> {
        self.check()?;
        let padded = match self.padding {
            AxisPadding::Same => {
                let rounded = shape_ops::add(input, self.stride - 1)?;
                return shape_ops::divide(rounded, self.stride, false);
            }
            AxisPadding::Valid => input,
            AxisPadding::Explicit { before, after } => {
                let sum = before.checked_add(after).ok_or_else(|| too_large(before))?;
                shape_ops::add(input, sum)?
            }
        };
        let mut reach = window.into();
        if self.dilation > 1 {
            let holes = shape_ops::multiply(shape_ops::subtract(reach, 1)?, self.dilation)?;
            reach = shape_ops::add(holes, 1)?;
        }
        let rest = shape_ops::subtract(padded, reach)?;
        shape_ops::divide(shape_ops::add(rest, self.stride)?, self.stride, false)
    }

    /// The windows of `window` elements over `input` elements.
    ///
    /// # Errors
    /// `InvalidArgument` as [`WindowAxis::output_dim`], and "Computed output size would be negative"
    /// for windows that are more than one stride too large.
    pub fn places(&self, input: usize, window: usize) -> Result<WindowPlaces> {
        self.check()?;
        let (input, window, stride) = (input as i128, window as i128, i128::from(self.stride));
        let reach = (window - 1) * i128::from(self.dilation) + 1;
        // Rounded towards zero, so that windows that are less than a stride too large give no output.
        let fitting = |room: i128| (room - reach + stride) / stride;
        let (count, before, after) = match self.padding {
            AxisPadding::Valid => (fitting(input), 0, 0),
            AxisPadding::Explicit { before, after } => {
                let (before, after) = (i128::from(before), i128::from(after));
                (fitting(input + before + after), before, after)
            }
            AxisPadding::Same => {
                let count = (input + stride - 1) / stride;
                let needed = ((count - 1) * stride + reach - input).max(0);
                (count, needed / 2, needed - needed / 2)
            }
        };
        if count < 0 {
            return Err(invalid!(
                "Computed output size would be negative: {count} [input_size: {input}, \
                 effective_filter_size: {reach}, stride: {stride}]"
            ));
        }
        let narrow = |value: i128| usize::try_from(value).map_err(|_| too_large(self.stride));
        Ok(WindowPlaces { count: narrow(count)?, before: narrow(before)?, after: narrow(after)? })
    }

    fn check(&self) -> Result<()> {
        if self.stride <= 0 {
            return Err(invalid!("Stride must be > 0, but got {}", self.stride));
        }
        if self.dilation < 1 {
            return Err(invalid!("Dilation rate must be >= 1, but got {}", self.dilation));
        }
        Ok(())
    }
}

fn too_large(value: i64) -> Error {
    invalid!("Window geometry overflows: {value}")
}

/// The order of an image's dimensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImageFormat {
    Nhwc,
    Nchw,
    /// As `Nchw`, with the channels in blocks of four that form a fifth dimension.
    NchwVectC,
}

impl ImageFormat {
    /// The format in attr `data_format`; `Nhwc` where the op has no such attr.
    ///
    /// # Errors
    /// `InvalidArgument` for a name that is no format of two-dimensional images.
    pub fn from_attrs(attrs: &Attrs) -> Result<ImageFormat> {
        if !attrs.contains("data_format") {
            return Ok(ImageFormat::Nhwc);
        }
        match attrs.str("data_format")? {
            "NHWC" => Ok(ImageFormat::Nhwc),
            "NCHW" => Ok(ImageFormat::Nchw),
            "NCHW_VECT_C" => Ok(ImageFormat::NchwVectC),
            other => Err(invalid!("Invalid data format string: {other}")),
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            ImageFormat::Nhwc => "NHWC",
            ImageFormat::Nchw => "NCHW",
            ImageFormat::NchwVectC => "NCHW_VECT_C",
        }
    }

    pub fn rank(self) -> usize {
        if self == ImageFormat::NchwVectC { 5 } else { 4 }
    }

    /// The axis of the batch.
    pub fn batch(self) -> usize {
        0
    }

    /// The axis of the rows.
    pub fn rows(self) -> usize {
        if self == ImageFormat::Nhwc { 1 } else { 2 }
    }

    /// The axis of the columns.
    pub fn cols(self) -> usize {
        self.rows() + 1
    }

    /// The axis of the channels.
    pub fn channels(self) -> usize {
        if self == ImageFormat::Nhwc { 3 } else { 1 }
    }

    /// A shape of these dimensions in the order of the format.
    pub fn shape(self, batch: Dim, rows: Dim, cols: Dim, channels: Dim) -> PartialShape {
        match self {
            ImageFormat::Nhwc => [batch, rows, cols, channels].into_iter().collect(),
            ImageFormat::Nchw => [batch, channels, rows, cols].into_iter().collect(),
            ImageFormat::NchwVectC => {
                [batch, channels, rows, cols, Dim::new(4)].into_iter().collect()
            }
        }
    }

    /// As [`ImageFormat::shape`], for sizes.
    pub fn sizes(self, batch: usize, rows: usize, cols: usize, channels: usize) -> [i64; 4] {
        let [batch, rows, cols, channels] = [batch, rows, cols, channels].map(|size| size as i64);
        match self {
            ImageFormat::Nhwc => [batch, rows, cols, channels],
            _ => [batch, channels, rows, cols],
        }
    }
}

/// A window that slides over the rows and columns of images: attrs `strides`, `dilations`, `padding`,
/// `explicit_paddings` and `data_format` of a node.
///
/// `strides` and `dilations` are those of all four dimensions, in the order of the format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageWindow {
    pub format: ImageFormat,
    pub strides: [i64; 4],
    pub dilations: [i64; 4],
    pub rows: WindowAxis,
    pub cols: WindowAxis,
}

impl ImageWindow {
    /// Puts together what was read from a node's attrs.
    ///
    /// # Errors
    /// `InvalidArgument` if `explicit_paddings` does not fit the padding.
    pub fn new(
        attrs: &Attrs,
        format: ImageFormat,
        strides: [i64; 4],
        dilations: [i64; 4],
    ) -> Result<ImageWindow> {
        let [rows, cols] = read_padding(attrs, format)?;
        let axis = |index: usize, padding: AxisPadding| WindowAxis {
            stride: strides[index],
            dilation: dilations[index],
            padding,
        };
        let (rows, cols) = (axis(format.rows(), rows), axis(format.cols(), cols));
        Ok(ImageWindow { format, strides, dilations, rows, cols })
    }
}

/// The padding of rows and columns in attrs `padding` and `explicit_paddings`.
fn read_padding(attrs: &Attrs, format: ImageFormat) -> Result<[AxisPadding; 2]> {
    let explicit: &[i64] = match attrs.contains("explicit_paddings") {
        true => attrs.ints("explicit_paddings")?,
        false => &[],
    };
    let padding = attrs.str("padding")?;
    if padding != "EXPLICIT" {
        if !explicit.is_empty() {
            return Err(invalid!(
                "explicit_paddings attribute must be empty if the padding attribute is not EXPLICIT"
            ));
        }
        return match padding {
            "VALID" => Ok([AxisPadding::Valid; 2]),
            "SAME" => Ok([AxisPadding::Same; 2]),
            other => Err(invalid!("{other} is not an allowed padding type")),
        };
    }
    if explicit.len() != 8 {
        return Err(invalid!(
            "explicit_paddings attribute must contain 8 values, but got: {}",
            explicit.len()
        ));
    }
    if explicit.iter().any(|&size| size < 0) {
        return Err(invalid!("All elements of explicit_paddings must be nonnegative"));
    }
    let of = |axis: usize| (explicit[2 * axis], explicit[2 * axis + 1]);
    if of(format.batch()) != (0, 0) || of(format.channels()) != (0, 0) {
        return Err(invalid!(
            "Nonzero explicit padding in the batch or depth dimensions is not supported"
        ));
    }
    Ok([format.rows(), format.cols()].map(|axis| {
        let (before, after) = of(axis);
        AxisPadding::Explicit { before, after }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use AxisPadding::{Same, Valid};

    fn axis(stride: i64, dilation: i64, padding: AxisPadding) -> WindowAxis {
        WindowAxis { stride, dilation, padding }
    }

    #[test]
    fn windows_are_counted_and_placed() {
        let explicit = AxisPadding::Explicit { before: 1, after: 2 };
        // input, window, axis, (count, before, after)
        let cases = [
            (5, 3, axis(1, 1, Valid), (3, 0, 0)),
            (5, 3, axis(2, 1, Valid), (2, 0, 0)),
            (5, 3, axis(1, 2, Valid), (1, 0, 0)),
            (4, 5, axis(1, 1, Valid), (0, 0, 0)),
            (5, 3, axis(1, 1, Same), (5, 1, 1)),
            (6, 3, axis(2, 1, Same), (3, 0, 1)),
            (5, 2, axis(3, 1, Same), (2, 0, 0)),
            (0, 3, axis(1, 1, Same), (0, 0, 2)),
            (5, 3, axis(1, 1, explicit), (6, 1, 2)),
        ];
        for (input, window, axis, (count, before, after)) in cases {
            let places = axis.places(input, window).unwrap();
            let case = format!("{input} {window} {axis:?}");
            if count > 0 {
                assert_eq!(places, WindowPlaces { count, before, after }, "{case}");
                let dim = axis.output_dim(Dim::new(input as i64), window as i64).unwrap();
                assert_eq!(dim.value(), Some(count as i64), "{case}");
            }
            assert_eq!(places.count, count, "{case}");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let error = axis(1, 1, Valid).places(2, 5).unwrap_err();
        assert_eq!(
            error.message(),
            "Computed output size would be negative: -2 [input_size: 2, effective_filter_size: 5, stride: 1]"
        );
        let error = axis(1, 1, Valid).output_dim(Dim::new(2), 3).unwrap_err();
        assert_eq!(error.message(), "Negative dimension size caused by subtracting 3 from 2");
        for bad in [axis(0, 1, Same), axis(1, 0, Same)] {
            assert!(bad.places(5, 3).is_err() && bad.output_dim(Dim::new(5), 3).is_err());
        }
        let huge = AxisPadding::Explicit { before: i64::MAX, after: i64::MAX };
        assert!(axis(1, 1, huge).output_dim(Dim::new(5), 3).is_err());
        assert!(axis(1, i64::MAX, Same).places(1 << 40, usize::MAX >> 1).is_err());
    }

    #[test]
    fn unknown_sizes_stay_unknown() {
        let dim = axis(2, 1, Valid).output_dim(Dim::UNKNOWN, 3).unwrap();
        assert_eq!(dim.value(), None);
        let dim = axis(1, 1, Same).output_dim(Dim::UNKNOWN, Dim::UNKNOWN).unwrap();
        assert_eq!(dim.value(), None);
    }
}

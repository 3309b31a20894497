//! Reading the attributes of pooling and convolutions, with the reference's errors.

use tfcore_base::{Result, invalid, unimplemented_error};
use tfcore_framework::Attrs;
use tfcore_framework::geometry::{AxisPadding, ImageFormat, ImageWindow};

/// The integers of attr `name`, which must be 32-bit ones.
pub(crate) fn int32s(attrs: &Attrs, name: &str) -> Result<Vec<i64>> {
    let values = attrs.ints(name)?;
    match values.iter().find(|&&value| i32::try_from(value).is_err()) {
        Some(value) => Err(invalid!("Attr {name} has value {value} out of range for an int32")),
        None => Ok(values.to_vec()),
    }
}

/// The four integers of attr `name`, of which there must be as many; `error` says so.
pub(crate) fn four(
    attrs: &Attrs,
    name: &str,
    error: impl FnOnce(usize) -> tfcore_base::Error,
) -> Result<[i64; 4]> {
    let values = int32s(attrs, name)?;
    <[i64; 4]>::try_from(values.as_slice()).map_err(|_| error(values.len()))
}

/// What the kernels of two-dimensional convolutions require of `strides` and `dilations`.
pub(crate) fn convolution_window(attrs: &Attrs) -> Result<ImageWindow> {
    let format = ImageFormat::from_attrs(attrs)?;
    let field = |name: &str| {
        four(attrs, name, |_| invalid!("Sliding window {name} field must specify 4 dimensions"))
    };
    let (strides, dilations) = (field("strides")?, field("dilations")?);
    let outer = |of: &[i64; 4]| [of[format.batch()], of[format.channels()]];
    let inner = |of: &[i64; 4]| [of[format.rows()], of[format.cols()]];
    if outer(&strides) != [1, 1] {
        return Err(unimplemented_error!(
            "Current implementation does not yet support strides in the batch and depth dimensions."
        ));
    }
    if inner(&strides).iter().any(|&stride| stride <= 0) {
        return Err(invalid!("Row and column strides should be larger than 0."));
    }
    if outer(&dilations) != [1, 1] {
        return Err(unimplemented_error!(
            "Current implementation does not yet support dilations in the batch and depth dimensions."
        ));
    }
    if inner(&dilations).iter().any(|&dilation| dilation <= 0) {
        return Err(invalid!("Dilated rates should be larger than 0."));
    }
    ImageWindow::new(attrs, format, strides, dilations)
}

/// The padding of ops that know no explicit one.
pub(crate) fn same_or_valid(attrs: &Attrs) -> Result<AxisPadding> {
    match attrs.str("padding")? {
        "SAME" => Ok(AxisPadding::Same),
        "VALID" => Ok(AxisPadding::Valid),
        other => Err(invalid!("Unknown padding type: {other}")),
    }
}

/// True if the channels of volumes stand behind the batch, in attr `data_format`.
pub(crate) fn channels_second(attrs: &Attrs) -> Result<bool> {
    match attrs.str("data_format")? {
        "NDHWC" => Ok(false),
        "NCDHW" => Ok(true),
        other => Err(invalid!("Invalid data format string: {other}")),
    }
}

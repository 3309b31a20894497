//! `Conv`: convolutions of images or of volumes, behind any number of batch dimensions.

use tfcore_base::{Result, invalid, require, unimplemented_error};
use tfcore_framework::geometry::{AxisPadding, ImageFormat, ImageWindow, WindowAxis};
use tfcore_framework::{Attrs, InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel};
use tfcore_tensor::{Dim, PartialShape, Shape, Tensor};

use crate::conv::{ConvLoop, ConvTypes, Convolve, check_depths, conv2d_geometry};
use crate::conv3d::{self, VolumeLoop, VolumeWindow, check_supported};
use crate::window_attrs::int32s;

pub(crate) fn register(r: &mut Registry) {
    // `Conv(input: T, filter: T) -> output: T`, attrs `strides`, `padding`, `explicit_paddings`, `data_format`,
    // `dilations`, `batch_dims`, `groups`: `Conv2D` or `Conv3D`, by the rank of the filter. The first
    // `batch_dims` dimensions of the input are the batch.
    r.op("Conv").shape(conv_shape).typed_kernel::<Convolve, ConvTypes>("T", conv_kernel);
}

/// What the attrs say of the places of channels and of spatial axes: 0 stands for the whole batch.
fn channels_axis(attrs: &Attrs, spatial: usize) -> Result<usize> {
    match attrs.str("data_format")? {
        "CHANNELS_LAST" => Ok(spatial + 1),
        "CHANNELS_FIRST" => Ok(1),
        other => Err(invalid!("Invalid data format string: {other}")),
    }
}

/// The padding of all axes, batch and channels included.
fn paddings(attrs: &Attrs, spatial: usize, channels: usize) -> Result<Vec<AxisPadding>> {
    let explicit = attrs.ints("explicit_paddings")?;
    let padding = match attrs.str("padding")? {
        "EXPLICIT" => {
            let expected = 2 * (spatial + 2);
            require!(
                explicit.len() == expected,
                "explicit_paddings attribute must contain {expected} values, but got: {}",
                explicit.len()
            );
            require!(
                explicit.iter().all(|&size| size >= 0),
                "All elements of explicit_paddings must be nonnegative"
            );
            require!(
                [0, channels].iter().all(|axis| explicit[2 * axis..][..2] == [0, 0]),
                "Nonzero explicit padding in the batch or depth dimensions is not supported"
            );
            return Ok(explicit
                .chunks_exact(2)
                .map(|sides| AxisPadding::Explicit { before: sides[0], after: sides[1] })
                .collect());
        }
        "SAME" => AxisPadding::Same,
        "VALID" => AxisPadding::Valid,
        other => return Err(invalid!("{other} is not an allowed padding type")),
    };
    require!(
        explicit.is_empty(),
        "explicit_paddings attribute must be empty if the padding attribute is not EXPLICIT"
    );
    Ok(vec![padding; spatial + 2])
}

fn conv_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let (input, filter, attrs) = (ctx.input(0), ctx.input(1), ctx.attrs);
    let (Some(rank), Some(filter_rank)) = (input.rank(), filter.rank()) else {
        return Ok(());
    };
    let batch_dims = attrs.int("batch_dims")?;
    require!(batch_dims >= 0, "Batch dims must be non-negative.");
    let standard = (rank as i64).saturating_sub(batch_dims).saturating_add(1);
    require!(
        matches!(standard, 4 | 5),
        "Input tensor must be rank 4 or 5, excluding extra batch dimensions, but got: {standard}"
    );
    require!(standard == filter_rank as i64, "Input tensor rank must be the same as filter rank.");
    let spatial = standard as usize - 2;
    let channels = channels_axis(attrs, spatial)?;
    let len = spatial + 2;
    let mut dilations = int32s(attrs, "dilations")?;
    if dilations.is_empty() {
        dilations = vec![1; len];
    }
    require!(
        dilations.len() == len,
        "Conv requires the dilation attribute to contain {len} values, but got: {}",
        dilations.len()
    );
    let strides = int32s(attrs, "strides")?;
    require!(
        strides.len() == len,
        "Stride attribute should contain {len} values, but got: {}",
        strides.len()
    );
    let groups = attrs.int("groups")?;
    require!(groups > 0, "Groups attribute should be a positive integer");
    // Axis 0 is the last of the batch, of which there may be none.
    let dim = |axis: usize| match (batch_dims as usize + axis).checked_sub(1) {
        Some(at) => input.dim(at),
        None => Dim::new(1),
    };
    let out = filter.dim(spatial + 1);
    check_depths(dim(channels), filter.dim(spatial), out)?;
    if let Some(out) = out.value() {
        require!(out % groups == 0, "Number of groups should divide output depth");
    }
    let paddings = paddings(attrs, spatial, channels)?;
    let mut sizes = vec![Dim::UNKNOWN; len];
    for (cell, axis) in (1..len).filter(|&axis| axis != channels).enumerate() {
        let along = WindowAxis {
            stride: strides[axis],
            dilation: dilations[axis],
            padding: paddings[axis],
        };
        sizes[axis] = along.output_dim(dim(axis), filter.dim(cell))?;
    }
    sizes[channels] = out;
    let batch = input.dims().unwrap_or_default()[..batch_dims as usize].iter().copied();
    let shape: PartialShape = batch.chain(sizes[1..].iter().copied()).collect();
    ctx.set_output(0, shape);
    Ok(())
}

fn conv_kernel(init: &KernelInit<'_>, images: ConvLoop) -> Result<Box<dyn Kernel>> {
    let volumes: VolumeLoop =
        init.loop_for::<conv3d::Convolve, ConvTypes>(init.attrs.dtype("T")?)?;
    let attrs = init.attrs.clone();
    let groups = attrs.int("groups")?;
    let batch_dims = attrs.int("batch_dims")?;
    kernel(move |ctx: &mut OpContext<'_>| {
        let (input, filter) = (ctx.input(0)?, ctx.input(1)?);
        let spatial = (input.rank() as i64).saturating_sub(1).saturating_sub(batch_dims);
        require!(
            matches!(spatial, 2 | 3),
            "The input must have 2 or 3 spatial dimensions but got {spatial}"
        );
        require!(
            matches!(filter.rank(), 4 | 5),
            "The filter must be rank 4 or 5 but got {}",
            filter.rank()
        );
        let spatial = spatial as usize;
        require!(
            filter.rank() == spatial + 2,
            "The filter must be rank {} but got {}",
            spatial + 2,
            filter.rank()
        );
        let window = Window::new(&attrs, spatial)?;
        // All batch dimensions as one.
        let dims = input.shape().dims();
        let (batch, rest) = dims.split_at(batch_dims as usize);
        let rows: i64 = batch.iter().product();
        let flat = Shape::new(&[&[rows], rest].concat())?;
        let (depth, filter_depth) = (flat[window.channels], filter.shape()[spatial]);
        if groups != 1 {
            return Err(unimplemented_error!(
                "Grouped/Depthwise Convolutions are not supported yet."
            ));
        }
        require!(
            depth == filter_depth,
            "Input depth must be equal to filter depth: {depth} vs {filter_depth}"
        );
        require!(
            filter.count() != 0,
            "filter must not have zero elements (i.e. all dimensions must be non-zero)"
        );
        let out = match spatial {
            2 => window.image(ctx, &flat, images)?,
            _ => window.volume(ctx, &flat, volumes)?,
        };
        let shape = [batch, &out.shape().dims()[1..]].concat();
        ctx.set_output(0, out.with_shape(Shape::new(&shape)?)?);
        Ok(())
    })
}

/// How the filter moves, axis by axis of [batch, ...] in the order of the format.
struct Window {
    channels: usize,
    strides: Vec<i64>,
    dilations: Vec<i64>,
    paddings: Vec<AxisPadding>,
}

impl Window {
    fn new(attrs: &Attrs, spatial: usize) -> Result<Window> {
        let channels = channels_axis(attrs, spatial)?;
        let len = spatial + 2;
        let strides = int32s(attrs, "strides")?;
        require!(
            strides.len() == len,
            "Sliding window strides field must specify {len} dimensions"
        );
        require!(
            (strides[0], strides[channels]) == (1, 1),
            "Current implementation does not support strides in the batch and depth dimensions."
        );
        require!(strides.iter().all(|&v| v > 0), "Spatial strides should be larger than 0.");
        let mut dilations = int32s(attrs, "dilations")?;
        if dilations.is_empty() {
            dilations = vec![1; len];
        }
        require!(dilations.len() == len, "Dilation rates field must specify{len}dimensions");
        require!(
            (dilations[0], dilations[channels]) == (1, 1),
            "Current implementation does not support dilation rates in the batch and depth dimensions."
        );
        require!(dilations.iter().all(|&v| v > 0), "Dilated rates should be larger than 0.");
        let paddings = paddings(attrs, spatial, channels)?;
        Ok(Window { channels, strides, dilations, paddings })
    }

    fn axis(&self, at: usize) -> WindowAxis {
        let (stride, dilation) = (self.strides[at], self.dilations[at]);
        WindowAxis { stride, dilation, padding: self.paddings[at] }
    }

    fn image(&self, ctx: &OpContext<'_>, input: &Shape, run: ConvLoop) -> Result<Tensor> {
        let format = if self.channels == 1 { ImageFormat::Nchw } else { ImageFormat::Nhwc };
        let four = |of: &[i64]| [of[0], of[1], of[2], of[3]];
        let window = ImageWindow {
            format,
            strides: four(&self.strides),
            dilations: four(&self.dilations),
            rows: self.axis(format.rows()),
            cols: self.axis(format.cols()),
        };
        let (x, filter) = (ctx.input(0)?, ctx.input(1)?);
        let g = conv2d_geometry(&window, input, filter.shape())?;
        let sizes = format.sizes(g.batch, g.out_h, g.out_w, g.out_c);
        let mut out = ctx.allocate_output(0, Shape::new(&sizes)?)?;
        if out.count() > 0 {
            if format != ImageFormat::Nhwc {
                return Err(unimplemented_error!(
                    "The Conv2D op currently only supports the NHWC tensor format on the CPU. The op \
                     was given the format: {}",
                    format.name()
                ));
            }
            run(ctx.parallel(), &g, x.elems(), filter.elems(), out.elems_mut()?);
        }
        Ok(out)
    }

    fn volume(&self, ctx: &OpContext<'_>, input: &Shape, run: VolumeLoop) -> Result<Tensor> {
        let channels_second = self.channels == 1;
        let first = if channels_second { 2 } else { 1 };
        let axes = [first, first + 1, first + 2].map(|at| self.axis(at));
        let window = VolumeWindow { axes, channels_second };
        let (x, filter) = (ctx.input(0)?, ctx.input(1)?);
        let mut sizes: Vec<i64> = input.dims().to_vec();
        if channels_second {
            let channels = sizes.remove(1);
            sizes.push(channels);
        }
        let g = window.geometry(&Shape::new(&sizes)?, filter.shape())?;
        let mut out = ctx.allocate_output(0, conv3d::output_shape(&g)?)?;
        if out.count() > 0 {
            check_supported(&window, input, filter.shape())?;
            run(ctx.parallel(), &g, x.elems(), filter.elems(), out.elems_mut()?);
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use tfcore_base::DType;
    use tfcore_framework::AttrValue;
    use tfcore_framework::testing::{floats, infer, registry_of, run_op};

    use super::*;

    fn attrs(strides: usize, batch_dims: i64) -> [(&'static str, AttrValue); 4] {
        [
            ("T", AttrValue::Type(DType::FLOAT)),
            ("strides", AttrValue::ints(vec![1; strides])),
            ("padding", AttrValue::string("VALID")),
            ("batch_dims", AttrValue::Int(batch_dims)),
        ]
    }

    #[test]
    fn batches_of_any_rank() {
        let filter = floats(&[1, 2, 1, 1], &[-1.0, 1.0]);
        let values = [1.0, 4.0, 9.0, 2.0, 3.0, 5.0];
        let cases: [(&[i64], i64, &[i64]); 3] = [
            (&[2, 1, 3, 1], 1, &[2, 1, 2, 1]),
            (&[1, 2, 1, 3, 1], 2, &[1, 2, 1, 2, 1]),
            (&[2, 3, 1], 0, &[2, 2, 1]),
        ];
        for (dims, batch_dims, expected) in cases {
            let inputs = [floats(dims, &values), filter.clone()];
            let out =
                run_op(&registry_of(register), "Conv", &attrs(4, batch_dims), &inputs).unwrap();
            assert_eq!(out[0].shape().dims(), expected);
            assert_eq!(out[0].as_slice::<f32>().unwrap(), [3.0, 5.0, 1.0, 2.0]);
        }
    }

    #[test]
    fn shapes() {
        let shape = |attrs: &[_], inputs| infer(&registry_of(register), "Conv", attrs, inputs, &[]);
        assert_eq!(shape(&attrs(4, 2), "[2,?,3,3,2];[2,2,2,4]").unwrap(), "[2,?,2,2,4]");
        assert_eq!(shape(&attrs(5, 1), "[1,5,5,5,2];[2,2,2,2,4]").unwrap(), "[1,4,4,4,4]");
        assert_eq!(shape(&attrs(4, 1), "?;[2,2,2,4]").unwrap(), "?");
        let error = shape(&attrs(4, 7), "[1,5,5,2];[2,2,2,4]").unwrap_err();
        assert!(error.message().ends_with("but got: -2"), "{error}");
    }
}

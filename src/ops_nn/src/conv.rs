//! `Conv2D` and its gradients.

use tfcore_base::{
    BFloat16, Code, Elem, Floats, Half, LoopFor, Result, TypedLoop, invalid, unimplemented_error,
};
use tfcore_framework::geometry::{ImageFormat, ImageWindow};
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_ops,
};
use tfcore_math::conv::{
    Conv2dGeometry, ConvElem, conv2d, conv2d_backprop_filter, conv2d_backprop_input,
};
use tfcore_math::pool::Parallel;
use tfcore_tensor::{Dim, Elems, ElemsMut, PartialShape, Shape, Tensor};

use crate::window_attrs::{convolution_window, four};

/// The types that products of images are made for.
pub(crate) type ConvTypes = (f32, f64, Half, BFloat16, i32);

pub(crate) fn register(r: &mut Registry) {
    // `Conv2D(input: T, filter: T) -> output: T`, attrs `strides`, `padding`, `explicit_paddings`,
    // `data_format`, `dilations`: `output[n, h, w, o] = Σ input[n, h·s + i·d, w·s + j·d, c] · filter[i, j, c, o]`.
    // A filter with fewer input channels than the image makes a grouped convolution.
    r.op("Conv2D").shape(conv2d_shape).typed_kernel::<Convolve, ConvTypes>("T", conv2d_kernel);

    // `Conv2DBackpropInput(input_sizes: int32, filter: T, out_backprop: T) -> output: T`, attrs as `Conv2D`.
    r.op("Conv2DBackpropInput")
        .shape(backprop_input_shape)
        .typed_kernel::<BackpropInput, ConvTypes>("T", backprop_input_kernel);

    // `Conv2DBackpropFilter(input: T, filter_sizes: int32, out_backprop: T) -> output: T`, attrs as `Conv2D`.
    r.op("Conv2DBackpropFilter")
        .shape(backprop_filter_shape)
        .typed_kernel::<BackpropFilter, Floats>("T", backprop_filter_kernel);
}

pub(crate) fn conv2d_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let format = ImageFormat::from_attrs(ctx.attrs)?;
    let input = shape_ops::with_rank(ctx.input(0), 4)?;
    let filter = shape_ops::with_rank(ctx.input(1), 4)?;
    let dilations = four(ctx.attrs, "dilations", |len| {
        invalid!("Conv2D requires the dilation attribute to contain 4 values, but got: {len}")
    })?;
    let strides = four(ctx.attrs, "strides", |len| {
        invalid!(
            "Conv2D on data format {} requires the stride attribute to contain 4 values, but got: {len}",
            format.name()
        )
    })?;
    check_depths(input.dim(format.channels()), filter.dim(2), filter.dim(3))?;
    let window = ImageWindow::new(ctx.attrs, format, strides, dilations)?;
    let rows = window.rows.output_dim(input.dim(format.rows()), filter.dim(0))?;
    let cols = window.cols.output_dim(input.dim(format.cols()), filter.dim(1))?;
    ctx.set_output(0, format.shape(input.dim(0), rows, cols, filter.dim(3)));
    Ok(())
}

/// The channels of the input must be as many as the filter's, or make groups that share the outputs out.
pub(crate) fn check_depths(input: Dim, filter: Dim, output: Dim) -> Result<()> {
    let (Some(input), Some(filter)) = (input.value(), filter.value()) else {
        return Ok(());
    };
    if filter == 0 {
        return Err(invalid!("Depth of filter must not be 0"));
    }
    if input % filter != 0 {
        return Err(invalid!(
            "Depth of input ({input}) is not a multiple of input depth of filter ({filter})"
        ));
    }
    let groups = input / filter;
    if groups == 0 {
        return Err(invalid!("Number of groups must not be 0"));
    }
    match output.value() {
        Some(output) if output % groups != 0 => Err(invalid!(
            "Depth of output ({output}) is not a multiple of the number of groups ({groups})"
        )),
        _ => Ok(()),
    }
}

/// Input, filter, output.
pub(crate) type ConvLoop = fn(Parallel<'_>, &Conv2dGeometry, Elems<'_>, Elems<'_>, ElemsMut<'_>);

pub(crate) struct Convolve;

impl TypedLoop for Convolve {
    type Loop = ConvLoop;
}

impl<T: Elem + ConvElem> LoopFor<T> for Convolve {
    const LOOP: ConvLoop = |par, g, input, filter, out| {
        conv2d(par, g, input.typed::<T>(), filter.typed(), out.typed());
    };
}

struct BackpropInput;

impl TypedLoop for BackpropInput {
    type Loop = ConvLoop;
}

impl<T: Elem + ConvElem> LoopFor<T> for BackpropInput {
    const LOOP: ConvLoop = |par, g, filter, gradient, out| {
        conv2d_backprop_input(par, g, filter.typed::<T>(), gradient.typed(), out.typed());
    };
}

struct BackpropFilter;

impl TypedLoop for BackpropFilter {
    type Loop = ConvLoop;
}

impl<T: Elem + ConvElem> LoopFor<T> for BackpropFilter {
    const LOOP: ConvLoop = |par, g, input, gradient, out| {
        conv2d_backprop_filter(par, g, input.typed::<T>(), gradient.typed(), out.typed());
    };
}

fn conv2d_kernel(init: &KernelInit<'_>, run: ConvLoop) -> Result<Box<dyn Kernel>> {
    let window = convolution_window(init.attrs)?;
    kernel(move |ctx: &mut OpContext<'_>| {
        let (input, filter) = (ctx.input(0)?, ctx.input(1)?);
        let geometry = conv2d_geometry(&window, input.shape(), filter.shape())?;
        let format = window.format;
        let sizes = format.sizes(geometry.batch, geometry.out_h, geometry.out_w, geometry.out_c);
        ctx.try_produce(0, Shape::new(&sizes)?, |out| {
            if filter.count() == 0 {
                return Err(invalid!(
                    "filter must not have zero elements (i.e. all dimensions must be non-zero)"
                ));
            }
            if format != ImageFormat::Nhwc {
                return Err(unimplemented_error!(
                    "The Conv2D op currently only supports the NHWC tensor format on the CPU. The op \
                     was given the format: {}",
                    format.name()
                ));
            }
            run_or_zero(run, ctx, &geometry, input, filter, out);
            Ok(())
        })
    })
}

/// The geometry of a convolution whose input and filter are known.
pub(crate) fn conv2d_geometry(
    window: &ImageWindow,
    input: &Shape,
    filter: &Shape,
) -> Result<Conv2dGeometry> {
    let format = window.format;
    if input.rank() != 4 {
        return Err(invalid!("convolution input must be 4-dimensional: {input}"));
    }
    if filter.rank() != 4 {
        return Err(invalid!("convolution filter must be 4-dimensional: {filter}"));
    }
    if filter.iter().any(|&size| size > i64::from(i32::MAX)) {
        return Err(invalid!("filter too large"));
    }
    let (in_c, filter_c, out_c) = (input.dim(format.channels()), filter.dim(2), filter.dim(3));
    if filter_c == 0 {
        return Err(invalid!("filter depth must be stricly positive, got 0"));
    }
    if in_c % filter_c != 0 {
        return Err(invalid!(
            "input depth must be evenly divisible by filter depth: {in_c} vs {filter_c}"
        ));
    }
    // An input without channels has no groups; its convolution is all zeros.
    let groups = (in_c / filter_c).max(1);
    if out_c % groups != 0 {
        return Err(invalid!(
            "output depth must be evenly divisible by number of groups: {out_c} vs {groups}"
        ));
    }
    let (in_h, in_w) = (input.dim(format.rows()), input.dim(format.cols()));
    let (filter_h, filter_w) = (filter.dim(0), filter.dim(1));
    let rows = window.rows.places(in_h, filter_h)?;
    let cols = window.cols.places(in_w, filter_w)?;
    Ok(Conv2dGeometry {
        batch: input.dim(0),
        in_h,
        in_w,
        in_c,
        filter_h,
        filter_w,
        out_c,
        out_h: rows.count,
        out_w: cols.count,
        stride_h: window.rows.stride as usize,
        stride_w: window.cols.stride as usize,
        dilation_h: window.rows.dilation as usize,
        dilation_w: window.cols.dilation as usize,
        pad_top: rows.before,
        pad_left: cols.before,
        groups,
    })
}

fn backprop_input_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let format = ImageFormat::from_attrs(ctx.attrs)?;
    let gradient = shape_ops::with_rank(ctx.input(2), 4)?;
    let filter = shape_ops::with_rank(ctx.input(1), 4)?;
    shape_ops::merge_dims(gradient.dim(format.channels()), filter.dim(3))?;
    shape_ops::with_rank(ctx.input(0), 1)?;
    let mut sizes = ctx.operand_shape(0)?;
    if sizes.rank().is_none() {
        sizes = PartialShape::of_rank(4);
    }
    let batch = gradient.dim(0);
    let (rows, cols, channels) = match sizes.dims() {
        Some([_, ..]) if sizes.rank() == Some(4) => {
            shape_ops::merge_dims(sizes.dim(0), batch)?;
            let [rows, cols] = [format.rows(), format.cols()].map(|axis| sizes.dim(axis));
            (rows, cols, sizes.dim(format.channels()))
        }
        Some(&[rows, cols]) => (rows, cols, filter.dim(2)),
        _ => return Err(bad_input_sizes(sizes.rank().unwrap_or(0))),
    };
    ctx.set_output(0, format.shape(batch, rows, cols, channels));
    Ok(())
}

fn bad_input_sizes(len: usize) -> tfcore_base::Error {
    invalid!(
        "Conv2DBackpropInput requires input_sizes to contain 4 values or 2 values, but got: {len}"
    )
}

fn backprop_filter_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    shape_ops::with_rank(ctx.input(1), 1)?;
    let sizes = ctx.operand_shape(1)?;
    ctx.set_output(0, shape_ops::with_rank(&sizes, 4)?);
    Ok(())
}

/// The window of a gradient. The CPU has them for NHWC without dilation only.
fn backprop_window(init: &KernelInit<'_>, kernel: &str) -> Result<ImageWindow> {
    if ImageFormat::from_attrs(init.attrs)? != ImageFormat::Nhwc {
        return Err(invalid!("{kernel}Op only supports NHWC."));
    }
    let window = convolution_window(init.attrs)?;
    if window.dilations != [1; 4] {
        return Err(invalid!(
            "Current CPU implementations do not yet support dilation rates larger than 1."
        ));
    }
    Ok(window)
}

/// The geometry of a gradient, checked against the shape of `out_backprop`; `kernel` begins the messages.
fn backprop_geometry(
    kernel: &str,
    window: &ImageWindow,
    input: &Shape,
    filter: &Shape,
    gradient: &Shape,
) -> Result<Conv2dGeometry> {
    check_ranks(kernel, input, filter, gradient)?;
    if input[0] != gradient[0] {
        return Err(invalid!(
            "{kernel}: input and out_backprop must have the same batch size. Input batch: {}, \
             outbackprop batch: {}, batch_dim: 0",
            input[0],
            gradient[0]
        ));
    }
    if filter[2] == 0 {
        return Err(invalid!("{kernel}: filter depth must be strictly greated than zero"));
    }
    if input[3] % filter[2] != 0 {
        return Err(invalid!("{kernel}: input depth must be evenly divisible by filter depth"));
    }
    if filter[3] != gradient[3] {
        return Err(invalid!("{kernel}: filter and out_backprop must have the same out_depth"));
    }
    for (axis, along) in [(1, &window.rows), (2, &window.cols)] {
        let count = along.places(input.dim(axis), filter.dim(axis - 1))?.count;
        if count != gradient.dim(axis) {
            return Err(invalid!(
                "{kernel}: Size of out_backprop doesn't match computed: actual = {actual}, computed = \
                 {count} spatial_dim: {axis} input: {} filter: {} output: {actual} stride: {} dilation: {}",
                input[axis],
                filter[axis - 1],
                along.stride,
                along.dilation,
                actual = gradient[axis]
            ));
        }
    }
    conv2d_geometry(window, input, filter)
}

/// All operands of a gradient are images; `op` begins the message.
pub(crate) fn check_ranks(op: &str, input: &Shape, filter: &Shape, gradient: &Shape) -> Result<()> {
    for (shape, name) in [(input, "input"), (filter, "filter"), (gradient, "out_backprop")] {
        if shape.rank() != 4 {
            return Err(invalid!("{op}: {name} must be 4-dimensional"));
        }
    }
    Ok(())
}

fn backprop_input_kernel(init: &KernelInit<'_>, run: ConvLoop) -> Result<Box<dyn Kernel>> {
    const KERNEL: &str = "Conv2DCustomBackpropInput";
    let window = backprop_window(init, KERNEL)?;
    kernel(move |ctx: &mut OpContext<'_>| {
        let (filter, gradient) = (ctx.input(1)?, ctx.input(2)?);
        let input = input_sizes(ctx.input(0)?, filter.shape(), gradient.shape())?;
        let geometry =
            backprop_geometry(KERNEL, &window, &input, filter.shape(), gradient.shape())?;
        if geometry.groups != 1 {
            return Err(invalid!(
                "Gradients for grouped convolutions are not supported on CPU. Please file a feature \
                 request if you run into this issue. Computed input depth {} doesn't match filter \
                 input depth {}",
                input[3],
                filter.shape()[2]
            ));
        }
        ctx.produce(0, input, |out| run_or_zero(run, ctx, &geometry, filter, gradient, out))
    })
}

/// The shape of the input whose gradient is wanted: `input_sizes` has all of it, or rows and columns.
fn input_sizes(sizes: &Tensor, filter: &Shape, gradient: &Shape) -> Result<Shape> {
    if sizes.rank() != 1 {
        return Err(invalid!(
            "Conv2DBackpropInput: input_sizes input must be 1-dim, not {}",
            sizes.rank()
        ));
    }
    if gradient.rank() != 4 {
        return Err(invalid!("input_sizes must be 4-dimensional, got: {}", gradient.rank()));
    }
    match sizes.to_i64s()?[..] {
        [batch, rows, cols, channels] => Shape::new(&[batch, rows, cols, channels]),
        [rows, cols] if filter.rank() == 4 => Shape::new(&[gradient[0], rows, cols, filter[2]]),
        ref sizes => Err(bad_input_sizes(sizes.len())),
    }
}

fn backprop_filter_kernel(init: &KernelInit<'_>, run: ConvLoop) -> Result<Box<dyn Kernel>> {
    const KERNEL: &str = "Conv2DCustomBackpropFilter";
    // The reference has another code here than for the gradient with respect to the input.
    let window =
        backprop_window(init, KERNEL).map_err(|error| error.with_code(Code::InvalidArgument))?;
    kernel(move |ctx: &mut OpContext<'_>| {
        let (input, sizes, gradient) = (ctx.input(0)?, ctx.input(1)?, ctx.input(2)?);
        if sizes.rank() != 1 {
            return Err(invalid!(
                "Conv2DCustomBackpropFilter: filter_sizes input must be 1-dim, not {}",
                sizes.rank()
            ));
        }
        let filter = Shape::new(&sizes.to_i64s()?)?;
        let geometry =
            backprop_geometry(KERNEL, &window, input.shape(), &filter, gradient.shape())?;
        if geometry.groups != 1 {
            return Err(invalid!(
                "filter_size does not have enough elements, requested {}, got {}",
                filter.count().saturating_mul(geometry.groups),
                filter.count()
            ));
        }
        ctx.produce(0, filter, |out| run_or_zero(run, ctx, &geometry, input, gradient, out))
    })
}

/// Runs a loop; what depends on nothing is zero.
pub(crate) fn run_or_zero(
    run: ConvLoop,
    ctx: &OpContext<'_>,
    geometry: &Conv2dGeometry,
    x: &Tensor,
    y: &Tensor,
    out: ElemsMut<'_>,
) {
    if x.count() == 0 || y.count() == 0 {
        out.fill_default();
    } else {
        run(ctx.parallel(), geometry, x.elems(), y.elems(), out);
    }
}

#[cfg(test)]
mod tests {
    use tfcore_base::DType;
    use tfcore_framework::AttrValue;
    use tfcore_framework::testing::{floats, infer, registry_of, run_op};

    use super::*;

    fn registry() -> Registry {
        registry_of(register)
    }

    fn attrs(padding: &str) -> [(&'static str, AttrValue); 3] {
        [
            ("T", AttrValue::Type(DType::FLOAT)),
            ("strides", AttrValue::ints([1, 1, 1, 1])),
            ("padding", AttrValue::string(padding)),
        ]
    }

    fn sizes(values: [i32; 4]) -> Tensor {
        Tensor::from_slice(Shape::vector(4), &values).unwrap()
    }

    #[test]
    fn a_convolution_and_its_gradients() {
        // Differences of neighbouring columns.
        let input = floats(&[1, 1, 4, 1], &[1.0, 4.0, 9.0, 16.0]);
        let filter = floats(&[1, 2, 1, 1], &[-1.0, 1.0]);
        let run = |op: &str, padding: &str, inputs: &[Tensor]| {
            let out = run_op(&registry(), op, &attrs(padding), inputs).unwrap();
            out[0].as_slice::<f32>().unwrap().to_vec()
        };
        let both = [input.clone(), filter.clone()];
        assert_eq!(run("Conv2D", "VALID", &both), [3.0, 5.0, 7.0]);
        assert_eq!(run("Conv2D", "SAME", &both), [3.0, 5.0, 7.0, -16.0]);
        let gradient = floats(&[1, 1, 3, 1], &[1.0, 10.0, 100.0]);
        let inputs = [sizes([1, 1, 4, 1]), filter, gradient.clone()];
        assert_eq!(run("Conv2DBackpropInput", "VALID", &inputs), [-1.0, -9.0, -90.0, 100.0]);
        let inputs = [input, sizes([1, 2, 1, 1]), gradient];
        assert_eq!(run("Conv2DBackpropFilter", "VALID", &inputs), [941.0, 1694.0]);
    }

    #[test]
    fn groups_see_their_own_channels() {
        let input = floats(&[1, 1, 1, 4], &[1.0, 2.0, 3.0, 4.0]);
        let filter = floats(&[1, 1, 2, 2], &[1.0, 10.0, 100.0, 1000.0]);
        let out = run_op(&registry(), "Conv2D", &attrs("SAME"), &[input, filter]).unwrap();
        assert_eq!(out[0].as_slice::<f32>().unwrap(), [201.0, 4030.0]);
    }

    #[test]
    fn shapes() {
        let cases = [
            ("[1,5,?,2];[3,3,2,8]", Ok("[1,3,?,8]")),
            ("?;?", Ok("[?,?,?,?]")),
            ("[1,2,5,2];[3,3,2,8]", Err("Negative dimension size caused by subtracting 3 from 2")),
            ("[1,5,5,2];[3,3,0,8]", Err("Depth of filter must not be 0")),
            (
                "[1,5,5,4];[3,3,2,3]",
                Err("Depth of output (3) is not a multiple of the number of groups (2)"),
            ),
        ];
        for (inputs, expected) in cases {
            let actual = infer(&registry(), "Conv2D", &attrs("VALID"), inputs, &[]);
            let actual = actual.as_deref().map_err(|error| error.message());
            assert_eq!(actual, expected, "{inputs}");
        }
        let constants = [(0, sizes([1, 5, 5, 2]))];
        let gradient = "[4];[3,3,2,8];[?,3,3,8]";
        let shape =
            infer(&registry(), "Conv2DBackpropInput", &attrs("VALID"), gradient, &constants);
        assert_eq!(shape.unwrap(), "[?,5,5,2]");
    }
}

//! `DepthwiseConv2dNative` and its gradients: each channel is convolved with filters of its own.

use tfcore_base::{Code, Elem, Floats, LoopFor, Result, TypedLoop, invalid, unimplemented_error};
use tfcore_framework::geometry::{ImageFormat, ImageWindow};
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_ops,
};
use tfcore_math::conv::{
    Conv2dGeometry, ConvElem, depthwise_conv2d, depthwise_conv2d_backprop_filter,
    depthwise_conv2d_backprop_input,
};
use tfcore_tensor::{Shape, Tensor};

use crate::conv::{ConvLoop, check_ranks, run_or_zero};
use crate::window_attrs::{convolution_window, four};

pub(crate) fn register(r: &mut Registry) {
    // `DepthwiseConv2dNative(input: T, filter: T) -> output: T`, attrs as `Conv2D`; filter [rows, cols,
    // channels, multiplier]: output channel `c · multiplier + m` is input channel `c` convolved with
    // `filter[.., c, m]`.
    r.op("DepthwiseConv2dNative")
        .shape(depthwise_shape)
        .typed_kernel::<Convolve, Floats>("T", depthwise_kernel);

    // `DepthwiseConv2dNativeBackpropInput(input_sizes: int32, filter: T, out_backprop: T) -> output: T`.
    r.op("DepthwiseConv2dNativeBackpropInput")
        .shape(|ctx| sized_by(ctx, 0))
        .typed_kernel::<BackpropInput, Floats>("T", backprop_input_kernel);

    // `DepthwiseConv2dNativeBackpropFilter(input: T, filter_sizes: int32, out_backprop: T) -> output: T`.
    r.op("DepthwiseConv2dNativeBackpropFilter")
        .shape(|ctx| sized_by(ctx, 1))
        .typed_kernel::<BackpropFilter, Floats>("T", backprop_filter_kernel);
}

pub(crate) fn depthwise_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let input = shape_ops::with_rank(ctx.input(0), 4)?;
    let filter = shape_ops::with_rank(ctx.input(1), 4)?;
    let field = |name: &str, shown: &str| {
        four(ctx.attrs, name, |len| {
            invalid!(
                "DepthwiseConv2D requires the {shown} attribute to contain 4 values, but got: {len}"
            )
        })
    };
    let strides = field("strides", "stride")?;
    let dilations = field("dilations", "dilations")?;
    let format = ImageFormat::from_attrs(ctx.attrs)?;
    let channels = shape_ops::merge_dims(input.dim(format.channels()), filter.dim(2))?;
    let out_channels = shape_ops::multiply(channels, filter.dim(3))?;
    let window = ImageWindow::new(ctx.attrs, format, strides, dilations)?;
    let rows = window.rows.output_dim(input.dim(format.rows()), filter.dim(0))?;
    let cols = window.cols.output_dim(input.dim(format.cols()), filter.dim(1))?;
    ctx.set_output(0, format.shape(input.dim(0), rows, cols, out_channels));
    Ok(())
}

/// The output has the shape that input `index` holds.
fn sized_by(ctx: &mut InferenceContext<'_>, index: usize) -> Result<()> {
    shape_ops::with_rank(ctx.input(index), 1)?;
    let sizes = ctx.operand_shape(index)?;
    ctx.set_output(0, shape_ops::with_rank(&sizes, 4)?);
    Ok(())
}

/// The window of a node, with what the CPU kernels can do.
fn depthwise_window(init: &KernelInit<'_>) -> Result<ImageWindow> {
    let window =
        convolution_window(init.attrs).map_err(|error| error.with_code(Code::InvalidArgument))?;
    if window.rows.stride != window.cols.stride {
        return Err(invalid!(
            "Current implementation only supports equal length strides in the row and column \
             dimensions."
        ));
    }
    Ok(window)
}

fn check_format(window: &ImageWindow) -> Result<()> {
    match window.format {
        ImageFormat::Nhwc => Ok(()),
        _ => Err(unimplemented_error!(
            "Depthwise convolution on CPU is only supported for NHWC format"
        )),
    }
}

/// The window of a convolution, which cannot be dilated.
fn forward_window(init: &KernelInit<'_>) -> Result<ImageWindow> {
    let window = depthwise_window(init)?;
    let [n, h, w, c] = window.dilations;
    if (h, w) != (1, 1) {
        return Err(unimplemented_error!(
            "Current kernel implementation does not support dilations, received [{n} {h} {w} {c}]"
        ));
    }
    Ok(window)
}

/// The window of a gradient. As in the reference, it takes no notice of dilations.
fn backprop_window(init: &KernelInit<'_>) -> Result<ImageWindow> {
    let window = depthwise_window(init)?;
    check_format(&window)?;
    ImageWindow::new(init.attrs, window.format, window.strides, [1; 4])
}

/// The geometry of a depthwise convolution whose input and filter are known.
fn geometry(window: &ImageWindow, input: &Shape, filter: &Shape) -> Result<Conv2dGeometry> {
    if input.rank() != 4 {
        return Err(invalid!("input must be 4-dimensional{input}"));
    }
    if filter.rank() != 4 {
        return Err(invalid!("filter must be 4-dimensional: {filter}"));
    }
    let format = window.format;
    let (in_c, multiplier) = (input.dim(format.channels()), filter.dim(3));
    if in_c != filter.dim(2) {
        return Err(invalid!(
            "input and filter must have the same depth: {} vs {}",
            in_c,
            filter[2]
        ));
    }
    let (in_h, in_w) = (input.dim(format.rows()), input.dim(format.cols()));
    let rows = window.rows.places(in_h, filter.dim(0))?;
    let cols = window.cols.places(in_w, filter.dim(1))?;
    let out_c = in_c
        .checked_mul(multiplier)
        .ok_or_else(|| invalid!("depth_multiplier * in_depth overflows"))?;
    Ok(Conv2dGeometry {
        batch: input.dim(0),
        in_h,
        in_w,
        in_c,
        filter_h: filter.dim(0),
        filter_w: filter.dim(1),
        out_c,
        out_h: rows.count,
        out_w: cols.count,
        stride_h: window.rows.stride as usize,
        stride_w: window.cols.stride as usize,
        dilation_h: 1,
        dilation_w: 1,
        pad_top: rows.before,
        pad_left: cols.before,
        groups: in_c,
    })
}

struct Convolve;

impl TypedLoop for Convolve {
    type Loop = ConvLoop;
}

impl<T: Elem + ConvElem> LoopFor<T> for Convolve {
    const LOOP: ConvLoop = |par, g, input, filter, out| {
        depthwise_conv2d(par, g, input.typed::<T>(), filter.typed(), out.typed());
    };
}

struct BackpropInput;

impl TypedLoop for BackpropInput {
    type Loop = ConvLoop;
}

impl<T: Elem + ConvElem> LoopFor<T> for BackpropInput {
    const LOOP: ConvLoop = |par, g, filter, gradient, out| {
        let (filter, gradient) = (filter.typed::<T>(), gradient.typed());
        depthwise_conv2d_backprop_input(par, g, filter, gradient, out.typed());
    };
}

struct BackpropFilter;

impl TypedLoop for BackpropFilter {
    type Loop = ConvLoop;
}

impl<T: Elem + ConvElem> LoopFor<T> for BackpropFilter {
    const LOOP: ConvLoop = |par, g, input, gradient, out| {
        let (input, gradient) = (input.typed::<T>(), gradient.typed());
        depthwise_conv2d_backprop_filter(par, g, input, gradient, out.typed());
    };
}

fn depthwise_kernel(init: &KernelInit<'_>, run: ConvLoop) -> Result<Box<dyn Kernel>> {
    let window = forward_window(init)?;
    kernel(move |ctx: &mut OpContext<'_>| {
        let (input, filter) = (ctx.input(0)?, ctx.input(1)?);
        let g = geometry(&window, input.shape(), filter.shape())?;
        let sizes = window.format.sizes(g.batch, g.out_h, g.out_w, g.out_c);
        // An empty result needs no format.
        ctx.try_produce(0, Shape::new(&sizes)?, |out| {
            check_format(&window)?;
            run_or_zero(run, ctx, &g, input, filter, out);
            Ok(())
        })
    })
}

/// The shape in a vector of sizes; `name` is the argument's.
fn shape_of(sizes: &Tensor, op: &str, name: &str) -> Result<Shape> {
    if sizes.rank() != 1 {
        return Err(invalid!("{op}: {name} input must be 1-dim, not {}", sizes.rank()));
    }
    let sizes = sizes.to_i64s()?;
    if let Some(axis) = sizes.iter().position(|&size| size < 0) {
        return Err(invalid!("Dimension {axis} of {name} must be >= 0"));
    }
    Shape::new(&sizes)
}

/// The geometry of a gradient, checked against the shape of `out_backprop`; `op` begins the messages.
fn backprop_geometry(
    op: &str,
    window: &ImageWindow,
    input: &Shape,
    filter: &Shape,
    gradient: &Shape,
) -> Result<Conv2dGeometry> {
    check_ranks(op, input, filter, gradient)?;
    if input[0] != gradient[0] {
        return Err(invalid!("{op}: input and out_backprop must have the same batch size"));
    }
    if input[3] != filter[2] {
        return Err(invalid!("{op}: input and filter must have the same in_depth"));
    }
    let g = geometry(window, input, filter)?;
    if gradient.dim(3) != g.out_c {
        return Err(invalid!("{op}: depth_multiplier * in_depth not equal to out_depth"));
    }
    for (actual, computed, name) in
        [(gradient.dim(1), g.out_h, "rows"), (gradient.dim(2), g.out_w, "cols")]
    {
        if actual != computed {
            return Err(invalid!(
                "{op}: Number of {name} of out_backprop doesn't match computed: actual = {actual}, \
                 computed = {computed}"
            ));
        }
    }
    Ok(g)
}

fn backprop_input_kernel(init: &KernelInit<'_>, run: ConvLoop) -> Result<Box<dyn Kernel>> {
    const OP: &str = "DepthwiseConv2DBackpropInput";
    let window = backprop_window(init)?;
    kernel(move |ctx: &mut OpContext<'_>| {
        let (filter, gradient) = (ctx.input(1)?, ctx.input(2)?);
        let input = shape_of(ctx.input(0)?, "Conv2DBackpropInput", "input_sizes")?;
        let g = backprop_geometry(OP, &window, &input, filter.shape(), gradient.shape())?;
        ctx.produce(0, input, |out| run_or_zero(run, ctx, &g, filter, gradient, out))
    })
}

fn backprop_filter_kernel(init: &KernelInit<'_>, run: ConvLoop) -> Result<Box<dyn Kernel>> {
    const OP: &str = "DepthwiseConv2DBackpropFilter";
    let window = backprop_window(init)?;
    kernel(move |ctx: &mut OpContext<'_>| {
        let (input, gradient) = (ctx.input(0)?, ctx.input(2)?);
        let filter = shape_of(ctx.input(1)?, "Conv2DBackpropFilter", "filter_sizes")?;
        let g = backprop_geometry(OP, &window, input.shape(), &filter, gradient.shape())?;
        ctx.produce(0, filter, |out| run_or_zero(run, ctx, &g, input, gradient, out))
    })
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

    fn attrs(strides: [i64; 4]) -> [(&'static str, AttrValue); 3] {
        [
            ("T", AttrValue::Type(DType::FLOAT)),
            ("strides", AttrValue::ints(strides)),
            ("padding", AttrValue::string("VALID")),
        ]
    }

    #[test]
    fn each_channel_has_its_own_filters() {
        let input = floats(&[1, 1, 2, 2], &[1.0, 2.0, 3.0, 4.0]);
        let filter = floats(&[1, 1, 2, 2], &[1.0, 10.0, 100.0, 1000.0]);
        let inputs = [input, filter];
        let out = run_op(&registry(), "DepthwiseConv2dNative", &attrs([1; 4]), &inputs).unwrap();
        let expected = [1.0, 10.0, 200.0, 2000.0, 3.0, 30.0, 400.0, 4000.0];
        assert_eq!(out[0].as_slice::<f32>().unwrap(), expected);
        let uneven = attrs([1, 1, 2, 1]);
        let error = run_op(&registry(), "DepthwiseConv2dNative", &uneven, &inputs).unwrap_err();
        assert!(error.message().contains("only supports equal length strides"), "{error}");
    }

    #[test]
    fn other_formats_are_for_empty_results() {
        let attrs = [&attrs([1; 4])[..], &[("data_format", AttrValue::string("NCHW"))]].concat();
        let run = |input: &[i64]| {
            let count = input.iter().product::<i64>() as usize;
            let inputs = [floats(input, &vec![0.0; count]), floats(&[2, 2, 3, 4], &[0.0; 48])];
            run_op(&registry(), "DepthwiseConv2dNative", &attrs, &inputs)
        };
        assert_eq!(run(&[0, 3, 5, 5]).unwrap()[0].shape().dims(), [0, 12, 4, 4]);
        assert_eq!(run(&[1, 3, 1, 5]).unwrap()[0].shape().dims(), [1, 12, 0, 4]);
        assert!(run(&[1, 3, 5, 5]).unwrap_err().message().contains("only supported for NHWC"));
    }

    #[test]
    fn shapes() {
        let shape = |inputs: &str| {
            infer(&registry(), "DepthwiseConv2dNative", &attrs([1, 2, 2, 1]), inputs, &[])
        };
        assert_eq!(shape("[1,5,?,?];[3,3,2,4]").unwrap(), "[1,2,?,8]");
        assert_eq!(
            shape("[1,5,5,3];[3,3,2,4]").unwrap_err().message(),
            "Dimensions must be equal, but are 3 and 2"
        );
    }
}

//! `Conv3D` and its gradients.

use tfcore_base::{Elem, Floats, Half, LoopFor, Result, TypedLoop, invalid, require};
use tfcore_framework::geometry::{AxisPadding, WindowAxis};
use tfcore_framework::{
    Attrs, InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_ops,
};
use tfcore_math::conv::{
    Conv3dGeometry, ConvElem, conv3d, conv3d_backprop_filter, conv3d_backprop_input,
};
use tfcore_math::pool::Parallel;
use tfcore_tensor::{Elems, ElemsMut, Shape, Tensor};

use crate::conv::check_depths;
use crate::window_attrs::{channels_second, int32s, same_or_valid};

/// The types of the first versions of the gradients.
type FirstTypes = (f32, f64, Half);

pub(crate) fn register(r: &mut Registry) {
    // `Conv3D(input: T, filter: T) -> output: T`, attrs `strides`, `padding`, `data_format`, `dilations`: `Conv2D` with one
    // axis more.
    r.op("Conv3D").shape(conv3d_shape).typed_kernel::<Convolve, Floats>("T", conv3d_kernel);

    // `Conv3DBackpropInputV2(input_sizes: Tshape, filter: T, out_backprop: T) -> output: T`, attrs as `Conv3D`.
    // The first version has the input itself for the sizes.
    r.op("Conv3DBackpropInputV2")
        .shape(|ctx| sizes_shape(ctx, 0))
        .typed_kernel::<BackpropInput, Floats>("T", |init, run| backprop_input(init, run, true));
    r.op("Conv3DBackpropInput")
        .shape(|ctx| same_rank(ctx, 0))
        .typed_kernel::<BackpropInput, FirstTypes>("T", |init, run| {
            backprop_input(init, run, false)
        });

    // `Conv3DBackpropFilterV2(input: T, filter_sizes: int32, out_backprop: T) -> output: T`, attrs as `Conv3D`.
    // The first version has the filter itself for the sizes.
    r.op("Conv3DBackpropFilterV2")
        .shape(|ctx| sizes_shape(ctx, 1))
        .typed_kernel::<BackpropFilter, Floats>("T", |init, run| backprop_filter(init, run, true));
    r.op("Conv3DBackpropFilter")
        .shape(|ctx| same_rank(ctx, 1))
        .typed_kernel::<BackpropFilter, FirstTypes>("T", |init, run| {
            backprop_filter(init, run, false)
        });
}

/// The five integers of attr `name`; `error` says that there are not as many.
fn five(attrs: &Attrs, name: &str, error: impl FnOnce(usize) -> String) -> Result<[i64; 5]> {
    let values = int32s(attrs, name)?;
    <[i64; 5]>::try_from(values.as_slice()).map_err(|_| invalid!("{}", error(values.len())))
}

/// `Conv3D`'s shape function, which others share; attrs `strides`, `dilations`, `padding`, `data_format`.
pub(crate) fn conv3d_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let input = shape_ops::with_rank(ctx.input(0), 5)?;
    let filter = shape_ops::with_rank(ctx.input(1), 5)?;
    let field = |name: &str, shown: &str| {
        five(ctx.attrs, name, |len| {
            format!("Conv3D requires the {shown} attribute to contain 5 values, but got: {len}")
        })
    };
    let dilations = field("dilations", "dilation")?;
    let strides = field("strides", "stride")?;
    let second = channels_second(ctx.attrs)?;
    let (channels, first) = if second { (1, 2) } else { (4, 1) };
    check_depths(input.dim(channels), filter.dim(3), filter.dim(4))?;
    let padding = same_or_valid(ctx.attrs)?;
    let mut shape = shape_ops::replace_dim(&input, channels as i64, filter.dim(4))?;
    for axis in 0..3 {
        let at = first + axis;
        let along = WindowAxis { stride: strides[at], dilation: dilations[at], padding };
        let dim = along.output_dim(input.dim(at), filter.dim(axis))?;
        shape = shape_ops::replace_dim(&shape, at as i64, dim)?;
    }
    ctx.set_output(0, shape);
    Ok(())
}

/// The output has the shape in input `index`.
fn sizes_shape(ctx: &mut InferenceContext<'_>, index: usize) -> Result<()> {
    let sizes = ctx.operand_shape(index)?;
    ctx.set_output(0, shape_ops::with_rank(&sizes, 5)?);
    Ok(())
}

/// The output has the shape of input `index`.
fn same_rank(ctx: &mut InferenceContext<'_>, index: usize) -> Result<()> {
    let shape = shape_ops::with_rank(ctx.input(index), 5)?;
    ctx.set_output(0, shape);
    Ok(())
}

/// Input or filter, filter or gradient, result.
pub(crate) type VolumeLoop = fn(Parallel<'_>, &Conv3dGeometry, Elems<'_>, Elems<'_>, ElemsMut<'_>);

pub(crate) struct Convolve;

impl TypedLoop for Convolve {
    type Loop = VolumeLoop;
}

impl<T: Elem + ConvElem> LoopFor<T> for Convolve {
    const LOOP: VolumeLoop =
        |par, g, x, y, out| conv3d(par, g, x.typed::<T>(), y.typed(), out.typed());
}

struct BackpropInput;

impl TypedLoop for BackpropInput {
    type Loop = VolumeLoop;
}

impl<T: Elem + ConvElem> LoopFor<T> for BackpropInput {
    const LOOP: VolumeLoop =
        |par, g, x, y, out| conv3d_backprop_input(par, g, x.typed::<T>(), y.typed(), out.typed());
}

struct BackpropFilter;

impl TypedLoop for BackpropFilter {
    type Loop = VolumeLoop;
}

impl<T: Elem + ConvElem> LoopFor<T> for BackpropFilter {
    const LOOP: VolumeLoop =
        |par, g, x, y, out| conv3d_backprop_filter(par, g, x.typed::<T>(), y.typed(), out.typed());
}

/// Attrs `strides`, `dilations`, `padding` of a volume: planes, rows, columns.
#[derive(Clone, Copy)]
pub(crate) struct VolumeWindow {
    pub(crate) axes: [WindowAxis; 3],
    pub(crate) channels_second: bool,
}

impl VolumeWindow {
    /// Reads the attrs of `Conv3D`.
    pub(crate) fn from_attrs(attrs: &Attrs) -> Result<VolumeWindow> {
        let strides = five(attrs, "strides", |_| {
            "Sliding window strides field must specify 5 dimensions".into()
        })?;
        let dilations =
            five(attrs, "dilations", |_| "Dilation rates field must specify 5 dimensions".into())?;
        let channels_second = channels_second(attrs)?;
        let (channels, first) = if channels_second { (1, 2) } else { (4, 1) };
        require!(
            (strides[0], strides[channels]) == (1, 1),
            "Current implementation does not yet support strides in the batch and depth dimensions."
        );
        require!(
            (dilations[0], dilations[channels]) == (1, 1),
            "Current implementation does not yet support dilation rates in the batch and depth dimensions."
        );
        let padding = same_or_valid(attrs)?;
        let axes = [first, first + 1, first + 2].map(|at| WindowAxis {
            stride: strides[at],
            dilation: dilations[at],
            padding,
        });
        Ok(VolumeWindow { axes, channels_second })
    }

    /// Requires strides and dilations to be positive.
    pub(crate) fn check_positive(&self) -> Result<()> {
        require!(
            self.axes.iter().all(|axis| axis.stride > 0),
            "Spatial strides should be larger than 0."
        );
        require!(
            self.axes.iter().all(|axis| axis.dilation > 0),
            "Dilated rates should be larger than 0."
        );
        Ok(())
    }

    /// The geometry over an input of shape [batch, planes, rows, columns, channels].
    pub(crate) fn geometry(&self, input: &Shape, filter: &Shape) -> Result<Conv3dGeometry> {
        let (mut output, mut pad) = ([0; 3], [0; 3]);
        for axis in 0..3 {
            let places = self.axes[axis].places(input.dim(axis + 1), filter.dim(axis))?;
            (output[axis], pad[axis]) = (places.count, places.before);
        }
        Ok(Conv3dGeometry {
            batch: input.dim(0),
            input: [1, 2, 3].map(|axis| input.dim(axis)),
            in_c: input.dim(4),
            filter: [0, 1, 2].map(|axis| filter.dim(axis)),
            out_c: filter.dim(4),
            output,
            stride: self.axes.map(|axis| axis.stride as usize),
            dilation: self.axes.map(|axis| axis.dilation as usize),
            pad,
        })
    }
}

/// The shape of a convolution's result.
pub(crate) fn output_shape(g: &Conv3dGeometry) -> Result<Shape> {
    let [planes, rows, cols] = g.output;
    Shape::new(&[g.batch, planes, rows, cols, g.out_c].map(|size| size as i64))
}

/// What the CPU has no kernels for, and channels that do not meet.
pub(crate) fn check_supported(window: &VolumeWindow, input: &Shape, filter: &Shape) -> Result<()> {
    require!(
        !window.channels_second,
        "CPU implementation of Conv3D currently only supports the NHWC tensor format."
    );
    require!(
        window.axes.iter().all(|axis| axis.dilation == 1),
        "CPU implementation of Conv3D currently only supports dilated rates of 1."
    );
    require!(
        window.axes.iter().all(|axis| !matches!(axis.padding, AxisPadding::Explicit { .. })),
        "CPU implementation of Conv3D does not support explicit padding."
    );
    require!(
        filter[3] == input[4],
        "Number of channels in filter ({}) must match last dimension of input ({})",
        filter[3],
        input[4]
    );
    Ok(())
}

fn conv3d_kernel(init: &KernelInit<'_>, run: VolumeLoop) -> Result<Box<dyn Kernel>> {
    let window = VolumeWindow::from_attrs(init.attrs)?;
    window.check_positive()?;
    kernel(move |ctx: &mut OpContext<'_>| {
        let out = convolve(ctx, &window, run)?;
        ctx.set_output(0, out);
        Ok(())
    })
}

/// Convolves inputs 0 and 1.
pub(crate) fn convolve(
    ctx: &OpContext<'_>,
    window: &VolumeWindow,
    run: VolumeLoop,
) -> Result<Tensor> {
    let (input, filter) = (ctx.input(0)?, ctx.input(1)?);
    require!(input.rank() == 5, "input must be 5-dimensional");
    require!(filter.rank() == 5, "filter must be 5-dimensional");
    let channels = if window.channels_second { 1 } else { 4 };
    let (depth, filter_depth) = (input.shape()[channels], filter.shape()[3]);
    require!(filter_depth != 0, "filter_depth must be non-zero");
    require!(
        depth % filter_depth == 0,
        "Input depth must be evenly divisible by filter depth: {depth} vs {filter_depth}"
    );
    require!(
        filter.count() != 0,
        "filter must not have zero elements (i.e. all dimensions must be non-zero)"
    );
    let shape = input.shape();
    let geometry = if window.channels_second {
        let [n, c, d, h, w] = [0, 1, 2, 3, 4].map(|axis| shape[axis]);
        window.geometry(&Shape::new(&[n, d, h, w, c])?, filter.shape())?
    } else {
        window.geometry(shape, filter.shape())?
    };
    let mut out = ctx.allocate_output(0, output_shape(&geometry)?)?;
    if out.count() > 0 {
        check_supported(window, shape, filter.shape())?;
        run(ctx.parallel(), &geometry, input.elems(), filter.elems(), out.elems_mut()?);
    }
    Ok(out)
}

/// The window of a gradient; `kernel` names it in messages.
fn backprop_window(init: &KernelInit<'_>, kernel: &str, v2: bool) -> Result<VolumeWindow> {
    let attrs = init.attrs;
    if v2 && channels_second(attrs)? {
        return Err(invalid!("{kernel}OpV2 only supports NDHWC on the CPU."));
    }
    let window = if attrs.contains("data_format") {
        VolumeWindow::from_attrs(attrs)?
    } else {
        let mut attrs = attrs.clone();
        attrs.set("data_format", tfcore_framework::AttrValue::string("NDHWC"));
        VolumeWindow::from_attrs(&attrs)?
    };
    require!(
        window.axes.iter().all(|axis| axis.dilation == 1),
        "Current CPU implementation does not yet support dilation rates larger than 1."
    );
    Ok(window)
}

/// The geometry of a gradient, checked against the shape of `out_backprop`.
fn backprop_geometry(
    kernel: &str,
    window: &VolumeWindow,
    input: &Shape,
    filter: &Shape,
    gradient: &Shape,
) -> Result<Conv3dGeometry> {
    for (shape, name) in [(input, "input"), (filter, "filter_sizes"), (gradient, "out_backprop")] {
        require!(shape.rank() == 5, "{name} tensor must have 5 dimensions");
    }
    require!(
        input[4] == filter[3],
        "input and filter_sizes must have the same number of channels. Got {} for input and {} for \
         filter_sizes",
        input[4],
        filter[3]
    );
    require!(
        gradient[4] == filter[4],
        "out_backprop and filter_sizes must have the same number of channels. Got {} for out_backprop \
         and {} for filter_sizes",
        gradient[4],
        filter[4]
    );
    require!(
        input[0] == gradient[0],
        "{kernel}Op: input and out_backprop must have the same batch size. Input batch: {}, outbackprop \
         batch: {}, batch_dim: 0",
        input[0],
        gradient[0]
    );
    require!(filter[3] != 0, "{kernel}Op: filter depth must be strictly greated than zero");
    for axis in 0..3 {
        let along = &window.axes[axis];
        let count = along.places(input.dim(axis + 1), filter.dim(axis))?.count;
        require!(
            count == gradient.dim(axis + 1),
            "{kernel}Op: Size of out_backprop doesn't match computed: actual = {actual}, computed = \
             {count} spatial_dim: {} input: {} filter: {} output: {actual} stride: {} dilation: {}",
            axis + 1,
            input[axis + 1],
            filter[axis],
            along.stride,
            along.dilation,
            actual = gradient[axis + 1]
        );
    }
    window.geometry(input, filter)
}

/// The shape that a tensor of sizes has as its value.
fn shape_of_sizes(sizes: &Tensor, name: &str) -> Result<Shape> {
    require!(sizes.rank() == 1, "{name} shape must be rank 1 but is rank {}", sizes.rank());
    let sizes = sizes.to_i64s()?;
    if let Some(size) = sizes.iter().find(|&&size| size < 0) {
        return Err(invalid!("Dimension {size} must be >= 0"));
    }
    Shape::new(&sizes)
}

fn backprop_input(init: &KernelInit<'_>, run: VolumeLoop, v2: bool) -> Result<Box<dyn Kernel>> {
    const KERNEL: &str = "Conv3DBackpropInput";
    let window = backprop_window(init, KERNEL, v2)?;
    kernel(move |ctx: &mut OpContext<'_>| {
        let (filter, gradient) = (ctx.input(1)?, ctx.input(2)?);
        let input = match v2 {
            true if ctx.input(0)?.rank() != 1 => {
                let shape = ctx.input(0)?.shape();
                return Err(invalid!(
                    "shape must be a vector of {{int32,int64}}, got shape {shape}"
                ));
            }
            true => shape_of_sizes(ctx.input(0)?, "input_sizes")?,
            false => ctx.input(0)?.shape().clone(),
        };
        let g = backprop_geometry(KERNEL, &window, &input, filter.shape(), gradient.shape())?;
        ctx.produce(0, input, |out| {
            run(ctx.parallel(), &g, filter.elems(), gradient.elems(), out);
        })
    })
}

fn backprop_filter(init: &KernelInit<'_>, run: VolumeLoop, v2: bool) -> Result<Box<dyn Kernel>> {
    const KERNEL: &str = "Conv3DBackpropFilter";
    let window = backprop_window(init, KERNEL, v2)?;
    kernel(move |ctx: &mut OpContext<'_>| {
        let (input, gradient) = (ctx.input(0)?, ctx.input(2)?);
        let filter = match v2 {
            true => shape_of_sizes(ctx.input(1)?, "filter_sizes")?,
            false => ctx.input(1)?.shape().clone(),
        };
        let g = backprop_geometry(KERNEL, &window, input.shape(), &filter, gradient.shape())?;
        ctx.produce(0, filter, |out| {
            run(ctx.parallel(), &g, input.elems(), gradient.elems(), out);
        })
    })
}

#[cfg(test)]
mod tests {
    use tfcore_base::DType;
    use tfcore_framework::AttrValue;
    use tfcore_framework::testing::{floats, infer, registry_of, run_op, tensor};

    use super::*;

    fn attrs(padding: &str) -> [(&'static str, AttrValue); 3] {
        [
            ("T", AttrValue::Type(DType::FLOAT)),
            ("strides", AttrValue::ints([1; 5])),
            ("padding", AttrValue::string(padding)),
        ]
    }

    #[test]
    fn differences_of_planes_and_their_gradients() {
        let registry = registry_of(register);
        let run = |op: &str, padding: &str, inputs: &[Tensor]| {
            let out = run_op(&registry, op, &attrs(padding), inputs).unwrap();
            out[0].as_slice::<f32>().unwrap().to_vec()
        };
        let input = floats(&[1, 4, 1, 1, 1], &[1.0, 4.0, 9.0, 16.0]);
        let filter = floats(&[2, 1, 1, 1, 1], &[-1.0, 1.0]);
        let both = [input.clone(), filter.clone()];
        assert_eq!(run("Conv3D", "VALID", &both), [3.0, 5.0, 7.0]);
        assert_eq!(run("Conv3D", "SAME", &both), [3.0, 5.0, 7.0, -16.0]);
        let gradient = floats(&[1, 3, 1, 1, 1], &[1.0, 10.0, 100.0]);
        let sizes = tensor(&[5], &[1i32, 4, 1, 1, 1]);
        let expected = [-1.0, -9.0, -90.0, 100.0];
        let op = "Conv3DBackpropInputV2";
        assert_eq!(run(op, "VALID", &[sizes, filter.clone(), gradient.clone()]), expected);
        let op = "Conv3DBackpropInput";
        assert_eq!(run(op, "VALID", &[input.clone(), filter.clone(), gradient.clone()]), expected);
        let op = "Conv3DBackpropFilter";
        assert_eq!(run(op, "VALID", &[input, filter, gradient]), [941.0, 1694.0]);
    }

    #[test]
    fn shapes() {
        let registry = registry_of(register);
        let shape = |inputs| infer(&registry, "Conv3D", &attrs("VALID"), inputs, &[]);
        assert_eq!(shape("[?,5,5,5,2];[2,2,3,2,4]").unwrap(), "[?,4,4,3,4]");
        assert_eq!(shape("?;?").unwrap(), "[?,?,?,?,?]");
        assert!(shape("[1,1,5,5,2];[2,2,3,2,4]").is_err());
    }
}

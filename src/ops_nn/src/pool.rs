//! Pooling: the largest element or the mean of windows over images.

use tfcore_base::{
    Elem, Floats, LoopFor, RealNumbers, Result, TypedLoop, invalid, unimplemented_error,
};
use tfcore_framework::geometry::{AxisPadding, ImageFormat, ImageWindow, WindowAxis};
use tfcore_framework::{
    Attrs, InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_ops,
};
use tfcore_math::pool::{Parallel, par_chunks_mut};
use tfcore_math::window::{MaxElem, MeanElem, PoolGeometry, avg_pool, max_pool};
use tfcore_tensor::{Elems, ElemsMut, PartialShape, Shape};

use crate::window_attrs::four;

pub(crate) fn register(r: &mut Registry) {
    // `MaxPool(input: T) -> output: T`, attrs `ksize`, `strides`, `padding`, `explicit_paddings`,
    // `data_format`: the largest element of each window, or of neighbouring channels.
    r.op("MaxPool").shape(max_pool_shape).typed_kernel::<Max, RealNumbers>("T", max_pool_kernel);

    // `MaxPoolV2(input: T, ksize: int32, strides: int32) -> output: T`, attrs `padding`, `data_format`.
    r.op("MaxPoolV2")
        .shape(max_pool_v2_shape)
        .typed_kernel::<Max, RealNumbers>("T", max_pool_v2_kernel);

    // `AvgPool(value: T) -> output: T`, attrs `ksize`, `strides`, `padding`, `data_format`: the mean of
    // the elements of each window that lie in the image.
    r.op("AvgPool").shape(avg_pool_shape).typed_kernel::<Mean, Floats>("T", avg_pool_kernel);
}

/// The window of attrs `strides` and `padding`, and `ksize`, with the errors of shape functions.
fn attr_window(ctx: &InferenceContext<'_>, op: &str) -> Result<(ImageWindow, [i64; 4])> {
    let format = ImageFormat::from_attrs(ctx.attrs)?;
    let field = |name: &str, shown: &str| {
        four(ctx.attrs, name, |len| {
            invalid!("{op} requires the {shown} attribute to contain 4 values, but got: {len}")
        })
    };
    let strides = field("strides", "stride")?;
    let ksize = field("ksize", "ksize")?;
    Ok((ImageWindow::new(ctx.attrs, format, strides, [1; 4])?, ksize))
}

/// The input's shape, which must have the rank of the format.
fn image_shape(ctx: &InferenceContext<'_>) -> Result<PartialShape> {
    let format = ImageFormat::from_attrs(ctx.attrs)?;
    let shape = shape_ops::with_rank(ctx.input(0), format.rank())?;
    if format == ImageFormat::NchwVectC && !matches!(shape.dim(4).value(), Some(4 | 32)) {
        return Err(invalid!("VECT_C dimension must be 4 or 32, but is {}", shape.dim(4).to_i64()));
    }
    Ok(shape)
}

pub(crate) fn max_pool_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let shape = image_shape(ctx)?;
    let (window, ksize) = attr_window(ctx, "MaxPool")?;
    let pooled = pooled_shape(&shape, &window, ksize, true)?;
    ctx.set_output(0, pooled);
    Ok(())
}

fn avg_pool_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let shape = image_shape(ctx)?;
    let (window, ksize) = attr_window(ctx, "AvgPool")?;
    let pooled = pooled_shape(&shape, &window, ksize, false)?;
    ctx.set_output(0, pooled);
    Ok(())
}

fn max_pool_v2_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    max_pool_v2_shape_of(ctx, 1)
}

/// The pooled shape, for an op that has the window's sizes in input `first` and its strides in the next one.
pub(crate) fn max_pool_v2_shape_of(ctx: &mut InferenceContext<'_>, first: usize) -> Result<()> {
    let shape = image_shape(ctx)?;
    for index in [first, first + 1] {
        let sizes = shape_ops::with_rank(ctx.input(index), 1)?;
        shape_ops::with_value(sizes.dim(0), 4)?;
    }
    let (Some(ksize), Some(strides)) = (ctx.operand_i64s(first)?, ctx.operand_i64s(first + 1)?)
    else {
        return Ok(());
    };
    let sizes = |values: Vec<i64>, name: &str| {
        let len = values.len();
        <[i64; 4]>::try_from(values).map_err(|_| {
            invalid!("MaxPool requires the {name} attribute to contain 4 values, but got: {len}")
        })
    };
    let (strides, ksize) = (sizes(strides, "stride")?, sizes(ksize, "ksize")?);
    let format = ImageFormat::from_attrs(ctx.attrs)?;
    let window = ImageWindow::new(ctx.attrs, format, strides, [1; 4])?;
    let pooled = pooled_shape(&shape, &window, ksize, true)?;
    ctx.set_output(0, pooled);
    Ok(())
}

fn pooled_shape(
    shape: &PartialShape,
    window: &ImageWindow,
    ksize: [i64; 4],
    over_channels: bool,
) -> Result<PartialShape> {
    let format = window.format;
    let rows = window.rows.output_dim(shape.dim(format.rows()), ksize[format.rows()])?;
    let cols = window.cols.output_dim(shape.dim(format.cols()), ksize[format.cols()])?;
    let mut channels = shape.dim(format.channels());
    if over_channels {
        let axis = format.channels();
        // Explicit padding of the channels can only be 0.
        let padding = match window.rows.padding {
            AxisPadding::Explicit { .. } => AxisPadding::Valid,
            padding => padding,
        };
        let along = WindowAxis { stride: window.strides[axis], dilation: 1, padding };
        channels = along.output_dim(channels, ksize[axis])?;
    }
    Ok(format.shape(shape.dim(format.batch()), rows, cols, channels))
}

/// Windows of known size over images.
#[derive(Clone)]
pub(crate) struct Pooling {
    window: ImageWindow,
    ksize: [i64; 4],
}

/// What a [`Pooling`] does to an input of known shape.
pub(crate) enum Pooled {
    Spatial(PoolGeometry),
    /// Across so many neighbouring channels.
    Depthwise(usize),
}

impl Pooling {
    pub(crate) fn new(window: ImageWindow, ksize: [i64; 4]) -> Result<Pooling> {
        if ksize[0] != 1 || window.strides[0] != 1 {
            return Err(unimplemented_error!(
                "Pooling is not yet supported on the batch dimension."
            ));
        }
        Ok(Pooling { window, ksize })
    }

    /// The pooling of attrs `ksize`, `strides` and `padding`.
    pub(crate) fn from_attrs(attrs: &Attrs, op: &str) -> Result<Pooling> {
        let format = ImageFormat::from_attrs(attrs)?;
        if format != ImageFormat::Nhwc {
            return Err(invalid!("Default {op} only supports NHWC on device type CPU"));
        }
        let field = |name: &str, shown: &str| {
            four(attrs, name, |_| {
                invalid!("Sliding window {shown} field must specify 4 dimensions")
            })
        };
        let ksize = field("ksize", "ksize")?;
        if let Some(size) = ksize.iter().find(|&&size| size <= 0) {
            if op.starts_with("AvgPooling") {
                return Err(invalid!("ksize must be a positive int32 value, got:{size}"));
            }
            let [n, h, w, c] = ksize;
            return Err(invalid!(
                "Sliding window ksize must be positive. The specified or inferred ksize is: {n},{h},{w},{c}"
            ));
        }
        let strides = field("strides", "stride")?;
        Pooling::new(ImageWindow::new(attrs, format, strides, [1; 4])?, ksize)
    }

    pub(crate) fn of(&self, shape: &Shape) -> Result<Pooled> {
        let &[_, _, _, channels] = shape.to_usizes().as_slice() else {
            return Err(invalid!(
                "tensor_in_shape must have 2 spatial dimensions. {} 0",
                shape.rank()
            ));
        };
        let [_, window_h, window_w, depth] = self.ksize.map(|size| size as usize);
        if depth != 1 && (window_h, window_w) != (1, 1) {
            return Err(unimplemented_error!(
                "MaxPooling supports exactly one of pooling across depth or pooling across width/height."
            ));
        }
        if depth != 1 {
            return self.check_depthwise(channels, depth);
        }
        self.check_explicit()?;
        Ok(Pooled::Spatial(self.of_rows_and_cols(shape)?))
    }

    /// True if the window reaches over channels.
    pub(crate) fn is_depthwise(&self) -> bool {
        self.ksize[3] != 1 || self.window.strides[3] != 1
    }

    /// The pooling of rows and columns of a shape of rank 4.
    pub(crate) fn of_rows_and_cols(&self, shape: &Shape) -> Result<PoolGeometry> {
        let [batch, in_h, in_w, channels] = [0, 1, 2, 3].map(|axis| shape.dim(axis));
        let [window_h, window_w] = [1, 2].map(|axis| self.ksize[axis] as usize);
        let rows = self.window.rows.places(in_h, window_h)?;
        let cols = self.window.cols.places(in_w, window_w)?;
        Ok(PoolGeometry {
            batch,
            in_h,
            in_w,
            channels,
            window_h,
            window_w,
            stride_h: self.window.rows.stride as usize,
            stride_w: self.window.cols.stride as usize,
            pad_top: rows.before,
            pad_left: cols.before,
            out_h: rows.count,
            out_w: cols.count,
        })
    }

    /// As [`Pooling::of`], for ops that do not pool across channels.
    pub(crate) fn spatial(&self, shape: &Shape) -> Result<PoolGeometry> {
        match self.of(shape)? {
            Pooled::Spatial(geometry) => Ok(geometry),
            Pooled::Depthwise(_) => Err(unimplemented_error!(
                "Non-spatial pooling is not yet supported. Volunteers? :)"
            )),
        }
    }

    fn check_depthwise(&self, channels: usize, depth: usize) -> Result<Pooled> {
        if !channels.is_multiple_of(depth) {
            return Err(unimplemented_error!(
                "Depthwise max pooling requires the depth window to evenly divide the input depth"
            ));
        }
        if self.window.strides[3] != self.ksize[3] {
            return Err(unimplemented_error!(
                "Depthwise max pooling requires the depth window to equal the depth stride"
            ));
        }
        if matches!(self.window.rows.padding, AxisPadding::Explicit { .. }) {
            return Err(unimplemented_error!(
                "Depthwise max pooling does not support explicit padding."
            ));
        }
        Ok(Pooled::Depthwise(depth))
    }

    /// Explicit padding must not hide a whole window.
    fn check_explicit(&self) -> Result<()> {
        let sides = [
            (self.window.rows, self.ksize[1], ["Top", "Bottom"]),
            (self.window.cols, self.ksize[2], ["Left", "Right"]),
        ];
        for (axis, size, names) in sides {
            let AxisPadding::Explicit { before, after } = axis.padding else {
                continue;
            };
            for (padding, name) in [before, after].into_iter().zip(names) {
                if padding >= size {
                    return Err(invalid!(
                        "{name} padding {padding} needs to be smaller than the window size {size}"
                    ));
                }
            }
        }
        Ok(())
    }
}

pub(crate) fn output_shape(g: &PoolGeometry) -> Result<Shape> {
    Shape::new(&ImageFormat::Nhwc.sizes(g.batch, g.out_h, g.out_w, g.channels))
}

type PoolLoop = fn(Parallel<'_>, &PoolGeometry, Elems<'_>, ElemsMut<'_>);
type DepthLoop = fn(Parallel<'_>, usize, Elems<'_>, ElemsMut<'_>);

/// The loops of `MaxPool` for one type: over space and over channels.
#[derive(Clone, Copy)]
struct MaxLoops {
    spatial: PoolLoop,
    depthwise: DepthLoop,
}

struct Max;

impl TypedLoop for Max {
    type Loop = MaxLoops;
}

impl<T: Elem + MaxElem> LoopFor<T> for Max {
    const LOOP: MaxLoops = MaxLoops {
        spatial: |par, g, x, out| max_pool(par, g, x.typed::<T>(), out.typed()),
        depthwise: |par, depth, x, out| {
            let x = x.typed::<T>();
            par_chunks_mut(par, out.typed::<T>(), 1, 4096, &|start, piece| {
                let x = x[start * depth..].chunks_exact(depth);
                for (out, channels) in piece.iter_mut().zip(x) {
                    let larger = |max: T, &x: &T| if max < x { x } else { max };
                    *out = channels[1..].iter().fold(channels[0], larger);
                }
            });
        },
    };
}

impl MaxLoops {
    fn run(&self, ctx: &mut OpContext<'_>, pooling: &Pooling) -> Result<()> {
        let input = ctx.input(0)?;
        match pooling.of(input.shape())? {
            Pooled::Spatial(geometry) => ctx.produce(0, output_shape(&geometry)?, |out| {
                (self.spatial)(ctx.parallel(), &geometry, input.elems(), out);
            }),
            Pooled::Depthwise(depth) => {
                let [batch, rows, cols] = [0, 1, 2].map(|axis| input.dim(axis));
                let shape = ImageFormat::Nhwc.sizes(batch, rows, cols, input.dim(3) / depth);
                ctx.produce(0, Shape::new(&shape)?, |out| {
                    (self.depthwise)(ctx.parallel(), depth, input.elems(), out);
                })
            }
        }
    }
}

fn max_pool_kernel(init: &KernelInit<'_>, loops: MaxLoops) -> Result<Box<dyn Kernel>> {
    let pooling = Pooling::from_attrs(init.attrs, "MaxPoolingOp")?;
    kernel(move |ctx: &mut OpContext<'_>| loops.run(ctx, &pooling))
}

fn max_pool_v2_kernel(init: &KernelInit<'_>, loops: MaxLoops) -> Result<Box<dyn Kernel>> {
    let format = ImageFormat::from_attrs(init.attrs)?;
    if format != ImageFormat::Nhwc {
        return Err(invalid!(
            "MaxPoolingV2Op only supports NHWC or NCHW_VECT_C. Got: {}",
            format.name()
        ));
    }
    let attrs = init.attrs.clone();
    kernel(move |ctx: &mut OpContext<'_>| {
        let (ksize, strides) = input_sizes(ctx, 1)?;
        let pooling = Pooling::new(ImageWindow::new(&attrs, format, strides, [1; 4])?, ksize)?;
        loops.run(ctx, &pooling)
    })
}

/// The window's sizes and strides in inputs `first` and the next one.
pub(crate) fn input_sizes(ctx: &OpContext<'_>, first: usize) -> Result<([i64; 4], [i64; 4])> {
    let field = |index: usize, name: &str| {
        let values = ctx.input(index)?.to_i64s()?;
        <[i64; 4]>::try_from(values)
            .map_err(|_| invalid!("Sliding window {name} field must specify 4 dimensions"))
    };
    let ksize = field(first, "ksize")?;
    if ksize.iter().any(|&size| size <= 0) {
        return Err(invalid!("Sliding window ksize must be positive."));
    }
    Ok((ksize, field(first + 1, "stride")?))
}

struct Mean;

impl TypedLoop for Mean {
    type Loop = PoolLoop;
}

impl<T: Elem + MeanElem> LoopFor<T> for Mean {
    const LOOP: PoolLoop = |par, g, x, out| avg_pool(par, g, x.typed::<T>(), out.typed());
}

fn avg_pool_kernel(init: &KernelInit<'_>, run: PoolLoop) -> Result<Box<dyn Kernel>> {
    let pooling = Pooling::from_attrs(init.attrs, "AvgPoolingOp")?;
    kernel(move |ctx: &mut OpContext<'_>| {
        let input = ctx.input(0)?;
        let geometry = pooling.spatial(input.shape())?;
        ctx.produce(0, output_shape(&geometry)?, |out| {
            run(ctx.parallel(), &geometry, input.elems(), out);
        })
    })
}

#[cfg(test)]
mod tests {
    use tfcore_base::{Code, DType};
    use tfcore_framework::AttrValue;
    use tfcore_framework::testing::{floats, infer, registry_of, run_op};

    use super::*;

    fn registry() -> Registry {
        registry_of(register)
    }

    fn attrs(ksize: [i64; 4], strides: [i64; 4], padding: &str) -> [(&'static str, AttrValue); 4] {
        [
            ("T", AttrValue::Type(DType::FLOAT)),
            ("ksize", AttrValue::ints(ksize)),
            ("strides", AttrValue::ints(strides)),
            ("padding", AttrValue::string(padding)),
        ]
    }

    #[test]
    fn windows() {
        let input = floats(&[1, 2, 3, 1], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let (ksize, strides) = ([1, 2, 2, 1], [1, 1, 2, 1]);
        let cases: [(&str, &str, &[f32]); 4] = [
            ("MaxPool", "VALID", &[5.0]),
            ("MaxPool", "SAME", &[5.0, 6.0, 5.0, 6.0]),
            ("AvgPool", "VALID", &[3.0]),
            ("AvgPool", "SAME", &[3.0, 4.5, 4.5, 6.0]),
        ];
        for (op, padding, expected) in cases {
            let attrs = attrs(ksize, strides, padding);
            let out = run_op(&registry(), op, &attrs, std::slice::from_ref(&input)).unwrap();
            assert_eq!(out[0].as_slice::<f32>().unwrap(), expected, "{op} {padding}");
        }
        let attrs = attrs([1, 1, 1, 2], [1, 1, 1, 2], "VALID");
        let deep = floats(&[1, 1, 1, 4], &[1.0, 3.0, 4.0, 2.0]);
        let out = run_op(&registry(), "MaxPool", &attrs, &[deep]).unwrap();
        assert_eq!(out[0].as_slice::<f32>().unwrap(), [3.0, 4.0]);
    }

    #[test]
    fn what_the_cpu_lacks_is_refused() {
        let input = floats(&[1, 2, 2, 2], &[0.0; 8]);
        let cases = [
            ([2, 1, 1, 1], "not yet supported on the batch dimension", Code::Unimplemented),
            ([1, 2, 1, 2], "exactly one of pooling across depth", Code::Unimplemented),
            ([1, 0, 1, 1], "ksize is: 1,0,1,1", Code::InvalidArgument),
        ];
        for (ksize, message, code) in cases {
            let attrs = attrs(ksize, [1; 4], "SAME");
            let error =
                run_op(&registry(), "MaxPool", &attrs, std::slice::from_ref(&input)).unwrap_err();
            assert!(error.message().contains(message) && error.code() == code, "{error}");
        }
    }

    #[test]
    fn shapes() {
        let attrs = attrs([1, 2, 2, 1], [1, 2, 2, 1], "SAME");
        let pooled = |op, inputs| infer(&registry(), op, &attrs, inputs, &[]).unwrap();
        assert_eq!(pooled("MaxPool", "[?,5,?,3]"), "[?,3,?,3]");
        assert_eq!(pooled("AvgPool", "?"), "[?,?,?,?]");
        assert_eq!(pooled("MaxPoolV2", "[1,4,4,2];[4];[4]"), "?");
    }
}

//! Pooling over volumes: the largest element or the mean of windows, and their gradients.

use std::marker::PhantomData;
use std::ops::Range;

use num_traits::AsPrimitive;
use tfcore_base::{
    BFloat16, DType, Elem, LoopFor, Result, TypedLoop, invalid, unimplemented_error,
};
use tfcore_framework::geometry::{AxisPadding, WindowAxis};
use tfcore_framework::{
    Attrs, InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_fns, shape_ops,
};
use tfcore_math::pool::{Parallel, par_chunks_mut};
use tfcore_tensor::{Elems, ElemsMut, Shape, Tensor};

use crate::window_attrs::{channels_second, int32s, same_or_valid};

/// The types that there are kernels for. All sums are formed in `float`.
type Types = (f32, BFloat16);

pub(crate) fn register(r: &mut Registry) {
    // `AvgPool3D(input: T) -> output: T`, attrs `ksize`, `strides`, `padding`, `data_format`: the mean of the elements of
    // each window that lie in the volume.
    r.op("AvgPool3D").shape(pool_shape).typed_kernel::<Windows<Mean>, Types>("T", pool);

    // `MaxPool3D`, as `AvgPool3D`: the largest element of each window.
    r.op("MaxPool3D").shape(pool_shape).typed_kernel::<Windows<Largest>, Types>("T", pool);

    // `AvgPool3DGrad(orig_input_shape: int32, grad: T) -> output: T`: each gradient is shared by the elements of its
    // window.
    r.op("AvgPool3DGrad")
        .shape(average_grad_shape)
        .typed_kernel::<MeanGrad, Types>("T", average_grad);

    // `MaxPool3DGrad(orig_input: TInput, orig_output: TInput, grad: T) -> output: T`: each gradient goes to all elements
    // of its window that are as large as the output.
    r.op("MaxPool3DGrad")
        .shape(shape_fns::unchanged_of_rank(5))
        .typed_kernel::<LargestGrad, Types>("T", max_grad);
}

/// Windows of known size over volumes [batch, planes, rows, columns, channels].
#[derive(Clone, Copy)]
pub(crate) struct Pooling {
    window: [usize; 3],
    axes: [WindowAxis; 3],
}

/// The five integers of attr `name`.
fn five(attrs: &Attrs, name: &str, shown: &str) -> Result<[i64; 5]> {
    let values = int32s(attrs, name)?;
    <[i64; 5]>::try_from(values.as_slice())
        .map_err(|_| invalid!("Sliding window {shown} field must specify 5 dimensions"))
}

impl Pooling {
    pub(crate) fn from_attrs(attrs: &Attrs, kernel: &str) -> Result<Pooling> {
        let second = kernel == "MaxPooling3dGradGradOp";
        if channels_second(attrs)? && !second {
            return Err(invalid!("Default {kernel} only supports NDHWC on device type CPU"));
        }
        let ksize = five(attrs, "ksize", "ksize")?;
        let strides = five(attrs, "strides", "stride")?;
        let least = if kernel == "MaxPooling3dGradOp" { 0 } else { 1 };
        if let Some(size) = ksize.iter().find(|&&size| size < least) {
            return Err(match kernel {
                "AvgPooling3dGradOp" => invalid!("ksize must be positive, got: {size}"),
                _ => invalid!("Sliding window ksize field must have non-negative dimensions"),
            });
        }
        for (axis, name) in [(0, "batch"), (4, "depth")] {
            if (ksize[axis], strides[axis]) != (1, 1) {
                if second && axis == 4 {
                    return Err(unimplemented_error!(
                        "MaxPooling3dGradGrad is not yet supported on the depth dimension."
                    ));
                }
                return Err(unimplemented_error!(
                    "Pooling is not yet supported on the {name} dimension."
                ));
            }
        }
        if channels_second(attrs)? {
            return Err(invalid!("Default {kernel} only supports NDHWC on device type CPU"));
        }
        let padding = same_or_valid(attrs)?;
        Ok(Pooling {
            window: [1, 2, 3].map(|axis| ksize[axis] as usize),
            axes: [1, 2, 3].map(|axis| WindowAxis { stride: strides[axis], dilation: 1, padding }),
        })
    }

    /// The places of the windows over volumes of this shape, which has rank 5.
    pub(crate) fn of(&self, shape: &Shape) -> Result<Volume> {
        let input = [1, 2, 3].map(|axis| shape.dim(axis));
        let (mut output, mut before) = ([0; 3], [0; 3]);
        for axis in 0..3 {
            let places = self.axes[axis].places(input[axis], self.window[axis])?;
            (output[axis], before[axis]) = (places.count, places.before);
        }
        Ok(Volume {
            batch: shape.dim(0),
            input,
            channels: shape.dim(4),
            output,
            window: self.window,
            stride: self.axes.map(|axis| axis.stride as usize),
            before,
            skipped: [0; 3],
        })
    }
}

/// The extents of pooling over volumes; those of three numbers are planes, rows and columns.
#[derive(Clone, Copy)]
pub(crate) struct Volume {
    batch: usize,
    input: [usize; 3],
    pub(crate) channels: usize,
    output: [usize; 3],
    window: [usize; 3],
    stride: [usize; 3],
    /// Padding before the first element.
    before: [usize; 3],
    /// Elements before the first window.
    skipped: [usize; 3],
}

impl Volume {
    /// Windows that with `SAME` padding leave gaps, and elements over, leave as many at both ends. The gradients of the
    /// reference know nothing of that: there windows begin with the volume.
    fn centered(mut self, axes: [WindowAxis; 3]) -> Volume {
        for axis in 0..3 {
            if axes[axis].padding == AxisPadding::Same {
                let steps = self.output[axis].saturating_sub(1);
                let covered =
                    steps.saturating_mul(self.stride[axis]).saturating_add(self.window[axis]);
                self.skipped[axis] = self.input[axis].saturating_sub(covered) / 2;
            }
        }
        self
    }

    pub(crate) fn output_shape(&self) -> Result<Shape> {
        let [planes, rows, cols] = self.output;
        Shape::new(&[self.batch, planes, rows, cols, self.channels].map(|size| size as i64))
    }

    /// Elements of one volume of the input.
    pub(crate) fn input_len(&self) -> usize {
        self.input.iter().product::<usize>() * self.channels
    }

    /// Windows over one volume.
    pub(crate) fn num_windows(&self) -> usize {
        self.output.iter().product()
    }

    /// The elements along one axis in the window at `place`.
    fn reach(&self, axis: usize, place: usize) -> Range<usize> {
        let start = place.saturating_mul(self.stride[axis]).saturating_add(self.skipped[axis]);
        let end = start.saturating_add(self.window[axis]).saturating_sub(self.before[axis]);
        let end = end.min(self.input[axis]);
        start.saturating_sub(self.before[axis]).min(end)..end
    }

    /// The ranges of window `index` of a volume.
    pub(crate) fn ranges(&self, index: usize) -> [Range<usize>; 3] {
        let [_, rows, cols] = self.output;
        let places = [index / (rows * cols), index / cols % rows, index % cols];
        std::array::from_fn(|axis| self.reach(axis, places[axis]))
    }

    /// Calls `f` with where each point of a window begins in its volume.
    pub(crate) fn for_each_point(&self, ranges: &[Range<usize>; 3], mut f: impl FnMut(usize)) {
        let [_, rows, cols] = self.input;
        for plane in ranges[0].clone() {
            for row in ranges[1].clone() {
                for col in ranges[2].clone() {
                    f(((plane * rows + row) * cols + col) * self.channels);
                }
            }
        }
    }
}

pub(crate) fn pool_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let shape = shape_ops::with_rank(ctx.input(0), 5)?;
    let field = |name: &str, shown: &str| {
        let values = int32s(ctx.attrs, name)?;
        <[i64; 5]>::try_from(values.as_slice()).map_err(|_| {
            let len = values.len();
            invalid!("Pool3D ops require the {shown} attribute to contain 5 values, but got: {len}")
        })
    };
    let (strides, ksize) = (field("strides", "stride")?, field("ksize", "ksize")?);
    let padding = same_or_valid(ctx.attrs)?;
    let first = if channels_second(ctx.attrs)? { 2 } else { 1 };
    let mut pooled = shape.clone();
    for axis in first..first + 3 {
        let along = WindowAxis { stride: strides[axis], dilation: 1, padding };
        let dim = along.output_dim(shape.dim(axis), ksize[axis])?;
        pooled = shape_ops::replace_dim(&pooled, axis as i64, dim)?;
    }
    ctx.set_output(0, pooled);
    Ok(())
}

fn average_grad_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let sizes = ctx.operand_shape(0)?;
    ctx.set_output(0, shape_ops::with_rank(&sizes, 5)?);
    Ok(())
}

/// Elements read that are worth a thread of their own.
const GRAIN: usize = 1 << 15;

/// Pools a whole tensor.
type PoolLoop = fn(Parallel<'_>, &Volume, Elems<'_>, ElemsMut<'_>);

/// What becomes of a window.
trait Summary: 'static {
    const START: f32;

    fn take(sum: f32, x: f32) -> f32;
    fn finish(sum: f32, count: usize) -> f32;
}

struct Mean;

impl Summary for Mean {
    const START: f32 = 0.0;

    #[inline(always)]
    fn take(sum: f32, x: f32) -> f32 {
        sum + x
    }

    #[inline(always)]
    fn finish(sum: f32, count: usize) -> f32 {
        sum / count as f32
    }
}

struct Largest;

impl Summary for Largest {
    const START: f32 = f32::NEG_INFINITY;

    #[inline(always)]
    fn take(max: f32, x: f32) -> f32 {
        if max < x { x } else { max }
    }

    #[inline(always)]
    fn finish(max: f32, _: usize) -> f32 {
        max
    }
}

/// The loop that makes one of each window.
struct Windows<S>(PhantomData<S>);

impl<S: Summary> TypedLoop for Windows<S> {
    type Loop = PoolLoop;
}

impl<S: Summary, T: Elem + AsPrimitive<f32>> LoopFor<T> for Windows<S>
where
    f32: AsPrimitive<T>,
{
    const LOOP: PoolLoop = |parallel, volume, x, out| {
        let (x, channels) = (x.typed::<T>(), volume.channels);
        let size: usize = volume.window.iter().product::<usize>().max(1);
        par_chunks_mut(parallel, out.typed::<T>(), channels, GRAIN / size, &|start, piece| {
            let mut sums = vec![S::START; channels];
            let first = start / channels;
            for (index, out) in (first..).zip(piece.chunks_exact_mut(channels)) {
                let (image, window) = (index / volume.num_windows(), index % volume.num_windows());
                let x = &x[image * volume.input_len()..][..volume.input_len()];
                let mut count = 0;
                sums.fill(S::START);
                volume.for_each_point(&volume.ranges(window), |at| {
                    count += 1;
                    for (sum, x) in sums.iter_mut().zip(&x[at..at + channels]) {
                        *sum = S::take(*sum, x.as_());
                    }
                });
                for (out, &sum) in out.iter_mut().zip(&sums) {
                    *out = S::finish(sum, count).as_();
                }
            }
        });
    };
}

fn pool(init: &KernelInit<'_>, run: PoolLoop) -> Result<Box<dyn Kernel>> {
    let pooling = Pooling::from_attrs(init.attrs, "Pooling3DOp")?;
    kernel(move |ctx: &mut OpContext<'_>| {
        let x = ctx.input(0)?;
        if x.rank() != 5 {
            return Err(invalid!("tensor_in must be 5-dimensional"));
        }
        let volume = pooling.of(x.shape())?.centered(pooling.axes);
        ctx.produce(0, volume.output_shape()?, |out| {
            run(ctx.parallel(), &volume, x.elems(), out);
        })
    })
}

/// Adds the gradients of one volume of the batch, whose number is given, to those of its elements.
type GradLoop = fn(&Volume, usize, &[Elems<'_>], &mut [f32]);

struct MeanGrad;

impl TypedLoop for MeanGrad {
    type Loop = GradLoop;
}

impl<T: Elem + AsPrimitive<f32>> LoopFor<T> for MeanGrad {
    const LOOP: GradLoop = |volume, image, inputs, out| {
        let (channels, windows) = (volume.channels, volume.num_windows());
        let grads = &inputs[0].typed::<T>()[image * windows * channels..];
        for (index, grads) in grads.chunks_exact(channels).take(windows).enumerate() {
            let ranges = volume.ranges(index);
            let share = 1.0 / ranges.iter().map(Range::len).product::<usize>() as f32;
            volume.for_each_point(&ranges, |at| {
                for (out, grad) in out[at..at + channels].iter_mut().zip(grads) {
                    *out += grad.as_() * share;
                }
            });
        }
    };
}

struct LargestGrad;

impl TypedLoop for LargestGrad {
    type Loop = GradLoop;
}

impl<T: Elem + AsPrimitive<f32> + PartialEq> LoopFor<T> for LargestGrad {
    const LOOP: GradLoop = |volume, image, inputs, out| {
        let (channels, windows) = (volume.channels, volume.num_windows());
        let x = &inputs[0].typed::<T>()[image * volume.input_len()..];
        let [y, grads] = [1, 2].map(|i| &inputs[i].typed::<T>()[image * windows * channels..]);
        let cells = y.chunks_exact(channels).zip(grads.chunks_exact(channels)).take(windows);
        for (index, (y, grads)) in cells.enumerate() {
            volume.for_each_point(&volume.ranges(index), |at| {
                let x = &x[at..at + channels];
                for (((out, x), y), grad) in
                    out[at..at + channels].iter_mut().zip(x).zip(y).zip(grads)
                {
                    if x == y {
                        *out += grad.as_();
                    }
                }
            });
        }
    };
}

fn average_grad(init: &KernelInit<'_>, run: GradLoop) -> Result<Box<dyn Kernel>> {
    let pooling = Pooling::from_attrs(init.attrs, "AvgPooling3dGradOp")?;
    kernel(move |ctx: &mut OpContext<'_>| {
        let (sizes, grads) = (ctx.input(0)?, ctx.input(1)?);
        if sizes.rank() != 1 || sizes.count() != 5 {
            return Err(invalid!("tensor_in must be 1-dimensional and 5 elements"));
        }
        if grads.rank() != 5 {
            return Err(invalid!("out_backprop must be 5-dimensional"));
        }
        let shape = Shape::new(&sizes.to_i64s()?)?;
        for (axis, name) in [(0, "first"), (4, "last")] {
            let (expected, found) = (shape.dim(axis), grads.dim(axis));
            if expected != found {
                return Err(invalid!(
                    "Expected {name} dimension of tensor_in_shape and out_backprop to match, got {expected} and {found}"
                ));
            }
        }
        // The reference takes any number of gradients; those of windows outside of the volume go nowhere.
        let output = [1, 2, 3].map(|axis| grads.dim(axis));
        let volume = Volume { output, ..pooling.of(&shape)? };
        hand_back(ctx, run, &volume, shape, &[1])
    })
}

fn max_grad(init: &KernelInit<'_>, run: GradLoop) -> Result<Box<dyn Kernel>> {
    let pooling = Pooling::from_attrs(init.attrs, "MaxPooling3dGradOp")?;
    kernel(move |ctx: &mut OpContext<'_>| {
        for (index, name) in ["tensor_in", "tensor_out", "out_backprop"].into_iter().enumerate() {
            if ctx.input(index)?.rank() != 5 {
                return Err(invalid!("{name} must be 5-dimensional"));
            }
        }
        let shape = ctx.input(0)?.shape().clone();
        let volume = pooling.of(&shape)?;
        let expected = volume.output_shape()?;
        for (index, name) in [(1, "orig_output"), (2, "grad")] {
            let found = ctx.input(index)?.shape();
            if *found != expected {
                return Err(invalid!("Expected {name} shape to be {expected}, but got {found}"));
            }
        }
        hand_back(ctx, run, &volume, shape, &[0, 1, 2])
    })
}

/// Runs a gradient's loop on the inputs at these positions.
fn hand_back(
    ctx: &mut OpContext<'_>,
    run: GradLoop,
    volume: &Volume,
    shape: Shape,
    inputs: &[usize],
) -> Result<()> {
    let mut sums = ctx.allocate_zeros(DType::FLOAT, shape.clone())?;
    if sums.count() > 0 {
        let inputs: Vec<Elems<'_>> =
            inputs.iter().map(|&index| Ok(ctx.input(index)?.elems())).collect::<Result<_>>()?;
        let len = volume.input_len();
        let sums = sums.as_mut_slice::<f32>()?;
        par_chunks_mut(ctx.parallel(), sums, len, 1, &|start, piece| {
            for (image, out) in (start / len..).zip(piece.chunks_exact_mut(len)) {
                run(volume, image, &inputs, out);
            }
        });
    }
    let out = narrowed(ctx, sums)?;
    ctx.set_output(0, out);
    Ok(())
}

/// Sums as elements of the output's type.
fn narrowed(ctx: &OpContext<'_>, sums: Tensor) -> Result<Tensor> {
    if ctx.output_dtype(0) == DType::FLOAT {
        return Ok(sums);
    }
    let mut out = ctx.allocate_output(0, sums.shape().clone())?;
    let values = sums.as_slice::<f32>()?.iter();
    for (out, &sum) in out.as_mut_slice::<BFloat16>()?.iter_mut().zip(values) {
        *out = BFloat16::from_f32(sum);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use tfcore_framework::AttrValue;
    use tfcore_framework::testing::{infer, registry_of, run_op};

    use super::*;

    fn registry() -> Registry {
        registry_of(register)
    }

    fn attrs(ksize: [i64; 5], padding: &str, format: &str) -> [(&'static str, AttrValue); 6] {
        [
            ("T", AttrValue::Type(DType::FLOAT)),
            ("TInput", AttrValue::Type(DType::FLOAT)),
            ("ksize", AttrValue::ints(ksize)),
            ("strides", AttrValue::ints([1; 5])),
            ("padding", AttrValue::string(padding)),
            ("data_format", AttrValue::string(format)),
        ]
    }

    /// Three planes of one element.
    const KSIZE: [i64; 5] = [1, 2, 1, 1, 1];

    fn planes(values: &[f32]) -> Tensor {
        let shape = Shape::new(&[1, values.len() as i64, 1, 1, 1]).unwrap();
        Tensor::from_slice(shape, values).unwrap()
    }

    fn run(op: &str, padding: &str, inputs: &[Tensor]) -> Result<Vec<f32>> {
        let out = run_op(&registry(), op, &attrs(KSIZE, padding, "NDHWC"), inputs)?;
        Ok(out[0].as_slice::<f32>()?.to_vec())
    }

    #[test]
    fn windows_end_with_the_volume() {
        let x = [planes(&[1.0, 4.0, 2.0])];
        let cases: [(&str, &str, &[f32]); 4] = [
            ("AvgPool3D", "VALID", &[2.5, 3.0]),
            ("AvgPool3D", "SAME", &[2.5, 3.0, 2.0]),
            ("MaxPool3D", "VALID", &[4.0, 4.0]),
            ("MaxPool3D", "SAME", &[4.0, 4.0, 2.0]),
        ];
        for (op, padding, expected) in cases {
            assert_eq!(run(op, padding, &x).unwrap(), expected, "{op} {padding}");
        }
    }

    #[test]
    fn windows_with_gaps_are_centered() {
        let mut attrs = attrs([1; 5], "SAME", "NDHWC");
        attrs[3].1 = AttrValue::ints([1, 3, 1, 1, 1]);
        let x = [planes(&[0.0, 1.0, 2.0, 3.0, 4.0, f32::NEG_INFINITY])];
        for op in ["AvgPool3D", "MaxPool3D"] {
            let out = run_op(&registry(), op, &attrs, &x).unwrap();
            assert_eq!(out[0].as_slice::<f32>().unwrap(), [1.0, 4.0], "{op}");
        }
    }

    #[test]
    fn gradients_reach_the_elements_of_the_windows() {
        let sizes = Tensor::from_slice(Shape::vector(5), &[1i32, 3, 1, 1, 1]).unwrap();
        let inputs = [sizes, planes(&[2.0, 4.0, 8.0])];
        assert_eq!(run("AvgPool3DGrad", "SAME", &inputs).unwrap(), [1.0, 3.0, 10.0]);
        // Both of two equal elements take the whole gradient.
        let inputs = [planes(&[4.0, 4.0, 2.0]), planes(&[4.0, 4.0]), planes(&[1.0, 8.0])];
        assert_eq!(run("MaxPool3DGrad", "VALID", &inputs).unwrap(), [1.0, 9.0, 0.0]);
        let inputs = [planes(&[4.0, 4.0, 2.0]), planes(&[4.0]), planes(&[1.0, 8.0])];
        let error = run("MaxPool3DGrad", "VALID", &inputs).unwrap_err();
        let expected = "Expected orig_output shape to be [1,2,1,1,1], but got [1,1,1,1,1]";
        assert_eq!(error.message(), expected);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let cases = [
            ([1, 0, 1, 1, 1], "NDHWC", "ksize field must have non-negative dimensions"),
            ([2, 1, 1, 1, 1], "NDHWC", "not yet supported on the batch dimension"),
            ([1, 1, 1, 1, 2], "NDHWC", "not yet supported on the depth dimension"),
            ([1, 1, 1, 1, 1], "NCDHW", "only supports NDHWC on device type CPU"),
        ];
        for (ksize, format, expected) in cases {
            let attrs = attrs(ksize, "SAME", format);
            let error = run_op(&registry(), "AvgPool3D", &attrs, &[planes(&[1.0])]).unwrap_err();
            assert!(error.message().contains(expected), "{error}");
        }
    }

    #[test]
    fn shapes() {
        let shape = |format, input| {
            infer(&registry(), "MaxPool3D", &attrs([1, 2, 2, 2, 1], "VALID", format), input, &[])
        };
        assert_eq!(shape("NDHWC", "[?,3,4,5,6]").unwrap(), "[?,2,3,4,6]");
    }
}

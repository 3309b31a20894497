//! `Dilation2D`, the grayscale dilation of images, and its gradients.

use num_traits::Bounded;
use tfcore_base::{
    Elem, LoopFor, RealNumbers, Result, Ring, TypedLoop, invalid, require, unimplemented_error,
};
use tfcore_framework::geometry::WindowAxis;
use tfcore_framework::{
    Attrs, InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_fns, shape_ops,
};
use tfcore_math::pool::{Parallel, par_chunks_mut};
use tfcore_tensor::{Dim, Elems, ElemsMut, Shape};

use crate::window_attrs::{int32s, same_or_valid};

pub(crate) fn register(r: &mut Registry) {
    // `Dilation2D(input: T, filter: T) -> output: T`, attrs `strides`, `rates`, `padding`: `output[n, h, w, c] =
    // max input[n, h·s + i·r, w·s + j·r, c] + filter[i, j, c]`.
    r.op("Dilation2D").shape(dilation_shape).typed_kernel::<Dilate, RealNumbers>("T", dilate);

    // `Dilation2DBackpropInput(input: T, filter: T, out_backprop: T) -> in_backprop: T`: each gradient goes to the input
    // of the largest sum. `Dilation2DBackpropFilter`: to the filter's element of it.
    r.op("Dilation2DBackpropInput")
        .shape(shape_fns::unchanged)
        .typed_kernel::<Backprop, RealNumbers>("T", |init, run| backprop(init, run, Target::Input));
    r.op("Dilation2DBackpropFilter")
        .shape(|ctx| {
            ctx.set_output(0, ctx.input(1).clone());
            Ok(())
        })
        .typed_kernel::<Backprop, RealNumbers>("T", |init, run| {
            backprop(init, run, Target::Filter)
        });
}

fn dilation_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let input = shape_ops::with_rank(ctx.input(0), 4)?;
    let filter = shape_ops::with_rank(ctx.input(1), 3)?;
    let field = |name: &str, shown: &str| {
        let values = int32s(ctx.attrs, name)?;
        <[i64; 4]>::try_from(values.as_slice()).map_err(|_| {
            let len = values.len();
            invalid!(
                "Dilation2D requires the {shown} attribute to contain 4 values, but got: {len}"
            )
        })
    };
    let (strides, rates) = (field("strides", "stride")?, field("rates", "rates")?);
    let depth = shape_ops::merge_dims(input.dim(3), filter.dim(2))?;
    let known = [input.dim(1), input.dim(2), filter.dim(0), filter.dim(1)].map(Dim::value);
    // The reference knows the depth of the filter alone unless all sizes are known.
    let mut sizes = [Dim::fresh(), Dim::fresh(), filter.dim(2)];
    if let [Some(rows), Some(cols), Some(filter_rows), Some(filter_cols)] = known {
        let padding = same_or_valid(ctx.attrs)?;
        sizes[2] = depth;
        for (axis, input, filter) in [(0, rows, filter_rows), (1, cols, filter_cols)] {
            let along =
                WindowAxis { stride: strides[axis + 1], dilation: rates[axis + 1], padding };
            let count = along.places(input as usize, filter as usize)?.count;
            sizes[axis] = Dim::new(count as i64);
        }
    }
    ctx.set_output(0, [input.dim(0), sizes[0], sizes[1], sizes[2]].into_iter().collect());
    Ok(())
}

/// Rows and columns.
fn window(attrs: &Attrs) -> Result<[WindowAxis; 2]> {
    let strides = int32s(attrs, "strides")?;
    require!(strides.len() == 4, "Sliding window stride field must specify 4 dimensions");
    if (strides[0], strides[3]) != (1, 1) {
        return Err(unimplemented_error!("Stride is only supported across spatial dimensions."));
    }
    let rates = int32s(attrs, "rates")?;
    require!(rates.len() == 4, "Input stride (atrous rate) field must specify 4 dimensions");
    if (rates[0], rates[3]) != (1, 1) {
        return Err(unimplemented_error!("Rate is only supported across spatial dimensions."));
    }
    let padding = same_or_valid(attrs)?;
    Ok([1, 2].map(|axis| WindowAxis { stride: strides[axis], dilation: rates[axis], padding }))
}

/// Extents of a dilation; pairs are rows and columns.
struct Geometry {
    batch: usize,
    input: [usize; 2],
    filter: [usize; 2],
    output: [usize; 2],
    depth: usize,
    stride: [i64; 2],
    rate: [i64; 2],
    pad: [i64; 2],
}

impl Geometry {
    fn new(axes: &[WindowAxis; 2], input: &Shape, filter: &Shape) -> Result<Geometry> {
        require!(input.rank() == 4, "input must be 4-dimensional{input}");
        require!(filter.rank() == 3, "filter must be 3-dimensional: {filter}");
        let depth = input.dim(3);
        require!(
            depth == filter.dim(2),
            "input and filter must have the same depth: {depth} vs {}",
            filter.dim(2)
        );
        let (mut output, mut pad) = ([0; 2], [0; 2]);
        for axis in 0..2 {
            // The reference takes a rate that is not positive; here it is the rate 1.
            let along = WindowAxis { dilation: axes[axis].dilation.max(1), ..axes[axis] };
            let places = along.places(input.dim(axis + 1), filter.dim(axis))?;
            (output[axis], pad[axis]) = (places.count, places.before as i64);
        }
        Ok(Geometry {
            batch: input.dim(0),
            input: [input.dim(1), input.dim(2)],
            filter: [filter.dim(0), filter.dim(1)],
            output,
            depth,
            stride: axes.map(|axis| axis.stride),
            rate: axes.map(|axis| axis.dilation.max(1)),
            pad,
        })
    }

    fn output_shape(&self) -> Result<Shape> {
        let [rows, cols] = self.output;
        Shape::new(&[self.batch, rows, cols, self.depth].map(|size| size as i64))
    }

    /// Input elements of an image.
    fn image(&self) -> usize {
        self.input[0] * self.input[1] * self.depth
    }

    /// The largest sum at an output pixel and channel, and where in the input (in its image) and in the filter it comes from. `None`
    /// if no cell of the filter meets the image, or every sum is NaN or the lowest number.
    fn largest<T: Ring + PartialOrd + Bounded>(
        &self,
        input: &[T],
        filter: &[T],
        pixel: usize,
        channel: usize,
    ) -> (T, Option<(usize, usize)>) {
        let [_, cols] = self.output;
        let place = [pixel / cols % self.output[0], pixel % cols];
        let image = pixel / (self.output[0] * cols);
        let input = &input[image * self.image()..][..self.image()];
        let first = [0, 1].map(|axis| (place[axis] as i64) * self.stride[axis] - self.pad[axis]);
        let at = |axis: usize, cell: usize| {
            let at = (cell as i64).checked_mul(self.rate[axis])?.checked_add(first[axis])?;
            usize::try_from(at).ok().filter(|&at| at < self.input[axis])
        };
        let (mut max, mut from) = (T::min_value(), None);
        for i in 0..self.filter[0] {
            let Some(row) = at(0, i) else { continue };
            for j in 0..self.filter[1] {
                let Some(col) = at(1, j) else { continue };
                let x = (row * self.input[1] + col) * self.depth + channel;
                let w = (i * self.filter[1] + j) * self.depth + channel;
                let sum = input[x].plus(filter[w]);
                if max < sum {
                    (max, from) = (sum, Some((x, w)));
                }
            }
        }
        (max, from)
    }

    /// Where a gradient goes if nothing is larger than the lowest number: the first element of the window and of the filter.
    fn first(&self, pixel: usize, channel: usize) -> (usize, usize) {
        let [_, cols] = self.output;
        let place = [pixel / cols % self.output[0], pixel % cols];
        let start = |axis: usize| {
            ((place[axis] as i64) * self.stride[axis] - self.pad[axis]).max(0) as usize
        };
        ((start(0) * self.input[1] + start(1)) * self.depth + channel, channel)
    }
}

/// Input, filter, output.
type DilateLoop = fn(Parallel<'_>, &Geometry, Elems<'_>, Elems<'_>, ElemsMut<'_>);

struct Dilate;

impl TypedLoop for Dilate {
    type Loop = DilateLoop;
}

impl<T: Elem + Ring + PartialOrd + Bounded> LoopFor<T> for Dilate {
    const LOOP: DilateLoop = |par, g, input, filter, out| {
        let (input, filter) = (input.typed::<T>(), filter.typed::<T>());
        let cost = g.filter[0].saturating_mul(g.filter[1]).max(1);
        par_chunks_mut(par, out.typed::<T>(), g.depth, (1 << 14) / cost + 1, &|start, piece| {
            for (pixel, out) in (start / g.depth..).zip(piece.chunks_exact_mut(g.depth)) {
                for (channel, out) in out.iter_mut().enumerate() {
                    *out = g.largest(input, filter, pixel, channel).0;
                }
            }
        });
    };
}

fn dilate(init: &KernelInit<'_>, run: DilateLoop) -> Result<Box<dyn Kernel>> {
    let axes = window(init.attrs)?;
    kernel(move |ctx: &mut OpContext<'_>| {
        let (input, filter) = (ctx.input(0)?, ctx.input(1)?);
        let g = Geometry::new(&axes, input.shape(), filter.shape())?;
        ctx.produce(0, g.output_shape()?, |out| {
            run(ctx.parallel(), &g, input.elems(), filter.elems(), out);
        })
    })
}

/// What a gradient is with respect to.
#[derive(Clone, Copy, PartialEq)]
enum Target {
    Input,
    Filter,
}

/// Input, filter, gradient of the output, gradient of the target, which is all zeros.
type BackpropLoop = fn(&Geometry, Target, Elems<'_>, Elems<'_>, Elems<'_>, ElemsMut<'_>);

struct Backprop;

impl TypedLoop for Backprop {
    type Loop = BackpropLoop;
}

impl<T: Elem + Ring + PartialOrd + Bounded> LoopFor<T> for Backprop {
    const LOOP: BackpropLoop = |g, target, input, filter, gradient, out| {
        let (input, filter) = (input.typed::<T>(), filter.typed::<T>());
        let out = out.typed::<T>();
        let pixels = gradient.typed::<T>().chunks_exact(g.depth).enumerate();
        for (pixel, gradient) in pixels {
            let image = pixel / (g.output[0] * g.output[1]) * g.image();
            for (channel, &gradient) in gradient.iter().enumerate() {
                let found = g.largest(input, filter, pixel, channel).1;
                let (x, w) = found.unwrap_or_else(|| g.first(pixel, channel));
                let to = if target == Target::Input { image + x } else { w };
                if let Some(sum) = out.get_mut(to) {
                    *sum = sum.plus(gradient);
                }
            }
        }
    };
}

fn backprop(init: &KernelInit<'_>, run: BackpropLoop, target: Target) -> Result<Box<dyn Kernel>> {
    let axes = window(init.attrs)?;
    kernel(move |ctx: &mut OpContext<'_>| {
        let (input, filter, gradient) = (ctx.input(0)?, ctx.input(1)?, ctx.input(2)?);
        let g = Geometry::new(&axes, input.shape(), filter.shape())?;
        let shape = gradient.shape();
        require!(shape.rank() == 4, "out_backprop must be 4-dimensional{shape}");
        require!(*shape == g.output_shape()?, "out_backprop has incompatible size.");
        let result = if target == Target::Input { input } else { filter };
        let mut out = ctx.allocate_zeros(result.dtype(), result.shape().clone())?;
        if out.count() > 0 && gradient.count() > 0 {
            let elems = out.elems_mut()?;
            run(&g, target, input.elems(), filter.elems(), gradient.elems(), elems);
        }
        ctx.set_output(0, out);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use tfcore_base::DType;
    use tfcore_framework::AttrValue;
    use tfcore_framework::testing::{floats, infer, registry_of, run_op};

    use super::*;

    fn attrs(rate: i64) -> [(&'static str, AttrValue); 4] {
        [
            ("T", AttrValue::Type(DType::FLOAT)),
            ("strides", AttrValue::ints([1; 4])),
            ("rates", AttrValue::ints([1, 1, rate, 1])),
            ("padding", AttrValue::string("SAME")),
        ]
    }

    #[test]
    fn the_largest_sum_and_where_it_comes_from() {
        let registry = registry_of(register);
        let image = floats(&[1, 1, 4, 1], &[1.0, 5.0, 2.0, 4.0]);
        let filter = floats(&[1, 2, 1], &[0.0, 3.5]);
        let gradient = floats(&[1, 1, 4, 1], &[1.0, 10.0, 100.0, 1000.0]);
        let both = [image.clone(), filter.clone()];
        let run = |op: &str, rate: i64, inputs: &[tfcore_tensor::Tensor]| {
            let out = run_op(&registry, op, &attrs(rate), inputs).unwrap();
            out[0].as_slice::<f32>().unwrap().to_vec()
        };
        assert_eq!(run("Dilation2D", 1, &both), [8.5, 5.5, 7.5, 4.0]);
        // Two columns apart, one of padding before.
        assert_eq!(run("Dilation2D", 2, &both), [8.5, 5.5, 7.5, 2.0]);
        let inputs = [image, filter, gradient];
        assert_eq!(run("Dilation2DBackpropInput", 1, &inputs), [0.0, 1.0, 10.0, 1100.0]);
        assert_eq!(run("Dilation2DBackpropFilter", 1, &inputs), [1000.0, 111.0]);
    }

    #[test]
    fn shapes() {
        let shape = |inputs| infer(&registry_of(register), "Dilation2D", &attrs(1), inputs, &[]);
        assert_eq!(shape("[?,5,4,2];[2,3,?]").unwrap(), "[?,5,4,2]");
        assert_eq!(shape("?;?").unwrap(), "[?,?,?,?]");
        assert!(shape("[1,5,4,2];[2,3,3]").is_err());
    }
}

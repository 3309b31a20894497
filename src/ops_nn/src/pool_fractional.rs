//! Pooling over regions of about the same size that do not divide the image evenly, and the gradients.
//!
//! The regions along an axis are a sequence of where each begins and the last one ends, drawn from a random stream. They are
//! outputs of the ops, so that the gradients know them.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::ops::Range;

use num_traits::{AsPrimitive, Bounded};
use tfcore_base::{Elem, LoopFor, Result, Ring, TypedLoop, invalid, require, unimplemented_error};
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_fns, shape_ops,
};
use tfcore_math::philox::{Philox, to_f64};
use tfcore_tensor::{Dim, Elems, ElemsMut, PartialShape, Shape, Tensor};

type Types = (f32, f64, i32, i64);

pub(crate) fn register(r: &mut Registry) {
    // `FractionalMaxPool(value: T) -> output: T, row_pooling_sequence: int64, col_pooling_sequence: int64`, attrs
    // `pooling_ratio`, `pseudo_random`, `overlapping`, `deterministic`, `seed`, `seed2`: the largest element of each region.
    // `FractionalAvgPool`: the mean.
    r.op("FractionalMaxPool")
        .shape(pool_shape)
        .typed_kernel::<Pool, Types>("T", |init, loops| pool(init, loops.max, "max"));
    r.op("FractionalAvgPool")
        .shape(pool_shape)
        .typed_kernel::<Pool, Types>("T", |init, loops| pool(init, loops.mean, "average"));

    // `FractionalMaxPoolGrad(orig_input: T, orig_output: T, out_backprop: T, row_pooling_sequence: int64,
    // col_pooling_sequence: int64) -> output: T`, attr `overlapping`.
    r.op("FractionalMaxPoolGrad")
        .shape(shape_fns::unchanged_of_rank(4))
        .typed_kernel::<MaxGrad, Types>("T", max_grad);
    // `FractionalAvgPoolGrad(orig_input_tensor_shape: int64, out_backprop: T, ...) -> output: T`.
    r.op("FractionalAvgPoolGrad")
        .shape(|ctx| {
            let shape = match ctx.operand(0).is_some() {
                true => ctx.operand_shape(0)?,
                false => PartialShape::of_rank(4),
            };
            ctx.set_output(0, shape);
            Ok(())
        })
        .typed_kernel::<MeanGrad, Types>("T", mean_grad);
}

fn pool_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let input = shape_ops::with_rank(ctx.input(0), 4)?;
    let ratios = ctx.attrs.floats("pooling_ratio")?;
    require!(ratios.len() == 4, "pooling_ratio field must specify 4 dimensions");
    let mut dims = Vec::with_capacity(4);
    for (axis, &ratio) in ratios.iter().enumerate() {
        dims.push(match input.dim(axis).value() {
            Some(size) => {
                let pooled = (size as f32 / ratio).floor();
                require!(pooled > 0.0, "Size computed for dim {axis} is negative: {pooled}");
                Dim::new(pooled as i64)
            }
            None => Dim::fresh(),
        });
    }
    if let Some(&ratio) = ratios.iter().find(|ratio| ratio.is_nan() || **ratio < 1.0) {
        return Err(invalid!("pooling_ratio cannot be smaller than 1, got: {ratio}"));
    }
    // The reference forgets the end of the last region.
    ctx.set_output(1, PartialShape::vector(dims[1]));
    ctx.set_output(2, PartialShape::vector(dims[2]));
    ctx.set_output(0, dims.into_iter().collect());
    Ok(())
}

/// The regions of a pooling: pixels [rows, columns, channels] of `batch` images and ranges of them.
struct Regions {
    batch: usize,
    input: [usize; 2],
    channels: usize,
    rows: Vec<Range<usize>>,
    cols: Vec<Range<usize>>,
}

impl Regions {
    /// `sequences` are of rows and of columns; an overlapping region reaches to the beginning of the next one, inclusive.
    fn new(input: &Shape, sequences: [&[i64]; 2], overlapping: bool) -> Regions {
        let ranges = |axis: usize| {
            let size = input.dim(axis + 1);
            let within = |place: i64| usize::try_from(place).unwrap_or(0).min(size);
            let behind = i64::from(overlapping);
            sequences[axis]
                .windows(2)
                .map(|pair| {
                    let end = within(pair[1].saturating_add(behind));
                    within(pair[0]).min(end)..end
                })
                .collect()
        };
        Regions {
            batch: input.dim(0),
            input: [input.dim(1), input.dim(2)],
            channels: input.dim(3),
            rows: ranges(0),
            cols: ranges(1),
        }
    }

    fn output_len(&self) -> usize {
        self.batch * self.rows.len() * self.cols.len() * self.channels
    }

    /// Calls `f(output pixel, input pixels of its region)`; pixels are counted in elements.
    fn for_each(&self, mut f: impl FnMut(usize, &mut dyn Iterator<Item = usize>)) {
        let [height, width] = self.input;
        let mut out = 0;
        for image in 0..self.batch {
            for rows in &self.rows {
                for cols in &self.cols {
                    let mut pixels = rows.clone().flat_map(|row| {
                        let row = (image * height + row) * width;
                        cols.clone().map(move |col| (row + col) * self.channels)
                    });
                    f(out, &mut pixels);
                    out += self.channels;
                }
            }
        }
    }
}

/// Where the regions of `output` elements out of `input` begin, and the end of the last one. `0 < output <= input`.
fn sequence(input: usize, output: usize, stream: &mut Philox, pseudo_random: bool) -> Vec<i64> {
    let sizes = if pseudo_random {
        pseudo_random_sizes(input, output, stream)
    } else {
        random_sizes(input, output, stream)
    };
    let mut ends = vec![0];
    let mut end = 0;
    ends.extend(sizes.into_iter().map(|size| {
        end += size;
        end
    }));
    ends
}

/// Differences of `ceil(alpha · (i + u))` with one random `u` ("Fractional max-pooling", Graham 2014). `u` is bounded such that
/// the first and the last region are no larger than the others.
fn pseudo_random_sizes(input: usize, output: usize, stream: &mut Philox) -> Vec<i64> {
    let alpha = input as f64 / output as f64;
    let least = (input / output) as f64;
    let first = (least + 2.0) / alpha - 1.0;
    let last = (input as f64 + 1.0 - least) / alpha - (output as f64 - 1.0);
    let [x0, x1, _, _] = stream.next4();
    let u = to_f64(x0, x1) * first.min(last);
    let end = |i: usize| match i {
        0 => 1,
        _ if i == output => input as i64 + 1,
        _ => (alpha * (i as f64 + u)).ceil() as i64,
    };
    (0..output).map(|i| end(i + 1) - end(i)).collect()
}

/// Sizes that differ by one at most, in a random order.
fn random_sizes(input: usize, output: usize, stream: &mut Philox) -> Vec<i64> {
    let (size, larger) = (input / output, input % output);
    let mut sizes: Vec<i64> =
        (0..output).map(|i| (size + usize::from(i < larger)) as i64).collect();
    let mut words = [0; 4];
    for place in 0..output.saturating_sub(1) {
        if place % 4 == 0 {
            words = stream.next4();
        }
        let left = ((output - place) as u32).max(1);
        sizes.swap(place, place + (words[place % 4] % left) as usize);
    }
    if output % 4 == 1 {
        // The reference sets words aside for each element, the last included.
        stream.skip(1);
    }
    sizes
}

type PoolLoop = fn(&Regions, Elems<'_>, ElemsMut<'_>);

#[derive(Clone, Copy)]
struct PoolLoops {
    max: PoolLoop,
    mean: PoolLoop,
}

struct Pool;

impl TypedLoop for Pool {
    type Loop = PoolLoops;
}

/// A number that sums are divided by a count in.
trait Divide: Ring {
    fn divide(self, count: usize) -> Self;
}

macro_rules! divide {
    ($($t:ty)*) => {$(
        impl Divide for $t {
            fn divide(self, count: usize) -> $t {
                self / count as $t
            }
        }
    )*};
}
divide!(f32 f64 i32 i64);

impl<T: Elem + Divide + PartialOrd + Bounded> LoopFor<T> for Pool {
    const LOOP: PoolLoops = PoolLoops {
        max: |regions, x, out| {
            let (x, out) = (x.typed::<T>(), out.typed::<T>());
            regions.for_each(|to, pixels| {
                let out = &mut out[to..to + regions.channels];
                out.fill(T::min_value());
                for at in pixels {
                    for (max, &x) in out.iter_mut().zip(&x[at..]) {
                        *max = if *max < x { x } else { *max };
                    }
                }
            });
        },
        mean: |regions, x, out| {
            let (x, out) = (x.typed::<T>(), out.typed::<T>());
            regions.for_each(|to, pixels| {
                let out = &mut out[to..to + regions.channels];
                out.fill(T::ZERO);
                let mut count = 0;
                for at in pixels {
                    count += 1;
                    for (sum, &x) in out.iter_mut().zip(&x[at..]) {
                        *sum = sum.plus(x);
                    }
                }
                for sum in out {
                    *sum = sum.divide(count.max(1));
                }
            });
        },
    };
}

fn pool(init: &KernelInit<'_>, run: PoolLoop, what: &'static str) -> Result<Box<dyn Kernel>> {
    let ratios = init.attrs.floats("pooling_ratio")?.to_vec();
    if let Some(ratio) = ratios.iter().find(|ratio| ratio.is_nan() || **ratio < 1.0) {
        return Err(invalid!("pooling_ratio cannot be smaller than 1, got: {ratio}"));
    }
    let pseudo_random = init.attrs.bool("pseudo_random")?;
    let overlapping = init.attrs.bool("overlapping")?;
    let deterministic = init.attrs.bool("deterministic")?;
    let given = (init.attrs.int("seed")?, init.attrs.int("seed2")?);
    require!(ratios.len() == 4, "pooling_ratio field must specify 4 dimensions");
    if ratios[0] != 1.0 || ratios[3] != 1.0 {
        return Err(unimplemented_error!(
            "Fractional {what} pooling is not yet supported on the batch nor channel dimension."
        ));
    }
    require!(
        deterministic || given == (0, 0),
        "Both seed and seed2 should be 0 if deterministic is false."
    );
    // The standard library seeds its hashers from the system.
    let random = || (RandomState::new().hash_one(0), RandomState::new().hash_one(1));
    let fixed = match given {
        (0, 0) if deterministic => Some(random()),
        (0, 0) => None,
        (seed, seed2) => Some((seed as u64, seed2 as u64)),
    };
    kernel(move |ctx: &mut OpContext<'_>| {
        let input = ctx.input(0)?;
        require!(input.rank() == 4, "tensor_in must be 4-dimensional");
        let mut sizes = [0; 4];
        for (axis, &ratio) in ratios.iter().enumerate() {
            let size = input.shape()[axis];
            require!(
                size as f32 >= ratio,
                "Pooling ratio is higher than input dimension size for dimension {axis}. Input dim size: \
                 {size} pooling ratio: {ratio}"
            );
            sizes[axis] = (size as f32 / ratio).floor() as usize;
        }
        let (seed, seed2) = fixed.unwrap_or_else(random);
        let mut stream = Philox::new(seed, seed2);
        let mut drawn =
            |axis: usize| sequence(input.dim(axis), sizes[axis], &mut stream, pseudo_random);
        let (rows, cols) = (drawn(1), drawn(2));
        let regions = Regions::new(input.shape(), [&rows, &cols], overlapping);
        let shape = Shape::new(&sizes.map(|size| size as i64))?;
        ctx.produce(0, shape, |out| run(&regions, input.elems(), out))?;
        for (index, values) in [(1, rows), (2, cols)] {
            ctx.set_output(index, Tensor::from_slice(Shape::vector(values.len()), &values)?);
        }
        Ok(())
    })
}

/// The sequences of rows and columns, in inputs `first` and the next one.
fn sequences<'a>(ctx: &'a OpContext<'_>, first: usize) -> Result<[&'a [i64]; 2]> {
    let mut sequences = [&[][..]; 2];
    for (axis, name) in ["row", "col"].into_iter().enumerate() {
        let tensor = ctx.input(first + axis)?;
        require!(
            tensor.rank() == 1,
            "{name}_pooling_sequence must be a vector, received shape {}",
            tensor.shape()
        );
        sequences[axis] = tensor.as_slice()?;
    }
    Ok(sequences)
}

/// Input, output, gradient of the output, gradient of the input, which is all zeros. False if the output is not that of the input.
type MaxGradLoop = fn(&Regions, Elems<'_>, Elems<'_>, Elems<'_>, ElemsMut<'_>) -> bool;

struct MaxGrad;

impl TypedLoop for MaxGrad {
    type Loop = MaxGradLoop;
}

impl<T: Elem + Ring + PartialOrd> LoopFor<T> for MaxGrad {
    const LOOP: MaxGradLoop = |regions, x, y, gradient, out| {
        let (x, y, out) = (x.typed::<T>(), y.typed::<T>(), out.typed::<T>());
        let gradient = gradient.typed::<T>();
        let mut fits = true;
        regions.for_each(|to, pixels| {
            let pixels: Vec<usize> = pixels.collect();
            for channel in 0..regions.channels {
                let mut places = pixels.iter().map(|at| at + channel);
                let Some(first) = places.next() else {
                    fits = false;
                    continue;
                };
                let largest = places.fold(first, |max, at| if x[max] < x[at] { at } else { max });
                fits &= x[largest] == y[to + channel];
                out[largest] = out[largest].plus(gradient[to + channel]);
            }
        });
        fits
    };
}

fn max_grad(init: &KernelInit<'_>, run: MaxGradLoop) -> Result<Box<dyn Kernel>> {
    let overlapping = init.attrs.bool("overlapping")?;
    kernel(move |ctx: &mut OpContext<'_>| {
        let (x, y, gradient) = (ctx.input(0)?, ctx.input(1)?, ctx.input(2)?);
        for (tensor, name) in [(x, "orig_input"), (y, "orig_output")] {
            require!(
                tensor.rank() == 4,
                "{name} should be a tensor of rank 4, got {}",
                tensor.shape()
            );
        }
        let regions = Regions::new(x.shape(), sequences(ctx, 3)?, overlapping);
        require!(regions.output_len() == y.count(), "tensor_out_dup is not the same as tensor_out");
        require!(
            gradient.count() == y.count(),
            "out_backprop must have as many elements as orig_output, got shapes {} and {}",
            gradient.shape(),
            y.shape()
        );
        let mut out = ctx.allocate_zeros(x.dtype(), x.shape().clone())?;
        if y.count() > 0 {
            let fits = run(&regions, x.elems(), y.elems(), gradient.elems(), out.elems_mut()?);
            require!(fits, "tensor_out_dup is not the same as tensor_out");
        }
        ctx.set_output(0, out);
        Ok(())
    })
}

/// Gradient of the output, gradient of the input.
type MeanGradLoop = fn(&Regions, Elems<'_>, ElemsMut<'_>);

struct MeanGrad;

impl TypedLoop for MeanGrad {
    type Loop = MeanGradLoop;
}

impl<T: Elem + Copy + AsPrimitive<f64>> LoopFor<T> for MeanGrad
where
    f64: AsPrimitive<T>,
{
    const LOOP: MeanGradLoop = |regions, gradient, out| {
        let (gradient, out) = (gradient.typed::<T>(), out.typed::<T>());
        let mut sums = vec![0.0; out.len()];
        regions.for_each(|to, pixels| {
            let pixels: Vec<usize> = pixels.collect();
            let count = pixels.len() as f64;
            for at in pixels {
                let gradient = &gradient[to..to + regions.channels];
                for (sum, gradient) in sums[at..].iter_mut().zip(gradient) {
                    *sum += gradient.as_() / count;
                }
            }
        });
        for (out, sum) in out.iter_mut().zip(sums) {
            *out = sum.as_();
        }
    };
}

fn mean_grad(init: &KernelInit<'_>, run: MeanGradLoop) -> Result<Box<dyn Kernel>> {
    let overlapping = init.attrs.bool("overlapping")?;
    kernel(move |ctx: &mut OpContext<'_>| {
        let (sizes, gradient) = (ctx.input(0)?, ctx.input(1)?);
        require!(
            sizes.rank() == 1 && sizes.count() == 4,
            "original input tensor shape must be1-dimensional and 4 elements"
        );
        require!(gradient.rank() == 4, "out_backprop must be 4-dimensional");
        let sizes = sizes.to_i64s()?;
        if let Some(size) = sizes.iter().find(|&&size| size < 0) {
            return Err(invalid!("Expected a non-negative size, got {size}"));
        }
        let shape = Shape::new(&sizes)?;
        let mut sequences = [&[][..]; 2];
        for (axis, name) in ["row", "col"].into_iter().enumerate() {
            let values: &[i64] = ctx.input(2 + axis)?.as_slice()?;
            let needed = gradient.dim(axis + 1) + 1;
            require!(
                values.len() >= needed,
                "Given out_backprop shape {}, {name}_seq_tensor must have at least {needed} elements, but \
                 got {}",
                gradient.shape(),
                values.len()
            );
            sequences[axis] = &values[..needed];
        }
        // A gradient of fewer images or channels than the input has none for the others.
        require!(
            (gradient.dim(0), gradient.dim(3)) == (shape.dim(0), shape.dim(3)),
            "out_backprop and orig_input_tensor_shape must agree on batch and channels, got {} and {shape}",
            gradient.shape()
        );
        let regions = Regions::new(&shape, sequences, overlapping);
        ctx.produce(0, shape, |out| run(&regions, gradient.elems(), out))
    })
}

#[cfg(test)]
mod tests {
    use tfcore_base::DType;
    use tfcore_framework::AttrValue;
    use tfcore_framework::testing::{registry_of, run_op, tensor};

    use super::*;

    #[test]
    fn regions_are_tensorflows() {
        // `FractionalMaxPool` of TensorFlow 2.21 with ratio 1.4 and seeds 5 and 7.
        let mut stream = Philox::new(5, 7);
        assert_eq!(sequence(6, 4, &mut stream, false), [0, 1, 3, 4, 6]);
        assert_eq!(sequence(4, 2, &mut stream, false), [0, 2, 4]);
        let ends = sequence(10, 7, &mut stream, true);
        assert_eq!((ends[0], ends[7]), (0, 10));
        assert!(ends.windows(2).all(|pair| (1..=2).contains(&(pair[1] - pair[0]))), "{ends:?}");
    }

    #[test]
    fn means_and_their_gradients() {
        let registry = registry_of(register);
        let sequence = |ends: &[i64]| tensor(&[ends.len() as i64], ends);
        let inputs = [
            sequence(&[1, 1, 3, 1]),
            tensor(&[1, 1, 2, 1], &[6.0f64, 8.0]),
            sequence(&[0, 1]),
            sequence(&[0, 1, 3]),
        ];
        let expect = |overlapping: bool, expected: [f64; 3]| {
            let attrs = [
                ("T", AttrValue::Type(DType::DOUBLE)),
                ("overlapping", AttrValue::Bool(overlapping)),
            ];
            let out = run_op(&registry, "FractionalAvgPoolGrad", &attrs, &inputs).unwrap();
            assert_eq!(out[0].as_slice::<f64>().unwrap(), expected);
        };
        expect(false, [6.0, 4.0, 4.0]);
        expect(true, [3.0, 7.0, 4.0]);
        let attrs = [("T", AttrValue::Type(DType::DOUBLE))];
        let max = [
            tensor(&[1, 1, 3, 1], &[5.0f64, 1.0, 2.0]),
            tensor(&[1, 1, 2, 1], &[5.0f64, 2.0]),
            tensor(&[1, 1, 2, 1], &[6.0f64, 8.0]),
            sequence(&[0, 1]),
            sequence(&[0, 1, 3]),
        ];
        let out = run_op(&registry, "FractionalMaxPoolGrad", &attrs, &max).unwrap();
        assert_eq!(out[0].as_slice::<f64>().unwrap(), [6.0, 0.0, 8.0]);
    }
}

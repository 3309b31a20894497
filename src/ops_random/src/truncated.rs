//! Normal distributions with parameters, cut off at both ends.

use num_traits::Float;
use tfcore_base::{Elem, Half, LoopFor, Result, TypedLoop, internal, invalid, require};
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, OpContext, Registry, describe_tensor, kernel, shape_ops,
};
use tfcore_math::philox::{Philox, RandomFloat};
use tfcore_tensor::{ElemsMut, PartialShape, Shape, Tensor};

use crate::operands::stream_of_seed;
use crate::stateful::Generator;
use crate::stateless::check_seed;

/// The types that the reference has kernels for.
type Types = (f32, f64, Half);

pub(crate) fn register(r: &mut Registry) {
    // `ParameterizedTruncatedNormal(shape: T, means: dtype, stdevs: dtype, minvals: dtype, maxvals: dtype; seed,
    // seed2) -> output: dtype`: the first axis is that of the parameters.
    r.op("ParameterizedTruncatedNormal")
        .shape(vector_shape)
        .typed_kernel::<Truncated, Types>("dtype", with_generator);

    // `StatelessParameterizedTruncatedNormal(shape: S, seed: Tseed, means: dtype, stddevs: dtype, minvals: dtype,
    // maxvals: dtype) -> output: dtype`: the parameters are broadcast to the end of the shape.
    r.op("StatelessParameterizedTruncatedNormal")
        .shape(stateless_shape)
        .typed::<Truncated, Types>("dtype", stateless);
}

fn vector_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    for index in 1..5 {
        shape_ops::with_rank_at_most(ctx.input(index), 1)?;
    }
    let shape = ctx.operand_shape(0)?;
    ctx.set_output(0, shape);
    Ok(())
}

fn stateless_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    check_seed(ctx, 1)?;
    let mut common = PartialShape::scalar();
    for index in 2..6 {
        common = shape_ops::broadcast(&common, ctx.input(index))?;
    }
    let shape = ctx.operand_shape(0)?;
    ctx.set_output(0, shape);
    Ok(())
}

/// Iterations after which a sampler gives up.
const MAX_ITERATIONS: usize = 1000;

/// The layout of the output: sample `s` of batch `b` is element `b * batch_stride + s * sample_stride`.
struct Layout {
    batches: usize,
    samples: usize,
    batch_stride: usize,
    sample_stride: usize,
    /// All samples, of which the last batch may have fewer.
    total: usize,
}

/// Fills an output: the parameters with the index of each batch's, the layout, and the stream.
type Run =
    fn([&Tensor; 4], &dyn Fn(usize, usize) -> usize, &Layout, Philox, ElemsMut<'_>) -> Result<()>;

struct Truncated;

impl TypedLoop for Truncated {
    type Loop = Run;
}

impl<T: Elem + RandomFloat + Float> LoopFor<T> for Truncated {
    const LOOP: Run = |parameters, index_of, layout, mut stream, out| {
        let parameters = parameters.map(|tensor| tensor.elems().typed::<T>());
        let out = out.typed::<T>();
        for batch in 0..layout.batches {
            let [mean, deviation, low, high] =
                std::array::from_fn(|which| parameters[which][index_of(which, batch)]);
            let bounds = Bounds::new(mean, deviation, low, high)?;
            let samples = layout.samples.min(layout.total - batch * layout.samples);
            let mut filled = 0;
            bounds.draw(&mut stream, samples, |value| {
                out[batch * layout.batch_stride + filled * layout.sample_stride] = value;
                filled += 1;
            })?;
        }
        Ok(())
    };
}

/// A normal distribution and the part of it that samples come from, in standard deviations from the mean.
struct Bounds<T> {
    mean: T,
    /// Negative if the distribution is turned round, so that the only finite bound is the lower one.
    deviation: T,
    low: T,
    high: T,
}

impl<T: RandomFloat + Float> Bounds<T> {
    fn new(mean: T, deviation: T, low: T, high: T) -> Result<Bounds<T>> {
        let is_valid = deviation > T::zero() && low < high && (low.is_finite() || high.is_finite());
        require!(is_valid, "Invalid parameters");
        let turned = low == T::neg_infinity() || high < mean;
        let (low, high, deviation) =
            if turned { (high, low, -deviation) } else { (low, high, deviation) };
        Ok(Bounds {
            mean,
            deviation,
            low: (low - mean) / deviation,
            high: (high - mean) / deviation,
        })
    }

    /// Draws so many samples. Which method it takes depends on where the bounds are.
    fn draw(&self, stream: &mut Philox, samples: usize, mut put: impl FnMut(T)) -> Result<()> {
        let of = |value: f64| T::from(value).unwrap_or_else(T::zero);
        let (low, high, two) = (self.low, self.high, of(2.0));
        let root = (low * low + of(4.0)).sqrt();
        let cutoff = two * (of(0.5) + (low * (low - root)) / of(4.0)).exp() / (low + root);
        let width = high - low;
        let inside = of(1.3);
        let mut tries = Tries { left: samples, rejected: 0 };
        if samples == 0 {
            return Ok(());
        }
        let mut accept = |value: T| put(value * self.deviation + self.mean);
        if (low < -inside && high >= T::zero()) || (high > inside && low <= T::zero()) {
            loop {
                for &value in T::normal(stream.next4()).as_ref() {
                    if value >= low && value <= high {
                        accept(value);
                        if tries.accepted() {
                            return Ok(());
                        }
                    } else {
                        tries.rejected += 1;
                        if tries.rejected > MAX_ITERATIONS {
                            return Err(failed(
                                "randn rejection sampler failed to accept a sample.",
                            ));
                        }
                    }
                }
            }
        }
        if width < cutoff {
            let plus = if low < T::zero() { T::zero() } else { low * low };
            loop {
                let candidates = T::uniform(stream.next4());
                let limits = T::uniform(stream.next4());
                for (&candidate, &limit) in candidates.as_ref().iter().zip(limits.as_ref()) {
                    let z = candidate * width + low;
                    if limit <= ((plus - z * z) / two).exp() {
                        accept(z);
                        if tries.accepted() {
                            return Ok(());
                        }
                    } else if tries.give_up() {
                        return Err(failed(
                            "uniform rejection sampler failed to  accept a sample.",
                        ));
                    }
                }
            }
        }
        let alpha = (low + root) / two;
        loop {
            for pair in T::uniform(stream.next4()).as_ref().chunks_exact(2) {
                let z = -pair[0].ln() / alpha + low;
                let x = if low < alpha { alpha - z } else { low - alpha };
                if pair[1] <= (-x * x / two).exp() && z < high {
                    accept(z);
                    if tries.accepted() {
                        return Ok(());
                    }
                } else if tries.give_up() {
                    return Err(failed(
                        "exponential distribution rejection sampler failed to accept a sample.",
                    ));
                }
            }
        }
    }
}

/// Samples that are still wanted, and candidates that were rejected since the last one.
struct Tries {
    left: usize,
    rejected: usize,
}

impl Tries {
    /// Counts a sample. Returns true if it was the last.
    fn accepted(&mut self) -> bool {
        self.left -= 1;
        self.rejected = 0;
        self.left == 0
    }

    /// Counts a rejected candidate. Returns true if there are to be no more.
    fn give_up(&mut self) -> bool {
        self.rejected += 1;
        self.rejected >= MAX_ITERATIONS
    }
}

fn failed(what: &str) -> tfcore_base::Error {
    internal!("TruncatedNormal {what}")
}

/// The shape that input 0 holds.
fn wanted_shape(ctx: &OpContext<'_>) -> Result<Shape> {
    let shape = ctx.input(0)?;
    require!(shape.rank() == 1, "Input shape should be a vector, got shape: {}", shape.shape());
    Shape::new(&shape.to_i64s()?)
}

fn with_generator(init: &KernelInit<'_>, run: Run) -> Result<Box<dyn Kernel>> {
    let generator = Generator::new(init)?;
    kernel(move |ctx: &mut OpContext<'_>| {
        let wanted = ctx.input(0)?;
        require!(
            wanted.rank() != 1 || wanted.count() > 0,
            "Shape tensor must not be empty, got {}",
            describe_tensor(wanted)
        );
        let shape = wanted_shape(ctx)?;
        let parameters = [ctx.input(1)?, ctx.input(2)?, ctx.input(3)?, ctx.input(4)?];
        const NAMES: [&str; 4] = ["means", "stddevs", "minvals", "maxvals"];
        for (parameter, name) in parameters.iter().zip(NAMES) {
            require!(
                parameter.rank() <= 1,
                "Input {name} should be a scalar or vector, got shape: {}",
                parameter.shape()
            );
        }
        let total = shape.count();
        let (mut batches, mut samples) =
            (shape.dim(0), shape.dims()[1..].iter().product::<i64>() as usize);
        let is_single = |tensor: &Tensor| tensor.rank() == 0 || tensor.dim(0) == 1;
        let [means, deviations, lows, highs] = parameters;
        if is_single(means) && is_single(deviations) && lows.rank() == 0 && highs.rank() == 0 {
            // The same parameters for all: the reference cuts the output into batches of 100.
            (batches, samples) = (total.div_ceil(100), 100);
        } else {
            for (parameter, name) in parameters.iter().zip(NAMES) {
                require!(
                    is_single(parameter) || parameter.dim(0) == batches,
                    "Input {name} should have length 1 or shape[0], got shape: {}",
                    parameter.shape()
                );
            }
        }
        let groups = (batches as u64)
            .wrapping_mul(2 * MAX_ITERATIONS as u64)
            .wrapping_mul(samples as u64 + 3)
            / 4;
        let stream = generator.reserve_groups(groups);
        let layout = Layout { batches, samples, batch_stride: samples, sample_stride: 1, total };
        let index_of = |which: usize, batch: usize| match parameters[which].count() {
            1 => 0,
            _ => batch,
        };
        ctx.try_produce(0, shape, |out| run(parameters, &index_of, &layout, stream, out))
    })
}

fn stateless(ctx: &mut OpContext<'_>, run: Run) -> Result<()> {
    let seed = ctx.input(1)?;
    let parameters = [ctx.input(2)?, ctx.input(3)?, ctx.input(4)?, ctx.input(5)?];
    let mut common = vec![];
    for parameter in parameters {
        common = broadcast(&common, parameter.shape().dims()).ok_or_else(|| {
            invalid!(
                "means, stddevs, minvals, maxvals should have compatible batch dimensions: {} vs. {} vs. {} vs. {}",
                parameters[0].shape(),
                parameters[1].shape(),
                parameters[2].shape(),
                parameters[3].shape()
            )
        })?;
    }
    let shape = wanted_shape(ctx)?;
    require!(shape.dims().ends_with(&common), "Shape passed in must end with broadcasted shape.");
    let stream = stream_of_seed(seed)?;
    let common = Shape::new(&common)?;
    let batches = common.count();
    let total = shape.count();
    let samples = total.checked_div(batches).unwrap_or(0);
    let layout = Layout { batches, samples, batch_stride: 1, sample_stride: batches, total };
    let index_of = |which: usize, batch: usize| index_of(parameters[which].shape(), &common, batch);
    ctx.try_produce(0, shape, |out| run(parameters, &index_of, &layout, stream, out))
}

/// The shape that two broadcast to.
fn broadcast(a: &[i64], b: &[i64]) -> Option<Vec<i64>> {
    let rank = a.len().max(b.len());
    let at = |dims: &[i64], axis: usize| match (axis + dims.len()).checked_sub(rank) {
        Some(index) => dims[index],
        None => 1,
    };
    (0..rank)
        .map(|axis| match (at(a, axis), at(b, axis)) {
            (1, size) | (size, 1) => Some(size),
            (x, y) => (x == y).then_some(x),
        })
        .collect()
}

/// The index in a tensor of shape `from` of the element that stands at `index` when it is broadcast to `to`.
pub(crate) fn index_of(from: &Shape, to: &Shape, index: usize) -> usize {
    let (from, to) = (from.to_usizes(), to.to_usizes());
    let missing = to.len() - from.len();
    let (mut rest, mut at, mut stride) = (index, 0, 1);
    for axis in (0..to.len()).rev() {
        let position = rest % to[axis];
        rest /= to[axis];
        if axis >= missing {
            let size = from[axis - missing];
            at += if size == 1 { 0 } else { position * stride };
            stride *= size;
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_lie_between_the_bounds() {
        // Wide bounds, narrow ones, and one far from the mean: the three methods.
        for (low, high) in
            [(-2.0f64, 2.0), (0.1, 0.2), (3.0, f64::INFINITY), (f64::NEG_INFINITY, -4.0)]
        {
            let bounds = Bounds::new(0.0, 1.0, low, high).unwrap();
            let mut stream = Philox::new(1, 2);
            let mut drawn = vec![];
            bounds.draw(&mut stream, 1000, |value| drawn.push(value)).unwrap();
            assert_eq!(drawn.len(), 1000);
            assert!(drawn.iter().all(|&value| low <= value && value <= high), "{low} {high}");
        }
    }

    #[test]
    fn parameters_are_checked() {
        for (deviation, low, high) in [
            (0.0, 0.0, 1.0),
            (1.0, 1.0, 1.0),
            (1.0, f32::NEG_INFINITY, f32::INFINITY),
            (1.0, 0.0, f32::NAN),
        ] {
            assert!(Bounds::new(0.0, deviation, low, high).is_err());
        }
    }

    #[test]
    fn broadcast_indices() {
        let shape = |dims: &[i64]| Shape::new(dims).unwrap();
        let to = shape(&[2, 3]);
        let all: Vec<usize> = (0..6).map(|index| index_of(&shape(&[2, 1]), &to, index)).collect();
        assert_eq!(all, [0, 0, 0, 1, 1, 1]);
        assert_eq!(index_of(&shape(&[3]), &to, 4), 1);
        assert_eq!(index_of(&shape(&[]), &to, 5), 0);
    }
}

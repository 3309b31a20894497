//! Distributions with parameters of which each sample takes as many words as rejection wants: gamma, Poisson,
//! binomial. Sample `i` has a place of its own in the stream, so that threads change nothing.

use tfcore_base::{BFloat16, DType, Half, Result, invalid, require, try_filled};
use tfcore_framework::geometry::Broadcast;
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_ops,
};
use tfcore_math::philox::{Philox, RESERVED_PER_OUTPUT, RandomFloat};
use tfcore_math::pool::par_chunks_mut;
use tfcore_tensor::{ElemsMut, Shape, Tensor};

use crate::operands::{check_key, shape_operand, stream_of_key, stream_of_seed};
use crate::samplers::{binomial, gamma, poisson};
use crate::state;
use crate::stateful::Generator;
use crate::stateless::check_seed;
use crate::truncated::index_of;

pub(crate) fn register(r: &mut Registry) {
    // `RandomGamma(shape: S, alpha: T; seed, seed2) -> output: T`, `RandomPoisson(shape: S, rate: dtype) -> output:
    // dtype`, `RandomPoissonV2(shape: S, rate: R) -> output: dtype`: so many samples for each parameter.
    r.op("RandomGamma").shape(samples_shape).cpu(|init| by_generator(init, "alpha", gamma));
    for op in ["RandomPoisson", "RandomPoissonV2"] {
        r.op(op).shape(samples_shape).cpu(|init| by_generator(init, "rate", poisson));
    }

    // `StatelessRandomGammaV2(shape: T, seed: Tseed, alpha: dtype) -> output: dtype`, and `V3`, which has
    // `(shape, key, counter, alg, alpha)`. The parameters' shape ends the output's.
    r.op("StatelessRandomGammaV2")
        .shape(seeded_shape)
        .compute(|ctx| by_shape(ctx, |ctx| stream_of_seed(ctx.input(1)?), 2, "alpha", gamma));
    r.op("StatelessRandomGammaV3")
        .shape(|ctx| {
            check_key(ctx, 1)?;
            let shape = ctx.operand_shape(0)?;
            ctx.set_output(0, shape);
            Ok(())
        })
        .compute(|ctx| by_shape(ctx, |ctx| stream_of_key(ctx, 1), 4, "alpha", gamma));

    // `StatelessRandomPoisson(shape: T, seed: Tseed, lam: Rtype) -> output: dtype`.
    r.op("StatelessRandomPoisson")
        .shape(seeded_shape)
        .compute(|ctx| by_shape(ctx, |ctx| stream_of_seed(ctx.input(1)?), 2, "rate", poisson));

    // `StatelessRandomBinomial(shape: S, seed: Tseed, counts: T, probs: T) -> output: dtype`.
    r.op("StatelessRandomBinomial").shape(seeded_shape).compute(|ctx| {
        let seed = ctx.input(1)?;
        require!(seed.shape().dims() == [2], "seed must have shape [2], not {}", seed.shape());
        let request = Trials::new(ctx, [0, 2, 3])?;
        request.draw(ctx, stream_of_seed(seed)?)
    });

    // `StatefulRandomBinomial(resource, algorithm: int64, shape: S, counts: T, probs: T) -> output: dtype`.
    r.op("StatefulRandomBinomial")
        .shape(|ctx| {
            for index in [3, 4] {
                shape_ops::with_rank_at_most(ctx.input(index), 1)?;
            }
            let shape = ctx.operand_shape(2)?;
            ctx.set_output(0, shape);
            Ok(())
        })
        .compute(|ctx| {
            let request = Trials::new(ctx, [2, 3, 4])?;
            let algorithm = ctx.input(1)?;
            require!(
                algorithm.rank() == 0,
                "algorithm must be of shape [], not {}",
                algorithm.shape()
            );
            let algorithm = algorithm.to_i64s()?[0];
            // The reference sets aside 100 pairs of words for each sample, and that 256 times.
            let reserved =
                (request.batches as u64).wrapping_mul(200).wrapping_mul(request.samples as u64 + 3)
                    / 4;
            let stream = state::change(ctx, |state| {
                require!(algorithm == 1, "Unsupported algorithm id: {algorithm}");
                let len = state.len();
                require!(
                    len >= 3,
                    "For Philox algorithm, the size of state must be at least 3; got {len}"
                );
                Ok(state::skip(&mut state[..3], reserved.wrapping_mul(RESERVED_PER_OUTPUT)))
            })?;
            request.draw(ctx, stream)
        });
}

/// The sample shape that input 0 holds, followed by the parameters' shape.
fn samples_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let samples = ctx.operand_shape(0)?;
    ctx.set_output(0, shape_ops::concatenate(&samples, ctx.input(1)));
    Ok(())
}

fn seeded_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    check_seed(ctx, 1)?;
    let shape = ctx.operand_shape(0)?;
    ctx.set_output(0, shape);
    Ok(())
}

/// Draws a sample for a parameter; the stream stands where the sample's words begin.
type Draw = fn(parameter: f64, stream: Philox) -> f64;

/// The kernel of an op with attrs `seed` and `seed2`.
fn by_generator(init: &KernelInit<'_>, name: &'static str, draw: Draw) -> Result<Box<dyn Kernel>> {
    let generator = Generator::new(init)?;
    kernel(move |ctx: &mut OpContext<'_>| {
        let samples = shape_operand(ctx, 0)?;
        let parameters = ctx.input(1)?;
        let dims = [samples.dims(), parameters.shape().dims()].concat();
        let shape = Shape::new(&dims)?;
        if samples.count() > 0 {
            check_parameters(parameters, name)?;
        }
        let stream = generator.reserve(shape.count());
        draw_all(ctx, shape, parameters, stream, draw)
    })
}

/// The kernel of an op whose output has the shape at input 0, of which the parameters' shape is the end.
fn by_shape(
    ctx: &mut OpContext<'_>,
    stream: fn(&OpContext<'_>) -> Result<Philox>,
    parameters: usize,
    name: &str,
    draw: Draw,
) -> Result<()> {
    let shape = shape_operand(ctx, 0)?;
    let stream = stream(ctx)?;
    let parameters = ctx.input(parameters)?;
    if shape.count() > 0 {
        check_ends_with(&shape, parameters.shape())?;
        check_parameters(parameters, name)?;
    }
    draw_all(ctx, shape, parameters, stream, draw)
}

fn check_parameters(parameters: &Tensor, name: &str) -> Result<()> {
    require!(parameters.count() > 0, "Input {name} should have non-zero element count, got: 0");
    Ok(())
}

fn check_ends_with(shape: &Shape, end: &Shape) -> Result<()> {
    require!(
        shape.dims().ends_with(end.dims()),
        "Shape passed in must end with broadcasted shape."
    );
    Ok(())
}

fn draw_all(
    ctx: &OpContext<'_>,
    shape: Shape,
    parameters: &Tensor,
    stream: Philox,
    draw: Draw,
) -> Result<()> {
    ctx.try_produce(0, shape, |out| {
        let parameters = to_f64s(parameters)?;
        fill(ctx, parameters.len(), out, &|parameter, index| {
            let mut stream = stream;
            stream.skip((index as u64).wrapping_mul(RESERVED_PER_OUTPUT));
            draw(parameters[parameter], stream)
        })
    })
}

/// Fills `out`, whose rows have an element for each of `parameters`: sample `index` is one of parameter `index /
/// rows`.
fn fill(
    ctx: &OpContext<'_>,
    parameters: usize,
    out: ElemsMut<'_>,
    draw: &(dyn Fn(usize, usize) -> f64 + Sync),
) -> Result<()> {
    let rows = out.len() / parameters;
    let mut drawn = try_filled(0.0, out.len())?;
    par_chunks_mut(ctx.parallel(), &mut drawn, 1, 64, &|start, piece| {
        for (index, value) in (start..).zip(piece) {
            *value = draw(index / rows, index);
        }
    });
    let value = |at: usize| drawn[at % parameters * rows + at / parameters];
    macro_rules! store {
        ($type:ty, $from:expr) => {
            for (at, out) in out.typed::<$type>().iter_mut().enumerate() {
                *out = $from(value(at));
            }
        };
    }
    match out.dtype() {
        DType::FLOAT => store!(f32, |value| value as f32),
        DType::DOUBLE => store!(f64, |value| value),
        DType::HALF => store!(Half, |value| Half::from_f32(value as f32)),
        DType::BFLOAT16 => store!(BFloat16, |value| BFloat16::from_f32(value as f32)),
        DType::INT32 => store!(i32, |value| value as i32),
        _ => store!(i64, |value| value as i64),
    }
    Ok(())
}

/// Numbers of any dtype that parameters may have.
fn to_f64s(tensor: &Tensor) -> Result<Vec<f64>> {
    Ok(match tensor.dtype() {
        DType::FLOAT => tensor.as_slice::<f32>()?.iter().map(|&value| value.into()).collect(),
        DType::DOUBLE => tensor.as_slice::<f64>()?.to_vec(),
        DType::HALF => tensor.as_slice::<Half>()?.iter().map(|value| value.to_f64()).collect(),
        DType::BFLOAT16 => {
            tensor.as_slice::<BFloat16>()?.iter().map(|value| value.to_f64()).collect()
        }
        _ => tensor.to_i64s()?.into_iter().map(|value| value as f64).collect(),
    })
}

/// What a binomial op is asked for.
struct Trials {
    shape: Shape,
    counts: Vec<f64>,
    probs: Vec<f64>,
    /// Rounds to the parameters' type.
    round: fn(f64) -> f64,
    batches: usize,
    samples: usize,
}

impl Trials {
    /// From the inputs that are the shape, the counts and the probabilities.
    fn new(ctx: &OpContext<'_>, inputs: [usize; 3]) -> Result<Trials> {
        let [shape, counts, probs] = inputs;
        let (wanted, counts, probs) = (ctx.input(shape)?, ctx.input(counts)?, ctx.input(probs)?);
        let Ok(broadcast) = Broadcast::new(counts.shape(), probs.shape()) else {
            return Err(invalid!(
                "counts and probs must have compatible batch dimensions: {} vs. {}",
                counts.shape(),
                probs.shape()
            ));
        };
        require!(
            wanted.rank() == 1,
            "Input shape should be a vector, got shape: {}",
            wanted.shape()
        );
        let shape = Shape::new(&wanted.to_i64s()?)?;
        check_ends_with(&shape, broadcast.output())?;
        let round: fn(f64) -> f64 = match counts.dtype() {
            DType::FLOAT => |value| f64::from(value as f32),
            DType::HALF => |value| Half::from_f64(value).to_f64(),
            _ => |value| value,
        };
        let batches = broadcast.output().count();
        let samples = shape.count().checked_div(batches).unwrap_or(0);
        if shape.count() == 0 {
            return Ok(Trials { shape, counts: vec![], probs: vec![], round, batches, samples });
        }
        let counts = broadcast_f64s(counts, broadcast.output())?;
        let probs = broadcast_f64s(probs, broadcast.output())?;
        Ok(Trials { shape, counts, probs, round, batches, samples })
    }

    fn draw(&self, ctx: &OpContext<'_>, stream: Philox) -> Result<()> {
        ctx.try_produce(0, self.shape.clone(), |out| {
            fill(ctx, self.batches, out, &|batch, index| {
                binomial(self.counts[batch], self.probs[batch], self.round, stream, index as u64)
            })
        })
    }
}

/// The elements of a tensor as often as its shape is broadcast to `shape`.
fn broadcast_f64s(tensor: &Tensor, shape: &Shape) -> Result<Vec<f64>> {
    let values = to_f64s(tensor)?;
    let mut out = try_filled(0.0, shape.count())?;
    for (index, out) in out.iter_mut().enumerate() {
        *out = values[index_of(tensor.shape(), shape, index)];
    }
    Ok(out)
}

/// Values of a distribution in the order in which the reference takes them: the last of each group first.
pub(crate) struct Backwards<T: RandomFloat> {
    group: Option<T::Group>,
    left: usize,
    draw: fn([u32; 4]) -> T::Group,
}

impl<T: RandomFloat> Backwards<T> {
    pub(crate) fn new(draw: fn([u32; 4]) -> T::Group) -> Backwards<T> {
        Backwards { group: None, left: 0, draw }
    }

    pub(crate) fn next(&mut self, stream: &mut Philox) -> T {
        if self.left == 0 {
            self.group = None;
        }
        let draw = self.draw;
        let group = self.group.get_or_insert_with(|| draw(stream.next4()));
        let group = group.as_ref();
        if self.left == 0 {
            self.left = group.len();
        }
        self.left -= 1;
        group[self.left]
    }
}

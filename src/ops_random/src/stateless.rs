//! Ops whose output depends on their operands alone.

use tfcore_base::{Floats, LoopSet, Result, TypedLoop};
use tfcore_framework::{
    InferenceContext, Kernel, OpContext, Registry, kernel, shape_fns, shape_ops,
};
use tfcore_math::philox::Philox;
use tfcore_tensor::{PartialShape, Shape, Tensor};

use crate::distribution::{
    Fill, IntRange, Normal, TruncatedNormal, Uniform, bounds, fill_full_range,
};
use crate::operands::{
    PHILOX, check_bounds, check_key, key_and_counter, shape_operand, stream_of_key, stream_of_seed,
};

pub(crate) fn register(r: &mut Registry) {
    // `StatelessRandomUniform(shape: T, seed: Tseed) -> output: dtype`, uniform in [0, 1), and its `V2`, which has
    // `(shape: Tshape, key: uint64, counter: uint64, alg: int32)`. Likewise the normal distributions.
    by_seed_and_key::<Uniform>(r, ["StatelessRandomUniform", "StatelessRandomUniformV2"]);
    by_seed_and_key::<Normal>(r, ["StatelessRandomNormal", "StatelessRandomNormalV2"]);
    by_seed_and_key::<TruncatedNormal>(
        r,
        ["StatelessTruncatedNormal", "StatelessTruncatedNormalV2"],
    );

    for (suffixed, full, origin) in [
        ("StatelessRandomUniformInt", "StatelessRandomUniformFullInt", Origin::Seed),
        ("StatelessRandomUniformIntV2", "StatelessRandomUniformFullIntV2", Origin::Key),
    ] {
        // `StatelessRandomUniformInt(shape: T, seed: Tseed, minval: dtype, maxval: dtype) -> output: dtype`, uniform in
        // [minval, maxval).
        r.op(suffixed)
            .shape(move |ctx| {
                check_bounds(ctx, origin.operands())?;
                shape(ctx, origin)
            })
            .cpu(move |_| integers(origin));

        // `StatelessRandomUniformFullInt(shape: T, seed: Tseed) -> output: dtype`, uniform over all values.
        r.op(full).shape(move |ctx| shape(ctx, origin)).cpu(move |_| full_range(origin));
    }

    // `StatelessRandomGetKeyCounter(seed: Tseed) -> (key: uint64, counter: uint64)`, the scrambled seed.
    r.op("StatelessRandomGetKeyCounter").shape(key_counter_shape).compute(key_counter);

    // `StatelessRandomGetKeyCounterAlg(seed: Tseed) -> (key: uint64, counter: uint64, alg: int32)`.
    r.op("StatelessRandomGetKeyCounterAlg")
        .shape(|ctx| {
            key_counter_shape(ctx)?;
            ctx.set_output(2, PartialShape::scalar());
            Ok(())
        })
        .compute(|ctx| {
            key_counter(ctx)?;
            ctx.set_output(2, Tensor::scalar(PHILOX as i32));
            Ok(())
        });

    // `StatelessRandomGetAlg() -> alg: int32`, the number of the algorithm, Philox.
    r.op("StatelessRandomGetAlg").shape(shape_fns::scalar).compute(|ctx| {
        ctx.set_output(0, Tensor::scalar(PHILOX as i32));
        Ok(())
    });
}

/// The ops of a distribution of floats.
fn by_seed_and_key<F: TypedLoop<Loop = Fill>>(r: &mut Registry, names: [&'static str; 2])
where
    Floats: LoopSet<F>,
{
    for (name, origin) in names.into_iter().zip([Origin::Seed, Origin::Key]) {
        r.op(name)
            .shape(move |ctx| shape(ctx, origin))
            .typed_kernel::<F, Floats>("dtype", move |_, fill| floats(origin, fill));
    }
}

/// Where an op's stream comes from.
#[derive(Clone, Copy)]
enum Origin {
    /// A pair of seeds at input 1.
    Seed,
    /// A key, a counter and an algorithm at inputs 1 to 3.
    Key,
}

impl Origin {
    /// The number of inputs up to the stream's last.
    fn operands(self) -> usize {
        match self {
            Origin::Seed => 2,
            Origin::Key => 4,
        }
    }

    fn stream(self, ctx: &OpContext<'_>) -> Result<Philox> {
        match self {
            Origin::Seed => stream_of_seed(ctx.input(1)?),
            Origin::Key => stream_of_key(ctx, 1),
        }
    }
}

fn shape(ctx: &mut InferenceContext<'_>, origin: Origin) -> Result<()> {
    match origin {
        Origin::Seed => check_seed(ctx, 1)?,
        Origin::Key => check_key(ctx, 1)?,
    }
    // Unlike the ops with a generator, these also know the scalar -1 as an unknown shape.
    let shape = ctx.operand_shape(0)?;
    ctx.set_output(0, shape);
    Ok(())
}

pub(crate) fn check_seed(ctx: &InferenceContext<'_>, index: usize) -> Result<()> {
    let seed = shape_ops::with_rank(ctx.input(index), 1)?;
    shape_ops::with_value(seed.dim(0), 2)?;
    Ok(())
}

fn floats(origin: Origin, fill: Fill) -> Result<Box<dyn Kernel>> {
    kernel(move |ctx| {
        let shape = shape_operand(ctx, 0)?;
        let stream = origin.stream(ctx)?;
        ctx.produce(0, shape, |out| fill(ctx.parallel(), stream, out))
    })
}

fn integers(origin: Origin) -> Result<Box<dyn Kernel>> {
    kernel(move |ctx| {
        let shape = shape_operand(ctx, 0)?;
        let stream = origin.stream(ctx)?;
        let bounds = bounds(ctx, origin.operands())?;
        // An empty range matters only if there is something to draw.
        ctx.try_produce(0, shape, |out| {
            IntRange::new(bounds)?.fill(ctx.parallel(), stream, out);
            Ok(())
        })
    })
}

fn full_range(origin: Origin) -> Result<Box<dyn Kernel>> {
    kernel(move |ctx| {
        let shape = shape_operand(ctx, 0)?;
        let stream = origin.stream(ctx)?;
        ctx.produce(0, shape, |out| fill_full_range(ctx.parallel(), stream, out))
    })
}

fn key_counter_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    check_seed(ctx, 0)?;
    ctx.set_output(0, PartialShape::vector(1));
    ctx.set_output(1, PartialShape::vector(2));
    Ok(())
}

fn key_counter(ctx: &mut OpContext<'_>) -> Result<()> {
    let (key, counter) = key_and_counter(&stream_of_seed(ctx.input(0)?)?);
    ctx.set_output(0, Tensor::from_slice(Shape::vector(1), &[key])?);
    ctx.set_output(1, Tensor::from_slice(Shape::vector(2), &counter)?);
    Ok(())
}

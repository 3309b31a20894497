//! Ops whose output depends on their operands alone.

use tfcore_base::{DType, Floats, Result, TypeSet};
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_fns, shape_ops,
};
use tfcore_math::philox::Philox;
use tfcore_tensor::{PartialShape, Shape, Tensor};

use crate::distribution::{FloatDistribution, IntRange, bounds, fill_full_range};
use crate::operands::{
    PHILOX, check_bounds, check_key, key_and_counter, shape_operand, stream_of_key, stream_of_seed,
};

pub(crate) fn register(r: &mut Registry) {
    // `StatelessRandomUniform(shape: T, seed: Tseed) -> output: dtype`, uniform in [0, 1), and its `V2`, which has
    // `(shape: Tshape, key: uint64, counter: uint64, alg: int32)`. Likewise the normal distributions.
    for (by_seed, by_key, distribution) in [
        ("StatelessRandomUniform", "StatelessRandomUniformV2", FloatDistribution::Uniform),
        ("StatelessRandomNormal", "StatelessRandomNormalV2", FloatDistribution::Normal),
        (
            "StatelessTruncatedNormal",
            "StatelessTruncatedNormalV2",
            FloatDistribution::TruncatedNormal,
        ),
    ] {
        for (name, origin) in [(by_seed, Origin::Seed), (by_key, Origin::Key)] {
            r.op(name).shape(move |ctx| shape(ctx, origin)).cpu_for(
                "dtype",
                &Floats::dtypes(),
                move |init| floats(init, origin, distribution),
            );
        }
    }

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
            .cpu_for("dtype", &[DType::INT32, DType::INT64], move |_| integers(origin));

        // `StatelessRandomUniformFullInt(shape: T, seed: Tseed) -> output: dtype`, uniform over all values.
        r.op(full)
            .shape(move |ctx| shape(ctx, origin))
            .cpu_for("dtype", FULL_RANGE, move |_| full_range(origin));
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

const FULL_RANGE: &[DType] = &[DType::INT32, DType::INT64, DType::UINT32, DType::UINT64];

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

fn check_seed(ctx: &InferenceContext<'_>, index: usize) -> Result<()> {
    let seed = shape_ops::with_rank(ctx.input(index), 1)?;
    shape_ops::with_value(seed.dim(0), 2)?;
    Ok(())
}

fn floats(
    init: &KernelInit<'_>,
    origin: Origin,
    distribution: FloatDistribution,
) -> Result<Box<dyn Kernel>> {
    let fill = distribution.fill(init.attrs.dtype("dtype")?)?;
    kernel(move |ctx| {
        let shape = shape_operand(ctx, 0)?;
        let stream = origin.stream(ctx)?;
        let mut out = ctx.allocate_output(0, shape)?;
        fill(ctx.parallel(), stream, out.elems_mut()?);
        ctx.set_output(0, out);
        Ok(())
    })
}

fn integers(origin: Origin) -> Result<Box<dyn Kernel>> {
    kernel(move |ctx| {
        let shape = shape_operand(ctx, 0)?;
        let stream = origin.stream(ctx)?;
        let mut out = ctx.allocate_output(0, shape)?;
        let first = origin.operands();
        let (minval, maxval) = (ctx.input(first)?, ctx.input(first + 1)?);
        if out.count() == 0 {
            bounds(minval, maxval)?;
        } else {
            IntRange::new(minval, maxval)?.fill(ctx.parallel(), stream, &mut out)?;
        }
        ctx.set_output(0, out);
        Ok(())
    })
}

fn full_range(origin: Origin) -> Result<Box<dyn Kernel>> {
    kernel(move |ctx| {
        let shape = shape_operand(ctx, 0)?;
        let stream = origin.stream(ctx)?;
        let mut out = ctx.allocate_output(0, shape)?;
        fill_full_range(ctx.parallel(), stream, &mut out)?;
        ctx.set_output(0, out);
        Ok(())
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

//! Ops whose kernel goes on in its stream from one run to the next.

use std::hash::{BuildHasher, RandomState};

use parking_lot::Mutex;
use tfcore_base::{DType, Floats, Result, TypeSet};
use tfcore_framework::{InferenceContext, Kernel, KernelInit, Registry, kernel};
use tfcore_math::philox::Philox;

use crate::distribution::{FloatDistribution, IntRange, bounds};
use crate::operands::{check_bounds, shape_from_operand, shape_operand};

pub(crate) fn register(r: &mut Registry) {
    // `RandomUniform(shape: T; seed, seed2) -> output: dtype`, uniform in [0, 1).
    // `RandomStandardNormal`, `TruncatedNormal`: likewise, normal, and normal between -2 and 2.
    for (name, distribution) in [
        ("RandomUniform", FloatDistribution::Uniform),
        ("RandomStandardNormal", FloatDistribution::Normal),
        ("TruncatedNormal", FloatDistribution::TruncatedNormal),
    ] {
        r.op(name).shape(|ctx| shape_from_operand(ctx, 0)).cpu_for(
            "dtype",
            &Floats::dtypes(),
            move |init| floats(init, distribution),
        );
    }

    // `RandomUniformInt(shape: T, minval: Tout, maxval: Tout; seed, seed2) -> output: Tout`, uniform in
    // [minval, maxval).
    r.op("RandomUniformInt").shape(int_shape).cpu_for(
        "Tout",
        &[DType::INT32, DType::INT64],
        integers,
    );
}

/// The stream of a kernel, where its next run begins.
pub(crate) struct Generator {
    position: Mutex<Philox>,
}

impl Generator {
    /// The generator of a node with attrs `seed` and `seed2`. If both are 0, no two generators are alike.
    pub(crate) fn new(init: &KernelInit<'_>) -> Result<Generator> {
        let seeds = (init.attrs.int("seed")? as u64, init.attrs.int("seed2")? as u64);
        let (seed, seed2) = match seeds {
            // The standard library seeds its hashers from the system.
            (0, 0) => (RandomState::new().hash_one(0), RandomState::new().hash_one(1)),
            given => given,
        };
        Ok(Generator { position: Mutex::new(Philox::new(seed, seed2)) })
    }

    /// The current position; the next is past what `outputs` values may take.
    pub(crate) fn reserve(&self, outputs: usize) -> Philox {
        let mut position = self.position.lock();
        let current = *position;
        position.skip_outputs(outputs as u64);
        current
    }

    /// The current position; the next is past `words` words, in whole groups of four.
    pub(crate) fn reserve_words(&self, words: usize) -> Philox {
        let mut position = self.position.lock();
        let current = *position;
        position.skip(words.div_ceil(4) as u64);
        current
    }
}

fn floats(init: &KernelInit<'_>, distribution: FloatDistribution) -> Result<Box<dyn Kernel>> {
    let fill = distribution.fill(init.attrs.dtype("dtype")?)?;
    let generator = Generator::new(init)?;
    kernel(move |ctx| {
        let mut out = ctx.allocate_output(0, shape_operand(ctx, 0)?)?;
        let stream = generator.reserve(out.count());
        fill(ctx.parallel(), stream, out.elems_mut()?);
        ctx.set_output(0, out);
        Ok(())
    })
}

fn int_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    check_bounds(ctx, 1)?;
    shape_from_operand(ctx, 0)
}

fn integers(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let generator = Generator::new(init)?;
    kernel(move |ctx| {
        let mut out = ctx.allocate_output(0, shape_operand(ctx, 0)?)?;
        let (minval, maxval) = (ctx.input(1)?, ctx.input(2)?);
        // Nothing is drawn from an empty range if there is nothing to draw.
        if out.count() == 0 {
            bounds(minval, maxval)?;
        } else {
            let range = IntRange::new(minval, maxval)?;
            let stream = generator.reserve(out.count());
            range.fill(ctx.parallel(), stream, &mut out)?;
        }
        ctx.set_output(0, out);
        Ok(())
    })
}

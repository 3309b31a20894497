//! Ops whose kernel goes on in its stream from one run to the next.

use std::hash::{BuildHasher, RandomState};

use parking_lot::Mutex;
use tfcore_base::{Floats, Result};
use tfcore_framework::{InferenceContext, Kernel, KernelInit, Registry, kernel};
use tfcore_math::philox::Philox;

use crate::distribution::{Fill, IntRange, Normal, TruncatedNormal, Uniform, bounds};
use crate::operands::{check_bounds, shape_from_operand, shape_operand};

pub(crate) fn register(r: &mut Registry) {
    // `RandomUniform(shape: T; seed, seed2) -> output: dtype`, uniform in [0, 1).
    // `RandomStandardNormal`, `TruncatedNormal`: likewise, normal, and normal between -2 and 2.
    let shape = |ctx: &mut InferenceContext<'_>| shape_from_operand(ctx, 0);
    r.op("RandomUniform").shape(shape).typed_kernel::<Uniform, Floats>("dtype", floats);
    r.op("RandomStandardNormal").shape(shape).typed_kernel::<Normal, Floats>("dtype", floats);
    r.op("TruncatedNormal").shape(shape).typed_kernel::<TruncatedNormal, Floats>("dtype", floats);

    // `RandomUniformInt(shape: T, minval: Tout, maxval: Tout; seed, seed2) -> output: Tout`, uniform in
    // [minval, maxval).
    r.op("RandomUniformInt").shape(int_shape).cpu(integers);
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
        self.reserve_groups(words.div_ceil(4) as u64)
    }

    /// The current position; the next is past `groups` groups of four words.
    pub(crate) fn reserve_groups(&self, groups: u64) -> Philox {
        let mut position = self.position.lock();
        let current = *position;
        position.skip(groups);
        current
    }
}

fn floats(init: &KernelInit<'_>, fill: Fill) -> Result<Box<dyn Kernel>> {
    let generator = Generator::new(init)?;
    kernel(move |ctx| {
        ctx.produce(0, shape_operand(ctx, 0)?, |out| {
            let stream = generator.reserve(out.len());
            fill(ctx.parallel(), stream, out);
        })
    })
}

fn int_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    check_bounds(ctx, 1)?;
    shape_from_operand(ctx, 0)
}

fn integers(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let generator = Generator::new(init)?;
    kernel(move |ctx| {
        let shape = shape_operand(ctx, 0)?;
        let bounds = bounds(ctx, 1)?;
        // An empty range matters only if there is something to draw.
        ctx.try_produce(0, shape, |out| {
            let range = IntRange::new(bounds)?;
            let stream = generator.reserve(out.len());
            range.fill(ctx.parallel(), stream, out);
            Ok(())
        })
    })
}

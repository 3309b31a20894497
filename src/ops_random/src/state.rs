//! Ops whose stream is kept in a resource variable: the counter's two words, then the key.

use std::hash::{BuildHasher, RandomState};

use tfcore_base::{
    DType, Floats, LoopSet, Result, TypedLoop, invalid, require, unimplemented_error,
};
use tfcore_framework::{
    InferenceContext, Kernel, OpContext, Registry, kernel, shape_fns, shape_ops,
};
use tfcore_math::philox::{Philox, RESERVED_PER_OUTPUT};
use tfcore_tensor::{PartialShape, Shape, Tensor};

use crate::distribution::{
    Fill, IntRange, Normal, TruncatedNormal, Uniform, bounds, fill_full_range,
};
use crate::operands::{PHILOX, key_and_counter, shape_from_operand, shape_operand, words};

pub(crate) fn register(r: &mut Registry) {
    // `StatefulUniform(resource, algorithm: int64, shape: shape_dtype) -> output: dtype`, uniform in [0, 1);
    // likewise the normal distributions.
    floats::<Uniform>(r, "StatefulUniform");
    floats::<Normal>(r, "StatefulStandardNormalV2");
    floats::<TruncatedNormal>(r, "StatefulTruncatedNormal");

    // `StatefulStandardNormal(resource, shape: shape_dtype) -> output: dtype`: the state begins with the algorithm.
    r.op("StatefulStandardNormal")
        .shape(|ctx| shape_from_operand(ctx, 1))
        .typed_kernel::<Normal, Floats>("dtype", |_, fill| {
            kernel(move |ctx| {
                let shape = shape_operand(ctx, 1)?;
                let stream = advance(ctx, Algorithm::InState, shape.count() as u64)?;
                ctx.produce(0, shape, |out| fill(ctx.parallel(), stream, out))
            })
        });

    // `StatefulUniformInt(resource, algorithm: int64, shape: shape_dtype, minval: dtype, maxval: dtype) -> output:
    // dtype`, uniform in [minval, maxval).
    r.op("StatefulUniformInt")
        .shape(|ctx| {
            for index in [3, 4] {
                shape_ops::with_rank(ctx.input(index), 0)?;
            }
            stateful_shape(ctx)
        })
        .compute(|ctx| {
            let algorithm = Algorithm::Given(scalar_operand(ctx, 1)?);
            // Unlike the other ops, an empty output does not excuse an empty range.
            let range = IntRange::new(bounds(ctx, 3)?)?;
            let shape = shape_operand(ctx, 2)?;
            let stream = advance(ctx, algorithm, shape.count() as u64)?;
            ctx.produce(0, shape, |out| range.fill(ctx.parallel(), stream, out))
        });

    // `StatefulUniformFullInt(resource, algorithm: int64, shape: shape_dtype) -> output: dtype`.
    r.op("StatefulUniformFullInt").shape(stateful_shape).compute(|ctx| {
        let algorithm = Algorithm::Given(scalar_operand(ctx, 1)?);
        let shape = shape_operand(ctx, 2)?;
        let stream = advance(ctx, algorithm, shape.count() as u64)?;
        ctx.produce(0, shape, |out| fill_full_range(ctx.parallel(), stream, out))
    });

    // `RngSkip(resource, algorithm: int64, delta: int64)`, passes over what `delta` outputs may take.
    r.op("RngSkip").shape(skip_shape).compute(|ctx| {
        let algorithm = Algorithm::Given(scalar_operand(ctx, 1)?);
        let delta = scalar_operand(ctx, 2)? as u64;
        advance(ctx, algorithm, delta).map(|_| ())
    });

    // `RngReadAndSkip(resource, alg: int32, delta: uint64) -> value: int64`, likewise, with the state as it was.
    r.op("RngReadAndSkip")
        .shape(|ctx| {
            skip_shape(ctx)?;
            ctx.set_output(0, PartialShape::vector(3));
            Ok(())
        })
        .compute(|ctx| {
            let algorithm = Algorithm::Given(scalar_operand(ctx, 1)?);
            let delta = ctx.input(2)?;
            check_scalar(delta, 2)?;
            let stream = advance(ctx, algorithm, delta.scalar_value::<u64>()?)?;
            ctx.set_output(0, Tensor::from_slice(Shape::vector(3), &state_of(&stream))?);
            Ok(())
        });

    // `NonDeterministicInts(shape: shape_dtype) -> output: dtype`, without any seed.
    r.op("NonDeterministicInts").shape(|ctx| shape_from_operand(ctx, 0)).compute(|ctx| {
        ctx.produce(0, shape_operand(ctx, 0)?, |out| {
            // The standard library seeds its hashers from the system.
            let source = RandomState::new();
            let stream = Philox::new(source.hash_one(0), source.hash_one(1));
            fill_full_range(ctx.parallel(), stream, out);
        })
    });
}

/// Registers an op on a distribution of floats.
fn floats<F: TypedLoop<Loop = Fill>>(r: &mut Registry, name: &'static str)
where
    Floats: LoopSet<F>,
{
    r.op(name).shape(stateful_shape).typed_kernel::<F, Floats>("dtype", |_, fill| fills(fill));
}

fn fills(fill: Fill) -> Result<Box<dyn Kernel>> {
    kernel(move |ctx| {
        let algorithm = Algorithm::Given(scalar_operand(ctx, 1)?);
        let shape = shape_operand(ctx, 2)?;
        let stream = advance(ctx, algorithm, shape.count() as u64)?;
        ctx.produce(0, shape, |out| fill(ctx.parallel(), stream, out))
    })
}

fn stateful_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    shape_ops::with_rank(ctx.input(1), 0)?;
    shape_from_operand(ctx, 2)
}

fn skip_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    for index in [1, 2] {
        shape_ops::with_rank(ctx.input(index), 0)?;
    }
    shape_fns::no_outputs(ctx)
}

fn check_scalar(tensor: &Tensor, index: usize) -> Result<()> {
    require!(
        tensor.rank() == 0,
        "input {index} (0-based) must have shape [], not {}",
        tensor.shape()
    );
    Ok(())
}

fn scalar_operand(ctx: &OpContext<'_>, index: usize) -> Result<i64> {
    let tensor = ctx.input(index)?;
    check_scalar(tensor, index)?;
    Ok(tensor.to_i64s()?[0])
}

/// The place that tells the algorithm.
#[derive(Clone, Copy)]
pub(crate) enum Algorithm {
    Given(i64),
    /// The state's first element.
    InState,
}

/// Reads the stream at input 0 and moves the state past what `outputs` values may take.
///
/// # Errors
/// `InvalidArgument` for a state that is no vector of enough `int64`, and for unknown algorithms; `Unimplemented` for
/// ThreeFry.
pub(crate) fn advance(ctx: &OpContext<'_>, algorithm: Algorithm, outputs: u64) -> Result<Philox> {
    let steps = outputs.wrapping_mul(RESERVED_PER_OUTPUT);
    change(ctx, |state| {
        let (algorithm, first) = match algorithm {
            Algorithm::Given(number) => (number, 0),
            Algorithm::InState => match state {
                [number, ..] => (*number, 1),
                [] => return Err(invalid!("Size of tensor must be at least 1")),
            },
        };
        check_algorithm(algorithm)?;
        let (len, needed) = (state.len(), first + 3);
        require!(
            len >= needed,
            "For the Philox algorithm, the size of state must be at least {needed}; got {len}"
        );
        Ok(skip(&mut state[first..needed], steps))
    })
}

/// Lets `f` change the elements of the state at input 0.
pub(crate) fn change(
    ctx: &OpContext<'_>,
    f: impl FnOnce(&mut [i64]) -> Result<Philox>,
) -> Result<Philox> {
    ctx.variable(0)?.update(&ctx.step().buffers, |state| {
        require!(
            state.dtype() == DType::INT64,
            "dtype of RNG state variable must be int64, not {}",
            state.dtype()
        );
        require!(
            state.rank() == 1,
            "RNG state must have one and only one dimension, not {}",
            state.rank()
        );
        f(state.as_mut_slice()?)
    })
}

fn check_algorithm(number: i64) -> Result<()> {
    const THREE_FRY: i64 = 2;
    const AUTO_SELECT: i64 = 3;
    match number {
        PHILOX | AUTO_SELECT => Ok(()),
        THREE_FRY => {
            Err(unimplemented_error!("Non-XLA devices don't support the ThreeFry algorithm."))
        }
        other => Err(invalid!("Unsupported algorithm id: {other}")),
    }
}

/// Reads the stream that the state's three elements are and moves the state on.
pub(crate) fn skip(state: &mut [i64], steps: u64) -> Philox {
    let [[c0, c1], [c2, c3], key] = [0, 1, 2].map(|k| words(state[k] as u64));
    let stream = Philox { key, counter: [c0, c1, c2, c3] };
    let mut next = stream;
    next.skip(steps);
    state.copy_from_slice(&state_of(&next));
    stream
}

fn state_of(stream: &Philox) -> [i64; 3] {
    let (key, [low, high]) = key_and_counter(stream);
    [low as i64, high as i64, key as i64]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_move_in_steps_of_256_for_each_output() {
        // What `RngSkip` of TensorFlow 2.21 leaves in the variable.
        for (state, delta, expected) in [
            ([1, 2, 3], -3i64, [-767, 2, 3]),
            ([-1, 2, 3], 2, [511, 3, 3]),
            ([1, 2, 3], 1 << 58, [1, 2, 3]),
        ] {
            let mut elements: [i64; 3] = state;
            skip(&mut elements, (delta as u64).wrapping_mul(RESERVED_PER_OUTPUT));
            assert_eq!(elements, expected, "{state:?} {delta}");
        }
    }

    #[test]
    fn algorithms_by_number() {
        assert!(check_algorithm(1).is_ok() && check_algorithm(3).is_ok());
        assert!(check_algorithm(2).unwrap_err().message().contains("ThreeFry"));
        assert_eq!(check_algorithm(7).unwrap_err().message(), "Unsupported algorithm id: 7");
    }
}

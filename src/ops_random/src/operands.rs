//! Operands that many random ops share: shapes, seeds, keys and counters.

use tfcore_base::{Result, require};
use tfcore_framework::{InferenceContext, OpContext, shape_ops};
use tfcore_math::philox::Philox;
use tfcore_tensor::{Shape, Tensor};

/// The shape that the vector at input `index` holds.
///
/// # Errors
/// `InvalidArgument` if it is no vector or not of sizes.
pub(crate) fn shape_operand(ctx: &OpContext<'_>, index: usize) -> Result<Shape> {
    let tensor = ctx.input(index)?;
    require!(
        tensor.rank() == 1,
        "shape must be a vector of {{int32,int64}}, got shape {}",
        tensor.shape()
    );
    Shape::new(&tensor.to_i64s()?)
}

/// The first output has the shape that input `index` holds.
pub(crate) fn shape_from_operand(ctx: &mut InferenceContext<'_>, index: usize) -> Result<()> {
    shape_ops::with_rank(ctx.input(index), 1)?;
    let shape = ctx.operand_shape(index)?;
    ctx.set_output(0, shape);
    Ok(())
}

/// Checks that inputs `first` and the one after it, the bounds of integers, are scalars.
pub(crate) fn check_bounds(ctx: &InferenceContext<'_>, first: usize) -> Result<()> {
    for (index, name) in [(first, "minval"), (first + 1, "maxval")] {
        let shape = ctx.input(index);
        require!(
            shape.rank().is_none_or(|rank| rank == 0),
            "{name} must be a scalar; got a tensor of shape {shape}"
        );
    }
    Ok(())
}

/// The keys of the scrambling of seeds.
const SCRAMBLE: [u32; 2] = [0x3ec8_f720, 0x0246_1e29];

/// The start of the stream for a pair of seeds. The seeds are scrambled, so that any two pairs give
/// unlike streams.
///
/// # Errors
/// `InvalidArgument` if `seed` is no vector of two.
pub(crate) fn stream_of_seed(seed: &Tensor) -> Result<Philox> {
    require!(seed.shape().dims() == [2], "seed must have shape [2], not {}", seed.shape());
    let seeds = seed.to_i64s()?;
    let ([a, b], [c, d]) = (words(seeds[0] as u64), words(seeds[1] as u64));
    let [k0, k1, c2, c3] = Philox { key: SCRAMBLE, counter: [a, b, c, d] }.next4();
    Ok(Philox { key: [k0, k1], counter: [0, 0, c2, c3] })
}

/// The low and the high word.
pub(crate) fn words(value: u64) -> [u32; 2] {
    [value as u32, (value >> 32) as u32]
}

/// The random number algorithms, by the numbers that ops know them by.
pub(crate) const PHILOX: i64 = 1;
const AUTO_SELECT: i64 = 3;

/// The stream of a key, a counter and an algorithm, at inputs `first` and following.
///
/// # Errors
/// `InvalidArgument` for shapes that do not fit and for algorithms other than Philox.
pub(crate) fn stream_of_key(ctx: &OpContext<'_>, first: usize) -> Result<Philox> {
    let (key, counter) = (ctx.input(first)?, ctx.input(first + 1)?);
    let algorithm = ctx.input(first + 2)?;
    require!(algorithm.rank() == 0, "algorithm must be of shape [], not {}", algorithm.shape());
    let algorithm = match algorithm.to_i64s()?[0] {
        AUTO_SELECT => PHILOX,
        other => other,
    };
    require!(
        key.shape().dims() == [1],
        "key must have shape [1], not {}. (Note that batched keys are not supported yet.)",
        key.shape()
    );
    // The reference takes the algorithm's number for the length it needs, and reads on behind a
    // counter that is too short for Philox. Here zeros stand there.
    require!(
        counter.rank() == 1 && counter.shape()[0] >= algorithm,
        "counter must be a vector with length at least {algorithm}; got shape: {}. (Note that batched \
         counters are not supported yet.)",
        counter.shape()
    );
    require!(algorithm == PHILOX, "Unsupported algorithm id: {algorithm}");
    let key = key.as_slice::<u64>()?[0];
    let counter = counter.as_slice::<u64>()?;
    let [[c0, c1], [c2, c3]] = [0, 1].map(|k| words(counter.get(k).copied().unwrap_or(0)));
    Ok(Philox { key: words(key), counter: [c0, c1, c2, c3] })
}

/// Checks the shapes of a key, a counter and an algorithm at inputs `first` and following.
pub(crate) fn check_key(ctx: &InferenceContext<'_>, first: usize) -> Result<()> {
    let key = shape_ops::with_rank(ctx.input(first), 1)?;
    shape_ops::with_rank(ctx.input(first + 1), 1)?;
    shape_ops::with_rank(ctx.input(first + 2), 0)?;
    shape_ops::with_value(key.dim(0), 1)?;
    Ok(())
}

/// The two numbers of 64 bits that a stream's key and counter make.
pub(crate) fn key_and_counter(stream: &Philox) -> (u64, [u64; 2]) {
    let join = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    let [c0, c1, c2, c3] = stream.counter;
    (join(stream.key[0], stream.key[1]), [join(c0, c1), join(c2, c3)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_scrambled_as_tensorflow_does() {
        // What `StatelessRandomGetKeyCounter` of TensorFlow 2.21 gives.
        let cases: [([i64; 2], u64, u64); 2] = [
            ([1, 2], 10413732777507651514, 17830669156045600267),
            ([(1 << 40) + 1, -5], 6611354987229620085, 597223615089241647),
        ];
        for (seed, key, counter) in cases {
            let tensor = Tensor::from_slice(Shape::vector(2), &seed).unwrap();
            let stream = stream_of_seed(&tensor).unwrap();
            assert_eq!(key_and_counter(&stream), (key, [0, counter]), "{seed:?}");
        }
        let error = stream_of_seed(&Tensor::scalar(1i32)).unwrap_err();
        assert_eq!(error.message(), "seed must have shape [2], not []");
    }
}

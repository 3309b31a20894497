//! Shuffling the rows of a tensor.

use tfcore_base::Result;
use tfcore_framework::{OpContext, Registry, kernel, shape_fns};
use tfcore_math::philox::Philox;

use crate::operands::{check_key, stream_of_key};
use crate::stateful::Generator;

pub(crate) fn register(r: &mut Registry) {
    // `RandomShuffle(value: T; seed, seed2) -> output: T`, the rows of `value` in random order.
    r.op("RandomShuffle").shape(shape_fns::unchanged).cpu(|init| {
        let generator = Generator::new(init)?;
        kernel(move |ctx| {
            let rows = rows(ctx)?;
            // One word for each row; a single row stays where it is.
            let stream =
                if rows > 1 { generator.reserve_words(rows) } else { generator.reserve(0) };
            shuffle(ctx, stream)
        })
    });

    // `StatelessShuffle(value: T, key: uint64, counter: uint64, alg: int32) -> output: T`.
    r.op("StatelessShuffle")
        .shape(|ctx| {
            check_key(ctx, 1)?;
            shape_fns::unchanged(ctx)
        })
        .compute(|ctx| shuffle(ctx, stream_of_key(ctx, 1)?));
}

/// The size of the first axis of input 0; a scalar is one row.
fn rows(ctx: &OpContext<'_>) -> Result<usize> {
    Ok(ctx.input(0)?.shape().first().map_or(1, |&rows| rows as usize))
}

fn shuffle(ctx: &mut OpContext<'_>, stream: Philox) -> Result<()> {
    let rows = rows(ctx)?;
    if rows <= 1 {
        let value = ctx.take_input(0)?;
        ctx.set_output(0, value);
        return Ok(());
    }
    let value = ctx.input(0)?;
    let row_len = value.count() / rows;
    let row = |index: usize| index * row_len..(index + 1) * row_len;
    ctx.produce(0, value.shape().clone(), |mut out| {
        for (to, from) in permutation(rows, stream).into_iter().enumerate() {
            out.slice(row(to)).copy_from(value.elems().slice(row(from)));
        }
    })
}

/// The numbers below `len` in the order that the words of the stream make, one after the other: each place
/// gets one of the numbers that are left.
fn permutation(len: usize, mut stream: Philox) -> Vec<usize> {
    let mut order: Vec<usize> = (0..len).collect();
    let mut words = [0; 4];
    for place in 0..len.saturating_sub(1) {
        if place % 4 == 0 {
            words = stream.next4();
        }
        // The reference counts what is left in 32 bits.
        let left = ((len - place) as u32).max(1);
        order.swap(place, place + (words[place % 4] % left) as usize);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_tensorflows() {
        // `RandomShuffle` of TensorFlow 2.21 with seeds 87654321 and 42.
        assert_eq!(
            permutation(20, Philox::new(87_654_321, 42)),
            [12, 1, 15, 3, 17, 13, 16, 4, 7, 8, 6, 11, 5, 9, 19, 0, 2, 14, 18, 10]
        );
        // `StatelessShuffle` with key 7 and counter [1, 2].
        assert_eq!(
            permutation(20, Philox { key: [7, 0], counter: [1, 0, 2, 0] }),
            [1, 0, 7, 8, 9, 15, 4, 19, 6, 14, 13, 12, 10, 11, 16, 17, 3, 5, 2, 18]
        );
        assert_eq!(permutation(0, Philox::new(1, 1)), []);
    }
}

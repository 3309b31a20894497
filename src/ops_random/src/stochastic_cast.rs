//! `StochasticCastToInt`.

use num_traits::Float;
use tfcore_base::{DType, Elem, Floats, LoopFor, TypedLoop};
use tfcore_framework::{Registry, shape_fns};
use tfcore_math::philox::{Philox, RandomFloat};
use tfcore_tensor::{Elems, ElemsMut};

use crate::operands::{check_key, stream_of_key};

pub(crate) fn register(r: &mut Registry) {
    // `StochasticCastToInt(input: Tin, key: uint64, counter: uint64, alg: int32) -> output: Tout`: rounds up or down, the
    // nearer integer with the larger probability.
    r.op("StochasticCastToInt")
        .shape(|ctx| {
            check_key(ctx, 1)?;
            shape_fns::unchanged(ctx)
        })
        .typed::<Rounding, Floats>("Tin", |ctx, round| {
            let stream = stream_of_key(ctx, 1)?;
            let input = ctx.input(0)?;
            ctx.produce(0, input.shape().clone(), |out| round(stream, input.elems(), out))
        });
}

/// Rounds all elements.
type Round = fn(Philox, Elems<'_>, ElemsMut<'_>);

struct Rounding;

impl TypedLoop for Rounding {
    type Loop = Round;
}

impl<T: Elem + RandomFloat + Float> LoopFor<T> for Rounding {
    const LOOP: Round = |mut stream, input, out| {
        let (low, high) = match out.dtype() {
            DType::INT8 => (i32::from(i8::MIN), i32::from(i8::MAX)),
            DType::INT16 => (i32::from(i16::MIN), i32::from(i16::MAX)),
            _ => (i32::MIN, i32::MAX),
        };
        let input = input.typed::<T>();
        // The reference takes single and double precision numbers by vectors of 16 bytes, each with one group of the
        // stream; what is left at the end, and half types, one by one.
        let lanes = if size_of::<T>() < 4 { 1 } else { 16 / size_of::<T>() };
        let whole = if lanes == 1 { 0 } else { input.len() / lanes * lanes };
        let mut group = None;
        let mut rounded = input.iter().enumerate().map(|(index, &x)| {
            if index < whole {
                if index % lanes == 0 {
                    group = Some(T::uniform(stream.next4()));
                }
                let random =
                    group.as_ref().map_or(T::zero(), |group| group.as_ref()[index % lanes]);
                return round(x, low, high, || random);
            }
            round(x, low, high, || T::uniform(stream.next4()).as_ref()[0])
        });
        match out.dtype() {
            DType::INT8 => fill(out.typed::<i8>(), &mut rounded, |value| value as i8),
            DType::INT16 => fill(out.typed::<i16>(), &mut rounded, |value| value as i16),
            _ => fill(out.typed::<i32>(), &mut rounded, |value| value),
        }
    };
}

fn fill<T>(out: &mut [T], values: &mut dyn Iterator<Item = i32>, convert: fn(i32) -> T) {
    for (out, value) in out.iter_mut().zip(values) {
        *out = convert(value);
    }
}

/// One number between `low` and `high`; `random` is called for those that are no integers.
fn round<T: RandomFloat + Float>(x: T, low: i32, high: i32, random: impl FnOnce() -> T) -> i32 {
    let bound = |bound: i32| T::from(bound).unwrap_or_else(T::zero);
    let rounded = if x.is_nan() {
        return 0;
    } else if x >= bound(high) {
        return high;
    } else if x <= bound(low) {
        return low;
    } else if x.floor() == x {
        x
    } else {
        let random = random();
        match x < T::zero() {
            true => (x + random).floor(),
            false => (x + T::one() - random).floor(),
        }
    };
    rounded.to_i32().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_taken_by_their_distance() {
        let mut stream = Philox::new(1, 2);
        let mut draw = |x: f32| round(x, -128, 127, || f32::uniform(stream.next4())[0]);
        assert_eq!([2.0, 200.0, -1e9, f32::NAN].map(&mut draw), [2, 127, -128, 0]);
        for x in [2.25f32, -2.25] {
            let sum: i32 = (0..4000).map(|_| draw(x)).sum();
            assert!((sum as f32 / 4000.0 - x).abs() < 0.05, "{x}: {sum}");
        }
    }
}

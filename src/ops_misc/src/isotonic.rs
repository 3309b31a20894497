//! `IsotonicRegression`.

use num_traits::AsPrimitive;
use tfcore_base::{BFloat16, DType, Elem, Half, LoopFor, Result, TypedLoop, try_filled};
use tfcore_framework::{InferenceContext, OpContext, Registry, shape_ops};
use tfcore_tensor::Elems;

type Types = (f32, f64, Half, BFloat16, i8, i16, i32, i64);

pub(crate) fn register(r: &mut Registry) {
    // `IsotonicRegression(input: T) -> (output: output_dtype, segments: int32)`: for each row along the last axis the
    // sequence that never rises and is nearest to the row, and the number of the constant run that each element is in.
    r.op("IsotonicRegression").shape(isotonic_shape).typed::<ToDoubles, Types>("T", isotonic);
}

fn isotonic_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let input = shape_ops::with_rank_at_least(ctx.input(0), 1).unwrap_or(ctx.input(0).clone());
    ctx.set_output(0, input.clone());
    ctx.set_output(1, input);
    Ok(())
}

struct ToDoubles;

impl TypedLoop for ToDoubles {
    type Loop = fn(Elems<'_>, &mut [f64]);
}

impl<T: Elem + AsPrimitive<f64>> LoopFor<T> for ToDoubles {
    const LOOP: fn(Elems<'_>, &mut [f64]) = |from, to| {
        for (to, from) in to.iter_mut().zip(from.typed::<T>()) {
            *to = from.as_();
        }
    };
}

fn isotonic(ctx: &mut OpContext<'_>, convert: fn(Elems<'_>, &mut [f64])) -> Result<()> {
    let input = ctx.input(0)?;
    let row = input.shape().dims().last().map_or(1, |&len| len as usize).max(1);
    let mut values = try_filled(0.0, input.count())?;
    convert(input.elems(), &mut values);
    let mut segments = try_filled(0i32, input.count())?;
    for (values, segments) in values.chunks_mut(row).zip(segments.chunks_mut(row)) {
        pool_adjacent(values, segments);
    }
    let shape = input.shape().clone();
    ctx.produce(0, shape.clone(), |out| match out.dtype() {
        DType::DOUBLE => out.typed::<f64>().copy_from_slice(&values),
        DType::FLOAT => {
            out.typed::<f32>()
                .iter_mut()
                .zip(&values)
                .for_each(|(out, &value)| *out = value as f32);
        }
        DType::HALF => {
            let out = out.typed::<Half>().iter_mut();
            out.zip(&values).for_each(|(out, &value)| *out = Half::from_f64(value));
        }
        _ => {
            let out = out.typed::<BFloat16>().iter_mut();
            out.zip(&values).for_each(|(out, &value)| *out = BFloat16::from_f64(value));
        }
    })?;
    ctx.produce(1, shape, |out| out.typed::<i32>().copy_from_slice(&segments))
}

/// A run of elements that share their mean.
struct Run {
    sum: f64,
    len: usize,
}

impl Run {
    fn mean(&self) -> f64 {
        self.sum / self.len as f64
    }
}

/// Joins neighbours as long as the later one is larger.
fn pool_adjacent(values: &mut [f64], segments: &mut [i32]) {
    let mut runs: Vec<Run> = Vec::new();
    for &value in values.iter() {
        let mut run = Run { sum: value, len: 1 };
        while let Some(before) = runs.last()
            && before.mean() < run.mean()
        {
            run = Run { sum: before.sum + run.sum, len: before.len + run.len };
            runs.pop();
        }
        runs.push(run);
    }
    let mut at = 0;
    for (number, run) in runs.iter().enumerate() {
        values[at..at + run.len].fill(run.mean());
        segments[at..at + run.len].fill(number as i32);
        at += run.len;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rises_are_levelled() {
        for (input, output, runs) in [
            ([3.0, 3.0, 2.0], [3.0, 3.0, 2.0], [0, 1, 2]),
            ([1.0, 2.0, 3.0], [2.0, 2.0, 2.0], [0, 0, 0]),
            ([5.0, 1.0, 4.0], [5.0, 2.5, 2.5], [0, 1, 1]),
        ] {
            let (mut values, mut segments) = (input, [0; 3]);
            pool_adjacent(&mut values, &mut segments);
            assert_eq!((values, segments), (output, runs));
        }
    }
}

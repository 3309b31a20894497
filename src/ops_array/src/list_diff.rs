//! `ListDiff`: what one list has and another has not.

use std::collections::HashSet;
use std::hash::Hash;

use tfcore_base::{BFloat16, DType, Half, Result, internal, require};
use tfcore_framework::movement::{Movement, move_elems};
use tfcore_framework::{InferenceContext, OpContext, Registry, shape_ops};
use tfcore_tensor::{Dim, Elems, PartialShape, Shape, TString, Tensor};

pub(crate) fn register(r: &mut Registry) {
    // `ListDiff(x: T, y: T) -> (out: T, idx: out_idx)`: the elements of `x` that `y` lacks, and where they stand.
    r.op("ListDiff").shape(list_diff_shape).compute(list_diff);
}

fn list_diff_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    shape_ops::with_rank(ctx.input(0), 1)?;
    shape_ops::with_rank(ctx.input(1), 1)?;
    let count = Dim::fresh();
    ctx.set_output(0, PartialShape::vector(count));
    ctx.set_output(1, PartialShape::vector(count));
    Ok(())
}

fn list_diff(ctx: &mut OpContext<'_>) -> Result<()> {
    let (x, y) = (ctx.input(0)?, ctx.input(1)?);
    require!(x.rank() == 1, "x should be a 1D vector.");
    require!(y.rank() == 1, "y should be a 1D vector.");
    let kept = difference(x.elems(), y.elems())?;
    let shape = Shape::vector(kept.len());
    let mut out = Tensor::zeros(x.dtype(), shape.clone())?;
    move_elems(x.elems(), out.elems_mut()?, Kept(&kept));
    let positions = match ctx.output_dtype(1) {
        DType::INT64 => {
            let positions: Vec<i64> = kept.iter().map(|&at| at as i64).collect();
            Tensor::from_slice(shape, &positions)?
        }
        _ => {
            require!(
                i32::try_from(x.count()).is_ok(),
                "too large int32 indexing: x has {} elements",
                x.count()
            );
            let positions: Vec<i32> = kept.iter().map(|&at| at as i32).collect();
            Tensor::from_slice(shape, &positions)?
        }
    };
    ctx.set_output(0, out);
    ctx.set_output(1, positions);
    Ok(())
}

struct Kept<'a>(&'a [usize]);

impl Movement for Kept<'_> {
    fn run<E: Clone>(self, source: &[E], out: &mut [E]) {
        for (to, &from) in out.iter_mut().zip(self.0) {
            *to = source[from].clone();
        }
    }
}

/// The positions of the elements of `x` that are not in `y`. NaN is in no list.
fn difference(x: Elems<'_>, y: Elems<'_>) -> Result<Vec<usize>> {
    Ok(match x.dtype() {
        DType::STRING => lacking(x.typed::<TString>(), y.typed(), |s| Some(s.as_bytes())),
        DType::FLOAT => lacking(x.typed::<f32>(), y.typed(), |v| number_key((*v).into())),
        DType::DOUBLE => lacking(x.typed::<f64>(), y.typed(), |v| number_key(*v)),
        // The reference finds these by their bits, so that -0 is not 0.
        DType::HALF => {
            lacking(x.typed::<Half>(), y.typed(), |v| (!v.is_nan()).then(|| v.to_bits()))
        }
        DType::BFLOAT16 => {
            lacking(x.typed::<BFloat16>(), y.typed(), |v| (!v.is_nan()).then(|| v.to_bits()))
        }
        dtype if dtype.is_integer() => match dtype.size() {
            1 => lacking(x.lanes::<u8>(), y.lanes(), |v| Some(*v)),
            2 => lacking(x.lanes::<u16>(), y.lanes(), |v| Some(*v)),
            4 => lacking(x.lanes::<u32>(), y.lanes(), |v| Some(*v)),
            _ => lacking(x.lanes::<u64>(), y.lanes(), |v| Some(*v)),
        },
        dtype => return Err(internal!("ListDiff has no kernel for type {dtype}")),
    })
}

/// The bits that equal numbers share.
fn number_key(value: f64) -> Option<u64> {
    if value.is_nan() { None } else { Some((value + 0.0).to_bits()) }
}

fn lacking<'e, E, K: Hash + Eq>(x: &'e [E], y: &'e [E], key: fn(&'e E) -> Option<K>) -> Vec<usize> {
    let known: HashSet<K> = y.iter().filter_map(key).collect();
    let is_new = |value: &'e E| key(value).is_none_or(|key| !known.contains(&key));
    x.iter().enumerate().filter(|(_, value)| is_new(value)).map(|(at, _)| at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::*;

    #[test]
    fn what_the_other_list_lacks() {
        let attrs = [int32(), ("out_idx", of(DType::INT64))];
        let halves = |values: &[f32]| {
            let values: Vec<BFloat16> = values.iter().map(|&v| BFloat16::from_f32(v)).collect();
            Tensor::from_slice(Shape::vector(values.len()), &values).unwrap()
        };
        // -0 is not 0 here, and NaN is in no list.
        let x = halves(&[-0.0, 1.0, 0.0, f32::NAN]);
        let half_attrs = [("T", of(DType::BFLOAT16)), ("out_idx", of(DType::INT64))];
        let out = run("ListDiff", &half_attrs, &[x, halves(&[0.0, f32::NAN])]).unwrap();
        assert_eq!(out[1].as_slice::<i64>().unwrap(), [0, 1, 3]);
        let out = run("ListDiff", &attrs, &[ints(&[1, 2, 3, 2, 5]), ints(&[3])]).unwrap();
        assert_eq!(out[0].as_slice::<i32>().unwrap(), [1, 2, 2, 5]);
        assert_eq!(out[1].as_slice::<i64>().unwrap(), [0, 1, 3, 4]);
        let floats = [tensor(&[3], &[0.0f32, f32::NAN, 1.0]), tensor(&[2], &[-0.0f32, f32::NAN])];
        let attrs = [("T", of(DType::FLOAT)), ("out_idx", of(DType::INT32))];
        assert_eq!(run("ListDiff", &attrs, &floats).unwrap()[1].as_slice::<i32>().unwrap(), [1, 2]);
        assert_eq!(
            failure("ListDiff", &attrs, &[tensor(&[1, 1], &[0f32]), tensor(&[1], &[0f32])]),
            "x should be a 1D vector."
        );
        assert_eq!(
            shapes("ListDiff", &[int32(), ("out_idx", of(DType::INT32))], "[4];[2]", &[]),
            "[?];[?]"
        );
    }
}

//! Reductions by segments in any order: `UnsortedSegmentSum` and its like.

use std::marker::PhantomData;

use tfcore_base::{
    BFloat16, Elem, Half, LoopFor, Numbers, RealNumbers, Result, TypedLoop, invalid, require,
};
use tfcore_framework::movement::for_each_units;
use tfcore_framework::{InferenceContext, OpContext, Registry, shape_ops};
use tfcore_math::isa::vectorize;
use tfcore_math::pool::Parallel;
use tfcore_tensor::{Elems, ElemsMut, PartialShape, Shape};

use crate::number::{Number, Ring};

pub(crate) fn register(r: &mut Registry) {
    // `UnsortedSegmentSum(data: T, segment_ids: Tindices, num_segments: Tnumsegments) -> output: T`: `output[s, ..]` is the
    // sum of the `data[i.., ..]` for which `segment_ids[i..]` is `s`. Negative ids are left out.
    r.op("UnsortedSegmentSum")
        .shape(reduced_shape)
        .typed::<SegmentLoops<Sum>, Numbers>("T", reduce_segments);
    // `UnsortedSegmentProd`, `UnsortedSegmentMax` and `UnsortedSegmentMin`, as above. Segments of nothing are 1, the least
    // and the greatest number of the type.
    r.op("UnsortedSegmentProd")
        .shape(reduced_shape)
        .typed::<SegmentLoops<Product>, Numbers>("T", reduce_segments);
    r.op("UnsortedSegmentMax")
        .shape(reduced_shape)
        .typed::<SegmentLoops<Largest>, RealNumbers>("T", reduce_segments);
    r.op("UnsortedSegmentMin")
        .shape(reduced_shape)
        .typed::<SegmentLoops<Smallest>, RealNumbers>("T", reduce_segments);
}

/// How elements become one.
pub(crate) trait Fold<T>: 'static {
    /// What comes of no elements.
    fn start() -> T;
    fn fold(result: T, element: T) -> T;
}

pub(crate) struct Sum;
pub(crate) struct Product;
pub(crate) struct Largest;
pub(crate) struct Smallest;

impl<T: Number<Wide: Ring>> Fold<T> for Sum {
    fn start() -> T {
        T::narrow(Ring::ZERO)
    }

    #[inline(always)]
    fn fold(result: T, element: T) -> T {
        T::narrow(result.widen().plus(element.widen()))
    }
}

impl<T: Number<Wide: Ring>> Fold<T> for Product {
    fn start() -> T {
        T::narrow(Ring::ONE)
    }

    #[inline(always)]
    fn fold(result: T, element: T) -> T {
        T::narrow(result.widen().times(element.widen()))
    }
}

/// A NaN counts only if it comes last, as in the reference.
macro_rules! selections {
    ($($t:ty)*) => {$(
        impl Fold<$t> for Largest {
            fn start() -> $t {
                <$t>::MIN
            }

            #[inline(always)]
            fn fold(result: $t, element: $t) -> $t {
                if element < result { result } else { element }
            }
        }

        impl Fold<$t> for Smallest {
            fn start() -> $t {
                <$t>::MAX
            }

            #[inline(always)]
            fn fold(result: $t, element: $t) -> $t {
                if result < element { result } else { element }
            }
        }
    )*};
}
selections!(f32 f64 Half BFloat16 i8 i16 i32 i64 u8 u16 u32 u64);

/// Reduces rows of `data` to those rows of the result that have their ids; `first` is the number of the first such row.
type ReduceRows = fn(out: ElemsMut<'_>, data: Elems<'_>, ids: &[i64], first: usize, width: usize);

struct SegmentLoops<F>(PhantomData<F>);

impl<F> TypedLoop for SegmentLoops<F> {
    type Loop = ReduceRows;
}

impl<T: Elem + Copy, F: Fold<T>> LoopFor<T> for SegmentLoops<F> {
    const LOOP: ReduceRows = |out, data, ids, first, width| {
        let (out, data) = (out.typed::<T>(), data.typed::<T>());
        out.fill(F::start());
        let rows = out.len() / width;
        vectorize(
            #[inline(always)]
            || {
                for (data, &id) in data.chunks_exact(width).zip(ids) {
                    let row = (id as usize).wrapping_sub(first);
                    if row < rows {
                        let out = &mut out[row * width..(row + 1) * width];
                        for (result, &element) in out.iter_mut().zip(data) {
                            *result = F::fold(*result, element);
                        }
                    }
                }
            },
        );
    };
}

/// The shape of reductions of `data` by `segment_ids` to `num_segments` rows.
pub(crate) fn reduced_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let (data, ids) = (ctx.input(0), ctx.input(1));
    shape_ops::with_rank(ctx.input(2), 0)?;
    let Some(rank) = ids.rank() else {
        return Ok(());
    };
    shape_ops::merge_prefix(data, ids)?;
    let rows = ctx.operand_dim(2)?;
    let row = shape_ops::subshape(data, rank as i64, None)?;
    ctx.set_output(0, shape_ops::concatenate(&PartialShape::vector(rows), &row));
    Ok(())
}

/// Elements of a row from which on threads can each look at all ids for those of their rows.
const WIDE_ROW: usize = 16;

fn reduce_segments(ctx: &mut OpContext<'_>, reduce: ReduceRows) -> Result<()> {
    let (data, ids, count) = (ctx.input(0)?, ctx.input(1)?, ctx.input(2)?);
    require!(count.rank() == 0, "num_segments should be a scalar, not shape {}", count.shape());
    require!(
        data.shape().starts_with(ids.shape()),
        "data.shape = {} does not start with segment_ids.shape = {}",
        data.shape(),
        ids.shape()
    );
    let count = count.to_i64s()?[0];
    require!(count >= 0, "Input num_segments == {count} must not be negative.");
    let shape = Shape::new(&[&[count], &data.shape()[ids.rank()..]].concat())?;
    let width = shape[1..].iter().product::<i64>() as usize;
    let values = ids.to_i64s()?;
    if let Some(bad) = values.iter().position(|&id| id >= count) {
        return Err(invalid!(
            "segment_ids{} = {} is out of range [0, {count})",
            ids.shape().coordinates(bad),
            values[bad]
        ));
    }
    let mut out = ctx.allocate_output(0, shape)?;
    let parallel = if width < WIDE_ROW { Parallel::SERIAL } else { ctx.parallel() };
    for_each_units(parallel, out.elems_mut()?, width, &|first, part| {
        reduce(part, data.elems(), &values, first, width);
    });
    ctx.set_output(0, out);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tfcore_base::DType;
    use tfcore_framework::testing::{infer, registry_of, run_op};
    use tfcore_framework::{AttrValue, Registry};
    use tfcore_tensor::Tensor;

    fn registry() -> Registry {
        registry_of(register)
    }

    fn attrs(dtype: DType) -> [(&'static str, AttrValue); 3] {
        let int = || AttrValue::Type(DType::INT32);
        [("T", AttrValue::Type(dtype)), ("Tindices", int()), ("Tnumsegments", int())]
    }

    fn vector<T: Elem>(values: &[T]) -> Tensor {
        Tensor::from_slice(Shape::vector(values.len()), values).unwrap()
    }

    fn reduce<T: Elem>(op: &str, data: Tensor, ids: &[i32], count: i32) -> Result<Vec<T>> {
        let attrs = attrs(data.dtype());
        let inputs = [data, vector(ids), Tensor::scalar(count)];
        let out = run_op(&registry(), op, &attrs, &inputs)?;
        Ok(out[0].as_slice::<T>()?.to_vec())
    }

    #[test]
    fn segments_are_reduced() {
        let cases = [
            ("UnsortedSegmentSum", [12, 6, 0]),
            ("UnsortedSegmentProd", [35, 6, 1]),
            ("UnsortedSegmentMax", [7, 6, i32::MIN]),
            ("UnsortedSegmentMin", [5, 6, i32::MAX]),
        ];
        for (op, expected) in cases {
            let found = reduce::<i32>(op, vector(&[5, 6, 7, 9]), &[0, 1, 0, -1], 3).unwrap();
            assert_eq!(found, expected, "{op}");
        }
        let rows = Tensor::from_slice(Shape::new(&[2, 2]).unwrap(), &[1u8, 200, 3, 100]).unwrap();
        assert_eq!(reduce::<u8>("UnsortedSegmentSum", rows, &[1, 1], 2).unwrap(), [0, 0, 4, 44]);
        let halves = vector(&[Half::from_f32(1.5)]);
        let found = reduce::<Half>("UnsortedSegmentMax", halves, &[1], 2).unwrap();
        assert_eq!(found.iter().map(|half| half.to_f32()).collect::<Vec<_>>(), [-65504.0, 1.5]);
        // Reference: a NaN is taken for the larger and for the smaller one, but not kept.
        for op in ["UnsortedSegmentMax", "UnsortedSegmentMin"] {
            let late = reduce::<f32>(op, vector(&[1.0, f32::NAN]), &[0, 0], 1).unwrap();
            let early = reduce::<f32>(op, vector(&[f32::NAN, 1.0]), &[0, 0], 1).unwrap();
            assert!(late[0].is_nan() && early == [1.0], "{op}");
        }
    }

    #[test]
    fn what_does_not_fit() {
        let cases = [
            (vec![0, 3, 0], 3, "segment_ids[1] = 3 is out of range [0, 3)"),
            (vec![0, 3], 3, "data.shape = [3] does not start with segment_ids.shape = [2]"),
            (vec![0, 0, 0], -1, "Input num_segments == -1 must not be negative."),
        ];
        for (ids, count, message) in cases {
            let found = reduce::<i32>("UnsortedSegmentSum", vector(&[5, 6, 7]), &ids, count);
            assert_eq!(found.unwrap_err().message(), message);
        }
        let count = [(2, Tensor::scalar(3i32))];
        let infer = |inputs: &str| {
            infer(&registry(), "UnsortedSegmentSum", &attrs(DType::INT32), inputs, &count).unwrap()
        };
        assert_eq!(infer("[2,?,4];[2];[]"), "[3,?,4]");
        assert_eq!(infer("[2,?,4];?;[]"), "?");
    }
}

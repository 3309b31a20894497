//! Reductions by sorted segments: `SegmentSum` and its like.

use std::marker::PhantomData;

use tfcore_base::{LoopFor, LoopSet, Numbers, RealNumbers, Result, TypedLoop, require};
use tfcore_framework::{InferenceContext, OpContext, OpEntry, Registry, kernel, shape_ops};
use tfcore_tensor::{Dim, Elems, ElemsMut, PartialShape, Shape};

use crate::number::{Number, Quotient, Ring};
use crate::unsorted_segment::{Fold, Largest, Product, Smallest, Sum};

pub(crate) fn register(r: &mut Registry) {
    // `SegmentSum(data: T, segment_ids: Tindices) -> output: T`: `output[s, ..]` is the sum of the `data[i, ..]` for which
    // `segment_ids[i]` is `s`. The ids rise. Segments of nothing are 0.
    reduction::<Folds<Sum>, Numbers>(r.op("SegmentSum"), Empty::Zero);
    // `SegmentMean`, `SegmentProd`, `SegmentMax` and `SegmentMin`, as above; a product of nothing is 1.
    reduction::<Mean, Numbers>(r.op("SegmentMean"), Empty::Zero);
    reduction::<Folds<Product>, Numbers>(r.op("SegmentProd"), Empty::One);
    reduction::<Folds<Largest>, RealNumbers>(r.op("SegmentMax"), Empty::Zero);
    reduction::<Folds<Smallest>, RealNumbers>(r.op("SegmentMin"), Empty::Zero);
}

/// The result for a segment without elements.
#[derive(Clone, Copy, PartialEq)]
enum Empty {
    Zero,
    One,
}

/// A reduction of rows to one.
trait Rows<T>: 'static {
    fn fold(result: T, element: T) -> T;

    /// The result from that of all folds; `count` is the number of rows.
    fn finish(result: T, count: usize) -> T;
}

/// A reduction that is nothing but its folds.
struct Folds<F>(PhantomData<F>);

impl<T, F: Fold<T>> Rows<T> for Folds<F> {
    #[inline(always)]
    fn fold(result: T, element: T) -> T {
        F::fold(result, element)
    }

    #[inline(always)]
    fn finish(result: T, _: usize) -> T {
        result
    }
}

struct Mean;

impl<T: Number<Wide: Quotient>> Rows<T> for Mean {
    #[inline(always)]
    fn fold(result: T, element: T) -> T {
        <Sum as Fold<T>>::fold(result, element)
    }

    #[inline(always)]
    fn finish(result: T, count: usize) -> T {
        T::narrow(result.widen().quotient(count))
    }
}

/// Reduces rows of `width` elements to rows of `out`: `segments` are ids of rows of `out` and the rows of the data that
/// belong to them, one after the other.
type ReduceSegments =
    fn(out: ElemsMut<'_>, data: Elems<'_>, segments: &[Segment], width: usize, empty: Empty);

struct Segment {
    id: usize,
    rows: std::ops::Range<usize>,
}

struct Form<F>(PhantomData<F>);

impl<F> TypedLoop for Form<F> {
    type Loop = ReduceSegments;
}

impl<T: Number<Wide: Ring>, F: Rows<T>> LoopFor<T> for Form<F> {
    const LOOP: ReduceSegments = |out, data, segments, width, empty| {
        let (out, data) = (out.typed::<T>(), data.typed::<T>());
        let empty = T::narrow(if empty == Empty::One { Ring::ONE } else { Ring::ZERO });
        let mut written = 0;
        for segment in segments {
            let start = segment.id * width;
            out[written..start].fill(empty);
            written = start + width;
            let result = &mut out[start..written];
            let rows = &data[segment.rows.start * width..segment.rows.end * width];
            result.copy_from_slice(&rows[..width]);
            for row in rows[width..].chunks_exact(width) {
                for (result, &element) in result.iter_mut().zip(row) {
                    *result = F::fold(*result, element);
                }
            }
            if segment.rows.len() > 1 {
                result.iter_mut().for_each(|r| *r = F::finish(*r, segment.rows.len()));
            }
        }
    };
}

fn reduction<F: 'static, S: LoopSet<Form<F>>>(op: OpEntry<'_>, empty: Empty) {
    op.shape(reduced_shape).typed_kernel::<Form<F>, S>("T", move |_, reduce| {
        kernel(move |ctx| reduce_segments(ctx, reduce, empty))
    });
}

fn reduced_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let data = shape_ops::with_rank_at_least(ctx.input(0), 1)?;
    shape_ops::with_rank(ctx.input(1), 1)?;
    let row = shape_ops::subshape(&data, 1, None)?;
    ctx.set_output(0, shape_ops::concatenate(&PartialShape::vector(Dim::UNKNOWN), &row));
    Ok(())
}

fn reduce_segments(ctx: &mut OpContext<'_>, reduce: ReduceSegments, empty: Empty) -> Result<()> {
    let (data, ids) = (ctx.input(0)?, ctx.input(1)?);
    require!(data.rank() >= 1, "input must be at least rank 1");
    require!(ids.rank() == 1, "segment_ids should be a vector.");
    require!(
        ids.count() == data.dim(0),
        "segment_ids should be the same size as dimension 0 of input."
    );
    let ids = ids.to_i64s()?;
    let rows = ids.last().map_or(0, |last| last.wrapping_add(1));
    require!(rows > 0 || ids.is_empty() && rows == 0, "segment ids must be >= 0");
    let segments = segments_of(&ids, rows)?;
    let shape = Shape::new(&[&[rows], &data.shape()[1..]].concat())?;
    let width = shape[1..].iter().product::<i64>() as usize;
    let mut out = ctx.allocate_output(0, shape)?;
    if out.count() > 0 {
        reduce(out.elems_mut()?, data.elems(), &segments, width, empty);
    }
    ctx.set_output(0, out);
    Ok(())
}

/// The runs of equal ids, all of which are below `rows`.
///
/// # Errors
/// `InvalidArgument` if the ids fall, or one is negative.
fn segments_of(ids: &[i64], rows: i64) -> Result<Vec<Segment>> {
    let mut segments: Vec<Segment> = Vec::new();
    for run in ids.chunk_by(|a, b| a == b) {
        let (id, start) = (run[0], segments.last().map_or(0, |last| last.rows.end));
        let end = start + run.len();
        // The order of the checks is the reference's: that of the next id comes first.
        if let Some(&next) = ids.get(end) {
            require!(id < next, "segment ids are not increasing");
        }
        require!(
            (0..rows).contains(&id),
            "Segment id {id} out of range [0, {rows}), possibly because 'segment_ids' input is not \
             sorted."
        );
        segments.push(Segment { id: id as usize, rows: start..end });
    }
    Ok(segments)
}

#[cfg(test)]
mod tests {
    use tfcore_base::Elem;
    use tfcore_base::{Complex64, DType};
    use tfcore_framework::testing::{floats, infer, registry_of, run_op, tensor};
    use tfcore_framework::{AttrValue, Registry};
    use tfcore_tensor::Tensor;

    use super::*;

    fn registry() -> Registry {
        registry_of(register)
    }

    fn attrs(dtype: DType) -> [(&'static str, AttrValue); 2] {
        [("T", AttrValue::Type(dtype)), ("Tindices", AttrValue::Type(DType::INT32))]
    }

    fn reduce<T: Elem>(op: &str, data: Tensor, ids: &[i32]) -> Result<Vec<T>> {
        let attrs = attrs(data.dtype());
        let ids = tensor(&[ids.len() as i64], ids);
        Ok(run_op(&registry(), op, &attrs, &[data, ids])?[0].as_slice()?.to_vec())
    }

    #[test]
    fn segments_are_reduced() {
        let cases = [
            ("SegmentSum", [3.0, 0.0, 7.0]),
            ("SegmentMean", [1.5, 0.0, 3.5]),
            ("SegmentProd", [2.0, 1.0, 12.0]),
            ("SegmentMin", [1.0, 0.0, 3.0]),
            ("SegmentMax", [2.0, 0.0, 4.0]),
        ];
        for (op, expected) in cases {
            let data = floats(&[4], &[1.0, 2.0, 3.0, 4.0]);
            assert_eq!(reduce::<f32>(op, data, &[0, 0, 2, 2]).unwrap(), expected, "{op}");
        }
        let rows = tensor(&[2, 2], &[100i8, 7, 100, -8]);
        // Sums wrap before they are divided.
        assert_eq!(reduce::<i8>("SegmentMean", rows, &[0, 0]).unwrap(), [-28, 0]);
        let i = Complex64::i();
        let data = tensor(&[2], &[i, 3.0 * i]);
        assert_eq!(reduce::<Complex64>("SegmentMean", data, &[0, 0]).unwrap(), [2.0 * i]);
        assert_eq!(reduce::<f32>("SegmentSum", floats(&[0], &[]), &[]).unwrap(), [0.0; 0]);
    }

    #[test]
    fn what_does_not_fit() {
        let cases: [(&[i32], &str); 4] = [
            (&[0, 0, 2, 1], "segment ids are not increasing"),
            (&[0, 0, 2], "segment_ids should be the same size as dimension 0 of input."),
            (
                &[-1, 0, 0, 0],
                "Segment id -1 out of range [0, 1), possibly because 'segment_ids' input is not sorted.",
            ),
            (&[0, 0, 0, -1], "segment ids must be >= 0"),
        ];
        for (ids, message) in cases {
            let found = reduce::<f32>("SegmentSum", floats(&[4], &[0.0; 4]), ids);
            assert_eq!(found.unwrap_err().message(), message);
        }
        let shape = |inputs: &str| {
            infer(&registry(), "SegmentMax", &attrs(DType::FLOAT), inputs, &[]).unwrap()
        };
        assert_eq!(shape("[4,3];[4]"), "[?,3]");
        assert_eq!(shape("?;[4]"), "?");
    }
}

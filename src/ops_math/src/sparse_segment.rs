//! Reductions by sorted segments of selected rows, and their gradients: `SparseSegmentSum` and its like.

use tfcore_base::{
    DType, Floats, LoopFor, LoopSet, RealNumbers, Result, TypedLoop, invalid, require,
};
use tfcore_framework::{InferenceContext, OpContext, OpEntry, Registry, kernel, shape_ops};
use tfcore_tensor::{Dim, Elems, ElemsMut, PartialShape, Shape, Tensor};

use crate::number::{Number, Quotient, Ring};

pub(crate) fn register(r: &mut Registry) {
    // `SparseSegmentSum(data: T, indices: Tidx, segment_ids: Tsegmentids) -> output: T`: `output[s, ..]` is the sum of the
    // `data[indices[i], ..]` for which `segment_ids[i]` is `s`. The ids rise. Segments of nothing are 0.
    // `SparseSegmentMean`: sums divided by the number of rows, `SparseSegmentSqrtN`: by its square root.
    // `...WithNumSegments(.., num_segments: Tnumsegments)`: with so many rows of output.
    reduction::<RealNumbers>(r.op("SparseSegmentSum"), Scale::None, false);
    reduction::<Floats>(r.op("SparseSegmentMean"), Scale::Count, false);
    reduction::<Floats>(r.op("SparseSegmentSqrtN"), Scale::Root, false);
    reduction::<RealNumbers>(r.op("SparseSegmentSumWithNumSegments"), Scale::None, true);
    reduction::<Floats>(r.op("SparseSegmentMeanWithNumSegments"), Scale::Count, true);
    reduction::<Floats>(r.op("SparseSegmentSqrtNWithNumSegments"), Scale::Root, true);
    // `SparseSegmentSumGrad(grad: T, indices: Tidx, segment_ids: Tsegmentids, output_dim0: int32) -> output: T`: adds
    // `grad[segment_ids[i], ..]` to `output[indices[i], ..]`, divided as the sum was.
    for (op, scale) in [
        ("SparseSegmentSumGrad", Scale::None),
        ("SparseSegmentMeanGrad", Scale::Count),
        ("SparseSegmentSqrtNGrad", Scale::Root),
    ] {
        gradient(r.op(op).shape(|ctx| gradient_shape(ctx, false)), scale, dense_gradient);
    }
    // `SparseSegmentSumGradV2(..) -> (output: T, sorted_unique_indices: Tidx)`, as above, with those rows of the output
    // only that occur in `indices`.
    for (op, scale) in [
        ("SparseSegmentSumGradV2", Scale::None),
        ("SparseSegmentMeanGradV2", Scale::Count),
        ("SparseSegmentSqrtNGradV2", Scale::Root),
    ] {
        gradient(r.op(op).shape(|ctx| gradient_shape(ctx, true)), scale, unique_gradient);
    }
}

/// The divisor of a sum of n rows.
#[derive(Clone, Copy, PartialEq)]
enum Scale {
    None,
    /// n
    Count,
    /// The square root of n.
    Root,
}

impl Scale {
    fn divisor(self, count: usize) -> f64 {
        match self {
            Scale::None => 1.0,
            Scale::Count => count as f64,
            Scale::Root => (count as f64).sqrt(),
        }
    }
}

/// The row of `out` that is the scaled sum of the rows of `data` with these numbers.
type SumLoop = fn(out: ElemsMut<'_>, data: Elems<'_>, rows: &[usize], scale: Scale);

struct SumForm;

impl TypedLoop for SumForm {
    type Loop = SumLoop;
}

impl<T: Number<Wide: Quotient>> LoopFor<T> for SumForm {
    const LOOP: SumLoop = |out, data, rows, scale| {
        let (out, data) = (out.typed::<T>(), data.typed::<T>());
        let width = out.len();
        let row = |number: usize| &data[number * width..(number + 1) * width];
        if let [only] = rows {
            out.copy_from_slice(row(*only));
            return;
        }
        // The order of the reference: 2 to 9 rows, scaled, then groups of 8. Only the last column of a group
        // stays in registers, so that rows are read once.
        let first = 2 + (rows.len() - 2) % 8;
        let is_short = rows.len() < 10;
        let mut sums: Vec<T::Wide> = sum_rows(&rows[..first], width, &row);
        if is_short && scale != Scale::None {
            let factor = scale.divisor(rows.len());
            sums.iter_mut().for_each(|sum| *sum = sum.times(T::Wide::inverse(factor)));
        }
        for group in rows[first..].chunks_exact(8) {
            let group: Vec<T::Wide> = sum_rows(group, width, &row);
            for (sum, term) in sums.iter_mut().zip(group) {
                *sum = sum.plus(term);
            }
        }
        if !is_short && scale != Scale::None {
            let divisor = scale.divisor(rows.len());
            sums.iter_mut().for_each(|sum| *sum = sum.divided(divisor));
        }
        for (out, sum) in out.iter_mut().zip(sums) {
            *out = T::narrow(sum);
        }
    };
}

/// The sum of some rows, from the first to the last.
fn sum_rows<'a, T: Number<Wide: Ring>>(
    rows: &[usize],
    width: usize,
    row: &dyn Fn(usize) -> &'a [T],
) -> Vec<T::Wide> {
    let mut sums = vec![T::Wide::ZERO; width];
    for &number in rows {
        for (sum, element) in sums.iter_mut().zip(row(number)) {
            *sum = sum.plus(element.widen());
        }
    }
    sums
}

fn reduction<S: LoopSet<SumForm>>(op: OpEntry<'_>, scale: Scale, has_count: bool) {
    op.shape(move |ctx| reduced_shape(ctx, has_count))
        .typed_kernel::<SumForm, S>("T", move |_, sum| {
            kernel(move |ctx| reduce(ctx, sum, scale, has_count))
        });
}

fn reduced_shape(ctx: &mut InferenceContext<'_>, has_count: bool) -> Result<()> {
    let data = shape_ops::with_rank_at_least(ctx.input(0), 1)?;
    let indices = shape_ops::with_rank(ctx.input(1), 1)?;
    let ids = shape_ops::with_rank(ctx.input(2), 1)?;
    shape_ops::merge(&indices, &ids)?;
    let mut rows = Dim::UNKNOWN;
    if has_count {
        shape_ops::with_rank(ctx.input(3), 0)?;
        rows = ctx.operand_dim(3)?;
    }
    let row = shape_ops::subshape(&data, 1, None)?;
    ctx.set_output(0, shape_ops::concatenate(&PartialShape::vector(rows), &row));
    Ok(())
}

fn gradient_shape(ctx: &mut InferenceContext<'_>, unique: bool) -> Result<()> {
    let data = shape_ops::with_rank_at_least(ctx.input(0), 1)?;
    let indices = shape_ops::with_rank(ctx.input(1), 1)?;
    shape_ops::merge(ctx.input(2), &indices)?;
    shape_ops::with_rank(ctx.input(3), 0)?;
    let mut rows = Dim::UNKNOWN;
    if !unique && let Some(count) = ctx.operand_i64(3)? {
        require!(count >= 0, "Cannot specify a negative value for output_dim0");
        rows = Dim::new(count);
    }
    let row = shape_ops::subshape(&data, 1, None)?;
    ctx.set_output(0, shape_ops::concatenate(&PartialShape::vector(rows), &row));
    if unique {
        ctx.set_output(1, PartialShape::vector(Dim::UNKNOWN));
    }
    Ok(())
}

fn reduce(ctx: &mut OpContext<'_>, sum: SumLoop, scale: Scale, has_count: bool) -> Result<()> {
    let (data, indices, ids) = (ctx.input(0)?, ctx.input(1)?, ctx.input(2)?);
    let mut asked = None;
    if has_count {
        let count = ctx.input(3)?;
        require!(count.rank() == 0, "num_segments should be a scalar, not shape {}", count.shape());
        let count = count.to_i64s()?[0];
        require!(count >= 0, "segment ids must be >= 0");
        asked = Some(count);
    }
    require!(indices.rank() == 1, "indices should be a vector.");
    require!(ids.rank() == 1, "segment_ids should be a vector.");
    require!(indices.count() == ids.count(), "segment_ids and indices should have same size.");
    require!(data.rank() >= 1, "Shape must be at least rank 1");
    let (indices, ids) = (indices.to_i64s()?, ids.to_i64s()?);
    let needed = ids.last().map_or(0, |last| last.wrapping_add(1));
    let rows = asked.unwrap_or(needed);
    require!(rows >= needed, "segment ids must be < num_segments");
    require!(rows > 0 || ids.is_empty() && rows == 0, "segment ids must be >= 0");
    let shape = Shape::new(&[&[rows], &data.shape()[1..]].concat())?;
    let width = shape[1..].iter().product::<i64>() as usize;
    let mut out = ctx.allocate_zeros(ctx.output_dtype(0), shape)?;
    let mut target = out.elems_mut()?;
    let mut start = 0;
    let mut chosen = Vec::new();
    for run in ids.chunk_by(|a, b| a == b) {
        let (id, end) = (run[0], start + run.len());
        if let Some(&next) = ids.get(end) {
            require!(id < next, "segment ids are not increasing");
        }
        require!(
            (0..rows).contains(&id),
            "Segment id {id} out of range [0, {rows}), possibly because 'segment_ids' input is not \
             sorted."
        );
        chosen.clear();
        for (offset, &index) in indices[start..end].iter().enumerate() {
            require!(
                (0..data.dim(0) as i64).contains(&index),
                "Bad: indices[{}] == {index} out of range [0, {})",
                start + offset,
                data.dim(0)
            );
            chosen.push(index as usize);
        }
        let id = id as usize;
        sum(target.slice(id * width..(id + 1) * width), data.elems(), &chosen, scale);
        start = end;
    }
    ctx.set_output(0, out);
    Ok(())
}

/// Adds the rows of `grad` with the numbers `from`, times the factors that belong to them, to the rows `to` of `out`.
type SpreadLoop = fn(out: ElemsMut<'_>, grad: Elems<'_>, moves: &[(usize, usize)], factors: &[f64]);

struct SpreadForm;

impl TypedLoop for SpreadForm {
    type Loop = SpreadLoop;
}

impl<T: Number<Wide: Quotient>> LoopFor<T> for SpreadForm {
    const LOOP: SpreadLoop = |out, grad, moves, factors| {
        let (out, grad) = (out.typed::<T>(), grad.typed::<T>());
        let width = grad.len() / factors.len().max(1);
        let mut sums = vec![T::Wide::ZERO; out.len()];
        for &(from, to) in moves {
            let factor = T::Wide::of(factors[from]);
            let row = &grad[from * width..(from + 1) * width];
            for (sum, &element) in sums[to * width..(to + 1) * width].iter_mut().zip(row) {
                *sum = sum.plus(element.widen().times(factor));
            }
        }
        for (out, sum) in out.iter_mut().zip(sums) {
            *out = T::narrow(sum);
        }
    };
}

type Gradient = fn(&mut OpContext<'_>, SpreadLoop, Scale) -> Result<()>;

fn gradient(op: OpEntry<'_>, scale: Scale, compute: Gradient) {
    op.typed_kernel::<SpreadForm, Floats>("T", move |_, spread| {
        kernel(move |ctx| compute(ctx, spread, scale))
    });
}

/// The checked inputs of a gradient.
struct Moves {
    /// The number of rows of the dense output.
    rows: i64,
    /// Pairs of a row of the gradient and of the output.
    moves: Vec<(usize, usize)>,
    /// By which each row of the gradient is multiplied.
    factors: Vec<f64>,
}

fn moves(ctx: &OpContext<'_>, scale: Scale, dim_name: &str) -> Result<Moves> {
    let (grad, indices, ids) = (ctx.input(0)?, ctx.input(1)?, ctx.input(2)?);
    require!(indices.rank() == 1, "indices should be a vector.");
    require!(ids.rank() == 1, "segment_ids should be a vector.");
    let rows = ctx.input(3)?;
    require!(rows.rank() == 0, "{dim_name} should be a scalar.");
    require!(indices.count() == ids.count(), "segment_ids and indices should have same size.");
    require!(grad.rank() >= 1, "Shape must be at least rank 1");
    let rows = rows.to_i64s()?[0];
    require!(rows >= 0, "Expected a non-negative size, got {rows}");
    let (indices, ids) = (indices.to_i64s()?, ids.to_i64s()?);
    let segments = grad.dim(0);
    let mut found = Moves { rows, moves: Vec::with_capacity(ids.len()), factors: Vec::new() };
    let Some(last) = ids.last().filter(|_| rows > 0) else {
        return Ok(found);
    };
    require!(last.wrapping_add(1) <= segments as i64, "Invalid number of segments");
    let mut counts = vec![0usize; segments];
    let segment = |id: i64| match usize::try_from(id) {
        Ok(id) if id < segments => Ok(id),
        _ => Err(invalid!("Segment id {id} out of range [0, {segments}).")),
    };
    for (&index, &id) in indices.iter().zip(&ids) {
        require!((0..rows).contains(&index), "Index {index} out of range [0, {rows}).");
        let id = segment(id)?;
        counts[id] += 1;
        found.moves.push((id, index as usize));
    }
    found.factors = counts.iter().map(|&count| 1.0 / scale.divisor(count.max(1))).collect();
    Ok(found)
}

fn dense_gradient(ctx: &mut OpContext<'_>, spread: SpreadLoop, scale: Scale) -> Result<()> {
    let Moves { rows, moves, factors } = moves(ctx, scale, "output_dim0")?;
    let out = spread_rows(ctx, spread, rows, &moves, &factors)?;
    ctx.set_output(0, out);
    Ok(())
}

fn unique_gradient(ctx: &mut OpContext<'_>, spread: SpreadLoop, scale: Scale) -> Result<()> {
    let Moves { mut moves, factors, .. } = moves(ctx, scale, "dense_output_dim0")?;
    moves.sort_by_key(|&(_, to)| to);
    let mut unique: Vec<i64> = Vec::new();
    for (_, to) in &mut moves {
        if unique.last() != Some(&(*to as i64)) {
            unique.push(*to as i64);
        }
        *to = unique.len() - 1;
    }
    let out = spread_rows(ctx, spread, unique.len() as i64, &moves, &factors)?;
    let indices = match ctx.output_dtype(1) {
        DType::INT32 => {
            let narrow: Vec<i32> = unique.iter().map(|&index| index as i32).collect();
            Tensor::from_slice(Shape::vector(narrow.len()), &narrow)?
        }
        _ => Tensor::from_slice(Shape::vector(unique.len()), &unique)?,
    };
    ctx.set_output(0, out);
    ctx.set_output(1, indices);
    Ok(())
}

fn spread_rows(
    ctx: &OpContext<'_>,
    spread: SpreadLoop,
    rows: i64,
    moves: &[(usize, usize)],
    factors: &[f64],
) -> Result<Tensor> {
    let grad = ctx.input(0)?;
    let shape = Shape::new(&[&[rows], &grad.shape()[1..]].concat())?;
    let mut out = ctx.allocate_zeros(ctx.output_dtype(0), shape)?;
    if out.count() > 0 && !moves.is_empty() {
        spread(out.elems_mut()?, grad.elems(), moves, factors);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use tfcore_framework::testing::{floats, infer, registry_of, run_op, tensor};
    use tfcore_framework::{AttrValue, Registry};

    use super::*;

    fn registry() -> Registry {
        registry_of(register)
    }

    fn attrs() -> [(&'static str, AttrValue); 3] {
        let int = || AttrValue::Type(DType::INT32);
        [("T", AttrValue::Type(DType::FLOAT)), ("Tidx", int()), ("Tsegmentids", int())]
    }

    fn run(op: &str, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        run_op(&registry(), op, &attrs(), inputs)
    }

    fn ints(values: &[i32]) -> Tensor {
        tensor(&[values.len() as i64], values)
    }

    #[test]
    fn rows_are_selected_and_reduced() {
        let data = floats(&[3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let cases = [
            ("SparseSegmentSum", [6.0, 8.0]),
            ("SparseSegmentMean", [3.0, 4.0]),
            ("SparseSegmentSqrtN", [6.0 / 2f32.sqrt(), 8.0 / 2f32.sqrt()]),
        ];
        for (op, expected) in cases {
            let inputs = [data.clone(), ints(&[0, 2, 1]), ints(&[0, 0, 2])];
            let out = run(op, &inputs).unwrap();
            let out = out[0].as_slice::<f32>().unwrap();
            for (found, expected) in out.iter().zip([&expected[..], &[0.0, 0.0, 3.0, 4.0]].concat())
            {
                assert!((found - expected).abs() < 1e-6, "{op}: {out:?}");
            }
        }
        // More rows than a group, all the same.
        let (indices, ids) = (ints(&[1; 20]), ints(&[0; 20]));
        let counted = [data.clone(), indices, ids, Tensor::scalar(2i32)];
        let out = run("SparseSegmentMeanWithNumSegments", &counted).unwrap();
        assert_eq!(out[0].as_slice::<f32>().unwrap(), [3.0, 4.0, 0.0, 0.0]);
        let error = run("SparseSegmentSum", &[data, ints(&[3]), ints(&[0])]).err().unwrap();
        assert_eq!(error.message(), "Bad: indices[0] == 3 out of range [0, 3)");
    }

    #[test]
    fn gradients_go_back() {
        let grad = floats(&[2, 1], &[6.0, 5.0]);
        let inputs = [grad, ints(&[3, 1, 3]), ints(&[0, 0, 1]), Tensor::scalar(4i32)];
        let out = run("SparseSegmentMeanGrad", &inputs).unwrap();
        assert_eq!(out[0].as_slice::<f32>().unwrap(), [0.0, 3.0, 0.0, 8.0]);
        let out = run("SparseSegmentMeanGradV2", &inputs).unwrap();
        assert_eq!(out[0].as_slice::<f32>().unwrap(), [3.0, 8.0]);
        assert_eq!(out[1].as_slice::<i32>().unwrap(), [1, 3]);
        let mut bad = inputs.clone();
        bad[2] = ints(&[0, 0, 2]);
        let error = run("SparseSegmentSumGrad", &bad).err().unwrap();
        assert_eq!(error.message(), "Invalid number of segments");
        bad[2] = ints(&[0, -1, 1]);
        let error = run("SparseSegmentSumGrad", &bad).err().unwrap();
        assert_eq!(error.message(), "Segment id -1 out of range [0, 2).");
    }

    #[test]
    fn shapes() {
        let count = [(3, Tensor::scalar(5i32))];
        let infer =
            |op: &str, inputs: &str| infer(&registry(), op, &attrs(), inputs, &count).unwrap();
        assert_eq!(infer("SparseSegmentSum", "[3,2];[4];[?]"), "[?,2]");
        assert_eq!(infer("SparseSegmentSumWithNumSegments", "[3,2];[4];[?];[]"), "[5,2]");
        assert_eq!(infer("SparseSegmentSumGrad", "[3,2];[4];[?];[]"), "[5,2]");
        assert_eq!(infer("SparseSegmentSumGradV2", "[3,2];[4];[?];[]"), "[?,2];[?]");
    }
}

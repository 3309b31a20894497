//! Rows without values get one: `SparseFillEmptyRows`, `RaggedFillEmptyRows`.

use tfcore_base::{DType, LoopFor, Number, Numbers, Result, Ring, TypedLoop, invalid, require};
use tfcore_framework::{InferenceContext, OpContext, Registry, shape_ops};
use tfcore_tensor::{Dim, PartialShape, Shape, Tensor};

use crate::coo::{Compute, run, vector};

pub(crate) fn register(r: &mut Registry) {
    // `SparseFillEmptyRows(indices: int64, values: T, dense_shape: int64, default_value: T) -> output_indices: int64, output_values: T,
    // empty_row_indicator: bool, reverse_index_map: int64`.
    r.op("SparseFillEmptyRows").shape(sparse_shape).compute(fill_sparse);
    // `RaggedFillEmptyRows(value_rowids: int64, values: T, nrows: int64, default_value: T) -> output_value_rowids, output_values,
    // empty_row_indicator, reverse_index_map`.
    r.op("RaggedFillEmptyRows").shape(ragged_shape).compute(fill_ragged);
    // `SparseFillEmptyRowsGrad(reverse_index_map: int64, grad_values: T) -> d_values: T, d_default_value: T`.
    r.ops(["SparseFillEmptyRowsGrad", "RaggedFillEmptyRowsGrad"], |op| {
        op.shape(grad_shape).typed::<FillGrad, Numbers>("T", run);
    });
}

fn sparse_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let indices = shape_ops::with_rank(ctx.input(0), 2)?;
    let values = shape_ops::with_rank(ctx.input(1), 1)?;
    let shape = shape_ops::with_rank(ctx.input(2), 1)?;
    shape_ops::with_rank(ctx.input(3), 0)?;
    let count = shape_ops::merge_dims(indices.dim(0), values.dim(0))?;
    let rank = shape.dim(0);
    let dense = ctx.operand_shape(2)?;
    ctx.set_output(0, PartialShape::matrix(Dim::fresh(), rank));
    ctx.set_output(1, PartialShape::vector(Dim::fresh()));
    let rows = match dense.dims() {
        Some([rows, ..]) => *rows,
        _ => Dim::fresh(),
    };
    ctx.set_output(2, PartialShape::vector(rows));
    ctx.set_output(3, PartialShape::vector(count));
    Ok(())
}

fn ragged_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let ids = shape_ops::with_rank(ctx.input(0), 1)?;
    let values = shape_ops::with_rank(ctx.input(1), 1)?;
    shape_ops::with_rank(ctx.input(2), 0)?;
    shape_ops::with_rank(ctx.input(3), 0)?;
    let count = shape_ops::merge_dims(ids.dim(0), values.dim(0))?;
    for output in 0..3 {
        ctx.set_output(output, PartialShape::vector(Dim::fresh()));
    }
    ctx.set_output(3, PartialShape::vector(count));
    Ok(())
}

fn grad_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let map = shape_ops::with_rank(ctx.input(0), 1)?;
    shape_ops::with_rank(ctx.input(1), 1)?;
    ctx.set_output(0, map);
    ctx.set_output(1, PartialShape::scalar());
    Ok(())
}

fn fill_sparse(ctx: &mut OpContext<'_>) -> Result<()> {
    let (indices, shape) = (ctx.input(0)?, ctx.input(2)?);
    require!(shape.rank() == 1, "dense_shape must be a vector, saw: {}", shape.shape());
    require!(indices.rank() == 2, "indices must be a matrix, saw: {}", indices.shape());
    let shape = shape.as_slice::<i64>()?;
    let Some(&rows) = shape.first() else {
        return Err(invalid!("Dense shape cannot be empty."));
    };
    require!(
        indices.dim(1) == shape.len(),
        "Rank of indices ({}) and of dense_shape ({}) do not match",
        indices.dim(1),
        shape.len()
    );
    fill(ctx, rows, indices.dim(1), Shape::new(&[0, indices.dim(1) as i64])?)
}

fn fill_ragged(ctx: &mut OpContext<'_>) -> Result<()> {
    let (ids, rows) = (ctx.input(0)?, ctx.input(2)?);
    require!(ids.rank() == 1, "value_rowids must be a vector, saw: {}", ids.shape());
    require!(rows.rank() == 0, "nrows must be a scalar, saw: {}", rows.shape());
    fill(ctx, rows.scalar_value::<i64>()?, 1, Shape::vector(0))
}

/// Fills rows of indices of `rank` numbers, of which the first is the row. `none` is the shape of no indices.
fn fill(ctx: &mut OpContext<'_>, rows: i64, rank: usize, none: Shape) -> Result<()> {
    let (given, values, default) = (ctx.input(0)?, ctx.input(1)?, ctx.input(3)?);
    require!(values.rank() == 1, "values must be a vector, saw: {}", values.shape());
    require!(default.rank() == 0, "default_value must be a scalar, saw: {}", default.shape());
    let count = given.dim(0);
    require!(
        count == values.dim(0),
        "The length of `values` ({}) must match the first dimension of `indices` ({count}).",
        values.dim(0)
    );
    let indices = given.as_slice::<i64>()?;
    let name = if given.rank() == 2 { "indices" } else { "value_rowids" };
    if rows <= 0 {
        require!(
            rows == 0 && count == 0,
            "Received SparseTensor with dense_shape[0] = {rows} but indices.shape[0] = {count}"
        );
        ctx.set_output(0, ctx.allocate_zeros(DType::INT64, none)?);
        ctx.set_output(1, ctx.allocate_zeros(values.dtype(), Shape::vector(0))?);
        ctx.set_output(2, ctx.allocate_zeros(DType::BOOL, Shape::vector(0))?);
        ctx.set_output(3, ctx.allocate_zeros(DType::INT64, Shape::vector(0))?);
        return Ok(());
    }
    let row_of = |position: usize| indices[position * rank];
    let shown = |position: usize| match given.rank() {
        2 => format!("{name}({position}, 0)"),
        _ => format!("{name}({position})"),
    };
    let row_count =
        Shape::vector(usize::try_from(rows).unwrap_or(usize::MAX).min(isize::MAX as usize / 64));
    let mut empty = ctx.allocate(DType::BOOL, row_count)?;
    let mut starts = tfcore_base::try_filled(0usize, rows as usize + 1)?;
    for position in 0..count {
        let row = row_of(position);
        require!(row >= 0, "{} is invalid: {row} < 0", shown(position));
        require!(row < rows, "{} is invalid: {row} >= {rows}", shown(position));
        starts[row as usize] += 1;
    }
    // From counts to where the next value of each row goes.
    let mut total = 0;
    for (is_empty, start) in empty.as_mut_slice::<bool>()?.iter_mut().zip(&mut starts) {
        let of_row = *start;
        *is_empty = of_row == 0;
        *start = total;
        total += of_row.max(1);
    }
    let mut map = Vec::with_capacity(count);
    let mut filled = vec![0i64; total.checked_mul(rank).ok_or_else(|| invalid!("Too many rows"))?];
    let dims = if given.rank() == 2 { vec![total as i64, rank as i64] } else { vec![total as i64] };
    let mut out_values = ctx.allocate(values.dtype(), Shape::vector(total))?;
    for (row, &is_empty) in empty.as_slice::<bool>()?.iter().enumerate() {
        if is_empty {
            let at = starts[row];
            filled[at * rank] = row as i64;
            out_values.elems_mut()?.slice(at..at + 1).copy_from(default.elems());
        }
    }
    for position in 0..count {
        let next = &mut starts[row_of(position) as usize];
        let at = *next;
        *next += 1;
        filled[at * rank..(at + 1) * rank]
            .copy_from_slice(&indices[position * rank..(position + 1) * rank]);
        let value = values.elems().slice(position..position + 1);
        out_values.elems_mut()?.slice(at..at + 1).copy_from(value);
        map.push(at as i64);
    }
    ctx.set_output(0, Tensor::from_slice(Shape::new(&dims)?, &filled)?);
    ctx.set_output(1, out_values);
    ctx.set_output(2, empty);
    ctx.set_output(3, vector(&map)?);
    Ok(())
}

struct FillGrad;

impl TypedLoop for FillGrad {
    type Loop = Compute;
}

impl<T: Number> LoopFor<T> for FillGrad
where
    T::Wide: Ring,
{
    const LOOP: Compute = fill_grad::<T>;
}

fn fill_grad<T: Number>(ctx: &mut OpContext<'_>) -> Result<()>
where
    T::Wide: Ring,
{
    let (map, grads) = (ctx.input(0)?, ctx.input(1)?);
    require!(map.rank() == 1, "reverse_index_map must be a vector, saw: {}", map.shape());
    require!(grads.rank() == 1, "grad_values must be a vector, saw: {}", grads.shape());
    let grads = grads.as_slice::<T>()?;
    let mut visited = vec![false; grads.len()];
    let mut values = ctx.allocate(T::DTYPE, Shape::vector(map.count()))?;
    for (out, &at) in values.as_mut_slice::<T>()?.iter_mut().zip(map.as_slice::<i64>()?) {
        let index = usize::try_from(at).ok().filter(|&at| at < grads.len()).ok_or_else(|| {
            invalid!("Elements in reverse index must be in [0, {}) but got {at}", grads.len())
        })?;
        *out = grads[index];
        visited[index] = true;
    }
    let mut sum = T::narrow(T::Wide::ZERO);
    for (grad, _) in grads.iter().zip(&visited).filter(|(_, visited)| !**visited) {
        sum = T::narrow(sum.widen().plus(grad.widen()));
    }
    ctx.set_output(0, values);
    ctx.set_output(1, Tensor::scalar(sum));
    Ok(())
}

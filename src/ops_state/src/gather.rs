//! Reading rows of a variable, chosen by index.

use tfcore_base::{Result, invalid, require};
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, OpContext, Registry, for_each_part, kernel, shape_ops,
};
use tfcore_tensor::{ElemsMut, Shape, Tensor};

use crate::handle_shapes::{suffix, variable_shape};
use crate::indices::{IndexTuples, Indices};

pub(crate) fn register(r: &mut Registry) {
    // `ResourceGather(resource, indices: Tindices; batch_dims = b) -> output: dtype`,
    // `output[batch, i, ...] = variable[batch, indices[batch, i], ...]` for `b` leading batch axes.
    r.op("ResourceGather").shape(gather_shape).cpu(gather);

    // `ResourceGatherNd(resource, indices: Tindices) -> output: dtype`, where the last axis of the indices holds
    // indices into as many leading axes: `output[i, ...] = variable[indices[i, 0], indices[i, 1], .., ...]`.
    r.op("ResourceGatherNd").shape(gather_nd_shape).cpu(gather_nd);
}

fn gather_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let variable = variable_shape(ctx, 0, ctx.attrs.dtype("dtype")?)?;
    let batch_dims = ctx.attrs.int("batch_dims")?;
    let Ok(batch) = usize::try_from(batch_dims) else {
        return Err(invalid!("batch_dims is negative ({batch_dims})"));
    };
    let params = shape_ops::with_rank_at_least(&variable, batch.saturating_add(1))?;
    let indices = shape_ops::with_rank_at_least(ctx.input(1), batch)?;
    let lead = shape_ops::subshape(&params, 0, Some(batch_dims))?;
    let within = shape_ops::subshape(&indices, batch_dims, None)?;
    let row = shape_ops::subshape(&params, batch_dims.saturating_add(1), None)?;
    let shape = shape_ops::concatenate(&shape_ops::concatenate(&lead, &within), &row);
    ctx.set_output(0, shape);
    Ok(())
}

fn gather(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let dtype = init.attrs.dtype("dtype")?;
    let batch_dims = init.attrs.int("batch_dims")?;
    let Ok(batch_dims) = usize::try_from(batch_dims) else {
        return Err(invalid!("batch_dims is negative ({batch_dims})"));
    };
    kernel(move |ctx| {
        let params = ctx.variable(0)?.read()?;
        require!(params.dtype() == dtype, "DType of variable handle and output does not match.");
        gather_rows(ctx, &params, ctx.input(1)?, batch_dims)
    })
}

fn gather_rows(
    ctx: &OpContext<'_>,
    params: &Tensor,
    indices: &Tensor,
    batch_dims: usize,
) -> Result<()> {
    let (from, at) = (params.shape(), indices.shape());
    require!(from.rank() > batch_dims, "params must be at least {} dimensional", batch_dims + 1);
    require!(
        at.rank() >= batch_dims && at[..batch_dims] == from[..batch_dims],
        "The first {batch_dims} dimensions of params {from} and of indices {at} must be equal"
    );
    let rows = from.dim(batch_dims);
    let dims: Vec<i64> = at.iter().chain(&from[batch_dims + 1..]).copied().collect();
    let picks = Indices::of(indices)?;
    picks.check(at, rows)?;
    let per_batch: usize = at.to_usizes()[batch_dims..].iter().product();
    ctx.produce(0, Shape::new(&dims)?, |out| {
        copy_rows(ctx, params, out, indices.count(), &|pick| {
            pick / per_batch * rows + picks.get(pick) as usize
        });
    })
}

/// Fills `out`, which has `picks` rows, with rows of `params`: row `k` with row `row_of(k)`.
fn copy_rows(
    ctx: &OpContext<'_>,
    params: &Tensor,
    out: ElemsMut<'_>,
    picks: usize,
    row_of: &(dyn Fn(usize) -> usize + Sync),
) {
    let row_len = out.len() / picks;
    let source = params.elems();
    for_each_part(ctx.parallel(), out, 1, &|start, mut part| {
        // A part may begin and end within a row.
        let (mut done, len) = (0, part.len());
        while done < len {
            let (pick, within) = ((start + done) / row_len, (start + done) % row_len);
            let run = (row_len - within).min(len - done);
            let first = row_of(pick) * row_len + within;
            part.slice(done..done + run).copy_from(source.slice(first..first + run));
            done += run;
        }
    });
}

fn gather_nd_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let params = variable_shape(ctx, 0, ctx.attrs.dtype("dtype")?)?;
    let indices = shape_ops::with_rank_at_least(ctx.input(1), 1)?;
    let (Some(outer), Some(depth), Some(rank)) = (
        indices.rank().map(|rank| rank - 1),
        indices.dims().and_then(|dims| dims.last()?.value()),
        params.rank(),
    ) else {
        return Ok(());
    };
    require!(
        depth <= rank as i64,
        "indices.shape[-1] must be <= params.rank, but saw indices shape: {indices} and params shape: {params}"
    );
    let lead = shape_ops::subshape(&indices, 0, Some(outer as i64))?;
    ctx.set_output(0, shape_ops::concatenate(&lead, &suffix(&params, depth as usize)));
    Ok(())
}

fn gather_nd(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let dtype = init.attrs.dtype("dtype")?;
    let node = init.name.to_string();
    kernel(move |ctx| {
        let params = ctx.variable(0)?.read()?;
        let indices = ctx.input(1)?;
        require!(params.dtype() == dtype, "DType of variable handle and output does not match.");
        require!(params.rank() > 0, "params must be at least a vector");
        let Some((&depth, outer)) = indices.shape().split_last() else {
            return Err(invalid!("indices must be at least a vector"));
        };
        require!(
            depth <= params.rank() as i64,
            "index innermost dimension length must be <= params rank; saw: {depth} vs. {}",
            params.rank()
        );
        let depth = depth as usize;
        let dims: Vec<i64> = outer.iter().chain(&params.shape()[depth..]).copied().collect();
        let shape = Shape::new(&dims)?;
        let tuples = IndexTuples::new(indices, outer, depth)?;
        require!(
            params.count() > 0 || shape.count() == 0,
            "Requested more than 0 entries, but params is empty.  Params shape: {}",
            params.shape()
        );
        tuples.check(params.shape(), "param shape").map_err(|error| {
            let message = format!("{}, node name: {node}", error.message());
            error.with_message(message)
        })?;
        ctx.produce(0, shape, |out| {
            copy_rows(ctx, &params, out, tuples.len(), &|k| {
                tuples.row(k, params.shape()).expect("the tuples have been checked")
            });
        })
    })
}

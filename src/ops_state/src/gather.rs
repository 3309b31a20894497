//! Reading rows of a variable, chosen by index.

use tfcore_base::{DType, Numbers, Result, TypeSet, invalid, require};
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, OpContext, Registry, for_each_part, kernel, shape_ops,
};
use tfcore_tensor::{Shape, Tensor};

use crate::handle_shapes::variable_shape;
use crate::indices::Indices;

pub(crate) fn register(r: &mut Registry) {
    // `ResourceGather(resource, indices: Tindices; batch_dims = b) -> output: dtype`,
    // `output[batch, i, ...] = variable[batch, indices[batch, i], ...]` for `b` leading batch axes.
    let mut dtypes = Numbers::dtypes();
    dtypes.extend([
        DType::BOOL,
        DType::QINT32,
        DType::QINT8,
        DType::QUINT8,
        DType::RESOURCE,
        DType::STRING,
        DType::VARIANT,
    ]);
    let constraints = vec![("dtype", dtypes), ("Tindices", vec![DType::INT32, DType::INT64])];
    r.op("ResourceGather").shape(gather_shape).cpu_where(constraints, gather);
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
        let out = gather_rows(ctx, &params, ctx.input(1)?, batch_dims)?;
        ctx.set_output(0, out);
        Ok(())
    })
}

fn gather_rows(
    ctx: &OpContext<'_>,
    params: &Tensor,
    indices: &Tensor,
    batch_dims: usize,
) -> Result<Tensor> {
    let (from, at) = (params.shape(), indices.shape());
    require!(from.rank() > batch_dims, "params must be at least {} dimensional", batch_dims + 1);
    require!(
        at.rank() >= batch_dims && at[..batch_dims] == from[..batch_dims],
        "The first {batch_dims} dimensions of params {from} and of indices {at} must be equal"
    );
    let rows = from.dim(batch_dims);
    let dims: Vec<i64> = at.iter().chain(&from[batch_dims + 1..]).copied().collect();
    let mut out = ctx.allocate_output(0, Shape::new(&dims)?)?;

    let picks = Indices::of(indices)?;
    picks.check(at, rows)?;
    if out.count() == 0 {
        return Ok(out);
    }
    let row_len = out.count() / indices.count();
    let per_batch: usize = at.to_usizes()[batch_dims..].iter().product();
    let source = params.elems();
    for_each_part(ctx.parallel(), out.elems_mut()?, 1, &|start, mut part| {
        // A part may begin and end within a row.
        let (mut done, len) = (0, part.len());
        while done < len {
            let (pick, within) = ((start + done) / row_len, (start + done) % row_len);
            let run = (row_len - within).min(len - done);
            let row = pick / per_batch * rows + picks.get(pick) as usize;
            let first = row * row_len + within;
            part.slice(done..done + run).copy_from(source.slice(first..first + run));
            done += run;
        }
    });
    Ok(out)
}

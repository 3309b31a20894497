//! Ops that change rows of a variable, chosen by index.
//!
//! `variable[indices[i, ...], ...] op= updates[i, ..., ...]`, or one scalar update for all rows. Rows
//! that are named several times are changed several times, in order. All indices are checked first, so
//! that an op that fails has changed nothing.

use tfcore_base::{LoopSet, Numbers, RealNumbers, Result, invalid, require};
use tfcore_framework::{InferenceContext, Kernel, OpContext, OpEntry, Registry, kernel, shape_ops};
use tfcore_tensor::{Elems, PartialShape, Shape, Tensor};

use crate::arithmetic::{Add, Div, Max, Min, Mul, Sub, Update, Updates};
use crate::handle_shapes::{suffix, variable_shape};
use crate::indices::Indices;

pub(crate) fn register(r: &mut Registry) {
    // `ScatterUpdate(ref: Ref(T), indices: Tindices, updates: T) -> output_ref: Ref(T)`, replaces rows.
    r.op("ScatterUpdate").shape(ref_shape).cpu(|_| by_ref(Change::Replace));
    // `ScatterAdd`, `ScatterSub`, ... as `ScatterUpdate`, with the old row and the new one combined.
    combine_ref::<Add, Numbers>(r.op("ScatterAdd"));
    combine_ref::<Sub, Numbers>(r.op("ScatterSub"));
    combine_ref::<Mul, Numbers>(r.op("ScatterMul"));
    combine_ref::<Div, Numbers>(r.op("ScatterDiv"));
    combine_ref::<Min, RealNumbers>(r.op("ScatterMin"));
    combine_ref::<Max, RealNumbers>(r.op("ScatterMax"));

    // `ResourceScatterUpdate(resource, indices: Tindices, updates: dtype)`, replaces rows.
    r.op("ResourceScatterUpdate").shape(handle_shape).cpu(|_| by_handle(Change::Replace));
    // `ResourceScatterAdd`, `ResourceScatterSub`, ... as above.
    combine_handle::<Add, Numbers>(r.op("ResourceScatterAdd"));
    combine_handle::<Sub, Numbers>(r.op("ResourceScatterSub"));
    combine_handle::<Mul, Numbers>(r.op("ResourceScatterMul"));
    combine_handle::<Div, Numbers>(r.op("ResourceScatterDiv"));
    combine_handle::<Min, RealNumbers>(r.op("ResourceScatterMin"));
    combine_handle::<Max, RealNumbers>(r.op("ResourceScatterMax"));
}

/// What happens to a row.
#[derive(Clone, Copy)]
pub(crate) enum Change {
    Replace,
    Combine(Update),
}

fn combine_ref<R: 'static, S: LoopSet<Updates<R>>>(op: OpEntry<'_>) {
    op.shape(ref_shape)
        .typed_kernel::<Updates<R>, S>("T", |_, update| by_ref(Change::Combine(update)));
}

fn combine_handle<R: 'static, S: LoopSet<Updates<R>>>(op: OpEntry<'_>) {
    op.shape(handle_shape)
        .typed_kernel::<Updates<R>, S>("dtype", |_, update| by_handle(Change::Combine(update)));
}

fn by_ref(change: Change) -> Result<Box<dyn Kernel>> {
    kernel(move |ctx| {
        scatter(ctx, change, check_shapes)?;
        ctx.set_output_ref(0, ctx.input_ref(0)?.clone());
        Ok(())
    })
}

fn by_handle(change: Change) -> Result<Box<dyn Kernel>> {
    kernel(move |ctx| scatter(ctx, change, check_shapes_loosely))
}

fn ref_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let variable = ctx.input(0).clone();
    check_updates(ctx, &variable)?;
    ctx.set_output(0, variable);
    Ok(())
}

fn handle_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let variable = variable_shape(ctx, 0, ctx.attrs.dtype("dtype")?)?;
    check_updates(ctx, &variable)
}

fn check_updates(ctx: &InferenceContext<'_>, variable: &PartialShape) -> Result<()> {
    let expected = shape_ops::concatenate(ctx.input(1), &suffix(variable, 1));
    if ctx.input(2).rank() != Some(0) {
        shape_ops::merge(ctx.input(2), &expected)?;
    }
    Ok(())
}

/// Checks the shapes of variable, indices and updates.
type ShapeCheck = fn(&Shape, &Shape, &Shape) -> Result<()>;

fn check_shapes(params: &Shape, indices: &Shape, updates: &Shape) -> Result<()> {
    require!(params.rank() > 0, "params must be at least 1-D, got shape []");
    let expected = indices.iter().chain(&params[1..]);
    match updates.rank() == 0 || updates.iter().eq(expected) {
        true => Ok(()),
        false => Err(unlike(params, indices, updates)),
    }
}

/// As the reference has it for resources: the updates' rows may have other lengths than the variable's, and a
/// scalar is one row that only scalars update.
fn check_shapes_loosely(params: &Shape, indices: &Shape, updates: &Shape) -> Result<()> {
    if updates.rank() == 0 {
        return Ok(());
    }
    if updates.rank() + 1 != indices.rank() + params.rank() {
        return Err(unlike(params, indices, updates));
    }
    require!(
        indices.count() == 0 || updates.starts_with(indices),
        "The shape of indices ({indices}) must be a prefix of the shape of updates ({updates})"
    );
    Ok(())
}

fn unlike(params: &Shape, indices: &Shape, updates: &Shape) -> tfcore_base::Error {
    invalid!(
        "Must have updates.shape = indices.shape + params.shape[1:] or updates.shape = [], got \
         updates.shape {updates}, indices.shape {indices}, params.shape {params}"
    )
}

fn scatter(ctx: &OpContext<'_>, change: Change, check: ShapeCheck) -> Result<()> {
    let (indices, updates) = (ctx.input(1)?, ctx.input(2)?);
    change_variable(ctx, change, |params| {
        check(params.shape(), indices.shape(), updates.shape())?;
        let rows = Indices::of(indices)?;
        rows.check(indices.shape(), num_rows(params))?;
        change_rows(params, rows, indices.count(), updates, change)
    })
}

/// Lets `run` change the variable that is input 0, if the updates, input 2, are fit for that.
pub(crate) fn change_variable(
    ctx: &OpContext<'_>,
    change: Change,
    run: impl FnOnce(&mut Tensor) -> Result<()>,
) -> Result<()> {
    let (variable, updates) = (ctx.variable(0)?, ctx.input(2)?);
    require!(
        variable.dtype() == updates.dtype(),
        "DType of scatter resource and updates does not match."
    );
    if let Change::Combine(update) = change {
        (update.check)(updates.elems())?;
    }
    variable.update(&ctx.step().buffers, run)
}

/// The number of rows of a variable; a scalar is one.
fn num_rows(params: &Tensor) -> usize {
    if params.rank() == 0 { 1 } else { params.dim(0) }
}

/// Changes the rows of `params` named by the first `count` of `rows`, which have been checked.
fn change_rows(
    params: &mut Tensor,
    rows: Indices<'_>,
    count: usize,
    updates: &Tensor,
    change: Change,
) -> Result<()> {
    if count == 0 || params.count() == 0 {
        return Ok(());
    }
    let total = params.count();
    let row_len = total / num_rows(params);
    let update_len = updates.count() / count;
    let mut target = params.elems_mut()?;
    let source = updates.elems();
    for k in 0..count {
        let start = rows.get(k) as usize * row_len;
        if updates.rank() == 0 {
            let row = target.slice(start..start + row_len);
            match change {
                Change::Replace => row.fill(source),
                Change::Combine(update) => (update.apply)(row, source),
            }
            continue;
        }
        let by: Elems<'_> = source.slice(k * update_len..(k + 1) * update_len);
        match change {
            // An update row of another length is written as it is, from where the row begins.
            Change::Replace => {
                let len = update_len.min(total - start);
                target.slice(start..start + len).copy_from(by.slice(0..len));
            }
            Change::Combine(update) => {
                let len = row_len.min(update_len);
                (update.apply)(target.slice(start..start + len), by.slice(0..len));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn updates_of_resources_begin_as_the_indices() {
        let shape = |dims: &[i64]| Shape::new(dims).unwrap();
        let cases: [(&[i64], &[i64], &[i64], &str); 5] = [
            (&[4, 2], &[3], &[3, 2], ""),
            (&[4, 2], &[3], &[], ""),
            (&[4], &[0], &[1], ""),
            (
                &[2, 4, 2],
                &[2],
                &[1, 4, 2],
                "The shape of indices ([2]) must be a prefix of the shape of updates ([1,4,2])",
            ),
            (
                &[4, 2],
                &[3],
                &[3],
                "Must have updates.shape = indices.shape + params.shape[1:] or updates.shape = [], got \
                 updates.shape [3], indices.shape [3], params.shape [4,2]",
            ),
        ];
        for (params, indices, updates, expected) in cases {
            let result = check_shapes_loosely(&shape(params), &shape(indices), &shape(updates));
            assert_eq!(result.err().map_or(String::new(), |e| e.message().to_string()), expected);
        }
    }
}

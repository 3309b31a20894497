//! Ops that change slices of a variable, chosen by tuples of indices.
//!
//! `variable[indices[i, 0], indices[i, 1], .., ...] op= updates[i, ...]`: the last axis of the indices holds
//! indices into as many leading axes of the variable. As in `scatter`, all are checked first.

use tfcore_base::{
    BFloat16, Complex64, Complex128, Half, LoopSet, RealNumbers, Result, invalid, require,
};
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, OpContext, OpEntry, Registry, kernel, shape_ops,
};
use tfcore_tensor::{PartialShape, Shape, Tensor};

use crate::arithmetic::{Add, Max, Min, Sub, Updates};
use crate::handle_shapes::{suffix, variable_shape};
use crate::indices::IndexTuples;
use crate::scatter::{Change, change_variable};

pub(crate) fn register(r: &mut Registry) {
    // `ScatterNdUpdate(ref: Ref(T), indices: Tindices, updates: T) -> output_ref: Ref(T)`, replaces slices.
    r.op("ScatterNdUpdate").shape(ref_shape).cpu(|init| by_ref(init, Change::Replace));
    // `ScatterNdAdd`, `ScatterNdSub`, ... as `ScatterNdUpdate`, with old and new combined.
    combine_ref::<Add, Summable>(r.op("ScatterNdAdd"));
    combine_ref::<Sub, Summable>(r.op("ScatterNdSub"));
    combine_ref::<Min, RealNumbers>(r.op("ScatterNdMin"));
    combine_ref::<Max, RealNumbers>(r.op("ScatterNdMax"));

    // `ResourceScatterNdUpdate(ref: resource, indices: Tindices, updates: T)`, replaces slices.
    r.op("ResourceScatterNdUpdate")
        .shape(handle_shape)
        .cpu(|init| by_handle(init, Change::Replace));
    // `ResourceScatterNdAdd`, `ResourceScatterNdSub`, ... as above.
    combine_handle::<Add, Summable>(r.op("ResourceScatterNdAdd"));
    combine_handle::<Sub, Summable>(r.op("ResourceScatterNdSub"));
    combine_handle::<Min, RealNumbers>(r.op("ResourceScatterNdMin"));
    combine_handle::<Max, RealNumbers>(r.op("ResourceScatterNdMax"));
}

/// Numbers and truth values.
type Summable =
    (f32, f64, Half, BFloat16, i8, i16, i32, i64, u8, u16, u32, u64, Complex64, Complex128, bool);

fn combine_ref<R: 'static, S: LoopSet<Updates<R>>>(op: OpEntry<'_>) {
    op.shape(ref_shape)
        .typed_kernel::<Updates<R>, S>("T", |init, update| by_ref(init, Change::Combine(update)));
}

fn combine_handle<R: 'static, S: LoopSet<Updates<R>>>(op: OpEntry<'_>) {
    op.shape(handle_shape).typed_kernel::<Updates<R>, S>("T", |init, update| {
        by_handle(init, Change::Combine(update))
    });
}

fn by_ref(init: &KernelInit<'_>, change: Change) -> Result<Box<dyn Kernel>> {
    let skip_bad = skips_bad_indices(init)?;
    kernel(move |ctx| {
        scatter(ctx, change, skip_bad)?;
        ctx.set_output_ref(0, ctx.input_ref(0)?.clone());
        Ok(())
    })
}

fn by_handle(init: &KernelInit<'_>, change: Change) -> Result<Box<dyn Kernel>> {
    let skip_bad = skips_bad_indices(init)?;
    kernel(move |ctx| scatter(ctx, change, skip_bad))
}

/// Whether attr `bad_indices_policy` wants indices outside of the variable skipped.
fn skips_bad_indices(init: &KernelInit<'_>) -> Result<bool> {
    match init.attrs.str("bad_indices_policy")? {
        "" | "DEFAULT" | "ERROR" => Ok(false),
        "IGNORE" => Ok(true),
        other => Err(invalid!("Unknown bad indices handling attribute: {other}")),
    }
}

fn ref_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let variable = ctx.input(0).clone();
    check_updates(ctx, &variable)?;
    ctx.set_output(0, variable);
    Ok(())
}

fn handle_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let variable = variable_shape(ctx, 0, ctx.attrs.dtype("T")?)?;
    check_updates(ctx, &variable)
}

fn check_updates(ctx: &InferenceContext<'_>, variable: &PartialShape) -> Result<()> {
    let indices = shape_ops::with_rank_at_least(ctx.input(1), 1)?;
    let updates = shape_ops::with_rank_at_least(ctx.input(2), 1)?;
    let (Some(index_dims), Some(update_rank)) = (indices.dims(), updates.rank()) else {
        return Ok(());
    };
    let outer = index_dims.len() - 1;
    let Some(depth) = index_dims[outer].value() else { return Ok(()) };
    let lead = |shape: &PartialShape| -> PartialShape {
        shape.dims().unwrap_or(&[]).iter().take(outer).copied().collect()
    };
    let (index_lead, update_lead) = (lead(&indices), lead(&updates));
    shape_ops::merge(&index_lead, &update_lead).map_err(|error| {
        invalid!(
            "Dimensions [0,{outer}) of indices[shape={indices}] = {index_lead} must match dimensions \
             [0,{outer}) of updates[shape={updates}] = {update_lead}: {error}"
        )
    })?;
    let Some(rank) = variable.rank() else { return Ok(()) };
    let slice = suffix(variable, usize::try_from(depth).unwrap_or(usize::MAX));
    let update_slice = suffix(&updates, outer);
    shape_ops::merge(&slice, &update_slice).map_err(|error| {
        invalid!(
            "Dimensions [{depth},{rank}) of input[shape={variable}] = {slice} must match dimensions \
             [{outer},{update_rank}) of updates[shape={updates}] = {update_slice}: {error}"
        )
    })?;
    Ok(())
}

fn scatter(ctx: &OpContext<'_>, change: Change, skip_bad: bool) -> Result<()> {
    let (indices, updates) = (ctx.input(1)?, ctx.input(2)?);
    change_variable(ctx, change, |params| {
        let (outer, depth) = tuple_shape(indices.shape());
        let tuples = IndexTuples::new(indices, outer, depth)?;
        check_shapes(params.shape(), indices.shape(), outer, depth, updates.shape())?;
        if !skip_bad {
            tuples.check(params.shape(), "shape")?;
        }
        change_slices(params, tuples, depth, updates, change)
    })
}

/// The outer shape and the length of the tuples. A vector holds tuples of one.
fn tuple_shape(indices: &[i64]) -> (&[i64], usize) {
    match indices {
        [] => (&[], 1),
        [_] => (indices, 1),
        [outer @ .., depth] => (outer, *depth as usize),
    }
}

fn check_shapes(
    params: &Shape,
    indices: &Shape,
    outer: &[i64],
    depth: usize,
    updates: &Shape,
) -> Result<()> {
    require!(params.rank() > 0, "Output must be at least 1-D, got shape: {params}");
    let counts = [params.count(), indices.count(), updates.count()];
    let fits = counts.iter().all(|&count| count > 0) || counts[1..] == [0, 0];
    require!(fits, "Indices and updates specified for empty output.  indices shape: {indices}");
    let rows = |shape: &Shape| shape.first().copied().unwrap_or(1);
    require!(
        rows(indices) == rows(updates),
        "Dimensions [0,1) of indices[shape={indices}] = {} must match dimensions [0,1) of \
         updates[shape={updates}] = {}",
        rows(indices),
        rows(updates)
    );
    let (batch, rank) = (outer.len(), updates.rank());
    let same_rank = batch + params.rank() == rank + depth;
    if rank < batch || same_rank && !updates.starts_with(outer) {
        return Err(invalid!(
            "Dimensions [0,{batch}) of indices[shape={indices}] must match dimensions [0,{batch}) of \
             updates[shape={updates}]"
        ));
    }
    require!(
        same_rank && updates[batch..] == params[depth..],
        "Dimensions [{depth},{}) of input[shape={params}] must match dimensions [{depth},{rank}) of \
         updates[shape={updates}]",
        params.rank()
    );
    Ok(())
}

/// Changes the slices of `params` that the tuples name; those outside are left out.
fn change_slices(
    params: &mut Tensor,
    tuples: IndexTuples<'_>,
    depth: usize,
    updates: &Tensor,
    change: Change,
) -> Result<()> {
    let shape = params.shape().clone();
    let len: usize = shape.to_usizes()[depth..].iter().product();
    let mut target = params.elems_mut()?;
    let source = updates.elems();
    for k in 0..tuples.len() {
        let Some(row) = tuples.row(k, &shape) else {
            continue;
        };
        let slice = target.slice(row * len..(row + 1) * len);
        let by = source.slice(k * len..(k + 1) * len);
        match change {
            Change::Replace => slice.copy_from(by),
            Change::Combine(update) => (update.apply)(slice, by),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn updates_fit_the_indices_and_the_variable() {
        let shape = |dims: &[i64]| Shape::new(dims).unwrap();
        let cases: [(&[i64], &[i64], &[i64], &str); 8] = [
            (&[5, 5], &[3, 1], &[3, 5], ""),
            (&[5, 5], &[0, 1], &[0, 5], ""),
            (
                &[2, 5],
                &[3, 2],
                &[4],
                "Dimensions [0,1) of indices[shape=[3,2]] = 3 must match dimensions [0,1) of \
                 updates[shape=[4]] = 4",
            ),
            (
                &[5, 5, 2],
                &[3, 2],
                &[0, 2],
                "Indices and updates specified for empty output.  indices shape: [3,2]",
            ),
            (
                &[2, 2],
                &[3, 3],
                &[3],
                "Dimensions [3,2) of input[shape=[2,2]] must match dimensions [3,1) of updates[shape=[3]]",
            ),
            (
                &[2, 3, 4],
                &[3, 1],
                &[3, 4],
                "Dimensions [1,3) of input[shape=[2,3,4]] must match dimensions [1,2) of \
                 updates[shape=[3,4]]",
            ),
            (
                &[4, 3, 4],
                &[3, 2, 1],
                &[3, 4],
                "Dimensions [1,3) of input[shape=[4,3,4]] must match dimensions [1,2) of \
                 updates[shape=[3,4]]",
            ),
            (
                &[5, 5],
                &[3, 2, 1],
                &[3, 4, 5],
                "Dimensions [0,2) of indices[shape=[3,2,1]] must match dimensions [0,2) of \
                 updates[shape=[3,4,5]]",
            ),
        ];
        for (params, indices, updates, expected) in cases {
            let (indices, updates) = (shape(indices), shape(updates));
            let (outer, depth) = tuple_shape(&indices);
            let result = check_shapes(&shape(params), &indices, outer, depth, &updates);
            assert_eq!(result.err().map_or(String::new(), |e| e.message().to_string()), expected);
        }
    }
}

//! Ops that look up by index: `Gather`, `GatherV2`, `GatherNd`.

use std::sync::atomic::{AtomicUsize, Ordering};

use tfcore_base::{Result, invalid, require};
use tfcore_framework::movement::{Movement, for_each_units, move_elems};
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_ops,
};
use tfcore_tensor::{Elems, ElemsMut, PartialShape, Shape, Tensor};

use crate::no_kernel;

pub(crate) fn register(r: &mut Registry) {
    // `Gather(params: Tparams, indices: Tindices) -> output: Tparams`, rows by number.
    r.op("Gather").shape(gather_shape).compute(|ctx| gather(ctx, 0));
    // `GatherV2(params: Tparams, indices: Tindices, axis: Taxis) -> output: Tparams`:
    // `output[b.., o.., i.., r..] = params[b.., o.., indices[b.., i..], r..]`, where `b` are the batch
    // dimensions and `o` those up to `axis`.
    r.op("GatherV2").shape(gather_v2_shape).cpu(|init| {
        let batch_dims = init.attrs.int("batch_dims")?;
        kernel(move |ctx| gather(ctx, batch_dims))
    });
    // `GatherNd(params: Tparams, indices: Tindices) -> output: Tparams`, where the last dimension of the
    // indices is a position in the first dimensions of the params.
    r.op("GatherNd").shape(gather_nd_shape).cpu(gather_nd_kernel);
}

fn gather_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let params = shape_ops::with_rank_at_least(ctx.input(0), 1)?;
    let rows = shape_ops::subshape(&params, 1, None)?;
    ctx.set_output(0, shape_ops::concatenate(ctx.input(1), &rows));
    Ok(())
}

fn gather_v2_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let params = shape_ops::with_rank_at_least(ctx.input(0), 1)?;
    let indices = ctx.input(1);
    shape_ops::with_rank(ctx.input(2), 0)?;
    let batch_dims = ctx.attrs.int("batch_dims")?;
    let Some(axis) = ctx.operand_i64(2)? else {
        if let (Some(a), Some(b)) = (params.rank(), indices.rank()) {
            let rank = a as i64 + b as i64 - 1 - batch_dims;
            let rank = usize::try_from(rank)
                .ok()
                .filter(|&rank| rank <= tfcore_tensor::MAX_RANK)
                .ok_or_else(|| invalid!("batch_dims {batch_dims} leaves no valid rank"))?;
            ctx.set_output(0, PartialShape::of_rank(rank));
        }
        return Ok(());
    };
    let at_least = |shape: &PartialShape, rank: u64| {
        shape_ops::with_rank_at_least(shape, usize::try_from(rank).unwrap_or(usize::MAX))
    };
    at_least(&params, if axis < 0 { axis.unsigned_abs() } else { axis as u64 + 1 })?;
    at_least(indices, batch_dims.unsigned_abs())?;
    let (Some(params_rank), Some(rank)) = (params.rank(), indices.rank()) else {
        return Ok(());
    };
    let batch_dims = if batch_dims < 0 { batch_dims + rank as i64 } else { batch_dims };
    at_least(&params, batch_dims as u64 + 1)?;
    let axis = shape_ops::resolve_axis(axis, params_rank)? as i64;
    let outer = shape_ops::subshape(&params, 0, Some(axis))?;
    let inner = shape_ops::subshape(&params, axis + 1, None)?;
    let picked = shape_ops::subshape(indices, batch_dims, None)?;
    ctx.set_output(0, shape_ops::concatenate(&shape_ops::concatenate(&outer, &picked), &inner));
    Ok(())
}

fn gather(ctx: &mut OpContext<'_>, batch_dims: i64) -> Result<()> {
    let (params, indices) = (ctx.input(0)?, ctx.input(1)?);
    require!(params.rank() >= 1, "params must be at least 1 dimensional");
    let axis = match ctx.num_inputs() {
        2 => 0,
        _ => gather_axis(ctx.input(2)?)?,
    };
    let rank = params.rank() as i64;
    let needed = if axis < 0 { axis.unsigned_abs() } else { axis as u64 + 1 };
    require!(needed <= rank as u64, "Shape must be at least rank {needed} but is rank {rank}");
    let axis = axis.rem_euclid(rank) as usize;
    let batch_dims = gather_batch_dims(params.shape(), indices.shape(), axis, batch_dims)?;
    let (from, at) = (params.shape(), indices.shape());
    let dims = [&from[..axis], &at[batch_dims..], &from[axis + 1..]].concat();
    let shape = Shape::new(&dims)?;
    let product = |dims: &[i64]| dims.iter().map(|&size| size as usize).product::<usize>();
    let plan = GatherPlan {
        outer: product(&from[batch_dims..axis]),
        picked: product(&at[batch_dims..]),
        size: from.dim(axis),
        block: product(&from[axis + 1..]),
    };
    ctx.try_produce(0, shape, |out| {
        let positions = indices.to_i64s()?;
        if let Some(bad) = positions.iter().position(|&at| at < 0 || at >= plan.size as i64) {
            return Err(invalid!(
                "indices{} = {} is not in [0, {})",
                indices.shape().coordinates(bad),
                positions[bad],
                plan.size
            ));
        }
        pick(ctx, params.elems(), &positions, &plan, out);
        Ok(())
    })
}

fn gather_axis(axis: &Tensor) -> Result<i64> {
    require!(axis.rank() == 0, "axis must be scalar");
    Ok(axis.to_i64s()?[0])
}

/// How many leading dimensions params and indices share.
fn gather_batch_dims(
    params: &Shape,
    indices: &Shape,
    axis: usize,
    batch_dims: i64,
) -> Result<usize> {
    let rank = indices.rank() as i64;
    require!(
        (-rank..=rank).contains(&batch_dims),
        "Expected batch_dims in the range [{}, {rank}], but got {batch_dims}",
        -rank
    );
    let batch_dims = if batch_dims < 0 { batch_dims + rank } else { batch_dims } as usize;
    require!(
        batch_dims < params.rank(),
        "batch_dims ({batch_dims}) must be less than rank(params) ({}).",
        params.rank()
    );
    require!(
        axis >= batch_dims,
        "batch_dims ({batch_dims}) must be less than or equal to axis ({axis})."
    );
    for dim in 0..batch_dims {
        require!(
            params[dim] == indices[dim],
            "params.shape[{dim}]: {} should be equal to indices.shape[{dim}]: {}",
            params[dim],
            indices[dim]
        );
    }
    Ok(batch_dims)
}

/// `out[b, o, i] = params[b, o, indices[b, i]]` in blocks.
struct GatherPlan {
    outer: usize,
    picked: usize,
    /// Indices along the axis.
    size: usize,
    /// Elements of one index.
    block: usize,
}

fn pick(
    ctx: &OpContext<'_>,
    params: Elems<'_>,
    positions: &[i64],
    plan: &GatherPlan,
    out: ElemsMut<'_>,
) {
    for_each_units(ctx.parallel(), out, plan.block, &|first, part| {
        move_elems(params, part, Pick { plan, positions, first });
    });
}

struct Pick<'g> {
    plan: &'g GatherPlan,
    positions: &'g [i64],
    /// The number of the first block.
    first: usize,
}

impl Movement for Pick<'_> {
    fn run<E: Clone>(self, params: &[E], out: &mut [E]) {
        let GatherPlan { outer, picked, size, block } = *self.plan;
        let mut row = self.first / picked;
        let mut column = self.first % picked;
        let mut done = 0;
        while done < out.len() {
            let count = (picked - column).min((out.len() - done) / block);
            let positions = &self.positions[row / outer * picked + column..][..count];
            let source = &params[row * size * block..(row + 1) * size * block];
            let target = &mut out[done..done + count * block];
            if block == 1 {
                for (out, &at) in target.iter_mut().zip(positions) {
                    out.clone_from(&source[at as usize]);
                }
            } else {
                for (out, &at) in target.chunks_exact_mut(block).zip(positions) {
                    let start = at as usize * block;
                    out.clone_from_slice(&source[start..start + block]);
                }
            }
            done += count * block;
            (row, column) = (row + 1, 0);
        }
    }
}

fn gather_nd_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let params = ctx.input(0);
    let indices = shape_ops::with_rank_at_least(ctx.input(1), 1)?;
    let depth = indices.dims().and_then(|dims| dims.last()?.value());
    let (Some(rank), Some(depth)) = (params.rank(), depth) else {
        return Ok(());
    };
    require!(
        depth <= rank as i64,
        "indices.shape[-1] must be <= params.rank, but saw indices shape: {indices} and params shape: {params}"
    );
    let positions = shape_ops::subshape(&indices, 0, Some(-1))?;
    let rest = shape_ops::subshape(params, depth, None)?;
    ctx.set_output(0, shape_ops::concatenate(&positions, &rest));
    Ok(())
}

fn gather_nd_kernel(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let policy = init.attrs.str("bad_indices_policy")?;
    let ignores = match policy {
        "" | "DEFAULT" | "ERROR" => false,
        "IGNORE" => true,
        other => return Err(no_kernel(init, "bad_indices_policy", other)),
    };
    let name = init.name.to_string();
    kernel(move |ctx| gather_nd(ctx, ignores, &name))
}

/// With `ignores`, what bad indices select is zero.
fn gather_nd(ctx: &mut OpContext<'_>, ignores: bool, name: &str) -> Result<()> {
    let (params, indices) = (ctx.input(0)?, ctx.input(1)?);
    require!(params.rank() >= 1, "params must be at least a vector");
    require!(indices.rank() >= 1, "indices must be at least a vector");
    let depth = indices.dim(indices.rank() - 1);
    require!(
        depth <= params.rank(),
        "index innermost dimension length must be <= params rank; saw: {depth} vs. {}",
        params.rank()
    );
    let positions = Shape::new(&indices.shape()[..indices.rank() - 1])?;
    let shape = Shape::new(&[&positions[..], &params.shape()[depth..]].concat())?;
    let mut out = ctx.allocate_output(0, shape)?;
    if positions.count() > 0 {
        require!(
            params.count() > 0,
            "Requested more than 0 entries, but params is empty.  Params shape: {}",
            params.shape()
        );
        let values = indices.to_i64s()?;
        let plan = NdPlan {
            sizes: &params.shape()[..depth],
            block: params.shape()[depth..].iter().product::<i64>() as usize,
            indices: &values,
            first_bad: AtomicUsize::new(usize::MAX),
        };
        for_each_units(ctx.parallel(), out.elems_mut()?, plan.block, &|first, mut part| {
            if ignores {
                part.reborrow().fill_default();
            }
            move_elems(params.elems(), part, PickNd { plan: &plan, first });
        });
        let bad = plan.first_bad.into_inner();
        if bad != usize::MAX && !ignores {
            let row: Vec<String> =
                values[bad * depth..(bad + 1) * depth].iter().map(i64::to_string).collect();
            return Err(invalid!(
                "indices{} = [{}] does not index into param shape {}, node name: {name}",
                positions.coordinates(bad),
                row.join(", "),
                params.shape()
            ));
        }
    }
    ctx.set_output(0, out);
    Ok(())
}

struct NdPlan<'p> {
    /// The sizes of the dimensions that a position is about.
    sizes: &'p [i64],
    /// Elements of one position.
    block: usize,
    indices: &'p [i64],
    /// The lowest number of a position that is outside.
    first_bad: AtomicUsize,
}

struct PickNd<'p> {
    plan: &'p NdPlan<'p>,
    /// The number of the first position.
    first: usize,
}

impl Movement for PickNd<'_> {
    fn run<E: Clone>(self, params: &[E], out: &mut [E]) {
        let NdPlan { sizes, block, indices, first_bad } = self.plan;
        let depth = sizes.len();
        for (number, out) in out.chunks_exact_mut(*block).enumerate() {
            let number = self.first + number;
            let position = &indices[number * depth..(number + 1) * depth];
            let mut at = 0;
            let mut inside = true;
            for (&index, &size) in position.iter().zip(*sizes) {
                inside &= (0..size).contains(&index);
                at = at * size as usize + index.clamp(0, size - 1) as usize;
            }
            if inside {
                out.clone_from_slice(&params[at * block..(at + 1) * block]);
            } else {
                first_bad.fetch_min(number, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::*;
    use tfcore_base::DType;
    use tfcore_framework::AttrValue;

    fn v2(batch_dims: i64) -> [(&'static str, AttrValue); 4] {
        [
            ("Tparams", of(DType::INT32)),
            ("Tindices", of(DType::INT32)),
            ("Taxis", of(DType::INT32)),
            ("batch_dims", AttrValue::Int(batch_dims)),
        ]
    }

    fn nd(policy: &str) -> [(&'static str, AttrValue); 3] {
        [
            ("Tparams", of(DType::INT32)),
            ("Tindices", of(DType::INT32)),
            ("bad_indices_policy", AttrValue::string(policy)),
        ]
    }

    #[test]
    fn gathering() {
        let x = counting(&[2, 3]);
        let cases = [
            (ints(&[1, 0]), 0, 0, vec![2, 3], vec![3, 4, 5, 0, 1, 2]),
            (ints(&[2, 2]), 1, 0, vec![2, 2], vec![2, 2, 5, 5]),
            (tensor(&[2, 1], &[2, 0]), -1, 1, vec![2, 1], vec![2, 3]),
            (Tensor::scalar(1i32), 1, 0, vec![2], vec![1, 4]),
        ];
        for (indices, axis, batch_dims, dims, expected) in cases {
            let inputs = [x.clone(), indices, Tensor::scalar(axis)];
            let found = values::<i32>("GatherV2", &v2(batch_dims), &inputs).unwrap();
            assert_eq!(found, (dims, expected), "axis {axis}");
        }
        let inputs = [x, tensor(&[1, 2], &[0, 3]), Tensor::scalar(1i32)];
        assert_eq!(failure("GatherV2", &v2(0), &inputs), "indices[0,1] = 3 is not in [0, 3)");
    }

    #[test]
    fn shapes_of_gathers() {
        let axis = |axis: i32| vec![(2, Tensor::scalar(axis))];
        let cases = [
            ("[4,5,6];[4,2];[]", 1, axis(-1), "[4,5,2]"),
            ("[4,5,6];[4,2];[]", 3, axis(1), "Shape must be at least rank 3 but is rank 2"),
            ("[4,5];[2,?];[]", 0, vec![], "[?,?,?]"),
            ("[4,5];?;[]", 0, axis(0), "?"),
            ("[4,5];[2];[]", 0, axis(2), "Shape must be at least rank 3 but is rank 2"),
        ];
        for (inputs, batch_dims, constants, expected) in cases {
            assert_eq!(
                shapes("GatherV2", &v2(batch_dims), inputs, &constants),
                expected,
                "{inputs}"
            );
        }
    }

    #[test]
    fn positions() {
        let x = counting(&[2, 3]);
        let cases = [
            (tensor(&[2, 2], &[0, 1, 1, 2]), vec![2], vec![1, 5]),
            (tensor(&[1, 1], &[1]), vec![1, 3], vec![3, 4, 5]),
            (tensor::<i32>(&[1, 0], &[]), vec![1, 2, 3], vec![0, 1, 2, 3, 4, 5]),
        ];
        for (indices, dims, expected) in cases {
            let found = values::<i32>("GatherNd", &nd(""), &[x.clone(), indices]).unwrap();
            assert_eq!(found, (dims, expected));
        }
        let bad = [x, tensor(&[2, 2], &[0, 1, 0, 3])];
        assert_eq!(
            failure("GatherNd", &nd(""), &bad),
            "indices[1] = [0, 3] does not index into param shape [2,3], node name: op"
        );
        assert_eq!(values::<i32>("GatherNd", &nd("IGNORE"), &bad).unwrap().1, [1, 0]);
    }
}

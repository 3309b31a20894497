//! Ops that repeat: `Tile`, `BroadcastTo`, `BroadcastArgs`, `BroadcastGradientArgs`.

use tfcore_base::{DType, Result, internal, invalid, require};
use tfcore_framework::geometry::{StridedDim, StridedView};
use tfcore_framework::{InferenceContext, OpContext, Registry, shape_fns, shape_ops};
use tfcore_tensor::{Dim, PartialShape, Shape, Tensor};

use crate::slice::output_view;

pub(crate) fn register(r: &mut Registry) {
    // `Tile(input: T, multiples: Tmultiples) -> output: T`, the whole repeated along each axis.
    r.op("Tile").shape(tile_shape).compute(tile);
    // `TileGrad(input: T, multiples: int32) -> output: T`, long replaced by sums. The reference's kernels ask for an attr that the op
    // does not have, so that no node of it runs.
    r.op("TileGrad")
        .shape(shape_fns::unknown)
        .compute(|_| Err(internal!("TileGrad has been replaced with reduce_sum")));
    // `BroadcastTo(input: T, shape: Tidx) -> output: T`, dimensions of size 1 repeated.
    r.op("BroadcastTo").shape(broadcast_to_shape).compute(broadcast_to);
    // `BroadcastArgs(s0: T, s1: T) -> r0: T`, the shape that two shapes broadcast to.
    r.op("BroadcastArgs").shape(broadcast_args_shape).compute(broadcast_args);
    // `BroadcastGradientArgs(s0: T, s1: T) -> (r0: T, r1: T)`, the axes along which each of two shapes is stretched to the
    // common one.
    r.op("BroadcastGradientArgs")
        .shape(broadcast_gradient_args_shape)
        .compute(broadcast_gradient_args);
}

fn tile_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    shape_ops::with_rank(ctx.input(1), 1)?;
    let mut multiples = ctx.operand_shape(1)?;
    if let Some(rank) = ctx.input(0).rank() {
        multiples = shape_ops::with_rank(&multiples, rank).map_err(|_| {
            // The message is about the input, whose rank the multiples say.
            let multiples = multiples.rank().unwrap_or_default();
            invalid!("Shape must be rank {rank} but is rank {multiples}")
        })?;
    }
    let Some(multiples) = multiples.dims() else {
        return Ok(());
    };
    let input = shape_ops::with_rank(ctx.input(0), multiples.len())?;
    let dims = multiples
        .iter()
        .enumerate()
        .map(|(axis, &multiple)| shape_ops::multiply(input.dim(axis), multiple));
    ctx.set_output(0, dims.collect::<Result<Vec<Dim>>>()?.into_iter().collect());
    Ok(())
}

fn tile(ctx: &mut OpContext<'_>) -> Result<()> {
    let (input, multiples) = (ctx.input(0)?, ctx.input(1)?);
    require!(
        multiples.rank() == 1,
        "Expected multiples to be 1-D, but got shape {}",
        multiples.shape()
    );
    require!(
        multiples.count() == input.rank(),
        "Expected multiples argument to be a vector of length {} but got length {}",
        input.rank(),
        multiples.count()
    );
    let shape = input.shape().clone();
    let mut dims = Vec::with_capacity(shape.rank());
    let mut view = Vec::with_capacity(2 * shape.rank());
    let strides = shape.strides();
    for (axis, &multiple) in multiples.to_i64s()?.iter().enumerate() {
        require!(multiple >= 0, "Expected multiples[{axis}] >= 0, but got {multiple}");
        let size = shape[axis].checked_mul(multiple);
        dims.push(size.ok_or_else(|| invalid!("Tile: multiples[{axis}] = {multiple} overflows"))?);
        // Every axis is two: which copy, and where in it.
        view.push(StridedDim { size: multiple as usize, stride: 0 });
        view.push(StridedDim { size: shape.dim(axis), stride: strides[axis] as isize });
    }
    output_repeated(ctx, view, Shape::new(&dims)?)
}

/// Sets output 0, of shape `shape`, by the view with these dimensions.
fn output_repeated(ctx: &mut OpContext<'_>, dims: Vec<StridedDim>, shape: Shape) -> Result<()> {
    if shape.count() == 0 {
        let out = ctx.allocate_output(0, shape)?;
        ctx.set_output(0, out);
        return Ok(());
    }
    output_view(ctx, &StridedView::new(0, dims), shape)
}

fn broadcast_to_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    shape_ops::with_rank(ctx.input(1), 1)?;
    let mut shape = ctx.operand_shape(1)?;
    if let (Some(rank), Some(_)) = (shape.rank(), ctx.input(0).rank()) {
        let input = shape_ops::with_rank_at_most(ctx.input(0), rank)?;
        for (step, &dim) in input.dims().unwrap_or_default().iter().rev().enumerate() {
            if dim.value().is_some_and(|size| size > 1) {
                let axis = rank - 1 - step;
                let merged = shape_ops::merge_dims(dim, shape.dim(axis))?;
                shape = shape_ops::replace_dim(&shape, axis as i64, merged)?;
            }
        }
    }
    ctx.set_output(0, shape);
    Ok(())
}

fn broadcast_to(ctx: &mut OpContext<'_>) -> Result<()> {
    let (input, sizes) = (ctx.input(0)?, ctx.input(1)?);
    require!(
        sizes.rank() == 1,
        "shape must be a vector of {{int32,int64}}, got shape {}",
        sizes.shape()
    );
    let shape = Shape::new(&sizes.to_i64s()?)?;
    let from = input.shape().clone();
    let Some(missing) = shape.rank().checked_sub(from.rank()) else {
        return Err(invalid!(
            "Rank of input ({}) must be no greater than rank of output shape ({}).",
            from.rank(),
            shape.rank()
        ));
    };
    let strides = from.strides();
    let mut dims = Vec::with_capacity(shape.rank());
    for axis in 0..shape.rank() {
        let size = shape.dim(axis);
        let inner = axis.checked_sub(missing);
        let (own, stride) = inner.map_or((1, 0), |inner| (from.dim(inner), strides[inner]));
        require!(own == size || own == 1, "Incompatible shapes: {from} vs. {shape}");
        let stride = if own == 1 { 0 } else { stride as isize };
        dims.push(StridedDim { size, stride });
    }
    output_repeated(ctx, dims, shape)
}

fn broadcast_args_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let a = shape_ops::with_rank(ctx.input(0), 1)?.dim(0);
    let b = shape_ops::with_rank(ctx.input(1), 1)?.dim(0);
    let rank = match (a.value(), b.value()) {
        (Some(a), Some(b)) => Dim::new(a.max(b)),
        _ => Dim::UNKNOWN,
    };
    ctx.set_output(0, PartialShape::vector(rank));
    Ok(())
}

fn broadcast_args(ctx: &mut OpContext<'_>) -> Result<()> {
    let dims: Vec<i64> = pairs(ctx)?.iter().map(|&(a, b)| if a == 1 { b } else { a }).collect();
    set_integers(ctx, 0, &dims)
}

/// The dimensions of two shapes side by side, the shorter one with ones before it.
fn pairs(ctx: &OpContext<'_>) -> Result<Vec<(i64, i64)>> {
    let mut shapes = Vec::with_capacity(2);
    for index in 0..2 {
        let input = ctx.input(index)?;
        require!(input.rank() == 1, "In[{index}] must be a vector.{}", input.shape());
        shapes.push(input.to_i64s()?);
    }
    let rank = shapes[0].len().max(shapes[1].len());
    let mut pairs = Vec::with_capacity(rank);
    for axis in 0..rank {
        let at = |shape: &[i64]| (axis + shape.len()).checked_sub(rank).map_or(1, |at| shape[at]);
        let (a, b) = (at(&shapes[0]), at(&shapes[1]));
        require!(
            a == b || a == 1 || b == 1,
            "Incompatible shapes: {} vs. {}",
            bracketed(&shapes[0]),
            bracketed(&shapes[1])
        );
        pairs.push((a, b));
    }
    Ok(pairs)
}

/// Sets an output to a vector of `int32` or `int64`; each value is an axis or came in as one of that type.
fn set_integers(ctx: &mut OpContext<'_>, index: usize, values: &[i64]) -> Result<()> {
    let shape = Shape::vector(values.len());
    let out = match ctx.output_dtype(index) {
        DType::INT64 => Tensor::from_slice(shape, values)?,
        _ => {
            let values: Vec<i32> = values.iter().map(|&value| value as i32).collect();
            Tensor::from_slice(shape, &values)?
        }
    };
    ctx.set_output(index, out);
    Ok(())
}

fn broadcast_gradient_args_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    for index in 0..2 {
        shape_ops::with_rank(ctx.input(index), 1)?;
        ctx.set_output(index, PartialShape::vector(Dim::UNKNOWN));
    }
    Ok(())
}

/// Of equal shapes neither is stretched; else an axis of size 1 counts as stretched even if it is 1 in the other shape
/// too.
fn broadcast_gradient_args(ctx: &mut OpContext<'_>) -> Result<()> {
    let pairs = pairs(ctx)?;
    let are_equal = ctx.input(0)?.to_i64s()? == ctx.input(1)?.to_i64s()?;
    let axes = |is_one: fn(&(i64, i64)) -> bool| -> Vec<i64> {
        let stretched = pairs.iter().enumerate().filter(|(_, pair)| !are_equal && is_one(pair));
        stretched.map(|(axis, _)| axis as i64).collect()
    };
    set_integers(ctx, 0, &axes(|&(a, _)| a == 1))?;
    set_integers(ctx, 1, &axes(|&(_, b)| b == 1))
}

fn bracketed(dims: &[i64]) -> String {
    format!("[{}]", dims.iter().map(i64::to_string).collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::*;

    #[test]
    fn tiles_repeat_the_whole() {
        let found = values::<i32>("Tile", &[int32()], &[counting(&[2, 2]), ints(&[2, 2])]).unwrap();
        let expected = vec![0, 1, 0, 1, 2, 3, 2, 3, 0, 1, 0, 1, 2, 3, 2, 3];
        assert_eq!(found, (vec![4, 4], expected));
        let none = values::<i32>("Tile", &[int32()], &[counting(&[2]), ints(&[0])]).unwrap();
        assert_eq!(none, (vec![0], vec![]));
        let huge = [counting(&[4]), tensor(&[1], &[i64::MAX])];
        let attrs = [int32(), ("Tmultiples", of(DType::INT64))];
        assert!(failure("Tile", &attrs, &huge).contains("overflows"));
        assert_eq!(shapes("Tile", &[int32()], "[2,?];[2]", &[(1, ints(&[3, 2]))]), "[6,?]");
    }

    #[test]
    fn broadcasts_repeat_single_elements() {
        let found =
            values::<i32>("BroadcastTo", &[int32()], &[counting(&[2, 1]), ints(&[2, 2, 3])]);
        assert_eq!(found.unwrap(), (vec![2, 2, 3], vec![0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1]));
        let message = failure("BroadcastTo", &[int32()], &[counting(&[2]), ints(&[3])]);
        assert_eq!(message, "Incompatible shapes: [2] vs. [3]");
        assert_eq!(shapes("BroadcastTo", &[int32()], "[2,?];[3]", &[]), "[?,2,?]");
    }

    #[test]
    fn shapes_broadcast() {
        let found =
            values::<i32>("BroadcastArgs", &[int32()], &[ints(&[2, 1]), ints(&[5, 1, 3])]).unwrap();
        assert_eq!(found.1, [5, 2, 3]);
        let message = failure("BroadcastArgs", &[int32()], &[ints(&[2]), ints(&[3])]);
        assert_eq!(message, "Incompatible shapes: [2] vs. [3]");
    }

    #[test]
    fn axes_that_were_stretched() {
        let cases: [(&[i32], &[i32], &[i32], &[i32]); 7] = [
            (&[2, 3], &[3], &[], &[0]),
            (&[2, 1, 3], &[2, 4, 1], &[1], &[2]),
            (&[1, 1], &[1], &[0, 1], &[0, 1]),
            (&[1, 2], &[1, 2], &[], &[]),
            (&[], &[1, 2], &[0, 1], &[0]),
            (&[1, 3, 1], &[1, 1, 1], &[0, 2], &[0, 1, 2]),
            (&[1, 0], &[5, 1], &[0], &[1]),
        ];
        for (a, b, first, second) in cases {
            let out = run("BroadcastGradientArgs", &[int32()], &[ints(a), ints(b)]).unwrap();
            let found = (out[0].as_slice::<i32>().unwrap(), out[1].as_slice::<i32>().unwrap());
            assert_eq!(found, (first, second), "{a:?} {b:?}");
        }
        let message = failure("BroadcastGradientArgs", &[int32()], &[ints(&[2]), ints(&[3])]);
        assert_eq!(message, "Incompatible shapes: [2] vs. [3]");
        assert_eq!(shapes("BroadcastGradientArgs", &[int32()], "[2];[2]", &[]), "[?];[?]");
    }
}

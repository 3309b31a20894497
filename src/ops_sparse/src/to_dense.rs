//! `SparseToDense`.

use tfcore_base::{Result, invalid, require};
use tfcore_framework::{InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel};
use tfcore_tensor::Shape;

use crate::coo::{join, offset};

pub(crate) fn register(r: &mut Registry) {
    // `SparseToDense(sparse_indices: Tindices, output_shape: Tindices, sparse_values: T, default_value: T) -> dense: T`.
    r.op("SparseToDense").shape(to_dense_shape).cpu(to_dense_kernel);
}

fn to_dense_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let shape = ctx.operand_shape(1)?;
    ctx.set_output(0, shape);
    Ok(())
}

fn to_dense_kernel(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let validate = init.attrs.bool("validate_indices")?;
    kernel(move |ctx| to_dense(ctx, validate))
}

fn to_dense(ctx: &mut OpContext<'_>, validate: bool) -> Result<()> {
    let (indices, shape, values, default) =
        (ctx.input(0)?, ctx.input(1)?, ctx.input(2)?, ctx.input(3)?);
    require!(
        indices.rank() <= 2,
        "sparse_indices should be a scalar, vector, or matrix, got shape {}",
        indices.shape()
    );
    let count = if indices.rank() > 0 { indices.dim(0) } else { 1 };
    let rank = if indices.rank() > 1 { indices.dim(1) } else { 1 };
    require!(shape.rank() == 1, "output_shape must be rank 1, got shape {}", shape.shape());
    require!(
        shape.count() == rank,
        "output_shape has incorrect number of elements: {} should be: {rank}",
        shape.count()
    );
    require!(
        values.rank() == 0 || values.rank() == 1 && values.dim(0) == count,
        "sparse_values has incorrect shape {}, should be [] or [{count}]",
        values.shape()
    );
    require!(default.rank() == 0, "default_value should be a scalar.");
    let dims = shape.to_i64s()?;
    let out_shape = Shape::new(&dims)?;
    let indices = indices.to_i64s()?;
    let index = |position: usize| &indices[position * rank..(position + 1) * rank];
    for position in 0..count {
        let at = index(position);
        let inside = at.iter().zip(&dims).all(|(at, size)| (0..*size).contains(at));
        let shown = || format!("indices[{position}] = [{}]", join(at));
        if !inside {
            return Err(match validate {
                true => {
                    invalid!("{} is out of bounds: need 0 <= index < [{}]", shown(), join(&dims))
                }
                false => {
                    invalid!("Indices are not valid (out of bounds).  Shape: [{}]", join(&dims))
                }
            });
        }
        if validate && position > 0 {
            let before = index(position - 1);
            require!(
                before <= at,
                "{} is out of order. Many sparse ops require sorted indices.\n  Use `tf.sparse.reorder` to create a \
                 correctly ordered copy.\n\n",
                shown()
            );
            require!(before != at, "{} is repeated", shown());
        }
    }
    let mut dense = ctx.allocate_output(0, out_shape)?;
    if dense.count() > 0 {
        dense.elems_mut()?.fill(default.elems());
        let single = values.rank() == 0;
        for position in 0..count {
            let at = offset(index(position), &dims);
            let from = if single { 0 } else { position };
            let value = values.elems().slice(from..from + 1);
            dense.elems_mut()?.slice(at..at + 1).copy_from(value);
        }
    }
    ctx.set_output(0, dense);
    Ok(())
}

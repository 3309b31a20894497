//! Tensors put together of many, and cut into many.

use tfcore_base::{DType, Result, try_collect};
use tfcore_framework::OpContext;
use tfcore_framework::movement::for_each_units;
use tfcore_tensor::{Shape, Tensor};

/// A tensor of `shape` with the elements of all parts, of `unit` elements each, one part after the other;
/// zeros for the parts that are missing.
pub(crate) fn stack(
    ctx: &OpContext<'_>,
    dtype: DType,
    shape: Shape,
    unit: usize,
    parts: &[Option<&Tensor>],
) -> Result<Tensor> {
    let mut out = ctx.allocate(dtype, shape)?;
    for_each_units(ctx.parallel(), out.elems_mut()?, unit, &|first, mut target| {
        let count = target.len() / unit.max(1);
        for (index, part) in parts[first..first + count].iter().enumerate() {
            let target = target.slice(index * unit..(index + 1) * unit);
            match part {
                Some(part) => target.copy_from(part.elems()),
                None => target.fill_default(),
            }
        }
    });
    Ok(out)
}

/// As [`stack`], of parts that differ in length; `None` is that number of zeros.
pub(crate) fn concat(
    ctx: &OpContext<'_>,
    dtype: DType,
    shape: Shape,
    parts: &[(usize, Option<&Tensor>)],
) -> Result<Tensor> {
    let mut out = ctx.allocate(dtype, shape)?;
    let mut rest = out.elems_mut()?;
    for &(len, part) in parts {
        let (target, tail) = rest.split_at(len);
        match part {
            Some(part) => target.copy_from(part.elems()),
            None => target.fill_default(),
        }
        rest = tail;
    }
    Ok(out)
}

/// Element `index` along the first dimension, which must be there.
pub(crate) fn row(ctx: &OpContext<'_>, tensor: &Tensor, index: usize) -> Result<Tensor> {
    let shape = Shape::new(&tensor.shape()[1..])?;
    rows(ctx, tensor, index, 1)?.with_shape(shape)
}

/// All elements along the first dimension, which must be there.
pub(crate) fn all_rows(ctx: &OpContext<'_>, tensor: &Tensor) -> Result<Vec<Tensor>> {
    // Rows without elements may be many more than there is memory for.
    try_collect((0..tensor.dim(0)).map(|index| row(ctx, tensor, index)))?.into_iter().collect()
}

/// Elements `start .. start + len` along the first dimension, which must be there. The memory is shared where
/// the rows are aligned and the library owns it: a client may write to what it has fed.
pub(crate) fn rows(
    ctx: &OpContext<'_>,
    tensor: &Tensor,
    start: usize,
    len: usize,
) -> Result<Tensor> {
    if tensor.buffer().is_ours()
        && let Some(shared) = tensor.share_rows(start, len)
    {
        return Ok(shared);
    }
    let unit = Shape::new(&tensor.shape()[1..])?.count();
    let mut copy = ctx.allocate(tensor.dtype(), with_rows(tensor.shape(), len)?)?;
    let range = start * unit..(start + len) * unit;
    copy.elems_mut()?.copy_from(tensor.elems().slice(range));
    Ok(copy)
}

/// The shape with another size of its first dimension, which must be there.
fn with_rows(shape: &Shape, len: usize) -> Result<Shape> {
    let mut dims = shape.dims().to_vec();
    dims[0] = len as i64;
    Shape::new(&dims)
}

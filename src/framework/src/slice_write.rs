//! Writing to a strided slice of a tensor, as assignments to variables and `TensorStridedSliceUpdate` do.

use tfcore_base::{Result, invalid};
use tfcore_tensor::{PartialShape, Shape, Tensor};

use crate::context::OpContext;
use crate::geometry::{SliceMasks, SliceSpec, StridedDim, StridedView, check_slice_operands};
use crate::movement::{copy_view, write_view};

/// Replaces the slice `[begin, end, strides]` of `tensor` by `value`, which is repeated to fill it.
///
/// # Errors
/// `InvalidArgument` for operands that describe no slice, and for values that do not fit it.
pub fn write_slice(
    ctx: &OpContext<'_>,
    tensor: &mut Tensor,
    operands: [&Tensor; 3],
    masks: SliceMasks,
    value: &Tensor,
) -> Result<()> {
    let [begin, end, strides] = operands.map(Tensor::shape);
    check_slice_operands(begin, end, strides)?;
    let [begin, end, strides] = operands.map(Tensor::to_i64s);
    let (begin, end, strides) = (begin?, end?, strides?);
    let spec = SliceSpec { begin: Some(&begin), end: Some(&end), strides: &strides, masks };
    let dims = PartialShape::from(tensor.shape());
    let slice = spec.dense(dims.dims().unwrap_or_default())?;
    let view = slice.view(tensor.shape());
    // What an empty slice would get does not matter.
    if view.count() == 0 {
        return Ok(());
    }
    let shape = slice
        .output()
        .to_shape()
        .ok_or_else(|| invalid!("Invalid shape {} of the slice", slice.output()))?;
    if *value.shape() == shape {
        write_view(value.elems(), &view, tensor.elems_mut()?);
        return Ok(());
    }
    let repeated = repeated_to(value.shape(), &shape).ok_or_else(|| {
        invalid!("Cannot broadcast input shape {} into final shape {shape}", value.shape())
    })?;
    let mut values = ctx.allocate(value.dtype(), shape)?;
    copy_view(ctx.parallel(), value.elems(), &repeated, values.elems_mut()?);
    write_view(values.elems(), &view, tensor.elems_mut()?);
    Ok(())
}

/// The elements of a tensor of shape `shape`, repeated to fill one of shape `target`; `None` where that cannot
/// be. Other than an operand of a binary op, the tensor may have more dimensions, if they are 1.
fn repeated_to(shape: &Shape, target: &Shape) -> Option<StridedView> {
    let extra = shape.rank().saturating_sub(target.rank());
    let (extra, dims) = shape.split_at(extra);
    let strides = &shape.strides()[extra.len()..];
    let missing = target.rank() - dims.len();
    if extra.iter().any(|&size| size != 1) {
        return None;
    }
    let entries = target.to_usizes().into_iter().enumerate().map(|(axis, size)| {
        let Some(axis) = axis.checked_sub(missing) else {
            return Some(StridedDim { size, stride: 0 });
        };
        match dims[axis] {
            1 => Some(StridedDim { size, stride: 0 }),
            actual if actual as usize == size => {
                Some(StridedDim { size, stride: strides[axis] as isize })
            }
            _ => None,
        }
    });
    Some(StridedView::new(0, entries.collect::<Option<Vec<StridedDim>>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_repeated_to_the_slice() {
        let cases: [(&[i64], &[i64], Option<&[usize]>); 8] = [
            (&[], &[2, 2], Some(&[0, 0, 0, 0])),
            (&[2], &[2, 2], Some(&[0, 1, 0, 1])),
            (&[2, 1], &[2, 2], Some(&[0, 0, 1, 1])),
            (&[1, 1, 2], &[2, 2], Some(&[0, 1, 0, 1])),
            (&[1, 2], &[2], Some(&[0, 1])),
            (&[3], &[2, 2], None),
            (&[3, 2], &[2, 2], None),
            (&[2, 1, 2], &[1, 2], None),
        ];
        for (shape, target, expected) in cases {
            let view = repeated_to(&Shape::new(shape).unwrap(), &Shape::new(target).unwrap());
            let indices = view.map(|view| {
                let axes = view.dims().len();
                (0..view.count()).map(|index| view.input_index(index, axes)).collect::<Vec<_>>()
            });
            assert_eq!(indices.as_deref(), expected, "{shape:?} to {target:?}");
        }
    }
}

//! Elements and rows: components cut out of tensors and stacked to batches.

use std::sync::Arc;

use tfcore_base::{DType, Result, invalid, require};
use tfcore_tensor::{BufferPool, Elems, Shape, Tensor, Variant};

use crate::dataset::Element;

/// Row `index` of the outermost dimension, which must have it.
pub(crate) fn row(tensor: &Tensor, index: usize) -> Result<Tensor> {
    let shape = Shape::new(tensor.shape().dims().get(1..).unwrap_or_default())?;
    if let Some(shared) = tensor.share_rows(index, 1) {
        return shared.with_shape(shape);
    }
    let count = shape.count();
    let mut out = Tensor::allocate(tensor.dtype(), shape, None)?;
    out.elems_mut()?.copy_from(tensor.elems().slice(index * count..(index + 1) * count));
    Ok(out)
}

/// Rows `start..end` of the outermost dimension.
pub(crate) fn rows(tensor: &Tensor, start: usize, end: usize) -> Result<Tensor> {
    if let Some(shared) = tensor.share_rows(start, end - start) {
        return Ok(shared);
    }
    let mut dims = tensor.shape().dims().to_vec();
    let count = tensor.count() / tensor.dim(0).max(1);
    dims[0] = (end - start) as i64;
    let mut out = Tensor::allocate(tensor.dtype(), Shape::new(&dims)?, None)?;
    out.elems_mut()?.copy_from(tensor.elems().slice(start * count..end * count));
    Ok(out)
}

/// One element of the same components stacked, or of variants of sparse tensors as rows.
///
/// # Errors
/// `InvalidArgument` if a component has other shapes in other elements.
pub(crate) fn stacked(elements: &[Element], buffers: &Arc<BufferPool>) -> Result<Element> {
    let first = elements.first().map_or(&[][..], Vec::as_slice);
    (0..first.len())
        .map(|component| {
            let mut dims = vec![elements.len() as i64];
            dims.extend_from_slice(first[component].shape().dims());
            let shape = Shape::new(&dims)?;
            let count = first[component].count();
            let mut out = Tensor::allocate(first[component].dtype(), shape, Some(buffers))?;
            for (index, element) in elements.iter().enumerate() {
                let part = &element[component];
                require!(
                    part.shape() == first[component].shape(),
                    "Cannot batch tensors with different shapes in component {component}. First element had \
                     shape {} and element {index} had shape {}.",
                    first[component].shape(),
                    part.shape()
                );
                out.elems_mut()?.slice(index * count..(index + 1) * count).copy_from(part.elems());
            }
            Ok(out)
        })
        .collect()
}

/// Elements stacked to the smallest shape that holds all of them and that `shapes` allow, with `padding` where there is nothing.
///
/// # Errors
/// `InvalidArgument` or `DataLoss` for an element that does not fit.
pub(crate) fn padded(
    elements: &[Element],
    shapes: &[Vec<i64>],
    padding: &[Tensor],
    buffers: &Arc<BufferPool>,
) -> Result<Element> {
    let mut batch = Vec::with_capacity(shapes.len());
    for (component, (wanted, padding)) in shapes.iter().zip(padding).enumerate() {
        let mut dims = wanted.clone();
        for element in elements {
            let shape = element[component].shape();
            require!(
                shape.rank() == wanted.len(),
                "All elements in a batch must have the same rank as the padded shape for component{component}: \
                 expected rank {} but got element with rank {}",
                wanted.len(),
                shape.rank()
            );
            for (axis, (&size, &limit)) in shape.dims().iter().zip(wanted).enumerate() {
                if limit < 0 {
                    dims[axis] = dims[axis].max(size);
                } else if size > limit {
                    return Err(tfcore_base::data_loss!(
                        "Attempted to pad to a smaller size than the input element."
                    ));
                }
            }
        }
        let inner = Shape::new(&dims)?;
        let count = inner.count();
        dims.insert(0, elements.len() as i64);
        let mut out = Tensor::allocate(padding.dtype(), Shape::new(&dims)?, Some(buffers))?;
        let mut target = out.elems_mut()?;
        target.reborrow().fill(padding.elems());
        for (index, element) in elements.iter().enumerate() {
            let part = &element[component];
            let place = target.slice(index * count..(index + 1) * count);
            place_corner(part.elems(), part.shape().dims(), place, inner.dims());
        }
        batch.push(out);
    }
    Ok(batch)
}

/// Copies a block into the corner of a larger one, innermost rows at a time.
fn place_corner(
    source: Elems<'_>,
    from: &[i64],
    mut target: tfcore_tensor::ElemsMut<'_>,
    to: &[i64],
) {
    let width = from.last().map_or(1, |&size| size as usize);
    if source.is_empty() {
        return;
    }
    for line in 0..source.len() / width {
        // The place of a line among the larger block's: its coordinates, with the larger sizes.
        let (mut rest, mut at, mut stride) = (line, 0, 1);
        for axis in (0..from.len().saturating_sub(1)).rev() {
            at += rest % from[axis] as usize * stride;
            rest /= from[axis] as usize;
            stride *= to[axis] as usize;
        }
        let at = at * to.last().map_or(1, |&size| size as usize);
        target.slice(at..at + width).copy_from(source.slice(line * width..(line + 1) * width));
    }
}

/// What tells elements apart: dtype, shape and elements, byte by byte.
///
/// # Errors
/// `InvalidArgument` for handles and variants.
pub(crate) fn key_of(tensor: &Tensor) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    match tensor.dtype() {
        DType::STRING => {
            for text in tensor.as_slice::<tfcore_tensor::TString>()? {
                bytes.extend((text.len() as u64).to_le_bytes());
                bytes.extend_from_slice(text.as_bytes());
            }
        }
        dtype if dtype.is_plain() => bytes.extend_from_slice(tensor.elems().bytes()),
        dtype => return Err(invalid!("Elements of type {dtype} cannot be compared")),
    }
    for size in tensor.shape().dims() {
        bytes.extend(size.to_le_bytes());
    }
    Ok(bytes)
}

/// A vector of variants.
pub(crate) fn variants(values: &[Variant]) -> Result<Tensor> {
    Tensor::from_slice(Shape::vector(values.len()), values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tfcore_framework::testing::tensor;

    #[test]
    fn elements_become_batches_and_rows() {
        let buffers = BufferPool::new();
        let elements = vec![vec![tensor(&[2], &[1i32, 2])], vec![tensor(&[2], &[3i32, 4])]];
        let batch = stacked(&elements, &buffers).unwrap().remove(0);
        assert_eq!(batch.shape().dims(), [2, 2]);
        assert_eq!(batch.as_slice::<i32>().unwrap(), [1, 2, 3, 4]);
        assert_eq!(row(&batch, 1).unwrap().as_slice::<i32>().unwrap(), [3, 4]);
        assert_eq!(rows(&batch, 0, 1).unwrap().shape().dims(), [1, 2]);
        let uneven = vec![vec![tensor(&[1], &[1i32])], vec![tensor(&[2], &[3i32, 4])]];
        assert!(stacked(&uneven, &buffers).is_err());
        let nine = [tensor(&[], &[9i32])];
        let batch = padded(&uneven, &[vec![-1]], &nine, &buffers).unwrap().remove(0);
        assert_eq!(batch.as_slice::<i32>().unwrap(), [1, 9, 3, 4]);
        let batch = padded(&uneven, &[vec![3]], &nine, &buffers).unwrap().remove(0);
        assert_eq!(batch.as_slice::<i32>().unwrap(), [1, 9, 9, 3, 4, 9]);
        assert!(padded(&uneven, &[vec![1]], &nine, &buffers).is_err());
        assert!(padded(&uneven, &[vec![1, 1]], &nine, &buffers).is_err());
    }

    #[test]
    fn blocks_are_padded_in_all_dimensions() {
        let buffers = BufferPool::new();
        let elements = vec![vec![tensor(&[2, 1], &[1i32, 2])]];
        let zero = [tensor(&[], &[0i32])];
        let batch = padded(&elements, &[vec![3, 2]], &zero, &buffers).unwrap().remove(0);
        assert_eq!(batch.as_slice::<i32>().unwrap(), [1, 0, 2, 0, 0, 0]);
        let empty = vec![vec![tensor::<i32>(&[0, 1], &[])]];
        let batch = padded(&empty, &[vec![1, 1]], &zero, &buffers).unwrap().remove(0);
        assert_eq!(batch.as_slice::<i32>().unwrap(), [0]);
    }
}

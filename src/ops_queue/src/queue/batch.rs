//! Elements from batches, and batches from elements.

use smallvec::SmallVec;
use tfcore_base::Result;
use tfcore_framework::OpContext;
use tfcore_tensor::{Elems, ElemsMut, Shape, Tensor};

use super::{Element, QueueSpec};

/// The rows of a batch, of which there are `size`.
pub(crate) fn split(
    op: &OpContext<'_>,
    batch: &[Tensor],
    size: usize,
) -> Result<SmallVec<[Element; 1]>> {
    (0..size).map(|index| batch.iter().map(|tensor| row(op, tensor, index)).collect()).collect()
}

/// Row `index` of a tensor, in memory of its own.
pub(crate) fn row(op: &OpContext<'_>, tensor: &Tensor, index: usize) -> Result<Tensor> {
    let shape = Shape::new(tensor.shape().get(1..).unwrap_or_default())?;
    let len = shape.count();
    let mut row = op.allocate(tensor.dtype(), shape)?;
    row.elems_mut()?.copy_from(tensor.elems().slice(index * len..(index + 1) * len));
    Ok(row)
}

/// One component of all elements, side by side; smaller ones are padded with zeros or empty strings.
pub(crate) fn stack(
    op: &OpContext<'_>,
    spec: &QueueSpec,
    component: usize,
    elements: &[Element],
) -> Result<Tensor> {
    let mut dims = spec.empty_row(component);
    for element in elements {
        let shape = element[component].shape().dims();
        dims.iter_mut().zip(shape).for_each(|(dim, &size)| *dim = size.max(*dim));
    }
    let row = Shape::new(&dims)?;
    dims.insert(0, elements.len() as i64);
    let mut out = op.allocate(spec.dtypes[component], Shape::new(&dims)?)?;
    let mut target = out.elems_mut()?;
    let len = row.count();
    for (index, element) in elements.iter().enumerate() {
        let tensor = &element[component];
        let mut part = target.slice(index * len..(index + 1) * len);
        if *tensor.shape() == row {
            part.copy_from(tensor.elems());
        } else {
            part.reborrow().fill_default();
            copy_to_corner(tensor.elems(), tensor.shape(), part, &row);
        }
    }
    Ok(out)
}

/// Copies elements of shape `shape` to where the indices are small in a larger tensor of shape `whole`.
fn copy_to_corner(source: Elems<'_>, shape: &Shape, mut target: ElemsMut<'_>, whole: &Shape) {
    let Some((&run, outer)) = shape.split_last() else {
        return target.copy_from(source);
    };
    let run = run as usize;
    if source.is_empty() {
        return;
    }
    let strides = whole.strides();
    let mut index: SmallVec<[i64; 6]> = SmallVec::from_elem(0, outer.len());
    for start in (0..source.len()).step_by(run) {
        let at: usize = index.iter().zip(&strides).map(|(&i, &stride)| i as usize * stride).sum();
        target.slice(at..at + run).copy_from(source.slice(start..start + run));
        for axis in (0..outer.len()).rev() {
            index[axis] += 1;
            if index[axis] < outer[axis] {
                break;
            }
            index[axis] = 0;
        }
    }
}

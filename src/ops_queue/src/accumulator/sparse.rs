//! Sums of rows by index.

use std::cmp::Ordering;

use tfcore_base::{Result, internal, invalid};
use tfcore_tensor::{Dim, PartialShape, Shape, Tensor};

use super::arithmetic::Loops;

/// Rows, and which rows of a tensor they are.
pub(crate) struct SparseGradient {
    pub(crate) indices: Tensor,
    pub(crate) values: Tensor,
    /// The tensor's shape, where the op tells it.
    pub(crate) shape: Option<Vec<i64>>,
}

/// A sum of rows; nothing before the first gradient.
#[derive(Default)]
pub(crate) struct SparseSum(Option<Rows>);

struct Rows {
    indices: Vec<i64>,
    /// How many rows are in the sum of each.
    counts: Vec<i32>,
    values: Tensor,
}

/// Where a row of a sum comes from.
#[derive(Clone, Copy)]
enum Origin {
    Old(usize),
    New(usize),
    Both(usize, usize),
}

impl SparseSum {
    /// Adds rows to a sum of shape `shape`.
    ///
    /// # Errors
    /// `InvalidArgument` if indices, values and shapes do not fit together.
    pub(crate) fn add(&mut self, shape: &PartialShape, gradient: &SparseGradient) -> Result<()> {
        self.check(shape, gradient)?;
        let indices = gradient.indices.as_slice::<i64>()?;
        let rows = match self.0.take() {
            None => Rows {
                indices: indices.to_vec(),
                counts: vec![1; indices.len()],
                values: gradient.values.deep_copy()?,
            },
            Some(old) => old.merge(indices, &gradient.values)?,
        };
        self.0 = Some(rows);
        Ok(())
    }

    fn check(&self, shape: &PartialShape, gradient: &SparseGradient) -> Result<()> {
        let SparseGradient { indices, values, shape: given } = gradient;
        if indices.rank() != 1 {
            return Err(invalid!(
                "Input indices should be vector but received shape: {}",
                indices.shape()
            ));
        }
        if values.rank() == 0 {
            return Err(invalid!("Values cannot be 0-dimensional."));
        }
        if values.dim(0) != indices.dim(0) {
            return Err(invalid!(
                "Expected {} non-empty input values, got {}",
                indices.dim(0),
                values.dim(0)
            ));
        }
        let dims = shape.dims().unwrap_or_default();
        if let Some(given) = given {
            check_rank("shape", dims.len(), given.len())?;
            check_dims("shape", dims, given, 0)?;
        }
        if let Some(limit) = dims.first().and_then(|dim| dim.value()) {
            let indices = indices.as_slice::<i64>()?;
            if let Some((slice, index)) =
                indices.iter().enumerate().find(|(_, index)| **index >= limit)
            {
                return Err(invalid!(
                    "Shape mismatch: index of slice {slice} exceeded limits of shape; index is {index} \
                     exceeded {limit}"
                ));
            }
        }
        let Some(rows) = &self.0 else {
            check_rank("values", dims.len(), values.rank())?;
            return check_dims("values", dims, values.shape(), 1);
        };
        let expected = rows.values.shape();
        if expected.rank() != values.rank() {
            return Err(invalid!(
                "Shape mismatch: expected values rank {}, got {}",
                expected.rank(),
                values.rank()
            ));
        }
        let expected: Vec<Dim> = expected.iter().map(|&size| Dim::new(size)).collect();
        check_dims("values", &expected, values.shape(), 1)
    }

    /// Indices, values and shape of the sum, or of the mean of each row.
    pub(crate) fn finish(self, shape: &PartialShape, is_mean: bool) -> Result<[Tensor; 3]> {
        let Rows { indices, counts, mut values } =
            self.0.ok_or_else(|| internal!("A sum of no gradients"))?;
        let mut dims = values.shape().dims().to_vec();
        dims[0] = shape.dims().and_then(|dims| dims.first()).map_or(-1, |dim| dim.to_i64());
        if is_mean {
            let loops = Loops::of(values.dtype())?;
            let len = values.count().checked_div(counts.len()).unwrap_or(0);
            let mut target = values.elems_mut()?;
            for (row, &count) in counts.iter().enumerate() {
                (loops.divide)(target.slice(row * len..(row + 1) * len), count);
            }
        }
        let indices = Tensor::from_slice(Shape::vector(indices.len()), &indices)?;
        Ok([indices, values, Tensor::from_slice(Shape::vector(dims.len()), &dims)?])
    }
}

fn check_rank(what: &str, least: usize, got: usize) -> Result<()> {
    if least > got {
        return Err(invalid!("Shape mismatch: expected {what} rank at least {least}, got {got}"));
    }
    Ok(())
}

/// Compares dimensions from `first` on, as far as they are known.
fn check_dims(what: &str, expected: &[Dim], got: &[i64], first: usize) -> Result<()> {
    for (index, (dim, &got)) in expected.iter().zip(got).enumerate().skip(first) {
        if let Some(expected) = dim.value().filter(|&expected| expected != got) {
            return Err(invalid!(
                "Shape mismatch: expected {what} dim {index} to be {expected}, got {got}"
            ));
        }
    }
    Ok(())
}

impl Rows {
    /// The sum with further rows. Both lists are taken to be sorted; where they are not, rows of one index stay
    /// apart, as in the reference.
    fn merge(self, indices: &[i64], values: &Tensor) -> Result<Rows> {
        let origins = merge_sorted(&self.indices, indices);
        let mut dims = values.shape().dims().to_vec();
        let len = Shape::new(&dims[1..])?.count();
        dims[0] = origins.len() as i64;
        let loops = Loops::of(values.dtype())?;
        let mut merged = Tensor::zeros(values.dtype(), Shape::new(&dims)?)?;
        let mut target = merged.elems_mut()?;
        let mut merged_indices = Vec::with_capacity(origins.len());
        let mut counts = Vec::with_capacity(origins.len());
        let row = |index: usize| index * len..(index + 1) * len;
        for (place, &origin) in origins.iter().enumerate() {
            let mut part = target.slice(row(place));
            let (index, mut count) = match origin {
                Origin::Old(old) | Origin::Both(old, _) => {
                    part.reborrow().copy_from(self.values.elems().slice(row(old)));
                    (self.indices[old], self.counts[old])
                }
                Origin::New(new) => (indices[new], 0),
            };
            if let Origin::New(new) | Origin::Both(_, new) = origin {
                let more = values.elems().slice(row(new));
                match count {
                    0 => part.copy_from(more),
                    _ => (loops.add)(part, more),
                }
                count += 1;
            }
            merged_indices.push(index);
            counts.push(count);
        }
        Ok(Rows { indices: merged_indices, counts, values: merged })
    }
}

/// How the elements of two sorted lists follow one another.
fn merge_sorted(old: &[i64], new: &[i64]) -> Vec<Origin> {
    let mut origins = Vec::with_capacity(old.len().max(new.len()));
    let (mut i, mut j) = (0, 0);
    while i < old.len() && j < new.len() {
        let order = old[i].cmp(&new[j]);
        origins.push(match order {
            Ordering::Less => Origin::Old(i),
            Ordering::Equal => Origin::Both(i, j),
            Ordering::Greater => Origin::New(j),
        });
        i += usize::from(order.is_le());
        j += usize::from(order.is_ge());
    }
    origins.extend((i..old.len()).map(Origin::Old));
    origins.extend((j..new.len()).map(Origin::New));
    origins
}

//! Indices into the rows of a variable, 32 or 64 bits wide.

use tfcore_base::{DType, Result, invalid};
use tfcore_tensor::{Shape, Tensor};

/// The elements of an index tensor.
#[derive(Clone, Copy)]
pub(crate) enum Indices<'a> {
    Narrow(&'a [i32]),
    Wide(&'a [i64]),
}

impl<'a> Indices<'a> {
    /// # Errors
    /// `Internal` if the tensor's type is neither `int32` nor `int64`.
    pub(crate) fn of(tensor: &'a Tensor) -> Result<Indices<'a>> {
        match tensor.dtype() {
            DType::INT32 => tensor.as_slice().map(Indices::Narrow),
            _ => tensor.as_slice().map(Indices::Wide),
        }
    }

    pub(crate) fn get(&self, at: usize) -> i64 {
        match self {
            Indices::Narrow(values) => values[at].into(),
            Indices::Wide(values) => values[at],
        }
    }

    /// Checks that all are in `[0, rows)`; `shape` is the index tensor's.
    ///
    /// # Errors
    /// `InvalidArgument` "indices[1] = 7 is not in [0, 5)".
    pub(crate) fn check(&self, shape: &Shape, rows: usize) -> Result<()> {
        let inside = |value: i64| usize::try_from(value).is_ok_and(|value| value < rows);
        match (0..shape.count()).find(|&at| !inside(self.get(at))) {
            None => Ok(()),
            Some(at) => Err(outside(shape, at, self.get(at), rows)),
        }
    }
}

/// Tuples of indices, the elements along the last axis of an index tensor.
#[derive(Clone, Copy)]
pub(crate) struct IndexTuples<'a> {
    indices: Indices<'a>,
    /// The shape of the tensor without its last axis.
    outer: &'a [i64],
    /// The length of a tuple.
    depth: usize,
}

impl<'a> IndexTuples<'a> {
    /// The tuples of `depth` that a tensor of shape `outer + [depth]` holds.
    pub(crate) fn new(tensor: &'a Tensor, outer: &'a [i64], depth: usize) -> Result<Self> {
        Ok(IndexTuples { indices: Indices::of(tensor)?, outer, depth })
    }

    pub(crate) fn len(&self) -> usize {
        self.outer.iter().product::<i64>() as usize
    }

    /// The row that tuple `k` names among those of a tensor with leading dimensions `dims`, as many as
    /// a tuple has numbers; `None` if it is outside.
    pub(crate) fn row(&self, k: usize, dims: &[i64]) -> Option<usize> {
        let mut row = 0;
        for (axis, &size) in dims[..self.depth].iter().enumerate() {
            let index = self.indices.get(k * self.depth + axis);
            if index < 0 || index >= size {
                return None;
            }
            row = row * size as usize + index as usize;
        }
        Some(row)
    }

    /// Checks that all tuples name rows. Of several that do not, the last one is told.
    ///
    /// # Errors
    /// `InvalidArgument` "indices[1] = [7] does not index into shape [3,2]", with `what` for "shape".
    pub(crate) fn check(&self, shape: &Shape, what: &str) -> Result<()> {
        let bad = (0..self.len()).rfind(|&k| self.row(k, shape).is_none());
        let Some(k) = bad else {
            return Ok(());
        };
        let tuple: Vec<String> = (k * self.depth..(k + 1) * self.depth)
            .map(|at| self.indices.get(at).to_string())
            .collect();
        Err(invalid!(
            "indices{} = [{}] does not index into {what} {shape}",
            position(&Shape::new(self.outer)?, k),
            tuple.join(", ")
        ))
    }
}

/// The error for index `value` at element `at` of a tensor of shape `shape`.
pub(crate) fn outside(shape: &Shape, at: usize, value: i64, rows: usize) -> tfcore_base::Error {
    invalid!("indices{} = {value} is not in [0, {rows})", position(shape, at))
}

/// Where element `at` of a tensor stands: `[1,0]`; nothing for a scalar.
fn position(shape: &Shape, at: usize) -> String {
    if shape.rank() == 0 {
        return String::new();
    }
    let coordinates: Vec<String> = shape
        .strides()
        .iter()
        .zip(shape.dims())
        .map(|(&stride, &size)| (at / stride % size as usize).to_string())
        .collect();
    format!("[{}]", coordinates.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bad_index_is_named() {
        let cases: [(&[i64], &[i32], &str); 3] = [
            (&[2], &[0, 7], "indices[1] = 7 is not in [0, 5)"),
            (&[2, 2], &[0, 1, -1, 9], "indices[1,0] = -1 is not in [0, 5)"),
            (&[], &[5], "indices = 5 is not in [0, 5)"),
        ];
        for (dims, values, message) in cases {
            let error = Indices::Narrow(values).check(&Shape::new(dims).unwrap(), 5).unwrap_err();
            assert_eq!(error.message(), message);
        }
        assert!(Indices::Wide(&[0, 4]).check(&Shape::vector(2), 5).is_ok());
    }

    #[test]
    fn tuples_name_rows() {
        let shape = Shape::new(&[3, 2, 4]).unwrap();
        let tensor = Tensor::from_slice(Shape::new(&[1, 3, 2]).unwrap(), &[0, 1, 2, 0, 2, 7]);
        let tensor = tensor.unwrap();
        let tuples = IndexTuples::new(&tensor, &[1, 3], 2).unwrap();
        let rows: Vec<Option<usize>> = (0..3).map(|k| tuples.row(k, &shape)).collect();
        assert_eq!(rows, [Some(1), Some(4), None]);
        assert_eq!(
            tuples.check(&shape, "shape").unwrap_err().message(),
            "indices[0,2] = [2, 7] does not index into shape [3,2,4]"
        );
        let shape = Shape::new(&[1, 1]).unwrap();
        let error = tuples.check(&shape, "shape").unwrap_err();
        assert_eq!(error.message(), "indices[0,2] = [2, 7] does not index into shape [1,1]");
    }
}

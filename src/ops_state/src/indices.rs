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
}

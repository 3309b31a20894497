//! The shape that the elements of a list or an array agree with, while the graph runs.
//!
//! Other than in shape functions, no dimension has an identity here, and messages show an unknown rank as
//! `<unknown>`.

use tfcore_base::{DType, Result, invalid, require};
use tfcore_tensor::{Dim, PartialShape, Shape, Tensor};

/// The shape that an operand gives: a vector of sizes, of which -1 are unknown, or the scalar -1.
///
/// # Errors
/// `InvalidArgument` for any other scalar, a rank above 1 or a size below -1.
pub(crate) fn shape_operand(operand: &Tensor) -> Result<PartialShape> {
    let sizes = operand.to_i64s()?;
    match operand.rank() {
        0 if sizes == [-1] => return Ok(PartialShape::unknown()),
        0 => {
            return Err(invalid!(
                "The only valid scalar shape tensor is the fully unknown shape specified as -1."
            ));
        }
        1 => {}
        rank => return Err(invalid!("Shape must be at most rank 1 but is rank {rank}")),
    }
    if let Some(size) = sizes.iter().find(|&&size| size < -1) {
        return Err(invalid!("Dimension {size} must be >= -1"));
    }
    PartialShape::from_i64s(&sizes)
}

/// The vector of a shape's sizes, -1 for the unknown ones; the scalar -1 for an unknown rank.
pub(crate) fn shape_value(shape: &PartialShape, dtype: DType) -> Result<Tensor> {
    let sizes: Option<Vec<i64>> =
        shape.dims().map(|dims| dims.iter().map(|dim| dim.to_i64()).collect());
    let (shape, sizes) = match sizes {
        Some(sizes) => (Shape::vector(sizes.len()), sizes),
        None => (Shape::scalar(), vec![-1]),
    };
    if dtype == DType::INT64 {
        return Tensor::from_slice(shape, &sizes);
    }
    let narrow = sizes.iter().map(|&size| {
        i32::try_from(size).map_err(|_| invalid!("Dimension {size} does not fit the type int32"))
    });
    Tensor::from_slice(shape, &narrow.collect::<Result<Vec<i32>>>()?)
}

/// What is known of a shape that both describe.
///
/// # Errors
/// `InvalidArgument` if they contradict each other.
pub(crate) fn merged(a: &PartialShape, b: &PartialShape) -> Result<PartialShape> {
    let (Some(x), Some(y)) = (a.dims(), b.dims()) else {
        return Ok(if a.rank().is_some() { a.clone() } else { b.clone() });
    };
    require!(
        x.len() == y.len(),
        "PartialTensorShape: Incompatible ranks during merge: {} vs. {}",
        x.len(),
        y.len()
    );
    let dims = x.iter().zip(y).map(|(p, q)| match (p.value(), q.value()) {
        (Some(p), Some(q)) if p != q => {
            Err(invalid!("PartialTensorShape: Incompatible shapes during merge: {a} vs. {b}"))
        }
        (p, q) => Ok(Dim::new(p.or(q).unwrap_or(-1))),
    });
    dims.collect()
}

/// As [`merged`], with the shape of a tensor.
pub(crate) fn merged_with(known: &PartialShape, shape: &Shape) -> Result<PartialShape> {
    if known.is_fully_known() && known.admits(shape) {
        return Ok(known.clone());
    }
    merged(known, &shape.into())
}

/// Whether some tensor may have both shapes.
pub(crate) fn are_compatible(a: &PartialShape, b: &PartialShape) -> bool {
    merged(a, b).is_ok()
}

/// All dimensions but the first; `None` for a scalar.
pub(crate) fn without_first(shape: &PartialShape) -> Option<PartialShape> {
    match shape.dims() {
        Some([]) => None,
        Some([_, rest @ ..]) => Some(rest.iter().copied().collect()),
        None => Some(PartialShape::unknown()),
    }
}

/// A dimension of size `first` before those of `shape`.
///
/// # Errors
/// `InvalidArgument` if there are too many dimensions or elements.
pub(crate) fn with_first(first: usize, shape: &Shape) -> Result<Shape> {
    let first = i64::try_from(first).unwrap_or(i64::MAX);
    Shape::new(&[&[first], shape.dims()].concat())
}

/// A shape as messages show it.
pub(crate) fn text(shape: &PartialShape) -> String {
    if shape.rank().is_none() { "<unknown>".to_string() } else { shape.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(dims: &[i64]) -> PartialShape {
        PartialShape::from_i64s(dims).unwrap()
    }

    #[test]
    fn operands_are_shapes() {
        let vector = |sizes: &[i32]| Tensor::from_slice(Shape::vector(sizes.len()), sizes).unwrap();
        let cases = [
            (vector(&[2, -1]), "[2,?]"),
            (vector(&[]), "[]"),
            (Tensor::scalar(-1i64), "<unknown>"),
        ];
        for (operand, expected) in cases {
            let shape = shape_operand(&operand).unwrap();
            assert_eq!(text(&shape), expected);
            let back = shape_value(&shape, operand.dtype()).unwrap();
            assert_eq!(back.to_i64s().unwrap(), operand.to_i64s().unwrap());
        }
        let matrix = vector(&[1]).with_shape(Shape::new(&[1, 1]).unwrap()).unwrap();
        let cases = [
            (
                Tensor::scalar(3),
                "The only valid scalar shape tensor is the fully unknown shape specified as -1.",
            ),
            (matrix, "Shape must be at most rank 1 but is rank 2"),
            (vector(&[-2]), "Dimension -2 must be >= -1"),
        ];
        for (operand, message) in cases {
            assert_eq!(shape_operand(&operand).unwrap_err().message(), message);
        }
        assert!(shape_value(&shape(&[1 << 40]), DType::INT32).is_err());
    }

    #[test]
    fn merging() {
        let unknown = PartialShape::unknown();
        assert_eq!(merged(&shape(&[2, -1]), &shape(&[-1, 3])).unwrap(), shape(&[2, 3]));
        assert_eq!(merged(&unknown, &shape(&[-1])).unwrap(), shape(&[-1]));
        assert_eq!(
            merged(&shape(&[2]), &shape(&[3])).unwrap_err().message(),
            "PartialTensorShape: Incompatible shapes during merge: [2] vs. [3]"
        );
        assert_eq!(
            merged(&shape(&[2]), &shape(&[])).unwrap_err().message(),
            "PartialTensorShape: Incompatible ranks during merge: 1 vs. 0"
        );
        assert!(are_compatible(&unknown, &shape(&[3])));
        assert!(!are_compatible(&shape(&[-1]), &shape(&[])));
    }

    #[test]
    fn first_dimensions() {
        assert_eq!(without_first(&shape(&[2, -1])), Some(shape(&[-1])));
        assert_eq!(without_first(&shape(&[])), None);
        assert_eq!(without_first(&PartialShape::unknown()), Some(PartialShape::unknown()));
        assert_eq!(with_first(2, &Shape::vector(3)).unwrap().dims(), [2, 3]);
        assert!(with_first(usize::MAX, &Shape::vector(3)).is_err());
    }
}

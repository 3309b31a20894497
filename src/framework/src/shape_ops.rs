//! Arithmetic on partial shapes, with the reference's error texts.
//!
//! Shape functions are written in these words; a failed one is wrapped by the refiner, which knows the
//! node.

use tfcore_base::{Result, invalid};
use tfcore_tensor::{Dim, PartialShape};

/// The shape, known to have rank `rank`.
///
/// # Errors
/// `InvalidArgument` "Shape must be rank 2 but is rank 3".
pub fn with_rank(shape: &PartialShape, rank: usize) -> Result<PartialShape> {
    match shape.rank() {
        None => Ok(PartialShape::of_rank(rank)),
        Some(actual) if actual == rank => Ok(shape.clone()),
        Some(actual) => Err(invalid!("Shape must be rank {rank} but is rank {actual}")),
    }
}

/// # Errors
/// `InvalidArgument` if the rank is known to be below `rank`.
pub fn with_rank_at_least(shape: &PartialShape, rank: usize) -> Result<PartialShape> {
    match shape.rank() {
        Some(actual) if actual < rank => {
            Err(invalid!("Shape must be at least rank {rank} but is rank {actual}"))
        }
        _ => Ok(shape.clone()),
    }
}

/// # Errors
/// `InvalidArgument` if the rank is known to be above `rank`.
pub fn with_rank_at_most(shape: &PartialShape, rank: usize) -> Result<PartialShape> {
    match shape.rank() {
        Some(actual) if actual > rank => {
            Err(invalid!("Shape must be at most rank {rank} but is rank {actual}"))
        }
        _ => Ok(shape.clone()),
    }
}

/// The dimension, known to be `value`.
///
/// # Errors
/// `InvalidArgument` "Dimension must be 2 but is 3".
pub fn with_value(dim: Dim, value: i64) -> Result<Dim> {
    match dim.value() {
        Some(actual) if actual != value => {
            Err(invalid!("Dimension must be {value} but is {actual}"))
        }
        _ => Ok(Dim::new(value)),
    }
}

/// What is known of a dimension that both describe.
///
/// # Errors
/// `InvalidArgument` "Dimensions must be equal, but are 2 and 3".
pub fn merge_dims(a: Dim, b: Dim) -> Result<Dim> {
    match (a.value(), b.value()) {
        (Some(x), Some(y)) if x != y => {
            Err(invalid!("Dimensions must be equal, but are {x} and {y}"))
        }
        (None, Some(_)) => Ok(b),
        (None, None) if a == Dim::UNKNOWN => Ok(b),
        _ => Ok(a),
    }
}

/// What is known of a shape that both describe.
///
/// # Errors
/// `InvalidArgument` "Shapes must be equal rank, but are 2 and 1" or "Dimension 0 in both shapes must
/// be equal, but are 2 and 3. Shapes are [2,3] and [3,3].".
pub fn merge(a: &PartialShape, b: &PartialShape) -> Result<PartialShape> {
    let (Some(x), Some(y)) = (a.dims(), b.dims()) else {
        return Ok(if a.rank().is_some() { a.clone() } else { b.clone() });
    };
    if x.len() != y.len() {
        return Err(invalid!("Shapes must be equal rank, but are {} and {}", x.len(), y.len()));
    }
    let mut merged = Vec::with_capacity(x.len());
    for (axis, (&p, &q)) in x.iter().zip(y).enumerate() {
        let dim = merge_dims(p, q).map_err(|_| {
            invalid!(
                "Dimension {axis} in both shapes must be equal, but are {p} and {q}. Shapes are {a} and {b}."
            )
        })?;
        merged.push(dim);
    }
    Ok(merged.into_iter().collect())
}

/// What is known of a shape and of a prefix of it, of which the dimensions are the same.
///
/// # Errors
/// `InvalidArgument` if the shape has fewer dimensions than the prefix, or others.
pub fn merge_prefix(
    shape: &PartialShape,
    prefix: &PartialShape,
) -> Result<(PartialShape, PartialShape)> {
    let (Some(dims), Some(first)) = (shape.dims(), prefix.dims()) else {
        return Ok((shape.clone(), prefix.clone()));
    };
    with_rank_at_least(shape, first.len())?;
    let merged = dims.iter().zip(first).map(|(&a, &b)| merge_dims(a, b));
    let merged: Vec<Dim> = merged.collect::<Result<_>>()?;
    let rest = &dims[merged.len()..];
    Ok((merged.iter().chain(rest).copied().collect(), merged.iter().copied().collect()))
}

/// The dimensions of `a` followed by those of `b`.
pub fn concatenate(a: &PartialShape, b: &PartialShape) -> PartialShape {
    match (a.dims(), b.dims()) {
        (Some(x), Some(y)) => x.iter().chain(y).copied().collect(),
        _ => PartialShape::unknown(),
    }
}

/// Dimensions `start .. end`, of which negative ones count from the end and those past the end are the end; `None`
/// is the end.
///
/// # Errors
/// `InvalidArgument` if a bound is still outside of the shape, or the two are out of order.
pub fn subshape(shape: &PartialShape, start: i64, end: Option<i64>) -> Result<PartialShape> {
    let Some(dims) = shape.dims() else {
        return Ok(PartialShape::unknown());
    };
    let rank = dims.len() as i64;
    let end = end.unwrap_or(rank);
    let resolve = |bound: i64, what: &str| {
        let resolved = if bound < 0 { rank + bound } else { bound.min(rank) };
        if resolved < 0 {
            return Err(invalid!(
                "Subshape {what} out of bounds: {bound}, for shape with rank {rank}"
            ));
        }
        Ok(resolved)
    };
    let (first, last) = (resolve(start, "start")?, resolve(end, "end")?);
    if first > last {
        return Err(invalid!(
            "Subshape must have computed start <= end, but is {first} and {last} (computed from start \
             {start} and end {end} over shape with rank {rank})"
        ));
    }
    Ok(dims[first as usize..last as usize].iter().copied().collect())
}

/// The shape with dimension `axis` (negative ones count from the end) replaced.
///
/// # Errors
/// `InvalidArgument` if there is no such dimension.
pub fn replace_dim(shape: &PartialShape, axis: i64, dim: Dim) -> Result<PartialShape> {
    let Some(dims) = shape.dims() else {
        return Ok(PartialShape::unknown());
    };
    let axis = resolve_axis(axis, dims.len())?;
    let mut dims = dims.to_vec();
    dims[axis] = dim;
    Ok(dims.into_iter().collect())
}

/// The index of an axis, of which negative ones count from the end.
///
/// # Errors
/// `InvalidArgument` "Dimension -3 must be in the range [-2, 2)".
pub fn resolve_axis(axis: i64, rank: usize) -> Result<usize> {
    let rank = rank as i64;
    if axis < -rank || axis >= rank {
        return Err(invalid!("Dimension {axis} must be in the range [{}, {rank})", -rank));
    }
    Ok(if axis < 0 { axis + rank } else { axis } as usize)
}

/// # Errors
/// `InvalidArgument` if the sum overflows.
pub fn add(a: Dim, b: impl Into<Dim>) -> Result<Dim> {
    let b = b.into();
    match (a.value(), b.value()) {
        (Some(0), _) => Ok(b),
        (_, Some(0)) => Ok(a),
        (Some(x), Some(y)) => x
            .checked_add(y)
            .map(Dim::new)
            .ok_or_else(|| invalid!("Dimension size overflow from adding {x} and {y}")),
        _ => Ok(Dim::fresh()),
    }
}

/// # Errors
/// `InvalidArgument` "Negative dimension size caused by subtracting 3 from 2".
pub fn subtract(a: Dim, b: impl Into<Dim>) -> Result<Dim> {
    match (a.value(), b.into().value()) {
        (_, Some(0)) => Ok(a),
        (Some(x), Some(y)) if x < y => {
            Err(invalid!("Negative dimension size caused by subtracting {y} from {x}"))
        }
        (Some(x), Some(y)) => Ok(Dim::new(x - y)),
        _ => Ok(Dim::fresh()),
    }
}

/// # Errors
/// `InvalidArgument` if the product overflows.
pub fn multiply(a: Dim, b: impl Into<Dim>) -> Result<Dim> {
    let b = b.into();
    match (a.value(), b.value()) {
        (Some(0), _) | (_, Some(0)) => Ok(Dim::new(0)),
        (Some(1), _) => Ok(b),
        (_, Some(1)) => Ok(a),
        (Some(x), Some(y)) => x.checked_mul(y).map(Dim::new).ok_or_else(|| {
            invalid!("Negative dimension size caused by overflow when multiplying {x} and {y}")
        }),
        _ => Ok(Dim::fresh()),
    }
}

/// `a / divisor`; with `evenly`, a remainder is an error.
///
/// # Errors
/// `InvalidArgument` for a divisor that is not positive, or a remainder.
pub fn divide(a: Dim, divisor: i64, evenly: bool) -> Result<Dim> {
    if divisor <= 0 {
        return Err(invalid!("Divisor must be positive but is {divisor}"));
    }
    match a.value() {
        _ if divisor == 1 => Ok(a),
        Some(x) if evenly && x % divisor != 0 => {
            Err(invalid!("Dimension size must be evenly divisible by {divisor} but is {x}"))
        }
        Some(x) => Ok(Dim::new(x / divisor)),
        None => Ok(Dim::fresh()),
    }
}

/// The larger dimension, as far as known.
pub fn max(a: Dim, b: Dim) -> Dim {
    match (a.value(), b.value()) {
        (Some(x), Some(y)) => Dim::new(x.max(y)),
        (Some(0), None) => b,
        (None, Some(0)) => a,
        _ if a.same(b) => a,
        _ => Dim::fresh(),
    }
}

/// The number of elements, as far as known: none if one dimension is 0, whatever the others are.
pub fn num_elements(shape: &PartialShape) -> Dim {
    if shape.dims().is_some_and(|dims| dims.iter().any(|dim| dim.value() == Some(0))) {
        return Dim::new(0);
    }
    shape.count().map_or_else(Dim::fresh, Dim::new)
}

/// The shape that two operands of an element-wise op broadcast to.
///
/// # Errors
/// `InvalidArgument` "Dimensions must be equal, but are 2 and 3".
pub fn broadcast(a: &PartialShape, b: &PartialShape) -> Result<PartialShape> {
    let (Some(x), Some(y)) = (a.dims(), b.dims()) else {
        return Ok(PartialShape::unknown());
    };
    let rank = x.len().max(y.len());
    let at = |dims: &[Dim], axis: usize| match (axis + dims.len()).checked_sub(rank) {
        Some(index) => dims[index],
        None => Dim::new(1),
    };
    (0..rank)
        .map(|axis| broadcast_dims(at(x, axis), at(y, axis)))
        .collect::<Result<Vec<Dim>>>()
        .map(|dims| dims.into_iter().collect())
}

fn broadcast_dims(a: Dim, b: Dim) -> Result<Dim> {
    match (a.value(), b.value()) {
        (Some(1), _) => Ok(b),
        (_, Some(1)) => Ok(a),
        // A known size above 1 decides: the other must be it, or 1.
        (None, Some(2..)) => Ok(b),
        (Some(2..), None) => Ok(a),
        _ if a.same(b) => Ok(a),
        (None, _) | (_, None) => Ok(Dim::fresh()),
        (Some(_), Some(_)) => merge_dims(a, b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(dims: &[i64]) -> PartialShape {
        PartialShape::from_i64s(dims).unwrap()
    }

    #[test]
    fn broadcasting() {
        let cases: [(&[i64], &[i64], &str); 7] = [
            (&[2, 3], &[3], "[2,3]"),
            (&[-1], &[0], "[?]"),
            (&[2, 1], &[1, 3], "[2,3]"),
            (&[-1], &[3], "[3]"),
            (&[-1], &[1], "[?]"),
            (&[], &[2], "[2]"),
            (&[0], &[1], "[0]"),
        ];
        for (a, b, expected) in cases {
            assert_eq!(broadcast(&shape(a), &shape(b)).unwrap().to_string(), expected);
        }
        let error = broadcast(&shape(&[2]), &shape(&[3])).unwrap_err();
        assert_eq!(error.message(), "Dimensions must be equal, but are 2 and 3");
    }

    #[test]
    fn merging() {
        assert_eq!(merge(&shape(&[2, -1]), &shape(&[-1, 3])).unwrap().to_string(), "[2,3]");
        assert_eq!(
            merge(&shape(&[2, 3]), &shape(&[3, 3])).unwrap_err().message(),
            "Dimension 0 in both shapes must be equal, but are 2 and 3. Shapes are [2,3] and [3,3]."
        );
        assert_eq!(
            merge(&shape(&[2, 3]), &shape(&[3])).unwrap_err().message(),
            "Shapes must be equal rank, but are 2 and 1"
        );
    }

    #[test]
    fn prefixes() {
        let (merged, prefix) = merge_prefix(&shape(&[-1, 3]), &shape(&[2])).unwrap();
        assert_eq!((merged.to_string(), prefix.to_string()), ("[2,3]".into(), "[2]".into()));
        assert_eq!(
            merge_prefix(&shape(&[]), &shape(&[2])).unwrap_err().message(),
            "Shape must be at least rank 1 but is rank 0"
        );
        assert!(merge_prefix(&shape(&[3]), &shape(&[2])).is_err());
    }

    #[test]
    fn subshapes() {
        let s = shape(&[2, 3, 4]);
        assert_eq!(subshape(&s, 1, None).unwrap().to_string(), "[3,4]");
        assert_eq!(subshape(&s, 0, Some(-1)).unwrap().to_string(), "[2,3]");
        assert_eq!(subshape(&s, 5, Some(6)).unwrap().to_string(), "[]");
        assert!(subshape(&s, -4, None).is_err());
        assert_eq!(
            subshape(&s, -1, Some(1)).unwrap_err().message(),
            "Subshape must have computed start <= end, but is 2 and 1 (computed from start -1 and end 1 over \
             shape with rank 3)"
        );
    }
}

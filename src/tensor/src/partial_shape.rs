//! `PartialShape`: what is known of a shape before the graph runs.

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};

use smallvec::SmallVec;
use tfcore_base::{Result, invalid};

use crate::shape::{MAX_RANK, Shape};

/// The size of one dimension, known or not.
///
/// Unknown sizes have an identity: two dimensions with the same identity are known to be equal,
/// which is how `x + x` keeps what is known of `x`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Dim(i64);

/// Identities count down from -2; -1 is unknown without an identity.
static NEXT_IDENTITY: AtomicI64 = AtomicI64::new(-2);

impl Dim {
    /// An unknown size that is not known to equal any other, not even itself.
    pub const UNKNOWN: Dim = Dim(-1);

    /// A known size; negative numbers are unknown.
    pub fn new(size: i64) -> Dim {
        if size < 0 { Dim::UNKNOWN } else { Dim(size) }
    }

    /// An unknown size with an identity of its own.
    pub fn fresh() -> Dim {
        Dim(NEXT_IDENTITY.fetch_sub(1, Ordering::Relaxed))
    }

    /// The size, if it is known.
    pub fn value(self) -> Option<i64> {
        (self.0 >= 0).then_some(self.0)
    }

    pub fn is_known(self) -> bool {
        self.0 >= 0
    }

    /// The size, or -1.
    pub fn to_i64(self) -> i64 {
        self.0.max(-1)
    }

    /// Whether the two are known to be the same size.
    pub fn same(self, other: Dim) -> bool {
        self.0 == other.0 && self.0 != -1
    }
}

impl From<i64> for Dim {
    fn from(size: i64) -> Dim {
        Dim::new(size)
    }
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.value() {
            Some(size) => write!(f, "{size}"),
            None => f.write_str("?"),
        }
    }
}

impl fmt::Debug for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A shape of which the rank or some sizes may be unknown.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct PartialShape {
    has_rank: bool,
    /// Empty without a rank. Not an `Option`: the tests under valgrind would see the optimiser look at the
    /// length before it looks whether there is one.
    dims: SmallVec<[Dim; 4]>,
}

impl PartialShape {
    /// A shape of which nothing is known.
    pub fn unknown() -> PartialShape {
        PartialShape::default()
    }

    /// A shape of known rank, all sizes unknown, each with an identity of its own.
    pub fn of_rank(rank: usize) -> PartialShape {
        (0..rank).map(|_| Dim::fresh()).collect()
    }

    pub fn scalar() -> PartialShape {
        PartialShape { has_rank: true, dims: SmallVec::new() }
    }

    pub fn vector(len: impl Into<Dim>) -> PartialShape {
        [len.into()].into_iter().collect()
    }

    pub fn matrix(rows: impl Into<Dim>, cols: impl Into<Dim>) -> PartialShape {
        [rows.into(), cols.into()].into_iter().collect()
    }

    /// A shape from sizes of which the negative ones are unknown.
    ///
    /// # Errors
    /// `InvalidArgument` for more than [`MAX_RANK`] dimensions or known sizes whose product overflows.
    pub fn from_i64s(dims: &[i64]) -> Result<PartialShape> {
        if dims.len() > MAX_RANK {
            return Err(invalid!(
                "Shape has {} dims, more than the limit of {MAX_RANK}",
                dims.len()
            ));
        }
        let known: SmallVec<[i64; 4]> = dims.iter().copied().filter(|&size| size >= 0).collect();
        Shape::new(&known)?;
        Ok(dims.iter().map(|&size| Dim::new(size)).collect())
    }

    /// The dimensions, if the rank is known.
    pub fn dims(&self) -> Option<&[Dim]> {
        self.has_rank.then_some(&self.dims)
    }

    pub fn rank(&self) -> Option<usize> {
        self.has_rank.then_some(self.dims.len())
    }

    /// Dimension `axis`; unknown where the rank is unknown. The axis must be below a known rank.
    pub fn dim(&self, axis: usize) -> Dim {
        self.dims().map_or(Dim::UNKNOWN, |dims| dims[axis])
    }

    pub fn is_fully_known(&self) -> bool {
        self.dims().is_some_and(|dims| dims.iter().all(|dim| dim.is_known()))
    }

    /// The full shape, if everything is known and it is valid.
    pub fn to_shape(&self) -> Option<Shape> {
        let dims: Option<SmallVec<[i64; 4]>> = self.dims()?.iter().map(|dim| dim.value()).collect();
        Shape::new(&dims?).ok()
    }

    /// The number of elements, if everything is known.
    pub fn count(&self) -> Option<i64> {
        self.dims()?.iter().try_fold(1i64, |count, dim| count.checked_mul(dim.value()?))
    }

    /// Whether a tensor of shape `shape` agrees with all that is known.
    pub fn admits(&self, shape: &[i64]) -> bool {
        self.dims().is_none_or(|dims| {
            dims.len() == shape.len()
                && dims.iter().zip(shape).all(|(dim, &size)| dim.value().is_none_or(|d| d == size))
        })
    }
}

impl FromIterator<Dim> for PartialShape {
    fn from_iter<I: IntoIterator<Item = Dim>>(dims: I) -> PartialShape {
        PartialShape { has_rank: true, dims: dims.into_iter().collect() }
    }
}

impl From<&Shape> for PartialShape {
    fn from(shape: &Shape) -> PartialShape {
        shape.dims().iter().map(|&size| Dim::new(size)).collect()
    }
}

impl fmt::Display for PartialShape {
    /// As messages show it: `[2,?]`, and `?` for unknown rank.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(dims) = self.dims() else {
            return f.write_str("?");
        };
        let texts: Vec<String> = dims.iter().map(Dim::to_string).collect();
        write!(f, "[{}]", texts.join(","))
    }
}

impl fmt::Debug for PartialShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn admits_what_agrees() {
        let shape = PartialShape::from_i64s(&[2, -1]).unwrap();
        let cases: [(&[i64], bool); 3] = [(&[2, 7], true), (&[3, 7], false), (&[2], false)];
        for (full, agrees) in cases {
            assert_eq!(shape.admits(full), agrees, "{full:?}");
        }
        assert!(PartialShape::unknown().admits(&[1, 2, 3]));
        assert_eq!(shape.to_string(), "[2,?]");
    }

    #[test]
    fn unknown_sizes_have_identities() {
        let shape = PartialShape::of_rank(2);
        assert!(shape.dim(0).same(shape.dim(0)));
        assert!(!shape.dim(0).same(shape.dim(1)));
        assert!(!Dim::UNKNOWN.same(Dim::UNKNOWN));
    }
}

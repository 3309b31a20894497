//! `Shape`: the fully known shape of a tensor.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

use smallvec::SmallVec;
use tfcore_base::{Result, invalid};

/// The largest rank that a tensor can have.
pub const MAX_RANK: usize = 254;

/// The sizes of a tensor's dimensions. Every size is at least 0 and their product fits an `i64`,
/// so that element counts need no further checks.
#[derive(Clone)]
pub struct Shape {
    dims: Dims,
    /// The number of elements, which every op asks for.
    count: usize,
}

/// Shapes are copied and compared for each op that runs: up to four sizes are, without a look at their number; those behind
/// the rank are 0.
#[derive(Clone, PartialEq, Eq)]
enum Dims {
    Few { rank: u8, sizes: [i64; 4] },
    Many(Box<[i64]>),
}

impl Dims {
    fn new(dims: &[i64]) -> Dims {
        if dims.len() > 4 {
            return Dims::Many(dims.into());
        }
        let mut sizes = [0; 4];
        sizes[..dims.len()].copy_from_slice(dims);
        Dims::Few { rank: dims.len() as u8, sizes }
    }
}

impl Shape {
    /// The shape with these dimensions.
    ///
    /// # Errors
    /// `InvalidArgument` for a negative size, more than [`MAX_RANK`] dimensions, or an element count
    /// that overflows.
    pub fn new(dims: &[i64]) -> Result<Shape> {
        if dims.len() > MAX_RANK {
            return Err(invalid!(
                "Shape has {} dims, more than the limit of {MAX_RANK}",
                dims.len()
            ));
        }
        let mut count: i64 = 1;
        let mut overflow = false;
        for &size in dims {
            if size < 0 {
                return Err(invalid!("Dimension {size} must be >= 0"));
            }
            // A zero further on does not make up for an overflow before it: the reference rejects
            // such shapes whatever the order, so zeros are left out of the product.
            match count.checked_mul(size.max(1)) {
                Some(product) => count = product,
                None => overflow = true,
            }
        }
        if overflow {
            return Err(invalid!(
                "Encountered overflow when multiplying the dimensions of shape {}",
                fmt_dims(dims)
            ));
        }
        Ok(Shape { dims: Dims::new(dims), count: dims.iter().product::<i64>() as usize })
    }

    /// The shape of a scalar: rank 0, one element.
    pub fn scalar() -> Shape {
        Shape { dims: Dims::new(&[]), count: 1 }
    }

    /// The shape of a vector of `len` elements.
    pub fn vector(len: usize) -> Shape {
        let size = i64::try_from(len).expect("a slice's length fits an i64");
        Shape { dims: Dims::new(&[size]), count: len }
    }

    #[inline]
    pub fn rank(&self) -> usize {
        self.dims().len()
    }

    #[inline]
    pub fn dims(&self) -> &[i64] {
        match &self.dims {
            Dims::Few { rank, sizes } => &sizes[..usize::from(*rank)],
            Dims::Many(sizes) => sizes,
        }
    }

    /// The size of dimension `axis`, as an index.
    pub fn dim(&self, axis: usize) -> usize {
        self.dims()[axis] as usize
    }

    /// The number of elements.
    #[inline]
    pub fn count(&self) -> usize {
        self.count
    }

    /// The sizes as indices.
    pub fn to_usizes(&self) -> SmallVec<[usize; 6]> {
        self.dims().iter().map(|&size| size as usize).collect()
    }

    /// The distance in elements between neighbours along each axis, in row-major order.
    pub fn strides(&self) -> SmallVec<[usize; 6]> {
        let mut strides = SmallVec::from_elem(1, self.rank());
        for axis in (1..self.rank()).rev() {
            strides[axis - 1] = strides[axis] * self.dim(axis);
        }
        strides
    }

    /// The position of element number `index` as messages show it: `[1,2]`, and nothing for a scalar.
    pub fn coordinates(&self, index: usize) -> String {
        if self.rank() == 0 {
            return String::new();
        }
        let mut rest = index;
        let mut parts: Vec<String> = Vec::with_capacity(self.rank());
        for &size in self.iter().rev() {
            parts.push((rest % size.max(1) as usize).to_string());
            rest /= size.max(1) as usize;
        }
        parts.reverse();
        format!("[{}]", parts.join(","))
    }
}

impl Deref for Shape {
    type Target = [i64];

    fn deref(&self) -> &[i64] {
        self.dims()
    }
}

impl PartialEq for Shape {
    #[inline]
    fn eq(&self, other: &Shape) -> bool {
        self.dims == other.dims
    }
}

impl Eq for Shape {}

impl Hash for Shape {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.dims().hash(state);
    }
}

impl Default for Shape {
    fn default() -> Shape {
        Shape::scalar()
    }
}

fn fmt_dims(dims: &[i64]) -> String {
    let texts: Vec<String> = dims.iter().map(i64::to_string).collect();
    format!("[{}]", texts.join(","))
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&fmt_dims(self.dims()))
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_strides() {
        let shape = Shape::new(&[2, 3, 4]).unwrap();
        assert_eq!((shape.count(), shape.rank()), (24, 3));
        assert_eq!(shape.strides().as_slice(), [12, 4, 1]);
        assert_eq!(Shape::scalar().count(), 1);
        assert_eq!(Shape::new(&[3, 0]).unwrap().count(), 0);
        assert_eq!(shape.to_string(), "[2,3,4]");
    }

    #[test]
    fn rejects_what_has_no_count() {
        for dims in [&[-1][..], &[1 << 40, 1 << 40], &[1 << 40, 0, 1 << 40], &[1; 255]] {
            assert!(Shape::new(dims).is_err(), "{dims:?}");
        }
    }
}

//! `Reduction`: which elements of a tensor are reduced to one.

use tfcore_base::{Result, invalid};
use tfcore_tensor::{Dim, PartialShape, Shape};

use crate::geometry::StridedView;

/// A shape and the axes of it that are reduced.
#[derive(Debug, Clone)]
pub struct Reduction {
    output: Shape,
    /// How to bring the elements into the order that `layout` describes; `None` if they are.
    permuted: Option<StridedView>,
    layout: [usize; 3],
}

/// Marks the axes that are reduced; negative ones count from the end.
fn marked(axes: &[i64], rank: usize) -> Result<Vec<bool>> {
    let mut reduced = vec![false; rank];
    for &axis in axes {
        let resolved = if axis < 0 { axis.saturating_add(rank as i64) } else { axis };
        let mark = usize::try_from(resolved).ok().and_then(|axis| reduced.get_mut(axis));
        let Some(mark) = mark else {
            return Err(invalid!(
                "Invalid reduction dimension ({axis} for input with {rank} dimension(s)"
            ));
        };
        if std::mem::replace(mark, true) {
            return Err(invalid!(
                "Invalid reduction arguments: Axes contains duplicate dimension: {axis}"
            ));
        }
    }
    Ok(reduced)
}

impl Reduction {
    /// # Errors
    /// `InvalidArgument` for axes out of range or named twice.
    pub fn new(shape: &Shape, axes: &[i64], keep_dims: bool) -> Result<Reduction> {
        let reduced = marked(axes, shape.rank())?;
        let dims = shape.dims().iter().zip(&reduced);
        let output: Vec<i64> = dims
            .filter(|(_, reduced)| keep_dims || !**reduced)
            .map(|(&size, reduced)| if *reduced { 1 } else { size })
            .collect();
        let output = Shape::new(&output)?;
        // Axes of size 1 are of no account: they lie on either side.
        let groups = shape.dims().iter().zip(&reduced).filter(|(size, _)| **size != 1);
        let mut merged: Vec<(bool, usize)> = Vec::new();
        for (&size, &reduced) in groups {
            match merged.last_mut() {
                Some((last, product)) if *last == reduced => *product *= size as usize,
                _ => merged.push((reduced, size as usize)),
            }
        }
        let layout = match merged[..] {
            [] => Some([1, 1, 1]),
            [(false, outer)] => Some([outer, 1, 1]),
            [(true, reduced)] => Some([1, reduced, 1]),
            [(true, reduced), (_, inner)] => Some([1, reduced, inner]),
            [(false, outer), (_, reduced)] => Some([outer, reduced, 1]),
            [(false, outer), (_, reduced), (_, inner)] => Some([outer, reduced, inner]),
            _ => None,
        };
        if let Some(layout) = layout {
            return Ok(Reduction { output, permuted: None, layout });
        }
        let kept = (0..shape.rank()).filter(|&axis| !reduced[axis]);
        let order: Vec<usize> =
            kept.chain((0..shape.rank()).filter(|&axis| reduced[axis])).collect();
        let count = |wanted: bool| -> usize {
            (0..shape.rank())
                .filter(|&axis| reduced[axis] == wanted)
                .map(|axis| shape.dim(axis))
                .product()
        };
        Ok(Reduction {
            output,
            permuted: Some(StridedView::transposed(shape, &order)),
            layout: [count(false), count(true), 1],
        })
    }

    /// The shape of the result.
    pub fn output(&self) -> &Shape {
        &self.output
    }

    /// The order in which the elements must be brought, if it is not theirs.
    pub fn permuted(&self) -> Option<&StridedView> {
        self.permuted.as_ref()
    }

    /// Outer, reduced and inner extent of the elements in that order.
    pub fn layout(&self) -> [usize; 3] {
        self.layout
    }

    /// What is known of the result's shape.
    ///
    /// # Errors
    /// `InvalidArgument` for axes out of range.
    pub fn infer(shape: &PartialShape, axes: &[i64], keep_dims: bool) -> Result<PartialShape> {
        let Some(dims) = shape.dims() else {
            return Ok(PartialShape::unknown());
        };
        let rank = dims.len() as i64;
        let mut reduced = vec![false; dims.len()];
        for &axis in axes {
            if axis < -rank || axis >= rank {
                return Err(invalid!(
                    "Invalid reduction dimension {axis} for input with {rank} dimensions."
                ));
            }
            reduced[(if axis < 0 { axis + rank } else { axis }) as usize] = true;
        }
        Ok(dims
            .iter()
            .zip(reduced)
            .filter(|(_, reduced)| keep_dims || !reduced)
            .map(|(&dim, reduced)| if reduced { Dim::new(1) } else { dim })
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts() {
        let cases: [(&[i64], &[i64], &[i64], [usize; 3], bool); 8] = [
            (&[2, 3, 4], &[1], &[2, 4], [2, 3, 4], false),
            (&[2, 3, 4], &[-1], &[2, 3], [6, 4, 1], false),
            (&[2, 3, 4], &[0, 1], &[4], [1, 6, 4], false),
            (&[2, 3, 4], &[0, 2], &[3], [3, 8, 1], true),
            (&[2, 1, 4], &[0, 2], &[1], [1, 8, 1], false),
            (&[2, 3], &[], &[2, 3], [6, 1, 1], false),
            (&[], &[], &[], [1, 1, 1], false),
            (&[0, 3], &[0], &[3], [1, 0, 3], false),
        ];
        for (dims, axes, output, layout, permuted) in cases {
            let reduction = Reduction::new(&Shape::new(dims).unwrap(), axes, false).unwrap();
            assert_eq!(reduction.output().dims(), output, "{dims:?} {axes:?}");
            assert_eq!(reduction.layout(), layout, "{dims:?} {axes:?}");
            assert_eq!(reduction.permuted().is_some(), permuted, "{dims:?} {axes:?}");
        }
    }

    #[test]
    fn axes_are_checked() {
        let shape = Shape::new(&[2, 3]).unwrap();
        for axes in [&[2][..], &[-3], &[0, 0], &[1, -1], &[i64::MIN]] {
            assert!(Reduction::new(&shape, axes, true).is_err(), "{axes:?}");
        }
        assert_eq!(Reduction::new(&shape, &[1], true).unwrap().output().dims(), [2, 1]);
    }
}

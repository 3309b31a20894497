//! `StridedView`: which input elements an output consists of, where the input index is linear in the
//! output's coordinates. Slices, transposes, broadcasts, tiles and reversals are all of this kind.

use smallvec::SmallVec;
use tfcore_tensor::Shape;

/// One output dimension: how many elements, and how far the input moves for one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StridedDim {
    pub size: usize,
    /// In elements; negative for reversals, 0 where the input repeats.
    pub stride: isize,
}

/// The input element of every output element, in row-major order of the output.
///
/// Dimensions of size 1 are left out and neighbours that move as one are merged, so that the innermost
/// dimension is as long as it can be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StridedView {
    /// The input index of the first output element.
    pub offset: usize,
    /// From the outermost to the innermost; never empty.
    dims: SmallVec<[StridedDim; 6]>,
}

impl StridedView {
    /// A view with these dimensions. Every index it yields must lie within the input.
    pub fn new(offset: usize, dims: impl IntoIterator<Item = StridedDim>) -> StridedView {
        let mut merged: SmallVec<[StridedDim; 6]> = SmallVec::new();
        for dim in dims {
            if dim.size == 1 {
                continue;
            }
            match merged.last_mut() {
                Some(last) if last.stride == dim.stride * dim.size as isize => {
                    *last = StridedDim { size: last.size * dim.size, stride: dim.stride };
                }
                _ => merged.push(dim),
            }
        }
        if merged.is_empty() {
            merged.push(StridedDim { size: 1, stride: 1 });
        }
        StridedView { offset, dims: merged }
    }

    /// Output axis `i` is input axis `permutation[i]`.
    pub fn transposed(input: &Shape, permutation: &[usize]) -> StridedView {
        let strides = input.strides();
        let dims = permutation
            .iter()
            .map(|&axis| StridedDim { size: input.dim(axis), stride: strides[axis] as isize });
        StridedView::new(0, dims)
    }

    /// The box of `sizes` elements that begins at `begin`.
    pub fn boxed(input: &Shape, begin: &[usize], sizes: &[usize]) -> StridedView {
        let strides = input.strides();
        let offset = begin.iter().zip(&strides).map(|(begin, stride)| begin * stride).sum();
        let dims = sizes
            .iter()
            .zip(&strides)
            .map(|(&size, &stride)| StridedDim { size, stride: stride as isize });
        StridedView::new(offset, dims)
    }

    pub fn dims(&self) -> &[StridedDim] {
        &self.dims
    }

    /// The number of output elements.
    pub fn count(&self) -> usize {
        self.dims.iter().map(|dim| dim.size).product()
    }

    /// Whether the output elements are consecutive in the input.
    pub fn is_contiguous(&self) -> bool {
        matches!(self.dims.as_slice(), [dim] if dim.stride == 1)
    }

    /// The innermost dimension.
    pub fn innermost(&self) -> StridedDim {
        *self.dims.last().expect("there is always a dimension")
    }

    /// The input index of the output element that is number `index` over the first `axes` dimensions
    /// and the first over the others.
    pub fn input_index(&self, index: usize, axes: usize) -> usize {
        (self.offset as isize + self.displacement(index, axes)) as usize
    }

    /// How far that input element is from the first one.
    pub fn displacement(&self, index: usize, axes: usize) -> isize {
        let mut rest = index;
        let mut distance = 0;
        for dim in self.dims[..axes].iter().rev() {
            distance += (rest % dim.size) as isize * dim.stride;
            rest /= dim.size;
        }
        distance
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn indices(view: &StridedView) -> Vec<usize> {
        (0..view.count()).map(|index| view.input_index(index, view.dims().len())).collect()
    }

    #[test]
    fn views_name_the_input_of_every_output() {
        let shape = Shape::new(&[2, 3]).unwrap();
        assert_eq!(indices(&StridedView::transposed(&shape, &[1, 0])), [0, 3, 1, 4, 2, 5]);
        assert_eq!(indices(&StridedView::boxed(&shape, &[0, 1], &[2, 2])), [1, 2, 4, 5]);
        let reversed = StridedView::new(5, [StridedDim { size: 6, stride: -1 }]);
        assert_eq!(indices(&reversed), [5, 4, 3, 2, 1, 0]);
    }

    #[test]
    fn neighbours_that_move_as_one_are_merged() {
        let shape = Shape::new(&[2, 3, 4, 5]).unwrap();
        let cases: [(&[usize], &[(usize, isize)]); 3] = [
            (&[0, 1, 2, 3], &[(120, 1)]),
            (&[0, 2, 3, 1], &[(2, 60), (20, 1), (3, 20)]),
            (&[2, 3, 0, 1], &[(20, 1), (6, 20)]),
        ];
        for (permutation, dims) in cases {
            let view = StridedView::transposed(&shape, permutation);
            let found: Vec<_> = view.dims().iter().map(|dim| (dim.size, dim.stride)).collect();
            assert_eq!(found, dims, "{permutation:?}");
        }
        assert!(StridedView::boxed(&shape, &[1, 0, 0, 0], &[1, 3, 4, 5]).is_contiguous());
    }
}

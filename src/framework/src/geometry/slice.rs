//! Strided slices: what `x[begin:end:stride, ..., newaxis, 3]` selects.

use smallvec::SmallVec;
use tfcore_base::{Result, invalid};
use tfcore_tensor::{Dim, PartialShape, Shape};

use super::{StridedDim, StridedView};
use crate::Attrs;

/// The bits of the five mask attrs, one for each entry of the slice specification.
#[derive(Debug, Clone, Copy, Default)]
pub struct SliceMasks {
    /// The entry begins at the first element.
    pub begin: u64,
    /// The entry ends behind the last element.
    pub end: u64,
    /// The entry stands for all dimensions that no other entry is about.
    pub ellipsis: u64,
    /// The entry is a new dimension of size 1.
    pub new_axis: u64,
    /// The entry is an index; its dimension is dropped.
    pub shrink_axis: u64,
}

impl SliceMasks {
    pub fn from_attrs(attrs: &Attrs) -> Result<SliceMasks> {
        // The reference reads the attrs as 32 bits.
        let mask = |name: &str| attrs.int(name).map(|bits| u64::from(bits as u32));
        Ok(SliceMasks {
            begin: mask("begin_mask")?,
            end: mask("end_mask")?,
            ellipsis: mask("ellipsis_mask")?,
            new_axis: mask("new_axis_mask")?,
            shrink_axis: mask("shrink_axis_mask")?,
        })
    }
}

/// A slice as the op has it: an entry for each dimension that is mentioned.
#[derive(Debug, Clone, Copy)]
pub struct SliceSpec<'a> {
    /// Unknown in shape functions whose operand is not constant.
    pub begin: Option<&'a [i64]>,
    /// Unknown in shape functions whose operand is not constant.
    pub end: Option<&'a [i64]>,
    pub strides: &'a [i64],
    pub masks: SliceMasks,
}

/// A slice with an entry for every dimension of the input.
#[derive(Debug, Clone)]
pub struct DenseSlice {
    entries: SmallVec<[DenseEntry; 4]>,
    output: PartialShape,
}

#[derive(Debug, Clone, Copy)]
struct DenseEntry {
    begin: i64,
    end: i64,
    stride: i64,
    begin_masked: bool,
    end_masked: bool,
    shrinks: bool,
    /// How many elements the entry selects.
    size: Dim,
}

impl DenseEntry {
    /// All of a dimension.
    const FULL: DenseEntry = DenseEntry {
        begin: 0,
        end: 0,
        stride: 1,
        begin_masked: true,
        end_masked: true,
        shrinks: false,
        size: Dim::UNKNOWN,
    };
}

/// Where a dimension of the output comes from.
#[derive(Debug, Clone, Copy)]
enum OutputDim {
    Entry(usize),
    NewAxis,
}

/// Entries are told apart by the bits of 32-bit masks.
const MAX_ENTRIES: usize = 31;

/// Refuses operands that are not vectors of one length below 32.
///
/// # Errors
/// `InvalidArgument` "Expected begin, end, and strides to be 1D equal size tensors, ...".
pub fn check_slice_operands(begin: &Shape, end: &Shape, strides: &Shape) -> Result<()> {
    let fits = |shape: &Shape| matches!(shape.dims(), &[len] if len <= MAX_ENTRIES as i64);
    if fits(begin) && begin == end && begin == strides {
        return Ok(());
    }
    Err(invalid!(
        "Expected begin, end, and strides to be 1D equal size tensors, but got shapes {begin}, {end}, and \
         {strides} instead."
    ))
}

impl SliceSpec<'_> {
    /// The slice of an input of which at least the rank is known.
    ///
    /// # Errors
    /// `InvalidArgument` for more than one ellipsis, more entries than dimensions, a stride of 0 and
    /// indices out of bounds.
    pub fn dense(&self, input: &[Dim]) -> Result<DenseSlice> {
        if self.strides.len() > MAX_ENTRIES {
            return Err(invalid!(
                "Expected begin, end, and strides to be 1D equal size tensors, but got shape [{}] for \
                 strides.",
                self.strides.len()
            ));
        }
        if self.masks.ellipsis.count_ones() > 1 {
            return Err(invalid!("Multiple ellipses in slice spec not allowed"));
        }
        let (mut entries, sources) = self.expand(input.len())?;
        for (axis, (entry, &dim)) in entries.iter_mut().zip(input).enumerate() {
            self.resolve(axis, entry, dim)?;
        }
        let output = sources.iter().map(|source| match source {
            OutputDim::Entry(axis) => entries[*axis].size,
            OutputDim::NewAxis => Dim::new(1),
        });
        let output = output.collect();
        Ok(DenseSlice { entries, output })
    }

    /// Replaces the ellipsis, which is at the end if there is none, by entries that take everything.
    fn expand(&self, rank: usize) -> Result<(SmallVec<[DenseEntry; 4]>, SmallVec<[OutputDim; 6]>)> {
        let has = |mask: u64, index: usize| mask >> index & 1 == 1;
        let count = self.strides.len();
        let ellipsis = (0..count).find(|&index| has(self.masks.ellipsis, index)).unwrap_or(count);
        let total = count.max(ellipsis + 1);
        let new_axes_behind =
            (ellipsis + 1..count).filter(|&index| has(self.masks.new_axis, index)).count();
        let mut entries = SmallVec::new();
        let mut sources = SmallVec::new();
        for index in 0..total {
            if index == ellipsis {
                let behind = total - index - 1 - new_axes_behind;
                while entries.len() + behind < rank {
                    sources.push(OutputDim::Entry(entries.len()));
                    entries.push(DenseEntry::FULL);
                }
            } else if has(self.masks.new_axis, index) {
                sources.push(OutputDim::NewAxis);
            } else {
                if entries.len() == rank {
                    return Err(match rank {
                        0 => invalid!("Attempting to slice scalar input."),
                        _ => invalid!(
                            "Index out of range using input dim {rank}; input has only {rank} dims"
                        ),
                    });
                }
                let shrinks = has(self.masks.shrink_axis, index);
                if !shrinks {
                    sources.push(OutputDim::Entry(entries.len()));
                }
                entries.push(DenseEntry {
                    begin: self.begin.map_or(0, |begin| begin[index]),
                    end: self.end.map_or(0, |end| end[index]),
                    stride: self.strides[index],
                    begin_masked: has(self.masks.begin, index),
                    end_masked: has(self.masks.end, index),
                    shrinks,
                    size: Dim::UNKNOWN,
                });
            }
        }
        Ok((entries, sources))
    }

    /// Brings the bounds into the dimension and computes how many elements they select.
    fn resolve(&self, axis: usize, entry: &mut DenseEntry, dim: Dim) -> Result<()> {
        if entry.stride == 0 {
            return Err(invalid!("strides[{axis}] must be non-zero"));
        }
        let Some(dim) = dim.value() else {
            entry.size = if entry.shrinks { Dim::new(1) } else { Dim::UNKNOWN };
            return Ok(());
        };
        if entry.shrinks && entry.stride <= 0 {
            return Err(invalid!("only stride 1 allowed on non-range indexing."));
        }
        let forward = entry.stride > 0;
        let from_end = |index: i64| if index < 0 { index.saturating_add(dim) } else { index };
        if self.begin.is_some() && self.end.is_some() {
            if entry.shrinks {
                entry.begin = from_end(entry.begin);
                if !(0..dim).contains(&entry.begin) {
                    return Err(invalid!(
                        "slice index {} of dimension {axis} out of bounds.",
                        entry.begin
                    ));
                }
                entry.end = entry.begin + 1;
            } else {
                let (low, high) = if forward { (0, dim) } else { (-1, dim - 1) };
                let (first, last) = if forward { (low, high) } else { (high, low) };
                let clamp = |index: i64| from_end(index).clamp(low, high);
                entry.begin = if entry.begin_masked { first } else { clamp(entry.begin) };
                entry.end = if entry.end_masked { last } else { clamp(entry.end) };
            }
        } else if entry.shrinks {
            (entry.begin, entry.end) = (0, 1);
        } else if entry.begin_masked && entry.end_masked {
            (entry.begin, entry.end) = if forward { (0, dim) } else { (dim, 0) };
        } else {
            return Ok(());
        }
        let length = entry.end - entry.begin;
        let empty = length == 0 || (length < 0) != (entry.stride < 0);
        // A stride longer than the dimension still selects the first element.
        let steps = length.unsigned_abs().div_ceil(entry.stride.unsigned_abs()) as i64;
        entry.size = Dim::new(if empty { 0 } else { steps });
        Ok(())
    }
}

impl DenseSlice {
    /// The shape of the result.
    pub fn output(&self) -> &PartialShape {
        &self.output
    }

    /// The elements that are selected of an input whose shape and bounds are all known.
    pub fn view(&self, input: &Shape) -> StridedView {
        let strides = input.strides();
        let mut offset = 0;
        let mut dims: SmallVec<[StridedDim; 6]> = SmallVec::new();
        for (entry, &step) in self.entries.iter().zip(&strides) {
            let size = entry.size.value().map_or(0, |size| size as usize);
            // The bounds of an empty slice may lie outside.
            if size > 0 {
                offset += entry.begin as usize * step;
            }
            let stride = if size > 1 { entry.stride as isize * step as isize } else { 0 };
            dims.push(StridedDim { size, stride });
        }
        StridedView::new(offset, dims)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dims(sizes: &[i64]) -> Vec<Dim> {
        sizes.iter().map(|&size| Dim::new(size)).collect()
    }

    #[test]
    fn slices_have_the_shapes_that_numpy_gives() {
        let none = SliceMasks::default();
        // x[1:3], x[::-1], x[-1], x[..., newaxis], x[newaxis, ..., 1], x[5:2], x[:, 0:100:50]
        let cases: [(&[i64], &[i64], &[i64], SliceMasks, &str); 7] = [
            (&[1], &[3], &[1], none, "[2,3]"),
            (&[0], &[0], &[-1], SliceMasks { begin: 1, end: 1, ..none }, "[4,3]"),
            (&[-1], &[0], &[1], SliceMasks { shrink_axis: 1, ..none }, "[3]"),
            (&[0, 0], &[0, 0], &[1, 1], SliceMasks { ellipsis: 1, new_axis: 2, ..none }, "[4,3,1]"),
            (
                &[0, 0, 1],
                &[0, 0, 2],
                &[1, 1, 1],
                SliceMasks { new_axis: 1, ellipsis: 2, shrink_axis: 4, ..none },
                "[1,4]",
            ),
            (&[5], &[2], &[1], none, "[0,3]"),
            (&[0, 0], &[0, 100], &[1, 50], SliceMasks { begin: 1, end: 1, ..none }, "[4,1]"),
        ];
        for (begin, end, strides, masks, output) in cases {
            let spec = SliceSpec { begin: Some(begin), end: Some(end), strides, masks };
            let slice = spec.dense(&dims(&[4, 3])).unwrap();
            assert_eq!(slice.output().to_string(), output, "{begin:?} {end:?} {strides:?}");
        }
    }

    #[test]
    fn unknown_bounds_leave_sizes_unknown() {
        let masks = SliceMasks { begin: 0b10, end: 0b10, shrink_axis: 0b100, ..Default::default() };
        let spec = SliceSpec { begin: None, end: None, strides: &[1, -2, 1], masks };
        let slice = spec.dense(&dims(&[4, 5, 6, -1])).unwrap();
        assert_eq!(slice.output().to_string(), "[?,3,?]");
    }

    #[test]
    fn views_select_elements() {
        let shape = Shape::new(&[4, 3]).unwrap();
        let spec = SliceSpec {
            begin: Some(&[3, 1]),
            end: Some(&[0, 3]),
            strides: &[-2, 1],
            masks: SliceMasks::default(),
        };
        let view = spec.dense(&dims(&[4, 3])).unwrap().view(&shape);
        let indices: Vec<usize> =
            (0..view.count()).map(|at| view.input_index(at, view.dims().len())).collect();
        assert_eq!(indices, [10, 11, 4, 5]);
    }

    #[test]
    fn impossible_slices_are_refused() {
        let extreme = [i64::MIN, i64::MAX];
        for begin in extreme {
            for stride in extreme {
                let spec = SliceSpec {
                    begin: Some(&[begin]),
                    end: Some(&[0]),
                    strides: &[stride],
                    masks: SliceMasks::default(),
                };
                spec.dense(&dims(&[4])).unwrap().view(&Shape::vector(4));
            }
        }
        let shrink = SliceMasks { shrink_axis: 1, ..Default::default() };
        let cases: [(i64, i64, SliceMasks, &str); 3] = [
            (0, 0, SliceMasks::default(), "strides[0] must be non-zero"),
            (4, 1, shrink, "slice index 4 of dimension 0 out of bounds."),
            (0, -1, shrink, "only stride 1 allowed on non-range indexing."),
        ];
        for (begin, stride, masks, message) in cases {
            let spec =
                SliceSpec { begin: Some(&[begin]), end: Some(&[1]), strides: &[stride], masks };
            assert_eq!(spec.dense(&dims(&[4])).unwrap_err().message(), message);
        }
        let spec = SliceSpec {
            begin: Some(&[0]),
            end: Some(&[0]),
            strides: &[1],
            masks: SliceMasks::default(),
        };
        assert_eq!(spec.dense(&[]).unwrap_err().message(), "Attempting to slice scalar input.");
    }
}

//! Slices of tensors: which part of each dimension a checkpoint holds.

use std::fmt;

use tfcore_base::{Result, internal, invalid};
use tfcore_proto::{TensorSliceProto, tensor_slice_proto};
use tfcore_tensor::{Shape, Tensor};

/// A part of each dimension, or all of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TensorSlice(Vec<Option<(i64, i64)>>);

impl TensorSlice {
    /// All of a tensor.
    pub fn full(rank: usize) -> TensorSlice {
        TensorSlice(vec![None; rank])
    }

    /// A slice in the notation `start,length:-:...`; `-` is a whole dimension.
    ///
    /// # Errors
    /// `InvalidArgument` for anything else, a negative start, and a length that is not positive.
    pub fn parse(text: &str) -> Result<TensorSlice> {
        let extent = |item: &str| {
            if item == "-" {
                return Ok(None);
            }
            let mut numbers = item.split(',').filter(|part| !part.is_empty()).map(parse_number);
            let (Some(Some(start)), Some(Some(len)), None) =
                (numbers.next(), numbers.next(), numbers.next())
            else {
                return Err(invalid!(
                    "Expected a pair of numbers or '-' but got '{item}': string = {text}"
                ));
            };
            if start < 0 || len <= 0 || start.checked_add(len).is_none() {
                return Err(invalid!(
                    "Expected non-negative start and positive length but got start = {start}, length = {len}: \
                     string = {text}"
                ));
            }
            Ok(Some((start, len)))
        };
        text.split(':')
            .filter(|item| !item.is_empty())
            .map(extent)
            .collect::<Result<_>>()
            .map(TensorSlice)
    }

    /// # Errors
    /// `InvalidArgument` for extents that no tensor can have.
    pub(crate) fn from_proto(proto: &TensorSliceProto) -> Result<TensorSlice> {
        let extent = |extent: &tensor_slice_proto::Extent| {
            let start = extent.start;
            let Some(tensor_slice_proto::extent::HasLengthHack::Length(len)) =
                extent.has_length_hack
            else {
                return if start == 0 { Ok(None) } else { Err(bad_extent(start, -1)) };
            };
            if start == 0 && len == -1 {
                return Ok(None);
            }
            if start < 0 || len <= 0 || start.checked_add(len).is_none() {
                return Err(bad_extent(start, len));
            }
            Ok(Some((start, len)))
        };
        proto.extent.iter().map(extent).collect::<Result<_>>().map(TensorSlice)
    }

    pub(crate) fn to_proto(&self) -> TensorSliceProto {
        let extent = self.0.iter().map(|extent| {
            let (start, len) = extent.map_or((0, None), |(start, len)| (start, Some(len)));
            let has_length_hack = len.map(tensor_slice_proto::extent::HasLengthHack::Length);
            tensor_slice_proto::Extent { start, has_length_hack }
        });
        TensorSliceProto { extent: extent.collect() }
    }

    pub fn rank(&self) -> usize {
        self.0.len()
    }

    /// Start and length along an axis; `None` if all of it is meant.
    pub(crate) fn extent(&self, axis: usize) -> Option<(i64, i64)> {
        self.0[axis]
    }

    /// True if no dimension is cut.
    pub fn is_full(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }

    /// The shape of the slice of a tensor of shape `full`.
    ///
    /// # Errors
    /// `Internal` if the slice does not fit the tensor.
    pub fn shape_of(&self, full: &Shape) -> Result<Shape> {
        if full.rank() != self.rank() {
            return Err(internal!("Mismatching ranks: shape = {full}, slice = {self}"));
        }
        let mut dims = full.dims().to_vec();
        for (axis, (dim, extent)) in dims.iter_mut().zip(&self.0).enumerate() {
            if let Some((start, len)) = extent {
                if start + len > *dim {
                    return Err(internal!(
                        "Extent in dimension {axis} out of bounds: shape = {full}, slice = {self}"
                    ));
                }
                *dim = *len;
            }
        }
        Shape::new(&dims)
    }

    /// What two slices have in common; `None` if that is nothing.
    pub(crate) fn intersect(&self, other: &TensorSlice) -> Option<TensorSlice> {
        if self.rank() != other.rank() {
            return None;
        }
        let common = self.0.iter().zip(&other.0).map(|(a, b)| match (a, b) {
            (None, extent) | (extent, None) => Some(*extent),
            (Some((a_start, a_len)), Some((b_start, b_len))) => {
                let start = *a_start.max(b_start);
                let end = (a_start + a_len).min(b_start + b_len);
                (start < end).then_some(Some((start, end - start)))
            }
        });
        common.collect::<Option<_>>().map(TensorSlice)
    }
}

impl fmt::Display for TensorSlice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (axis, extent) in self.0.iter().enumerate() {
            f.write_str(if axis > 0 { ":" } else { "" })?;
            match extent {
                None => f.write_str("-")?,
                Some((start, len)) => write!(f, "{start},{len}")?,
            }
        }
        Ok(())
    }
}

fn bad_extent(start: i64, len: i64) -> tfcore_base::Error {
    invalid!(
        "Expected non-negative start and positive length but got start = {start}, length = {len}"
    )
}

fn parse_number(text: &str) -> Option<i64> {
    text.trim().parse().ok()
}

/// The parts of `dim0 dim1 ... slice`, such as `"4 16 0,2:-"`: the shape of the whole tensor and the slice.
///
/// # Errors
/// `InvalidArgument` if the text has another form, `Internal` if the slice does not fit the shape.
pub fn parse_shape_and_slice(text: &str) -> Result<(Shape, TensorSlice)> {
    let Some((dims, slice)) = text.rsplit_once(' ') else {
        return Err(invalid!("Need least two elements in shape_and_slice specification: {text}"));
    };
    let slice = TensorSlice::parse(slice)?;
    let dims: Option<Vec<i64>> = dims.split(' ').map(parse_number).collect();
    let Some(dims) = dims else {
        return Err(invalid!("Non numerical dimension in shape_and_slice: {text}"));
    };
    let shape = Shape::new(&dims)?;
    slice.shape_of(&shape)?;
    Ok((shape, slice))
}

/// Copies what two slices of a tensor of shape `full` have in common from `source` to `target`, which hold them.
pub(crate) fn copy_common(
    full: &Shape,
    (source_slice, source): (&TensorSlice, &Tensor),
    (target_slice, target): (&TensorSlice, &mut Tensor),
) -> Result<()> {
    let Some(common) = source_slice.intersect(target_slice) else { return Ok(()) };
    let extent_of =
        |slice: &TensorSlice, axis: usize| slice.0[axis].unwrap_or((0, full.dims()[axis]));
    let rank = full.rank();
    let counts: Vec<usize> = (0..rank).map(|axis| extent_of(&common, axis).1 as usize).collect();
    if counts.contains(&0) {
        return Ok(());
    }
    let first = |slice: &TensorSlice, shape: &Shape| -> usize {
        let strides = shape.strides();
        let offset =
            |axis| (extent_of(&common, axis).0 - extent_of(slice, axis).0) as usize * strides[axis];
        (0..rank).map(offset).sum()
    };
    let (from_start, to_start) =
        (first(source_slice, source.shape()), first(target_slice, target.shape()));
    let (from_strides, to_strides) = (source.shape().strides(), target.shape().strides());
    // The last axis is one run; the others are counted through.
    let run = counts.last().copied().unwrap_or(1);
    let rows: usize = counts.iter().rev().skip(1).product();
    let from = source.elems();
    let mut to = target.elems_mut()?;
    for row in 0..rows {
        let (mut rest, mut from_at, mut to_at) = (row, from_start, to_start);
        for axis in (0..rank.saturating_sub(1)).rev() {
            let index = rest % counts[axis];
            rest /= counts[axis];
            from_at += index * from_strides[axis];
            to_at += index * to_strides[axis];
        }
        to.slice(to_at..to_at + run).copy_from(from.slice(from_at..from_at + run));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Messages as the reference has them.
    #[test]
    fn specifications_are_parsed_or_refused() {
        let (shape, slice) = parse_shape_and_slice("4 16 0,2:-").unwrap();
        assert_eq!((shape.dims(), slice.to_string()), (&[4i64, 16][..], "0,2:-".into()));
        assert_eq!(slice.shape_of(&shape).unwrap().dims(), [2, 16]);
        for (text, message) in [
            ("2", "Need least two elements in shape_and_slice specification: 2"),
            ("a b -:-", "Non numerical dimension in shape_and_slice: a b -:-"),
            ("2 3 x:-", "Expected a pair of numbers or '-' but got 'x': string = x:-"),
            ("2 3 1,2,3:-", "Expected a pair of numbers or '-' but got '1,2,3': string = 1,2,3:-"),
            (
                "2 3 1,0:-",
                "Expected non-negative start and positive length but got start = 1, length = 0: string = 1,0:-",
            ),
            ("2 3 0,1", "Mismatching ranks: shape = [2,3], slice = 0,1"),
            ("2 3 0,5:-", "Extent in dimension 0 out of bounds: shape = [2,3], slice = 0,5:-"),
            ("-1 3 -:-", "Dimension -1 must be >= 0"),
        ] {
            assert_eq!(parse_shape_and_slice(text).unwrap_err().message(), message);
        }
        assert!(parse_shape_and_slice("2 3 9223372036854775807,1:-").is_err());
    }

    #[test]
    fn common_parts_are_copied() {
        let full = Shape::new(&[3, 4]).unwrap();
        let slice = |text| TensorSlice::parse(text).unwrap();
        // Rows 1 and 2 of the numbers 0 to 11.
        let source =
            Tensor::from_slice(Shape::new(&[2, 4]).unwrap(), &[4i32, 5, 6, 7, 8, 9, 10, 11]);
        let source = source.unwrap();
        for (target, dims, expected) in [
            ("0,2:1,2", [2, 2], vec![-1, -1, 5, 6]),
            ("-:3,1", [3, 1], vec![-1, 7, 11]),
            ("0,1:-", [1, 4], vec![-1; 4]),
            ("-:-", [3, 4], vec![-1, -1, -1, -1, 4, 5, 6, 7, 8, 9, 10, 11]),
        ] {
            let shape = Shape::new(&dims).unwrap();
            let mut out = Tensor::from_slice(shape, &vec![-1i32; expected.len()]).unwrap();
            copy_common(&full, (&slice("1,2:-"), &source), (&slice(target), &mut out)).unwrap();
            assert_eq!(out.as_slice::<i32>().unwrap(), expected, "{target}");
        }
        let scalar = Tensor::scalar(7i32);
        let mut out = Tensor::scalar(0i32);
        let all = TensorSlice::full(0);
        copy_common(&Shape::scalar(), (&all, &scalar), (&all, &mut out)).unwrap();
        assert_eq!(out.scalar_value::<i32>().unwrap(), 7);
    }
}

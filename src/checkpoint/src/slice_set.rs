//! The slices of a tensor that a checkpoint holds.

use tfcore_base::{DType, Result, internal};
use tfcore_tensor::Shape;

use crate::slice::TensorSlice;

/// Slices of one tensor that do not overlap.
#[derive(Clone, Debug)]
pub(crate) struct SliceSet {
    pub(crate) shape: Shape,
    pub(crate) dtype: DType,
    /// Each slice with a number that says in which file it is.
    slices: Vec<(TensorSlice, usize)>,
}

impl SliceSet {
    pub(crate) fn new(shape: Shape, dtype: DType) -> SliceSet {
        SliceSet { shape, dtype, slices: Vec::new() }
    }

    /// Adds a slice.
    ///
    /// # Errors
    /// `Internal` if it does not fit the tensor or overlaps another one.
    pub(crate) fn add(&mut self, slice: TensorSlice, file: usize) -> Result<()> {
        slice.shape_of(&self.shape)?;
        if let Some((existing, _)) = self.slices.iter().find(|(s, _)| s.intersect(&slice).is_some())
        {
            return Err(internal!(
                "Overlapping slices: existing slice = {existing}, new slice = {slice}"
            ));
        }
        self.slices.push((slice, file));
        Ok(())
    }

    pub(crate) fn len(&self) -> usize {
        self.slices.len()
    }

    /// The slices that together hold all of `wanted`; `None` if a part is missing.
    pub(crate) fn covering(&self, wanted: &TensorSlice) -> Option<Vec<&(TensorSlice, usize)>> {
        if let Some(exact) = self.slices.iter().find(|(slice, _)| slice == wanted) {
            return Some(vec![exact]);
        }
        let count = |slice: &TensorSlice| Some(slice.shape_of(&self.shape).ok()?.count());
        let mut found = Vec::new();
        let mut covered = 0;
        for entry in &self.slices {
            if let Some(common) = entry.0.intersect(wanted) {
                covered += count(&common)?;
                found.push(entry);
            }
        }
        // Slices do not overlap, so that equal counts mean that nothing is missing.
        (covered == count(wanted)?).then_some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_cover_what_is_wanted_or_not() {
        let mut set = SliceSet::new(Shape::new(&[4, 4]).unwrap(), DType::FLOAT);
        let slice = |text| TensorSlice::parse(text).unwrap();
        set.add(slice("0,2:-"), 0).unwrap();
        set.add(slice("2,1:0,2"), 1).unwrap();
        let error = set.add(slice("1,1:0,1"), 0).unwrap_err();
        assert_eq!(
            error.message(),
            "Overlapping slices: existing slice = 0,2:-, new slice = 1,1:0,1"
        );
        assert!(set.add(slice("3,2:-"), 0).is_err());
        for (wanted, files) in [
            ("0,2:-", Some(vec![0])),
            ("1,2:0,2", Some(vec![0, 1])),
            ("2,1:1,1", Some(vec![1])),
            ("-:-", None),
            ("2,1:-", None),
            ("0,9:-", None),
        ] {
            let found = set.covering(&slice(wanted));
            let found = found.map(|found| found.iter().map(|(_, file)| *file).collect::<Vec<_>>());
            assert_eq!(found, files, "{wanted}");
        }
    }
}

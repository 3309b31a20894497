//! Entries of a sparse tensor grouped by all dimensions but the last, as set operations and the edit distance read them.

use std::ops::Range;

use tfcore_base::{Result, invalid, require};
use tfcore_tensor::{Shape, Tensor};

/// Positions in a sparse tensor, in the order in which they stand.
pub(crate) struct Positions<'t> {
    indices: &'t [i64],
    /// Numbers of one position, at least 1.
    rank: usize,
}

/// Consecutive entries that differ in the last dimension only.
pub(crate) struct Group<'t> {
    pub(crate) key: &'t [i64],
    pub(crate) entries: Range<usize>,
}

impl<'t> Positions<'t> {
    /// The positions in the rows of a matrix, of which the row length is not 0.
    pub(crate) fn new(indices: &'t Tensor) -> Result<Positions<'t>> {
        let rank = indices.dim(indices.rank() - 1);
        require!(rank > 0, "indices must have at least one column");
        Ok(Positions { indices: indices.as_slice()?, rank })
    }

    pub(crate) fn len(&self) -> usize {
        self.indices.len() / self.rank
    }

    pub(crate) fn at(&self, entry: usize) -> &'t [i64] {
        &self.indices[entry * self.rank..(entry + 1) * self.rank]
    }

    /// The groups in order. Entries of one group that are not consecutive make several.
    pub(crate) fn groups(&self) -> Vec<Group<'t>> {
        let mut groups: Vec<Group<'t>> = Vec::new();
        for entry in 0..self.len() {
            let key = &self.at(entry)[..self.rank - 1];
            match groups.last_mut() {
                Some(last) if last.key == key => last.entries.end = entry + 1,
                _ => groups.push(Group { key, entries: entry..entry + 1 }),
            }
        }
        groups
    }

    /// Checks that the positions lie in a tensor of shape `shape` and are in order, without repetitions.
    ///
    /// # Errors
    /// `InvalidArgument` for the first position of which that is not true.
    pub(crate) fn check(&self, shape: &Shape) -> Result<()> {
        for entry in 0..self.len() {
            let at = self.at(entry);
            let text = || {
                let numbers: Vec<String> = at.iter().map(i64::to_string).collect();
                format!("indices[{entry}] = [{}]", numbers.join(","))
            };
            let inside =
                at.iter().zip(shape.dims()).all(|(index, size)| (0..*size).contains(index));
            require!(inside, "{} is out of bounds: need 0 <= index < {shape}", text());
            if entry > 0 {
                let before = self.at(entry - 1);
                require!(before != at, "{} is repeated", text());
                if before > at {
                    return Err(invalid!(
                        "{} is out of order. Many sparse ops require sorted indices.\n    Use \
                         `tf.sparse.reorder` to create a correctly ordered copy.\n\n",
                        text()
                    ));
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tfcore_framework::testing::tensor;

    #[test]
    fn entries_are_grouped_and_checked() {
        let shape = Shape::new(&[2, 3]).unwrap();
        let indices = tensor(&[3, 2], &[0i64, 0, 0, 2, 1, 1]);
        let positions = Positions::new(&indices).unwrap();
        let groups: Vec<_> =
            positions.groups().into_iter().map(|group| (group.key[0], group.entries)).collect();
        assert_eq!(groups, [(0, 0..2), (1, 2..3)]);
        assert!(positions.check(&shape).is_ok());
        let cases = [
            ([0, 0, 0, 3], "indices[1] = [0,3] is out of bounds: need 0 <= index < [2,3]"),
            ([0, 1, 0, 1], "indices[1] = [0,1] is repeated"),
            ([1, 0, 0, 1], "indices[1] = [0,1] is out of order."),
        ];
        for (indices, message) in cases {
            let indices = tensor(&[2, 2], &indices.map(i64::from));
            let error = Positions::new(&indices).unwrap().check(&shape).unwrap_err();
            assert!(error.message().starts_with(message), "{error}");
        }
    }
}

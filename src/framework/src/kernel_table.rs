//! The types for which TensorFlow 2.21 has CPU kernels, by its own list. Registrations take their
//! type constraints from here, so that a kernel cannot be there for other types than in the reference.

use std::borrow::Cow;
use std::cmp::Ordering;

use tfcore_base::DType;

/// Type attrs and the types that each may have.
pub type Constraints = Vec<(Cow<'static, str>, Vec<DType>)>;

/// A line an op, sorted by name; see the head of the file for its notation.
const TABLE: &str = include_str!("../op_table/cpu_kernels.txt");

/// The constraints of one or more of the reference's kernels of an op.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct KernelTypes {
    /// Nodes ask for a kernel with a label by the attr `_kernel`.
    pub(crate) label: &'static str,
    pub(crate) priority: i32,
    pub(crate) constraints: Constraints,
}

/// The kernels of the op `name`; `None` if the reference has none for CPUs.
pub(crate) fn get(name: &str) -> Option<Vec<KernelTypes>> {
    Some(line(name)?.split(" ; ").map(parse).collect())
}

/// What follows the name in the line of the op `name`: a binary search by bytes, each step of which
/// moves to the beginning of a line.
fn line(name: &str) -> Option<&'static str> {
    let (mut low, mut high) = (0, TABLE.len());
    while low < high {
        let middle = low + (high - low) / 2;
        let start = TABLE[low..middle].rfind('\n').map_or(low, |at| low + at + 1);
        let end = TABLE[start..].find('\n').map_or(TABLE.len(), |at| start + at);
        let (found, rest) = TABLE[start..end].split_once(' ')?;
        match found.cmp(name) {
            // The lines at the head begin with `#`, which no name does.
            _ if found == "#" => low = end + 1,
            Ordering::Less => low = end + 1,
            Ordering::Equal => return Some(rest),
            Ordering::Greater => high = start,
        }
    }
    None
}

fn parse(alternative: &'static str) -> KernelTypes {
    let mut types = KernelTypes::default();
    for word in alternative.split(' ') {
        match word.split_once('=') {
            Some(("label", label)) => types.label = label,
            Some(("priority", priority)) => types.priority = priority.parse().unwrap_or(0),
            // Values that are no types: the kernels check those attrs.
            Some((attr, names)) => {
                let dtypes: Option<Vec<DType>> = names.split('|').map(DType::from_name).collect();
                types.constraints.extend(dtypes.map(|dtypes| (attr.into(), dtypes)));
            }
            None => {}
        }
    }
    types
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_found_and_understood() {
        let lines = || TABLE.lines().filter(|line| !line.starts_with('#'));
        assert!(lines().count() > 1400);
        for text in lines() {
            let (name, rest) = text.split_once(' ').unwrap();
            assert_eq!(line(name), Some(rest));
            for word in rest.split(' ').filter_map(|word| word.split_once('=')) {
                let is_type = |name: &str| DType::from_name(name).is_some();
                let others = ["label", "priority", "is_max_k", "reduction_dimension"];
                let is_other = others.contains(&word.0) || word.1.starts_with('\'');
                assert!(is_other || word.1.split('|').all(is_type), "{text}");
            }
        }
        for name in ["", "#", "A", "AddV", "AddV22", "Zzz"] {
            assert_eq!(get(name), None, "{name}");
        }
    }

    #[test]
    fn alternatives_labels_and_priorities() {
        let angle = get("Angle").unwrap();
        let double = KernelTypes {
            constraints: vec![
                ("T".into(), vec![DType::COMPLEX128]),
                ("Tout".into(), vec![DType::DOUBLE]),
            ],
            ..KernelTypes::default()
        };
        assert_eq!((angle.len(), &angle[0]), (2, &double));
        assert_eq!(get("Cast").unwrap(), [KernelTypes::default()]);
        assert_eq!(get("AnonymousIterator").unwrap()[0].priority, 2);
        assert_eq!(get("DataFormatDimMap").unwrap()[1].label, "host");
    }
}

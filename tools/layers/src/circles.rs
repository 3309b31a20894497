//! Circles among imports.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::modules::Import;

/// The imports by the file that has them.
type ByFile<'i> = BTreeMap<&'i str, Vec<&'i Import>>;

/// For each group of files that reach each other, a shortest circle through the first file of the group.
pub(crate) fn find(imports: &BTreeSet<Import>) -> Vec<Vec<&Import>> {
    let mut by_file = ByFile::new();
    for import in imports {
        by_file.entry(&import.from).or_default().push(import);
    }
    let reached: BTreeMap<&str, BTreeMap<&str, &Import>> =
        by_file.keys().map(|&file| (file, reach(file, &by_file))).collect();
    let mut covered: BTreeSet<&str> = BTreeSet::new();
    let mut circles = Vec::new();
    for (&file, ways) in &reached {
        if covered.contains(file) || !ways.contains_key(file) {
            continue;
        }
        let reaches_back =
            |other: &&str| reached.get(other).is_some_and(|ways| ways.contains_key(file));
        covered.extend(ways.keys().filter(|other| reaches_back(other)));
        circles.push(circle(file, ways));
    }
    circles
}

/// The files that `start` imports, directly or through others, each with the import that leads to it first.
fn reach<'i>(start: &str, by_file: &ByFile<'i>) -> BTreeMap<&'i str, &'i Import> {
    let mut reached = BTreeMap::new();
    let mut queue = VecDeque::from([start]);
    while let Some(file) = queue.pop_front() {
        for &import in by_file.get(file).into_iter().flatten() {
            if !reached.contains_key(&*import.to) {
                reached.insert(&*import.to, import);
                queue.push_back(&import.to);
            }
        }
    }
    reached
}

/// The way from a file back to itself.
fn circle<'i>(start: &str, ways: &BTreeMap<&str, &'i Import>) -> Vec<&'i Import> {
    let mut circle = vec![ways[start]];
    let mut from = &*ways[start].from;
    while from != start {
        circle.push(ways[from]);
        from = &ways[from].from;
    }
    circle.reverse();
    circle
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_circle_of_each_group_is_found() {
        let cases: [(&[&str], &[&str]); 4] = [
            (&["a b", "b c", "a c"], &[]),
            (&["a b", "b a", "b c"], &["a b"]),
            (&["a b", "b c", "c d", "d a", "c a"], &["a b c"]),
            (&["x a", "a b", "b a", "c d", "d c"], &["a b", "c d"]),
        ];
        for (edges, expected) in cases {
            let imports = edges.iter().map(|edge| {
                let (from, to) = edge.split_once(' ').unwrap();
                Import { from: from.into(), to: to.into(), path: String::new() }
            });
            let imports = imports.collect();
            let files = |circle: &Vec<&Import>| {
                circle.iter().map(|import| import.from.clone()).collect::<Vec<_>>().join(" ")
            };
            let found: Vec<String> = find(&imports).iter().map(files).collect();
            assert_eq!(found, expected, "{edges:?}");
        }
    }
}

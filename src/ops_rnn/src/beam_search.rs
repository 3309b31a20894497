//! The search for the most probable labels of a sequence, a beam of prefixes at a time.

use std::collections::HashMap;

use num_traits::Float;

use crate::ctc_loss::log_sum;

/// Logarithms of the probabilities of a prefix: of all paths, of those that end with a blank, and with its last label.
#[derive(Clone, Copy)]
struct Probability<T> {
    total: T,
    blank: T,
    label: T,
}

impl<T: Float> Probability<T> {
    fn none() -> Probability<T> {
        let zero = T::neg_infinity();
        Probability { total: zero, blank: zero, label: zero }
    }
}

/// A prefix: its parent and one label more.
struct Prefix<T> {
    parent: Option<usize>,
    label: usize,
    old: Probability<T>,
    new: Probability<T>,
    children: HashMap<usize, usize>,
}

/// The search of one sequence.
pub(crate) struct Search<T> {
    width: usize,
    prefixes: Vec<Prefix<T>>,
    /// The best prefixes, of descending probability; of equals the first that came.
    leaves: Vec<usize>,
}

impl<T: Float> Search<T> {
    pub(crate) fn new(width: usize) -> Search<T> {
        let one = Probability { total: T::zero(), blank: T::zero(), label: T::neg_infinity() };
        let root = Prefix {
            parent: None,
            label: usize::MAX,
            old: Probability::none(),
            new: one,
            children: HashMap::new(),
        };
        Search { width, prefixes: vec![root], leaves: vec![0] }
    }

    fn is_active(&self, prefix: usize) -> bool {
        self.prefixes[prefix].new.total != T::neg_infinity()
    }

    /// Puts a prefix among the leaves, of which the last may have to go.
    fn push(&mut self, prefix: usize) {
        let total = self.prefixes[prefix].new.total;
        let place = self.leaves.partition_point(|&leaf| self.prefixes[leaf].new.total >= total);
        self.leaves.insert(place, prefix);
        self.leaves.truncate(self.width);
    }

    /// True if a prefix of this probability would be among the leaves.
    fn is_candidate(&self, total: T) -> bool {
        total > T::neg_infinity()
            && (self.leaves.len() < self.width
                || self.leaves.last().is_some_and(|&leaf| total > self.prefixes[leaf].new.total))
    }

    /// Goes on by one time with these inputs, of which the last is the blank's.
    pub(crate) fn step(&mut self, inputs: &[T]) {
        let blank = inputs.len() - 1;
        let largest = inputs.iter().fold(T::neg_infinity(), |a, &b| if a < b { b } else { a });
        let sum = inputs.iter().fold(T::zero(), |sum, &x| sum + (x - largest).exp());
        let offset = largest + sum.ln();
        let branches = std::mem::take(&mut self.leaves);
        for &branch in &branches {
            self.prefixes[branch].old = self.prefixes[branch].new;
        }
        for &branch in &branches {
            let (old, label, parent) = {
                let prefix = &self.prefixes[branch];
                (prefix.old, prefix.label, prefix.parent)
            };
            let mut new = self.prefixes[branch].new;
            if let Some(parent) = parent {
                if self.is_active(parent) {
                    let parent = &self.prefixes[parent];
                    let same = label == parent.label;
                    let before = if same { parent.old.blank } else { parent.old.total };
                    new.label = log_sum(new.label, before);
                }
                new.label = new.label + inputs[label] - offset;
            }
            new.blank = old.total + inputs[blank] - offset;
            new.total = log_sum(new.blank, new.label);
            self.prefixes[branch].new = new;
            self.push(branch);
        }
        for &branch in &branches {
            let (old, last) = (self.prefixes[branch].old, self.prefixes[branch].label);
            if !self.is_candidate(old.total) {
                continue;
            }
            for (label, &input) in inputs[..blank].iter().enumerate() {
                let known = self.prefixes[branch].children.get(&label).copied();
                if known.is_some_and(|child| self.is_active(child)) {
                    continue;
                }
                let before = if label == last { old.blank } else { old.total };
                let total = input - offset + before;
                let new = Probability { total, blank: T::neg_infinity(), label: total };
                if !self.is_candidate(total) {
                    if let Some(child) = known {
                        self.prefixes[child].old = Probability::none();
                        self.prefixes[child].new = Probability::none();
                    }
                    continue;
                }
                let child = known.unwrap_or_else(|| {
                    self.prefixes.push(Prefix {
                        parent: Some(branch),
                        label,
                        old: Probability::none(),
                        new,
                        children: HashMap::new(),
                    });
                    self.prefixes.len() - 1
                });
                self.prefixes[branch].children.insert(label, child);
                self.prefixes[child].new = new;
                if self.leaves.len() == self.width
                    && let Some(&bottom) = self.leaves.last()
                {
                    self.prefixes[bottom].new = Probability::none();
                    self.leaves.pop();
                }
                self.push(child);
            }
        }
    }

    /// The best labels and their logarithmic probability, so many of them, if there are as many.
    pub(crate) fn best(&self, count: usize, merge_repeated: bool) -> Option<Vec<(Vec<usize>, T)>> {
        let leaves = self.leaves.get(..count)?;
        let path = |&leaf: &usize| {
            let mut labels = Vec::new();
            let (mut at, mut previous) = (&self.prefixes[leaf], usize::MAX);
            while let Some(parent) = at.parent {
                if !merge_repeated || at.label != previous {
                    labels.push(at.label);
                }
                previous = at.label;
                at = &self.prefixes[parent];
            }
            labels.reverse();
            (labels, self.prefixes[leaf].new.total)
        };
        Some(leaves.iter().map(path).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_the_same_labels_are_added_up() {
        let mut search = Search::<f64>::new(8);
        // Even odds for label 0 and the blank, twice: nothing in one of four paths, the label in three. Twice the label needs a third
        // time.
        search.step(&[0.0, 0.0]);
        search.step(&[0.0, 0.0]);
        let best = search.best(2, false).unwrap();
        assert_eq!(best[0].0, [0]);
        assert!((best[0].1 - 0.75f64.ln()).abs() < 1e-12);
        assert_eq!(best[1].0, []);
        assert!((best[1].1 - 0.25f64.ln()).abs() < 1e-12);
        assert!(search.best(3, false).is_none());
    }
}

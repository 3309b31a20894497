//! Distributions of classes by how often each was seen.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use parking_lot::Mutex;
use tfcore_base::{Result, invalid, require};
use tfcore_framework::{Attrs, OpContext};

use crate::candidates::{Sampler, Words};

/// Each class has a weight of 1 more than the times that it was a true one.
pub(crate) struct LearnedUnigrams {
    range: i64,
    total: i64,
    counts: HashMap<i64, i64>,
    /// A Fenwick tree of the counts: node `n`, from 1, has those of the classes `n - (n & -n) .. n`.
    tree: HashMap<i64, i64>,
}

impl LearnedUnigrams {
    pub(crate) fn new(range: i64) -> LearnedUnigrams {
        LearnedUnigrams { range, total: range, counts: HashMap::new(), tree: HashMap::new() }
    }

    pub(crate) fn range(&self) -> i64 {
        self.range
    }

    /// The class in whose part of all weights, laid out in order, a uniform number falls.
    pub(crate) fn sample(&self, words: &mut Words) -> i64 {
        let mut left = i64::from(words.below_u32(self.total as u32));
        let mut class = 0;
        let mut step = 1i64 << self.range.ilog2();
        while step > 0 {
            let node = class + step;
            if node <= self.range {
                let weight = step + self.tree.get(&node).copied().unwrap_or(0);
                if weight <= left {
                    left -= weight;
                    class = node;
                }
            }
            step /= 2;
        }
        class
    }

    pub(crate) fn probability(&self, class: i64) -> f32 {
        (1 + self.counts.get(&class).copied().unwrap_or(0)) as f32 / self.total as f32
    }

    pub(crate) fn learn(&mut self, classes: &[i64]) {
        let room = (i64::from(i32::MAX) - self.total) as usize;
        for &class in classes.iter().take(room) {
            self.total += 1;
            *self.counts.entry(class).or_default() += 1;
            let mut node = class + 1;
            while node <= self.range {
                *self.tree.entry(node).or_default() += 1;
                node += node & -node;
            }
        }
    }
}

/// Weights from an attr or from a file.
pub(crate) struct FixedUnigrams {
    range: i64,
    distortion: f32,
    reserved: i64,
    shards: i64,
    shard: i64,
    vocabulary: String,
    /// Made at once from an attr, from a file at the first run.
    weights: Mutex<Option<Weights>>,
}

#[derive(Default)]
struct Weights {
    weights: Vec<f32>,
    total: f32,
    /// For each class the probability that it is taken if it is hit; else the other one is.
    alternatives: Vec<(f32, usize)>,
}

impl FixedUnigrams {
    /// # Errors
    /// `InvalidArgument` for attrs that contradict each other.
    pub(crate) fn new(attrs: &Attrs) -> Result<FixedUnigrams> {
        let vocabulary = attrs.str("vocab_file")?.to_string();
        let unigrams = attrs.floats("unigrams")?;
        require!(
            !vocabulary.is_empty() || !unigrams.is_empty(),
            "Must provide either vocab_file or unigrams."
        );
        require!(
            vocabulary.is_empty() || unigrams.is_empty(),
            "Must only provide one of vocab_file and unigrams."
        );
        let fixed = FixedUnigrams {
            range: attrs.int("range_max")?,
            distortion: attrs.float("distortion")?,
            reserved: attrs.int("num_reserved_ids")?,
            shards: attrs.int("num_shards")?.max(1),
            shard: attrs.int("shard")?,
            vocabulary,
            weights: Mutex::new(None),
        };
        if fixed.vocabulary.is_empty() {
            *fixed.weights.lock() = Some(fixed.weights(unigrams.iter().map(|&weight| Ok(weight)))?);
        }
        Ok(fixed)
    }

    /// The classes of this shard: those that are reserved, without weight, then those that are given.
    fn weights(&self, given: impl Iterator<Item = Result<f32>>) -> Result<Weights> {
        let is_ours = |class: &i64| class % self.shards == self.shard;
        // A claim that the weights cannot meet must not be filled.
        let reserved =
            (0..self.reserved.min(self.range.saturating_mul(self.shards))).filter(is_ours);
        let mut weights: Vec<f32> = reserved.map(|_| 0.0).collect();
        let mut total = 0.0;
        for (class, weight) in (weights.len() as i64..).zip(given) {
            if is_ours(&class) {
                let weight = weight?.powf(self.distortion);
                total += weight;
                weights.push(weight);
            }
        }
        require!(
            weights.len() as i64 == self.range,
            "range is {} must be equal to weights size  {}",
            self.range,
            weights.len()
        );
        let alternatives = alternatives(&weights);
        Ok(Weights { weights, total, alternatives })
    }
}

/// Walker's table: pairs classes of less than the mean weight with ones of more.
fn alternatives(weights: &[f32]) -> Vec<(f32, usize)> {
    let count = weights.len();
    let sum: f64 = weights.iter().map(|&weight| f64::from(weight)).sum();
    let mut shares: Vec<f64> =
        weights.iter().map(|weight| f64::from(weight * count as f32) / sum).collect();
    let (mut low, mut high): (Vec<usize>, Vec<usize>) =
        (0..count).partition(|&class| shares[class] < 1.0);
    let mut table: Vec<(f32, usize)> = (0..count).map(|class| (1.0, class)).collect();
    let mut paired = vec![false; count];
    while let (Some(&l), Some(&h)) = (low.last(), high.last()) {
        low.pop();
        high.pop();
        table[l].1 = h;
        paired[l] = true;
        shares[h] -= 1.0 - shares[l];
        if shares[h] < 1.0 { low.push(h) } else { high.push(h) }
    }
    for class in (0..count).filter(|&class| paired[class]) {
        table[class].0 = shares[class] as f32;
    }
    table
}

impl Sampler for FixedUnigrams {
    fn range(&self) -> i64 {
        self.range
    }

    fn prepare(&self, ctx: &OpContext<'_>) -> Result<()> {
        let mut weights = self.weights.lock();
        if weights.is_none() {
            let path = Path::new(OsStr::from_bytes(self.vocabulary.as_bytes()));
            let text = ctx.step().files.read(path)?;
            let text = String::from_utf8_lossy(&text).replace('\r', "");
            let lines = text.lines().filter(|line| !line.is_empty());
            *weights = Some(self.weights(lines.map(|line| {
                let last = line.rsplit(',').next().unwrap_or(line).trim();
                last.parse().map_err(|_| invalid!("Wrong vocabulary format at line: {line}"))
            }))?);
        }
        Ok(())
    }

    fn sample(&self, words: &mut Words) -> i64 {
        let weights = self.weights.lock();
        let Some(weights) = weights.as_ref() else { return 0 };
        let uniform = words.next_f32();
        let class = words.below_u32(weights.alternatives.len() as u32) as usize;
        let (probability, other) = weights.alternatives[class];
        (if uniform < probability { class } else { other }) as i64
    }

    fn probability(&self, class: i64) -> f32 {
        let weights = self.weights.lock();
        let Some(weights) = weights.as_ref() else { return 0.0 };
        weights.weights.get(class as usize).map_or(0.0, |weight| weight / weights.total)
    }

    fn support(&self) -> i64 {
        let weights = self.weights.lock();
        let weights = weights.as_ref().map_or(&[][..], |weights| &weights.weights);
        weights.iter().filter(|&&weight| weight > 0.0).count() as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tfcore_math::philox::Philox;

    #[test]
    fn classes_are_drawn_as_often_as_they_weigh() {
        let mut learned = LearnedUnigrams::new(5);
        learned.learn(&[3, 3, 3, 0, 4]);
        assert_eq!([0, 1, 3].map(|class| learned.probability(class)), [0.2, 0.1, 0.4]);
        let mut words = Words::new(Philox::new(1, 2));
        let mut counts = [0i32; 5];
        (0..10_000).for_each(|_| counts[learned.sample(&mut words) as usize] += 1);
        for (count, expected) in counts.into_iter().zip([2000, 1000, 1000, 4000, 2000]) {
            assert!((count - expected).abs() < 200, "{counts:?}");
        }
    }

    #[test]
    fn pairs_make_up_the_weights() {
        let weights = [1.0f32, 2.0, 3.0, 4.0, 0.5];
        let mut shares = [0.0; 5];
        for (class, (probability, other)) in alternatives(&weights).into_iter().enumerate() {
            shares[class] += probability / 5.0;
            shares[other] += (1.0 - probability) / 5.0;
        }
        for (share, weight) in shares.into_iter().zip(weights) {
            assert!((share - weight / 10.5).abs() < 1e-6, "{shares:?}");
        }
    }
}

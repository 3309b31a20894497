//! Candidate samplers: classes that a loss compares the true ones with.

use std::collections::HashSet;

use parking_lot::Mutex;
use tfcore_base::{Result, invalid, require};
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_ops,
};
use tfcore_math::philox::{Philox, to_f32, to_f64};
use tfcore_tensor::{PartialShape, Shape};

use crate::stateful::Generator;
use crate::unigrams::{FixedUnigrams, LearnedUnigrams};

pub(crate) fn register(r: &mut Registry) {
    // `UniformCandidateSampler(true_classes: int64; num_true, num_sampled, unique, range_max, seed, seed2) ->
    // (sampled_candidates: int64, true_expected_count: float, sampled_expected_count: float)`; likewise the others, which
    // differ in the distribution of the candidates.
    let ranged = |make: fn(i64) -> Result<Box<dyn Sampler>>| {
        move |init: &KernelInit<'_>| candidates(init, make(init.attrs.int("range_max")?)?)
    };
    r.op("UniformCandidateSampler")
        .shape(candidate_shape)
        .cpu(ranged(|range| Ok(Box::new(Uniform { range }))));
    r.op("LogUniformCandidateSampler")
        .shape(candidate_shape)
        .cpu(ranged(|range| Ok(Box::new(LogUniform { range, log_range: (range as f64).ln_1p() }))));
    for op in ["LearnedUnigramCandidateSampler", "ThreadUnsafeUnigramCandidateSampler"] {
        r.op(op).shape(candidate_shape).cpu(ranged(|range| {
            let limit = i64::from(i32::MAX);
            require!(
                range < limit,
                "range_max must be less than {limit} for unigram samplers, got {range}"
            );
            Ok(Box::new(Mutex::new(LearnedUnigrams::new(range))))
        }));
    }
    r.op("AllCandidateSampler").shape(candidate_shape).cpu(|init| {
        let range = init.attrs.int("num_sampled")?;
        candidates(init, Box::new(All { range }))
    });
    r.op("FixedUnigramCandidateSampler")
        .shape(candidate_shape)
        .cpu(|init| candidates(init, Box::new(FixedUnigrams::new(init.attrs)?)));
}

fn candidate_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let (sampled, truths) = (ctx.attrs.int("num_sampled")?, ctx.attrs.int("num_true")?);
    let classes = shape_ops::with_rank(ctx.input(0), 2)?;
    ctx.set_output(0, PartialShape::vector(sampled));
    ctx.set_output(1, PartialShape::matrix(classes.dim(0), truths));
    ctx.set_output(2, PartialShape::vector(sampled));
    Ok(())
}

/// Random numbers from the words of a stream, one word after the other.
pub(crate) struct Words {
    stream: Philox,
    group: [u32; 4],
    used: usize,
}

impl Words {
    pub(crate) fn new(stream: Philox) -> Words {
        Words { stream, group: [0; 4], used: 4 }
    }

    pub(crate) fn next_u32(&mut self) -> u32 {
        if self.used == 4 {
            self.group = self.stream.next4();
            self.used = 0;
        }
        self.used += 1;
        self.group[self.used - 1]
    }

    fn next_u64(&mut self) -> u64 {
        let (low, high) = (self.next_u32(), self.next_u32());
        u64::from(high) << 32 | u64::from(low)
    }

    pub(crate) fn next_f32(&mut self) -> f32 {
        to_f32(self.next_u32())
    }

    fn next_f64(&mut self) -> f64 {
        let (first, second) = (self.next_u32(), self.next_u32());
        to_f64(first, second)
    }

    /// A number below `n`, all with the same probability.
    pub(crate) fn below_u32(&mut self, n: u32) -> u32 {
        if n.is_power_of_two() {
            return self.next_u32() & (n - 1);
        }
        let remainder = u32::MAX % n + 1;
        loop {
            let word = self.next_u32();
            if word >= remainder {
                return word % n;
            }
        }
    }

    pub(crate) fn below_u64(&mut self, n: u64) -> u64 {
        if n.is_power_of_two() {
            return self.next_u64() & (n - 1);
        }
        let remainder = u64::MAX % n + 1;
        loop {
            let word = self.next_u64();
            if word >= remainder {
                return word % n;
            }
        }
    }
}

/// A distribution of classes.
pub(crate) trait Sampler: Send + Sync {
    /// Classes are the numbers below this one.
    fn range(&self) -> i64;

    /// Gets ready for a run.
    fn prepare(&self, _: &OpContext<'_>) -> Result<()> {
        Ok(())
    }

    fn sample(&self, words: &mut Words) -> i64;

    fn probability(&self, class: i64) -> f32;

    /// The number of classes that may be drawn at all.
    fn support(&self) -> i64 {
        self.range()
    }

    /// Notes the true classes of a run.
    fn learn(&self, _: &[i64]) {}

    /// True if each class is drawn once, in order.
    fn takes_all(&self) -> bool {
        false
    }
}

struct Uniform {
    range: i64,
}

impl Sampler for Uniform {
    fn range(&self) -> i64 {
        self.range
    }

    fn sample(&self, words: &mut Words) -> i64 {
        words.below_u64(self.range as u64) as i64
    }

    fn probability(&self, _: i64) -> f32 {
        (1.0 / self.range as f64) as f32
    }
}

/// Class `c` with a probability proportional to `log(c + 2) - log(c + 1)`.
struct LogUniform {
    range: i64,
    log_range: f64,
}

impl Sampler for LogUniform {
    fn range(&self) -> i64 {
        self.range
    }

    fn sample(&self, words: &mut Words) -> i64 {
        let value = (words.next_f64() * self.log_range).exp() as i64 - 1;
        // Rounding may lead to the range's end.
        value.max(0) % self.range
    }

    fn probability(&self, class: i64) -> f32 {
        let class = class as f64;
        (((class + 2.0) / (class + 1.0)).ln() / self.log_range) as f32
    }
}

struct All {
    range: i64,
}

impl Sampler for All {
    fn range(&self) -> i64 {
        self.range
    }

    fn sample(&self, _: &mut Words) -> i64 {
        0
    }

    fn probability(&self, _: i64) -> f32 {
        1.0
    }

    fn takes_all(&self) -> bool {
        true
    }
}

impl Sampler for Mutex<LearnedUnigrams> {
    fn range(&self) -> i64 {
        self.lock().range()
    }

    fn sample(&self, words: &mut Words) -> i64 {
        self.lock().sample(words)
    }

    fn probability(&self, class: i64) -> f32 {
        self.lock().probability(class)
    }

    fn learn(&self, classes: &[i64]) {
        self.lock().learn(classes);
    }
}

fn candidates(init: &KernelInit<'_>, sampler: Box<dyn Sampler>) -> Result<Box<dyn Kernel>> {
    let (sampled, truths) = (init.attrs.int("num_sampled")?, init.attrs.int("num_true")?);
    let unique = init.attrs.bool("unique")?;
    let generator = Generator::new(init)?;
    kernel(move |ctx: &mut OpContext<'_>| {
        sampler.prepare(ctx)?;
        let classes = ctx.input(0)?;
        require!(classes.rank() == 2, "true_classes must be a matrix");
        require!(
            classes.shape().dims()[1] == truths,
            "true_classes must have num_true columns, expected: {} was: {truths}",
            classes.dim(1)
        );
        let range = sampler.range();
        require!(!unique || sampled <= range, "Sampler's range is too small.");
        let true_classes = classes.as_slice::<i64>()?;
        if let Some(class) = true_classes.iter().find(|class| !(0..range).contains(class)) {
            return Err(invalid!("`true_candidate` out of range [0, {range}), received {class}"));
        }
        require!(
            !unique || sampled <= sampler.support(),
            "Only {} classes have a weight, but {sampled} different ones are wanted",
            sampler.support()
        );
        let shape = Shape::new(&[sampled])?;
        let mut drawn = ctx.allocate_output(0, shape.clone())?;
        let drawn_classes = drawn.as_mut_slice::<i64>()?;
        let count = drawn_classes.len();
        let stream = generator.reserve_words(count.saturating_mul(2048));
        let tries = draw(&*sampler, unique, &mut Words::new(stream), drawn_classes);
        let expected = |class: &i64| match sampler.takes_all() {
            true => 1.0,
            false => expected_count(sampler.probability(*class), count, tries),
        };
        ctx.produce(1, classes.shape().clone(), |out| {
            for (out, class) in out.typed::<f32>().iter_mut().zip(true_classes) {
                *out = expected(class);
            }
        })?;
        let drawn_classes = drawn.as_slice::<i64>()?;
        ctx.produce(2, shape, |out| {
            for (out, class) in out.typed::<f32>().iter_mut().zip(drawn_classes) {
                *out = expected(class);
            }
        })?;
        ctx.set_output(0, drawn.clone());
        sampler.learn(true_classes);
        Ok(())
    })
}

/// Fills `drawn`. Returns the number of draws that it took.
fn draw(sampler: &dyn Sampler, unique: bool, words: &mut Words, drawn: &mut [i64]) -> usize {
    if sampler.takes_all() {
        for (class, drawn) in (0..).zip(drawn.iter_mut()) {
            *drawn = class;
        }
        return drawn.len();
    }
    let mut used = HashSet::new();
    let mut tries = 0;
    for drawn in drawn {
        *drawn = loop {
            tries += 1;
            let class = sampler.sample(words);
            if !unique || used.insert(class) {
                break class;
            }
        };
    }
    tries
}

/// How often a class of probability `p` is expected among `count` that were drawn in so many tries.
fn expected_count(p: f32, count: usize, tries: usize) -> f32 {
    match tries == count {
        true => p * count as f32,
        // 1 - (1 - p)^tries
        false => -(tries as f32 * (-p).ln_1p()).exp_m1(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_expected() {
        assert_eq!(expected_count(0.1, 4, 4), 0.4);
        // 1 - 0.9^5
        assert!((expected_count(0.1, 4, 5) - 0.409_51).abs() < 1e-6);
    }

    #[test]
    fn unique_draws_differ() {
        let mut drawn = [0; 10];
        let sampler = LogUniform { range: 10, log_range: 11f64.ln() };
        let tries = draw(&sampler, true, &mut Words::new(Philox::new(3, 4)), &mut drawn);
        assert!(tries >= 10);
        drawn.sort_unstable();
        assert_eq!(drawn, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        let total: f32 = (0..10).map(|class| sampler.probability(class)).sum();
        assert!((total - 1.0).abs() < 1e-6);
    }
}

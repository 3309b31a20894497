//! Datasets that ask others for elements by index.

use std::sync::Arc;

use tfcore_base::{Result, failed_precondition, invalid, out_of_range, require};
use tfcore_framework::Registry;

use crate::args::{Args, Build, Captured, dataset_kernel, handle_shape};
use crate::dataset::{
    Dataset, Element, Elements, Handle, INFINITE, Iter, IterContext, Rule, UNKNOWN,
};
use crate::random::Seeds;

pub(crate) fn register(r: &mut Registry) {
    for (name, build) in [
        // `GlobalShuffleDataset(input_dataset: variant, seed: int64, seed2: int64, seed_generator: resource) -> handle`.
        ("GlobalShuffleDataset", global_shuffle as Build),
        // `WeightedFlatMapDataset(input_datasets: N * variant, weights: M * double) -> handle`, one after the other.
        ("WeightedFlatMapDataset", weighted),
        // `IndexFlatMapDataset(input_dataset: variant, ..., output_cardinality: int64) -> handle`, the rows of
        // `map_func(element)`.
        ("IndexFlatMapDataset", index_flat_map),
        // `ChooseFastestBranchDataset(input_dataset: variant, ...) -> handle`, any of equal branches.
        ("ChooseFastestBranchDataset", branch),
    ] {
        r.op(name).shape(handle_shape).cpu(move |init| dataset_kernel(init, build));
    }
}

/// Element `index` of a dataset, which must have random access.
fn required_at(dataset: &Dataset, index: u64, ctx: &IterContext) -> Result<Element> {
    dataset.at(index, ctx).unwrap_or_else(|| Err(no_access(&dataset.name)))
}

fn no_access(name: &str) -> tfcore_base::Error {
    failed_precondition!(
        "`global_shuffle` requires all upstream transformations be compatible with random access. Got {name}Dataset."
    )
}

struct GlobalShuffle {
    input: Handle,
    seeds: Arc<Seeds>,
}

fn global_shuffle(args: &mut Args<'_, '_>) -> Result<Arc<dyn Rule>> {
    let reseeds = args.attrs().bool("reshuffle_each_iteration")?;
    let seeds = Seeds::of_node(args, reseeds)?;
    let input = args.dataset("input_dataset")?;
    if input.cardinality() < 0 {
        let what = if input.cardinality() == INFINITE { "is infinite" } else { "is unknown" };
        return Err(failed_precondition!(
            "`global_shuffle` requires all upstream transformations be compatible with random access. The cardinality \
             of {}Dataset {what}.",
            input.name
        ));
    }
    Ok(Arc::new(GlobalShuffle { input, seeds }))
}

impl Rule for GlobalShuffle {
    fn cardinality(&self) -> i64 {
        self.input.cardinality()
    }

    fn iterate(self: Arc<Self>, _: &IterContext) -> Result<Iter> {
        let ((first, second), (third, _)) = (self.seeds.next(), self.seeds.next());
        let key = [first as u32, second as u32, third as u32];
        let permutation = Permutation::new(self.input.cardinality().max(0) as u64, key);
        let mut next = 0;
        Iter::new(move |ctx| {
            if next == permutation.count {
                return Ok(None);
            }
            next += 1;
            required_at(&self.input, permutation.of(next - 1), ctx).map(Some)
        })
    }
}

/// A permutation of `0..count` that takes no memory: the Simon cipher on blocks of as many bits as the numbers have, 16 at least,
/// applied again to what lies outside.
struct Permutation {
    count: u64,
    /// Bits of half a block, 8 to 32.
    bits: u32,
    keys: [u64; Permutation::ROUNDS],
}

impl Permutation {
    const ROUNDS: usize = 8;

    fn new(count: u64, key: [u32; 3]) -> Permutation {
        // The reference takes the logarithm of the largest number, so that a power of two has a bit less than it needs.
        let largest = count.saturating_sub(1);
        let bits = if largest <= 1 { 0 } else { 64 - (largest - 1).leading_zeros() };
        let bits = (bits + bits % 2).clamp(16, 64) / 2;
        let mut permutation = Permutation { count, bits, keys: [0; Permutation::ROUNDS] };
        let mask = permutation.mask();
        let mut constants = 0x7369_f885_192c_0ef5u64 & mask;
        for round in 0..Permutation::ROUNDS {
            permutation.keys[round] = match key.get(round) {
                Some(&word) => u64::from(word) & mask,
                None => {
                    let (first, last) = (permutation.keys[round - 3], permutation.keys[round - 1]);
                    let turned =
                        permutation.turned(last, bits - 3) ^ permutation.turned(last, bits - 4);
                    let mixed = 0xffff_fffc & mask ^ constants & 1 ^ first ^ turned;
                    constants >>= 1;
                    mixed
                }
            };
        }
        permutation
    }

    fn mask(&self) -> u64 {
        (1 << self.bits) - 1
    }

    /// A word rotated to the left.
    fn turned(&self, word: u64, by: u32) -> u64 {
        (word << by | word >> (self.bits - by)) & self.mask()
    }

    fn of(&self, index: u64) -> u64 {
        let mut value = index;
        // A cipher comes back to where it began: a number that it never brings inside is one that does not fit the block.
        loop {
            value = self.cipher(value);
            if value < self.count {
                return value;
            }
        }
    }

    fn cipher(&self, value: u64) -> u64 {
        let mix =
            |word| self.turned(word, 1) & self.turned(word, 8 % self.bits) ^ self.turned(word, 2);
        let (mut left, mut right) = (value >> self.bits & self.mask(), value & self.mask());
        for pair in self.keys.chunks(2) {
            left ^= mix(right) ^ pair[0];
            right ^= mix(left) ^ pair[1];
        }
        left << self.bits | right
    }
}

struct Weighted {
    inputs: Vec<Handle>,
    /// The elements of each input that belong to the dataset.
    counts: Vec<u64>,
}

fn weighted(args: &mut Args<'_, '_>) -> Result<Arc<dyn Rule>> {
    let inputs = args.datasets("input_datasets")?;
    let mut weights = Vec::new();
    for tensor in args.tensors("weights")? {
        let weight: f64 = tensor.scalar_value()?;
        require!(weight > 0.0, "`weights` must be greater than 0.0, got {weight}");
        weights.push(weight);
    }
    require!(
        weights.len() == inputs.len(),
        "The number of weights must be that of the input datasets"
    );
    let total: f64 = weights.iter().sum();
    // As many elements as the input allows that is used up first.
    let mut limit = f64::INFINITY;
    for (input, weight) in inputs.iter().zip(&weights) {
        let size = input.cardinality();
        require!(
            size >= 0,
            "`weighted_flat_map` requires inputs of known size, got {}Dataset",
            input.name
        );
        limit = limit.min(size as f64 / (weight / total));
    }
    let counts = inputs.iter().zip(&weights).map(|(input, weight)| {
        let share = (weight / total * limit).floor() as u64;
        share.min(input.cardinality().max(0) as u64)
    });
    let counts = counts.collect();
    Ok(Arc::new(Weighted { inputs, counts }))
}

impl Rule for Weighted {
    fn cardinality(&self) -> i64 {
        self.counts.iter().fold(0i64, |sum, &count| sum.saturating_add(count as i64))
    }

    fn iterate(self: Arc<Self>, ctx: &IterContext) -> Result<Iter> {
        let passes = self.inputs.iter().map(|input| input.iterate(ctx)).collect::<Result<Vec<_>>>();
        let mut passes = passes?;
        let (mut input, mut taken) = (0, 0);
        Iter::new(move |ctx| {
            while let Some(pass) = passes.get_mut(input) {
                if taken < self.counts[input]
                    && let Some(element) = pass.next(ctx)?
                {
                    taken += 1;
                    return Ok(Some(element));
                }
                (input, taken) = (input + 1, 0);
            }
            Ok(None)
        })
    }

    fn at(&self, index: u64, ctx: &IterContext) -> Option<Result<Element>> {
        let mut rest = index;
        for (input, &count) in self.inputs.iter().zip(&self.counts) {
            if rest < count {
                return input.at(rest, ctx);
            }
            rest -= count;
        }
        Some(Err(out_of_range!("Index out of range [0, {}):{index}", self.cardinality())))
    }
}

struct IndexFlatMap {
    input: Handle,
    map: Captured,
    index_map: Captured,
    cardinality: i64,
}

fn index_flat_map(args: &mut Args<'_, '_>) -> Result<Arc<dyn Rule>> {
    let map = args.function("map_func", "map_func_other_args")?;
    let index_map = args.function("index_map_func", "index_map_func_other_args")?;
    let cardinality: i64 = args.scalar("output_cardinality")?;
    Ok(Arc::new(IndexFlatMap {
        input: args.dataset("input_dataset")?,
        map,
        index_map,
        cardinality,
    }))
}

impl IndexFlatMap {
    /// Row `index` of what `map_func` makes of an element.
    fn part(&self, ctx: &IterContext, element: Element, index: i64) -> Result<Element> {
        let parts = self.map.call(ctx, element)?;
        let part = |tensor: &tfcore_tensor::Tensor| {
            let rows = if tensor.rank() == 0 { 0 } else { tensor.dim(0) };
            match usize::try_from(index) {
                Ok(index) if index < rows => crate::rows::row(tensor, index),
                _ => Err(out_of_range!("Index out of range [0, {rows}):{index}")),
            }
        };
        parts.iter().map(part).collect()
    }
}

impl Rule for IndexFlatMap {
    fn cardinality(&self) -> i64 {
        self.cardinality
    }

    fn iterate(self: Arc<Self>, ctx: &IterContext) -> Result<Iter> {
        let mut input = self.input.iterate(ctx)?;
        let mut rows: Element = Vec::new();
        let mut next = 0;
        Iter::new(move |ctx| {
            loop {
                if rows.first().is_some_and(|tensor| tensor.rank() > 0 && next < tensor.dim(0)) {
                    next += 1;
                    let row = rows.iter().map(|tensor| crate::rows::row(tensor, next - 1));
                    return row.collect::<Result<_>>().map(Some);
                }
                let Some(element) = input.next(ctx)? else {
                    return Ok(None);
                };
                (rows, next) = (self.map.call(ctx, element)?, 0);
                require!(
                    rows.iter().all(|row| row.rank() > 0 && row.dim(0) == rows[0].dim(0)),
                    "`map_func` must return components with the same number of rows"
                );
            }
        })
    }

    fn at(&self, index: u64, ctx: &IterContext) -> Option<Result<Element>> {
        let place = || -> Result<(u64, i64)> {
            let index = tfcore_tensor::Tensor::scalar(index as i64);
            let places = self.index_map.call(ctx, vec![index])?;
            let [element, row] = &places[..] else {
                return Err(invalid!("`index_map_func` must return two indices"));
            };
            let element = element.to_i64s()?.first().copied().unwrap_or(-1);
            let element = u64::try_from(element).map_err(|_| out_of_range!("Index {element}"))?;
            Ok((element, row.to_i64s()?.first().copied().unwrap_or(-1)))
        };
        let (element, row) = match place() {
            Ok(place) => place,
            Err(error) => return Some(Err(error)),
        };
        let element = self.input.at(element, ctx)?;
        Some(element.and_then(|element| self.part(ctx, element, row)))
    }
}

struct Branch {
    input: Handle,
    branch: Captured,
    /// Elements of the input for each call of the branch.
    size: usize,
}

fn branch(args: &mut Args<'_, '_>) -> Result<Arc<dyn Rule>> {
    let func = args.attrs().funcs("branches")?.first().cloned();
    let func = func.ok_or_else(|| invalid!("ChooseFastestBranchDataset needs a branch"))?;
    let lengths = args.attrs().ints("other_arguments_lengths")?;
    let count = lengths.first().and_then(|&count| usize::try_from(count).ok()).unwrap_or(0);
    let mut captured = args.tensors("other_arguments")?;
    captured.truncate(count);
    let branch = args.captured(&func.name, &func.attrs, captured)?;
    let numerator: i64 = args.scalar("ratio_numerator")?;
    let denominator: i64 = args.scalar("ratio_denominator")?;
    require!(numerator > 0, "`ratio_numerator` must be greater than zero.");
    require!(denominator > 0, "`ratio_denominator` must be greater than zero.");
    let elements = args.attrs().int("num_elements_per_branch")?;
    let size = elements.saturating_mul(numerator) / denominator;
    let size = usize::try_from(size.max(1)).unwrap_or(usize::MAX);
    Ok(Arc::new(Branch { input: args.dataset("input_dataset")?, branch, size }))
}

impl Rule for Branch {
    fn cardinality(&self) -> i64 {
        UNKNOWN
    }

    fn iterate(self: Arc<Self>, ctx: &IterContext) -> Result<Iter> {
        let mut input = self.input.iterate(ctx)?;
        let mut current: Option<Iter> = None;
        Iter::new(move |ctx| {
            let nested = ctx.nested()?;
            loop {
                if let Some(pass) = &mut current {
                    match pass.next(&nested)? {
                        None => current = None,
                        element => return Ok(element),
                    }
                }
                let elements = crate::batch::some_of(&mut input, ctx, self.size, false)?;
                let Some(elements) = elements else {
                    return Ok(None);
                };
                let signature = (self.input.dtypes.clone(), self.input.shapes.clone());
                let rule = Arc::new(Elements(elements));
                let part = Dataset::new("Window".to_string(), signature, Vec::new(), rule)?;
                let part = self.branch.dataset(&nested, vec![part.into_tensor()])?;
                current = Some(part.iterate(&nested)?);
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_comes_once() {
        for count in [0, 1, 2, 5, 64, 1000] {
            let permutation = Permutation::new(count, [3, 4, 5]);
            let mut all: Vec<u64> = (0..count).map(|index| permutation.of(index)).collect();
            if count == 1000 {
                assert!(!all.is_sorted());
            }
            all.sort_unstable();
            assert_eq!(all, (0..count).collect::<Vec<_>>());
        }
        for count in [70_000, 1 << 40, u64::MAX] {
            let large = Permutation::new(count, [3, 4, 5]);
            assert_ne!(large.of(0), large.of(1));
        }
    }
}

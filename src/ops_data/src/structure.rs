//! Datasets that pass the elements of others on: fewer, more often, or several datasets as one.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;
use tfcore_base::{DType, Result, invalid, require, unimplemented_error};
use tfcore_framework::{Registry, Resource, shape_fns};
use tfcore_tensor::Tensor;

use crate::args::{Args, dataset_kernel, handle_shape};
use crate::dataset::{
    Element, Handle, INFINITE, Iter, IterContext, Rule, UNKNOWN, at_index, at_most, only,
};
use crate::iterators::dummy;
use crate::random::Words;
use crate::resources::{self, Life, Named, set_anonymous};
use crate::rows::{key_of, row};

pub(crate) fn register(r: &mut Registry) {
    for (name, build) in [
        // `TakeDataset(input_dataset: variant, count: int64) -> handle`; all for a negative count.
        ("TakeDataset", take as crate::args::Build),
        // `SkipDataset(input_dataset: variant, count: int64) -> handle`; nothing is left for a negative count.
        ("SkipDataset", skip),
        // `RepeatDataset(input_dataset: variant, count: int64) -> handle`; without end for a negative count.
        ("RepeatDataset", repeat),
        // `ShardDataset(input_dataset: variant, num_shards: int64, index: int64) -> handle`, each `num_shards`-th.
        ("ShardDataset", shard),
        // `ZipDataset(input_datasets: N * variant) -> handle`, the components of all side by side.
        ("ZipDataset", zip),
        // `ConcatenateDataset(input_dataset: variant, another_dataset: variant) -> handle`.
        ("ConcatenateDataset", concatenate),
        // `CacheDataset(input_dataset: variant, filename: string) -> handle`.
        ("CacheDataset", cache),
        ("CacheDatasetV2", cache),
        // `SamplingDataset(input_dataset: variant, rate: float, seed: int64, seed2: int64) -> handle`.
        ("SamplingDataset", sampling),
        // `UnbatchDataset(input_dataset: variant) -> handle`, the rows of each element.
        ("UnbatchDataset", unbatch),
        ("ExperimentalUnbatchDataset", unbatch),
        // `UniqueDataset(input_dataset: variant) -> handle`, without those that came before.
        ("UniqueDataset", unique),
        ("ExperimentalUniqueDataset", unique),
        // `DirectedInterleaveDataset(selector_input_dataset: variant, data_input_datasets: N * variant) -> handle`.
        ("DirectedInterleaveDataset", directed),
        ("ExperimentalDirectedInterleaveDataset", directed),
        // `IgnoreErrorsDataset(input_dataset: variant) -> handle`, without the elements that fail.
        ("IgnoreErrorsDataset", ignore_errors),
        ("ExperimentalIgnoreErrorsDataset", ignore_errors),
        // `AssertCardinalityDataset(input_dataset: variant, cardinality: int64) -> handle`.
        ("AssertCardinalityDataset", assert_cardinality),
    ] {
        r.op(name).shape(handle_shape).cpu(move |init| dataset_kernel(init, build));
    }
    // `AnonymousMemoryCache() -> handle: resource, deleter: variant`.
    r.op("AnonymousMemoryCache")
        .shape(handle_shape)
        .compute(|ctx| set_anonymous(ctx, MemoryCache::default(), Life::Handles));
    r.op("DummyMemoryCache").shape(handle_shape).cpu(|init| dummy(init, MemoryCache::TYPE));
    r.op("DeleteMemoryCache").shape(shape_fns::no_outputs).compute(resources::delete_owned);
}

struct Take {
    input: Handle,
    count: i64,
}

fn take(args: &mut Args<'_, '_>) -> Result<Arc<dyn Rule>> {
    Ok(Arc::new(Take { input: args.dataset("input_dataset")?, count: args.scalar("count")? }))
}

impl Rule for Take {
    fn pass_name(&self) -> Option<&'static str> {
        Some(if self.count == 0 { "EmptyTake" } else { "FiniteTake" })
    }

    fn cardinality(&self) -> i64 {
        let all = self.input.cardinality();
        if self.count < 0 { all } else { at_most(all, self.count) }
    }

    fn iterate(self: Arc<Self>, ctx: &IterContext) -> Result<Iter> {
        let mut input = self.input.iterate(ctx)?;
        let mut left = if self.count < 0 { u64::MAX } else { self.count as u64 };
        Iter::new(move |ctx| {
            if left == 0 {
                return Ok(None);
            }
            let next = input.next(ctx)?;
            left = if next.is_some() { left - 1 } else { 0 };
            Ok(next)
        })
    }

    fn at(&self, index: u64, ctx: &IterContext) -> Option<Result<Element>> {
        match self.count >= 0 && index >= self.count as u64 {
            true => Some(at_index(&[], index)),
            false => self.input.at(index, ctx),
        }
    }
}

struct Skip {
    input: Handle,
    count: i64,
}

fn skip(args: &mut Args<'_, '_>) -> Result<Arc<dyn Rule>> {
    Ok(Arc::new(Skip { input: args.dataset("input_dataset")?, count: args.scalar("count")? }))
}

impl Rule for Skip {
    fn pass_name(&self) -> Option<&'static str> {
        Some(if self.count < 0 { "EmptySkip" } else { "FiniteSkip" })
    }

    fn cardinality(&self) -> i64 {
        match self.input.cardinality() {
            _ if self.count < 0 => 0,
            known if known >= 0 => (known - self.count).max(0),
            unknown => unknown,
        }
    }

    fn iterate(self: Arc<Self>, ctx: &IterContext) -> Result<Iter> {
        let mut input = self.input.iterate(ctx)?;
        let mut skipped = 0;
        Iter::new(move |ctx| {
            if self.count < 0 {
                return Ok(None);
            }
            while skipped < self.count {
                if input.next(ctx)?.is_none() {
                    return Ok(None);
                }
                skipped += 1;
            }
            input.next(ctx)
        })
    }

    fn at(&self, index: u64, ctx: &IterContext) -> Option<Result<Element>> {
        match u64::try_from(self.count).ok().and_then(|count| index.checked_add(count)) {
            Some(index) => self.input.at(index, ctx),
            None => Some(at_index(&[], index)),
        }
    }
}

struct Repeat {
    input: Handle,
    count: i64,
}

fn repeat(args: &mut Args<'_, '_>) -> Result<Arc<dyn Rule>> {
    Ok(Arc::new(Repeat { input: args.dataset("input_dataset")?, count: args.scalar("count")? }))
}

impl Rule for Repeat {
    fn pass_name(&self) -> Option<&'static str> {
        Some(match self.count {
            0 => "EmptyRepeat",
            count if count < 0 => "ForeverRepeat",
            _ => "FiniteRepeat",
        })
    }

    fn cardinality(&self) -> i64 {
        match (self.input.cardinality(), self.count) {
            (_, 0) | (0, _) => 0,
            (_, count) if count < 0 => INFINITE,
            (known, count) if known > 0 => known.saturating_mul(count),
            (unknown, _) => unknown,
        }
    }

    fn iterate(self: Arc<Self>, ctx: &IterContext) -> Result<Iter> {
        let mut input = Some(self.input.iterate(ctx)?);
        let mut left = if self.count < 0 { u64::MAX } else { self.count as u64 };
        let mut is_empty = true;
        Iter::new(move |ctx| {
            while left > 0 {
                ctx.check()?;
                let pass = match &mut input {
                    Some(pass) => pass,
                    None => input.insert(self.input.iterate(ctx)?),
                };
                if let Some(element) = pass.next(ctx)? {
                    is_empty = false;
                    return Ok(Some(element));
                }
                // An empty dataset is not tried again and again.
                left = if is_empty { 0 } else { left - 1 };
                (input, is_empty) = (None, true);
            }
            Ok(None)
        })
    }

    fn at(&self, index: u64, ctx: &IterContext) -> Option<Result<Element>> {
        let size = u64::try_from(self.input.cardinality()).ok().filter(|&size| size > 0)?;
        match self.count >= 0 && index / size >= self.count as u64 {
            true => Some(at_index(&[], index)),
            false => self.input.at(index % size, ctx),
        }
    }
}

struct Shard {
    input: Handle,
    count: i64,
    index: i64,
    require_non_empty: bool,
}

fn shard(args: &mut Args<'_, '_>) -> Result<Arc<dyn Rule>> {
    let (count, index): (i64, i64) = (args.scalar("num_shards")?, args.scalar("index")?);
    require!(
        count > 0,
        "Number of shards must be greater than zero (currently num_shards = {count})."
    );
    require!(
        index >= 0 && index < count,
        "Index must be between 0 and {} (currently index = {index}).",
        count - 1
    );
    let require_non_empty = args.attrs().bool("require_non_empty")?;
    Ok(Arc::new(Shard { input: args.dataset("input_dataset")?, count, index, require_non_empty }))
}

impl Rule for Shard {
    fn cardinality(&self) -> i64 {
        match self.input.cardinality() {
            known if known >= 0 => known / self.count + i64::from(self.index < known % self.count),
            unknown => unknown,
        }
    }

    fn iterate(self: Arc<Self>, ctx: &IterContext) -> Result<Iter> {
        let mut input = self.input.iterate(ctx)?;
        let mut number = 0u64;
        Iter::new(move |ctx| {
            let (count, index) = (self.count as u64, self.index as u64);
            loop {
                let Some(element) = input.next(ctx)? else {
                    return Ok(None);
                };
                let is_mine = number % count == index;
                number += 1;
                if !is_mine {
                    continue;
                }
                // The others of the first round are there too.
                while self.require_non_empty && number < count {
                    require!(
                        input.next(ctx)?.is_some(),
                        "Could not apply FilterDataset to shard the dataset: it has {number} elements for {count} \
                         shards"
                    );
                    number += 1;
                }
                return Ok(Some(element));
            }
        })
    }

    fn at(&self, index: u64, ctx: &IterContext) -> Option<Result<Element>> {
        let place = index.checked_mul(self.count as u64)?.checked_add(self.index as u64)?;
        self.input.at(place, ctx)
    }
}

struct Zip(Vec<Handle>);

fn zip(args: &mut Args<'_, '_>) -> Result<Arc<dyn Rule>> {
    Ok(Arc::new(Zip(args.datasets("input_datasets")?)))
}

impl Rule for Zip {
    fn cardinality(&self) -> i64 {
        let each: Vec<i64> = self.0.iter().map(|input| input.cardinality()).collect();
        match each.contains(&UNKNOWN) {
            true => UNKNOWN,
            false => each.into_iter().filter(|&size| size >= 0).min().unwrap_or(INFINITE),
        }
    }

    fn iterate(self: Arc<Self>, ctx: &IterContext) -> Result<Iter> {
        let inputs = self.0.iter().map(|input| input.iterate(ctx)).collect::<Result<Vec<_>>>();
        let mut inputs = inputs?;
        Iter::new(move |ctx| {
            let mut all = Vec::new();
            for input in &mut inputs {
                match input.next(ctx)? {
                    Some(element) => all.extend(element),
                    None => {
                        inputs.clear();
                        return Ok(None);
                    }
                }
            }
            Ok((!inputs.is_empty()).then_some(all))
        })
    }

    fn at(&self, index: u64, ctx: &IterContext) -> Option<Result<Element>> {
        let parts: Option<Vec<_>> = self.0.iter().map(|input| input.at(index, ctx)).collect();
        Some(parts?.into_iter().collect::<Result<Vec<_>>>().map(|parts| parts.concat()))
    }
}

struct Concatenate([Handle; 2]);

fn concatenate(args: &mut Args<'_, '_>) -> Result<Arc<dyn Rule>> {
    let both = [args.dataset("input_dataset")?, args.dataset("another_dataset")?];
    require!(
        both[0].dtypes == both[1].dtypes,
        "input dataset and dataset to concatenate have different output_types {} and {}",
        list(&both[0].dtypes),
        list(&both[1].dtypes)
    );
    Ok(Arc::new(Concatenate(both)))
}

/// `(int32, float)`
pub(crate) fn list<T: std::fmt::Display>(items: &[T]) -> String {
    let items: Vec<String> = items.iter().map(T::to_string).collect();
    format!("({})", items.join(", "))
}

impl Rule for Concatenate {
    fn cardinality(&self) -> i64 {
        match [self.0[0].cardinality(), self.0[1].cardinality()] {
            [INFINITE, _] | [_, INFINITE] => INFINITE,
            [UNKNOWN, _] | [_, UNKNOWN] => UNKNOWN,
            [first, second] => first.saturating_add(second),
        }
    }

    fn iterate(self: Arc<Self>, ctx: &IterContext) -> Result<Iter> {
        let mut input = self.0[0].iterate(ctx)?;
        let mut is_second = false;
        Iter::new(move |ctx| {
            let next = input.next(ctx)?;
            if next.is_some() || is_second {
                return Ok(next);
            }
            (input, is_second) = (self.0[1].iterate(ctx)?, true);
            input.next(ctx)
        })
    }

    fn at(&self, index: u64, ctx: &IterContext) -> Option<Result<Element>> {
        let first = u64::try_from(self.0[0].cardinality()).ok()?;
        match index.checked_sub(first) {
            Some(index) => self.0[1].at(index, ctx),
            None => self.0[0].at(index, ctx),
        }
    }
}

/// The elements of a pass that came to its end.
#[derive(Default, Clone)]
struct MemoryCache(Arc<Mutex<Option<Arc<Vec<Element>>>>>);

impl Resource for MemoryCache {
    fn type_name(&self) -> &'static str {
        MemoryCache::TYPE
    }
}

impl Named for MemoryCache {
    const TYPE: &'static str = "N10tensorflow4data18MemoryCacheManagerE";
    const ANONYMOUS: &'static str = "AnonymousMemoryCache";
}

struct Cache {
    input: Handle,
    cache: MemoryCache,
}

fn cache(args: &mut Args<'_, '_>) -> Result<Arc<dyn Rule>> {
    let input = args.dataset("input_dataset")?;
    let file = args.text("filename")?;
    if !file.is_empty() {
        return Err(unimplemented_error!(
            "CacheDataset with attr filename: caches in files are not supported"
        ));
    }
    // The handle of a dummy has no cache behind it: then the dataset has one of its own.
    let shared = match args.has_input("cache") {
        true => resources::find::<MemoryCache>(args.ctx, args.index("cache")?).ok(),
        false => None,
    };
    let cache = shared.map(|shared| (*shared).clone()).unwrap_or_default();
    Ok(Arc::new(Cache { input, cache }))
}

impl Rule for Cache {
    fn pass_name(&self) -> Option<&'static str> {
        Some("MemoryCache")
    }

    fn cardinality(&self) -> i64 {
        self.input.cardinality()
    }

    fn iterate(self: Arc<Self>, ctx: &IterContext) -> Result<Iter> {
        let known = self.cache.0.lock().clone();
        if let Some(known) = known {
            let mut next = 0;
            return Iter::new(move |_| {
                next += 1;
                Ok(known.get(next - 1).cloned())
            });
        }
        let mut input = self.input.iterate(ctx)?;
        let mut seen = Some(Vec::new());
        Iter::new(move |ctx| {
            let next = input.next(ctx)?;
            match (&next, &mut seen) {
                (Some(element), Some(seen)) => seen.push(element.clone()),
                (None, all) => {
                    if let Some(all) = all.take() {
                        self.cache.0.lock().get_or_insert_with(|| Arc::new(all));
                    }
                }
                _ => {}
            }
            Ok(next)
        })
    }

    fn at(&self, index: u64, ctx: &IterContext) -> Option<Result<Element>> {
        self.input.at(index, ctx)
    }
}

struct Sampling {
    input: Handle,
    rate: f32,
    seeds: (i64, i64),
}

fn sampling(args: &mut Args<'_, '_>) -> Result<Arc<dyn Rule>> {
    let rate = args.scalar("rate")?;
    let seeds = crate::random::Seeds::of_node(args, false)?.next();
    Ok(Arc::new(Sampling { input: args.dataset("input_dataset")?, rate, seeds }))
}

impl Rule for Sampling {
    fn iterate(self: Arc<Self>, ctx: &IterContext) -> Result<Iter> {
        let mut input = self.input.iterate(ctx)?;
        let mut words = Words::new(self.seeds);
        Iter::new(move |ctx| {
            loop {
                let next = input.next(ctx)?;
                if next.is_none() || tfcore_math::philox::to_f32(words.next()) < self.rate {
                    return Ok(next);
                }
            }
        })
    }
}

struct Unbatch {
    input: Handle,
    /// The rows of each element, if known.
    size: Option<i64>,
}

fn unbatch(args: &mut Args<'_, '_>) -> Result<Arc<dyn Rule>> {
    let input = args.dataset("input_dataset")?;
    let first = |shape: &tfcore_tensor::PartialShape| shape.dims()?.first()?.value();
    let size = input.shapes.iter().find_map(first);
    Ok(Arc::new(Unbatch { input, size }))
}

impl Rule for Unbatch {
    fn cardinality(&self) -> i64 {
        match (self.input.cardinality(), self.size) {
            (known, Some(size)) if known >= 0 => known.saturating_mul(size),
            (known, None) if known > 0 => UNKNOWN,
            (other, _) => other,
        }
    }

    fn iterate(self: Arc<Self>, ctx: &IterContext) -> Result<Iter> {
        let mut input = self.input.iterate(ctx)?;
        let (mut batch, mut next): (Element, usize) = (Vec::new(), 0);
        Iter::new(move |ctx| {
            loop {
                if batch.first().is_some_and(|component| next < component.dim(0)) {
                    next += 1;
                    let rows = batch.iter().map(|component| row(component, next - 1));
                    return rows.collect::<Result<_>>().map(Some);
                }
                (batch, next) = (Vec::new(), 0);
                let Some(element) = input.next(ctx)? else {
                    return Ok(None);
                };
                for (index, component) in element.iter().enumerate() {
                    require!(
                        component.rank() > 0,
                        "Input element must have a non-scalar value in each component."
                    );
                    require!(
                        component.dim(0) == element[0].dim(0),
                        "Input element must have the same batch size in each component. Component 0 had size {} \
                         but component {index} had size, {}.",
                        element[0].dim(0),
                        component.dim(0)
                    );
                }
                batch = element;
            }
        })
    }
}

struct Unique(Handle);

fn unique(args: &mut Args<'_, '_>) -> Result<Arc<dyn Rule>> {
    let input = args.dataset("input_dataset")?;
    let [dtype] = input.dtypes[..] else {
        return Err(invalid!("UniqueDataset only supports inputs with a single component."));
    };
    require!(
        [DType::INT32, DType::INT64, DType::STRING].contains(&dtype),
        "UniqueDataset only supports inputs with a single `tf.int32`, `tf.int64`, or `tf.string` component."
    );
    Ok(Arc::new(Unique(input)))
}

impl Rule for Unique {
    fn iterate(self: Arc<Self>, ctx: &IterContext) -> Result<Iter> {
        let mut input = self.0.iterate(ctx)?;
        let mut seen = HashSet::new();
        Iter::new(move |ctx| {
            while let Some(element) = input.next(ctx)? {
                let tensor = only(element)?;
                if seen.insert(key_of(&tensor)?) {
                    return Ok(Some(vec![tensor]));
                }
            }
            Ok(None)
        })
    }
}

struct Directed {
    selector: Handle,
    inputs: Vec<Handle>,
    stop_on_empty: bool,
}

fn directed(args: &mut Args<'_, '_>) -> Result<Arc<dyn Rule>> {
    let selector = args.dataset("selector_input_dataset")?;
    require!(
        selector.dtypes == [DType::INT64] && selector.shapes[0].rank() == Some(0),
        "The selector input must be a dataset of scalar int64 elements."
    );
    let inputs = args.datasets("data_input_datasets")?;
    for input in &inputs[1..] {
        require!(
            input.dtypes == inputs[0].dtypes,
            "All inputs must have the same output_types. First input has types {}, and input has types {}",
            list(&inputs[0].dtypes),
            list(&input.dtypes)
        );
    }
    let stop_on_empty = args.attrs().bool("stop_on_empty_dataset").unwrap_or(false);
    Ok(Arc::new(Directed { selector, inputs, stop_on_empty }))
}

impl Rule for Directed {
    fn cardinality(&self) -> i64 {
        let each: Vec<i64> = self.inputs.iter().map(|input| input.cardinality()).collect();
        match self.selector.cardinality() {
            INFINITE if each.iter().all(|&size| size == INFINITE) => INFINITE,
            known if known >= 0 && each.iter().all(|&size| size == INFINITE) => known,
            _ => UNKNOWN,
        }
    }

    fn iterate(self: Arc<Self>, ctx: &IterContext) -> Result<Iter> {
        let mut selector = self.selector.iterate(ctx)?;
        let begin = |input: &Handle| input.iterate(ctx).map(Some);
        let mut inputs = self.inputs.iter().map(begin).collect::<Result<Vec<_>>>()?;
        let mut active = inputs.len();
        Iter::new(move |ctx| {
            while active > 0 {
                let Some(selected) = selector.next(ctx)? else {
                    active = 0;
                    return Ok(None);
                };
                let selected: i64 = only(selected)?.scalar_value()?;
                let count = inputs.len();
                let index = usize::try_from(selected).ok().filter(|&index| index < count);
                let index = index.ok_or_else(|| {
                    invalid!("Selector index out of range: {selected} >= {count}")
                })?;
                if let Some(input) = &mut inputs[index] {
                    if let Some(element) = input.next(ctx)? {
                        return Ok(Some(element));
                    }
                    inputs[index] = None;
                    active = if self.stop_on_empty { 0 } else { active - 1 };
                } else if self.stop_on_empty {
                    active = 0;
                }
            }
            Ok(None)
        })
    }
}

struct IgnoreErrors(Handle);

fn ignore_errors(args: &mut Args<'_, '_>) -> Result<Arc<dyn Rule>> {
    Ok(Arc::new(IgnoreErrors(args.dataset("input_dataset")?)))
}

impl Rule for IgnoreErrors {
    fn cardinality(&self) -> i64 {
        UNKNOWN
    }

    fn iterate(self: Arc<Self>, ctx: &IterContext) -> Result<Iter> {
        let mut input = self.0.iterate(ctx)?;
        Iter::new(move |ctx| {
            loop {
                match input.next(ctx) {
                    Err(_) => ctx.check()?,
                    next => return next,
                }
            }
        })
    }
}

struct AssertCardinality {
    input: Handle,
    cardinality: i64,
}

fn assert_cardinality(args: &mut Args<'_, '_>) -> Result<Arc<dyn Rule>> {
    let cardinality = args.scalar("cardinality")?;
    Ok(Arc::new(AssertCardinality { input: args.dataset("input_dataset")?, cardinality }))
}

impl Rule for AssertCardinality {
    fn cardinality(&self) -> i64 {
        self.cardinality
    }

    fn iterate(self: Arc<Self>, ctx: &IterContext) -> Result<Iter> {
        let mut input = self.input.iterate(ctx)?;
        let mut seen = 0;
        Iter::new(move |ctx| {
            let expected = self.cardinality;
            let next: Option<Vec<Tensor>> = input.next(ctx)?;
            let (text, found) = match &next {
                Some(_) => {
                    seen += 1;
                    ("at least ", expected >= 0 && seen > expected)
                }
                None => ("", expected != UNKNOWN && seen != expected),
            };
            if found {
                let expected = match expected {
                    INFINITE => "an infinite number of".to_string(),
                    known => known.to_string(),
                };
                return Err(tfcore_base::failed_precondition!(
                    "Input dataset was expected to contain {expected} elements but contained {text}{seen} elements."
                ));
            }
            Ok(next)
        })
    }
}

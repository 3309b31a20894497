//! Datasets that call functions on elements.

use std::sync::Arc;

use tfcore_base::{Result, require};
use tfcore_framework::Registry;

use crate::args::{Args, Build, Captured, dataset_kernel, handle_shape};
use crate::background::{Background, Work};
use crate::batch::{batch_size, some_of};
use crate::dataset::{Element, Handle, Iter, IterContext, Rule, UNKNOWN, batched};
use crate::rows::stacked;

pub(crate) fn register(r: &mut Registry) {
    for (name, build) in [
        // `MapDataset(input_dataset: variant, other_arguments: Targuments) -> handle`, `f(element)`.
        ("MapDataset", map as Build),
        ("ParallelMapDataset", parallel_map),
        ("ParallelMapDatasetV2", parallel_map),
        // `MapAndBatchDataset(input_dataset: variant, other_arguments: Targuments, batch_size: int64,
        // num_parallel_calls: int64, drop_remainder: bool) -> handle`.
        ("MapAndBatchDataset", map_and_batch),
        ("ExperimentalMapAndBatchDataset", map_and_batch),
        // `FilterDataset(input_dataset: variant, other_arguments: Targuments) -> handle`, where `predicate(element)`.
        ("FilterDataset", filter),
        ("ParallelFilterDataset", parallel_filter),
        // `TakeWhileDataset(input_dataset: variant, other_arguments: Targuments) -> handle`.
        ("TakeWhileDataset", take_while),
        ("ExperimentalTakeWhileDataset", take_while),
        // `ScanDataset(input_dataset: variant, initial_state: Tstate, other_arguments: Targuments) -> handle`,
        // where `f(state, element)` gives the next state and the output.
        ("ScanDataset", scan),
        ("ExperimentalScanDataset", scan),
        // `PrefetchDataset(input_dataset: variant, buffer_size: int64) -> handle`.
        ("PrefetchDataset", prefetch),
        // `GeneratorDataset(...) -> handle`, `next(state)` with the state that `init` makes, until `OutOfRange`.
        ("GeneratorDataset", generator),
    ] {
        r.op(name).shape(handle_shape).cpu(move |init| dataset_kernel(init, build));
    }
}

struct Map {
    input: Handle,
    function: Captured,
    preserve_cardinality: bool,
}

fn map(args: &mut Args<'_, '_>) -> Result<Arc<dyn Rule>> {
    let function = args.function("f", "other_arguments")?;
    let preserve_cardinality = args.attrs().bool("preserve_cardinality")?;
    Ok(Arc::new(Map { input: args.dataset("input_dataset")?, function, preserve_cardinality }))
}

impl Rule for Map {
    fn cardinality(&self) -> i64 {
        if self.preserve_cardinality { self.input.cardinality() } else { UNKNOWN }
    }

    fn iterate(self: Arc<Self>, ctx: &IterContext) -> Result<Iter> {
        let mut input = self.input.iterate(ctx)?;
        Iter::new(move |ctx| match input.next(ctx)? {
            Some(element) => self.function.call_or_end(ctx, element, self.preserve_cardinality),
            None => Ok(None),
        })
    }

    fn at(&self, index: u64, ctx: &IterContext) -> Option<Result<Element>> {
        let element = self.input.at(index, ctx)?;
        Some(element.and_then(|element| self.function.call(ctx, element)))
    }
}

struct ParallelMap {
    map: Map,
    calls: usize,
    in_order: bool,
}

fn parallel_map(args: &mut Args<'_, '_>) -> Result<Arc<dyn Rule>> {
    let calls = args.parallelism("num_parallel_calls")?;
    let function = args.function("f", "other_arguments")?;
    let preserve_cardinality = args.attrs().bool("preserve_cardinality")?;
    let map = Map { input: args.dataset("input_dataset")?, function, preserve_cardinality };
    Ok(Arc::new(ParallelMap { map, calls, in_order: !args.is_sloppy() }))
}

impl ParallelMap {
    fn begin(self: Arc<Self>, ctx: &IterContext) -> Result<Background<Element>> {
        let input = self.map.input.iterate(ctx)?;
        let (calls, in_order) = (self.calls, self.in_order);
        let work: Work<Element> = Arc::new(move |ctx, element| {
            self.map.function.call_or_end(ctx, element, self.map.preserve_cardinality)
        });
        Ok(Background::new(input, work, calls, calls, in_order))
    }
}

impl Rule for ParallelMap {
    fn cardinality(&self) -> i64 {
        self.map.cardinality()
    }

    fn iterate(self: Arc<Self>, ctx: &IterContext) -> Result<Iter> {
        let mut background = self.begin(ctx)?;
        Iter::new(move |ctx| background.next(ctx))
    }

    fn at(&self, index: u64, ctx: &IterContext) -> Option<Result<Element>> {
        self.map.at(index, ctx)
    }
}

struct MapAndBatch {
    map: Arc<ParallelMap>,
    size: usize,
    drop_remainder: bool,
}

fn map_and_batch(args: &mut Args<'_, '_>) -> Result<Arc<dyn Rule>> {
    let size = batch_size(args)
        .map_err(|error| error.with_message("batch_size must be greater than zero.".to_string()))?;
    let calls = args.parallelism("num_parallel_calls")?;
    let drop_remainder = args.scalar("drop_remainder")?;
    let function = args.function("f", "other_arguments")?;
    let preserve_cardinality = args.attrs().bool("preserve_cardinality")?;
    let map = Map { input: args.dataset("input_dataset")?, function, preserve_cardinality };
    let map = Arc::new(ParallelMap { map, calls, in_order: true });
    Ok(Arc::new(MapAndBatch { map, size, drop_remainder }))
}

impl Rule for MapAndBatch {
    fn batch_size(&self) -> Option<i64> {
        i64::try_from(self.size).ok()
    }

    fn cardinality(&self) -> i64 {
        batched(self.map.cardinality(), self.size as i64, self.drop_remainder)
    }

    fn iterate(self: Arc<Self>, ctx: &IterContext) -> Result<Iter> {
        let mut mapped = self.map.clone().iterate(ctx)?;
        Iter::new(move |ctx| {
            let elements = some_of(&mut mapped, ctx, self.size, self.drop_remainder)?;
            elements.map(|elements| stacked(&elements, &ctx.buffers)).transpose()
        })
    }
}

#[derive(Clone)]
struct Filter {
    input: Handle,
    predicate: Captured,
    must: &'static str,
}

fn filter(args: &mut Args<'_, '_>) -> Result<Arc<dyn Rule>> {
    let predicate = args.function("predicate", "other_arguments")?;
    let must = "Filter predicate `f` must return a scalar bool.";
    Ok(Arc::new(Filter { input: args.dataset("input_dataset")?, predicate, must }))
}

impl Rule for Filter {
    fn iterate(self: Arc<Self>, ctx: &IterContext) -> Result<Iter> {
        let mut input = self.input.iterate(ctx)?;
        Iter::new(move |ctx| {
            while let Some(element) = input.next(ctx)? {
                if self.predicate.scalar::<bool>(ctx, element.clone(), self.must)? {
                    return Ok(Some(element));
                }
            }
            Ok(None)
        })
    }
}

struct ParallelFilter {
    filter: Filter,
    calls: usize,
    in_order: bool,
}

fn parallel_filter(args: &mut Args<'_, '_>) -> Result<Arc<dyn Rule>> {
    let calls = args.parallelism("num_parallel_calls")?;
    let predicate = args.function("predicate", "other_arguments")?;
    let must = "ParallelFilter predicate `predicate` must return a scalar bool.";
    let filter = Filter { input: args.dataset("input_dataset")?, predicate, must };
    Ok(Arc::new(ParallelFilter { filter, calls, in_order: !args.is_sloppy() }))
}

impl Rule for ParallelFilter {
    fn iterate(self: Arc<Self>, ctx: &IterContext) -> Result<Iter> {
        let input = self.filter.input.iterate(ctx)?;
        let (calls, in_order) = (self.calls, self.in_order);
        let work: Work<Option<Element>> = Arc::new(move |ctx, element| {
            let is_in: bool =
                self.filter.predicate.scalar(ctx, element.clone(), self.filter.must)?;
            Ok(Some(is_in.then_some(element)))
        });
        let mut background = Background::new(input, work, calls, calls, in_order);
        Iter::new(move |ctx| {
            loop {
                match background.next(ctx)? {
                    None => return Ok(None),
                    Some(Some(element)) => return Ok(Some(element)),
                    Some(None) => {}
                }
            }
        })
    }
}

struct TakeWhile {
    input: Handle,
    predicate: Captured,
}

fn take_while(args: &mut Args<'_, '_>) -> Result<Arc<dyn Rule>> {
    let predicate = args.function("predicate", "other_arguments")?;
    Ok(Arc::new(TakeWhile { input: args.dataset("input_dataset")?, predicate }))
}

impl Rule for TakeWhile {
    fn iterate(self: Arc<Self>, ctx: &IterContext) -> Result<Iter> {
        let mut input = Some(self.input.iterate(ctx)?);
        Iter::new(move |ctx| {
            let Some(pass) = &mut input else {
                return Ok(None);
            };
            if let Some(element) = pass.next(ctx)? {
                let must = "`predicate` must returns a scalar bool tensor.";
                if self.predicate.scalar::<bool>(ctx, element.clone(), must)? {
                    return Ok(Some(element));
                }
            }
            input = None;
            Ok(None)
        })
    }
}

struct Scan {
    input: Handle,
    initial: Element,
    function: Captured,
    preserve_cardinality: bool,
}

fn scan(args: &mut Args<'_, '_>) -> Result<Arc<dyn Rule>> {
    let function = args.function("f", "other_arguments")?;
    let initial = args.tensors("initial_state")?;
    let preserve_cardinality = args.attrs().bool("preserve_cardinality")?;
    let input = args.dataset("input_dataset")?;
    Ok(Arc::new(Scan { input, initial, function, preserve_cardinality }))
}

impl Rule for Scan {
    fn cardinality(&self) -> i64 {
        if self.preserve_cardinality { self.input.cardinality() } else { UNKNOWN }
    }

    fn iterate(self: Arc<Self>, ctx: &IterContext) -> Result<Iter> {
        let mut input = self.input.iterate(ctx)?;
        let mut state = self.initial.clone();
        Iter::new(move |ctx| {
            let Some(element) = input.next(ctx)? else {
                return Ok(None);
            };
            let args = state.iter().cloned().chain(element).collect();
            let results = self.function.call_or_end(ctx, args, self.preserve_cardinality)?;
            let Some(mut results) = results else {
                return Ok(None);
            };
            let width = self.initial.len();
            require!(
                results.len() >= width,
                "The function must return the {width} components of the state"
            );
            let output = results.split_off(width);
            for (index, (new, old)) in results.iter().zip(&self.initial).enumerate() {
                require!(
                    new.dtype() == old.dtype(),
                    "Got wrong type for scan_func return value {index} (expected {}, got {}).",
                    old.dtype(),
                    new.dtype()
                );
            }
            state = results;
            Ok(Some(output))
        })
    }
}

struct Prefetch {
    input: Handle,
    ahead: usize,
}

fn prefetch(args: &mut Args<'_, '_>) -> Result<Arc<dyn Rule>> {
    let size: i64 = args.scalar("buffer_size")?;
    require!(size >= -1, "buffer_size must be >= 0 or set to be auto-tuned");
    // Left to the library: enough to keep one element ready while one is used.
    let ahead = if size == -1 { 2 } else { usize::try_from(size).unwrap_or(usize::MAX) };
    Ok(Arc::new(Prefetch { input: args.dataset("input_dataset")?, ahead }))
}

impl Rule for Prefetch {
    fn cardinality(&self) -> i64 {
        self.input.cardinality()
    }

    fn iterate(self: Arc<Self>, ctx: &IterContext) -> Result<Iter> {
        let input = self.input.iterate(ctx)?;
        if self.ahead == 0 {
            return Ok(input);
        }
        let work: Work<Element> = Arc::new(|_, element| Ok(Some(element)));
        let mut background = Background::new(input, work, 1, self.ahead, true);
        Iter::new(move |ctx| background.next(ctx))
    }

    fn at(&self, index: u64, ctx: &IterContext) -> Option<Result<Element>> {
        self.input.at(index, ctx)
    }
}

struct Generator {
    init: Captured,
    next: Captured,
    finalize: Captured,
}

fn generator(args: &mut Args<'_, '_>) -> Result<Arc<dyn Rule>> {
    Ok(Arc::new(Generator {
        init: args.function("init_func", "init_func_other_args")?,
        next: args.function("next_func", "next_func_other_args")?,
        finalize: args.function("finalize_func", "finalize_func_other_args")?,
    }))
}

/// A generator between its first element and its end; `finalize` is called once even if the iterator goes before.
struct Generating {
    rule: Arc<Generator>,
    state: Option<Element>,
    ctx: IterContext,
}

impl Rule for Generator {
    fn iterate(self: Arc<Self>, ctx: &IterContext) -> Result<Iter> {
        let ctx = ctx.detached(&Arc::default());
        let mut running = Generating { rule: self, state: None, ctx };
        let mut ended = false;
        Iter::new(move |ctx| {
            if ended {
                return Ok(None);
            }
            let state = match &running.state {
                Some(state) => state.clone(),
                None => {
                    let state = running.rule.init.call(ctx, Vec::new())?;
                    running.state.insert(state).clone()
                }
            };
            let next = running.rule.next.call_or_end(ctx, state, false)?;
            if next.is_none() {
                ended = true;
                if let Some(state) = running.state.take() {
                    running.rule.finalize.call(ctx, state)?;
                }
            }
            Ok(next)
        })
    }
}

impl Drop for Generating {
    fn drop(&mut self) {
        if let Some(state) = self.state.take() {
            // There is no step left that could report an error.
            let _ = self.rule.finalize.call(&self.ctx, state);
        }
    }
}

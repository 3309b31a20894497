//! Datasets that hand elements on as they are: options, hints for the executor, checks of the pipeline and statistics.

use std::sync::Arc;
use std::time::Duration;

use tfcore_base::{Result, require, unimplemented_error};
use tfcore_framework::{AttrValue, Registry, Resource, shape_fns};
use tfcore_tensor::{TString, Tensor};

use crate::args::{Args, Build, dataset_kernel, handle_shape, transformation};
use crate::dataset::{Element, Handle, Iter, IterContext, Rule, UNKNOWN, from_tensor};
use crate::iterators::dummy;
use crate::structure::list;

pub(crate) fn register(r: &mut Registry) {
    for (name, build) in [
        // `OptionsDataset(input_dataset: variant) -> handle`, with attr `serialized_options`.
        ("OptionsDataset", options as Build),
        // Hints for the reference's executor.
        ("ModelDataset", forward),
        ("OptimizeDataset", optimize),
        ("OptimizeDatasetV2", forward),
        ("FinalizeDataset", forward),
        ("RewriteDataset", forward),
        ("NonSerializableDataset", forward),
        ("ExperimentalNonSerializableDataset", forward),
        ("PrivateThreadPoolDataset", private_threads),
        ("ExperimentalPrivateThreadPoolDataset", private_threads),
        ("MaxIntraOpParallelismDataset", max_parallelism),
        ("ExperimentalMaxIntraOpParallelismDataset", max_parallelism),
        ("ThreadPoolDataset", forward),
        ("ExperimentalThreadPoolDataset", forward),
        ("AutoShardDataset", auto_shard),
        ("ExperimentalAutoShardDataset", auto_shard),
        // Statistics, which are not kept.
        ("BytesProducedStatsDataset", tagged),
        ("ExperimentalBytesProducedStatsDataset", tagged),
        ("LatencyStatsDataset", tagged),
        ("ExperimentalLatencyStatsDataset", tagged),
        ("SetStatsAggregatorDataset", tagged),
        ("ExperimentalSetStatsAggregatorDataset", tagged),
        // `AssertNextDataset(input_dataset: variant, transformations: string) -> handle`: those behind it.
        ("AssertNextDataset", assert_next),
        ("ExperimentalAssertNextDataset", assert_next),
        // `AssertPrevDataset(input_dataset: variant, transformations: string) -> handle`: those before it.
        ("AssertPrevDataset", assert_prev),
        // `SleepDataset(input_dataset: variant, sleep_microseconds: int64) -> handle`.
        ("SleepDataset", sleep),
        ("ExperimentalSleepDataset", sleep),
        // `ChooseFastestDataset(input_datasets: N * variant) -> handle`, any of equal datasets.
        ("ChooseFastestDataset", choose_fastest),
        ("ExperimentalChooseFastestDataset", choose_fastest),
    ] {
        r.op(name).shape(handle_shape).cpu(move |init| dataset_kernel(init, build));
    }
    // `GetOptions(input_dataset: variant) -> serialized_options: string`, of all datasets of the pipeline.
    r.op("GetOptions").shape(shape_fns::scalar).compute(|ctx| {
        let dataset = from_tensor(ctx.input(0)?)?;
        ctx.set_output(0, Tensor::scalar(TString::from(&dataset.options[..])));
        Ok(())
    });
    for (name, kind) in [
        ("ThreadPoolHandle", "N10tensorflow4data12_GLOBAL__N_118ThreadPoolResourceE"),
        ("ExperimentalThreadPoolHandle", "N10tensorflow4data12_GLOBAL__N_118ThreadPoolResourceE"),
        ("StatsAggregatorHandle", StatsAggregator::TYPE),
        ("StatsAggregatorHandleV2", StatsAggregator::TYPE),
        ("ExperimentalStatsAggregatorHandle", StatsAggregator::TYPE),
    ] {
        r.op(name).shape(handle_shape).cpu(move |init| dummy(init, kind));
    }
    // `StatsAggregatorSummary(iterator: resource) -> summary: string`, empty: no statistics are kept.
    r.ops(["StatsAggregatorSummary", "ExperimentalStatsAggregatorSummary"], |op| {
        op.shape(shape_fns::scalar).compute(|ctx| {
            ctx.handle(0)?;
            ctx.set_output(0, Tensor::scalar(TString::new()));
            Ok(())
        });
    });
}

struct StatsAggregator;

impl StatsAggregator {
    const TYPE: &'static str = "N10tensorflow4data15StatsAggregatorE";
}

impl Resource for StatsAggregator {
    fn type_name(&self) -> &'static str {
        StatsAggregator::TYPE
    }
}

struct Forward(Handle);

impl Rule for Forward {
    fn cardinality(&self) -> i64 {
        self.0.cardinality()
    }

    fn iterate(self: Arc<Self>, ctx: &IterContext) -> Result<Iter> {
        self.0.iterate(ctx)
    }

    fn at(&self, index: u64, ctx: &IterContext) -> Option<Result<Element>> {
        self.0.at(index, ctx)
    }
}

fn forward(args: &mut Args<'_, '_>) -> Result<Arc<dyn Rule>> {
    Ok(Arc::new(Forward(args.dataset("input_dataset")?)))
}

fn options(args: &mut Args<'_, '_>) -> Result<Arc<dyn Rule>> {
    args.options = args.attrs().bytes("serialized_options")?.to_vec();
    forward(args)
}

fn optimize(args: &mut Args<'_, '_>) -> Result<Arc<dyn Rule>> {
    require!(args.tensor("optimizations")?.rank() == 1, "optimizations must be a vector");
    forward(args)
}

fn private_threads(args: &mut Args<'_, '_>) -> Result<Arc<dyn Rule>> {
    let threads: i64 = args.scalar("num_threads")?;
    require!(threads >= 0, "`num_threads` must be greater than or equal to 0");
    forward(args)
}

fn max_parallelism(args: &mut Args<'_, '_>) -> Result<Arc<dyn Rule>> {
    let limit: i64 = args.scalar("max_intra_op_parallelism")?;
    require!(limit >= 0, "`max_intra_op_parallelism` must be greater than or equal to 0");
    forward(args)
}

fn tagged(args: &mut Args<'_, '_>) -> Result<Arc<dyn Rule>> {
    args.text("tag")?;
    forward(args)
}

/// Workers other than the first and policies that change the pipeline need the graph of the input.
fn auto_shard(args: &mut Args<'_, '_>) -> Result<Arc<dyn Rule>> {
    let workers: i64 = args.scalar("num_workers")?;
    require!(
        workers > 0,
        "num_workers must be greater than zero (currently num_workers = {workers})."
    );
    let index: i64 = args.scalar("index")?;
    require!(
        index >= 0 && index < workers,
        "index must be between 0 and {} (currently index = {index}).",
        workers - 1
    );
    const FILE: i64 = 1;
    let policy = args.attrs().int("auto_shard_policy")?;
    if policy < 0 {
        return forward(args);
    }
    let dataset = crate::dataset::from_tensor(args.tensor("input_dataset")?)?;
    let of_files = dataset.reads_files;
    if policy == FILE && !of_files {
        return Err(tfcore_base::not_found!(
            "Did not find a shardable source, walked to a node which is not a dataset"
        ));
    }
    if of_files && policy <= FILE && workers > 1 {
        return Err(tfcore_base::unimplemented_error!(
            "AutoShardDataset with attr auto_shard_policy = {policy}: files cannot be dealt out to workers"
        ));
    }
    Ok(Arc::new(Sharded { input: args.dataset("input_dataset")?, workers, index }))
}

/// Each `workers`-th element.
struct Sharded {
    input: Handle,
    workers: i64,
    index: i64,
}

impl Rule for Sharded {
    fn cardinality(&self) -> i64 {
        match self.input.cardinality() {
            known if known >= 0 => {
                known / self.workers + i64::from(self.index < known % self.workers)
            }
            unknown => unknown,
        }
    }

    fn iterate(self: Arc<Self>, ctx: &IterContext) -> Result<Iter> {
        let mut input = self.input.iterate(ctx)?;
        let mut number = 0i64;
        Iter::new(move |ctx| {
            while let Some(element) = input.next(ctx)? {
                number += 1;
                if (number - 1) % self.workers == self.index {
                    return Ok(Some(element));
                }
            }
            Ok(None)
        })
    }
}

struct AssertNext {
    input: Handle,
    transformations: Vec<String>,
}

fn assert_next(args: &mut Args<'_, '_>) -> Result<Arc<dyn Rule>> {
    let transformations = texts(args, "transformations")?;
    Ok(Arc::new(AssertNext { input: args.dataset("input_dataset")?, transformations }))
}

fn texts(args: &Args<'_, '_>, name: &str) -> Result<Vec<String>> {
    let names = args.vector::<TString>(name)?;
    Ok(names.iter().map(|name| String::from_utf8_lossy(name.as_bytes()).into_owned()).collect())
}

impl Rule for AssertNext {
    fn cardinality(&self) -> i64 {
        self.input.cardinality()
    }

    fn iterate(self: Arc<Self>, ctx: &IterContext) -> Result<Iter> {
        // Without what is behind there is nothing to check: the first pass has been checked.
        let mut at = ctx.after.as_ref().and_then(|own| own.after.clone());
        let is_known = at.is_some();
        let (mut behind, mut next) = (0, at.clone());
        while let Some(dataset) = next.filter(|dataset| dataset.after.is_some()) {
            (behind, next) = (behind + 1, dataset.after.clone());
        }
        require!(
            !is_known || behind >= self.transformations.len(),
            "Asserted next {} transformations but encountered only {behind}.",
            self.transformations.len()
        );
        for (offset, expected) in self.transformations.iter().enumerate() {
            let Some(dataset) = at.filter(|dataset| dataset.after.is_some()) else {
                break;
            };
            require!(
                dataset.name == *expected,
                "Asserted transformation matching {expected} at offset {offset} but encountered {} transformation \
                 instead.",
                dataset.name
            );
            at = dataset.after.clone();
        }
        self.input.iterate(ctx)
    }
}

struct AssertPrev {
    input: Handle,
    transformations: Vec<String>,
}

fn assert_prev(args: &mut Args<'_, '_>) -> Result<Arc<dyn Rule>> {
    let transformations = texts(args, "transformations")?;
    Ok(Arc::new(AssertPrev { input: args.dataset("input_dataset")?, transformations }))
}

impl Rule for AssertPrev {
    fn cardinality(&self) -> i64 {
        self.input.cardinality()
    }

    fn iterate(self: Arc<Self>, ctx: &IterContext) -> Result<Iter> {
        let mut at = Some(self.input.clone());
        for (offset, expected) in self.transformations.iter().enumerate() {
            let found = at.as_ref().map_or("", |dataset| &dataset.name);
            let is_met = match &at {
                Some(dataset) => matches(dataset, expected)?,
                None => false,
            };
            require!(
                is_met,
                "Failure checking transformations at offset {offset}: Asserted {expected} but encountered {found}."
            );
            at = at.and_then(|dataset| dataset.inputs.first().cloned());
        }
        self.input.iterate(ctx)
    }
}

/// True if a dataset was made by a node like the one in text: `name: "MapDataset" attr { key: "f" value { b: true } }`.
///
/// # Errors
/// `Unimplemented` for attrs other than numbers, booleans and strings.
fn matches(dataset: &Handle, expected: &str) -> Result<bool> {
    let words: Vec<&str> = expected.split_whitespace().collect();
    let text = |word: &str| word.strip_prefix('"')?.strip_suffix('"').map(str::to_string);
    let (["name:", name], mut attrs) = words.split_at(words.len().min(2)) else {
        return Ok(false);
    };
    if text(name).is_none_or(|name| transformation(&name) != dataset.name) {
        return Ok(false);
    }
    while let [first, rest @ ..] = attrs {
        let (["{", "key:", key, "value", "{", kind, value, "}", "}"], rest) =
            rest.split_at(rest.len().min(9))
        else {
            return Err(unimplemented_error!("AssertPrevDataset: {expected} cannot be compared"));
        };
        let Some(found) = text(key).and_then(|key| dataset.source.0.get(&key).cloned()) else {
            return Ok(false);
        };
        let is_same = match (*first, *kind, found) {
            ("attr", "b:", AttrValue::Bool(found)) => value.parse() == Ok(found),
            ("attr", "i:", AttrValue::Int(found)) => value.parse() == Ok(found),
            ("attr", "f:", AttrValue::Float(found)) => value.parse() == Ok(found),
            ("attr", "s:", AttrValue::String(found)) => {
                text(value).is_some_and(|text| text.as_bytes() == &*found)
            }
            _ => {
                return Err(unimplemented_error!(
                    "AssertPrevDataset: {expected} cannot be compared"
                ));
            }
        };
        if !is_same {
            return Ok(false);
        }
        attrs = rest;
    }
    Ok(true)
}

struct Sleep {
    input: Handle,
    time: Duration,
}

fn sleep(args: &mut Args<'_, '_>) -> Result<Arc<dyn Rule>> {
    let micros: i64 = args.scalar("sleep_microseconds")?;
    let time = u64::try_from(micros).map_err(|_| {
        tfcore_base::invalid!("`sleep_microseconds` must be greater than or equal to 0")
    })?;
    let time = Duration::from_micros(time);
    Ok(Arc::new(Sleep { input: args.dataset("input_dataset")?, time }))
}

impl Rule for Sleep {
    fn cardinality(&self) -> i64 {
        self.input.cardinality()
    }

    fn iterate(self: Arc<Self>, ctx: &IterContext) -> Result<Iter> {
        let mut input = self.input.iterate(ctx)?;
        Iter::new(move |ctx| {
            // In pieces, so that a cancelled step does not wait for the rest.
            let mut left = self.time;
            while !left.is_zero() {
                let piece = left.min(Duration::from_millis(10));
                std::thread::sleep(piece);
                left -= piece;
                ctx.check()?;
            }
            input.next(ctx)
        })
    }
}

fn choose_fastest(args: &mut Args<'_, '_>) -> Result<Arc<dyn Rule>> {
    let inputs = args.datasets("input_datasets")?;
    for input in &inputs[1..] {
        require!(
            input.dtypes == inputs[0].dtypes,
            "All inputs to ChooseFastestDataset must have the same output types. Input 0 has output types: {}; \
             another input has output types: {}",
            list(&inputs[0].dtypes),
            list(&input.dtypes)
        );
        let agree = |(a, b)| tfcore_framework::shape_ops::merge(a, b).is_ok();
        require!(
            inputs[0].shapes.iter().zip(&input.shapes).all(agree),
            "All inputs to ChooseFastestDataset must have compatible output shapes. Input 0 has output shapes: {}; \
             another input has output shapes: {}",
            list(&inputs[0].shapes),
            list(&input.shapes)
        );
    }
    for input in &inputs[1..] {
        let sizes = [inputs[0].cardinality(), input.cardinality()];
        require!(
            sizes[0] == sizes[1] || sizes.contains(&UNKNOWN),
            "All inputs to ChooseFastestDataset must have compatible cardinalities. Input 0 has cardinality: {}; another \
             input has cardinality: {}",
            sizes[0],
            sizes[1]
        );
    }
    Ok(Arc::new(Forward(inputs[0].clone())))
}

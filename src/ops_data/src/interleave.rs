//! Datasets that go through the datasets that a function makes of each element, one after the other or in turn.

use std::sync::Arc;

use tfcore_base::{Result, require};
use tfcore_framework::Registry;

use crate::args::{Args, Build, Captured, dataset_kernel, handle_shape};
use crate::dataset::{Element, Handle, Iter, IterContext, Rule, UNKNOWN};

pub(crate) fn register(r: &mut Registry) {
    for (name, build) in [
        // `FlatMapDataset(input_dataset: variant, other_arguments: Targuments) -> handle`.
        ("FlatMapDataset", flat_map as Build),
        // `InterleaveDataset(input_dataset: variant, other_arguments: Targuments, cycle_length: int64,
        // block_length: int64) -> handle`, blocks of `cycle_length` datasets in turn.
        ("InterleaveDataset", interleave),
        // The parallel forms have the same elements in the same order: what is asked for ahead of time is not seen.
        ("ParallelInterleaveDataset", interleave),
        ("ExperimentalParallelInterleaveDataset", interleave),
        ("LegacyParallelInterleaveDatasetV2", interleave),
        ("ParallelInterleaveDatasetV2", interleave),
        ("ParallelInterleaveDatasetV3", interleave),
        ("ParallelInterleaveDatasetV4", interleave),
    ] {
        r.op(name).shape(handle_shape).cpu(move |init| dataset_kernel(init, build));
    }
}

struct FlatMap {
    input: Handle,
    function: Captured,
}

fn flat_map(args: &mut Args<'_, '_>) -> Result<Arc<dyn Rule>> {
    let function = args.function("f", "other_arguments")?;
    Ok(Arc::new(FlatMap { input: args.dataset("input_dataset")?, function }))
}

impl Rule for FlatMap {
    fn cardinality(&self) -> i64 {
        if self.input.cardinality() == 0 { 0 } else { UNKNOWN }
    }

    fn iterate(self: Arc<Self>, ctx: &IterContext) -> Result<Iter> {
        let mut input = self.input.iterate(ctx)?;
        let mut inner: Option<Iter> = None;
        Iter::new(move |ctx| {
            let nested = ctx.nested()?;
            loop {
                let pass = match &mut inner {
                    Some(pass) => pass,
                    None => match input.next(ctx)? {
                        None => return Ok(None),
                        Some(element) => inner.insert(begin(&self.function, &nested, element)?),
                    },
                };
                match pass.next(&nested)? {
                    None => inner = None,
                    element => return Ok(element),
                }
            }
        })
    }
}

/// A pass over the dataset that a function makes of an element.
fn begin(function: &Captured, nested: &IterContext, element: Element) -> Result<Iter> {
    function.dataset(nested, element)?.iterate(nested)
}

struct Interleave {
    input: Handle,
    function: Captured,
    cycle: usize,
    block: i64,
}

fn interleave(args: &mut Args<'_, '_>) -> Result<Arc<dyn Rule>> {
    let threads = args.ctx.step().functions().map_or(1, |functions| functions.threads());
    let may_choose = args.has_input("num_parallel_calls");
    let mut cycle: i64 = args.scalar("cycle_length")?;
    if cycle == -1 && may_choose {
        cycle = threads as i64;
    }
    require!(cycle > 0, "`cycle_length` must be > 0");
    let block: i64 = args.scalar("block_length")?;
    require!(block > 0, "`block_length` must be > 0");
    if may_choose {
        args.parallelism("num_parallel_calls")?;
    }
    for name in ["buffer_output_elements", "prefetch_input_elements"] {
        if args.has_input(name) {
            let value: i64 = args.scalar(name)?;
            let least = if name == "buffer_output_elements" && !may_choose { 1 } else { 0 };
            require!(
                value >= least || may_choose && value == -1,
                "`{name}` must be {} but is {value}",
                if least == 1 { "> 0" } else { ">= 0" }
            );
        }
    }
    let function = args.function("f", "other_arguments")?;
    let cycle = usize::try_from(cycle).unwrap_or(usize::MAX);
    Ok(Arc::new(Interleave { input: args.dataset("input_dataset")?, function, cycle, block }))
}

impl Rule for Interleave {
    fn cardinality(&self) -> i64 {
        if self.input.cardinality() == 0 { 0 } else { UNKNOWN }
    }

    fn iterate(self: Arc<Self>, ctx: &IterContext) -> Result<Iter> {
        let mut input = Some(self.input.iterate(ctx)?);
        // Grows to `cycle`, which may be a number without measure, only as inputs come.
        let mut slots: Vec<Option<Iter>> = Vec::new();
        let (mut slot, mut taken, mut open) = (0, 0, 0usize);
        Iter::new(move |ctx| {
            let nested = ctx.nested()?;
            while input.is_some() || open > 0 {
                ctx.check()?;
                if let Some(Some(pass)) = slots.get_mut(slot) {
                    let next = pass.next(&nested)?;
                    let ended = next.is_none();
                    taken += 1;
                    if ended {
                        slots[slot] = None;
                        open -= 1;
                    }
                    if ended || taken == self.block {
                        (slot, taken) = ((slot + 1) % self.cycle, 0);
                    }
                    if !ended {
                        return Ok(next);
                    }
                    continue;
                }
                let next = match &mut input {
                    Some(input) => input.next(ctx)?,
                    None => None,
                };
                match next {
                    Some(element) => {
                        let pass = begin(&self.function, &nested, element)?;
                        match slots.get_mut(slot) {
                            Some(place) => *place = Some(pass),
                            None => slots.push(Some(pass)),
                        }
                        open += 1;
                    }
                    None => {
                        input = None;
                        // Slots that were never used are passed over at once.
                        slot = if slot + 1 >= slots.len() { 0 } else { slot + 1 };
                        taken = 0;
                    }
                }
            }
            Ok(None)
        })
    }
}

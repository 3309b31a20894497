//! Datasets in another order: a buffer from which elements are drawn at random, as the reference draws them.

use std::collections::VecDeque;
use std::sync::Arc;

use tfcore_base::{Result, require};
use tfcore_framework::{Registry, shape_fns};

use crate::args::{Args, Build, dataset_kernel, handle_shape, kernel};
use crate::dataset::{Element, Handle, INFINITE, Iter, IterContext, Rule};
use crate::iterators::dummy;
use crate::random::{Seeds, Words};
use crate::resources::{self, Life, Named, set_anonymous};

pub(crate) fn register(r: &mut Registry) {
    for (name, build) in [
        // `ShuffleDatasetV3(input_dataset: variant, buffer_size: int64, seed: int64, seed2: int64,
        // seed_generator: resource) -> handle`.
        ("ShuffleDataset", shuffle as Build),
        ("ShuffleDatasetV2", shuffle),
        ("ShuffleDatasetV3", shuffle),
        // `ShuffleAndRepeatDataset(..., count: int64) -> handle`; several epochs are in the buffer together.
        ("ShuffleAndRepeatDataset", shuffle),
        ("ShuffleAndRepeatDatasetV2", shuffle),
    ] {
        r.op(name).shape(handle_shape).cpu(move |init| dataset_kernel(init, build));
    }
    // `AnonymousSeedGenerator(seed: int64, seed2: int64, reshuffle: bool) -> handle: resource, deleter: variant`.
    r.ops(["AnonymousSeedGenerator", "AnonymousRandomSeedGenerator"], |op| {
        op.shape(handle_shape).cpu(|init| kernel(init, seed_generator));
    });
    r.op("DummySeedGenerator").shape(handle_shape).cpu(|init| dummy(init, Seeds::TYPE));
    r.op("DummyIterationCounter")
        .shape(handle_shape)
        .cpu(|init| dummy(init, "N10tensorflow4data16IterationCounterE"));
    r.ops(["DeleteSeedGenerator", "DeleteRandomSeedGenerator"], |op| {
        op.shape(shape_fns::no_outputs).compute(resources::delete_owned);
    });
}

fn seed_generator(args: &mut Args<'_, '_>) -> Result<()> {
    let (seed, seed2) = (args.scalar("seed")?, args.scalar("seed2")?);
    // The reference's kernel of both ops asks for an input that one of them has not.
    require!(args.has_input("reshuffle"), "Unknown input name: reshuffle");
    let reseeds = args.scalar("reshuffle")?;
    set_anonymous(args.ctx, Seeds::new(seed, seed2, reseeds), Life::Handles)
}

struct Shuffle {
    input: Handle,
    /// Elements in the buffer; `None` for all.
    size: Option<usize>,
    /// Negative for epochs without end.
    epochs: i64,
    seeds: Arc<Seeds>,
}

fn shuffle(args: &mut Args<'_, '_>) -> Result<Arc<dyn Rule>> {
    let size: i64 = args.scalar("buffer_size")?;
    let epochs = if args.has_input("count") { args.scalar("count")? } else { 1 };
    let may_hold_all = !args.has_input("count");
    if may_hold_all {
        require!(
            size > 0 || size == -2,
            "buffer_size must be greater than zero or UNKNOWN_CARDINALITY"
        );
    } else {
        require!(size > 0, "buffer_size must be greater than zero.");
    }
    let reseeds = args.attrs().bool("reshuffle_each_iteration").unwrap_or(true);
    let seeds = Seeds::of_node(args, reseeds)?;
    let size = usize::try_from(size).ok();
    Ok(Arc::new(Shuffle { input: args.dataset("input_dataset")?, size, epochs, seeds }))
}

/// The elements of one epoch in the buffer: numbers `start..end`, each at its number modulo the buffer's size.
struct Slice {
    start: u64,
    end: u64,
}

/// As many epochs may wait in the buffer behind the one that is drawn from.
const MAX_EPOCHS: usize = 3;

struct Shuffling {
    rule: Arc<Shuffle>,
    words: Words,
    input: Option<Iter>,
    /// Grows to the size of the buffer as elements come; places that were drawn are empty.
    buffer: Vec<Option<Element>>,
    count: usize,
    slices: VecDeque<Slice>,
    epoch: i64,
    any: bool,
}

impl Rule for Shuffle {
    fn cardinality(&self) -> i64 {
        match (self.input.cardinality(), self.epochs) {
            (known, 1) => known,
            (0, _) | (_, 0) => 0,
            (_, epochs) if epochs < 0 => INFINITE,
            (known, epochs) if known > 0 => known.saturating_mul(epochs),
            (unknown, _) => unknown,
        }
    }

    fn iterate(self: Arc<Self>, ctx: &IterContext) -> Result<Iter> {
        let words = Words::new(self.seeds.next());
        let mut shuffling = Shuffling {
            rule: self,
            words,
            input: None,
            buffer: Vec::new(),
            count: 0,
            slices: VecDeque::new(),
            epoch: 0,
            any: false,
        };
        // What fails at the beginning of a pass fails here, not at the first element.
        shuffling.begin_epoch(ctx)?;
        Iter::new(move |ctx| {
            shuffling.fill(ctx)?;
            Ok(shuffling.draw())
        })
    }
}

impl Shuffling {
    /// The places of the buffer.
    fn size(&self) -> u64 {
        self.rule.size.map_or(u64::MAX, |size| size as u64)
    }

    fn begin_epoch(&mut self, ctx: &IterContext) -> Result<()> {
        if self.rule.epochs >= 0 && self.epoch >= self.rule.epochs {
            return Ok(());
        }
        let at = self.slices.back().map_or(0, |slice| slice.end);
        self.slices.push_back(Slice { start: at, end: at });
        self.epoch += 1;
        self.input = Some(self.rule.input.iterate(ctx)?);
        Ok(())
    }

    fn should_fill(&self) -> bool {
        if self.input.is_none() && self.rule.epochs >= 0 && self.epoch >= self.rule.epochs {
            return false;
        }
        if self.slices.len() > MAX_EPOCHS && self.count > 0 {
            return false;
        }
        (self.count as u64) < self.size()
    }

    fn fill(&mut self, ctx: &IterContext) -> Result<()> {
        while self.should_fill() {
            ctx.check()?;
            if self.input.is_none() {
                self.begin_epoch(ctx)?;
            }
            let next = match &mut self.input {
                Some(input) => input.next(ctx)?,
                None => None,
            };
            match next {
                Some(element) => {
                    self.any = true;
                    self.add(element);
                }
                None => {
                    self.input = None;
                    // An empty dataset is not tried again and again.
                    if !self.any && self.rule.epochs < 0 {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    fn add(&mut self, element: Element) {
        let size = self.size();
        if let Some(slice) = self.slices.back_mut() {
            let place = (slice.end % size) as usize;
            slice.end += 1;
            if place >= self.buffer.len() {
                self.buffer.resize_with(place + 1, || None);
            }
            self.buffer[place] = Some(element);
            self.count += 1;
        }
    }

    fn draw(&mut self) -> Option<Element> {
        if self.count == 0 {
            return None;
        }
        while self.slices.front().is_some_and(|slice| slice.start == slice.end) {
            self.slices.pop_front();
            self.words = Words::new(self.rule.seeds.next());
        }
        let size = self.size();
        let slice = self.slices.front_mut()?;
        let offset = u64::from(self.words.next()) % (slice.end - slice.start);
        let drawn = ((slice.start + offset) % size) as usize;
        let first = (slice.start % size) as usize;
        slice.start += 1;
        self.count -= 1;
        self.buffer.swap(drawn, first);
        self.buffer[first].take()
    }
}

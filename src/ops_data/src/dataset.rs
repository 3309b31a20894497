//! `Dataset`: a description of a sequence of elements, and `Iter`, one pass over it. Both are plain values; the ops that make
//! datasets stand in the files of their kind, the ops that hold iterators in `iterators.rs`.

use std::any::Any;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};

use tfcore_base::{DType, Result, cancelled, internal, invalid, resource_exhausted};
use tfcore_files::Files;
use tfcore_framework::{Attrs, Caller, Cancellation, OpContext};
use tfcore_tensor::{BufferPool, PartialShape, Tensor, Variant, VariantValue};

use crate::rows::key_of;

/// The components of one element.
pub(crate) type Element = Vec<Tensor>;

/// Datasets are shared by variants, iterators and the datasets that read them.
pub(crate) type Handle = Arc<Dataset>;

/// The number of elements of a dataset that never ends.
pub(crate) const INFINITE: i64 = -1;
/// The number of elements of a dataset that cannot be counted without a pass over it.
pub(crate) const UNKNOWN: i64 = -2;

/// The longest chain of datasets. Each takes a frame of the stack in every call of its iterator.
const MAX_DEPTH: u32 = 1000;

/// The longest options of a pipeline, in bytes: those of inputs add up.
const MAX_OPTIONS: usize = 1 << 20;

/// Functions that make datasets whose functions make datasets, and so on.
const MAX_NESTED: u32 = 60;

/// What a kind of dataset does.
pub(crate) trait Rule: Send + Sync + 'static {
    /// The number of elements, [`INFINITE`] or [`UNKNOWN`].
    fn cardinality(&self) -> i64 {
        UNKNOWN
    }

    /// Begins a pass.
    ///
    /// # Errors
    /// Those of what the rule needs at its beginning, such as a function that makes the initial state.
    fn iterate(self: Arc<Self>, ctx: &IterContext) -> Result<Iter>;

    /// The size of the batches that the kind makes of elements.
    fn batch_size(&self) -> Option<i64> {
        None
    }

    /// The kind of pass, if the reference has several for the op, such as `FiniteTake`.
    fn pass_name(&self) -> Option<&'static str> {
        None
    }

    /// Element `index`, counted from 0, where a pass is not needed to find it. `None` if the kind has no random access.
    ///
    /// # Errors
    /// `OutOfRange` behind the last element.
    fn at(&self, index: u64, ctx: &IterContext) -> Option<Result<Element>> {
        let _ = (index, ctx);
        None
    }
}

/// A dataset: what all kinds have, and the rule of its kind.
pub(crate) struct Dataset {
    /// The op without "Dataset" and without its version, such as `ParallelMap`.
    pub(crate) name: String,
    pub(crate) dtypes: Vec<DType>,
    pub(crate) shapes: Vec<PartialShape>,
    pub(crate) inputs: Vec<Handle>,
    /// The serialised options of the inputs, each once, and those that this dataset adds: a reader lets later ones win.
    pub(crate) options: Vec<u8>,
    /// The node that made it: its attrs, and its inputs that are no datasets.
    pub(crate) source: (Attrs, Vec<Tensor>),
    /// True if the pipeline reads the records of files.
    pub(crate) reads_files: bool,
    rule: Arc<dyn Rule>,
    depth: u32,
    // A dataset may be read by several others, and those by one: what is asked of a whole pipeline is asked of each dataset once.
    cardinality: OnceLock<i64>,
    fingerprint: OnceLock<u64>,
    batch_size: OnceLock<Option<i64>>,
}

impl Dataset {
    /// # Errors
    /// `ResourceExhausted` for a chain of datasets that no stack could hold.
    pub(crate) fn new(
        name: String,
        (dtypes, shapes): (Vec<DType>, Vec<PartialShape>),
        inputs: Vec<Handle>,
        rule: Arc<dyn Rule>,
    ) -> Result<Dataset> {
        let depth = inputs.iter().map(|input| input.depth + 1).max().unwrap_or(0);
        if depth > MAX_DEPTH {
            return Err(resource_exhausted!("More than {MAX_DEPTH} datasets in a row"));
        }
        const FILES: [&str; 4] = ["TFRecord", "TextLine", "FixedLengthRecord", "CSV"];
        let reads_files =
            FILES.contains(&name.as_str()) || inputs.iter().any(|input| input.reads_files);
        let mut all: Vec<&[u8]> = Vec::new();
        for input in &inputs {
            if !all.contains(&&input.options[..]) {
                all.push(&input.options);
            }
        }
        let options = all.concat();
        if options.len() > MAX_OPTIONS {
            return Err(resource_exhausted!("More than {MAX_OPTIONS} bytes of options"));
        }
        Ok(Dataset {
            name,
            dtypes,
            shapes,
            inputs,
            options,
            source: (Attrs::new(), Vec::new()),
            reads_files,
            rule,
            depth,
            cardinality: OnceLock::new(),
            fingerprint: OnceLock::new(),
            batch_size: OnceLock::new(),
        })
    }

    pub(crate) fn cardinality(&self) -> i64 {
        *self.cardinality.get_or_init(|| self.rule.cardinality())
    }

    /// Begins a pass.
    ///
    /// # Errors
    /// Those of the dataset and its inputs.
    pub(crate) fn iterate(&self, ctx: &IterContext) -> Result<Iter> {
        let Some(after) = &ctx.after else {
            return self.rule.clone().iterate(ctx);
        };
        let name = self.rule.pass_name().unwrap_or(&self.name).to_string();
        let after = Some(Arc::new(After { name, after: Some(after.clone()) }));
        self.rule.clone().iterate(&IterContext { after, ..ctx.clone() })
    }

    /// The batch size that the transformations of the pipeline tell; `None` if they do not.
    pub(crate) fn batch_size(&self) -> Option<i64> {
        *self.batch_size.get_or_init(|| self.find_batch_size())
    }

    fn find_batch_size(&self) -> Option<i64> {
        if let Some(size) = self.rule.batch_size() {
            return Some(size);
        }
        match self.name.as_str() {
            "Zip" | "Concatenate" => {
                let first = self.inputs.first()?.batch_size()?;
                let is_same = |input: &Handle| input.batch_size() == Some(first);
                self.inputs.iter().all(is_same).then_some(first)
            }
            name if keeps_elements(name) => self.inputs.first()?.batch_size(),
            _ => None,
        }
    }

    /// See [`Rule::at`].
    pub(crate) fn at(&self, index: u64, ctx: &IterContext) -> Option<Result<Element>> {
        self.rule.at(index, ctx)
    }

    /// A number that equal pipelines share.
    ///
    /// # Errors
    /// `InvalidArgument` for inputs whose elements cannot be compared.
    pub(crate) fn fingerprint(&self) -> Result<u64> {
        if let Some(&known) = self.fingerprint.get() {
            return Ok(known);
        }
        let mut hasher = DefaultHasher::new();
        self.name.hash(&mut hasher);
        for (name, value) in self.source.0.iter().filter(|(name, _)| !name.starts_with('_')) {
            (name, value.to_string()).hash(&mut hasher);
        }
        for tensor in &self.source.1 {
            (tensor.dtype().to_i32(), key_of(tensor)?).hash(&mut hasher);
        }
        for input in &self.inputs {
            input.fingerprint()?.hash(&mut hasher);
        }
        Ok(*self.fingerprint.get_or_init(|| hasher.finish()))
    }

    /// The variant tensor that ops pass on.
    pub(crate) fn into_tensor(self) -> Tensor {
        as_tensor(Arc::new(self))
    }
}

pub(crate) fn as_tensor(dataset: Handle) -> Tensor {
    Tensor::scalar(Variant::new(DatasetValue(dataset)))
}

/// A dataset as the value of a variant.
struct DatasetValue(Handle);

impl VariantValue for DatasetValue {
    fn type_name(&self) -> &str {
        "tensorflow::DatasetVariantWrapper"
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The dataset in a tensor.
///
/// # Errors
/// `InvalidArgument` if the tensor is no scalar or holds something else.
pub(crate) fn from_tensor(tensor: &Tensor) -> Result<Handle> {
    if tensor.dtype() != DType::VARIANT || tensor.rank() != 0 {
        return Err(invalid!("Dataset tensor must be a scalar of dtype DT_VARIANT."));
    }
    let value: Variant = tensor.scalar_value()?;
    let dataset = value.get::<DatasetValue>().map(|value| value.0.clone());
    dataset.ok_or_else(|| invalid!("Tensor must be a Dataset object."))
}

/// What an iterator needs of the step or the thread that asks it for an element.
#[derive(Clone)]
pub(crate) struct IterContext {
    pub(crate) caller: Caller,
    pub(crate) files: Arc<Files>,
    pub(crate) buffers: Arc<BufferPool>,
    /// Datasets made by functions of datasets around this one.
    nested: u32,
    /// The datasets that read the one whose pass begins, where that is known: when an iterator begins its first pass.
    pub(crate) after: Option<Arc<After>>,
}

/// A dataset, and those that read it.
pub(crate) struct After {
    pub(crate) name: String,
    pub(crate) after: Option<Arc<After>>,
}

impl IterContext {
    /// For the last dataset of a pipeline.
    pub(crate) fn at_root(&self) -> IterContext {
        let root = After { name: "Root".to_string(), after: None };
        IterContext { after: Some(Arc::new(root)), ..self.clone() }
    }

    /// On behalf of a kernel.
    pub(crate) fn of(ctx: &OpContext<'_>) -> IterContext {
        let step = ctx.step();
        IterContext {
            caller: step.caller(),
            files: step.files.clone(),
            buffers: step.buffers.clone(),
            nested: 0,
            after: None,
        }
    }

    /// For a thread that outlives the step.
    pub(crate) fn detached(&self, cancellation: &Arc<Cancellation>) -> IterContext {
        let caller = Caller { cancellation: cancellation.clone(), depth: self.caller.depth };
        IterContext { caller, after: None, ..self.clone() }
    }

    /// For a dataset that a function of a dataset has made.
    ///
    /// # Errors
    /// `ResourceExhausted` for functions that make datasets of themselves without end.
    pub(crate) fn nested(&self) -> Result<IterContext> {
        if self.nested >= MAX_NESTED {
            return Err(resource_exhausted!("More than {MAX_NESTED} datasets inside one another"));
        }
        Ok(IterContext { nested: self.nested + 1, after: None, ..self.clone() })
    }

    /// # Errors
    /// `Cancelled` once the step is.
    pub(crate) fn check(&self) -> Result<()> {
        match self.caller.cancellation.is_cancelled() {
            true => Err(cancelled!("Iterator was cancelled")),
            false => Ok(()),
        }
    }
}

/// One pass over a dataset.
pub(crate) struct Iter(Box<dyn FnMut(&IterContext) -> Result<Option<Element>> + Send>);

impl Iter {
    /// A pass that `next` makes; `None` from it is the end.
    pub(crate) fn new(
        next: impl FnMut(&IterContext) -> Result<Option<Element>> + Send + 'static,
    ) -> Result<Iter> {
        Ok(Iter(Box::new(next)))
    }

    /// The next element; `None` at the end and ever after. An error need not be the end.
    ///
    /// # Errors
    /// Those of the dataset; `Cancelled`.
    pub(crate) fn next(&mut self, ctx: &IterContext) -> Result<Option<Element>> {
        ctx.check()?;
        (self.0)(ctx)
    }
}

/// A dataset of elements that are there already, such as a window of another one.
pub(crate) struct Elements(pub(crate) Vec<Element>);

impl Rule for Elements {
    fn cardinality(&self) -> i64 {
        self.0.len() as i64
    }

    fn iterate(self: Arc<Self>, _: &IterContext) -> Result<Iter> {
        let mut next = 0;
        Iter::new(move |_| {
            next += 1;
            Ok(self.0.get(next - 1).cloned())
        })
    }

    fn at(&self, index: u64, _: &IterContext) -> Option<Result<Element>> {
        Some(at_index(&self.0, index))
    }
}

/// # Errors
/// `OutOfRange` behind the last.
pub(crate) fn at_index(elements: &[Element], index: u64) -> Result<Element> {
    let found = usize::try_from(index).ok().and_then(|index| elements.get(index));
    found.cloned().ok_or_else(|| {
        tfcore_base::out_of_range!("Index out of range [0, {}):{index}", elements.len())
    })
}

/// True for transformations whose elements are elements of their input as they are.
pub(crate) fn keeps_elements(name: &str) -> bool {
    const KEEP: [&str; 30] = [
        "AssertCardinality",
        "AssertNext",
        "AssertPrev",
        "AutoShard",
        "BytesProducedStats",
        "Cache",
        "ChooseFastest",
        "Filter",
        "Finalize",
        "IgnoreErrors",
        "LatencyStats",
        "MaxIntraOpParallelism",
        "Model",
        "NonSerializable",
        "Optimize",
        "Options",
        "ParallelFilter",
        "Prefetch",
        "PrivateThreadPool",
        "Repeat",
        "Sampling",
        "SetStatsAggregator",
        "Shard",
        "Shuffle",
        "ShuffleAndRepeat",
        "Skip",
        "Sleep",
        "Take",
        "TakeWhile",
        "ThreadPool",
    ];
    KEEP.contains(&name)
}

/// The one tensor of an element or of a function's results.
///
/// # Errors
/// `Internal` if there are more or none.
pub(crate) fn only(mut tensors: Element) -> Result<Tensor> {
    match (tensors.pop(), tensors.is_empty()) {
        (Some(tensor), true) => Ok(tensor),
        _ => Err(internal!("One tensor was expected")),
    }
}

/// The number of elements of a dataset with at most `limit`.
pub(crate) fn at_most(cardinality: i64, limit: i64) -> i64 {
    match cardinality {
        UNKNOWN => UNKNOWN,
        INFINITE => limit,
        known => known.min(limit),
    }
}

/// The number of elements where `size` of the input make one.
pub(crate) fn batched(cardinality: i64, size: i64, drop_remainder: bool) -> i64 {
    match cardinality {
        INFINITE | UNKNOWN => cardinality,
        known if drop_remainder => known / size,
        known => known / size + i64::from(known % size != 0),
    }
}

//! Barriers: they collect the components of elements by key, and let complete elements be taken.

use std::collections::HashMap;
use std::sync::Arc;

use tfcore_base::{DType, Error, Result, cancelled, invalid, out_of_range};
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, OpContext, Registry, Resource, kernel, shape_fns,
    shape_ops,
};
use tfcore_tensor::{PartialShape, TString, Tensor};

use crate::monitor::{Line, Monitor, State, Turn, waiting_kernel};
use crate::named::{NamedResource, Signature, check_no_timeout, find, handle_kernel, int32};
use crate::queue::{
    Attempt, Dequeue, Element, Form, Order, Outcome, QueueSpec, QueueState, UNBOUNDED,
    check_full_shapes, row,
};
use crate::shapes;

pub(crate) fn register(r: &mut Registry) {
    // `Barrier(; component_types, shapes, capacity, container, shared_name) -> handle: Ref(string)`, the barrier of
    // that name.
    r.op("Barrier").shape(shapes::ref_handle).cpu(barrier);

    // `BarrierInsertMany(handle: Ref(string), keys: string, values: T; component_index)`, brings one component of
    // the elements with these keys.
    r.op("BarrierInsertMany").shape(insert_shape).cpu(insert_many);

    // `BarrierTakeMany(handle: Ref(string), num_elements: int32; allow_small_batch) -> indices: int64, keys: string,
    // values: component_types`, takes complete elements, in the order in which their keys were first seen.
    r.op("BarrierTakeMany").shape(shape_fns::unknown).cpu(take_many);

    // `BarrierClose(handle: Ref(string); cancel_pending_enqueues)`, lets in no further keys, or nothing at all.
    r.op("BarrierClose").shape(shapes::of_ref_handle).cpu(|init| {
        let cancel = init.attrs.bool("cancel_pending_enqueues")?;
        kernel(move |ctx| find::<Barrier>(ctx, 0)?.monitor.change(|state| state.close(cancel)))
    });

    // `BarrierReadySize(handle: Ref(string)) -> size: int32`, the number of complete elements.
    r.op("BarrierReadySize")
        .shape(shapes::of_ref_handle)
        .compute(|ctx| set_size(ctx, |state| state.ready.len()));

    // `BarrierIncompleteSize(handle: Ref(string)) -> size: int32`, the number of elements with missing components.
    r.op("BarrierIncompleteSize")
        .shape(shapes::of_ref_handle)
        .compute(|ctx| set_size(ctx, |state| state.incomplete.len()));
}

struct Barrier {
    /// What its node says of it.
    spec: QueueSpec,
    monitor: Arc<Monitor<BarrierState>>,
}

impl Resource for Barrier {
    fn type_name(&self) -> &'static str {
        Barrier::TYPE
    }
}

impl NamedResource for Barrier {
    const TYPE: &'static str = "N10tensorflow7barrier7BarrierE";
}

struct BarrierState {
    name: String,
    /// Complete elements: index, key, values.
    ready: QueueState,
    incomplete: HashMap<TString, Incomplete>,
    /// The index of the elements that the next op with new keys brings.
    next_index: i64,
    closed: bool,
    /// Closed for missing components too.
    cancelled: bool,
}

/// An element that is not complete yet.
struct Incomplete {
    index: i64,
    values: Vec<Option<Tensor>>,
}

fn barrier(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let wanted = QueueSpec {
        name: String::new(),
        order: Order::Priority,
        capacity: UNBOUNDED,
        dtypes: init.attrs.dtypes("component_types")?.to_vec(),
        shapes: init.attrs.shapes("shapes")?.to_vec(),
    };
    if wanted.shapes.len() != wanted.dtypes.len() {
        return Err(invalid!("All of the component shapes must be specified"));
    }
    check_full_shapes(&wanted)?;
    if int32(init.attrs, "capacity")? != -1 {
        return Err(invalid!(
            "Barrier only accepts capacity=-1.  Feed the inputs to your Barrier through a queue to enforce a \
             limited capacity."
        ));
    }
    let made = wanted.clone();
    handle_kernel(
        init,
        move |name| Ok(Barrier::new(QueueSpec { name: name.to_string(), ..made.clone() })),
        move |barrier: &Barrier| barrier.spec.check_shared_components("barrier", &wanted),
    )
}

impl Barrier {
    fn new(spec: QueueSpec) -> Barrier {
        let scalars = [PartialShape::scalar(), PartialShape::scalar()];
        let ready = QueueSpec {
            name: format!("{}_queue", spec.name),
            order: Order::Priority,
            capacity: UNBOUNDED,
            dtypes: [&[DType::INT64, DType::STRING][..], &spec.dtypes].concat(),
            shapes: scalars.iter().chain(&spec.shapes).cloned().collect(),
        };
        let monitor = Monitor::new(BarrierState {
            name: spec.name.clone(),
            ready: QueueState::new(Arc::new(ready)),
            incomplete: HashMap::new(),
            next_index: i64::MIN,
            closed: false,
            cancelled: false,
        });
        Barrier { spec, monitor }
    }
}

fn insert_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    shapes::check_ref_handle(ctx)?;
    let keys = shape_ops::with_rank(ctx.input(1), 1)?;
    let values = shape_ops::with_rank_at_least(ctx.input(2), 1)?;
    shape_ops::merge(&keys, &PartialShape::vector(values.dim(0)))?;
    Ok(())
}

fn insert_many(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let component = int32(init.attrs, "component_index")?;
    let signature = Signature::new(init);
    kernel(move |ctx| {
        let barrier = find::<Barrier>(ctx, 0)?;
        let dtypes = &barrier.spec.dtypes;
        let index = usize::try_from(component).ok().filter(|&index| index < dtypes.len());
        let Some(index) = index else {
            return Err(invalid!(
                "The component ID is out of range {component} > num_components (= {})",
                dtypes.len()
            ));
        };
        signature.check_inputs(2, &dtypes[index..=index])?;
        let (keys, values) = (ctx.input_slice::<TString>(1)?, ctx.input(2)?);
        let name = &barrier.spec.name;
        if !keys.is_empty() && values.count() == 0 {
            return Err(invalid!(
                "Tensors with no elements are not supported {name}: received shape {}",
                values.shape()
            ));
        }
        let num_values = values.shape().first().map_or(1, |&rows| rows as usize);
        if num_values < keys.len() {
            return Err(invalid!("{} keys with {num_values} values", keys.len()));
        }
        let values: Vec<Tensor> =
            (0..keys.len()).map(|k| row(ctx, values, k)).collect::<Result<_>>()?;
        barrier.monitor.change(|state| state.insert(index, keys, values))
    })
}

fn take_many(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    check_no_timeout(init.attrs)?;
    let form = match init.attrs.bool("allow_small_batch")? {
        true => Form::SmallBatch,
        false => Form::Batch,
    };
    let signature = Signature::new(init);
    waiting_kernel(move |ctx| {
        let barrier = find::<Barrier>(ctx, 0)?;
        let count = ctx.input(1)?;
        if count.rank() != 0 {
            return Err(invalid!("num_elements must be a scalar."));
        }
        let count = count.scalar_value::<i32>()?;
        let Ok(count) = usize::try_from(count) else {
            return Err(invalid!("BarrierTakeMany requested {count} < 0 elements"));
        };
        let (spec, wanted) = barrier.monitor.read(|state| {
            let wanted = state.deliverable(count, form)?;
            Ok::<_, Error>((state.ready.spec().clone(), wanted))
        })?;
        signature.check_outputs(0, &spec.dtypes)?;
        if wanted == 0 {
            QueueState::deliver(Outcome::Batch(spec, Vec::new()), ctx)?;
            return Ok(None);
        }
        let attempt = Attempt::Dequeue(Dequeue::new(wanted, form));
        Ok(Some((barrier.monitor.clone(), attempt)))
    })
}

fn set_size(ctx: &mut OpContext<'_>, size: impl Fn(&BarrierState) -> usize) -> Result<()> {
    let size = find::<Barrier>(ctx, 0)?.monitor.read(size);
    ctx.set_output(0, Tensor::scalar(i32::try_from(size).unwrap_or(i32::MAX)));
    Ok(())
}

impl BarrierState {
    /// Brings one component of the elements with these keys. Those that are complete then can be taken.
    fn insert(&mut self, component: usize, keys: &[TString], values: Vec<Tensor>) -> Result<()> {
        let missing = self.incomplete.len();
        if self.closed && (self.cancelled || (!keys.is_empty() && missing == 0)) {
            return Err(cancelled!(
                "Barrier {} is closed.  Pending enqueues cancelled: {}.  Number of new insertions: {}.  \
                 Number of incomplete keys: {missing}.",
                self.name,
                i32::from(self.cancelled),
                keys.len()
            ));
        }
        let mut is_new = false;
        for (position, (key, value)) in keys.iter().zip(values).enumerate() {
            is_new |= self.insert_one(component, key, value, position)?;
        }
        if is_new {
            self.next_index = self.next_index.saturating_add(1);
        }
        if self.closed && self.incomplete.is_empty() {
            self.ready.set_closed();
        }
        Ok(())
    }

    /// Returns whether the key is a new one.
    fn insert_one(
        &mut self,
        component: usize,
        key: &TString,
        value: Tensor,
        position: usize,
    ) -> Result<bool> {
        let shown = || String::from_utf8_lossy(key.as_bytes()).into_owned();
        let is_new = !self.incomplete.contains_key(key);
        if is_new && self.closed {
            return Err(cancelled!(
                "Barrier {} is closed, but attempted to insert a brand new key: {}.  Pending enqueues \
                 cancelled: {}.  Insertion index: {position}.  Number of incomplete keys: {}.",
                self.name,
                shown(),
                i32::from(self.cancelled),
                self.incomplete.len()
            ));
        }
        let (index, components) = (self.next_index, self.ready.spec().dtypes.len() - 2);
        let element = self
            .incomplete
            .entry(key.clone())
            .or_insert_with(|| Incomplete { index, values: vec![None; components] });
        let place = &mut element.values[component];
        if place.is_some() {
            return Err(invalid!(
                "Key {} already has a value for component {component} in barrier {}",
                shown(),
                self.name
            ));
        }
        *place = Some(value);
        if element.values.iter().all(Option::is_some)
            && let Some(complete) = self.incomplete.remove(key)
        {
            let head = [Tensor::scalar(complete.index), Tensor::scalar(key.clone())];
            let tuple: Element =
                head.into_iter().chain(complete.values.into_iter().flatten()).collect();
            self.ready.spec().check_element(&tuple)?;
            self.ready.push(tuple);
        }
        Ok(is_new)
    }

    fn close(&mut self, cancel: bool) -> Result<()> {
        // Closing once more is allowed if only now missing components are given up.
        if self.closed && (self.cancelled || !cancel) {
            return Err(cancelled!("Barrier '{}' is already closed.", self.name));
        }
        self.closed = true;
        self.cancelled = cancel;
        if cancel {
            self.incomplete.clear();
        }
        if self.incomplete.is_empty() {
            self.ready.set_closed();
        }
        Ok(())
    }

    /// How many elements an op gets that wants `wanted`.
    ///
    /// # Errors
    /// `OutOfRange` if there never will be enough.
    fn deliverable(&self, wanted: usize, form: Form) -> Result<usize> {
        if !self.closed {
            return Ok(wanted);
        }
        let (deliverable, total) = match form {
            Form::SmallBatch => (wanted.min(self.ready.len()), self.ready.len()),
            _ => (wanted, self.ready.len() + self.incomplete.len()),
        };
        if total < deliverable.max(1) {
            return Err(out_of_range!(
                "Barrier '{}' is closed and has insufficient elements (requested {deliverable}, total size \
                 {total})",
                self.name
            ));
        }
        Ok(deliverable)
    }
}

impl State for BarrierState {
    type Attempt = Attempt;
    type Outcome = Outcome;

    fn line(attempt: &Attempt) -> Line {
        QueueState::line(attempt)
    }

    fn attempt(&mut self, attempt: &mut Attempt) -> Turn<Outcome> {
        self.ready.attempt(attempt)
    }

    fn cancelled(attempt: &Attempt) -> Error {
        QueueState::cancelled(attempt)
    }

    fn deliver(outcome: Outcome, op: &mut OpContext<'_>) -> Result<()> {
        QueueState::deliver(outcome, op)
    }
}

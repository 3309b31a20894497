//! `Queue`: what its nodes say of it, what is in it, and what ops attempt on it.

mod batch;
mod handles;
mod ops;
mod store;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use tfcore_base::{DType, Error, Result, cancelled, invalid, out_of_range};
use tfcore_framework::{OpContext, Registry, Resource};
use tfcore_tensor::{PartialShape, Shape, Tensor};

use crate::monitor::{Line, Monitor, State, Turn};
use crate::named::{NamedResource, join};

pub(crate) use batch::row;
pub(crate) use handles::check_full_shapes;
pub(crate) use store::Element;

use store::Store;

pub(crate) fn register(r: &mut Registry) {
    handles::register(r);
    ops::register(r);
}

/// A queue.
pub(crate) struct Queue {
    pub(crate) spec: Arc<QueueSpec>,
    pub(crate) monitor: Arc<Monitor<QueueState>>,
}

impl Resource for Queue {
    fn type_name(&self) -> &'static str {
        Queue::TYPE
    }
}

impl NamedResource for Queue {
    const TYPE: &'static str = "N10tensorflow14QueueInterfaceE";
}

impl Queue {
    pub(crate) fn new(spec: QueueSpec) -> Queue {
        let spec = Arc::new(spec);
        Queue { spec: spec.clone(), monitor: Monitor::new(QueueState::new(spec)) }
    }

    /// The number of elements.
    pub(crate) fn len(&self) -> usize {
        self.monitor.read(QueueState::len)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.monitor.read(|state| state.closed)
    }

    /// Closes the queue and sends away those who wait to bring something.
    pub(crate) fn close_and_cancel(&self) {
        let error = enqueue_cancelled();
        self.monitor.change_and_send_away(Line::Bring, &error, QueueState::set_closed);
    }
}

/// The four kinds of queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    Fifo,
    /// First in, first out; elements of unlike shapes are padded when they are batched.
    Padding,
    Shuffle {
        /// Elements that stay in the queue until it is closed.
        min_after_dequeue: usize,
        seeds: (i64, i64),
    },
    Priority,
}

impl Order {
    fn name(self) -> &'static str {
        match self {
            Order::Fifo => "FIFOQueue",
            Order::Padding => "PaddingFIFOQueue",
            Order::Shuffle { .. } => "RandomShuffleQueue",
            Order::Priority => "PriorityQueue",
        }
    }

    /// The name in what single elements are told: the reference's padding queues leave those to their base.
    fn base_name(self) -> &'static str {
        if self == Order::Padding { Order::Fifo.name() } else { self.name() }
    }
}

/// What does not change about a queue.
#[derive(Clone)]
pub(crate) struct QueueSpec {
    pub(crate) name: String,
    pub(crate) order: Order,
    pub(crate) capacity: usize,
    pub(crate) dtypes: Vec<DType>,
    /// Shapes of the components; none where any shape will do.
    pub(crate) shapes: Vec<PartialShape>,
}

/// The capacity of queues that never are full.
pub(crate) const UNBOUNDED: usize = i32::MAX as usize;

impl QueueSpec {
    /// # Errors
    /// `InvalidArgument` unless `tuple` can be an element.
    pub(crate) fn check_element(&self, tuple: &[Tensor]) -> Result<()> {
        self.check_components(tuple)?;
        for (index, (tensor, expected)) in tuple.iter().zip(&self.shapes).enumerate() {
            if !expected.admits(tensor.shape()) {
                return Err(shape_mismatch(index, &expected.to_string(), tensor));
            }
        }
        Ok(())
    }

    /// The number of elements in a batch of them.
    ///
    /// # Errors
    /// `InvalidArgument` unless the components of `tuple` are batches of one size.
    pub(crate) fn check_batch(&self, tuple: &[Tensor]) -> Result<usize> {
        self.check_components(tuple)?;
        let size = tuple.first().and_then(|first| first.shape().first().copied()).unwrap_or(0);
        for (index, tensor) in tuple.iter().enumerate() {
            let own_size = tensor.shape().first();
            match self.shapes.get(index) {
                Some(row) => {
                    let fits = own_size == Some(&size) && row.admits(&tensor.shape()[1..]);
                    if !fits {
                        let expected: PartialShape = PartialShape::vector(size)
                            .dims()
                            .into_iter()
                            .chain(row.dims())
                            .flatten()
                            .copied()
                            .collect();
                        return Err(shape_mismatch(index, &expected.to_string(), tensor));
                    }
                }
                None if own_size != Some(&size) => {
                    return Err(invalid!(
                        "All input tensors must have the same size in the 0th dimension. Component {index} \
                         has {}, and should have {size}",
                        own_size.map_or("no dimension".to_string(), i64::to_string)
                    ));
                }
                None => {}
            }
        }
        Ok(size as usize)
    }

    fn check_components(&self, tuple: &[Tensor]) -> Result<()> {
        if tuple.len() != self.dtypes.len() {
            return Err(invalid!(
                "Wrong number of components in tuple. Expected {}, got {}",
                self.dtypes.len(),
                tuple.len()
            ));
        }
        for (index, (tensor, &expected)) in tuple.iter().zip(&self.dtypes).enumerate() {
            if tensor.dtype() != expected {
                return Err(invalid!(
                    "Type mismatch in tuple component {index}. Expected {expected}, got {}",
                    tensor.dtype()
                ));
            }
        }
        Ok(())
    }

    /// # Errors
    /// `InvalidArgument` unless elements can be batched.
    pub(crate) fn check_can_batch(&self) -> Result<()> {
        if self.shapes.is_empty() {
            return Err(invalid!(
                "{}'s DequeueMany and DequeueUpTo require the components to have specified shapes.",
                self.order.name()
            ));
        }
        Ok(())
    }

    /// # Errors
    /// `InvalidArgument` unless a node that describes its queue by `wanted` may share this one.
    pub(crate) fn check_shared(&self, op: &str, wanted: &QueueSpec) -> Result<()> {
        let found = self.order;
        let same_kind = std::mem::discriminant(&found) == std::mem::discriminant(&wanted.order);
        if !same_kind {
            return Err(invalid!("Expected {}, found {op}", found.name()));
        }
        let name = &self.name;
        if self.capacity != wanted.capacity {
            return Err(invalid!(
                "Shared queue '{name}' has capacity {} but requested capacity was {}",
                self.capacity,
                wanted.capacity
            ));
        }
        self.check_shared_components("queue", wanted)?;
        if let (
            Order::Shuffle { min_after_dequeue: min, seeds },
            Order::Shuffle { min_after_dequeue: wanted_min, seeds: wanted_seeds },
        ) = (found, wanted.order)
        {
            if min != wanted_min {
                return Err(invalid!(
                    "Shared queue '{name}' has min_after_dequeue {min} but requested \
                     min_after_dequeue was {wanted_min}."
                ));
            }
            if wanted_seeds != (0, 0) && wanted_seeds != seeds {
                return Err(invalid!(
                    "Shared queue '{name}' has random seeds {seeds:?} but requested seeds are \
                     {wanted_seeds:?}."
                ));
            }
        }
        Ok(())
    }

    pub(crate) fn check_shared_components(&self, kind: &str, wanted: &QueueSpec) -> Result<()> {
        let name = &self.name;
        if self.dtypes != wanted.dtypes {
            return Err(invalid!(
                "Shared {kind} '{name}' has component types {} but requested component types were {}",
                join(&self.dtypes),
                join(&wanted.dtypes)
            ));
        }
        // The reference lets padding queues differ.
        if self.order != Order::Padding && self.shapes != wanted.shapes {
            return Err(invalid!(
                "Shared {kind} '{name}' has component shapes [{}] but requested component shapes were [{}]",
                join(&self.shapes),
                join(&wanted.shapes)
            ));
        }
        Ok(())
    }

    /// The shape of a row of a batch without rows.
    fn empty_row(&self, component: usize) -> Vec<i64> {
        let dims = self.shapes.get(component).and_then(PartialShape::dims).unwrap_or_default();
        dims.iter().map(|dim| dim.value().unwrap_or(0)).collect()
    }
}

fn shape_mismatch(index: usize, expected: &str, got: &Tensor) -> Error {
    let got: &Shape = got.shape();
    invalid!("Shape mismatch in tuple component {index}. Expected {expected}, got {got}")
}

fn enqueue_cancelled() -> Error {
    cancelled!("Enqueue operation was cancelled")
}

/// What changes about a queue.
pub(crate) struct QueueState {
    spec: Arc<QueueSpec>,
    store: Store,
    closed: bool,
}

impl QueueState {
    pub(crate) fn new(spec: Arc<QueueSpec>) -> QueueState {
        let store = match spec.order {
            Order::Fifo | Order::Padding => Store::fifo(),
            Order::Shuffle { seeds, .. } => Store::shuffle(seeds.0, seeds.1),
            Order::Priority => Store::priority(),
        };
        QueueState { spec, store, closed: false }
    }

    pub(crate) fn spec(&self) -> &Arc<QueueSpec> {
        &self.spec
    }

    pub(crate) fn len(&self) -> usize {
        self.store.len()
    }

    /// Puts an element into a queue that is never full.
    pub(crate) fn push(&mut self, element: Element) {
        self.store.push(element);
    }

    /// Lets nobody wait for elements that will not come.
    pub(crate) fn set_closed(&mut self) {
        self.closed = true;
    }
}

/// What ops attempt on a queue.
pub(crate) enum Attempt {
    /// To bring elements.
    Enqueue(smallvec::IntoIter<[Element; 1]>),
    /// To close the queue, after all who came before have brought their elements.
    Close,
    /// To take elements.
    Dequeue(Dequeue),
}

pub(crate) struct Dequeue {
    /// How many are still wanted.
    pub(crate) wanted: usize,
    pub(crate) taken: Vec<Element>,
    pub(crate) form: Form,
}

/// In which form elements are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Single,
    Batch,
    /// A batch of fewer elements will do if the queue is closed.
    SmallBatch,
}

impl Dequeue {
    pub(crate) fn new(wanted: usize, form: Form) -> Dequeue {
        Dequeue { wanted, taken: Vec::new(), form }
    }
}

/// What ops take away from a queue.
pub(crate) enum Outcome {
    Nothing,
    Element(Element),
    Batch(Arc<QueueSpec>, Vec<Element>),
}

impl State for QueueState {
    type Attempt = Attempt;
    type Outcome = Outcome;

    fn line(attempt: &Attempt) -> Line {
        match attempt {
            Attempt::Enqueue(_) | Attempt::Close => Line::Bring,
            Attempt::Dequeue(_) => Line::Take,
        }
    }

    fn attempt(&mut self, attempt: &mut Attempt) -> Turn<Outcome> {
        match attempt {
            Attempt::Enqueue(elements) => self.enqueue(elements),
            Attempt::Close => self.close(),
            Attempt::Dequeue(dequeue) => self.dequeue(dequeue),
        }
    }

    fn cancelled(attempt: &Attempt) -> Error {
        match QueueState::line(attempt) {
            Line::Bring => enqueue_cancelled(),
            Line::Take => cancelled!("Dequeue operation was cancelled"),
        }
    }

    fn deliver(outcome: Outcome, op: &mut OpContext<'_>) -> Result<()> {
        match outcome {
            Outcome::Nothing => {}
            Outcome::Element(element) => {
                for (index, tensor) in element.into_iter().enumerate() {
                    op.set_output(index, tensor);
                }
            }
            Outcome::Batch(spec, elements) => {
                for component in 0..spec.dtypes.len() {
                    let tensor = batch::stack(op, &spec, component, &elements)?;
                    op.set_output(component, tensor);
                }
            }
        }
        Ok(())
    }
}

impl QueueState {
    fn enqueue(&mut self, elements: &mut smallvec::IntoIter<[Element; 1]>) -> Turn<Outcome> {
        if self.closed {
            let order = self.spec.order.base_name();
            return Turn::Done(Err(cancelled!("{order} '{}' is closed.", self.spec.name)));
        }
        let before = self.store.len();
        let room = self.spec.capacity.saturating_sub(before);
        for element in elements.by_ref().take(room) {
            self.store.push(element);
        }
        match elements.len() {
            0 => Turn::Done(Ok(Outcome::Nothing)),
            _ if self.store.len() > before => Turn::Progress,
            _ => Turn::Wait,
        }
    }

    fn close(&mut self) -> Turn<Outcome> {
        if self.closed {
            return Turn::Done(Err(cancelled!("Queue '{}' is already closed.", self.spec.name)));
        }
        self.closed = true;
        Turn::Done(Ok(Outcome::Nothing))
    }

    fn dequeue(&mut self, dequeue: &mut Dequeue) -> Turn<Outcome> {
        if self.closed && self.store.len() < dequeue.wanted {
            let size = self.store.len();
            let missing = self.insufficient(dequeue, size);
            // What has been taken goes back, for others or for a smaller batch.
            self.store.put_back(std::mem::take(&mut dequeue.taken));
            if dequeue.form != Form::SmallBatch || self.store.len() == 0 {
                return Turn::Done(Err(missing));
            }
            dequeue.wanted = self.store.len();
        }
        let available = self.available(dequeue.wanted).min(dequeue.wanted);
        dequeue.taken.extend((0..available).map_while(|_| self.store.pop()));
        dequeue.wanted -= available;
        match dequeue.wanted {
            0 => Turn::Done(Ok(self.outcome(dequeue))),
            _ if available > 0 => Turn::Progress,
            _ => Turn::Wait,
        }
    }

    /// How many elements an op that wants `wanted` may take now.
    fn available(&self, wanted: usize) -> usize {
        let size = self.store.len();
        match self.spec.order {
            Order::Shuffle { min_after_dequeue, .. } if !self.closed => {
                size.saturating_sub(min_after_dequeue)
            }
            // All at once: what comes later may have to go first.
            Order::Priority if size < wanted => 0,
            _ => size,
        }
    }

    fn insufficient(&self, dequeue: &Dequeue, size: usize) -> Error {
        let order = match dequeue.form {
            Form::Single => self.spec.order.base_name(),
            _ => self.spec.order.name(),
        };
        out_of_range!(
            "{order} '{}' is closed and has insufficient elements (requested {}, current size {size})",
            self.spec.name,
            dequeue.wanted
        )
    }

    fn outcome(&self, dequeue: &mut Dequeue) -> Outcome {
        let mut taken = std::mem::take(&mut dequeue.taken);
        match dequeue.form {
            Form::Single => Outcome::Element(taken.pop().unwrap_or_default()),
            _ => Outcome::Batch(self.spec.clone(), taken),
        }
    }
}

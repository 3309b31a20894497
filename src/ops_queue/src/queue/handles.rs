//! The ops that make queues and hand out their handles.

use tfcore_base::{DType, Result, invalid};
use tfcore_framework::{Kernel, KernelInit, Registry};
use tfcore_tensor::PartialShape;

use super::{Order, Queue, QueueSpec, UNBOUNDED};
use crate::named::{handle_kernel, int32, join};
use crate::shapes;

pub(crate) fn register(r: &mut Registry) {
    // `FIFOQueueV2(; component_types, shapes, capacity, container, shared_name) -> handle: resource`, a queue of
    // that name, first in, first out. A negative capacity means that the queue is never full.
    r.op("FIFOQueueV2").shape(shapes::resource_handle).cpu(fifo);
    r.op("FIFOQueue").shape(shapes::ref_handle).cpu(fifo);

    // `PaddingFIFOQueueV2`, as `FIFOQueueV2`, with dimensions of which the sizes may vary.
    r.op("PaddingFIFOQueueV2").shape(shapes::resource_handle).cpu(padding);
    r.op("PaddingFIFOQueue").shape(shapes::ref_handle).cpu(padding);

    // `RandomShuffleQueueV2(; ..., min_after_dequeue, seed, seed2)`, as `FIFOQueueV2`, with elements in random order.
    r.op("RandomShuffleQueueV2").shape(shapes::resource_handle).cpu(shuffle);
    r.op("RandomShuffleQueue").shape(shapes::ref_handle).cpu(shuffle);

    // `PriorityQueueV2`, as `FIFOQueueV2`; elements begin with a scalar `int64`, of which the smallest leaves first.
    r.op("PriorityQueueV2").shape(shapes::resource_handle).cpu(priority);
    r.op("PriorityQueue").shape(shapes::ref_handle).cpu(priority);
}

fn fifo(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let spec = spec(init, Order::Fifo)?;
    check_full_shapes(&spec)?;
    queue(init, spec.clone(), spec)
}

fn padding(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let spec = spec(init, Order::Padding)?;
    if spec.shapes.len() != spec.dtypes.len() {
        return Err(invalid!(
            "Shapes must be provided for all components, but received {} dtypes and {} shapes.",
            spec.dtypes.len(),
            spec.shapes.len()
        ));
    }
    if spec.shapes.iter().any(|shape| shape.rank().is_none()) {
        return Err(invalid!("shape <unknown> must have known rank."));
    }
    queue(init, spec.clone(), spec)
}

fn shuffle(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let min_after_dequeue = int32(init.attrs, "min_after_dequeue")?;
    let seeds = (init.attrs.int("seed")?, init.attrs.int("seed2")?);
    let Ok(min) = usize::try_from(min_after_dequeue) else {
        return Err(invalid!("min_after_dequeue {min_after_dequeue} must be >= 0"));
    };
    let spec = spec(init, Order::Shuffle { min_after_dequeue: min, seeds })?;
    if min >= spec.capacity {
        return Err(invalid!("min_after_dequeue {min} must be < capacity {}", spec.capacity));
    }
    check_full_shapes(&spec)?;
    queue(init, spec.clone(), spec)
}

fn priority(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let mut made = spec(init, Order::Priority)?;
    made.dtypes.insert(0, DType::INT64);
    let mut wanted = made.clone();
    wanted.shapes.insert(0, PartialShape::scalar());
    // Without shapes the queue has none for the priority either, and is not what the node describes.
    if !made.shapes.is_empty() {
        made = wanted.clone();
    }
    check_full_shapes(&made)?;
    queue(init, made, wanted)
}

/// What the attrs say of a queue, which has no name yet.
fn spec(init: &KernelInit<'_>, order: Order) -> Result<QueueSpec> {
    let capacity = usize::try_from(int32(init.attrs, "capacity")?).unwrap_or(UNBOUNDED);
    let dtypes = init.attrs.dtypes("component_types")?.to_vec();
    let shapes = init.attrs.shapes("shapes")?.to_vec();
    Ok(QueueSpec { name: String::new(), order, capacity, dtypes, shapes })
}

/// # Errors
/// `InvalidArgument` unless the shapes are those of all components, or there are none.
pub(crate) fn check_full_shapes(spec: &QueueSpec) -> Result<()> {
    if let Some(shape) = spec.shapes.iter().find(|shape| shape.to_shape().is_none()) {
        return Err(invalid!("Shape {shape} is not fully defined"));
    }
    if !spec.shapes.is_empty() && spec.shapes.len() != spec.dtypes.len() {
        return Err(invalid!(
            "Different number of component types.  Types: {}, Shapes: [{}]",
            join(&spec.dtypes),
            join(&spec.shapes)
        ));
    }
    Ok(())
}

/// The kernel that makes a queue by `made`, and shares those that are as `wanted`.
fn queue(init: &KernelInit<'_>, made: QueueSpec, wanted: QueueSpec) -> Result<Box<dyn Kernel>> {
    let op = init.op.name.clone();
    handle_kernel(
        init,
        move |name| Ok(Queue::new(QueueSpec { name: name.to_string(), ..made.clone() })),
        move |queue: &Queue| queue.spec.check_shared(&op, &wanted),
    )
}

//! The ops on queues, behind handles of either kind.

use std::sync::Arc;

use smallvec::{SmallVec, smallvec};
use tfcore_base::{Result, invalid};
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, Registry, kernel, shape_fns, shape_ops,
};
use tfcore_tensor::{Dim, PartialShape, Tensor};

use super::batch::split;
use super::{Attempt, Dequeue, Element, Form, Outcome, Queue, QueueState};
use crate::monitor::{State, waiting_kernel};
use crate::named::{Signature, check_no_timeout, find, ref_handle};
use crate::shapes;

pub(crate) fn register(r: &mut Registry) {
    // `QueueEnqueueV2(handle: resource, components: Tcomponents; timeout_ms)`, brings an element as soon as there is
    // room.
    r.ops(["QueueEnqueue", "QueueEnqueueV2"], |op| {
        op.shape(shape_fns::unknown).cpu(enqueue);
    });

    // `QueueEnqueueManyV2(handle: resource, components: Tcomponents; timeout_ms)`, brings the rows of the components,
    // one element after the other.
    r.ops(["QueueEnqueueMany", "QueueEnqueueManyV2"], |op| {
        op.shape(shape_fns::unknown).cpu(enqueue_many);
    });

    // `QueueDequeueV2(handle: resource; component_types, timeout_ms) -> components: component_types`, takes an
    // element as soon as there is one.
    r.op("QueueDequeue").shape(shape_fns::unknown).cpu(dequeue);
    r.op("QueueDequeueV2").shape(|ctx| dequeued(ctx, &PartialShape::scalar())).cpu(dequeue);

    // `QueueDequeueManyV2(handle: resource, n: int32; component_types, timeout_ms) -> components: component_types`,
    // takes `n` elements as one batch, as soon as there are so many.
    let many = |init: &KernelInit<'_>| dequeue_many(init, Form::Batch, "DequeueManyOp");
    r.op("QueueDequeueMany").shape(shape_fns::unknown).cpu(many);
    r.op("QueueDequeueManyV2").shape(dequeue_many_shape).cpu(many);

    // `QueueDequeueUpToV2`, as `QueueDequeueManyV2`, but takes what there is once the queue is closed.
    let up_to = |init: &KernelInit<'_>| dequeue_many(init, Form::SmallBatch, "DequeueUpToOp");
    r.op("QueueDequeueUpTo").shape(shape_fns::unknown).cpu(up_to);
    r.op("QueueDequeueUpToV2")
        .shape(|ctx| dequeued(ctx, &PartialShape::vector(Dim::fresh())))
        .cpu(up_to);

    // `QueueCloseV2(handle: resource; cancel_pending_enqueues)`, lets nobody bring elements any more, after or
    // instead of those who wait to do so.
    r.op("QueueClose").shape(shapes::of_ref_handle).cpu(close);
    r.op("QueueCloseV2").shape(shape_fns::no_outputs).cpu(close);

    // `QueueIsClosedV2(handle: resource) -> is_closed: bool`.
    r.ops(["QueueIsClosed", "QueueIsClosedV2"], |op| {
        op.shape(shape_fns::scalar).compute(|ctx| {
            let closed = find::<Queue>(ctx, 0)?.is_closed();
            ctx.set_output(0, Tensor::scalar(closed));
            Ok(())
        });
    });

    // `QueueSizeV2(handle: resource) -> size: int32`, the number of elements.
    for (name, v2) in [("QueueSize", false), ("QueueSizeV2", true)] {
        let shape = if v2 { unchanged } else { shapes::of_ref_handle };
        r.op(name).shape(shape).compute(|ctx| {
            let size = find::<Queue>(ctx, 0)?.len();
            ctx.set_output(0, Tensor::scalar(i32::try_from(size).unwrap_or(i32::MAX)));
            Ok(())
        });
    }

    // `FakeQueue(resource) -> handle: Ref(string)`, the handle of old for a resource handle.
    r.op("FakeQueue").shape(shapes::ref_handle).cpu(fake_queue);
}

/// The reference's word for the size of a queue behind a resource handle: the handle's shape.
fn unchanged(ctx: &mut InferenceContext<'_>) -> Result<()> {
    ctx.set_output(0, ctx.input(0).clone());
    Ok(())
}

/// The components' shapes behind `batch`, where the handle knows them.
fn dequeued(ctx: &mut InferenceContext<'_>, batch: &PartialShape) -> Result<()> {
    let Some(data) = ctx.input_handle(0).filter(|data| data.len() == ctx.num_outputs()) else {
        return Ok(());
    };
    for (index, component) in data.iter().enumerate() {
        ctx.set_output(index, shape_ops::concatenate(batch, &component.shape));
    }
    Ok(())
}

fn dequeue_many_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let size = match ctx.operand_i64s(1)?.as_deref() {
        None => Dim::fresh(),
        Some(&[n]) if n >= 0 => Dim::new(n),
        Some(&[n]) => return Err(invalid!("Input 'n' must be >= 0, but is {n}")),
        Some(_) => return Err(invalid!("Input 'n' must be one number")),
    };
    dequeued(ctx, &PartialShape::vector(size))
}

fn enqueue(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    check_no_timeout(init.attrs)?;
    let signature = Signature::new(init);
    waiting_kernel(move |ctx| {
        let queue = find::<Queue>(ctx, 0)?;
        signature.check_inputs(1, &queue.spec.dtypes)?;
        // A client may write to a tensor that it has fed: the queue gets its own.
        let element: Element = (1..ctx.num_inputs())
            .map(|index| ctx.take_or_copy_input(index))
            .collect::<Result<_>>()?;
        queue.spec.check_element(&element)?;
        let elements: SmallVec<[Element; 1]> = smallvec![element];
        Ok(Some((queue.monitor.clone(), Attempt::Enqueue(elements.into_iter()))))
    })
}

fn enqueue_many(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    check_no_timeout(init.attrs)?;
    let signature = Signature::new(init);
    waiting_kernel(move |ctx| {
        let queue = find::<Queue>(ctx, 0)?;
        signature.check_inputs(1, &queue.spec.dtypes)?;
        let batch: Element =
            (1..ctx.num_inputs()).map(|index| ctx.take_input(index)).collect::<Result<_>>()?;
        match queue.spec.check_batch(&batch)? {
            0 => Ok(None),
            size => {
                let elements = split(ctx, &batch, size)?;
                Ok(Some((queue.monitor.clone(), Attempt::Enqueue(elements.into_iter()))))
            }
        }
    })
}

fn dequeue(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    check_no_timeout(init.attrs)?;
    let signature = Signature::new(init);
    waiting_kernel(move |ctx| {
        let queue = find::<Queue>(ctx, 0)?;
        signature.check_outputs(0, &queue.spec.dtypes)?;
        let dequeue = Dequeue::new(1, Form::Single);
        Ok(Some((queue.monitor.clone(), Attempt::Dequeue(dequeue))))
    })
}

fn dequeue_many(init: &KernelInit<'_>, form: Form, op: &'static str) -> Result<Box<dyn Kernel>> {
    check_no_timeout(init.attrs)?;
    let signature = Signature::new(init);
    waiting_kernel(move |ctx| {
        let queue = find::<Queue>(ctx, 0)?;
        let Some(&n) = ctx.input_slice::<i32>(1)?.first() else {
            return Err(invalid!("{op} needs a number of elements"));
        };
        let Ok(wanted) = usize::try_from(n) else {
            return Err(invalid!("{op} requested {n} < 0 elements"));
        };
        signature.check_outputs(0, &queue.spec.dtypes)?;
        queue.spec.check_can_batch()?;
        if wanted == 0 {
            QueueState::deliver(Outcome::Batch(queue.spec.clone(), Vec::new()), ctx)?;
            return Ok(None);
        }
        let dequeue = Dequeue::new(wanted, form);
        Ok(Some((queue.monitor.clone(), Attempt::Dequeue(dequeue))))
    })
}

fn close(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let cancel = init.attrs.bool("cancel_pending_enqueues")?;
    waiting_kernel(move |ctx| {
        let queue = find::<Queue>(ctx, 0)?;
        if cancel {
            queue.close_and_cancel();
            return Ok(None);
        }
        Ok(Some((queue.monitor.clone(), Attempt::Close)))
    })
}

fn fake_queue(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let node = init.name.to_string();
    kernel(move |ctx| {
        let key = ctx.handle(0)?;
        let handle = ref_handle(&node, &key.container, &key.name);
        ctx.set_output_ref(0, Arc::new(handle));
        Ok(())
    })
}

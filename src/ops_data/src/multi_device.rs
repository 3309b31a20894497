//! Iterators that deal the elements of one pass out to several devices in turn.

use std::collections::VecDeque;
use std::sync::Arc;

use tfcore_base::{DType, Result, failed_precondition, out_of_range, require};
use tfcore_framework::{
    DEFAULT_CONTAINER, Kernel, KernelInit, Registry, Resource, container_and_name, shape_fns,
};
use tfcore_tensor::{PartialShape, ResourceHandle, Tensor};

use crate::args::{Args, components_shape, handle_shape, kernel, set_components};
use crate::dataset::{Element, Handle, Iter, IterContext};
use crate::iterators::{check_components, check_signature, from_string_handle, to_string_handle};
use crate::monitor::Monitor;
use crate::resources::{self, Life, Named, find, find_key, set_anonymous};

pub(crate) fn register(r: &mut Registry) {
    // `MultiDeviceIterator() -> handle: resource`, for attr `devices`.
    r.op("MultiDeviceIterator").shape(handle_shape).cpu(named);
    for (name, life) in [
        ("AnonymousMultiDeviceIterator", Life::Handles),
        ("AnonymousMultiDeviceIteratorV3", Life::Handles),
    ] {
        r.op(name).shape(handle_shape).cpu(move |init| {
            kernel(init, move |args| set_anonymous(args.ctx, MultiDevice::of_node(args)?, life))
        });
    }
    // `MultiDeviceIteratorInit(dataset: variant, multi_device_iterator: resource, max_buffer_size: int64) ->
    // incarnation_id: int64`, begins a pass.
    r.op("MultiDeviceIteratorInit").shape(shape_fns::scalar).cpu(|init| kernel(init, begin));
    // `MultiDeviceIteratorGetNextFromShard(multi_device_iterator: resource, shard_num: int32,
    // incarnation_id: int64) -> components: output_types`.
    r.op("MultiDeviceIteratorGetNextFromShard")
        .shape(components_shape)
        .cpu(|init| kernel(init, next));
    r.op("MultiDeviceIteratorToStringHandle").shape(shape_fns::scalar).compute(|ctx| {
        let tensor = to_string_handle::<MultiDevice>(ctx)?;
        ctx.set_output(0, tensor);
        Ok(())
    });
    r.op("MultiDeviceIteratorFromStringHandle").shape(shape_fns::scalar).cpu(|init| {
        kernel(init, |args| {
            let key = from_string_handle(args)?;
            let iterator = find_key::<MultiDevice>(args.ctx, &key)?;
            let dtypes = args.attrs().dtypes("output_types")?;
            if !dtypes.is_empty() {
                check_signature(dtypes, &[], &iterator.dtypes, &[])?;
            }
            args.ctx.set_output(0, Tensor::scalar(ResourceHandle(Some(Arc::new(key)))));
            Ok(())
        })
    });
    r.op("DeleteMultiDeviceIterator").shape(shape_fns::no_outputs).compute(resources::delete);
}

/// A pass and the elements that wait for the shards.
struct MultiDevice {
    dtypes: Vec<DType>,
    shapes: Vec<PartialShape>,
    shards: usize,
    pass: Arc<Monitor<Pass>>,
}

#[derive(Default)]
struct Pass {
    /// Counts passes, the first is 1.
    incarnation: i64,
    /// `None` while a thread has it.
    iter: Option<Iter>,
    ended: bool,
    /// The shard of the next element.
    turn: usize,
    waiting: Vec<VecDeque<Result<Element>>>,
}

impl Resource for MultiDevice {
    fn type_name(&self) -> &'static str {
        MultiDevice::TYPE
    }
}

impl Named for MultiDevice {
    const TYPE: &'static str = "N10tensorflow4data12_GLOBAL__N_119MultiDeviceIteratorE";
    const ANONYMOUS: &'static str = "AnonymousMultiDeviceIterator";
}

impl MultiDevice {
    fn of_node(args: &Args<'_, '_>) -> Result<MultiDevice> {
        let (dtypes, shapes) = args.signature(&[])?;
        let shards = args.attrs().string_list("devices")?.len().max(1);
        Ok(MultiDevice { dtypes, shapes, shards, pass: Monitor::new(Pass::default()) })
    }

    fn begin(&self, dataset: &Handle, ctx: &IterContext) -> Result<i64> {
        check_signature(&self.dtypes, &self.shapes, &dataset.dtypes, &dataset.shapes)?;
        let iter = dataset.iterate(&ctx.at_root())?;
        let (old, incarnation) = self.pass.change(|pass| {
            let incarnation = pass.incarnation + 1;
            let waiting = (0..self.shards).map(|_| VecDeque::new()).collect();
            let new = Pass { incarnation, iter: Some(iter), waiting, ..Pass::default() };
            (std::mem::replace(pass, new), incarnation)
        });
        // What it holds ends once nobody waits for the lock.
        drop(old);
        Ok(incarnation)
    }

    /// The next element of a shard. The thread that finds none takes the pass out and goes on to the next element.
    fn next(&self, shard: usize, incarnation: i64, ctx: &IterContext) -> Result<Option<Element>> {
        enum Turn {
            Done(Result<Option<Element>>),
            Advance(Iter),
        }
        loop {
            let turn = self.pass.wait_until(ctx, |pass| {
                if pass.incarnation != incarnation {
                    return Some(Turn::Done(Err(tfcore_base::invalid!(
                        "Invalid incarnation id. Provided: {incarnation}; Expected: {}",
                        pass.incarnation
                    ))));
                }
                if let Some(element) = pass.waiting.get_mut(shard).and_then(VecDeque::pop_front) {
                    return Some(Turn::Done(element.map(Some)));
                }
                if pass.ended {
                    return Some(Turn::Done(Ok(None)));
                }
                pass.iter.take().map(Turn::Advance)
            })?;
            let mut iter = match turn {
                Turn::Done(result) => return result,
                Turn::Advance(iter) => iter,
            };
            let mut lost = Lost { pass: &self.pass, is_lost: true };
            let next = iter.next(ctx);
            lost.is_lost = false;
            let is_cancelled = next.is_err() && ctx.check().is_err();
            let left = self.pass.change(|pass| {
                if pass.incarnation != incarnation {
                    return Some(iter);
                }
                pass.iter = Some(iter);
                if is_cancelled {
                    return None;
                }
                let (turn, shards) = (pass.turn, self.shards);
                match next {
                    Ok(None) => pass.ended = true,
                    Ok(Some(element)) => {
                        pass.waiting[turn].push_back(Ok(element));
                        pass.turn = (turn + 1) % shards;
                    }
                    Err(error) => {
                        pass.waiting[turn].push_back(Err(error));
                        pass.turn = (turn + 1) % shards;
                    }
                }
                None
            });
            drop(left);
            ctx.check()?;
        }
    }
}

/// Ends a pass that a panic has taken along, so that the other shards do not wait for it.
struct Lost<'p> {
    pass: &'p Monitor<Pass>,
    is_lost: bool,
}

impl Drop for Lost<'_> {
    fn drop(&mut self) {
        if self.is_lost {
            self.pass.change(|pass| pass.ended = true);
        }
    }
}

fn named(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let (container, name) = container_and_name(init.attrs)?;
    let container = if container.is_empty() { DEFAULT_CONTAINER } else { container }.to_string();
    let name = if name.is_empty() { init.name } else { name }.to_string();
    kernel(init, move |args| {
        let kind = MultiDevice::TYPE;
        let made = MultiDevice::of_node(args)?;
        args.ctx.resources().get_or_create(&container, kind, &name, || Ok(made))?;
        args.ctx.set_output(0, resources::handle(args.ctx, &container, &name, kind, None));
        Ok(())
    })
}

fn begin(args: &mut Args<'_, '_>) -> Result<()> {
    args.scalar::<i64>("max_buffer_size")?;
    let dataset = args.dataset("dataset")?;
    let iterator = find::<MultiDevice>(args.ctx, args.index("multi_device_iterator")?)?;
    let incarnation = iterator.begin(&dataset, &args.iter_context())?;
    args.ctx.set_output(0, Tensor::scalar(incarnation));
    Ok(())
}

fn next(args: &mut Args<'_, '_>) -> Result<()> {
    let shard: i32 = args.scalar("shard_num")?;
    let incarnation: i64 = args.scalar("incarnation_id")?;
    let iterator = find::<MultiDevice>(args.ctx, 0)?;
    let shards = iterator.shards;
    if iterator.pass.lock().incarnation == 0 {
        return Err(failed_precondition!("The multi-device iterator has not been initialized."));
    }
    let index = usize::try_from(shard).ok().filter(|&index| index < shards);
    require!(index.is_some(), "shard_num must be between 0 and {shards}, got {shard}");
    let element = iterator.next(index.unwrap_or(0), incarnation, &args.iter_context())?;
    let element = element.ok_or_else(|| out_of_range!("End of sequence"))?;
    check_components(args, &element)?;
    set_components(args.ctx, element)
}

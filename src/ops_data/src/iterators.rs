//! Iterators: resources that hold one pass over a dataset, and the ops that advance them.

use std::sync::{Arc, OnceLock};

use prost::Message;
use tfcore_base::{DType, Result, failed_precondition, invalid, out_of_range, require};
use tfcore_framework::{
    DEFAULT_CONTAINER, Kernel, KernelInit, OpContext, Registry, Resource, container_and_name,
    kernel as plain_kernel, shape_fns, shape_ops,
};
use tfcore_proto::ResourceHandleProto;
use tfcore_tensor::{HandleKey, PartialShape, ResourceHandle, TString, Tensor};

use crate::args::{Args, components_shape, handle_shape, kernel, set_components};
use crate::dataset::{Element, Handle, Iter, IterContext};
use crate::monitor::Monitor;
use crate::optional::optional;
use crate::resources::{self, Life, Named, find, find_key, set_anonymous};

pub(crate) fn register(r: &mut Registry) {
    // `IteratorV2() -> handle: resource`, by attrs `container` and `shared_name`, else by the node's name.
    r.ops(["Iterator", "IteratorV2"], |op| {
        op.shape(handle_shape).cpu(named);
    });
    // `AnonymousIteratorV2() -> handle: resource, deleter: variant`.
    for (name, life) in [
        ("AnonymousIterator", Life::Container),
        ("AnonymousIteratorV2", Life::Handles),
        ("AnonymousIteratorV3", Life::Handles),
    ] {
        r.op(name).shape(handle_shape).cpu(move |init| {
            kernel(init, move |args| {
                let iterator = IteratorResource::new(args.signature(&[])?);
                set_anonymous(args.ctx, iterator, life)
            })
        });
    }
    // `OneShotIterator() -> handle: resource`, over the dataset that function `dataset_factory` makes.
    r.op("OneShotIterator").shape(handle_shape).cpu(one_shot);
    // `MakeIterator(dataset: variant, iterator: resource)`, begins a pass.
    r.op("MakeIterator").shape(shape_fns::no_outputs).cpu(|init| kernel(init, make));
    // `DeleteIterator(handle: resource, deleter: variant)`.
    r.op("DeleteIterator").shape(shape_fns::no_outputs).compute(resources::delete);
    // `IteratorGetNext(iterator: resource) -> components: output_types`, `OutOfRange` at the end.
    r.ops(["IteratorGetNext", "IteratorGetNextSync"], |op| {
        op.shape(components_shape).cpu(|init| kernel(init, get_next));
    });
    // `IteratorGetNextAsOptional(iterator: resource) -> optional: variant`, none at the end.
    r.op("IteratorGetNextAsOptional").shape(handle_shape).cpu(|init| {
        kernel(init, |args| {
            let iterator = find::<IteratorResource>(args.ctx, 0)?;
            let element = iterator.next(&args.iter_context())?;
            if let Some(element) = &element {
                check(args.attrs().dtypes("output_types")?, element)?;
            }
            args.ctx.set_output(0, optional(element));
            Ok(())
        })
    });
    // `IteratorToStringHandle(resource_handle: resource) -> string_handle: string`.
    r.op("IteratorToStringHandle").shape(shape_fns::scalar).compute(|ctx| {
        let tensor = to_string_handle::<IteratorResource>(ctx)?;
        ctx.set_output(0, tensor);
        Ok(())
    });
    // `IteratorFromStringHandle(string_handle: string) -> resource_handle: resource`.
    r.ops(["IteratorFromStringHandle", "IteratorFromStringHandleV2"], |op| {
        op.shape(shape_fns::scalar).cpu(|init| kernel(init, from_string_handle_kernel));
    });
    // `IteratorGetDevice(resource: resource) -> device: string`.
    r.ops(["IteratorGetDevice", "ExperimentalIteratorGetDevice"], |op| {
        op.shape(shape_fns::scalar).compute(|ctx| {
            let device = ctx.handle(0)?.device.clone();
            ctx.set_output(0, Tensor::scalar(TString::from(device.as_str())));
            Ok(())
        });
    });
    // `IteratorGetModelProto(iterator: resource) -> model_proto: string`: no model is kept.
    r.op("IteratorGetModelProto").shape(shape_fns::scalar).compute(|ctx| {
        find::<IteratorResource>(ctx, 0)?.initialised("GetModelProto()")?;
        ctx.set_output(0, Tensor::scalar(TString::new()));
        Ok(())
    });
    // `SerializeIterator(resource_handle: resource) -> serialized: variant`.
    r.op("SerializeIterator")
        .shape(|ctx| {
            ctx.set_output(0, PartialShape::vector(tfcore_tensor::Dim::UNKNOWN));
            Ok(())
        })
        .cpu(|init| kernel(init, serialize));
    // `DeserializeIterator(resource_handle: resource, serialized: variant)`.
    r.op("DeserializeIterator").shape(shape_fns::no_outputs).cpu(|init| kernel(init, deserialize));
}

/// An iterator that a graph names.
pub(crate) struct IteratorResource {
    pub(crate) dtypes: Vec<DType>,
    pub(crate) shapes: Vec<PartialShape>,
    pass: Arc<Monitor<Pass>>,
}

/// One pass at a time. The thread that asks for an element takes the pass out, so that no lock is held meanwhile.
#[derive(Default)]
struct Pass {
    /// `None` before the first pass.
    dataset: Option<Handle>,
    /// `None` while a thread has it.
    iter: Option<Iter>,
    /// Counts passes: one that was replaced meanwhile is dropped, not put back.
    number: u64,
    /// Elements handed out in this pass.
    produced: u64,
}

impl Resource for IteratorResource {
    fn type_name(&self) -> &'static str {
        IteratorResource::TYPE
    }
}

impl Named for IteratorResource {
    const TYPE: &'static str = "N10tensorflow4data16IteratorResourceE";
    const ANONYMOUS: &'static str = "AnonymousIterator";
}

impl IteratorResource {
    fn new((dtypes, shapes): (Vec<DType>, Vec<PartialShape>)) -> IteratorResource {
        IteratorResource { dtypes, shapes, pass: Monitor::new(Pass::default()) }
    }

    /// Begins a pass over `dataset`, `skipped` elements after its beginning.
    ///
    /// # Errors
    /// `InvalidArgument` for other components than the iterator's.
    fn begin(&self, dataset: &Handle, skipped: u64, ctx: &IterContext) -> Result<()> {
        check_signature(&self.dtypes, &self.shapes, &dataset.dtypes, &dataset.shapes)?;
        let mut iter = dataset.iterate(&ctx.at_root())?;
        for _ in 0..skipped {
            if iter.next(ctx)?.is_none() {
                break;
            }
        }
        let old = self.pass.change(|pass| {
            pass.dataset = Some(dataset.clone());
            pass.number += 1;
            pass.produced = skipped;
            pass.iter.replace(iter)
        });
        // What it holds ends once nobody waits for the lock.
        drop(old);
        Ok(())
    }

    /// # Errors
    /// `FailedPrecondition` before the first pass; those of the dataset.
    pub(crate) fn next(&self, ctx: &IterContext) -> Result<Option<Element>> {
        self.initialised("GetNext()")?;
        let (iter, number) = self.pass.wait_until(ctx, |pass| {
            let number = pass.number;
            pass.iter.take().map(|iter| (iter, number))
        })?;
        let mut taken = Taken { pass: &self.pass, iter: Some(iter), number, produced: 0 };
        let result = match &mut taken.iter {
            Some(iter) => iter.next(ctx),
            None => Ok(None),
        };
        taken.produced = u64::from(matches!(result, Ok(Some(_))));
        result
    }

    fn initialised(&self, what: &str) -> Result<(Handle, u64)> {
        let pass = self.pass.lock();
        let dataset = pass.dataset.clone().map(|dataset| (dataset, pass.produced));
        dataset.ok_or_else(|| {
            failed_precondition!(
                "{what} failed because the iterator has not been initialized. Ensure that you have run the \
                 initializer operation for this iterator before getting the next element."
            )
        })
    }
}

/// A pass in the hands of a thread, which goes back whatever happens to the thread.
struct Taken<'p> {
    pass: &'p Monitor<Pass>,
    iter: Option<Iter>,
    number: u64,
    produced: u64,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let iter = self.iter.take();
        let left = self.pass.change(|pass| {
            if pass.number != self.number {
                return iter;
            }
            pass.iter = iter;
            pass.produced += self.produced;
            None
        });
        drop(left);
    }
}

/// # Errors
/// `InvalidArgument` unless the second components agree with the first.
pub(crate) fn check_signature(
    dtypes: &[DType],
    shapes: &[PartialShape],
    got_dtypes: &[DType],
    got_shapes: &[PartialShape],
) -> Result<()> {
    require!(
        dtypes.len() == got_dtypes.len(),
        "Number of components does not match: expected {} types but got {}.",
        dtypes.len(),
        got_dtypes.len()
    );
    for (index, (expected, got)) in dtypes.iter().zip(got_dtypes).enumerate() {
        require!(
            expected == got,
            "Data type mismatch at component {index}: expected {expected} but got {got}."
        );
    }
    require!(
        shapes.len() == got_shapes.len(),
        "Number of components does not match: expected {} shapes but got {}.",
        shapes.len(),
        got_shapes.len()
    );
    for (index, (expected, got)) in shapes.iter().zip(got_shapes).enumerate() {
        require!(
            shape_ops::merge(expected, got).is_ok(),
            "Incompatible shapes at component {index}: expected {expected} but got {got}."
        );
    }
    Ok(())
}

/// # Errors
/// `InvalidArgument` unless the components have the types.
pub(crate) fn check(dtypes: &[DType], element: &[Tensor]) -> Result<()> {
    let got: Vec<DType> = element.iter().map(Tensor::dtype).collect();
    check_signature(dtypes, &[], &got, &[])
}

/// # Errors
/// `InvalidArgument` unless the components have the types and shapes of attrs `output_types` and `output_shapes`.
pub(crate) fn check_components(args: &Args<'_, '_>, element: &[Tensor]) -> Result<()> {
    let shapes: Vec<PartialShape> = element.iter().map(|part| part.shape().into()).collect();
    let dtypes: Vec<DType> = element.iter().map(Tensor::dtype).collect();
    let attrs = args.attrs();
    check_signature(attrs.dtypes("output_types")?, attrs.shapes("output_shapes")?, &dtypes, &shapes)
}

fn named(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let (container, name) = container_and_name(init.attrs)?;
    let container = if container.is_empty() { DEFAULT_CONTAINER } else { container }.to_string();
    let name = if name.is_empty() { init.name } else { name }.to_string();
    kernel(init, move |args| {
        let signature = args.signature(&[])?;
        let (dtypes, shapes) = signature.clone();
        let made = args.ctx.resources().get_or_create(
            &container,
            IteratorResource::TYPE,
            &name,
            || Ok(IteratorResource::new(signature)),
        )?;
        check_signature(&dtypes, &shapes, &made.dtypes, &made.shapes)?;
        let handle = resources::handle(args.ctx, &container, &name, IteratorResource::TYPE, None);
        args.ctx.set_output(0, handle);
        Ok(())
    })
}

fn one_shot(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let (container, shared) = container_and_name(init.attrs)?;
    let container = if container.is_empty() { DEFAULT_CONTAINER } else { container }.to_string();
    let (shared, node) = (shared.to_string(), init.name.to_string());
    let name: OnceLock<String> = OnceLock::new();
    kernel(init, move |args| {
        let name = name.get_or_init(|| match shared.as_str() {
            "" => {
                let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                format!("_{number}_{node}")
            }
            shared => shared.to_string(),
        });
        let signature = args.signature(&[])?;
        let kind = IteratorResource::TYPE;
        if args.ctx.resources().get::<IteratorResource>(&container, kind, name).is_err() {
            let func = args.attrs().func("dataset_factory")?.clone();
            let factory = args.captured(&func.name, &func.attrs, Vec::new())?;
            let ctx = args.iter_context();
            let results = factory.call(&ctx, Vec::new())?;
            let [tensor] = &results[..] else {
                return Err(invalid!(
                    "The `dataset_factory` function must return a single scalar of dtype DT_VARIANT."
                ));
            };
            let dataset = crate::dataset::from_tensor(tensor)?;
            let iterator = IteratorResource::new(signature);
            iterator.begin(&dataset, 0, &ctx)?;
            args.ctx.resources().get_or_create(&container, kind, name, || Ok(iterator))?;
        }
        args.ctx.set_output(0, resources::handle(args.ctx, &container, name, kind, None));
        Ok(())
    })
}

fn make(args: &mut Args<'_, '_>) -> Result<()> {
    let dataset = args.dataset("dataset")?;
    let iterator = find::<IteratorResource>(args.ctx, args.index("iterator")?)?;
    iterator.begin(&dataset, 0, &args.iter_context())
}

fn get_next(args: &mut Args<'_, '_>) -> Result<()> {
    let iterator = find::<IteratorResource>(args.ctx, 0)?;
    let element = iterator.next(&args.iter_context())?;
    let element = element.ok_or_else(|| out_of_range!("End of sequence"))?;
    check_components(args, &element)?;
    set_components(args.ctx, element)
}

/// The serialised handle at input 0.
///
/// # Errors
/// As [`find`].
pub(crate) fn to_string_handle<R: Named>(ctx: &OpContext<'_>) -> Result<Tensor> {
    find::<R>(ctx, 0)?;
    let key = ctx.handle(0)?;
    let proto = ResourceHandleProto {
        device: key.device.clone(),
        container: key.container.clone(),
        name: key.name.clone(),
        maybe_type_name: key.type_name.clone(),
        ..Default::default()
    };
    Ok(Tensor::scalar(TString::from(&proto.encode_to_vec()[..])))
}

/// The handle that the string at input 0 is.
///
/// # Errors
/// `InvalidArgument` if it is none, or of another device.
pub(crate) fn from_string_handle(args: &Args<'_, '_>) -> Result<HandleKey> {
    let tensor = args.tensor("string_handle")?;
    require!(tensor.rank() == 0, "string_handle must be a scalar");
    let text = args.text("string_handle")?;
    let proto = ResourceHandleProto::decode(&text[..])
        .map_err(|_| invalid!("Could not parse string_handle as a valid ResourceHandle"))?;
    let device = &args.ctx.step().device;
    require!(
        *proto.device == **device,
        "Attempted create an iterator on device \"{device}\" from handle defined on device \"{}\"",
        proto.device
    );
    Ok(HandleKey {
        device: proto.device,
        container: proto.container,
        name: proto.name,
        type_name: proto.maybe_type_name,
        dtypes_and_shapes: Vec::new(),
        resource: None,
    })
}

fn from_string_handle_kernel(args: &mut Args<'_, '_>) -> Result<()> {
    let key = from_string_handle(args)?;
    let iterator = find_key::<IteratorResource>(args.ctx, &key)?;
    let (dtypes, shapes) = args.signature(&[])?;
    if !dtypes.is_empty() && args.attrs().dtypes("output_types").is_ok_and(|list| !list.is_empty())
    {
        let compared = !args.attrs().shapes("output_shapes")?.is_empty();
        let none: (&[PartialShape], &[PartialShape]) = (&[], &[]);
        let (expected, got) = if compared { (&shapes[..], &iterator.shapes[..]) } else { none };
        check_signature(&dtypes, expected, &iterator.dtypes, got)?;
    }
    args.ctx.set_output(0, Tensor::scalar(ResourceHandle(Some(Arc::new(key)))));
    Ok(())
}

/// A saved iterator: the dataset and how many elements of it have been handed out.
struct Saved {
    dataset: Handle,
    produced: u64,
}

impl tfcore_tensor::VariantValue for Saved {
    fn type_name(&self) -> &str {
        "tensorflow::IteratorStateVariant"
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

fn serialize(args: &mut Args<'_, '_>) -> Result<()> {
    let policy = args.attrs().int("external_state_policy")?;
    require!((0..=2).contains(&policy), "Unexpected value of external policy: {policy}");
    let (dataset, produced) = find::<IteratorResource>(args.ctx, 0)?.initialised("Save()")?;
    let saved = tfcore_tensor::Variant::new(Saved { dataset, produced });
    args.ctx.set_output(0, crate::rows::variants(&[saved])?);
    Ok(())
}

fn deserialize(args: &mut Args<'_, '_>) -> Result<()> {
    let iterator = find::<IteratorResource>(args.ctx, 0)?;
    iterator.initialised("Restore()")?;
    let values = args.tensor("serialized")?.as_slice::<tfcore_tensor::Variant>()?.to_vec();
    let saved = values.first().and_then(|value| value.get::<Saved>());
    let saved = saved.ok_or_else(|| invalid!("The serialized iterator is no iterator's state"))?;
    iterator.begin(&saved.dataset, saved.produced, &args.iter_context())
}

/// A kernel of one output, a handle of a resource that is the same for the whole container.
pub(crate) fn dummy(init: &KernelInit<'_>, kind: &'static str) -> Result<Box<dyn Kernel>> {
    let name = init.name.to_string();
    plain_kernel(move |ctx| {
        let handle = resources::handle(ctx, DEFAULT_CONTAINER, &name, kind, None);
        ctx.set_output(0, handle);
        Ok(())
    })
}

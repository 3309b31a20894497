//! Handles of tensor arrays and stacks, which live as long as their step.
//!
//! The old ops pass a pair of strings, behind a ref or as it is: a container and a name. Newer ones pass a
//! resource handle, which leads to the resource without a look at names.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use tfcore_base::{Code, DType, Error, Result, internal, invalid, not_found};
use tfcore_framework::{OpContext, Resource, Value, Variable};
use tfcore_tensor::{HandleKey, OpaqueResource, ResourceHandle, Shape, TString, Tensor};

/// A kind of resource that lives as long as its step.
pub(crate) trait StepResource: Resource {
    /// The type name, as handles show it.
    const TYPE: &'static str;

    /// The error for a handle of another shape than a pair of strings.
    fn no_handle(shape: &Shape) -> Error;
}

/// `name` with a number behind it that no other name has.
pub(crate) fn unique_name(name: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{name}_{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Keeps `resource` until the step ends, under the name that its handles have.
///
/// # Errors
/// `AlreadyExists` if the step has one of that name.
pub(crate) fn keep<T: StepResource>(
    ctx: &OpContext<'_>,
    container: &str,
    name: &str,
    resource: Arc<T>,
) -> Result<()> {
    ctx.step().keep(T::TYPE, format!("{container}{name}"), resource)
}

/// Sets output 0 to a handle of `resource`, of the kind that the op has.
pub(crate) fn output_handle<T: StepResource>(
    ctx: &mut OpContext<'_>,
    container: &str,
    name: &str,
    resource: &Arc<T>,
) -> Result<()> {
    let dtype = ctx.output_dtype(0);
    if dtype == DType::RESOURCE {
        let handle = resource_handle(ctx, format!("{container}{name}"), resource);
        ctx.set_output(0, handle);
        return Ok(());
    }
    let pair =
        Tensor::from_slice(Shape::vector(2), &[TString::from(container), TString::from(name)])?;
    if dtype.is_ref() {
        let variable = Variable::new(name, DType::STRING, Shape::vector(2));
        variable.write(pair);
        ctx.set_output_ref(0, Arc::new(variable));
    } else {
        ctx.set_output(0, pair);
    }
    Ok(())
}

/// What a handle holds: the resource itself is the step's.
struct Held<T>(Weak<T>);

fn resource_handle<T: StepResource>(
    ctx: &OpContext<'_>,
    name: String,
    resource: &Arc<T>,
) -> Tensor {
    Tensor::scalar(ResourceHandle(Some(Arc::new(HandleKey {
        device: ctx.step().device.to_string(),
        container: ctx.step().container_name(),
        name,
        type_name: T::TYPE.to_string(),
        dtypes_and_shapes: Vec::new(),
        resource: Some(OpaqueResource(Arc::new(Held(Arc::downgrade(resource))))),
    }))))
}

/// The resource whose handle is input 0.
///
/// # Errors
/// `NotFound` if the step has no such resource, `InvalidArgument` if the input is no handle of one.
pub(crate) fn find<T: StepResource>(ctx: &OpContext<'_>) -> Result<Arc<T>> {
    if matches!(ctx.value(0), Some(Value::Tensor(tensor)) if tensor.dtype() == DType::RESOURCE) {
        return find_by_handle(ctx);
    }
    let (container, name) = handle_pair::<T>(ctx)?;
    ctx.step().kept(T::TYPE, &format!("{container}{name}"))
}

/// The container and the name that the strings at input 0 say.
///
/// # Errors
/// `InvalidArgument` if they are no pair.
pub(crate) fn handle_pair<T: StepResource>(ctx: &OpContext<'_>) -> Result<(String, String)> {
    let pair = match ctx.value(0) {
        Some(Value::Ref(variable)) => variable.read()?,
        Some(Value::Tensor(tensor)) => tensor.clone(),
        _ => return Err(internal!("Input 0 is no handle")),
    };
    let text = |part: &TString| String::from_utf8_lossy(part.as_bytes()).into_owned();
    match pair.as_slice::<TString>()? {
        [container, name] => Ok((text(container), text(name))),
        _ => Err(T::no_handle(pair.shape())),
    }
}

fn find_by_handle<T: StepResource>(ctx: &OpContext<'_>) -> Result<Arc<T>> {
    let key = ctx.handle(0)?;
    let held = key.resource.as_ref().and_then(|held| held.0.downcast_ref::<Held<T>>());
    match held {
        Some(Held(resource)) => resource.upgrade().ok_or_else(|| {
            not_found!("Resource {}/{}/{} does not exist.", key.container, key.name, T::TYPE)
        }),
        None => Err(invalid!(
            "Trying to access a handle's resource using the wrong type. The handle points to a resource (name \
             '{}') of type '{}' but you are trying to access the resource as type '{}'",
            key.name,
            key.type_name,
            T::TYPE
        )),
    }
}

/// Leaves out the error that something is there already.
pub(crate) fn unless_it_exists(result: Result<()>) -> Result<()> {
    match result {
        Err(error) if error.code() == Code::AlreadyExists => Ok(()),
        other => other,
    }
}

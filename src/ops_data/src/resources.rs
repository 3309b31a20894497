//! Resources of the family: handles by name, anonymous ones, and how ops find what a handle stands for.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tfcore_base::{Result, internal, invalid, not_found};
use tfcore_framework::{DEFAULT_CONTAINER, OpContext, Resource};
use tfcore_tensor::{HandleKey, OpaqueResource, ResourceHandle, Tensor, Variant, VariantValue};

/// A resource that ops name by its type.
pub(crate) trait Named: Resource + Sized {
    /// The name of the type, as handles have it.
    const TYPE: &'static str;
    /// What anonymous ones are named after.
    const ANONYMOUS: &'static str;
}

/// Who owns an anonymous resource.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Life {
    /// Its container.
    Container,
    /// Its handles.
    Handles,
}

pub(crate) fn handle(
    ctx: &OpContext<'_>,
    container: &str,
    name: &str,
    type_name: &str,
    resource: Option<OpaqueResource>,
) -> Tensor {
    Tensor::scalar(ResourceHandle(Some(Arc::new(HandleKey {
        device: ctx.step().device.to_string(),
        container: container.to_string(),
        name: name.to_string(),
        type_name: type_name.to_string(),
        dtypes_and_shapes: Vec::new(),
        resource,
    }))))
}

/// Sets output 0 to a handle of `resource` under a name of its own, and output 1, if there is one, to a variant for the op that deletes
/// it. The variant is not needed for that: the handle says enough.
///
/// # Errors
/// None but those of a bug: the name is new.
pub(crate) fn set_anonymous<R: Named>(ctx: &OpContext<'_>, resource: R, life: Life) -> Result<()> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let name = format!("_{}{}", R::ANONYMOUS, NEXT.fetch_add(1, Ordering::Relaxed));
    let owned = match life {
        Life::Handles => Some(OpaqueResource(Arc::new(resource))),
        Life::Container => {
            ctx.resources().get_or_create("", R::TYPE, &name, || Ok(resource))?;
            None
        }
    };
    ctx.set_output(0, handle(ctx, DEFAULT_CONTAINER, &name, R::TYPE, owned));
    if ctx.num_outputs() > 1 {
        ctx.set_output(1, Tensor::scalar(Variant::new(Deleter)));
    }
    Ok(())
}

struct Deleter;

impl VariantValue for Deleter {
    fn type_name(&self) -> &str {
        "tensorflow::ResourceDeleter"
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The resource behind the handle at input `index`.
///
/// # Errors
/// `InvalidArgument` for a handle of another type, `NotFound` if the resource has gone.
pub(crate) fn find<R: Named>(ctx: &OpContext<'_>, index: usize) -> Result<Arc<R>> {
    let key = ctx.handle(index)?;
    find_key(ctx, key)
}

/// See [`find`].
///
/// # Errors
/// As [`find`].
pub(crate) fn find_key<R: Named>(ctx: &OpContext<'_>, key: &HandleKey) -> Result<Arc<R>> {
    if key.type_name != R::TYPE {
        return Err(invalid!(
            "Trying to access a handle's resource using the wrong type. The handle points to a resource \
             (name '{}') of type '{}' but you are trying to access the resource as type '{}'",
            key.name,
            key.type_name,
            R::TYPE
        ));
    }
    if let Some(OpaqueResource(resource)) = &key.resource {
        let found = resource.clone().downcast::<R>().ok();
        return found.ok_or_else(|| not_found!("Resource {} does not exist.", key.name));
    }
    ctx.resources().get(&key.container, R::TYPE, &key.name)
}

/// Removes the resource behind the handle at input 0.
///
/// # Errors
/// `NotFound` if it has gone.
pub(crate) fn delete(ctx: &mut OpContext<'_>) -> Result<()> {
    let key = ctx.handle(0)?;
    if key.resource.is_some() {
        return Ok(());
    }
    ctx.resources().remove(&key.container, &key.type_name, &key.name)
}

/// As [`delete`], of a kind that only its handles own.
///
/// # Errors
/// `Internal`, as the reference has it; `NotFound` if there is no such resource.
pub(crate) fn delete_owned(ctx: &mut OpContext<'_>) -> Result<()> {
    let key = ctx.handle(0)?;
    match &key.resource {
        Some(_) => Err(internal!(
            "Cannot delete resource {}/{} from ResourceMgr. This indicates ref-counting ResourceHandle is exposed to weak \
             ResourceHandle code paths.",
            key.container,
            key.name
        )),
        None => delete(ctx),
    }
}

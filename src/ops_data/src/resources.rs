//! Resources of the family: handles by name, anonymous ones, and how ops find what a handle stands for.

use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use tfcore_base::{Result, invalid, not_found};
use tfcore_framework::{DEFAULT_CONTAINER, OpContext, Resource, ResourceManager};
use tfcore_tensor::{HandleKey, OpaqueResource, ResourceHandle, Tensor, Variant, VariantValue};

/// A resource that ops name by its type.
pub(crate) trait Named: Resource + Sized {
    /// The name of the type, as handles have it.
    const TYPE: &'static str;
    /// What anonymous ones are named after.
    const ANONYMOUS: &'static str;
}

/// How long an anonymous resource lives.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Life {
    /// Until its container goes.
    Container,
    /// Until the variant at output 1 goes, or an op deletes it.
    Deleter,
    /// Until the last handle goes.
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

/// Sets output 0 to a handle of `resource` under a name of its own.
///
/// # Errors
/// None but those of a bug: the name is new.
pub(crate) fn set_anonymous<R: Named>(ctx: &OpContext<'_>, resource: R, life: Life) -> Result<()> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let name = format!("_{}{}", R::ANONYMOUS, NEXT.fetch_add(1, Ordering::Relaxed));
    let owned = match life {
        Life::Handles => Some(OpaqueResource(Arc::new(resource))),
        Life::Container | Life::Deleter => {
            ctx.resources().get_or_create("", R::TYPE, &name, || Ok(resource))?;
            None
        }
    };
    ctx.set_output(0, handle(ctx, DEFAULT_CONTAINER, &name, R::TYPE, owned));
    if life == Life::Deleter {
        let manager = Arc::downgrade(&ctx.step().resources);
        ctx.set_output(1, Tensor::scalar(Variant::new(Deleter { manager, name, kind: R::TYPE })));
    }
    Ok(())
}

/// Removes a resource when the last copy of the variant goes.
struct Deleter {
    manager: Weak<ResourceManager>,
    name: String,
    kind: &'static str,
}

impl VariantValue for Deleter {
    fn type_name(&self) -> &str {
        "tensorflow::ResourceDeleter"
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Drop for Deleter {
    fn drop(&mut self) {
        if let Some(manager) = self.manager.upgrade() {
            // It may have been deleted by an op.
            let _ = manager.remove("", self.kind, &self.name);
        }
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

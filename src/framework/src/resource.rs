//! State that outlives a step: ref variables and the resources of a device.

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use tfcore_base::{DType, Result, failed_precondition, not_found};
use tfcore_tensor::Tensor;

/// The container of resources whose op names none.
pub const DEFAULT_CONTAINER: &str = "localhost";

/// What a `Variable` op hands out: a tensor that ops can replace in place.
#[derive(Debug)]
pub struct RefVariable {
    /// The name of the node, for messages.
    name: String,
    dtype: DType,
    value: Mutex<Option<Tensor>>,
}

impl RefVariable {
    pub fn new(name: impl Into<String>, dtype: DType) -> RefVariable {
        RefVariable { name: name.into(), dtype: dtype.base(), value: Mutex::new(None) }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn dtype(&self) -> DType {
        self.dtype
    }

    pub fn is_initialized(&self) -> bool {
        self.value.lock().is_some()
    }

    /// The current value.
    ///
    /// # Errors
    /// `FailedPrecondition` if there is none yet.
    pub fn read(&self) -> Result<Tensor> {
        self.value.lock().clone().ok_or_else(|| self.uninitialized())
    }

    pub fn write(&self, tensor: Tensor) {
        *self.value.lock() = Some(tensor);
    }

    /// Replaces the value by what `change` makes of it, while no other op sees it. The tensor is handed
    /// over, so that it can be changed in place where no reader still holds it.
    ///
    /// # Errors
    /// `FailedPrecondition` if there is no value yet, and whatever `change` reports; then the old
    /// value stays.
    pub fn update(&self, change: impl FnOnce(&mut Tensor) -> Result<()>) -> Result<Tensor> {
        let mut value = self.value.lock();
        let tensor = value.as_mut().ok_or_else(|| self.uninitialized())?;
        change(tensor)?;
        Ok(tensor.clone())
    }

    fn uninitialized(&self) -> tfcore_base::Error {
        failed_precondition!("Attempting to use uninitialized value {}", self.name)
    }
}

/// Something that lives on a device under a name: a variable, a queue, a table.
pub trait Resource: Any + Send + Sync {
    /// The kind, as handles and messages name it.
    fn type_name(&self) -> &'static str;

    /// One line about the state, for messages.
    fn debug_string(&self) -> String {
        self.type_name().to_string()
    }
}

/// The resources of a device, by container, type and name.
#[derive(Default)]
pub struct ResourceManager {
    containers: RwLock<HashMap<String, Container>>,
}

/// Resources by the name of their type and their own name.
type Container = HashMap<(&'static str, String), Arc<dyn Resource>>;

impl ResourceManager {
    /// The resource of type `T` called `name`.
    ///
    /// # Errors
    /// `NotFound`, saying whether the container or the resource is missing.
    pub fn get<T: Resource>(
        &self,
        container: &str,
        type_name: &'static str,
        name: &str,
    ) -> Result<Arc<T>> {
        let containers = self.containers.read();
        let Some(found) = containers.get(container_name(container)) else {
            return Err(not_found!(
                "Container {} does not exist. (Could not find resource: {}/{name})",
                container_name(container),
                container_name(container)
            ));
        };
        let resource = found.get(&(type_name, name.to_string())).cloned();
        resource.and_then(downcast).ok_or_else(|| {
            not_found!("Resource {}/{name}/{type_name} does not exist.", container_name(container))
        })
    }

    /// The resource of type `T` called `name`, made by `make` if there is none.
    ///
    /// # Errors
    /// What `make` reports.
    pub fn get_or_create<T: Resource>(
        &self,
        container: &str,
        type_name: &'static str,
        name: &str,
        make: impl FnOnce() -> Result<T>,
    ) -> Result<Arc<T>> {
        let mut containers = self.containers.write();
        let container = containers.entry(container_name(container).to_string()).or_default();
        let key = (type_name, name.to_string());
        if let Some(found) = container.get(&key).cloned().and_then(downcast) {
            return Ok(found);
        }
        let made = Arc::new(make()?);
        container.insert(key, made.clone());
        Ok(made)
    }

    /// Removes a resource and tells whether it was there.
    pub fn remove(&self, container: &str, type_name: &'static str, name: &str) -> bool {
        let mut containers = self.containers.write();
        containers
            .get_mut(container_name(container))
            .is_some_and(|container| container.remove(&(type_name, name.to_string())).is_some())
    }

    /// Drops all resources of a container.
    pub fn clear(&self, container: &str) {
        self.containers.write().remove(container_name(container));
    }
}

fn container_name(container: &str) -> &str {
    if container.is_empty() { DEFAULT_CONTAINER } else { container }
}

fn downcast<T: Resource>(resource: Arc<dyn Resource>) -> Option<Arc<T>> {
    let any: Arc<dyn Any + Send + Sync> = resource;
    any.downcast().ok()
}

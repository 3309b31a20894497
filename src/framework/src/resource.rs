//! State that outlives a step: the resources of a device.

use std::any::Any;
use std::collections::BTreeMap;
use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use tfcore_base::{Result, internal, invalid, not_found};

use crate::Attrs;

/// The container of resources whose op names none.
pub const DEFAULT_CONTAINER: &str = "localhost";

/// The attrs `container` and `shared_name` of an op that names its resource; either may be empty.
///
/// # Errors
/// `InvalidArgument` for a container's name of other than letters, digits and `.-/`, and for a shared name that begins
/// as those do that are made up.
pub fn container_and_name(attrs: &Attrs) -> Result<(&str, &str)> {
    let (container, name) = (attrs.str("container")?, attrs.str("shared_name")?);
    let may_be_first = |c: char| c.is_ascii_alphanumeric() || c == '.';
    let may_be = |c: char| may_be_first(c) || c == '-' || c == '/';
    let is_valid = container.starts_with(may_be_first) && container.chars().all(may_be);
    if !is_valid && !container.is_empty() {
        return Err(invalid!("container contains invalid characters: {container}"));
    }
    if name.starts_with('_') {
        return Err(invalid!("shared_name cannot start with '_':{name}"));
    }
    Ok((container, name))
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

/// The resources of a device, by container, name and type.
#[derive(Default)]
pub struct ResourceManager {
    containers: RwLock<HashMap<String, Container>>,
}

/// Resources by name; those of one name have different types.
type Container = HashMap<String, Vec<NamedResource>>;

struct NamedResource {
    type_name: &'static str,
    resource: Arc<dyn Resource>,
}

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
        let container = container_name(container);
        let containers = self.containers.read();
        let Some(resources) = containers.get(container) else {
            return Err(not_found!(
                "Container {container} does not exist. (Could not find resource: {container}/{name})"
            ));
        };
        let entries = resources.get(name).map_or(&[][..], Vec::as_slice);
        let entry = entries.iter().find(|entry| entry.type_name == type_name);
        entry
            .and_then(|entry| downcast(entry.resource.clone()))
            .ok_or_else(|| not_found!("Resource {container}/{name}/{type_name} does not exist."))
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
        if let Ok(found) = self.get(container, type_name, name) {
            return Ok(found);
        }
        let mut containers = self.containers.write();
        let resources = containers.entry(container_name(container).to_string()).or_default();
        let entries = resources.entry(name.to_string()).or_default();
        if let Some(entry) = entries.iter().find(|entry| entry.type_name == type_name) {
            return downcast(entry.resource.clone())
                .ok_or_else(|| internal!("Resource {name} is not of type {type_name}"));
        }
        let made = Arc::new(make()?);
        entries.push(NamedResource { type_name, resource: made.clone() });
        Ok(made)
    }

    /// Removes a resource.
    ///
    /// # Errors
    /// `NotFound`, saying whether the container or the resource is missing.
    pub fn remove(&self, container: &str, type_name: &str, name: &str) -> Result<()> {
        let container = container_name(container);
        let mut containers = self.containers.write();
        let Some(resources) = containers.get_mut(container) else {
            return Err(not_found!("Container {container} does not exist."));
        };
        let entries = resources.get_mut(name);
        let found = entries.and_then(|entries| {
            let index = entries.iter().position(|entry| entry.type_name == type_name)?;
            Some((entries.swap_remove(index), entries.is_empty()))
        });
        let Some((removed, last)) = found else {
            return Err(not_found!("Resource {container}/{name}/<unknown> does not exist."));
        };
        if last {
            resources.remove(name);
        }
        // What a resource holds is dropped once nobody waits for the lock.
        drop(containers);
        drop(removed);
        Ok(())
    }

    /// Drops all resources of a container.
    pub fn clear(&self, container: &str) {
        let resources = self.containers.write().remove(container_name(container));
        drop(resources);
    }

    /// Drops all resources of all containers.
    pub fn clear_all(&self) {
        let containers = std::mem::take(&mut *self.containers.write());
        drop(containers);
    }
}

/// The resources that end with a step, by name and type. A step without any pays nothing for it.
#[derive(Default)]
pub struct StepContainer {
    pub(crate) resources: Mutex<BTreeMap<(String, &'static str), Arc<dyn Resource>>>,
}

impl StepContainer {
    pub(crate) fn is_empty(&mut self) -> bool {
        self.resources.get_mut().is_empty()
    }
}

fn container_name(container: &str) -> &str {
    if container.is_empty() { DEFAULT_CONTAINER } else { container }
}

pub(crate) fn downcast<T: Resource>(resource: Arc<dyn Resource>) -> Option<Arc<T>> {
    let any: Arc<dyn Any + Send + Sync> = resource;
    any.downcast().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::Step;

    struct Counter(i32);

    impl Resource for Counter {
        fn type_name(&self) -> &'static str {
            "Counter"
        }
    }

    #[test]
    fn resources_live_under_container_type_and_name() {
        let manager = ResourceManager::default();
        let get = |container: &str, name: &str| {
            manager.get::<Counter>(container, "Counter", name).map(|counter| counter.0)
        };
        let message = |result: Result<i32>| result.unwrap_err().message().to_string();
        assert_eq!(
            message(get("", "c")),
            "Container localhost does not exist. (Could not find resource: localhost/c)"
        );
        manager.get_or_create("", "Counter", "c", || Ok(Counter(7))).unwrap();
        manager.get_or_create("localhost", "Counter", "c", || Ok(Counter(8))).unwrap();
        assert_eq!(get("localhost", "c").unwrap(), 7);
        assert_eq!(message(get("", "d")), "Resource localhost/d/Counter does not exist.");
        assert!(get("other", "c").is_err());

        manager.remove("", "Counter", "c").unwrap();
        assert_eq!(
            manager.remove("", "Counter", "c").unwrap_err().message(),
            "Resource localhost/c/<unknown> does not exist."
        );
        manager.clear("");
        assert_eq!(
            manager.remove("", "Counter", "c").unwrap_err().message(),
            "Container localhost does not exist."
        );
    }

    #[test]
    fn resources_of_a_step_end_with_it() {
        let step = Step { id: 7, ..Step::default() };
        let get = |name: &str| step.kept::<Counter>("Counter", name).map(|counter| counter.0);
        assert_eq!(
            get("c").unwrap_err().message(),
            "Container __per_step_7 does not exist. (Could not find resource: __per_step_7/c)"
        );
        let counter = Arc::new(Counter(3));
        step.keep("Counter", "c".to_string(), counter.clone()).unwrap();
        let again = step.keep("Counter", "c".to_string(), counter.clone()).unwrap_err();
        assert_eq!(again.message(), "Resource __per_step_7/Counter");
        assert_eq!(get("c").unwrap(), 3);
        assert_eq!(
            get("d").unwrap_err().message(),
            "Resource __per_step_7/d/Counter does not exist."
        );
        drop(step);
        assert_eq!(Arc::strong_count(&counter), 1);
    }
}

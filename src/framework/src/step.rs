//! `Step`: the state that all kernels of one run on one device share.

use std::collections::btree_map::Entry;
use std::sync::Arc;

use tfcore_base::{Result, already_exists, failed_precondition, not_found};
use tfcore_files::Files;
use tfcore_tensor::BufferPool;

use crate::cancellation::Cancellation;
use crate::functions::{Caller, FunctionLookup};
use crate::rendezvous::Rendezvous;
use crate::resource::{Resource, ResourceManager, StepContainer, downcast};
use crate::value::Value;

/// What all kernels of a step share.
#[derive(Default)]
pub struct Step {
    /// Unique among the steps of the process, and positive.
    pub id: i64,
    pub resources: Arc<ResourceManager>,
    pub buffers: Arc<BufferPool>,
    /// The full name of the device, such as `/job:localhost/replica:0/task:0/device:CPU:0`.
    pub device: Arc<str>,
    pub cancellation: Arc<Cancellation>,
    /// The resources that end with the step.
    pub container: StepContainer,
    /// What passes between nodes without an edge.
    pub rendezvous: Rendezvous,
    /// The file systems that ops reach.
    pub files: Arc<Files>,
    /// The step on the session's first device, if this is its part on another one.
    pub first: Option<Arc<Step>>,
    /// The functions that kernels may call; `None` where an op is run by itself.
    pub functions: Option<Arc<dyn FunctionLookup>>,
    /// So many calls of functions by kernels are nested around the step.
    pub depth: u32,
}

impl Step {
    /// Whether a step that is over is as good as new but for its number: it keeps nothing, and nobody waits for its end.
    pub fn is_untouched(&mut self) -> bool {
        self.container.is_empty()
            && self.rendezvous.is_untouched()
            && Arc::get_mut(&mut self.cancellation).is_some_and(Cancellation::is_untouched)
    }
}

impl Step {
    /// Whom a function is called for by a kernel of the step: the call ends with the step.
    pub fn caller(&self) -> Caller {
        Caller { cancellation: self.cancellation.clone(), depth: self.depth }
    }

    /// The functions that kernels may call.
    ///
    /// # Errors
    /// `FailedPrecondition` where there are none, which a session rules out.
    pub fn functions(&self) -> Result<&Arc<dyn FunctionLookup>> {
        let functions = self.functions.as_ref();
        functions.ok_or_else(|| failed_precondition!("No function library is available here"))
    }

    /// The name of the step's container, as handles and messages show it.
    pub fn container_name(&self) -> String {
        format!("__per_step_{}", self.id)
    }

    /// Keeps a resource until the step ends.
    ///
    /// # Errors
    /// `AlreadyExists` if the step has a resource of that name and type.
    pub fn keep<T: Resource>(
        &self,
        type_name: &'static str,
        name: String,
        resource: Arc<T>,
    ) -> Result<()> {
        match self.container.resources.lock().entry((name, type_name)) {
            Entry::Occupied(_) => {
                Err(already_exists!("Resource {}/{type_name}", self.container_name()))
            }
            Entry::Vacant(entry) => {
                entry.insert(resource);
                Ok(())
            }
        }
    }

    /// The resource of type `T` that the step keeps under `name`.
    ///
    /// # Errors
    /// `NotFound`, saying whether the step has any resources or not this one.
    pub fn kept<T: Resource>(&self, type_name: &'static str, name: &str) -> Result<Arc<T>> {
        let resources = self.container.resources.lock();
        let found = resources.get(&(name.to_string(), type_name)).cloned();
        found.and_then(downcast).ok_or_else(|| {
            let container = self.container_name();
            match resources.is_empty() {
                true => not_found!(
                    "Container {container} does not exist. (Could not find resource: {container}/{name})"
                ),
                false => not_found!("Resource {container}/{name}/{type_name} does not exist."),
            }
        })
    }
}

impl Step {
    /// Leaves a value for whoever receives `key`, in whichever part of the step.
    pub fn send(&self, key: &str, value: Value) {
        self.first.as_deref().unwrap_or(self).rendezvous.send(key, value);
    }

    /// Has `receiver` called with the next value of `key`, at once or later; with `Cancelled` if the step is cancelled before
    /// there is one.
    pub fn receive(
        self: &Arc<Self>,
        key: &str,
        receiver: impl FnOnce(Result<Value>) + Send + 'static,
    ) {
        let first = self.first.as_ref().unwrap_or(self);
        let Some(is_first) = first.rendezvous.receive(key, Box::new(receiver)) else {
            return;
        };
        if is_first {
            let step = Arc::downgrade(first);
            // If it comes too late it is not called, but then the step is cancelled already.
            let _token = first.cancellation.register(move || {
                if let Some(step) = step.upgrade() {
                    step.rendezvous.abort();
                }
            });
        }
        if first.cancellation.is_cancelled() {
            first.rendezvous.abort();
        }
    }
}

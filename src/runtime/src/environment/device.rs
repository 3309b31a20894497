//! The devices of an environment, and what clients are told of them.

use std::collections::hash_map::RandomState;
use std::ffi::CString;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

use tfcore_framework::{Rendezvous, ResourceManager, Step, StepContainer};

/// Bytes of memory that the reference reports for a CPU device, whatever the machine has.
const CPU_MEMORY: i64 = 256 << 20;

/// A device, with the resources that live on it.
#[derive(Clone)]
pub struct Device {
    pub(crate) name: Arc<str>,
    /// `/job:localhost/replica:0/task:0/device:CPU:0`
    pub c_name: CString,
    /// `CPU` or `GPU`
    pub type_name: CString,
    pub memory_limit: i64,
    /// A number that is new for each environment, so that two devices are never taken for one.
    pub incarnation: u64,
    pub(crate) resources: Arc<ResourceManager>,
}

impl Device {
    /// CPU number `index`.
    pub(crate) fn cpu(index: usize) -> Device {
        let name = format!("/job:localhost/replica:0/task:0/device:CPU:{index}");
        Device {
            name: name.as_str().into(),
            c_name: c_string(name),
            type_name: c_string("CPU".to_string()),
            memory_limit: CPU_MEMORY,
            incarnation: random_number(),
            resources: Arc::default(),
        }
    }

    /// The full name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The part of a step that runs here, where `first` is the part on the first device.
    pub(crate) fn part_of(&self, first: &Arc<Step>) -> Arc<Step> {
        Arc::new(Step {
            id: first.id,
            resources: self.resources.clone(),
            buffers: first.buffers.clone(),
            device: self.name.clone(),
            cancellation: first.cancellation.clone(),
            first: Some(first.clone()),
            container: StepContainer::default(),
            rendezvous: Rendezvous::default(),
            files: first.files.clone(),
            functions: first.functions.clone(),
            depth: first.depth,
        })
    }
}

fn c_string(text: String) -> CString {
    CString::new(text).expect("device names hold no NUL")
}

/// A random number that is not 0. The standard library seeds its hash maps from the operating system.
fn random_number() -> u64 {
    RandomState::new().build_hasher().finish().max(1)
}

//! The devices of a session, as clients list them.

use std::collections::hash_map::RandomState;
use std::ffi::CString;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

use tfcore_framework::{Rendezvous, ResourceManager, Step, StepContainer};

/// Bytes of memory that the reference reports for a CPU device, whatever the machine has.
const CPU_MEMORY: i64 = 256 << 20;

/// A device as `TF_SessionListDevices` describes it.
#[derive(Debug, Clone)]
pub struct DeviceInfo {
    /// `/job:localhost/replica:0/task:0/device:CPU:0`
    pub name: CString,
    /// `CPU` or `GPU`
    pub type_name: CString,
    pub memory_limit: i64,
    /// A number that is new for each session, so that two are never taken for one.
    pub incarnation: u64,
}

impl DeviceInfo {
    /// CPU number `index`.
    pub(crate) fn cpu(index: usize) -> DeviceInfo {
        DeviceInfo {
            name: c_string(format!("/job:localhost/replica:0/task:0/device:CPU:{index}")),
            type_name: c_string("CPU".to_string()),
            memory_limit: CPU_MEMORY,
            incarnation: random_number(),
        }
    }

    /// The name as text.
    pub fn name_str(&self) -> &str {
        self.name.to_str().expect("device names are ASCII")
    }
}

/// What a session has of a device besides its first.
pub(crate) struct OtherDevice {
    name: Arc<str>,
    resources: Arc<ResourceManager>,
}

impl OtherDevice {
    pub(crate) fn new(device: &DeviceInfo) -> OtherDevice {
        OtherDevice { name: device.name_str().into(), resources: Arc::default() }
    }

    pub(crate) fn resources(&self) -> &Arc<ResourceManager> {
        &self.resources
    }

    /// The part of a step that runs here.
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

//! The devices of a session, as clients list them.

use std::collections::hash_map::RandomState;
use std::ffi::CString;
use std::hash::{BuildHasher, Hasher};

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

fn c_string(text: String) -> CString {
    CString::new(text).expect("device names hold no NUL")
}

/// A random number that is not 0. The standard library seeds its hash maps from the operating system.
fn random_number() -> u64 {
    RandomState::new().build_hasher().finish().max(1)
}

//! Placement: on which device of the session a node runs.

use std::collections::HashMap;
use std::sync::Arc;

use tfcore_base::{Result, invalid};
use tfcore_graph::{Name, Node};

use crate::device::DeviceInfo;

/// A device name of which any part may be left open: `/job:j/replica:0/task:0/device:CPU:0`.
#[derive(Debug, Clone, Default, PartialEq)]
struct DeviceSpec {
    job: Option<String>,
    replica: Option<u32>,
    task: Option<u32>,
    /// In upper case.
    type_name: Option<String>,
    id: Option<u32>,
}

impl DeviceSpec {
    /// Reads `/job:j/replica:0/task:0/device:CPU:0`, its parts in any order, and the short forms `/cpu:0` and
    /// `/gpu:1`; `*` leaves a part open. `None` if it is none of these.
    fn parse(text: &str) -> Option<DeviceSpec> {
        let mut spec = DeviceSpec::default();
        let number = |text: &str| match text {
            "*" => Some(None),
            digits => digits.parse().ok().map(Some),
        };
        for part in text.split('/').skip(usize::from(text.starts_with('/'))) {
            let (key, value) = part.split_once(':')?;
            match key {
                "job" => spec.job = (value != "*").then(|| value.to_string()),
                "replica" => spec.replica = number(value)?,
                "task" => spec.task = number(value)?,
                "device" => spec.set_device(value)?,
                "cpu" | "CPU" | "gpu" | "GPU" => spec.set_device(part)?,
                _ => return None,
            }
        }
        Some(spec)
    }

    /// Reads `CPU:0`, `CPU:*` and `CPU`.
    fn set_device(&mut self, text: &str) -> Option<()> {
        let (type_name, id) = text.split_once(':').unwrap_or((text, "*"));
        self.type_name = (type_name != "*").then(|| type_name.to_uppercase());
        self.id = match id {
            "*" => None,
            digits => Some(digits.parse().ok()?),
        };
        Some(())
    }

    /// Whether a device with this full name may be meant.
    fn matches(&self, full: &DeviceSpec) -> bool {
        fn agree<T: PartialEq>(asked: &Option<T>, have: &Option<T>) -> bool {
            asked.is_none() || asked == have
        }
        agree(&self.job, &full.job)
            && agree(&self.replica, &full.replica)
            && agree(&self.task, &full.task)
            && agree(&self.type_name, &full.type_name)
            && agree(&self.id, &full.id)
    }
}

/// Checks that each node can run on a device that it asks for. All devices are CPUs over the same
/// memory and threads, so that which of them it is makes no difference to a plan.
///
/// # Errors
/// `InvalidArgument` for a name that is none, or a device that there is not, unless the session places softly.
pub(crate) fn check_placement<'n>(
    nodes: impl Iterator<Item = &'n Arc<Node>>,
    devices: &[DeviceInfo],
    soft: bool,
) -> Result<()> {
    let specs: Vec<DeviceSpec> =
        devices.iter().filter_map(|device| DeviceSpec::parse(device.name_str())).collect();
    let mut known: HashMap<&Name, bool> = HashMap::new();
    for node in nodes.filter(|node| !node.device.is_empty()) {
        let is_there = match known.get(&node.device) {
            Some(&is_there) => is_there,
            None => {
                let spec = DeviceSpec::parse(&node.device).ok_or_else(|| {
                    invalid!(
                        "Malformed device specification '{}' in node: {{{{node {}}}}}\n\t [[{}]]",
                        node.device,
                        node.name,
                        node.name
                    )
                })?;
                let is_there = specs.iter().any(|device| spec.matches(device));
                known.insert(&node.device, is_there);
                is_there
            }
        };
        if !is_there && !soft {
            return Err(absent(node, devices));
        }
    }
    Ok(())
}

fn absent(node: &Node, devices: &[DeviceInfo]) -> tfcore_base::Error {
    let names: Vec<&str> = devices.iter().map(DeviceInfo::name_str).collect();
    invalid!(
        "Cannot assign a device for operation {}: {{{{node {}}}}} was explicitly assigned to {} but \
         available devices are [ {} ]. Make sure the device specification refers to a valid \
         device.\n\t [[{}]]",
        node.name,
        node.name,
        node.device,
        names.join(", "),
        node.name
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_names() {
        let full = DeviceSpec::parse("/job:localhost/replica:0/task:0/device:CPU:0").unwrap();
        let cases = [
            ("/cpu:0", Some(true)),
            ("/device:CPU:0", Some(true)),
            ("/device:cpu:*", Some(true)),
            ("/job:localhost", Some(true)),
            ("/job:*/task:0", Some(true)),
            ("/device:CPU:1", Some(false)),
            ("/gpu:0", Some(false)),
            ("/job:other", Some(false)),
            ("xx", None),
            ("/device:CPU:x", None),
            ("/replica:-1", None),
        ];
        for (text, expected) in cases {
            assert_eq!(DeviceSpec::parse(text).map(|spec| spec.matches(&full)), expected, "{text}");
        }
    }
}

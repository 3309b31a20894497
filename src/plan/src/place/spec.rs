//! Names of devices, of which any part may be left open: `/job:j/replica:0/task:0/device:CPU:0`.

use std::fmt;

use tfcore_base::{Result, invalid};

/// A device name read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeviceSpec {
    job: Option<Box<str>>,
    replica: Option<i32>,
    task: Option<i32>,
    type_name: Option<Box<str>>,
    id: Option<i32>,
}

impl DeviceSpec {
    /// Reads a name: `/job:j`, `/replica:0`, `/task:0`, `/device:CPU:0` and the old forms `/cpu:0` and `/gpu:0`, in any order; what
    /// comes later counts. `*` leaves a part open. `None` if the text is not a device name.
    ///
    /// Types are told apart by case, except in the old forms. A number that is too large for 32 bits loses its upper ones,
    /// as in the reference.
    pub fn parse(text: &str) -> Option<DeviceSpec> {
        let mut spec = DeviceSpec::default();
        if text == "/" {
            return Some(spec);
        }
        let mut rest = text;
        while !rest.is_empty() {
            rest = spec.parse_part(rest.strip_prefix('/')?)?;
        }
        Some(spec)
    }

    /// Reads the first part of `text` and returns what follows.
    fn parse_part<'t>(&mut self, text: &'t str) -> Option<&'t str> {
        let (key, value) = text.split_once(':')?;
        let (part, rest) = match key {
            "job" => {
                let (job, rest) = identifier(value)?;
                self.job = job.map(Box::from);
                return Some(rest);
            }
            "device" => {
                let (type_name, rest) = identifier(value)?;
                self.type_name = type_name.map(Box::from);
                // `/device:CPU` leaves the number open.
                let Some(number_text) = rest.strip_prefix(':') else {
                    self.id = None;
                    return Some(rest);
                };
                let (id, rest) = number(number_text)?;
                self.id = id;
                return Some(rest);
            }
            "replica" => (&mut self.replica, value),
            "task" => (&mut self.task, value),
            "cpu" | "CPU" | "gpu" | "GPU" => {
                self.type_name = Some(key.to_uppercase().into());
                (&mut self.id, value)
            }
            _ => return None,
        };
        let (number, rest) = number(rest)?;
        *part = number;
        Some(rest)
    }

    /// Whether the device with this full name may be meant.
    pub fn matches(&self, full: &DeviceSpec) -> bool {
        fn agree<T: PartialEq>(asked: &Option<T>, have: &Option<T>) -> bool {
            asked.is_none() || asked == have
        }
        agree(&self.job, &full.job)
            && agree(&self.replica, &full.replica)
            && agree(&self.task, &full.task)
            && agree(&self.type_name, &full.type_name)
            && agree(&self.id, &full.id)
    }

    /// What both names say. If `soft`, a type on which they disagree is left open, and so is a number.
    ///
    /// # Errors
    /// `InvalidArgument` if they disagree.
    pub fn merged(&self, other: &DeviceSpec, soft: bool) -> Result<DeviceSpec> {
        let incompatible = |parts: &str| {
            Err(invalid!("Cannot merge devices with incompatible {parts}: '{self}' and '{other}'"))
        };
        let mut merged = self.overridden_by(other);
        if conflict(&self.job, &other.job) {
            return incompatible("jobs");
        }
        if conflict(&self.replica, &other.replica) {
            return incompatible("replicas");
        }
        if conflict(&self.task, &other.task) {
            return incompatible("tasks");
        }
        if conflict(&self.type_name, &other.type_name) {
            if !soft {
                return incompatible("types");
            }
            merged.type_name = None;
            merged.id = None;
        } else if conflict(&self.id, &other.id) {
            if !soft {
                return incompatible("ids");
            }
            merged.id = None;
        }
        Ok(merged)
    }

    /// What `other` says, and this name where the other one says nothing.
    pub fn overridden_by(&self, other: &DeviceSpec) -> DeviceSpec {
        let keeps_id = !conflict(&self.type_name, &other.type_name);
        DeviceSpec {
            job: other.job.clone().or_else(|| self.job.clone()),
            replica: other.replica.or(self.replica),
            task: other.task.or(self.task),
            type_name: other.type_name.clone().or_else(|| self.type_name.clone()),
            id: other.id.or(self.id.filter(|_| keeps_id)),
        }
    }

    /// The name without the number, and also without the type.
    pub fn relaxed(&self) -> [DeviceSpec; 2] {
        let without_id = DeviceSpec { id: None, ..self.clone() };
        [without_id.clone(), DeviceSpec { type_name: None, ..without_id }]
    }

    /// Whether the type is that of GPUs, in whatever case.
    pub fn is_gpu(&self) -> bool {
        self.type_name.as_ref().is_some_and(|name| name.eq_ignore_ascii_case("GPU"))
    }
}

fn conflict<T: PartialEq>(a: &Option<T>, b: &Option<T>) -> bool {
    a.is_some() && b.is_some() && a != b
}

/// A name of letters, digits and underscores that begins with a letter, or `*`, and what follows.
fn identifier(text: &str) -> Option<(Option<&str>, &str)> {
    if let Some(rest) = text.strip_prefix('*') {
        return Some((None, rest));
    }
    if !text.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return None;
    }
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    Some((Some(&text[..end]), &text[end..]))
}

/// A number, or `*`, and what follows.
fn number(text: &str) -> Option<(Option<i32>, &str)> {
    if let Some(rest) = text.strip_prefix('*') {
        return Some((None, rest));
    }
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..end].parse().ok()?;
    Some((Some(number as i32), &text[end..]))
}

impl fmt::Display for DeviceSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(job) = &self.job {
            write!(f, "/job:{job}")?;
        }
        if let Some(replica) = self.replica {
            write!(f, "/replica:{replica}")?;
        }
        if let Some(task) = self.task {
            write!(f, "/task:{task}")?;
        }
        match (&self.type_name, self.id) {
            (Some(type_name), Some(id)) => write!(f, "/device:{type_name}:{id}"),
            (Some(type_name), None) => write!(f, "/device:{type_name}:*"),
            (None, _) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(text: &str) -> DeviceSpec {
        DeviceSpec::parse(text).unwrap()
    }

    #[test]
    fn names_of_devices() {
        let full = spec("/job:localhost/replica:0/task:0/device:CPU:1");
        // Whether the device above may be meant; `None` for what is no name.
        let cases = [
            ("", Some(true)),
            ("/", Some(true)),
            ("/cpu:1", Some(true)),
            ("/CPU:1", Some(true)),
            ("/cpu:*", Some(true)),
            ("/device:CPU:1", Some(true)),
            ("/device:CPU:01", Some(true)),
            ("/device:CPU:4294967297", Some(true)),
            ("/device:CPU", Some(true)),
            ("/device:CPU:*", Some(true)),
            ("/device:*", Some(true)),
            ("/device:*:1", Some(true)),
            ("/job:localhost", Some(true)),
            ("/job:*/task:0", Some(true)),
            ("/cpu:1/job:localhost", Some(true)),
            ("/device:CPU:0/cpu:1", Some(true)),
            ("/job:a_b/job:localhost", Some(true)),
            ("/device:cpu:1", Some(false)),
            ("/device:Cpu:1", Some(false)),
            ("/device:CPU:0", Some(false)),
            ("/device:CPU:2147483648", Some(false)),
            ("/gpu:1", Some(false)),
            ("/job:other", Some(false)),
            ("/replica:1", Some(false)),
            ("xx", None),
            ("cpu:1", None),
            ("job:localhost", None),
            ("/cpu", None),
            ("/Cpu:1", None),
            ("//cpu:1", None),
            ("/cpu:1/", None),
            ("/cpu:1x", None),
            ("/cpu:", None),
            ("/tpu:0", None),
            ("/DEVICE:CPU:1", None),
            ("/device:", None),
            ("/device:CPU:", None),
            ("/device:CPU:x", None),
            ("/device:CPU:-1", None),
            ("/device:CPU:1 ", None),
            ("/device:1X:0", None),
            ("/device:A-B:0", None),
            ("/job:", None),
            ("/job:1a", None),
            ("/job:loc-al", None),
            ("/replica:-1", None),
            ("/task:99999999999999999999999", None),
        ];
        for (text, expected) in cases {
            assert_eq!(DeviceSpec::parse(text).map(|spec| spec.matches(&full)), expected, "{text}");
        }
    }

    #[test]
    fn merging() {
        // Strictly, softly (`None` if that fails too), and the second over the first.
        let cases = [
            (
                "/job:a",
                "/cpu:0",
                Ok("/job:a/device:CPU:0"),
                Some("/job:a/device:CPU:0"),
                "/job:a/device:CPU:0",
            ),
            (
                "/cpu:1",
                "/cpu:0",
                Err("ids: '/device:CPU:1' and '/device:CPU:0'"),
                Some("/device:CPU:*"),
                "/device:CPU:0",
            ),
            (
                "/cpu:1",
                "/gpu:0",
                Err("types: '/device:CPU:1' and '/device:GPU:0'"),
                Some(""),
                "/device:GPU:0",
            ),
            (
                "/cpu:1",
                "/device:GPU",
                Err("types: '/device:CPU:1' and '/device:GPU:*'"),
                Some(""),
                "/device:GPU:*",
            ),
            ("/task:1", "/task:0", Err("tasks: '/task:1' and '/task:0'"), None, "/task:0"),
            (
                "/replica:1",
                "/replica:0",
                Err("replicas: '/replica:1' and '/replica:0'"),
                None,
                "/replica:0",
            ),
            (
                "/job:b/cpu:1",
                "/job:a",
                Err("jobs: '/job:b/device:CPU:1' and '/job:a'"),
                None,
                "/job:a/device:CPU:1",
            ),
        ];
        for (a, b, strict, soft, overridden) in cases {
            let (a, b) = (spec(a), spec(b));
            let merged = a.merged(&b, false).map(|spec| spec.to_string());
            let merged = merged.map_err(|error| error.message().to_string());
            let prefix = "Cannot merge devices with incompatible ";
            let strict = strict.map(String::from).map_err(|text| format!("{prefix}{text}"));
            assert_eq!(merged, strict);
            let softly = a.merged(&b, true).ok().map(|spec| spec.to_string());
            assert_eq!(softly.as_deref(), soft, "{a} {b}");
            assert_eq!(a.overridden_by(&b).to_string(), overridden);
        }
    }
}

//! The end of sessions: each may be closed by itself, or all of the process by a reset.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Weak};

use parking_lot::Mutex;
use tfcore_base::{Result, cancelled, invalid};
use tfcore_framework::{Cancellation, ResourceManager};

use crate::environment::Environment;
use crate::session::partial::PartialRuns;

/// The sessions that have not been deleted.
static LIVE: LazyLock<Mutex<HashMap<u64, Weak<Life>>>> = LazyLock::new(Default::default);

/// The part of a session that others may end.
pub(crate) struct Life {
    number: u64,
    /// Those of each device.
    resources: Vec<Arc<ResourceManager>>,
    /// Cancelled when the session is closed, and with it every step.
    pub(crate) cancellation: Arc<Cancellation>,
    pub(crate) partial_runs: PartialRuns,
    /// What it serves, until it is closed.
    metadata: Mutex<Option<Metadata>>,
}

/// A name and a version.
type Metadata = (String, i64);

/// Those of the sessions that have not been closed.
static SERVED: LazyLock<Mutex<HashSet<Metadata>>> = LazyLock::new(Default::default);

impl Life {
    /// # Errors
    /// `InvalidArgument` for a negative version, and if another session serves the same.
    pub(crate) fn begin(
        environment: &Environment,
        metadata: Option<Metadata>,
    ) -> Result<Arc<Life>> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        if let Some(metadata) = &metadata {
            serve(metadata)?;
        }
        let life = Arc::new(Life {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            resources: environment.devices.iter().map(|d| d.resources.clone()).collect(),
            cancellation: Arc::default(),
            partial_runs: PartialRuns::default(),
            metadata: Mutex::new(metadata),
        });
        LIVE.lock().insert(life.number, Arc::downgrade(&life));
        Ok(life)
    }

    /// Whether runs may begin.
    ///
    /// # Errors
    /// `Cancelled` after the session has been closed.
    pub(crate) fn check(&self) -> Result<()> {
        match self.cancellation.is_cancelled() {
            true => Err(cancelled!("Session has been closed.")),
            false => Ok(()),
        }
    }

    /// Cancels the runs in progress and makes further ones fail.
    pub(crate) fn close(&self) {
        if let Some(metadata) = self.metadata.lock().take() {
            SERVED.lock().remove(&metadata);
        }
        self.cancellation.cancel();
        self.partial_runs.end_all(&cancelled!("Session has been closed."));
    }
}

fn serve(metadata: &Metadata) -> Result<()> {
    let (name, version) = metadata;
    let describe = || {
        let name = if name.is_empty() { String::new() } else { format!("name: {name:?}\n") };
        let version = if *version == 0 { String::new() } else { format!("version: {version}\n") };
        format!("\n{name}{version}")
    };
    if *version < 0 {
        return Err(invalid!("Session version shouldn't be negative: {}", describe()));
    }
    if !SERVED.lock().insert(metadata.clone()) {
        return Err(invalid!(
            "A session with the same name and version has already been created: {}",
            describe()
        ));
    }
    Ok(())
}

impl Drop for Life {
    fn drop(&mut self) {
        LIVE.lock().remove(&self.number);
    }
}

/// Clears containers in all sessions of the process (the default one if none is named), and closes the sessions.
pub fn reset(containers: &[String]) {
    let live: Vec<Arc<Life>> = LIVE.lock().values().filter_map(Weak::upgrade).collect();
    for life in live {
        // Ops that are under way may make resources anew; they are stopped first.
        life.close();
        for resources in &life.resources {
            if containers.is_empty() {
                resources.clear("");
            }
            containers.iter().for_each(|container| resources.clear(container));
        }
    }
}

#[cfg(test)]
mod tests {
    use tfcore_plan::testing::registry;

    use super::*;
    use crate::environment::config::SessionConfig;

    #[test]
    fn a_name_and_version_is_served_once() {
        let environment = Environment::new(registry(), &SessionConfig::default()).unwrap();
        let begin = |version| Life::begin(&environment, Some(("life test".to_string(), version)));
        let first = begin(3).unwrap();
        assert!(begin(3).err().unwrap().message().contains("same name and version"));
        begin(4).unwrap().close();
        assert!(begin(-1).err().unwrap().message().contains("shouldn't be negative"));
        first.close();
        begin(3).unwrap().close();
    }
}

//! The end of sessions: each may be closed by itself, or all of the process by a reset.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Weak};

use parking_lot::Mutex;
use tfcore_base::{Result, cancelled};
use tfcore_framework::{Cancellation, ResourceManager};

use crate::partial::PartialRuns;

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
}

impl Life {
    pub(crate) fn begin(resources: Vec<Arc<ResourceManager>>) -> Arc<Life> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let life = Arc::new(Life {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            resources,
            cancellation: Arc::default(),
            partial_runs: PartialRuns::default(),
        });
        LIVE.lock().insert(life.number, Arc::downgrade(&life));
        life
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
        self.cancellation.cancel();
        self.partial_runs.end_all(&cancelled!("Session has been closed."));
    }
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

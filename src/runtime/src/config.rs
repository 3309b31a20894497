//! What a session takes from a ConfigProto.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Weak};

use parking_lot::Mutex;
use tfcore_base::{Result, invalid};
use tfcore_math::pool::Pool;
use tfcore_proto as proto;

/// The most CPU devices or threads that a config can ask for; beyond it lies only a mistake.
const MAX_COUNT: i32 = 1 << 10;

/// The options of a session that have an effect here.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionConfig {
    /// Threads that one step uses at most, the caller's included.
    pub threads: usize,
    /// Whether the session has a pool of its own.
    pub own_threads: bool,
    /// How many CPU devices there are.
    pub cpu_devices: usize,
    /// Whether a node whose device is not there runs on another one.
    pub soft_placement: bool,
}

impl Default for SessionConfig {
    fn default() -> SessionConfig {
        SessionConfig {
            threads: available_threads(),
            own_threads: false,
            cpu_devices: 1,
            soft_placement: false,
        }
    }
}

fn available_threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

impl SessionConfig {
    /// Reads a ConfigProto.
    ///
    /// # Errors
    /// `InvalidArgument` for counts that are no counts.
    pub fn from_proto(config: &proto::ConfigProto) -> Result<SessionConfig> {
        let mut result = SessionConfig::default();
        // The larger of the two bounds what a step may use: ops side by side and loops within an op
        // share one pool here.
        let asked = config.intra_op_parallelism_threads.max(config.inter_op_parallelism_threads);
        let one =
            config.intra_op_parallelism_threads == 1 && config.inter_op_parallelism_threads <= 1;
        match asked {
            _ if one => result.threads = 1,
            count if count > MAX_COUNT => {
                return Err(invalid!("A session cannot have {count} threads"));
            }
            count if count > 0 => result.threads = count as usize,
            _ => {}
        }
        result.own_threads = config.use_per_session_threads;
        result.soft_placement = config.allow_soft_placement;
        if let Some(&count) = config.device_count.get("CPU") {
            if !(0..=MAX_COUNT).contains(&count) {
                return Err(invalid!("A session cannot have {count} CPU devices"));
            }
            result.cpu_devices = (count as usize).max(1);
        }
        Ok(result)
    }

    /// The pool that the session's steps use; `None` for one thread. Sessions that ask for as many
    /// threads share a pool.
    pub(crate) fn pool(&self) -> Option<Arc<Pool>> {
        static SHARED: LazyLock<Mutex<HashMap<usize, Weak<Pool>>>> =
            LazyLock::new(Default::default);
        if self.threads <= 1 {
            return None;
        }
        if self.own_threads {
            return Some(Arc::new(Pool::new(self.threads)));
        }
        let mut shared = SHARED.lock();
        shared.retain(|_, pool| pool.strong_count() > 0);
        if let Some(pool) = shared.get(&self.threads).and_then(Weak::upgrade) {
            return Some(pool);
        }
        let pool = Arc::new(Pool::new(self.threads));
        shared.insert(self.threads, Arc::downgrade(&pool));
        Some(pool)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_and_devices() {
        let mut config =
            proto::ConfigProto { intra_op_parallelism_threads: 1, ..Default::default() };
        assert_eq!(SessionConfig::from_proto(&config).unwrap().threads, 1);
        assert!(SessionConfig::from_proto(&config).unwrap().pool().is_none());
        config.inter_op_parallelism_threads = 3;
        config.device_count.insert("CPU".into(), 2);
        let read = SessionConfig::from_proto(&config).unwrap();
        assert_eq!((read.threads, read.cpu_devices), (3, 2));
        let pool = read.pool().unwrap();
        assert!(Arc::ptr_eq(&pool, &read.pool().unwrap()));
        config.intra_op_parallelism_threads = i32::MAX;
        assert!(SessionConfig::from_proto(&config).is_err());
    }
}

//! What a session takes from a ConfigProto.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tfcore_base::{Result, invalid, not_found};
use tfcore_math::pool::Pool;
use tfcore_proto as proto;

use tfcore_plan::options::PassOptions;
use tfcore_plan::place::DeviceSpec;

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
    /// Whether to print on which device each node runs.
    pub log_placement: bool,
    /// How long a run may take that has no limit of its own.
    pub timeout: Option<Duration>,
    /// Pools that runs choose from, by number of threads (0 for that of the session) and name; those of one name are one.
    pub run_pools: Vec<(usize, String)>,
    /// The kind of executor that is asked for by name.
    pub executor_type: String,
    /// Whether runs may ask for the graphs that the devices run.
    pub gives_partition_graphs: bool,
    /// Of every so many runs of a request, one is measured for a cost graph; 0 for none.
    pub build_cost_model: i64,
    /// So many runs of a request come before the first that may be measured.
    pub build_cost_model_after: i64,
    /// True if nodes that only read constants may be computed when a plan is made.
    pub folds_constants: bool,
    /// The name and version of what the session serves; there are no two sessions with the same.
    pub metadata: Option<(String, i64)>,
}

impl Default for SessionConfig {
    fn default() -> SessionConfig {
        SessionConfig {
            threads: available_threads(),
            own_threads: false,
            cpu_devices: 1,
            soft_placement: false,
            log_placement: false,
            timeout: None,
            run_pools: Vec::new(),
            executor_type: String::new(),
            gives_partition_graphs: true,
            build_cost_model: 0,
            build_cost_model_after: 0,
            folds_constants: true,
            metadata: None,
        }
    }
}

/// The name of the executor that runs one node after the other.
const SINGLE_THREADED: &str = "SINGLE_THREADED_EXECUTOR";

/// True unless constant folding is switched off: by optimizer level L0 without the explicit flag, or by grappler's toggles.
fn folds_constants(options: &proto::GraphOptions) -> bool {
    /// `RewriterConfig.Toggle.OFF`
    const OFF: i32 = 2;
    let by_level = options.optimizer_options.as_ref().is_none_or(|optimizer| {
        optimizer.opt_level >= proto::OptimizerOptions::L1 || optimizer.do_constant_folding
    });
    let by_toggle = options.rewrite_options.as_ref().is_none_or(|rewriter| {
        rewriter.constant_folding != OFF && !rewriter.disable_meta_optimizer
    });
    by_level && by_toggle
}

fn available_threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

impl SessionConfig {
    /// Reads a ConfigProto.
    ///
    /// # Errors
    /// `InvalidArgument` for counts that are no counts, and for device filters that name no devices.
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
        result.log_placement = config.log_device_placement;
        if let Some(&count) = config.device_count.get("CPU") {
            if count > MAX_COUNT {
                return Err(invalid!("A session cannot have {count} CPU devices"));
            }
            result.cpu_devices = count.max(0) as usize;
        }
        // There are no devices elsewhere that they could keep out.
        if let Some(filter) = config.device_filters.iter().find(|f| DeviceSpec::parse(f).is_none())
        {
            return Err(invalid!("Invalid device filter: {filter}"));
        }
        result.timeout = u64::try_from(config.operation_timeout_in_ms)
            .ok()
            .filter(|&millis| millis > 0)
            .map(Duration::from_millis);
        for pool in &config.session_inter_op_thread_pool {
            if !(0..=MAX_COUNT).contains(&pool.num_threads) {
                return Err(invalid!("A pool cannot have {} threads", pool.num_threads));
            }
            result.run_pools.push((pool.num_threads as usize, pool.global_name.clone()));
        }
        if let Some(options) = &config.graph_options {
            result.build_cost_model = options.build_cost_model;
            result.build_cost_model_after = options.build_cost_model_after;
            result.folds_constants = folds_constants(options);
        }
        if let Some(experimental) = &config.experimental {
            result.executor_type = experimental.executor_type.clone();
            result.gives_partition_graphs = !experimental.disable_output_partition_graphs;
            let metadata = experimental.session_metadata.as_ref();
            result.metadata = metadata.map(|metadata| (metadata.name.clone(), metadata.version));
        }
        Ok(result)
    }

    /// The passes that the session's plans are made with. A session that measures nodes runs all of them.
    pub(crate) fn pass_options(&self) -> PassOptions {
        let folds = self.folds_constants && self.build_cost_model <= 0;
        PassOptions::from_env(if folds { &[] } else { &["fold"] })
    }

    /// Whether there is an executor of the kind that is asked for.
    ///
    /// # Errors
    /// `NotFound` if not; a session notices when it runs something.
    pub(crate) fn check_executor(&self) -> Result<()> {
        match &*self.executor_type {
            "" | "DEFAULT" | SINGLE_THREADED => Ok(()),
            other => Err(not_found!(
                "No executor factory registered for the given executor type: {other} Registered \
                 factories are {{DEFAULT, , {SINGLE_THREADED}}}."
            )),
        }
    }

    /// Whether the run of a request that comes after so many others is measured for a cost graph.
    pub(crate) fn measures(&self, runs_before: i64) -> bool {
        let every = self.build_cost_model;
        let count = runs_before.saturating_sub(self.build_cost_model_after);
        every > 0 && count >= 0 && count % every == every - 1
    }

    /// Whether a run may have what it asks for.
    ///
    /// # Errors
    /// `InvalidArgument` for partition graphs in a session that has them switched off.
    pub(crate) fn check_partition_graphs(&self, are_wanted: bool) -> Result<()> {
        if are_wanted && !self.gives_partition_graphs {
            return Err(invalid!(
                "RunOptions.output_partition_graphs() is not supported when \
                 disable_output_partition_graphs is true."
            ));
        }
        Ok(())
    }

    /// The pools that runs choose from, at least one; `None` for one thread.
    pub(crate) fn pools(&self) -> Vec<Option<Arc<Pool>>> {
        if self.executor_type == SINGLE_THREADED {
            return vec![None; self.run_pools.len().max(1)];
        }
        if self.run_pools.is_empty() {
            return vec![pool(self.threads, "", self.own_threads)];
        }
        let pools = self.run_pools.iter().map(|(threads, name)| {
            let threads = if *threads == 0 { self.threads } else { *threads };
            pool(threads, name, self.own_threads && name.is_empty())
        });
        pools.collect()
    }
}

/// A pool of so many threads, the caller's included; `None` for one. Sessions share the pools of one name (whoever comes first says how
/// many threads that has), and those without a name that have as many threads.
fn pool(threads: usize, name: &str, is_own: bool) -> Option<Arc<Pool>> {
    static SHARED: LazyLock<Mutex<HashMap<(usize, String), Weak<Pool>>>> =
        LazyLock::new(Default::default);
    if threads <= 1 {
        return None;
    }
    if is_own {
        return Some(Arc::new(Pool::new(threads)));
    }
    let key = (if name.is_empty() { threads } else { 0 }, name.to_string());
    let mut shared = SHARED.lock();
    shared.retain(|_, pool| pool.strong_count() > 0);
    if let Some(pool) = shared.get(&key).and_then(Weak::upgrade) {
        return Some(pool);
    }
    let pool = Arc::new(Pool::new(threads));
    shared.insert(key, Arc::downgrade(&pool));
    Some(pool)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_and_devices() {
        let mut config =
            proto::ConfigProto { intra_op_parallelism_threads: 1, ..Default::default() };
        assert_eq!(SessionConfig::from_proto(&config).unwrap().threads, 1);
        assert!(SessionConfig::from_proto(&config).unwrap().pools()[0].is_none());
        config.inter_op_parallelism_threads = 3;
        config.device_count.insert("CPU".into(), 2);
        let read = SessionConfig::from_proto(&config).unwrap();
        assert_eq!((read.threads, read.cpu_devices), (3, 2));
        let pool = |config: &SessionConfig, index: usize| config.pools()[index].clone().unwrap();
        let first = pool(&read, 0);
        assert!(Arc::ptr_eq(&first, &pool(&read, 0)));
        for (num_threads, global_name) in [(0, ""), (2, ""), (4, "named"), (5, "named")] {
            let global_name = global_name.to_string();
            let pool = proto::ThreadPoolOptionProto { num_threads, global_name };
            config.session_inter_op_thread_pool.push(pool);
        }
        let mut read = SessionConfig::from_proto(&config).unwrap();
        let pools = read.pools();
        let threads = |pool: &Option<Arc<Pool>>| pool.as_ref().unwrap().threads();
        assert_eq!(pools.iter().map(threads).collect::<Vec<_>>(), [3, 2, 4, 4]);
        assert!(Arc::ptr_eq(&first, pools[0].as_ref().unwrap()));
        read.own_threads = true;
        assert!(!Arc::ptr_eq(&first, &pool(&read, 0)));
        assert!(Arc::ptr_eq(pools[2].as_ref().unwrap(), &pool(&read, 2)));
        read.executor_type = "SINGLE_THREADED_EXECUTOR".to_string();
        assert!(read.pools().iter().all(Option::is_none) && read.check_executor().is_ok());
        read.executor_type = "NOPE".to_string();
        assert!(read.check_executor().is_err());
        config.device_filters = vec!["/job:worker".into(), "@@@".into()];
        let error = SessionConfig::from_proto(&config).unwrap_err();
        assert_eq!(error.message(), "Invalid device filter: @@@");
        config.device_filters.clear();
        config.intra_op_parallelism_threads = i32::MAX;
        assert!(SessionConfig::from_proto(&config).is_err());
    }

    #[test]
    fn optimizer_toggles_switch_folding() {
        let folds = |opt_level, do_constant_folding, constant_folding| {
            let optimizer =
                proto::OptimizerOptions { opt_level, do_constant_folding, ..Default::default() };
            let rewriter = proto::RewriterConfig { constant_folding, ..Default::default() };
            let options = proto::GraphOptions {
                optimizer_options: Some(optimizer),
                rewrite_options: Some(rewriter),
                ..Default::default()
            };
            let graph_options = Some(options);
            let config = proto::ConfigProto { graph_options, ..Default::default() };
            SessionConfig::from_proto(&config).unwrap().folds_constants
        };
        assert!(folds(0, false, 0) && folds(-1, true, 1));
        assert!(!folds(-1, false, 0) && !folds(0, false, 2));
    }

    #[test]
    fn of_so_many_runs_one_is_measured() {
        let measured = |build_cost_model, build_cost_model_after, runs_before| {
            let made = SessionConfig {
                build_cost_model,
                build_cost_model_after,
                ..SessionConfig::default()
            };
            made.measures(runs_before)
        };
        for (every, after, expected) in [
            (0, 0, [false; 4]),
            (-1, 0, [false; 4]),
            (1, 0, [true; 4]),
            (2, 1, [false, false, true, false]),
            (1, i64::MIN, [true; 4]),
            (1, i64::MAX, [false; 4]),
            (i64::MAX, -i64::MAX, [false; 4]),
        ] {
            let runs = [0, 1, 2, 3].map(|runs_before| measured(every, after, runs_before));
            assert_eq!(runs, expected, "every {every} after {after}");
        }
    }
}

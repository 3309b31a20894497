//! Traces: when each node of a run began and ended.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use tfcore_proto as proto;

/// Collects the times of one run.
pub(crate) struct Trace {
    /// The moment of `clock`, in nanoseconds since 1970.
    start_nanos: i64,
    clock: Instant,
    nodes: Mutex<Vec<proto::NodeExecStats>>,
}

impl Trace {
    pub(crate) fn new() -> Trace {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Trace {
            start_nanos: since_1970.as_nanos() as i64,
            clock: Instant::now(),
            nodes: Mutex::default(),
        }
    }

    /// Notes that a node called `name` has run since `start`.
    pub(crate) fn record(&self, name: &str, op: &str, start: Instant) {
        let nanos = start.elapsed().as_nanos() as i64;
        let start = self.start_nanos + start.duration_since(self.clock).as_nanos() as i64;
        self.nodes.lock().push(proto::NodeExecStats {
            node_name: name.to_string(),
            timeline_label: format!("{name} = {op}"),
            all_start_micros: start / 1000,
            scheduled_micros: start / 1000,
            op_end_rel_micros: (nanos + 999) / 1000,
            all_end_rel_micros: (nanos + 999) / 1000,
            all_start_nanos: start,
            scheduled_nanos: start,
            op_end_rel_nanos: nanos,
            all_end_rel_nanos: nanos,
            ..Default::default()
        });
    }

    /// What clients get of it. Threads that have done their part may still hold the trace.
    pub(crate) fn take_step_stats(&self, device: &str) -> proto::StepStats {
        let node_stats = std::mem::take(&mut *self.nodes.lock());
        proto::StepStats {
            dev_stats: vec![proto::DeviceStepStats {
                device: device.to_string(),
                node_stats,
                ..Default::default()
            }],
        }
    }
}

//! Traces: when and on which thread each node of a run began and ended, and what it put out.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::thread::{self, ThreadId};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use tfcore_framework::{Role, Value, shape_to_proto};
use tfcore_graph::Name;
use tfcore_proto as proto;
use tfcore_tensor::{PartialShape, Tensor, Watch};

use crate::environment::device::Device;
use tfcore_plan::plan::PlanNode;

/// The name of the memory that all tensors are in.
const ALLOCATOR: &str = "cpu";

/// So many buffers are listed at most when there is no memory left.
const MAX_TOLD: usize = 100;

/// Collects the times of one run.
pub(crate) struct Trace {
    /// The moment of `clock`, in nanoseconds since 1970.
    start_nanos: i64,
    clock: Instant,
    seen: Mutex<Seen>,
}

/// A buffer that a node has made.
struct Made {
    watch: Watch,
    bytes: i64,
    device: u16,
    node: Name,
}

#[derive(Default)]
struct Seen {
    /// By the number of the watch.
    buffers: HashMap<usize, Made>,
    /// The devices, bytes and nodes of the buffers that were in use when there was not enough memory.
    in_use: Vec<(u16, i64, Name)>,
    nodes: Vec<Ran>,
    /// Threads by the order in which they turn up; the timeline has a row for each.
    threads: HashMap<ThreadId, u32>,
    thread_names: BTreeMap<u32, String>,
}

/// What a trace has noted of a run.
pub(crate) struct Recorded {
    /// When the run began, in nanoseconds since 1970.
    pub(crate) start_nanos: i64,
    /// The nodes in the order in which they ended.
    pub(crate) nodes: Vec<Ran>,
    pub(crate) thread_names: BTreeMap<u32, String>,
}

/// One execution of a node.
pub(crate) struct Ran {
    /// The number of the device.
    pub(crate) device: u16,
    /// Whether the node is one of a function's body; its name may be that of a node of the graph, too.
    pub(crate) in_function: bool,
    /// The label lacks the inputs.
    pub(crate) stats: proto::NodeExecStats,
}

impl Trace {
    pub(crate) fn new() -> Trace {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Trace {
            start_nanos: since_1970.as_nanos() as i64,
            clock: Instant::now(),
            seen: Mutex::default(),
        }
    }

    /// Notes that a node has run since `start`, with these outputs.
    pub(crate) fn record(&self, node: &PlanNode, start: Instant, outputs: &[Value]) {
        let nanos = start.elapsed().as_nanos() as i64;
        let start = self.start_nanos + start.duration_since(self.clock).as_nanos() as i64;
        let output = outputs.iter().enumerate().filter_map(|(slot, value)| match value {
            Value::Tensor(tensor) => Some(describe(slot, tensor)),
            Value::Ref(variable) => Some(describe(slot, &variable.read().ok()?)),
            Value::Absent => None,
        });
        let output: Vec<proto::NodeOutput> = output.collect();
        let stats = proto::NodeExecStats {
            node_name: node.name.to_string(),
            timeline_label: format!("{} = {}()", node.name, node.op.name),
            all_start_micros: start / 1000,
            scheduled_micros: start / 1000,
            op_end_rel_micros: (nanos + 999) / 1000,
            all_end_rel_micros: (nanos + 999) / 1000,
            all_start_nanos: start,
            scheduled_nanos: start,
            op_end_rel_nanos: nanos,
            all_end_rel_nanos: nanos,
            // The reference takes a shortcut at them.
            memory_stats: (node.op.role != Role::NoOp).then(proto::MemoryStats::default),
            output,
            ..Default::default()
        };
        let thread = thread::current();
        let seen = &mut *self.seen.lock();
        let number = seen.threads.len() as u32;
        let thread_id = *seen.threads.entry(thread.id()).or_insert(number);
        if thread_id == number {
            seen.thread_names.insert(number, thread.name().unwrap_or("caller").to_string());
        }
        let made = seen.note_buffers(node, outputs);
        let memory = made.iter().map(|&bytes| proto::AllocationRecord {
            alloc_micros: stats.all_start_micros + stats.op_end_rel_micros,
            alloc_bytes: bytes,
        });
        let bytes = made.iter().sum();
        let memory = proto::AllocatorMemoryUsed {
            allocator_name: ALLOCATOR.to_string(),
            total_bytes: bytes,
            peak_bytes: bytes,
            live_bytes: bytes,
            allocation_records: memory.collect(),
            ..Default::default()
        };
        let memory = if bytes > 0 { vec![memory] } else { Vec::new() };
        let stats = proto::NodeExecStats { thread_id, memory, ..stats };
        seen.nodes.push(Ran { device: node.device, in_function: node.in_function, stats });
    }

    /// Notes which memory is in use, the first time that there is not enough.
    pub(crate) fn note_usage(&self) {
        let seen = &mut *self.seen.lock();
        if seen.in_use.is_empty() {
            let live = seen.buffers.values().filter(|made| made.watch.is_in_use());
            seen.in_use = live.map(|made| (made.device, made.bytes, made.node.clone())).collect();
        }
    }

    /// What was in use of the memory that nodes have taken, when there was not enough: for each device the largest buffers and
    /// the nodes that made them.
    pub(crate) fn usage(&self, devices: &[Device]) -> String {
        let seen = self.seen.lock();
        let mut text = String::new();
        for (number, device) in (0u16..).zip(devices) {
            let here = seen.in_use.iter().filter(|(device, ..)| *device == number);
            let mut live: Vec<(i64, &Name)> = here.map(|(_, bytes, node)| (*bytes, node)).collect();
            if live.is_empty() {
                continue;
            }
            live.sort_by_key(|&(bytes, node)| (Reverse(bytes), node));
            text.push_str(&format!(
                "\nCurrent usage from device: {}, allocator: {ALLOCATOR}\n",
                device.name()
            ));
            let total: i64 = live.iter().map(|(bytes, _)| bytes).sum();
            let mut left = total;
            let mut told = 0;
            while told < live.len().min(MAX_TOLD) && left * 100 > total {
                let (bytes, node) = live[told];
                text.push_str(&format!("  {} from {node}\n", readable_bytes(bytes)));
                left -= bytes;
                told += 1;
            }
            if told < live.len() {
                let nodes = live.len() - told;
                text.push_str(&format!(
                    "  Remaining {nodes} nodes with {}\n",
                    readable_bytes(left)
                ));
            }
        }
        text
    }

    /// What has been noted so far. Threads that have done their part may still hold the trace.
    pub(crate) fn take(&self) -> Recorded {
        let seen = std::mem::take(&mut *self.seen.lock());
        let Seen { nodes, thread_names, .. } = seen;
        Recorded { start_nanos: self.start_nanos, nodes, thread_names }
    }
}

impl Seen {
    /// Notes the buffers that the node has made, rather than handed on, and returns how many bytes each has. Small ones are not
    /// told from those of other nodes: they count if nobody else has them.
    fn note_buffers(&mut self, node: &PlanNode, outputs: &[Value]) -> Vec<i64> {
        let mut made = Vec::new();
        for value in outputs {
            let Value::Tensor(tensor) = value else { continue };
            let bytes = tensor.byte_size() as i64;
            if bytes == 0 || !tensor.is_exclusive() {
                continue;
            }
            if let Some(watch) = tensor.watch() {
                let (id, device, node) = (watch.id(), node.device, node.name.clone());
                if self.buffers.contains_key(&id) {
                    continue;
                }
                self.buffers.insert(id, Made { watch, bytes, device, node });
            }
            made.push(bytes);
        }
        made
    }
}

/// `1.5KiB`, as the reference prints sizes.
fn readable_bytes(bytes: i64) -> String {
    if bytes < 1 << 10 {
        return format!("{bytes}B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut units = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"].into_iter();
    let mut unit = units.next().unwrap_or_default();
    for larger in units {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = larger;
    }
    match unit {
        "KiB" => format!("{value:.1}{unit}"),
        _ => format!("{value:.2}{unit}"),
    }
}

/// What an output was.
pub(crate) fn describe(slot: usize, tensor: &Tensor) -> proto::NodeOutput {
    let bytes = tensor.byte_size() as i64;
    let memory = proto::AllocationDescription {
        requested_bytes: bytes,
        allocated_bytes: bytes,
        allocator_name: ALLOCATOR.to_string(),
        has_single_reference: tensor.is_exclusive(),
        ptr: tensor.data() as u64,
        ..Default::default()
    };
    proto::NodeOutput {
        slot: slot as i32,
        tensor_description: Some(proto::TensorDescription {
            dtype: tensor.dtype().to_i32(),
            shape: Some(shape_to_proto(&PartialShape::from(tensor.shape()))),
            allocation_description: Some(memory),
        }),
    }
}

//! What a client is told of a run that was traced: the times of all nodes, as the reference lists them. A plan has done some of
//! its work beforehand (constants) or does it on the way (feeds and fetches); these nodes are listed too.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tfcore_base::DType;
use tfcore_framework::Value;
use tfcore_graph::{Node, OutputRef, parse_tensor};
use tfcore_proto as proto;
use tfcore_tensor::Tensor;

use crate::environment::device::Device;
use crate::trace::record::{Ran, Recorded, describe};
use tfcore_plan::retval::positions;

/// The node before all others of a device.
pub(crate) const SOURCE: &str = "_SOURCE";

/// The nodes that a run was asked for.
pub(crate) struct Report<'r> {
    devices: &'r [Device],
    /// What the devices ran; attrs do not matter.
    pub(crate) graphs: &'r [proto::GraphDef],
    /// The session's nodes by name.
    by_name: HashMap<&'r str, &'r Node>,
}

/// What is fed, by the names of the nodes that stand for it.
pub(crate) type Fed = HashMap<String, proto::NodeOutput>;

/// Describes what is about to be fed. The memory is the client's.
pub(crate) fn describe_feeds(nodes: &[Arc<Node>], feeds: &[OutputRef], values: &[Value]) -> Fed {
    let positions = positions(nodes, feeds);
    let mut fed = Fed::new();
    for ((feed, value), position) in feeds.iter().zip(values).zip(positions) {
        let Value::Tensor(tensor) = value else { continue };
        let name = &nodes[feed.node.index()].name;
        let mut output = describe(0, tensor);
        if let Some(description) = &mut output.tensor_description
            && let Some(memory) = &mut description.allocation_description
        {
            (memory.allocated_bytes, memory.ptr, memory.has_single_reference) = (0, 0, false);
        }
        fed.insert(format!("_arg_{name}_{}_{position}", feed.index), output);
    }
    fed
}

impl<'r> Report<'r> {
    /// A report on `graphs`, which say what each of the devices runs of `nodes`.
    pub(crate) fn new(
        devices: &'r [Device],
        nodes: &'r [Arc<Node>],
        graphs: &'r [proto::GraphDef],
    ) -> Report<'r> {
        let by_name = nodes.iter().map(|node| (&*node.name, &**node)).collect();
        Report { devices, graphs, by_name }
    }

    /// How many outputs a node of the graphs has.
    pub(crate) fn num_outputs(&self, node: &proto::NodeDef) -> usize {
        match self.by_name.get(&*node.name) {
            Some(node) => node.num_outputs(),
            None => usize::from(!matches!(&*node.op, "_Send" | "_Retval")),
        }
    }

    /// What each device has done, in the order in which the nodes ended: the source, the constants and what is fed come first, what is
    /// fetched last. Nodes that send and receive are left out, as in the reference. Nodes of functions are listed without their
    /// inputs.
    pub(crate) fn by_device(&self, recorded: Recorded, fed: &Fed) -> Vec<Done> {
        let Recorded { start_nanos, nodes, thread_names } = recorded;
        let ended = nodes.iter().filter(|ran| !ran.in_function).map(|ran| &ran.stats);
        let ends: HashMap<String, i64> = ended.map(|s| (s.node_name.clone(), end(s))).collect();
        let mut by_device: Vec<Vec<Ran>> = self.devices.iter().map(|_| Vec::new()).collect();
        nodes.into_iter().for_each(|ran| by_device[usize::from(ran.device)].push(ran));
        let mut all = Vec::with_capacity(self.graphs.len());
        for ((number, device), mut ran) in (0..).zip(self.devices).zip(by_device) {
            let device = device.name();
            let graph = self.graphs.iter().find(|graph| runs_on(graph, device));
            let nodes = graph.map_or(&[][..], |graph| &graph.node);
            if nodes.is_empty() && ran.is_empty() {
                continue;
            }
            relabel(&mut ran, nodes);
            let source = proto::NodeExecStats {
                node_name: SOURCE.to_string(),
                timeline_label: format!("{SOURCE} = NoOp()"),
                ..at(start_nanos)
            };
            let rest = nodes.iter().filter(|node| !ends.contains_key(&node.name));
            let (last, first): (Vec<_>, Vec<_>) = rest.partition(|node| node.op == "_Retval");
            let unrecorded = |nodes: Vec<&proto::NodeDef>| -> Vec<Ran> {
                let stats = nodes.into_iter().filter_map(|node| {
                    let start = sources(node).filter_map(|source| ends.get(source)).max();
                    self.unrecorded(node, fed, *start.unwrap_or(&start_nanos))
                });
                stats.map(|stats| Ran { device: number, in_function: false, stats }).collect()
            };
            let source = Ran { device: number, in_function: false, stats: source };
            let mut nodes: Vec<Ran> = std::iter::once(source).chain(unrecorded(first)).collect();
            nodes.extend(ran);
            nodes.extend(unrecorded(last));
            nodes.sort_by_key(|ran| end(&ran.stats));
            let thread_names = thread_names.clone();
            all.push(Done { device: device.to_string(), nodes, thread_names });
        }
        all
    }

    /// What there is to tell of a node that a plan does not run: it has done its work at `nanos`.
    fn unrecorded(
        &self,
        node: &proto::NodeDef,
        fed: &Fed,
        nanos: i64,
    ) -> Option<proto::NodeExecStats> {
        let output = match &*node.op {
            "Const" => Some(match self.constant(&node.name) {
                Some(tensor) => describe(0, &tensor),
                None => nothing(),
            }),
            // Of a control edge between devices.
            "Identity" if !self.by_name.contains_key(&*node.name) => Some(nothing()),
            "_Arg" => fed.get(&node.name).cloned(),
            "_Retval" => None,
            _ => return None,
        };
        Some(proto::NodeExecStats {
            node_name: node.name.clone(),
            timeline_label: label(node),
            memory_stats: Some(proto::MemoryStats {
                persistent_memory_size: if node.op == "Const" { bytes(&output) } else { 0 },
                ..Default::default()
            }),
            output: output.into_iter().collect(),
            ..at(nanos)
        })
    }

    /// The value of a constant, or of one that it is a copy of.
    fn constant(&self, name: &str) -> Option<Tensor> {
        let original = name.split_once("/replicate/_").map_or(name, |(original, _)| original);
        let node = self.by_name.get(name).or_else(|| self.by_name.get(original))?;
        node.attrs.tensor("value").and_then(|value| value.tensor()).ok()
    }
}

/// What a device has done in a run.
pub(crate) struct Done {
    pub(crate) device: String,
    pub(crate) nodes: Vec<Ran>,
    thread_names: BTreeMap<u32, String>,
}

/// The same for the client.
pub(crate) fn step_stats(done: Vec<Done>) -> proto::StepStats {
    let device = |done: Done| proto::DeviceStepStats {
        device: done.device,
        node_stats: done.nodes.into_iter().map(|ran| ran.stats).collect(),
        thread_names: done.thread_names,
    };
    proto::StepStats { dev_stats: done.into_iter().map(device).collect() }
}

/// Adds the inputs to the labels of the graph's nodes.
fn relabel(ran: &mut [Ran], nodes: &[proto::NodeDef]) {
    let by_name: HashMap<&str, &proto::NodeDef> =
        nodes.iter().map(|node| (&*node.name, node)).collect();
    for Ran { stats, .. } in ran.iter_mut().filter(|ran| !ran.in_function) {
        if let Some(node) = by_name.get(&*stats.node_name) {
            stats.timeline_label = label(node);
        }
    }
}

/// When a node ended.
fn end(stats: &proto::NodeExecStats) -> i64 {
    stats.all_start_nanos + stats.all_end_rel_nanos
}

/// The names of the nodes that a node reads or runs after, on whatever device: `n/_3` receives what `n` has sent.
fn sources(node: &proto::NodeDef) -> impl Iterator<Item = &str> {
    node.input.iter().flat_map(|input| {
        let (name, _) = parse_tensor(input);
        [Some(name), name.rsplit_once("/_").map(|(sender, _)| sender)].into_iter().flatten()
    })
}

/// The value that a control edge between devices carries.
fn nothing() -> proto::NodeOutput {
    let none = proto::tensor_shape_proto::Dim { size: 0, ..Default::default() };
    let shape = proto::TensorShapeProto { dim: vec![none], ..Default::default() };
    let description = proto::TensorDescription {
        dtype: DType::FLOAT.to_i32(),
        shape: Some(shape),
        allocation_description: Some(proto::AllocationDescription::default()),
    };
    proto::NodeOutput { slot: 0, tensor_description: Some(description) }
}

/// Whether the graph is that of a device.
fn runs_on(graph: &proto::GraphDef, device: &str) -> bool {
    graph.node.first().is_some_and(|node| node.device == device)
}

/// `name = Op(input, other:1, ^control)`, as the timeline reads it.
fn label(node: &proto::NodeDef) -> String {
    format!("{} = {}({})", node.name, node.op, node.input.join(", "))
}

/// A node that takes no time.
fn at(nanos: i64) -> proto::NodeExecStats {
    proto::NodeExecStats {
        all_start_micros: nanos / 1000,
        scheduled_micros: nanos / 1000,
        all_start_nanos: nanos,
        scheduled_nanos: nanos,
        ..Default::default()
    }
}

/// How much memory an output has.
fn bytes(output: &Option<proto::NodeOutput>) -> i64 {
    let description = output.as_ref().and_then(|output| output.tensor_description.as_ref());
    let memory = description.and_then(|tensor| tensor.allocation_description.as_ref());
    memory.map_or(0, |memory| memory.allocated_bytes)
}

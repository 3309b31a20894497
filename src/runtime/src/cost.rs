//! The cost graph: what each node of a run took in time and memory, and whose memory its outputs lie in. It has the nodes of the
//! partition graphs, one device after the other, each with a source and a sink.

use std::collections::HashMap;

use tfcore_proto as proto;
use tfcore_proto::cost_graph_def::Node;
use tfcore_proto::cost_graph_def::node::{InputInfo, OutputInfo};

use crate::report::Report;

/// The number of the first node of a device, counted from that of its source; the sink comes between.
const FIRST: i32 = 2;

/// What was measured of each node of a device.
type Measured<'s> = HashMap<&'s str, Vec<&'s proto::NodeExecStats>>;

impl Report<'_> {
    /// What the nodes cost in the run that `stats` tells about.
    pub(crate) fn cost_graph(&self, stats: &proto::StepStats) -> proto::CostGraphDef {
        let mut node = Vec::new();
        for graph in self.graphs {
            let device = graph.node.first().map_or("", |node| &node.device);
            let mut measured = Measured::new();
            let stats = stats.dev_stats.iter().filter(|stats| stats.device == device);
            for stats in stats.flat_map(|stats| &stats.node_stats) {
                measured.entry(&stats.node_name).or_default().push(stats);
            }
            self.add_graph(graph, &measured, &mut node);
        }
        proto::CostGraphDef { node, ..Default::default() }
    }

    /// Adds what one device has run.
    fn add_graph(&self, graph: &proto::GraphDef, measured: &Measured<'_>, all: &mut Vec<Node>) {
        let source = all.len() as i32;
        let first = source + FIRST;
        let numbers: HashMap<&str, i32> =
            graph.node.iter().zip(first..).map(|(node, number)| (&*node.name, number)).collect();
        let mut is_read = vec![false; graph.node.len()];
        let nodes = graph.node.iter().map(|node| {
            let stats = measured_of(measured, &node.name);
            let mut cost = Node {
                name: node.name.clone(),
                device: node.device.clone(),
                is_final: node.op == "_Send",
                compute_cost: compute_cost(stats),
                persistent_memory_size: stats.last().map_or(0, |stats| persistent_bytes(stats)),
                ..Default::default()
            };
            // Where the memory of each input lies, and how much it is.
            let mut addresses = Vec::new();
            for input in &node.input {
                let (name, port) = match input.strip_prefix('^') {
                    Some(name) => (name, None),
                    None => match input.rsplit_once(':') {
                        Some((name, port)) => (name, port.parse().ok()),
                        None => (&**input, Some(0)),
                    },
                };
                let Some(&number) = numbers.get(name) else { continue };
                is_read[(number - first) as usize] = true;
                let Some(preceding_port) = port else {
                    cost.control_input.push(number);
                    continue;
                };
                cost.input_info.push(InputInfo { preceding_node: number, preceding_port });
                let producer = measured_of(measured, name);
                addresses.push(output(producer, preceding_port).map(memory));
            }
            if node.input.is_empty() {
                cost.control_input.push(source);
            }
            let info = |slot| output_info(output(stats, slot as i32), &addresses);
            cost.output_info = (0..self.num_outputs(node)).map(info).collect();
            cost
        });
        let nodes: Vec<Node> = nodes.collect();
        // The reference ties the two together twice.
        let mut ends = vec![source, source];
        ends.extend((first..).zip(&is_read).filter(|(_, read)| !**read).map(|(number, _)| number));
        let source_cost = compute_cost(measured_of(measured, "_SOURCE"));
        all.push(Node {
            name: "_SOURCE".to_string(),
            compute_cost: source_cost,
            ..Default::default()
        });
        let name = "_SINK".to_string();
        all.push(Node { name, control_input: ends, ..Default::default() });
        all.extend(nodes);
        all.iter_mut().zip(0..).skip(source as usize).for_each(|(node, id)| node.id = id);
    }
}

/// What there is about a node, once for each time that it has run.
fn measured_of<'m>(measured: &'m Measured<'_>, name: &str) -> &'m [&'m proto::NodeExecStats] {
    measured.get(name).map_or(&[], |stats| stats)
}

/// The longest time that a node has taken, in microseconds.
fn compute_cost(measured: &[&proto::NodeExecStats]) -> i64 {
    let micros =
        |stats: &&proto::NodeExecStats| stats.op_end_rel_micros - stats.op_start_rel_micros;
    measured.iter().map(micros).max().unwrap_or(0)
}

fn persistent_bytes(stats: &proto::NodeExecStats) -> i64 {
    stats.memory_stats.as_ref().map_or(0, |memory| memory.persistent_memory_size)
}

/// What the last live value of an output was.
fn output<'m>(
    measured: &[&'m proto::NodeExecStats],
    slot: i32,
) -> Option<&'m proto::TensorDescription> {
    let outputs = measured.iter().rev().flat_map(|stats| &stats.output);
    outputs.filter(|output| output.slot == slot).find_map(|o| o.tensor_description.as_ref())
}

/// Where the memory of a tensor lies, and how many bytes it has.
fn memory(tensor: &proto::TensorDescription) -> (u64, i64) {
    let memory = tensor.allocation_description.as_ref();
    memory.map_or((0, 0), |memory| (memory.ptr, memory.allocated_bytes))
}

/// An output, or what there is to say about one that has had no value.
fn output_info(
    tensor: Option<&proto::TensorDescription>,
    inputs: &[Option<(u64, i64)>],
) -> OutputInfo {
    let Some(tensor) = tensor else {
        let unknown = proto::TensorShapeProto { unknown_rank: true, ..Default::default() };
        return OutputInfo { size: -1, alias_input_port: -1, shape: Some(unknown), dtype: 0 };
    };
    let (address, size) = memory(tensor);
    let aliased = inputs.iter().position(|&input| address != 0 && input == Some((address, size)));
    OutputInfo {
        size,
        alias_input_port: aliased.map_or(-1, |port| port as i64),
        shape: tensor.shape.clone(),
        dtype: tensor.dtype,
    }
}

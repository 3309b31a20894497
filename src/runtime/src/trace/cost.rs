//! The cost graph: what each node of a run took in time and memory, and whose memory its outputs lie in. It has the nodes of the
//! partition graphs, one device after the other, each with a source and a sink.

use std::collections::HashMap;

use tfcore_graph::parse_tensor;
use tfcore_proto as proto;
use tfcore_proto::cost_graph_def::Node;
use tfcore_proto::cost_graph_def::node::{InputInfo, OutputInfo};

use crate::trace::record::Ran;
use crate::trace::report::{Done, Report, SOURCE};

/// The number of the first node of a device, counted from that of its source; the sink comes between.
const FIRST: i32 = 2;

/// What was measured of each node of a device.
type Measured<'d> = HashMap<&'d str, Vec<&'d proto::NodeExecStats>>;

impl Report<'_> {
    /// What the nodes cost in the run that `done` tells about. Nodes of functions have no part in it.
    pub(crate) fn cost_graph(&self, done: &[Done]) -> proto::CostGraphDef {
        let mut node = Vec::new();
        for graph in self.graphs {
            let device = graph.node.first().map_or("", |node| &node.device);
            let ran = done.iter().filter(|done| done.device == device).flat_map(|done| &done.nodes);
            let mut measured = Measured::new();
            for Ran { stats, .. } in ran.filter(|ran| !ran.in_function) {
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
        let cost = |node| self.cost_of(node, measured, &numbers, source);
        let nodes: Vec<Node> = graph.node.iter().map(cost).collect();
        let mut is_read = vec![false; nodes.len()];
        for node in &nodes {
            let read = node.input_info.iter().map(|input| input.preceding_node);
            let read = read.chain(node.control_input.iter().copied());
            read.filter(|&number| number >= first)
                .for_each(|number| is_read[(number - first) as usize] = true);
        }
        // The reference ties the two together twice.
        let mut ends = vec![source, source];
        ends.extend((first..).zip(&is_read).filter(|(_, read)| !**read).map(|(number, _)| number));
        let compute_cost = compute_cost(measured_of(measured, SOURCE));
        all.push(Node { name: SOURCE.to_string(), compute_cost, ..Default::default() });
        let name = "_SINK".to_string();
        all.push(Node { name, control_input: ends, ..Default::default() });
        all.extend(nodes);
        all.iter_mut().zip(0..).skip(source as usize).for_each(|(node, id)| node.id = id);
    }

    /// What a node costs that reads nodes of these numbers, or else comes after the one of number `source`.
    fn cost_of(
        &self,
        node: &proto::NodeDef,
        measured: &Measured<'_>,
        numbers: &HashMap<&str, i32>,
        source: i32,
    ) -> Node {
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
            let (name, preceding_port) = parse_tensor(input);
            let Some(&preceding_node) = numbers.get(name) else { continue };
            if preceding_port < 0 {
                cost.control_input.push(preceding_node);
                continue;
            }
            cost.input_info.push(InputInfo { preceding_node, preceding_port });
            addresses.push(output(measured_of(measured, name), preceding_port).map(memory));
        }
        if node.input.is_empty() {
            cost.control_input.push(source);
        }
        let info = |slot| output_info(output(stats, slot as i32), &addresses);
        cost.output_info = (0..self.num_outputs(node)).map(info).collect();
        cost
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

//! Makes the data of the gear with frames from a body.

use hashbrown::HashMap;
use smallvec::SmallVec;
use tfcore_graph::{Node, NodeId};

use crate::dataflow::{Dataflow, FlowFrame, FlowNode, Kind, Readers};
use crate::graph::PlanGraph;
use crate::plan::{Action, Body};

pub(crate) fn dataflow(
    graph: &PlanGraph<'_>,
    body: &Body,
    numbers: &HashMap<NodeId, u32>,
    may_wait: bool,
) -> Dataflow {
    let mut ids: Vec<NodeId> = numbers.keys().copied().collect();
    ids.sort_unstable_by_key(|id| numbers[id]);
    let mut flow = Dataflow {
        may_wait,
        nodes: Vec::with_capacity(ids.len()),
        frames: graph.frames.frames.iter().map(|_| FlowFrame::default()).collect(),
        args: vec![Readers::new(); body.num_args],
    };
    for (frame, made) in graph.frames.frames.iter().zip(&mut flow.frames) {
        made.num_enters = frame.enters.len();
        let limit = frame
            .enters
            .first()
            .map(|id| graph.node(*id).attrs.int("parallel_iterations").unwrap_or(10).max(1));
        made.parallel_iterations = limit.unwrap_or(1) as usize;
    }
    for (number, id) in ids.iter().enumerate() {
        add(&mut flow, graph.node(*id), number, graph, body);
    }
    for (number, id) in ids.iter().enumerate() {
        connect(&mut flow, graph.node(*id), number as u32, body, numbers);
    }
    for (result, &slot) in body.results.iter().enumerate() {
        let writer = body.nodes.partition_point(|node| node.output <= slot);
        if slot as usize >= body.args().end && writer > 0 {
            let output = slot - body.nodes[writer - 1].output;
            flow.nodes[writer - 1].results.push((output, result as u32));
        }
    }
    flow
}

fn add(flow: &mut Dataflow, node: &Node, number: usize, graph: &PlanGraph<'_>, body: &Body) {
    let frame = match () {
        () if node.is_enter() => graph.frames.frames[graph.frames.of(node.id)].parent,
        () if node.is_exit() => graph.frames.of(node.inputs[0].source.node),
        () => graph.frames.of(node.id),
    };
    let back_edges =
        node.inputs.iter().filter(|e| graph.is_back_edge(e.source.node, node)).count() as u32;
    let kind = match body.nodes[number].action {
        Action::Merge => Kind::Merge { back_edges },
        Action::Trigger => Kind::Trigger,
        Action::Transfer(_) => Kind::Transfer,
        Action::Forward if node.is_enter() => Kind::Enter {
            child: graph.frames.of(node.id),
            is_constant: node.attrs.bool("is_constant").unwrap_or(false),
        },
        Action::Forward if node.is_exit() => Kind::Exit,
        Action::Forward if node.is_next_iteration() => Kind::NextIteration,
        _ => Kind::Plain,
    };
    let planned = &body.nodes[number];
    let is_constant = |slot: u32| (slot as usize) < body.constants.len();
    let made = &mut flow.frames[frame];
    flow.nodes.push(FlowNode {
        kind,
        number: made.nodes.len(),
        first_input: made.num_inputs,
        num_data: planned.inputs.iter().filter(|input| !is_constant(input.slot)).count() as u32,
        num_controls: planned.controls.len() as u32,
        has_first_input: matches!(kind, Kind::Merge { .. })
            && planned.inputs.iter().any(|input| is_constant(input.slot)),
        readers: vec![Readers::new(); planned.num_outputs()],
        followers: SmallVec::new(),
        results: SmallVec::new(),
    });
    made.nodes.push(number as u32);
    made.num_inputs += planned.inputs.len();
}

/// Tells the sources of a node about it.
fn connect(
    flow: &mut Dataflow,
    node: &Node,
    number: u32,
    body: &Body,
    numbers: &HashMap<NodeId, u32>,
) {
    let planned = &body.nodes[number as usize];
    for (index, (input, edge)) in planned.inputs.iter().zip(&node.inputs).enumerate() {
        let slot = input.slot as usize;
        let reader = (number, index as u32);
        if body.args().contains(&slot) {
            flow.args[slot - body.args().start].push(reader);
        } else if slot >= body.args().end
            && let Some(&writer) = numbers.get(&edge.source.node)
        {
            flow.nodes[writer as usize].readers[edge.source.port()].push(reader);
        }
    }
    for &control in &planned.controls {
        flow.nodes[control as usize].followers.push(number);
    }
}

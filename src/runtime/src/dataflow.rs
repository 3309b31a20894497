//! The gear with frames: what a plan's nodes send to each other, in which frame.
//!
//! It runs what the other gears cannot: loops of an unusual shape, whose values are told apart by frame and iteration, and
//! nodes that wait for other nodes of the step. This file holds what is known before a run; `flow.rs` is the run.

use std::collections::HashMap;
use std::sync::Arc;

use smallvec::SmallVec;
use tfcore_graph::{Node, NodeId};

use crate::frames::{Frames, ROOT, is_enter, is_exit};
use crate::plan::{Action, Body};
use crate::prune::is_back_edge;

/// What the gear knows of a plan.
pub(crate) struct Dataflow {
    /// Whether some node may wait for another one of the step.
    pub(crate) may_wait: bool,
    /// As the body's nodes.
    pub(crate) nodes: Vec<FlowNode>,
    pub(crate) frames: Vec<FlowFrame>,
    /// For each argument, who reads it.
    pub(crate) args: Vec<Readers>,
}

/// The nodes that read a value, with the index of their input.
pub(crate) type Readers = SmallVec<[(u32, u32); 2]>;

/// A node and those that it has to tell.
pub(crate) struct FlowNode {
    pub(crate) kind: Kind,
    /// Its number among the nodes of the frame in which it runs: for an Exit, the one that it leads out of.
    pub(crate) number: usize,
    /// Where its inputs begin among those of the frame.
    pub(crate) first_input: usize,
    /// Inputs that are no constants.
    pub(crate) num_data: u32,
    pub(crate) num_controls: u32,
    /// Whether it is a Merge one of whose inputs is a constant, which need not wait for the others.
    pub(crate) has_first_input: bool,
    /// For each output, who reads it.
    pub(crate) readers: Vec<Readers>,
    /// Who runs after it without reading it.
    pub(crate) followers: SmallVec<[u32; 2]>,
    /// Outputs that the plan yields, with the number of the result.
    pub(crate) results: SmallVec<[(u32, u32); 1]>,
}

/// How a node treats frames and dead inputs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    Plain,
    /// Runs with its first live input. So many of its inputs are back edges.
    Merge {
        back_edges: u32,
    },
    Enter {
        child: usize,
        is_constant: bool,
    },
    Exit,
    NextIteration,
    /// Runs even if its inputs are dead.
    Trigger,
    /// Runs even if its inputs are dead, and gets to know it.
    Transfer,
}

/// A frame, before it runs.
#[derive(Default)]
pub(crate) struct FlowFrame {
    /// The body's numbers of its nodes.
    pub(crate) nodes: Vec<u32>,
    pub(crate) num_inputs: usize,
    pub(crate) num_enters: usize,
    /// So many iterations may be under way at once.
    pub(crate) parallel_iterations: usize,
}

impl Dataflow {
    pub(crate) fn new(
        nodes: &[Arc<Node>],
        body: &Body,
        numbers: &HashMap<NodeId, u32>,
        frames: &Frames,
        may_wait: bool,
    ) -> Dataflow {
        let mut ids: Vec<NodeId> = numbers.keys().copied().collect();
        ids.sort_unstable_by_key(|id| numbers[id]);
        let mut flow = Dataflow {
            may_wait,
            nodes: Vec::with_capacity(ids.len()),
            frames: frames.frames.iter().map(|_| FlowFrame::default()).collect(),
            args: vec![Readers::new(); body.num_args],
        };
        for (frame, made) in frames.frames.iter().zip(&mut flow.frames) {
            made.num_enters = frame.enters.len();
            let limit = frame
                .enters
                .first()
                .map(|id| nodes[id.index()].attrs.int("parallel_iterations").unwrap_or(10).max(1));
            made.parallel_iterations = limit.unwrap_or(1) as usize;
        }
        for (number, id) in ids.iter().enumerate() {
            flow.add(&nodes[id.index()], number, nodes, body, frames);
        }
        for (number, id) in ids.iter().enumerate() {
            flow.connect(&nodes[id.index()], number as u32, body, numbers);
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

    fn add(
        &mut self,
        node: &Node,
        number: usize,
        nodes: &[Arc<Node>],
        body: &Body,
        frames: &Frames,
    ) {
        let frame = match () {
            () if is_enter(node) => frames.frames[frames.of(node.id)].parent,
            () if is_exit(node) => frames.of(node.inputs[0].source.node),
            () => frames.of(node.id),
        };
        let back_edges =
            node.inputs.iter().filter(|e| is_back_edge(nodes, e.source.node, node)).count() as u32;
        let kind = match body.nodes[number].action {
            Action::Merge => Kind::Merge { back_edges },
            Action::Trigger => Kind::Trigger,
            Action::Transfer(_) => Kind::Transfer,
            Action::Forward if is_enter(node) => Kind::Enter {
                child: frames.of(node.id),
                is_constant: node.attrs.bool("is_constant").unwrap_or(false),
            },
            Action::Forward if is_exit(node) => Kind::Exit,
            Action::Forward if node.is_next_iteration() => Kind::NextIteration,
            _ => Kind::Plain,
        };
        let planned = &body.nodes[number];
        let is_constant = |slot: u32| (slot as usize) < body.constants.len();
        let made = &mut self.frames[frame];
        self.nodes.push(FlowNode {
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
    fn connect(&mut self, node: &Node, number: u32, body: &Body, numbers: &HashMap<NodeId, u32>) {
        let planned = &body.nodes[number as usize];
        for (index, (input, edge)) in planned.inputs.iter().zip(&node.inputs).enumerate() {
            let slot = input.slot as usize;
            let reader = (number, index as u32);
            if body.args().contains(&slot) {
                self.args[slot - body.args().start].push(reader);
            } else if slot >= body.args().end
                && let Some(&writer) = numbers.get(&edge.source.node)
            {
                self.nodes[writer as usize].readers[edge.source.port()].push(reader);
            }
        }
        for &control in &planned.controls {
            self.nodes[control as usize].followers.push(number);
        }
    }

    /// The nodes that wait for nothing.
    pub(crate) fn sources(&self) -> impl Iterator<Item = u32> {
        let waits_for_nothing = |number: &u32| {
            let node = &self.nodes[*number as usize];
            (node.num_data == 0 || node.has_first_input) && node.num_controls == 0
        };
        self.frames[ROOT].nodes.iter().copied().filter(waits_for_nothing)
    }
}

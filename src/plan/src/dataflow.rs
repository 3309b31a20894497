//! The gear with frames: what a plan's nodes send to each other, in which frame.
//!
//! It runs what the other gears cannot: loops of an unusual shape, whose values are told apart by frame and iteration, and
//! nodes that wait for other nodes of the step. This file holds data. `lower/dataflow.rs` makes it, the runtime's `run/flow.rs` runs it.

use smallvec::SmallVec;

use crate::loops::ROOT;

/// What the gear knows of a plan.
pub struct Dataflow {
    /// Whether some node may wait for another one of the step.
    pub may_wait: bool,
    /// As the body's nodes.
    pub nodes: Vec<FlowNode>,
    pub frames: Vec<FlowFrame>,
    /// For each argument, who reads it.
    pub args: Vec<Readers>,
}

/// The nodes that read a value, with the index of their input.
pub type Readers = SmallVec<[(u32, u32); 2]>;

/// A node and those that it has to tell.
pub struct FlowNode {
    pub kind: Kind,
    /// Its number among the nodes of the frame in which it runs: for an Exit, the one that it leads out of.
    pub number: usize,
    /// Where its inputs begin among those of the frame.
    pub first_input: usize,
    /// Inputs that are no constants.
    pub num_data: u32,
    pub num_controls: u32,
    /// Whether it is a Merge one of whose inputs is a constant, which need not wait for the others.
    pub has_first_input: bool,
    /// For each output, who reads it.
    pub readers: Vec<Readers>,
    /// Who runs after it without reading it.
    pub followers: SmallVec<[u32; 2]>,
    /// Outputs that the plan yields, with the number of the result.
    pub results: SmallVec<[(u32, u32); 1]>,
}

/// How a node treats frames and dead inputs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
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
pub struct FlowFrame {
    /// The body's numbers of its nodes.
    pub nodes: Vec<u32>,
    pub num_inputs: usize,
    pub num_enters: usize,
    /// So many iterations may be under way at once.
    pub parallel_iterations: usize,
}

impl Dataflow {
    /// The nodes that wait for nothing.
    pub fn sources(&self) -> impl Iterator<Item = u32> {
        let waits_for_nothing = |number: &u32| {
            let node = &self.nodes[*number as usize];
            (node.num_data == 0 || node.has_first_input) && node.num_controls == 0
        };
        self.frames[ROOT].nodes.iter().copied().filter(waits_for_nothing)
    }
}

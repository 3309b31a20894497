//! Which loop each node of a graph belongs to, and loops taken apart. `passes/frames.rs` finds the frames, `passes/lift.rs`
//! takes loops apart.

use hashbrown::HashMap;
use tfcore_graph::{NodeId, OutputRef};

/// The frame around all loops.
pub const ROOT: usize = 0;

/// A loop of Enter, Merge, Switch, NextIteration and Exit.
#[derive(Debug, PartialEq)]
pub struct Frame {
    pub name: String,
    /// The frame around it; the root is its own parent.
    pub parent: usize,
    /// The Enter nodes that lead into it.
    pub enters: Vec<NodeId>,
}

/// The frames of a graph. Parents come before their children.
#[derive(Debug)]
pub struct Frames {
    pub frames: Vec<Frame>,
    /// The frame of each node's outputs, if it is not the root.
    of: HashMap<NodeId, usize>,
}

impl Frames {
    /// The root alone.
    pub fn root() -> Frames {
        let root = Frame { name: String::new(), parent: ROOT, enters: Vec::new() };
        Frames { frames: vec![root], of: HashMap::new() }
    }

    pub fn set(&mut self, id: NodeId, frame: usize) {
        if frame != ROOT {
            self.of.insert(id, frame);
        }
    }

    /// True if there is no loop.
    pub fn is_flat(&self) -> bool {
        self.frames.len() == 1
    }

    /// How deep loops are nested.
    pub fn depth(&self) -> usize {
        let mut depths = vec![0usize; self.frames.len()];
        for frame in 1..depths.len() {
            depths[frame] = depths[self.frames[frame].parent] + 1;
        }
        depths.into_iter().max().unwrap_or(0)
    }

    /// The frame of a node's outputs.
    pub fn of(&self, id: NodeId) -> usize {
        self.of.get(&id).copied().unwrap_or(ROOT)
    }
}

/// A node, or a loop that becomes one node.
#[derive(Clone)]
pub enum Item {
    Node(NodeId),
    Loop(LiftedLoop),
}

/// A loop taken apart.
#[derive(Clone)]
pub struct LiftedLoop {
    pub frame: usize,
    pub vars: Vec<LoopVar>,
    /// The constant Enter nodes.
    pub invariants: Vec<NodeId>,
    /// The part that every iteration begins with, the condition included.
    pub cond: Vec<Item>,
    /// The input of LoopCond, and the LoopCond itself.
    pub predicate: OutputRef,
    pub loop_cond: NodeId,
    /// The part of an iteration that runs if the condition holds.
    pub body: Vec<Item>,
}

/// A value that changes from iteration to iteration.
#[derive(Clone)]
pub struct LoopVar {
    pub enter: NodeId,
    pub merge: NodeId,
    /// The Switch, if the variable is read after the condition.
    pub switch: Option<NodeId>,
    pub exit: Option<NodeId>,
    /// The input of NextIteration.
    pub next: OutputRef,
}

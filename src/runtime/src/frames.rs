//! Frames: which loop each node belongs to.
//!
//! An Enter node hands a value into a frame, an Exit node out of it; all that a node reads must be in one frame. Two
//! Enter nodes of the same parent frame that name the same frame enter the same.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tfcore_base::{Result, invalid};
use tfcore_graph::{Node, NodeId, OutputRef};

use crate::prune::{is_back_edge, sources};

/// The frame around all loops.
pub(crate) const ROOT: usize = 0;

/// A loop, as far as the graph tells.
#[derive(Debug, PartialEq)]
pub(crate) struct Frame {
    pub(crate) name: String,
    /// The frame around it; the root is its own parent.
    pub(crate) parent: usize,
    /// The Enter nodes that lead into it.
    pub(crate) enters: Vec<NodeId>,
}

/// The frames of a request's nodes. Parents come before their children.
pub(crate) struct Frames {
    pub(crate) frames: Vec<Frame>,
    /// Where the outputs of each needed node are.
    of: HashMap<NodeId, usize>,
}

impl Frames {
    /// Assigns frames to `order`, the needed nodes in an order in which they can run.
    ///
    /// # Errors
    /// `InvalidArgument` for a node whose inputs are in different frames, and for an Exit outside any.
    pub(crate) fn new(
        nodes: &[Arc<Node>],
        order: &[NodeId],
        fed: &HashSet<OutputRef>,
    ) -> Result<Frames> {
        let root = Frame { name: String::new(), parent: ROOT, enters: Vec::new() };
        let mut frames = Frames { frames: vec![root], of: HashMap::with_capacity(order.len()) };
        let mut by_name: HashMap<(usize, String), usize> = HashMap::new();
        for &id in order {
            let node = &*nodes[id.index()];
            let frame = frames.of_inputs(nodes, fed, node)?;
            let frame = match () {
                () if is_enter(node) => {
                    let name = node.attrs.str("frame_name")?.to_string();
                    let child = *by_name.entry((frame, name.clone())).or_insert_with(|| {
                        frames.frames.push(Frame { name, parent: frame, enters: Vec::new() });
                        frames.frames.len() - 1
                    });
                    frames.frames[child].enters.push(id);
                    child
                }
                () if is_exit(node) && frame == ROOT => {
                    let error = invalid!("Invalid Exit op: Cannot find a corresponding Enter op.");
                    return Err(error.at_node(&node.name));
                }
                () if is_exit(node) => frames.frames[frame].parent,
                () => frame,
            };
            frames.of.insert(id, frame);
        }
        Ok(frames)
    }

    /// Whether there is no loop.
    pub(crate) fn is_flat(&self) -> bool {
        self.frames.len() == 1
    }

    /// How deep loops are nested.
    pub(crate) fn depth(&self) -> usize {
        let mut depths = vec![0usize; self.frames.len()];
        for frame in 1..depths.len() {
            depths[frame] = depths[self.frames[frame].parent] + 1;
        }
        depths.into_iter().max().unwrap_or(0)
    }

    /// The frame of a node's outputs.
    pub(crate) fn of(&self, id: NodeId) -> usize {
        self.of.get(&id).copied().unwrap_or(ROOT)
    }

    /// The frame that all inputs of `node` are in.
    fn of_inputs(
        &self,
        nodes: &[Arc<Node>],
        fed: &HashSet<OutputRef>,
        node: &Node,
    ) -> Result<usize> {
        let mut first: Option<(NodeId, usize)> = None;
        let fed_inputs = node.inputs.iter().filter(|edge| fed.contains(&edge.source));
        let fed_inputs = fed_inputs.map(|edge| (edge.source.node, ROOT));
        let needed = sources(nodes, fed, node)
            .filter(|&source| !is_back_edge(nodes, source, node))
            .map(|source| (source, self.of(source)));
        for (source, frame) in needed.chain(fed_inputs) {
            match first {
                None => first = Some((source, frame)),
                Some((_, known)) if known == frame => {}
                Some((other, known)) => {
                    return Err(invalid!(
                        "{{{{node {}}}}} has inputs from different frames. The input {{{{node {}}}}} is in frame \
                         '{}'. The input {{{{node {}}}}} is in frame '{}'.",
                        node.name,
                        nodes[source.index()].name,
                        self.frames[frame].name,
                        nodes[other.index()].name,
                        self.frames[known].name
                    ));
                }
            }
        }
        Ok(first.map_or(ROOT, |(_, frame)| frame))
    }
}

pub(crate) fn is_enter(node: &Node) -> bool {
    matches!(&*node.op.name, "Enter" | "RefEnter")
}

pub(crate) fn is_exit(node: &Node) -> bool {
    matches!(&*node.op.name, "Exit" | "RefExit")
}

pub(crate) fn is_switch(node: &Node) -> bool {
    matches!(&*node.op.name, "Switch" | "RefSwitch")
}

pub(crate) fn is_loop_cond(node: &Node) -> bool {
    &*node.op.name == "LoopCond"
}

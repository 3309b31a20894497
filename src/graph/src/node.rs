//! `Node`: an op applied to inputs.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use smallvec::SmallVec;
use tfcore_base::DType;
use tfcore_framework::{Attrs, OpDef, Role, ShapeFn};
use tfcore_proto as proto;

use crate::Name;

/// The number of a node in its graph. Numbers grow, and those of nodes that C has seen
/// are never used again.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct NodeId(pub u32);

/// The node before all others.
pub const SOURCE: NodeId = NodeId(0);
/// The node behind all others.
pub const SINK: NodeId = NodeId(1);

impl NodeId {
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// An output of a node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct OutputRef {
    pub node: NodeId,
    pub index: u32,
}

impl OutputRef {
    pub fn new(node: NodeId, index: usize) -> OutputRef {
        OutputRef { node, index: u32::try_from(index).expect("a node has fewer than 2^32 outputs") }
    }

    /// Stands for the node itself, in control edges.
    pub fn control(node: NodeId) -> OutputRef {
        OutputRef { node, index: u32::MAX }
    }

    pub fn is_control(self) -> bool {
        self.index == u32::MAX
    }

    pub fn port(self) -> usize {
        self.index as usize
    }
}

/// A data input of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Edge {
    pub source: OutputRef,
    /// Whether the node's definition wrote output 0 as `name:0`, which it keeps doing.
    pub explicit_zero: bool,
}

impl From<OutputRef> for Edge {
    fn from(source: OutputRef) -> Edge {
        Edge { source, explicit_zero: false }
    }
}

/// A node of a graph. It does not change except through the graph's mutators, which leave a
/// session that shares it with the old one.
#[derive(Clone, Debug)]
pub struct Node {
    pub id: NodeId,
    pub name: Name,
    /// The op and the attrs, which read as the node's own: `node.op`, `node.attrs`.
    pub kind: Arc<NodeKind>,
    /// The requested device; empty for none.
    pub device: Name,
    pub inputs: SmallVec<[Edge; 2]>,
    pub control_inputs: SmallVec<[NodeId; 4]>,
    /// Few nodes have any.
    pub annotations: Option<Box<Annotations>>,
}

/// What a node's definition says about it that neither shapes nor runs look at.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Annotations {
    pub full_type: Option<proto::FullTypeDef>,
    /// The names of the nodes that a rewritten node stands for.
    pub debug_info: Option<Box<proto::node_def::ExperimentalDebugInfo>>,
}

/// What all nodes with the same op and the same attrs have in common, and mostly share.
#[derive(Clone)]
pub struct NodeKind {
    pub op: Arc<OpDef>,
    pub attrs: Attrs,
    pub input_dtypes: SmallVec<[DType; 8]>,
    pub output_dtypes: SmallVec<[DType; 8]>,
    pub(crate) shape_fn: Option<ShapeFn>,
}

impl Deref for Node {
    type Target = NodeKind;

    fn deref(&self) -> &NodeKind {
        &self.kind
    }
}

impl DerefMut for Node {
    /// The kind as this node's alone.
    fn deref_mut(&mut self) -> &mut NodeKind {
        Arc::make_mut(&mut self.kind)
    }
}

impl fmt::Debug for NodeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.op.name, self.attrs)
    }
}

impl Node {
    pub fn num_outputs(&self) -> usize {
        self.output_dtypes.len()
    }

    /// The part that the node's op plays in the graph.
    pub fn role(&self) -> Role {
        self.op.role
    }

    pub fn is_switch(&self) -> bool {
        self.op.role == Role::Switch
    }

    pub fn is_merge(&self) -> bool {
        self.op.role.is_merge()
    }

    pub fn is_enter(&self) -> bool {
        self.op.role == Role::Enter
    }

    pub fn is_exit(&self) -> bool {
        self.op.role == Role::Exit
    }

    /// True if values travel back along this node's output to a Merge.
    pub fn is_next_iteration(&self) -> bool {
        self.op.role == Role::NextIteration
    }

    pub fn is_loop_cond(&self) -> bool {
        self.op.role == Role::LoopCond
    }

    pub fn is_const(&self) -> bool {
        self.op.role == Role::Const
    }

    /// The node as messages show it: `{{node x}} = AddV2[T=DT_FLOAT](a, b)`; `input_name` names the input
    /// nodes.
    pub fn describe<'n>(&self, input_name: &dyn Fn(NodeId) -> &'n str) -> String {
        let mut attrs: Vec<String> = self
            .attrs
            .iter()
            .filter(|(name, _)| !name.starts_with("_output_shapes"))
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        if !self.device.is_empty() {
            attrs.push(format!("_device=\"{}\"", self.device));
        }
        let mut inputs: Vec<String> = Vec::new();
        for edge in &self.inputs {
            let name = input_name(edge.source.node);
            inputs.push(match edge.source.index {
                0 if !edge.explicit_zero => name.to_string(),
                index => format!("{name}:{index}"),
            });
        }
        inputs.extend(self.control_inputs.iter().map(|&id| format!("^{}", input_name(id))));
        format!(
            "{{{{node {}}}}} = {}[{}]({})",
            self.name,
            self.op.name,
            attrs.join(", "),
            inputs.join(", ")
        )
    }
}

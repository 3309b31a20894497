//! Adding a node whose op, attrs and inputs have been checked.

use std::sync::Arc;

use smallvec::SmallVec;
use tfcore_base::{Result, resource_exhausted};

use crate::call_shapes::infer;
use crate::node::{Edge, Node, NodeId, NodeKind};
use crate::{Graph, Name};

/// The most outputs that the nodes of a graph can have together; a few short nodes could ask for more than any
/// memory holds.
const MAX_OUTPUTS: usize = 1 << 24;

/// A node that is about to be added; all that it refers to is in the graph.
pub(crate) struct NewNode {
    pub(crate) name: Name,
    pub(crate) kind: Arc<NodeKind>,
    pub(crate) device: Name,
    pub(crate) inputs: SmallVec<[Edge; 2]>,
    pub(crate) control_inputs: SmallVec<[NodeId; 4]>,
}

impl Graph {
    /// Adds a node whose inputs have been checked, and infers the shapes of its outputs.
    ///
    /// # Errors
    /// What the shape function reports, and `ResourceExhausted` if the graph would have too many outputs; then the graph is
    /// as before.
    pub(crate) fn add(&mut self, new: NewNode) -> Result<NodeId> {
        if self.num_outputs() + new.kind.output_dtypes.len() > MAX_OUTPUTS {
            return Err(resource_exhausted!(
                "Node '{}': a graph has at most {MAX_OUTPUTS} outputs",
                new.name
            ));
        }
        let id = NodeId(u32::try_from(self.num_ids()).expect("a graph has fewer than 2^32 nodes"));
        let NewNode { name, kind, device, inputs, control_inputs } = new;
        let annotations = None;
        let node = Node { id, name, kind, device, inputs, control_inputs, annotations };
        let outputs = infer(self, &node)?;
        self.append_named(node, outputs);
        Ok(id)
    }
}

//! The values of a node's inputs as far as they are known before the run, for its shape function.

use tfcore_base::{Result, invalid};
use tfcore_framework::Operands;
use tfcore_tensor::{PartialShape, Tensor};

use crate::Graph;
use crate::fold::constant_value;
use crate::node::Node;
use crate::partial_value::partial_value;

/// The operands of one node, for its shape function.
pub(crate) struct NodeOperands<'g> {
    pub(crate) graph: &'g Graph,
    pub(crate) node: &'g Node,
}

impl Operands for NodeOperands<'_> {
    fn tensor(&self, index: usize) -> Option<Tensor> {
        constant_value(self.graph, self.node.inputs.get(index)?.source)
    }

    fn partial_shape(&self, index: usize) -> Result<Option<PartialShape>> {
        let Some(edge) = self.node.inputs.get(index) else { return Ok(None) };
        if self.graph.shape(edge.source)?.rank() == Some(0) {
            return Err(invalid!(
                "Received a shape scalar with unknown static value.  A static value of '-1' is required to \
                 represent an unknown shape."
            ));
        }
        partial_value(self.graph, edge.source)
    }
}

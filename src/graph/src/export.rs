//! Graphs as GraphDefs.

use tfcore_proto as proto;

use crate::Graph;
use crate::node::{Node, NodeId};

impl Graph {
    /// The graph with its functions and versions.
    pub fn to_proto(&self) -> proto::GraphDef {
        let versions = self.versions();
        proto::GraphDef {
            node: self.nodes().iter().map(|node| to_proto(self, node, false)).collect(),
            library: Some(self.library().to_proto()),
            versions: Some(proto::VersionDef {
                producer: versions.producer,
                min_consumer: versions.min_consumer,
                bad_consumers: versions.bad_consumers.clone(),
            }),
            ..Default::default()
        }
    }
}

/// One node, with inputs written as it was defined.
pub fn node_to_proto(graph: &Graph, id: NodeId) -> proto::NodeDef {
    to_proto(graph, graph.node(id), true)
}

fn to_proto(graph: &Graph, node: &Node, as_defined: bool) -> proto::NodeDef {
    let mut input = Vec::with_capacity(node.inputs.len() + node.control_inputs.len());
    for edge in &node.inputs {
        let name = &graph.node(edge.source.node).name;
        input.push(match edge.source.index {
            0 if !(as_defined && edge.explicit_zero) => name.to_string(),
            index => format!("{name}:{index}"),
        });
    }
    for &control in &node.control_inputs {
        input.push(format!("^{}", graph.node(control).name));
    }
    proto::NodeDef {
        name: node.name.to_string(),
        op: node.op.name.to_string(),
        input,
        device: node.device.to_string(),
        attr: node.attrs.to_proto(),
        ..Default::default()
    }
}

//! Graphs as GraphDefs.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use hashbrown::DefaultHashBuilder;
use tfcore_proto::wire::Writer;
use tfcore_proto::{self as proto, Message};

use crate::Graph;
use crate::node::{Node, NodeId, NodeKind};

/// About how many bytes a node takes.
const NODE_BYTES: usize = 128;

impl Graph {
    /// The graph with its functions and versions.
    pub fn to_proto(&self) -> proto::GraphDef {
        proto::GraphDef {
            node: self.nodes().iter().map(|node| to_proto(self, node, false)).collect(),
            library: Some(self.library().to_proto()),
            versions: Some(self.versions_to_proto()),
            ..Default::default()
        }
    }

    /// The bytes of [`Graph::to_proto`], without the message in between.
    pub fn encode(&self) -> Writer {
        let mut writer = Writer::with_capacity(self.nodes().len() * NODE_BYTES);
        writer.bytes_field(4, &self.versions_to_proto().encode_to_vec());
        writer.bytes_field(2, &self.library().to_proto().encode_to_vec());
        let mut attrs = WrittenAttrs::default();
        for node in self.nodes().iter().rev() {
            writer.field(1, |message| write_node(message, self, node, &mut attrs));
        }
        writer
    }

    /// The versions that the graph names.
    pub fn versions_to_proto(&self) -> proto::VersionDef {
        let versions = self.versions();
        proto::VersionDef {
            producer: versions.producer,
            min_consumer: versions.min_consumer,
            bad_consumers: versions.bad_consumers.clone(),
        }
    }
}

/// Where the attrs of a kind of nodes have been written, by the kind's address.
type WrittenAttrs = HashMap<*const NodeKind, Range<usize>, DefaultHashBuilder>;

fn write_node(writer: &mut Writer, graph: &Graph, node: &Node, written: &mut WrittenAttrs) {
    if let Some(annotations) = &node.annotations {
        if let Some(full_type) = &annotations.full_type {
            writer.bytes_field(7, &full_type.encode_to_vec());
        }
        if let Some(debug_info) = &annotations.debug_info {
            writer.bytes_field(6, &debug_info.encode_to_vec());
        }
    }
    let is_shared = Arc::strong_count(&node.kind) > 1;
    match written.get(&Arc::as_ptr(&node.kind)) {
        Some(range) => writer.repeat(range.clone()),
        None => {
            let before = writer.len();
            node.attrs.write(writer, 5);
            if is_shared {
                written.insert(Arc::as_ptr(&node.kind), before..writer.len());
            }
        }
    }
    if !node.device.is_empty() {
        writer.bytes_field(4, node.device.as_bytes());
    }
    for &control in node.control_inputs.iter().rev() {
        writer.field(3, |text| {
            text.raw(graph.node(control).name.as_bytes());
            text.raw(b"^");
        });
    }
    for edge in node.inputs.iter().rev() {
        writer.field(3, |text| {
            if edge.source.index != 0 {
                text.decimal(edge.source.index);
                text.raw(b":");
            }
            text.raw(graph.node(edge.source.node).name.as_bytes());
        });
    }
    writer.bytes_field(2, node.op.name.as_bytes());
    writer.bytes_field(1, node.name.as_bytes());
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
    let annotations = node.annotations.as_deref().cloned().unwrap_or_default();
    proto::NodeDef {
        name: node.name.to_string(),
        op: node.op.name.to_string(),
        input,
        device: node.device.to_string(),
        attr: node.attrs.to_proto(),
        experimental_debug_info: annotations.debug_info,
        experimental_type: annotations.full_type.map(Box::new),
    }
}

//! Copies nodes, from one graph into another or within one, with some of their inputs replaced.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tfcore_base::{Result, invalid};
use tfcore_framework::AttrValue;

use crate::node::{Node, NodeId, OutputRef, SOURCE};
use crate::validate::is_valid_node_name;
use crate::{Graph, NodeBuilder};

/// Where copied nodes get their inputs and names from.
pub(crate) struct Copy<'a> {
    /// Outputs, and what is read in their place. Their nodes are not copied.
    pub(crate) replaced: &'a [(OutputRef, OutputRef)],
    /// Put before every name, with a slash between.
    pub(crate) prefix: &'a str,
    /// The node that runs before every node that reads nothing that was copied.
    pub(crate) control: NodeId,
    /// Whether loops get frames of their own: where the original is in the same graph.
    pub(crate) renames_frames: bool,
}

/// Where nodes have gone.
pub(crate) struct Copied {
    /// The node in the target; for replaced ones that of the replacement.
    nodes: HashMap<NodeId, NodeId>,
    /// Those of the outputs that were replaced, and their nodes.
    outputs: HashMap<OutputRef, OutputRef>,
    replaced: HashSet<NodeId>,
}

impl Copied {
    /// What an output has become, if its node was copied or it was replaced.
    pub(crate) fn find(&self, output: OutputRef) -> Option<OutputRef> {
        match self.outputs.get(&output) {
            Some(to) => Some(*to),
            None => {
                let node = *self.nodes.get(&output.node)?;
                Some(OutputRef { node, index: output.index })
            }
        }
    }
}

impl Copy<'_> {
    /// Copies a whole graph with its functions, and returns what `outputs` of it have become.
    ///
    /// # Errors
    /// `InvalidArgument` for a bad prefix, a cycle, or an output that the source does not have, and what adding nodes and
    /// functions reports.
    pub(crate) fn graph(
        &self,
        source: &Graph,
        target: &mut Graph,
        outputs: &[OutputRef],
    ) -> Result<Vec<OutputRef>> {
        if !is_valid_node_name(self.prefix, false) {
            let prefix = self.prefix;
            return Err(invalid!(
                "Imported node name prefix '{prefix}/' would lead to invalid node names"
            ));
        }
        let registry = target.registry().clone();
        for function in source.library().functions() {
            target.library_mut().add(&registry, function.clone())?;
        }
        let copied = self.nodes(in_order(source.nodes())?, target)?;
        let find = |output: &OutputRef| {
            let node = source.node(output.node);
            let (index, count) = (output.index, node.num_outputs());
            copied.find(*output).filter(|_| output.port() < count).ok_or_else(|| {
                invalid!(
                    "Invalid return output {index} of node '{}', which has {count} output(s)",
                    node.name
                )
            })
        };
        outputs.iter().map(find).collect()
    }

    /// Copies nodes, which are in order; what they read is among them or replaced.
    ///
    /// # Errors
    /// What adding nodes reports.
    pub(crate) fn nodes(&self, nodes: Vec<Arc<Node>>, target: &mut Graph) -> Result<Copied> {
        let mut copied = Copied {
            nodes: HashMap::new(),
            outputs: HashMap::new(),
            replaced: self.replaced.iter().map(|(from, _)| from.node).collect(),
        };
        for &(from, to) in self.replaced {
            copied.nodes.insert(from.node, to.node);
            copied.outputs.insert(from, to);
        }
        let mut back_edges = Vec::new();
        for node in nodes {
            if !copied.nodes.contains_key(&node.id) {
                let id = self.node(target, &node, &copied, &mut back_edges)?;
                copied.nodes.insert(node.id, id);
            }
        }
        for (merge, input, source) in back_edges {
            target.set_input(merge, input, known(&copied, source)?.into());
        }
        Ok(copied)
    }

    fn node(
        &self,
        target: &mut Graph,
        node: &Node,
        copied: &Copied,
        back_edges: &mut Vec<(NodeId, usize, OutputRef)>,
    ) -> Result<NodeId> {
        let mut builder =
            NodeBuilder::new(&*node.op.name, format!("{}/{}", self.prefix, node.name));
        let mut inputs = Vec::with_capacity(node.inputs.len());
        let mut waiting = Vec::new();
        let mut reads_copies = false;
        for (index, edge) in node.inputs.iter().enumerate() {
            let mut source = edge.source;
            if node.is_merge() && copied.find(source).is_none() {
                // Until the other end of the loop is there, its first value stands in.
                waiting.push((index, source));
                source = node.inputs[0].source;
            }
            reads_copies |= !copied.outputs.contains_key(&source);
            inputs.push(known(copied, source)?);
        }
        for control in &node.control_inputs {
            if let Some(&id) = copied.nodes.get(control) {
                builder.add_control_input(id);
                reads_copies |= !copied.replaced.contains(control);
            }
        }
        if !reads_copies {
            builder.add_control_input(self.control);
        }
        for arg in &node.op.inputs {
            let rest = inputs.split_off(arg.len(&node.attrs)?.min(inputs.len()));
            let mut own = std::mem::replace(&mut inputs, rest);
            match own.pop() {
                Some(one) if !arg.is_list() => builder.add_input(one),
                last => {
                    own.extend(last);
                    builder.add_input_list(own);
                }
            }
        }
        for (name, value) in node.attrs.iter() {
            let value = match value {
                AttrValue::String(frame) if self.renames_frames && &**name == "frame_name" => {
                    let frame = String::from_utf8_lossy(frame);
                    AttrValue::string(format!("{}/{frame}", self.prefix))
                }
                _ => value.clone(),
            };
            builder.set_attr(&**name, value);
        }
        builder.set_device(&*node.device);
        let id = builder.finish(target)?;
        back_edges.extend(waiting.into_iter().map(|(index, source)| (id, index, source)));
        Ok(id)
    }
}

fn known(copied: &Copied, source: OutputRef) -> Result<OutputRef> {
    copied.find(source).ok_or_else(|| invalid!("Node {} was not copied", source.node.0))
}

/// The nodes, each after those of them that it reads or waits for; as they stand as far as that goes.
///
/// # Errors
/// `InvalidArgument` for a cycle that no Merge begins.
pub(crate) fn in_order(nodes: &[Arc<Node>]) -> Result<Vec<Arc<Node>>> {
    let by_id: HashMap<NodeId, &Arc<Node>> = nodes.iter().map(|node| (node.id, node)).collect();
    let mut open: HashSet<NodeId> = HashSet::new();
    let mut done: HashSet<NodeId> = HashSet::from([SOURCE]);
    let mut order = Vec::with_capacity(nodes.len());
    for start in nodes {
        let mut stack = vec![start];
        while let Some(&node) = stack.last() {
            if done.contains(&node.id) {
                stack.pop();
                continue;
            }
            if !open.insert(node.id) {
                stack.pop();
                done.insert(node.id);
                order.push(node.clone());
                continue;
            }
            let data = node.inputs.iter().map(|edge| edge.source.node);
            for before in data.chain(node.control_inputs.iter().copied()) {
                let Some(before) = by_id.get(&before).filter(|node| !done.contains(&node.id))
                else {
                    continue;
                };
                if node.is_merge() && before.is_next_iteration() {
                    continue;
                }
                if open.contains(&before.id) {
                    return Err(invalid!(
                        "Node '{}' had a back edge, but only Merge nodes can have back edges.",
                        node.name
                    ));
                }
                stack.push(before);
            }
        }
    }
    Ok(order)
}

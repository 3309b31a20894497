//! Copies the nodes of one graph into another, with some of its tensors replaced.

use std::collections::HashMap;

use tfcore_base::{Result, invalid};

use crate::node::{Node, NodeId, OutputRef, SOURCE};
use crate::validate::is_valid_node_name;
use crate::{Graph, NodeBuilder};

/// What goes from where to where.
pub(crate) struct Copy<'a> {
    pub(crate) source: &'a Graph,
    /// Outputs of the source, and what is read in their place. Their nodes are not copied.
    pub(crate) replaced: &'a [(OutputRef, OutputRef)],
    /// Put before every name, with a slash between.
    pub(crate) prefix: &'a str,
    /// The node that runs before every node that reads nothing that was copied.
    pub(crate) control: NodeId,
}

/// Where nodes have gone.
struct Targets {
    /// By node of the source: the node in the target; for replaced ones that of the replacement.
    nodes: HashMap<NodeId, NodeId>,
    outputs: HashMap<OutputRef, OutputRef>,
}

impl Copy<'_> {
    /// Adds the nodes to `target` and returns what `outputs` of the source have become.
    ///
    /// # Errors
    /// `InvalidArgument` for a bad prefix, a cycle, or an output that the source does not have, and what adding nodes and
    /// functions reports.
    pub(crate) fn add_to(
        &self,
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
        for function in self.source.library().functions() {
            target.library_mut().add(&registry, function.clone())?;
        }
        let mut targets = Targets { nodes: HashMap::new(), outputs: HashMap::new() };
        for &(from, to) in self.replaced {
            targets.nodes.insert(from.node, to.node);
            targets.outputs.insert(from, to);
        }
        let mut back_edges = Vec::new();
        for id in in_order(self.source)? {
            if !targets.nodes.contains_key(&id) {
                let copy = self.copy_node(target, id, &targets, &mut back_edges)?;
                targets.nodes.insert(id, copy);
            }
        }
        for (merge, input, source) in back_edges {
            let merge = targets.nodes[&merge];
            target.set_input(merge, input, self.find(&targets, source)?.into());
        }
        outputs.iter().map(|&output| self.find(&targets, output)).collect()
    }

    fn find(&self, targets: &Targets, output: OutputRef) -> Result<OutputRef> {
        if let Some(to) = targets.outputs.get(&output) {
            return Ok(*to);
        }
        let node = self.source.node(output.node);
        let (index, count) = (output.index, node.num_outputs());
        match targets.nodes.get(&output.node) {
            Some(&id) if output.port() < count => Ok(OutputRef { node: id, index }),
            _ => Err(invalid!(
                "Invalid return output {index} of node '{}', which has {count} output(s)",
                node.name
            )),
        }
    }

    fn copy_node(
        &self,
        target: &mut Graph,
        id: NodeId,
        targets: &Targets,
        back_edges: &mut Vec<(NodeId, usize, OutputRef)>,
    ) -> Result<NodeId> {
        let node = self.source.node(id);
        let mut builder =
            NodeBuilder::new(&*node.op.name, format!("{}/{}", self.prefix, node.name));
        let mut inputs = Vec::with_capacity(node.inputs.len());
        let mut reads_copies = false;
        for (index, edge) in node.inputs.iter().enumerate() {
            let mut source = edge.source;
            if is_back_edge(self.source, node, source) {
                // Until the other end is there, the loop's first value stands in.
                back_edges.push((id, index, source));
                source = node.inputs[0].source;
            }
            reads_copies |= !targets.outputs.contains_key(&source);
            inputs.push(self.find(targets, source)?);
        }
        for control in &node.control_inputs {
            builder.add_control_input(targets.nodes[control]);
            reads_copies |= !self.replaced.iter().any(|(from, _)| from.node == *control);
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
            builder.set_attr(&**name, value.clone());
        }
        builder.set_device(&*node.device);
        builder.finish(target)
    }
}

/// Whether `node` closes a loop by reading `source`.
fn is_back_edge(graph: &Graph, node: &Node, source: OutputRef) -> bool {
    node.is_merge() && graph.node(source.node).is_next_iteration()
}

/// The nodes, each after those it reads or waits for; in order of their creation as far as that goes.
///
/// # Errors
/// `InvalidArgument` for a cycle that no Merge begins.
fn in_order(graph: &Graph) -> Result<Vec<NodeId>> {
    #[derive(Clone, Copy, PartialEq)]
    enum State {
        New,
        Open,
        Done,
    }
    let mut states = vec![State::New; graph.num_ids()];
    states[SOURCE.index()] = State::Done;
    let mut order = Vec::with_capacity(graph.num_ids());
    for start in graph.nodes() {
        let mut stack = vec![start.id];
        while let Some(&id) = stack.last() {
            let node = graph.node(id);
            if states[id.index()] != State::New {
                stack.pop();
                if std::mem::replace(&mut states[id.index()], State::Done) == State::Open {
                    order.push(id);
                }
                continue;
            }
            states[id.index()] = State::Open;
            let data = node.inputs.iter().map(|edge| edge.source);
            let data = data.filter(|&source| !is_back_edge(graph, node, source));
            for before in data.map(|source| source.node).chain(node.control_inputs.iter().copied())
            {
                match states[before.index()] {
                    State::New => stack.push(before),
                    State::Open => {
                        return Err(invalid!(
                            "Node '{}' had a back edge, but only Merge nodes can have back edges.",
                            node.name
                        ));
                    }
                    State::Done => {}
                }
            }
        }
    }
    Ok(order)
}

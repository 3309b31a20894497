//! `PlanGraph`: the graph that passes work on, between the client's graph and a plan.
//!
//! It begins as a view of the client's nodes, which are shared and not copied. Passes replace nodes, add some, and note facts:
//! which nodes run, the values of constants, frames and loops. Numbers of nodes are those of the client's graph.

use std::fmt::Write;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use smallvec::SmallVec;
use tfcore_base::{DType, Result, internal};
use tfcore_framework::Role;
use tfcore_graph::{Node, NodeId, OutputRef};
use tfcore_tensor::Tensor;

use crate::loops::{Frames, Item};
use crate::place::Placement;
use crate::shapes::Shapes;

/// What a plan is asked to compute, and from which nodes.
#[derive(Clone, Copy)]
pub struct Source<'g> {
    pub nodes: &'g [Arc<Node>],
    pub placement: &'g Placement,
    pub shapes: &'g Shapes,
    /// Outputs whose values are given.
    pub args: &'g [OutputRef],
    pub results: &'g [OutputRef],
    /// Nodes that run although no result may depend on them.
    pub targets: &'g [NodeId],
}

/// Nodes, edges, and facts about outputs.
pub struct PlanGraph<'g> {
    pub source: Source<'g>,
    /// The arguments.
    pub fed: HashSet<OutputRef>,
    /// Nodes that are not as in the source.
    changed: HashMap<NodeId, Arc<Node>>,
    /// Nodes behind those of the source.
    added: Vec<Arc<Node>>,
    /// Devices of added nodes.
    devices: HashMap<NodeId, u16>,
    /// The nodes that run, each after those it reads, back edges of loops excepted.
    pub order: Vec<NodeId>,
    /// The values of nodes that have been computed. These nodes read nothing.
    values: HashMap<NodeId, SmallVec<[Tensor; 1]>>,
    pub frames: Frames,
    /// The nodes in order, each loop one item; `None` if there are loops that must run in frames.
    pub items: Option<Vec<Item>>,
}

impl<'g> PlanGraph<'g> {
    pub fn new(source: Source<'g>) -> PlanGraph<'g> {
        PlanGraph {
            source,
            fed: source.args.iter().copied().collect(),
            changed: HashMap::new(),
            added: Vec::new(),
            devices: HashMap::new(),
            order: Vec::new(),
            values: HashMap::new(),
            frames: Frames::root(),
            items: None,
        }
    }

    /// One more than the largest number of a node.
    pub fn num_ids(&self) -> usize {
        self.source.nodes.len() + self.added.len()
    }

    #[inline]
    pub fn node(&self, id: NodeId) -> &Arc<Node> {
        if !self.changed.is_empty()
            && let Some(node) = self.changed.get(&id)
        {
            return node;
        }
        match self.source.nodes.get(id.index()) {
            Some(node) => node,
            None => &self.added[id.index() - self.source.nodes.len()],
        }
    }

    /// Reads another output at an input of a node.
    pub fn set_input(&mut self, id: NodeId, input: usize, source: OutputRef) {
        let mut node = Node::clone(self.node(id));
        node.inputs[input] = source.into();
        self.changed.insert(id, Arc::new(node));
    }

    /// Adds a node and returns its number.
    pub fn add(&mut self, node: Node) -> NodeId {
        let id = NodeId(self.num_ids() as u32);
        self.added.push(Arc::new(Node { id, ..node }));
        id
    }

    /// The dtype of an output, a ref type for a variable.
    pub fn dtype(&self, output: OutputRef) -> DType {
        self.node(output.node).output_dtypes[output.port()]
    }

    /// The static shape of an output, -1 for an unknown size; `None` if its rank is unknown.
    pub fn shape(&self, output: OutputRef) -> Option<&[i64]> {
        self.source.shapes.of(output)
    }

    pub fn device(&self, id: NodeId) -> u16 {
        match self.devices.get(&id) {
            Some(&device) => device,
            None => self.source.placement.device_of(id),
        }
    }

    /// Places an added node.
    pub fn set_device(&mut self, id: NodeId, device: u16) {
        self.devices.insert(id, device);
    }

    /// The numbers of the nodes that passes have added.
    pub fn added(&self) -> impl Iterator<Item = NodeId> + use<> {
        (self.source.nodes.len() as u32..self.num_ids() as u32).map(NodeId)
    }

    /// The values of a node whose outputs have been computed.
    pub fn values(&self, id: NodeId) -> Option<&[Tensor]> {
        self.values.get(&id).map(|values| &values[..])
    }

    /// Notes the values of all outputs of a node, which need not run then.
    pub fn set_values(&mut self, id: NodeId, values: SmallVec<[Tensor; 1]>) {
        self.values.insert(id, values);
    }

    /// True if values travel from `source` back to `node`, which begins an iteration of a loop.
    pub fn is_back_edge(&self, source: NodeId, node: &Node) -> bool {
        node.is_merge() && self.node(source).is_next_iteration()
    }

    /// The nodes that `node` reads, or runs after. Back edges are among them.
    pub fn sources<'n>(&'n self, node: &'n Node) -> impl Iterator<Item = NodeId> + 'n {
        let is_known = !self.values.is_empty() && self.values.contains_key(&node.id);
        let data = node.inputs.iter().filter(|edge| !self.fed.contains(&edge.source));
        let sources = data.map(|edge| edge.source.node).chain(self.controls(node));
        sources.take(if is_known { 0 } else { usize::MAX })
    }

    /// The nodes that must have run before `node`. A placeholder that is fed has, with its feed.
    fn controls<'n>(&'n self, node: &'n Node) -> impl Iterator<Item = NodeId> + 'n {
        node.control_inputs.iter().copied().filter(|&id| {
            let role = self.node(id).role();
            let is_placeholder = matches!(role, Role::Placeholder | Role::Arg);
            !(is_placeholder && self.fed.contains(&OutputRef::new(id, 0)))
        })
    }

    /// The dtypes of some outputs.
    pub fn dtypes(&self, outputs: &[OutputRef]) -> Vec<DType> {
        outputs.iter().map(|&output| self.dtype(output).base()).collect()
    }

    /// Checks that each node comes once and after those it reads, and that edges lead to outputs that exist and have the
    /// dtype that the reader expects.
    ///
    /// # Errors
    /// `Internal` with the first node that is wrong: a bug of a pass.
    pub fn check(&self) -> Result<()> {
        let mut seen: HashSet<NodeId> = HashSet::with_capacity(self.order.len());
        for &id in &self.order {
            let node = self.node(id);
            if !seen.insert(id) {
                return Err(internal!("Node '{}' runs twice", node.name));
            }
            for source in self.sources(node).filter(|&source| !self.is_back_edge(source, node)) {
                if !seen.contains(&source) {
                    let name = &self.node(source).name;
                    return Err(internal!("Node '{}' runs before its input '{name}'", node.name));
                }
            }
            for (edge, expected) in node.inputs.iter().zip(&node.input_dtypes) {
                let actual = self.node(edge.source.node).output_dtypes.get(edge.source.port());
                if actual.is_none_or(|actual| actual.base() != expected.base()) {
                    return Err(internal!("Node '{}' reads an output of another type", node.name));
                }
            }
            if self.values(id).is_some_and(|values| values.len() != node.num_outputs()) {
                return Err(internal!("Node '{}' has not all of its values", node.name));
            }
        }
        let is_there =
            |output: &&OutputRef| self.fed.contains(*output) || seen.contains(&output.node);
        match self.source.results.iter().find(|output| !is_there(output)) {
            Some(missing) => {
                Err(internal!("Result '{}' is not computed", self.node(missing.node).name))
            }
            None => Ok(()),
        }
    }

    /// The nodes that run, one on a line: `y = MatMul(x, w:1, ^z) : float[?,10]`.
    pub fn dump(&self) -> String {
        let mut text = String::new();
        for &id in &self.order {
            let node = self.node(id);
            let mut inputs: Vec<String> = Vec::new();
            if self.values(id).is_none() {
                inputs.extend(node.inputs.iter().map(|edge| self.describe(edge.source)));
                let controls = node.control_inputs.iter();
                inputs.extend(controls.map(|&control| format!("^{}", self.node(control).name)));
            }
            let outputs = (0..node.num_outputs()).map(|port| self.fact(OutputRef::new(id, port)));
            let outputs: Vec<String> = outputs.collect();
            let known = if self.values(id).is_some() { " = constant" } else { "" };
            let op = &node.op.name;
            let _ = write!(text, "  {} = {op}({})", node.name, inputs.join(", "));
            let _ = write!(text, " : {}{known}", outputs.join(", "));
            match self.device(id) {
                0 => text.push('\n'),
                device => _ = writeln!(text, " on device {device}"),
            }
        }
        text
    }

    /// `name` or `name:1`.
    fn describe(&self, output: OutputRef) -> String {
        let name = &self.node(output.node).name;
        match output.port() {
            0 => name.to_string(),
            port => format!("{name}:{port}"),
        }
    }

    /// `float[?,10]`; the dtype alone if the rank is unknown.
    fn fact(&self, output: OutputRef) -> String {
        let dtype = self.dtype(output);
        let Some(dims) = self.shape(output) else { return dtype.to_string() };
        let size = |&size: &i64| if size < 0 { "?".to_string() } else { size.to_string() };
        format!("{dtype}[{}]", dims.iter().map(size).collect::<Vec<_>>().join(","))
    }
}

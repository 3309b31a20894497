//! `Graph`: the arena of nodes, and what is known of them.

use std::collections::HashMap;
use std::sync::Arc;

use smallvec::SmallVec;
use tfcore_base::{DType, Result, invalid, out_of_range};
use tfcore_framework::{Attrs, HandleData, OpDef, Registry, shape_ops};
use tfcore_proto as proto;
use tfcore_tensor::PartialShape;

use crate::library::{FunctionLibrary, Mark};
use crate::node::{Edge, Node, NodeId, OutputRef, SINK, SOURCE};
use crate::{Name, refine};

/// The graph version that this library writes and understands.
pub(crate) const GRAPH_VERSION: i32 = 2474;
/// The least consumer version that can read what this library writes.
const MIN_CONSUMER: i32 = 0;
/// The least consumer version that can read graphs with functions.
pub(crate) const FUNCTIONS_CONSUMER: i32 = 12;

/// Who wrote a graph, and who may read it.
#[derive(Debug, Clone, PartialEq)]
pub struct Versions {
    pub producer: i32,
    pub min_consumer: i32,
    pub bad_consumers: Vec<i32>,
}

/// A dataflow graph.
pub struct Graph {
    registry: Arc<Registry>,
    nodes: Vec<Arc<Node>>,
    fanouts: Vec<Fanout>,
    shapes: Vec<Vec<OutputInfo>>,
    name_map: HashMap<Name, NodeId>,
    /// How many names lie in each scope: `a` and `a/b` for a node `a/b/c`.
    scopes: HashMap<Name, u32>,
    devices: HashMap<Name, ()>,
    /// Copied before it changes where a session or a function body shares it.
    library: Arc<FunctionLibrary>,
    versions: Versions,
    require_shape_fns: bool,
}

/// Who reads a node's outputs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fanout {
    /// The output, and the consumer with the index of its input.
    data: SmallVec<[(u32, NodeId, u32); 1]>,
    control: SmallVec<[NodeId; 1]>,
}

/// What is known of an output before the graph runs.
#[derive(Debug, Clone)]
pub(crate) struct OutputInfo {
    pub(crate) shape: PartialShape,
    pub(crate) handle: HandleData,
}

/// A node that is about to be added; all that it refers to is in the graph.
pub(crate) struct NewNode {
    pub(crate) name: Name,
    pub(crate) op: Arc<OpDef>,
    pub(crate) attrs: Attrs,
    pub(crate) device: Name,
    pub(crate) inputs: SmallVec<[Edge; 2]>,
    pub(crate) control_inputs: SmallVec<[NodeId; 1]>,
    pub(crate) input_dtypes: SmallVec<[DType; 8]>,
    pub(crate) output_dtypes: SmallVec<[DType; 8]>,
}

/// The state of a graph to which a failed import returns.
pub(crate) struct Checkpoint {
    nodes: usize,
    versions: Versions,
    library: Mark,
}

impl Graph {
    /// An empty graph: Source and Sink.
    pub fn new(registry: Arc<Registry>) -> Graph {
        let versions = Versions {
            producer: GRAPH_VERSION,
            min_consumer: MIN_CONSUMER,
            bad_consumers: Vec::new(),
        };
        let mut graph = Graph {
            registry,
            nodes: Vec::new(),
            fanouts: Vec::new(),
            shapes: Vec::new(),
            name_map: HashMap::new(),
            scopes: HashMap::new(),
            devices: HashMap::new(),
            library: Arc::default(),
            versions,
            require_shape_fns: true,
        };
        let no_op = graph.registry.def("NoOp").expect("the op table has NoOp");
        for name in ["_SOURCE", "_SINK"] {
            graph.push(NewNode {
                name: Name::new(name),
                op: no_op.clone(),
                attrs: Attrs::new(),
                device: Name::new(""),
                inputs: SmallVec::new(),
                control_inputs: SmallVec::new(),
                input_dtypes: SmallVec::new(),
                output_dtypes: SmallVec::new(),
            });
        }
        graph.name_map.clear();
        graph.scopes.clear();
        graph
    }

    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    pub fn versions(&self) -> &Versions {
        &self.versions
    }

    pub(crate) fn set_versions(&mut self, versions: Versions) {
        self.versions = versions;
    }

    /// Refuses consumers older than `version`.
    pub(crate) fn require_consumer(&mut self, version: i32) {
        self.versions.min_consumer = self.versions.min_consumer.max(version);
    }

    /// The functions that nodes of the graph may call. A clone of the `Arc` is a snapshot.
    pub fn library(&self) -> &Arc<FunctionLibrary> {
        &self.library
    }

    pub fn library_mut(&mut self) -> &mut FunctionLibrary {
        Arc::make_mut(&mut self.library)
    }

    /// Gives the graph the functions of another one.
    pub(crate) fn set_library(&mut self, library: Arc<FunctionLibrary>) {
        self.library = library;
    }

    /// Whether ops without a shape function are refused; so by default.
    pub fn set_require_shape_fns(&mut self, require: bool) {
        self.require_shape_fns = require;
    }

    pub(crate) fn requires_shape_fns(&self) -> bool {
        self.require_shape_fns
    }

    /// The definition of an op, or the signature of a function of the graph.
    pub fn op_def(&self, name: &str) -> Option<proto::OpDef> {
        match self.library.get(name) {
            Some(function) => Some(function.def().signature.clone().unwrap_or_default()),
            None => self.registry.def(name).map(|def| def.to_proto()),
        }
    }

    /// The interface of nodes of type `op`: an op, or a function of the graph.
    pub(crate) fn find_op(&self, op: &str) -> Option<Arc<OpDef>> {
        // No function has the name of an op.
        self.registry.def(op).or_else(|| self.library.get(op).map(|function| function.op().clone()))
    }

    /// The message for an op that nobody knows.
    pub fn unknown_op(name: &str) -> String {
        crate::validate::unknown_op(name)
    }

    /// One more than the largest node number.
    pub fn num_ids(&self) -> usize {
        self.nodes.len()
    }

    /// The node with this number.
    pub fn node(&self, id: NodeId) -> &Arc<Node> {
        &self.nodes[id.index()]
    }

    pub fn contains(&self, id: NodeId) -> bool {
        id.index() < self.nodes.len()
    }

    /// The nodes in order of creation, without Source and Sink.
    pub fn nodes(&self) -> &[Arc<Node>] {
        &self.nodes[SINK.index() + 1..]
    }

    /// The node called `name`.
    pub fn find(&self, name: &str) -> Option<NodeId> {
        self.name_map.get(name).copied()
    }

    /// Whether `name` is a node or a scope around nodes.
    pub fn is_name_or_scope(&self, name: &str) -> bool {
        self.name_map.contains_key(name) || self.scopes.contains_key(name)
    }

    /// A device name, shared between all nodes that request it.
    pub(crate) fn intern_device(&mut self, device: &str) -> Name {
        if let Some((known, ())) = self.devices.get_key_value(device) {
            return known.clone();
        }
        let name = Name::new(device);
        self.devices.insert(name.clone(), ());
        name
    }

    /// The consumers of output `index` of `id`, in order of their creation.
    pub fn consumers(&self, output: OutputRef) -> impl Iterator<Item = (NodeId, usize)> {
        let fanout = &self.fanouts[output.node.index()];
        fanout
            .data
            .iter()
            .filter(move |(index, ..)| *index == output.index)
            .map(|&(_, consumer, input)| (consumer, input as usize))
    }

    /// The nodes that run after `id`, without those that read its outputs.
    pub fn control_outputs(&self, id: NodeId) -> &[NodeId] {
        &self.fanouts[id.index()].control
    }

    /// Appends a node whose inputs have been checked. Its shapes are unknown.
    pub(crate) fn push(&mut self, new: NewNode) -> NodeId {
        let id =
            NodeId(u32::try_from(self.nodes.len()).expect("a graph has fewer than 2^32 nodes"));
        for (input, edge) in new.inputs.iter().enumerate() {
            let fanout = &mut self.fanouts[edge.source.node.index()];
            fanout.data.push((edge.source.index, id, input as u32));
        }
        for control in &new.control_inputs {
            self.fanouts[control.index()].control.push(id);
        }
        self.shapes.push(vec![
            OutputInfo { shape: PartialShape::unknown(), handle: None };
            new.output_dtypes.len()
        ]);
        self.fanouts.push(Fanout::default());
        self.add_name(&new.name, id);
        self.nodes.push(Arc::new(Node {
            id,
            name: new.name,
            op: new.op,
            attrs: new.attrs,
            device: new.device,
            inputs: new.inputs,
            control_inputs: new.control_inputs,
            input_dtypes: new.input_dtypes,
            output_dtypes: new.output_dtypes,
        }));
        id
    }

    /// Adds a node and infers the shapes of its outputs.
    ///
    /// # Errors
    /// What the shape function reports; then the graph is as before.
    pub(crate) fn add(&mut self, new: NewNode) -> Result<NodeId> {
        let id = self.push(new);
        match refine::infer(self, id) {
            Ok(outputs) => {
                self.shapes[id.index()] = outputs;
                Ok(id)
            }
            Err(error) => {
                self.truncate(id.index());
                Err(error)
            }
        }
    }

    fn add_name(&mut self, name: &Name, id: NodeId) {
        self.name_map.insert(name.clone(), id);
        for (end, _) in name.match_indices('/') {
            match self.scopes.get_mut(&name[..end]) {
                Some(count) => *count += 1,
                None => {
                    self.scopes.insert(Name::new(&name[..end]), 1);
                }
            }
        }
    }

    fn remove_name(&mut self, name: &Name) {
        self.name_map.remove(name.as_str());
        for (end, _) in name.match_indices('/') {
            if let Some(count) = self.scopes.get_mut(&name[..end]) {
                *count -= 1;
                if *count == 0 {
                    self.scopes.remove(&name[..end]);
                }
            }
        }
    }

    /// Removes all nodes from number `len` on, which no node before them reads.
    fn truncate(&mut self, len: usize) {
        let removed = self.nodes.split_off(len);
        self.fanouts.truncate(len);
        self.shapes.truncate(len);
        let mut read: Vec<usize> = Vec::new();
        for node in &removed {
            self.remove_name(&node.name);
            read.extend(node.inputs.iter().map(|edge| edge.source.node.index()));
            read.extend(node.control_inputs.iter().map(|control| control.index()));
        }
        // Each list of consumers is gone through once, however many of them go.
        read.sort_unstable();
        read.dedup();
        for index in read.into_iter().take_while(|&index| index < len) {
            let fanout = &mut self.fanouts[index];
            fanout.data.retain(|(_, consumer, _)| consumer.index() < len);
            fanout.control.retain(|consumer| consumer.index() < len);
        }
    }

    pub(crate) fn checkpoint(&self) -> Checkpoint {
        Checkpoint {
            nodes: self.nodes.len(),
            versions: self.versions.clone(),
            library: self.library.mark(),
        }
    }

    /// Undoes all additions since the checkpoint.
    pub(crate) fn restore(&mut self, checkpoint: Checkpoint) {
        self.truncate(checkpoint.nodes);
        self.versions = checkpoint.versions;
        if self.library.version() != checkpoint.library.version() {
            self.library_mut().rewind(&checkpoint.library);
        }
    }

    /// Adds the edge from a NextIteration to a Merge, which closes a loop.
    pub(crate) fn set_back_edge(&mut self, merge: NodeId, input: usize, source: OutputRef) {
        let node = Arc::make_mut(&mut self.nodes[merge.index()]);
        let old = std::mem::replace(&mut node.inputs[input], source.into()).source;
        if old.node != SOURCE {
            let fanout = &mut self.fanouts[old.node.index()];
            fanout.data.retain(|entry| *entry != (old.index, merge, input as u32));
        }
        self.fanouts[source.node.index()].data.push((source.index, merge, input as u32));
    }

    /// The dtype of an output.
    ///
    /// # Errors
    /// `OutOfRange` if the node has no such output.
    pub fn output_dtype(&self, output: OutputRef) -> Result<DType> {
        let node = self.node(output.node);
        node.output_dtypes.get(output.port()).copied().ok_or_else(|| {
            out_of_range!(
                "Node '{}' (type: '{}', num of outputs: {}) does not have output {}",
                node.name,
                node.op.name,
                node.num_outputs(),
                output.index
            )
        })
    }

    /// The static shape of an output.
    pub fn shape(&self, output: OutputRef) -> Result<&PartialShape> {
        self.output_info(output).map(|info| &info.shape)
    }

    /// What is known of the values behind a resource handle.
    pub fn handle_data(&self, output: OutputRef) -> Result<&HandleData> {
        self.output_info(output).map(|info| &info.handle)
    }

    pub(crate) fn output_info(&self, output: OutputRef) -> Result<&OutputInfo> {
        self.shapes
            .get(output.node.index())
            .and_then(|outputs| outputs.get(output.port()))
            .ok_or_else(|| invalid!("Node {} has no output {}", output.node.0, output.index))
    }

    /// Merges `shape` into what is known of an output.
    ///
    /// # Errors
    /// `InvalidArgument` if the two contradict each other.
    pub fn merge_shape(&mut self, output: OutputRef, shape: &PartialShape) -> Result<()> {
        let merged = shape_ops::merge(self.shape(output)?, shape)?;
        self.shapes[output.node.index()][output.port()].shape = merged;
        Ok(())
    }
}

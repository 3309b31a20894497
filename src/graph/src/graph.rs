//! `Graph`: the arena of nodes, and what is known of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hashbrown::DefaultHashBuilder;
use smallvec::SmallVec;
use tfcore_base::{DType, Result, invalid, out_of_range};
use tfcore_framework::{Attrs, HandleData, OpDef, Registry, shape_ops};
use tfcore_proto as proto;
use tfcore_tensor::{PartialShape, Tensor};

use crate::Name;
use crate::fanout::Fanouts;
use crate::fold_memo::FoldMemo;
use crate::kinds::Kinds;
use crate::library::{Function, FunctionLibrary, Mark};
use crate::names::Names;
use crate::node::{Edge, Node, NodeId, NodeKind, OutputRef, SINK, SOURCE};

/// The graph version that this library writes and understands.
pub const GRAPH_VERSION: i32 = 2474;
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
    fanouts: Fanouts,
    /// What is known of the outputs of all nodes.
    outputs: Vec<OutputInfo>,
    /// Where the outputs of each node begin.
    first_outputs: Vec<usize>,
    names: Names,
    kinds: Kinds,
    devices: HashMap<Name, (), DefaultHashBuilder>,
    /// Copied before it changes where a session or a function body shares it.
    library: Arc<FunctionLibrary>,
    /// None in a function's body: what it calls is looked at when the body's caller is.
    calls: Option<Calls>,
    /// In a function's body: the arguments of a call as far as their values are known.
    arg_values: Vec<Option<Tensor>>,
    fold_memo: Mutex<FoldMemo>,
    versions: Versions,
    require_shape_fns: bool,
    /// Whether a node was changed after it had been added, so that what building and import check may not hold.
    is_mutated: bool,
    /// What is known of the shapes of inputs whose edges were replaced.
    updated_inputs: HashMap<(NodeId, usize), PartialShape>,
}

/// What is known of an output before the graph runs.
#[derive(Debug, Clone)]
pub(crate) struct OutputInfo {
    pub(crate) shape: PartialShape,
    pub(crate) handle: HandleData,
}

/// A function with the attrs of a call put in.
pub struct FunctionBody {
    /// The body, with the `_Arg` and `_Retval` nodes. It has the library that the function is from.
    pub graph: Graph,
    /// The `_Arg` nodes by index. A list argument has several.
    pub args: Vec<NodeId>,
    /// The `_Retval` nodes by index.
    pub rets: Vec<NodeId>,
    /// Nodes that run whatever is asked for, in order of the body.
    pub control_rets: Vec<NodeId>,
    pub is_stateful: bool,
}

/// The bodies of the functions that the nodes of a graph call.
#[derive(Default)]
pub(crate) struct Calls(pub(crate) Mutex<Bodies>);

#[derive(Default)]
pub(crate) struct Bodies {
    /// By name; `None` while a body is being gone through.
    pub(crate) by_name: HashMap<String, Option<Box<Body>>>,
    /// How many nodes of bodies have been gone through for the graph.
    pub(crate) nodes: usize,
}

pub(crate) struct Body {
    pub(crate) function: Arc<Function>,
    pub(crate) attrs: Attrs,
    pub(crate) body: FunctionBody,
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
            fanouts: Fanouts::default(),
            outputs: Vec::new(),
            first_outputs: Vec::new(),
            names: Names::default(),
            kinds: Kinds::default(),
            devices: HashMap::default(),
            library: Arc::default(),
            calls: Some(Calls::default()),
            arg_values: Vec::new(),
            fold_memo: Mutex::default(),
            versions,
            require_shape_fns: true,
            is_mutated: false,
            updated_inputs: HashMap::new(),
        };
        let no_op = graph.registry.def("NoOp").expect("the op table has NoOp");
        for (id, name) in [(SOURCE, "_SOURCE"), (SINK, "_SINK")] {
            let kind = graph.kind(name, &no_op, Attrs::new()).expect("NoOp has no attrs");
            let device = graph.intern_device("");
            let (inputs, control_inputs) = (SmallVec::new(), SmallVec::new());
            let name = Name::new(name);
            // These two have no names that anybody could find.
            let annotations = None;
            let node = Node { id, name, kind, device, inputs, control_inputs, annotations };
            graph.append(node, SmallVec::new());
        }
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

    /// A graph for the body of a function of `library`.
    pub(crate) fn for_body(registry: Arc<Registry>, library: Arc<FunctionLibrary>) -> Graph {
        Graph { library, calls: None, require_shape_fns: false, ..Graph::new(registry) }
    }

    pub(crate) fn calls(&self) -> Option<&Calls> {
        self.calls.as_ref()
    }

    /// The value of an argument of the call for which shapes are being inferred.
    pub(crate) fn arg_value(&self, index: usize) -> Option<&Tensor> {
        self.arg_values.get(index)?.as_ref()
    }

    /// Begins to infer shapes for another call, or ends it with no values.
    pub(crate) fn set_arg_values(&mut self, values: Vec<Option<Tensor>>) {
        self.arg_values = values;
        let nodes = self.nodes.len();
        let memo = self.fold_memo_mut();
        memo.clear();
        memo.earn(nodes);
    }

    pub(crate) fn fold_memo(&self) -> MutexGuard<'_, FoldMemo> {
        self.fold_memo.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fold_memo_mut(&mut self) -> &mut FoldMemo {
        self.fold_memo.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// To be called when a node is changed so that its values may be others than before.
    pub(crate) fn forget_values(&mut self, id: NodeId) {
        let node = &self.nodes[id.index()];
        // A Merge is never folded, and import closes many a loop with one.
        if node.is_merge() {
            return;
        }
        let is_read = self.fanouts.is_read(id);
        let memo = self.fold_memo_mut();
        if is_read { memo.clear() } else { memo.forget(id) }
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
        self.names.find(&self.nodes, name)
    }

    /// Whether `name` is a node or a scope around nodes.
    pub fn is_name_or_scope(&self, name: &str) -> bool {
        self.find(name).is_some() || self.names.is_scope(&self.nodes, name)
    }

    /// The kind of nodes of `op` with these attrs, to which the op's defaults are added.
    ///
    /// # Errors
    /// `InvalidArgument` for attrs that the op's definition forbids; `node` is the name in the message.
    pub(crate) fn kind(
        &mut self,
        node: &str,
        op: &Arc<OpDef>,
        attrs: Attrs,
    ) -> Result<Arc<NodeKind>> {
        self.kinds.get(&self.registry, node, op, attrs)
    }

    /// A device name, shared between all nodes that request it.
    pub(crate) fn intern_device(&mut self, device: &str) -> Name {
        // Most nodes request what the one before them does.
        if let Some(last) = self.nodes.last().filter(|last| *last.device == *device) {
            return last.device.clone();
        }
        if let Some((known, ())) = self.devices.get_key_value(device) {
            return known.clone();
        }
        let name = Name::new(device);
        self.devices.insert(name.clone(), ());
        name
    }

    /// The consumers of an output with the index of the input, in order of their creation.
    pub fn consumers(&self, output: OutputRef) -> impl Iterator<Item = (NodeId, usize)> {
        self.fanouts.consumers(output)
    }

    /// The nodes that run after `id`, without those that read its outputs.
    pub fn control_outputs(&self, id: NodeId) -> impl Iterator<Item = NodeId> {
        self.fanouts.consumers(OutputRef::control(id)).map(|(consumer, _)| consumer)
    }

    /// Makes room for so many more nodes.
    pub(crate) fn reserve(&mut self, nodes: usize) {
        self.nodes.reserve(nodes);
        self.first_outputs.reserve(nodes);
        self.outputs.reserve(nodes);
        self.names.reserve(nodes);
    }

    /// Appends a node that others can find by its name.
    pub(crate) fn append_named(&mut self, node: Node, outputs: SmallVec<[OutputInfo; 1]>) {
        self.names.insert(&node.name, node.id);
        self.append(node, outputs);
    }

    /// How many outputs the nodes have together.
    pub(crate) fn num_outputs(&self) -> usize {
        self.outputs.len()
    }

    fn append(&mut self, node: Node, outputs: SmallVec<[OutputInfo; 1]>) {
        for (input, edge) in node.inputs.iter().enumerate() {
            // The back edge of a loop is not there yet.
            if edge.source.node != SOURCE {
                self.fanouts.add(edge.source, node.id, input);
            }
        }
        for &control in &node.control_inputs {
            self.fanouts.add(OutputRef::control(control), node.id, 0);
        }
        self.fanouts.push_node();
        self.fold_memo_mut().earn(1);
        self.first_outputs.push(self.outputs.len());
        outputs.into_iter().for_each(|output| self.outputs.push(output));
        self.nodes.push(Arc::new(node));
    }

    /// Removes all nodes from number `len` on, which no node before them reads.
    fn truncate(&mut self, len: usize) {
        let removed = self.nodes.split_off(len);
        self.names.remove(len, &removed);
        removed.iter().for_each(|node| self.fold_memo_mut().forget(node.id));
        if let Some(&first) = self.first_outputs.get(len) {
            self.outputs.truncate(first);
            self.first_outputs.truncate(len);
        }
        let mut read: Vec<NodeId> = Vec::new();
        for node in &removed {
            read.extend(node.inputs.iter().map(|edge| edge.source.node));
            read.extend(&node.control_inputs);
        }
        // Each list of consumers is gone through once, however many of them go.
        read.sort_unstable();
        read.dedup();
        for id in read.into_iter().take_while(|id| id.index() < len) {
            self.fanouts.retain(id, |_, consumer, _| consumer.index() < len);
        }
        self.fanouts.truncate(len);
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

    /// The node, to be changed. Sessions that share it keep it as it is.
    pub(crate) fn node_mut(&mut self, id: NodeId) -> &mut Node {
        Arc::make_mut(&mut self.nodes[id.index()])
    }

    /// Whether nodes were changed after they had been added.
    pub fn is_mutated(&self) -> bool {
        self.is_mutated
    }

    pub(crate) fn set_mutated(&mut self) {
        self.is_mutated = true;
    }

    pub(crate) fn updated_inputs(&self) -> &HashMap<(NodeId, usize), PartialShape> {
        &self.updated_inputs
    }

    pub(crate) fn updated_inputs_mut(&mut self) -> &mut HashMap<(NodeId, usize), PartialShape> {
        &mut self.updated_inputs
    }

    /// Makes `edge` the data input `input` of a node: closes a loop, or replaces an edge.
    pub(crate) fn set_input(&mut self, id: NodeId, input: usize, edge: Edge) {
        self.forget_values(id);
        let old = std::mem::replace(&mut self.node_mut(id).inputs[input], edge).source;
        if old.node != SOURCE {
            self.fanouts.retain(old.node, |output, consumer, at| {
                (output, consumer, at as usize) != (old.index, id, input)
            });
        }
        self.fanouts.add(edge.source, id, input);
    }

    /// Adds a data input behind the last one.
    pub(crate) fn push_input(&mut self, id: NodeId, source: OutputRef) {
        self.forget_values(id);
        let inputs = &mut self.node_mut(id).inputs;
        inputs.push(source.into());
        let input = inputs.len() - 1;
        self.fanouts.add(source, id, input);
    }

    /// Makes `id` run after `before`, which it does not do yet.
    pub(crate) fn push_control_input(&mut self, id: NodeId, before: NodeId) {
        self.node_mut(id).control_inputs.push(before);
        self.fanouts.add(OutputRef::control(before), id, 0);
    }

    pub(crate) fn clear_control_inputs(&mut self, id: NodeId) {
        for before in std::mem::take(&mut self.node_mut(id).control_inputs) {
            let control = OutputRef::control(before).index;
            self.fanouts.retain(before, |output, consumer, _| (output, consumer) != (control, id));
        }
    }

    /// Changes the dtypes of a node's outputs, and with them how many there are. Nothing is known of new ones.
    pub(crate) fn set_output_dtypes(&mut self, id: NodeId, dtypes: SmallVec<[DType; 8]>) {
        let old = self.node(id).num_outputs();
        if dtypes.len() > old {
            // They move behind those of all nodes.
            let first = self.first_outputs[id.index()];
            self.first_outputs[id.index()] = self.outputs.len();
            self.outputs.extend_from_within(first..first + old);
            let unknown = OutputInfo { shape: PartialShape::unknown(), handle: None };
            self.outputs.resize(self.outputs.len() + dtypes.len() - old, unknown);
        }
        self.node_mut(id).output_dtypes = dtypes;
    }

    /// Replaces what is known of the values behind a resource handle.
    pub(crate) fn set_handle(&mut self, output: OutputRef, handle: HandleData) -> Result<()> {
        let slot = self.output_slot(output)?;
        self.outputs[slot].handle = handle;
        Ok(())
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
        self.output_slot(output).map(|slot| &self.outputs[slot])
    }

    /// Where an output stands among those of all nodes.
    fn output_slot(&self, output: OutputRef) -> Result<usize> {
        match self.nodes.get(output.node.index()) {
            Some(node) if output.port() < node.num_outputs() => {
                Ok(self.first_outputs[output.node.index()] + output.port())
            }
            _ => Err(invalid!("Node {} has no output {}", output.node.0, output.index)),
        }
    }

    /// Replaces what is known of the outputs of a node.
    pub(crate) fn set_outputs(&mut self, node: &Node, infos: SmallVec<[OutputInfo; 1]>) {
        let first = self.first_outputs[node.id.index()];
        for (slot, info) in self.outputs[first..].iter_mut().zip(infos).take(node.num_outputs()) {
            *slot = info;
        }
    }

    /// Merges `shape` into what is known of an output.
    ///
    /// # Errors
    /// `InvalidArgument` if the two contradict each other.
    pub fn merge_shape(&mut self, output: OutputRef, shape: &PartialShape) -> Result<()> {
        let slot = self.output_slot(output)?;
        let merged = shape_ops::merge(&self.outputs[slot].shape, shape)?;
        // Mostly nobody has read a new node yet, or nothing was new.
        let is_read = self.fanouts.is_read(output.node);
        if is_read && merged != self.outputs[slot].shape {
            self.fold_memo_mut().reopen();
        }
        self.outputs[slot].shape = merged;
        Ok(())
    }
}

//! GraphDef import, all or nothing.
//!
//! The stages follow the reference's: versions, functions, names, input map, edges, then the nodes in
//! topological order, the back edges of loops, and what the caller wants returned.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use smallvec::SmallVec;
use tfcore_base::{DType, Result, invalid, not_found};
use tfcore_framework::{AttrList, AttrValue, Attrs};
use tfcore_proto as proto;

use crate::builder::{COLOCATION_ATTR, COLOCATION_PREFIX};
use crate::graph::{GRAPH_VERSION, NewNode};
use crate::library::Function;
use crate::node::{Edge, NodeId, OutputRef, SOURCE};
use crate::validate::{
    check_deprecation, check_input_count, is_valid_node_name, types_compatible, unknown_op,
};
use crate::{Graph, Name};

/// A tensor of a GraphDef: a node's name and the index of an output, -1 for control.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TensorRef {
    pub node: String,
    pub index: i32,
}

impl TensorRef {
    pub fn new(node: impl Into<String>, index: i32) -> TensorRef {
        TensorRef { node: node.into(), index }
    }

    /// `"n"`, `"n:0"`, `"n:k"` and `"^n"`.
    pub fn parse(text: &str) -> TensorRef {
        if let Some(node) = text.strip_prefix('^') {
            return TensorRef::new(node, -1);
        }
        match text.rsplit_once(':').map(|(node, index)| (node, index.parse())) {
            Some((node, Ok(index))) if index >= 0 && !text.ends_with(':') => {
                TensorRef::new(node, index)
            }
            _ => TensorRef::new(text, 0),
        }
    }

    fn is_control(&self) -> bool {
        self.index < 0
    }
}

impl std::fmt::Display for TensorRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.index {
            -1 => write!(f, "^{}", self.node),
            index => write!(f, "{}:{index}", self.node),
        }
    }
}

/// How a GraphDef is brought into a graph.
#[derive(Debug, Clone)]
pub struct ImportOptions {
    /// Put before every name, with a slash between.
    pub prefix: String,
    pub uniquify_names: bool,
    pub uniquify_prefix: bool,
    /// Tensors of the graph to read in place of tensors of the GraphDef.
    pub input_map: Vec<(TensorRef, OutputRef)>,
    /// Nodes of the graph to run before every imported node that has no imported inputs.
    pub control_dependencies: Vec<NodeId>,
    pub return_outputs: Vec<TensorRef>,
    pub return_nodes: Vec<String>,
    /// The device of nodes that request none.
    pub default_device: String,
    pub validate_colocation: bool,
    /// Whether names may begin with an underscore.
    pub allow_internal_ops: bool,
    /// Whether `_output_shapes` attrs are compared with the inferred shapes and taken away; else they
    /// stay as they are.
    pub validate_shapes: bool,
}

impl Default for ImportOptions {
    fn default() -> ImportOptions {
        ImportOptions {
            prefix: String::new(),
            uniquify_names: false,
            uniquify_prefix: false,
            input_map: Vec::new(),
            control_dependencies: Vec::new(),
            return_outputs: Vec::new(),
            return_nodes: Vec::new(),
            default_device: String::new(),
            validate_colocation: true,
            allow_internal_ops: false,
            validate_shapes: true,
        }
    }
}

/// What an import hands back.
#[derive(Debug, Clone, Default)]
pub struct ImportResults {
    pub return_outputs: Vec<OutputRef>,
    pub return_nodes: Vec<NodeId>,
    /// Keys of the input map that name nothing in the GraphDef and were not used.
    pub missing_unused_keys: Vec<TensorRef>,
}

impl Graph {
    /// Adds the nodes and functions of a GraphDef.
    ///
    /// # Errors
    /// In the reference's codes and words; the graph is then as it was.
    pub fn import(
        &mut self,
        def: proto::GraphDef,
        options: &ImportOptions,
    ) -> Result<ImportResults> {
        let checkpoint = self.checkpoint();
        match Import::run(self, def, options) {
            Ok(results) => Ok(results),
            Err(error) => {
                self.restore(checkpoint);
                Err(error)
            }
        }
    }
}

/// An input of a node of the GraphDef.
#[derive(Clone)]
enum Input {
    /// Of another node of the GraphDef, by its position.
    Imported {
        node: usize,
        index: i32,
        explicit_zero: bool,
    },
    /// Of a node that the graph already has.
    Existing(OutputRef),
    ExistingControl(NodeId),
}

struct Import<'a> {
    graph: &'a mut Graph,
    options: &'a ImportOptions,
    prefix: String,
    nodes: Vec<proto::NodeDef>,
    producer: i32,
    /// Positions of the nodes by the names they have in the GraphDef.
    index: HashMap<String, usize>,
    input_map: HashMap<TensorRef, Mapped>,
    /// The names that nodes get where they differ from prefix and name.
    new_names: HashMap<String, String>,
    /// The nodes that have been added, by position.
    ids: Vec<Option<NodeId>>,
}

struct Mapped {
    to: OutputRef,
    used: bool,
}

impl Import<'_> {
    fn run(
        graph: &mut Graph,
        def: proto::GraphDef,
        options: &ImportOptions,
    ) -> Result<ImportResults> {
        let prefix = checked_prefix(graph, options)?;
        let mut versions = def.versions.unwrap_or_default();
        if versions == proto::VersionDef::default() {
            versions.producer = def.version;
        }
        check_versions(&versions)?;
        let mut import = Import {
            options,
            prefix,
            producer: versions.producer,
            index: HashMap::with_capacity(def.node.len()),
            input_map: HashMap::new(),
            new_names: HashMap::new(),
            ids: vec![None; def.node.len()],
            nodes: def.node,
            graph,
        };
        import.add_functions(def.library.unwrap_or_default())?;
        import.index_nodes()?;
        import.check_names()?;
        import.map_inputs()?;
        let inputs = import.resolve_inputs()?;
        // Shape functions ask for the version of the graph.
        import.merge_versions(&versions);
        import.graph.reserve(import.nodes.len());
        import.add_nodes(inputs)?;
        import.results()
    }

    fn add_functions(&mut self, library: proto::FunctionDefLibrary) -> Result<()> {
        let registry = self.graph.registry().clone();
        for def in library.function {
            self.graph.library_mut().add(&registry, Arc::new(Function::new(def)?))?;
        }
        for gradient in library.gradient {
            let library = self.graph.library_mut();
            library.add_gradient(&gradient.function_name, &gradient.gradient_func)?;
        }
        Ok(())
    }

    fn index_nodes(&mut self) -> Result<()> {
        for (position, node) in self.nodes.iter().enumerate() {
            if !is_valid_node_name(&node.name, self.options.allow_internal_ops) {
                return Err(invalid!(
                    "Node '{}': Node name contains invalid characters",
                    node.name
                ));
            }
            if self.index.insert(node.name.clone(), position).is_some() {
                return Err(invalid!("Node '{}' is not unique", node.name));
            }
            if node.op.is_empty() {
                return Err(invalid!("Node '{}' does not specify an operation", node.name));
            }
        }
        Ok(())
    }

    /// Names that are taken are an error, or are given a number.
    fn check_names(&mut self) -> Result<()> {
        if self.options.uniquify_names {
            let mut taken: HashSet<String> = HashSet::new();
            for node in &self.nodes {
                let name = format!("{}{}", self.prefix, node.name);
                let unique = self.unique_name(&name, &taken);
                taken.insert(unique.clone());
                if unique != name {
                    self.new_names.insert(node.name.clone(), unique);
                }
            }
            return Ok(());
        }
        for node in &self.nodes {
            let name = format!("{}{}", self.prefix, node.name);
            // Without a prefix, a name must not be a scope of the graph either.
            let taken = match self.prefix.is_empty() {
                true => self.graph.is_name_or_scope(&name),
                false => self.graph.find(&name).is_some(),
            };
            if taken {
                return Err(invalid!("Node name '{name}' already exists in the Graph"));
            }
        }
        Ok(())
    }

    fn unique_name(&self, name: &str, taken: &HashSet<String>) -> String {
        let is_free =
            |candidate: &str| !self.graph.is_name_or_scope(candidate) && !taken.contains(candidate);
        if is_free(name) {
            return name.to_string();
        }
        // A numbered name must not be that of another node of the GraphDef either.
        let is_imported = |candidate: &str| {
            candidate.strip_prefix(&self.prefix).is_some_and(|name| self.index.contains_key(name))
        };
        (1u64..)
            .map(|number| format!("{name}_{number}"))
            .find(|candidate| is_free(candidate) && !is_imported(candidate))
            .expect("some number is free")
    }

    fn map_inputs(&mut self) -> Result<()> {
        for (from, to) in &self.options.input_map {
            if !self.graph.contains(to.node) {
                return Err(invalid!(
                    "node '{}' in input_map does not exist in graph (input_map entry: {from}->{}:{})",
                    to.node.0,
                    to.node.0,
                    to.index
                ));
            }
            if from.is_control() != to.is_control() {
                return Err(invalid!(
                    "input_map entry {from}->{} between control edge and non-control edge",
                    self.graph.node(to.node).name
                ));
            }
            self.input_map.insert(from.clone(), Mapped { to: *to, used: false });
        }
        Ok(())
    }

    /// Where each input of each node comes from.
    fn resolve_inputs(&mut self) -> Result<Vec<Vec<Input>>> {
        let mut all = Vec::with_capacity(self.nodes.len());
        for position in 0..self.nodes.len() {
            let texts = std::mem::take(&mut self.nodes[position].input);
            let mut inputs: Vec<Input> = Vec::with_capacity(texts.len());
            let mut in_control = false;
            for text in &texts {
                let tensor = TensorRef::parse(text);
                if tensor.is_control() {
                    in_control = true;
                } else if in_control {
                    return Err(invalid!(
                        "Node '{}': Control dependencies must come after regular dependencies",
                        self.nodes[position].name
                    ));
                }
                inputs.push(self.resolve(position, text, tensor)?);
            }
            self.add_control_dependencies(&mut inputs);
            all.push(inputs);
        }
        Ok(all)
    }

    fn resolve(&mut self, position: usize, text: &str, tensor: TensorRef) -> Result<Input> {
        if let Some(mapped) = self.input_map.get_mut(&tensor) {
            mapped.used = true;
            return Ok(match tensor.is_control() {
                true => Input::ExistingControl(mapped.to.node),
                false => Input::Existing(mapped.to),
            });
        }
        match self.index.get(&tensor.node) {
            Some(&node) => Ok(Input::Imported {
                node,
                index: tensor.index,
                explicit_zero: tensor.index == 0 && text.ends_with(":0"),
            }),
            None => {
                Err(invalid!("Node '{}': Unknown input node '{text}'", self.nodes[position].name))
            }
        }
    }

    /// Nodes with imported inputs inherit the dependencies through those.
    fn add_control_dependencies(&self, inputs: &mut Vec<Input>) {
        if inputs.iter().any(|input| matches!(input, Input::Imported { .. })) {
            return;
        }
        for &node in &self.options.control_dependencies {
            let known = |input: &Input| matches!(input, Input::ExistingControl(id) if *id == node);
            if !inputs.iter().any(known) {
                inputs.push(Input::ExistingControl(node));
            }
        }
    }

    /// Adds every node after its inputs. A Merge does not wait for the NextIteration that closes its loop.
    fn add_nodes(&mut self, mut inputs: Vec<Vec<Input>>) -> Result<()> {
        let is_next_iteration =
            |node: &proto::NodeDef| matches!(&*node.op, "NextIteration" | "RefNextIteration");
        let mut pending: Vec<usize> = Vec::with_capacity(inputs.len());
        let mut consumers: Vec<Vec<usize>> = vec![Vec::new(); inputs.len()];
        for (position, list) in inputs.iter().enumerate() {
            let is_merge = matches!(&*self.nodes[position].op, "Merge" | "RefMerge");
            let mut count = 0;
            for input in list {
                if let Input::Imported { node, index, .. } = input {
                    // A control edge from there would close a loop that nothing can enter.
                    if is_merge && *index >= 0 && is_next_iteration(&self.nodes[*node]) {
                        continue;
                    }
                    count += 1;
                    consumers[*node].push(position);
                }
            }
            pending.push(count);
        }
        // The order in which the nodes stand is kept among those that are ready.
        let mut ready: BTreeSet<usize> =
            (0..pending.len()).filter(|&position| pending[position] == 0).collect();
        let mut back_edges = Vec::new();
        let mut added = 0;
        while let Some(position) = ready.pop_first() {
            let list = std::mem::take(&mut inputs[position]);
            self.add_node(position, &list, &mut back_edges)?;
            added += 1;
            for &consumer in &consumers[position] {
                pending[consumer] -= 1;
                if pending[consumer] == 0 {
                    ready.insert(consumer);
                }
            }
        }
        if added < pending.len() {
            return Err(invalid!("{} nodes in a cycle", pending.len() - added));
        }
        back_edges.into_iter().try_for_each(|edge| self.close_loop(edge))
    }

    fn add_node(
        &mut self,
        position: usize,
        inputs: &[Input],
        back_edges: &mut Vec<BackEdge>,
    ) -> Result<()> {
        let mut def = std::mem::take(&mut self.nodes[position]);
        let name = self.final_name(&def.name);
        let Some(op) = self.graph.find_op(&def.op) else {
            return Err(not_found!("{}", unknown_op(&def.op)));
        };
        let mut attrs = Attrs::from_proto_with(std::mem::take(&mut def.attr), Some(&op));
        self.fix_colocation(&def.name, &mut attrs)?;
        let output_shapes = match self.options.validate_shapes {
            true => attrs.remove("_output_shapes"),
            false => None,
        };
        let kind = self.graph.kind(&name, &op, attrs)?;
        let num_data = inputs
            .iter()
            .filter(|input| match input {
                Input::Imported { index, .. } => *index >= 0,
                Input::Existing(_) => true,
                Input::ExistingControl(_) => false,
            })
            .count();
        check_input_count(&name, &op, &kind.input_dtypes, num_data)?;
        check_deprecation(&op, self.producer)?;
        let mut wiring = Wiring::default();
        for input in inputs {
            self.wire(&name, input, &kind.input_dtypes, &mut wiring)?;
        }
        let device = if def.device.is_empty() { &self.options.default_device } else { &def.device };
        let device = self.graph.intern_device(&device.clone());
        let id = self.graph.add(NewNode {
            name: Name::new(&name),
            kind,
            device,
            inputs: wiring.inputs,
            control_inputs: without_repetition(wiring.control_inputs),
        })?;
        self.ids[position] = Some(id);
        self.nodes[position] = def;
        back_edges.extend(wiring.back_edges.into_iter().map(|mut edge| {
            edge.merge = id;
            edge
        }));
        match output_shapes {
            Some(shapes) => self.merge_output_shapes(id, &shapes),
            None => Ok(()),
        }
    }

    /// Adds one input to a node's wiring.
    fn wire(&self, name: &str, input: &Input, dtypes: &[DType], wiring: &mut Wiring) -> Result<()> {
        let edge = match *input {
            Input::ExistingControl(node) => {
                wiring.control_inputs.push(node);
                return Ok(());
            }
            // The reference writes inputs that the map has changed with their index.
            Input::Existing(source) => Edge { source, explicit_zero: source.index == 0 },
            Input::Imported { node, index, explicit_zero } => match self.ids[node] {
                Some(id) if index < 0 => {
                    wiring.control_inputs.push(id);
                    return Ok(());
                }
                Some(id) => Edge { source: OutputRef::new(id, index as usize), explicit_zero },
                None => {
                    let merge_input = wiring.inputs.len();
                    wiring.back_edges.push(BackEdge {
                        merge: SOURCE,
                        input: merge_input,
                        from: node,
                        index: index as usize,
                    });
                    wiring.inputs.push(OutputRef::new(SOURCE, 0).into());
                    return Ok(());
                }
            },
        };
        let input_index = wiring.inputs.len();
        self.check_edge(name, input_index, edge.source, dtypes)?;
        wiring.inputs.push(edge);
        Ok(())
    }

    fn check_edge(
        &self,
        name: &str,
        input: usize,
        source: OutputRef,
        dtypes: &[DType],
    ) -> Result<()> {
        let from = self.graph.node(source.node);
        let Some(&actual) = from.output_dtypes.get(source.port()) else {
            return Err(invalid!(
                "Node '{name}': Connecting to invalid output {} of source node {} which has {} \
                 outputs.",
                source.index,
                from.name,
                from.num_outputs()
            ));
        };
        let expected = dtypes[input];
        if !types_compatible(expected, actual) {
            return Err(invalid!(
                "Input {input} of node {name} was passed {actual} from {}:{} incompatible with \
                 expected {expected}.",
                from.name,
                source.index
            ));
        }
        Ok(())
    }

    fn close_loop(&mut self, edge: BackEdge) -> Result<()> {
        let source = self.ids[edge.from].expect("every node has been added");
        let source = OutputRef::new(source, edge.index);
        let merge = self.graph.node(edge.merge).clone();
        self.check_edge(&merge.name, edge.input, source, &merge.input_dtypes)?;
        self.graph.set_back_edge(edge.merge, edge.input, source);
        Ok(())
    }

    fn final_name(&self, name: &str) -> String {
        match self.new_names.get(name) {
            Some(new) => new.clone(),
            None => format!("{}{name}", self.prefix),
        }
    }

    /// Brings the names that a node is colocated with in line with the new names.
    fn fix_colocation(&self, name: &str, attrs: &mut Attrs) -> Result<()> {
        let Some(AttrValue::List(list)) = attrs.get(COLOCATION_ATTR) else {
            return Ok(());
        };
        let AttrList::String(locations) = &**list else {
            return Ok(());
        };
        let mut fixed = Vec::with_capacity(locations.len());
        for location in locations {
            let text = String::from_utf8_lossy(location);
            match text.strip_prefix(COLOCATION_PREFIX) {
                None => fixed.push(text.into_owned()),
                Some(other) if self.index.contains_key(other) => {
                    fixed.push(format!("{COLOCATION_PREFIX}{}", self.final_name(other)));
                }
                Some(other) if self.options.validate_colocation => {
                    return Err(invalid!(
                        "Node '{name}' expects to be colocated with unknown node '{other}'"
                    ));
                }
                Some(other) => fixed.push(format!("{COLOCATION_PREFIX}{}{other}", self.prefix)),
            }
        }
        attrs.set(COLOCATION_ATTR, AttrValue::strings(fixed));
        Ok(())
    }

    /// Merges the shapes that the producer has noted into those that were inferred.
    fn merge_output_shapes(&mut self, id: NodeId, shapes: &AttrValue) -> Result<()> {
        let AttrValue::List(list) = shapes else {
            return Ok(());
        };
        let AttrList::Shape(shapes) = &**list else {
            return Ok(());
        };
        let node = self.graph.node(id).clone();
        for (index, shape) in shapes.iter().enumerate().take(node.num_outputs()) {
            self.graph.merge_shape(OutputRef::new(id, index), shape).map_err(|error| {
                invalid!(
                    "Node '{}' has an _output_shapes attribute inconsistent with the GraphDef for \
                     output #{index}: {}",
                    node.name,
                    error.message()
                )
            })?;
        }
        Ok(())
    }

    fn merge_versions(&mut self, versions: &proto::VersionDef) {
        let mut merged = self.graph.versions().clone();
        merged.producer = merged.producer.min(versions.producer);
        merged.min_consumer = merged.min_consumer.max(versions.min_consumer);
        let mut seen: HashSet<i32> = merged.bad_consumers.iter().copied().collect();
        let new = versions.bad_consumers.iter().filter(|&&version| seen.insert(version));
        merged.bad_consumers.extend(new);
        self.graph.set_versions(merged);
    }

    fn results(&mut self) -> Result<ImportResults> {
        let mut results = ImportResults::default();
        for tensor in &self.options.return_outputs {
            if let Some(mapped) = self.input_map.get_mut(tensor) {
                mapped.used = true;
                results.return_outputs.push(mapped.to);
                continue;
            }
            let id = self.index.get(&tensor.node).and_then(|&position| self.ids[position]);
            let Some(id) = id else {
                return Err(invalid!("Requested return tensor '{tensor}' not found in graph def"));
            };
            let count = self.graph.node(id).num_outputs();
            match usize::try_from(tensor.index) {
                Ok(index) if index < count => {
                    results.return_outputs.push(OutputRef::new(id, index));
                }
                _ => {
                    return Err(invalid!(
                        "Invalid return output {} of node '{}', which has {count} output(s)",
                        tensor.index,
                        tensor.node
                    ));
                }
            }
        }
        for name in &self.options.return_nodes {
            let id = self.index.get(name).and_then(|&position| self.ids[position]);
            results.return_nodes.push(id.ok_or_else(|| {
                invalid!("Requested return node '{name}' not found in graph def")
            })?);
        }
        for (key, mapped) in &self.input_map {
            if !mapped.used && !self.names_output(key) {
                results.missing_unused_keys.push(key.clone());
            }
        }
        results.missing_unused_keys.sort();
        Ok(results)
    }

    /// Whether the GraphDef has this tensor.
    fn names_output(&self, tensor: &TensorRef) -> bool {
        let id = self.index.get(&tensor.node).and_then(|&position| self.ids[position]);
        id.is_some_and(|id| {
            tensor.is_control() || (tensor.index as usize) < self.graph.node(id).num_outputs()
        })
    }
}

/// The inputs of a node as they are found.
#[derive(Default)]
struct Wiring {
    inputs: SmallVec<[Edge; 2]>,
    control_inputs: SmallVec<[NodeId; 4]>,
    back_edges: Vec<BackEdge>,
}

/// The nodes in order of their first mention.
fn without_repetition(mut nodes: SmallVec<[NodeId; 4]>) -> SmallVec<[NodeId; 4]> {
    if nodes.len() > 1 {
        let mut seen = HashSet::with_capacity(nodes.len());
        nodes.retain(|node| seen.insert(*node));
    }
    nodes
}

/// An edge that closes a loop: into input `input` of `merge`.
struct BackEdge {
    merge: NodeId,
    input: usize,
    /// The position of the NextIteration in the GraphDef, and its output.
    from: usize,
    index: usize,
}

/// The prefix with its slash.
fn checked_prefix(graph: &Graph, options: &ImportOptions) -> Result<String> {
    let prefix = options.prefix.strip_suffix('/').unwrap_or(&options.prefix);
    if prefix.is_empty() {
        return Ok(String::new());
    }
    if !is_valid_node_name(prefix, false) {
        return Err(invalid!(
            "Imported node name prefix '{}/' would lead to invalid node names",
            prefix
        ));
    }
    if options.uniquify_prefix && graph.is_name_or_scope(prefix) {
        let unique = (1u64..)
            .map(|number| format!("{prefix}_{number}"))
            .find(|candidate| !graph.is_name_or_scope(candidate))
            .expect("some number is free");
        return Ok(format!("{unique}/"));
    }
    Ok(format!("{prefix}/"))
}

fn check_versions(versions: &proto::VersionDef) -> Result<()> {
    if versions.min_consumer > GRAPH_VERSION {
        return Err(invalid!(
            "GraphDef min consumer version {} above current version {GRAPH_VERSION} for TensorFlow \
             2.21.0.  Please upgrade TensorFlow.",
            versions.min_consumer
        ));
    }
    if versions.bad_consumers.contains(&GRAPH_VERSION) {
        return Err(invalid!(
            "GraphDef disallows consumer version {GRAPH_VERSION}.  Please upgrade TensorFlow: this \
             version is likely buggy."
        ));
    }
    Ok(())
}

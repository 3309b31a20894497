//! GraphDef import, all or nothing.
//!
//! The stages follow the reference's: versions, functions, names, input map, edges, then the nodes in
//! topological order, the back edges of loops, and what the caller wants returned.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use smallvec::SmallVec;
use tfcore_base::{DType, Result, invalid, not_found};
use tfcore_framework::{AttrList, AttrValue, Attrs, Role, shape_from_proto};
use tfcore_proto::{self as proto, attr_value::Value};
use tfcore_tensor::PartialShape;

use crate::add_node::NewNode;
use crate::builder::{COLOCATION_ATTR, COLOCATION_PREFIX};
use crate::graph::{FUNCTIONS_CONSUMER, GRAPH_VERSION};
use crate::graph_def::ParsedGraphDef;
use crate::import_options::{ImportOptions, ImportResults};
use crate::library::Function;
use crate::name_table::NameTable;
use crate::node::{Edge, NodeId, NodeKind, OutputRef, SOURCE};
use crate::tensor_ref::{TensorRef, parse_tensor};
use crate::validate::{
    check_deprecation, check_input_count, is_valid_node_name, types_compatible, unknown_op,
};
use crate::{Graph, Name};

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
        let registry = self.registry().clone();
        self.import_parsed(ParsedGraphDef::from_proto(&def, &registry), options)
    }

    /// As [`Graph::import`], for a GraphDef that has been read from its bytes.
    ///
    /// # Errors
    /// As [`Graph::import`].
    pub fn import_parsed(
        &mut self,
        def: ParsedGraphDef<'_>,
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
#[derive(Clone, Copy)]
enum Input {
    /// Of another node of the GraphDef, by its position.
    Imported {
        node: u32,
        index: i32,
        explicit_zero: bool,
    },
    /// Of a node that the graph already has.
    Existing(OutputRef),
    ExistingControl(NodeId),
}

/// The inputs of all nodes of the GraphDef.
struct Inputs {
    all: Vec<Input>,
    /// Where those of each node end.
    ends: Vec<usize>,
    /// Whether every node stands behind those that it reads.
    in_order: bool,
}

impl Inputs {
    fn range(&self, position: usize) -> Range<usize> {
        let start = position.checked_sub(1).map_or(0, |previous| self.ends[previous]);
        start..self.ends[position]
    }

    fn of(&self, position: usize) -> &[Input] {
        &self.all[self.range(position)]
    }
}

struct Import<'a, 'd> {
    graph: &'a mut Graph,
    options: &'a ImportOptions,
    prefix: String,
    def: ParsedGraphDef<'d>,
    /// What the nodes of each kind of the GraphDef become, as soon as the first of them is added.
    kinds: Vec<Option<Kind>>,
    producer: i32,
    /// Positions of the nodes by the names they have in the GraphDef.
    index: NameTable,
    input_map: HashMap<TensorRef, Mapped>,
    /// The names that nodes get where they differ from prefix and name.
    new_names: HashMap<&'d str, String>,
    /// The nodes that have been added, by position; `SOURCE` for the others.
    ids: Vec<NodeId>,
}

struct Mapped {
    to: OutputRef,
    used: bool,
}

#[derive(Clone)]
struct Kind {
    kind: Arc<NodeKind>,
    output_shapes: Option<NotedShapes>,
}

/// The shapes that the producer has noted; else which of them is none, and why.
type NotedShapes = std::result::Result<Vec<PartialShape>, (usize, String)>;

/// Takes away the attr `_output_shapes`, if it is a list of shapes.
fn take_noted_shapes(attrs: &mut Attrs) -> Option<NotedShapes> {
    const NAME: &str = "_output_shapes";
    let shapes = match attrs.get(NAME)? {
        AttrValue::List(list) => match &**list {
            AttrList::Shape(shapes) => Ok(shapes.clone()),
            AttrList::Empty => Ok(Vec::new()),
            _ => return None,
        },
        // A list of which one is no shape.
        AttrValue::Raw(raw) => match &raw.message().value {
            Some(Value::List(list)) if !list.shape.is_empty() => list
                .shape
                .iter()
                .enumerate()
                .map(|(index, shape)| {
                    shape_from_proto(shape).map_err(|error| (index, error.message().to_string()))
                })
                .collect(),
            _ => return None,
        },
        _ => return None,
    };
    attrs.remove(NAME);
    Some(shapes)
}

impl<'d> Import<'_, 'd> {
    fn run(
        graph: &mut Graph,
        mut def: ParsedGraphDef<'d>,
        options: &ImportOptions,
    ) -> Result<ImportResults> {
        let prefix = checked_prefix(graph, options)?;
        let versions = std::mem::take(&mut def.versions);
        check_versions(&versions)?;
        let mut import = Import {
            options,
            prefix,
            producer: versions.producer,
            index: NameTable::default(),
            input_map: HashMap::new(),
            new_names: HashMap::new(),
            ids: vec![SOURCE; def.nodes.len()],
            kinds: vec![None; def.kinds.len()],
            def,
            graph,
        };
        import.add_functions()?;
        import.index_nodes()?;
        import.check_names()?;
        import.map_inputs()?;
        let inputs = import.resolve_inputs()?;
        // Shape functions ask for the version of the graph.
        import.merge_versions(&versions);
        import.graph.reserve(import.def.nodes.len());
        import.add_nodes(&inputs)?;
        for (position, annotations) in std::mem::take(&mut import.def.annotations) {
            import.graph.annotate(import.ids[position], Some(annotations));
        }
        import.results()
    }

    fn add_functions(&mut self) -> Result<()> {
        let library = std::mem::take(&mut self.def.library);
        let registry = self.graph.registry().clone();
        for def in library.function {
            self.graph.library_mut().add(&registry, Arc::new(Function::new(def)?))?;
            self.graph.require_consumer(FUNCTIONS_CONSUMER);
        }
        for gradient in library.gradient {
            let library = self.graph.library_mut();
            library.add_gradient(&gradient.function_name, &gradient.gradient_func)?;
        }
        Ok(())
    }

    fn index_nodes(&mut self) -> Result<()> {
        self.index.reserve(self.def.nodes.len());
        for (position, node) in self.def.nodes.iter().enumerate() {
            let name = node.name;
            if !is_valid_node_name(name, self.options.allow_internal_ops) {
                return Err(invalid!("Node '{name}': Node name contains invalid characters"));
            }
            if self.find(name).is_some() {
                return Err(invalid!("Node '{name}' is not unique"));
            }
            self.index.insert(name, position as u32);
            if self.def.op_of(position).is_empty() {
                return Err(invalid!("Node '{name}' does not specify an operation"));
            }
        }
        Ok(())
    }

    /// The position of a node of the GraphDef.
    fn find(&self, name: &str) -> Option<u32> {
        self.index.find(name, |position| self.def.nodes[position as usize].name)
    }

    /// The node of the graph that a node of the GraphDef has become.
    fn added(&self, name: &str) -> Option<NodeId> {
        let id = self.ids[self.find(name)? as usize];
        (id != SOURCE).then_some(id)
    }

    /// Names that are taken are an error, or are given a number.
    fn check_names(&mut self) -> Result<()> {
        if self.graph.nodes().is_empty() {
            return Ok(());
        }
        let mut full_name = String::new();
        let mut taken: HashSet<String> = HashSet::new();
        for position in 0..self.def.nodes.len() {
            let name = self.def.nodes[position].name;
            full_name.clear();
            full_name.push_str(&self.prefix);
            full_name.push_str(name);
            if self.options.uniquify_names {
                let unique = self.unique_name(&full_name, &taken);
                if unique != full_name {
                    self.new_names.insert(name, unique.clone());
                }
                taken.insert(unique);
                continue;
            }
            // Without a prefix, a name must not be a scope of the graph either.
            let is_taken = match self.prefix.is_empty() {
                true => self.graph.is_name_or_scope(&full_name),
                false => self.graph.find(&full_name).is_some(),
            };
            if is_taken {
                return Err(invalid!("Node name '{full_name}' already exists in the Graph"));
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
            candidate.strip_prefix(&self.prefix).is_some_and(|name| self.find(name).is_some())
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
    fn resolve_inputs(&mut self) -> Result<Inputs> {
        let count = self.def.nodes.len();
        let all = Vec::with_capacity(self.def.inputs.len());
        let mut inputs = Inputs { all, ends: Vec::with_capacity(count), in_order: true };
        for position in 0..count {
            let start = inputs.all.len();
            let mut in_control = false;
            for number in 0..self.def.inputs_of(position).len() {
                let text = self.def.inputs_of(position)[number];
                let (node, index) = parse_tensor(text);
                if index < 0 {
                    in_control = true;
                } else if in_control {
                    return Err(invalid!(
                        "Node '{}': Control dependencies must come after regular dependencies",
                        self.def.nodes[position].name
                    ));
                }
                let input = self.resolve(position, text, node, index)?;
                if let Input::Imported { node, .. } = input {
                    inputs.in_order &= (node as usize) < position;
                }
                inputs.all.push(input);
            }
            self.add_control_dependencies(start, &mut inputs.all);
            inputs.ends.push(inputs.all.len());
        }
        Ok(inputs)
    }

    fn resolve(&mut self, position: usize, text: &str, node: &str, index: i32) -> Result<Input> {
        if !self.input_map.is_empty()
            && let Some(mapped) = self.input_map.get_mut(&TensorRef::new(node, index))
        {
            mapped.used = true;
            return Ok(match index < 0 {
                true => Input::ExistingControl(mapped.to.node),
                false => Input::Existing(mapped.to),
            });
        }
        match self.find(node) {
            Some(node) => Ok(Input::Imported {
                node,
                index,
                explicit_zero: index == 0 && text.ends_with(":0"),
            }),
            None => Err(invalid!(
                "Node '{}': Unknown input node '{text}'",
                self.def.nodes[position].name
            )),
        }
    }

    /// Adds what the node runs after, whose other inputs begin at `start`. Nodes with imported inputs
    /// inherit the dependencies through those.
    fn add_control_dependencies(&self, start: usize, inputs: &mut Vec<Input>) {
        if inputs[start..].iter().any(|input| matches!(input, Input::Imported { .. })) {
            return;
        }
        for &node in &self.options.control_dependencies {
            let known = |input: &Input| matches!(input, Input::ExistingControl(id) if *id == node);
            if !inputs[start..].iter().any(known) {
                inputs.push(Input::ExistingControl(node));
            }
        }
    }

    /// Adds every node after its inputs. A Merge does not wait for the NextIteration that closes its loop.
    fn add_nodes(&mut self, inputs: &Inputs) -> Result<()> {
        let mut back_edges = Vec::new();
        if inputs.in_order {
            return (0..self.def.nodes.len())
                .try_for_each(|position| self.add_node(position, inputs, &mut back_edges));
        }
        let mut waiting = self.waiting(inputs);
        // The order in which the nodes stand is kept among those that are ready.
        let mut ready: BTreeSet<usize> =
            (0..waiting.counts.len()).filter(|&position| waiting.counts[position] == 0).collect();
        let mut added = 0;
        while let Some(position) = ready.pop_first() {
            self.add_node(position, inputs, &mut back_edges)?;
            added += 1;
            for &consumer in
                &waiting.consumers[waiting.starts[position]..waiting.starts[position + 1]]
            {
                waiting.counts[consumer] -= 1;
                if waiting.counts[consumer] == 0 {
                    ready.insert(consumer);
                }
            }
        }
        if added < waiting.counts.len() {
            return Err(invalid!("{} nodes in a cycle", waiting.counts.len() - added));
        }
        back_edges.into_iter().try_for_each(|edge| self.close_loop(edge))
    }

    /// Which nodes wait for which.
    fn waiting(&self, inputs: &Inputs) -> Waiting {
        let count = self.def.nodes.len();
        let mut edges: Vec<(u32, usize)> = Vec::with_capacity(inputs.all.len());
        let mut counts = vec![0; count];
        for position in 0..count {
            let is_merge = self.def.role_of(position).is_merge();
            for input in inputs.of(position) {
                if let Input::Imported { node, index, .. } = *input {
                    // A control edge from there would close a loop that nothing can enter.
                    if is_merge
                        && index >= 0
                        && self.def.role_of(node as usize) == Role::NextIteration
                    {
                        continue;
                    }
                    counts[position] += 1;
                    edges.push((node, position));
                }
            }
        }
        edges.sort_unstable();
        let starts = (0..=count).scan(0, |at, position| {
            while edges.get(*at).is_some_and(|(node, _)| (*node as usize) < position) {
                *at += 1;
            }
            Some(*at)
        });
        Waiting {
            counts,
            starts: starts.collect(),
            consumers: edges.iter().map(|(_, consumer)| *consumer).collect(),
        }
    }

    fn add_node(
        &mut self,
        position: usize,
        inputs: &Inputs,
        back_edges: &mut Vec<BackEdge>,
    ) -> Result<()> {
        let node = &self.def.nodes[position];
        let name = match self.new_names.get(node.name) {
            Some(new) => Name::new(new),
            None => Name::joined(&self.prefix, node.name),
        };
        let device =
            if node.device.is_empty() { &self.options.default_device } else { node.device };
        let device = self.graph.intern_device(device);
        let Kind { kind, output_shapes } = self.kind_of(position, &name)?;
        let num_data = inputs
            .of(position)
            .iter()
            .filter(|input| match input {
                Input::Imported { index, .. } => *index >= 0,
                Input::Existing(_) => true,
                Input::ExistingControl(_) => false,
            })
            .count();
        check_input_count(&name, &kind.op, &kind.input_dtypes, num_data)?;
        check_deprecation(&kind.op, self.producer)?;
        let mut wiring = Wiring::default();
        for input in inputs.of(position) {
            self.wire(&name, input, &kind.input_dtypes, &mut wiring)?;
        }
        let id = self.graph.add(NewNode {
            name,
            kind,
            device,
            inputs: wiring.inputs,
            control_inputs: without_repetition(wiring.control_inputs),
        })?;
        self.ids[position] = id;
        back_edges.extend(wiring.back_edges.into_iter().map(|mut edge| {
            edge.merge = id;
            edge
        }));
        match output_shapes {
            Some(shapes) => self.merge_output_shapes(id, &shapes),
            None => Ok(()),
        }
    }

    /// The kind of the node at a position; `name` is the node's in messages.
    fn kind_of(&mut self, position: usize, name: &str) -> Result<Kind> {
        let node = &self.def.nodes[position];
        let number = node.kind as usize;
        if let Some(kind) = &self.kinds[number] {
            return Ok(kind.clone());
        }
        let op = self.def.kinds[number].op;
        let Some(op) = self.graph.find_op(op) else {
            return Err(not_found!("{}", unknown_op(op)));
        };
        let mut attrs = std::mem::take(&mut self.def.kinds[number].attrs);
        self.fix_colocation(node.name, &mut attrs)?;
        let output_shapes = match self.options.validate_shapes {
            true => take_noted_shapes(&mut attrs),
            false => None,
        };
        let kind = Kind { kind: self.graph.kind(name, &op, attrs)?, output_shapes };
        self.kinds[number] = Some(kind.clone());
        Ok(kind)
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
            Input::Imported { node, index, explicit_zero } => match self.ids[node as usize] {
                SOURCE => {
                    let merge_input = wiring.inputs.len();
                    wiring.back_edges.push(BackEdge {
                        merge: SOURCE,
                        input: merge_input,
                        from: node as usize,
                        index: index as usize,
                    });
                    wiring.inputs.push(OutputRef::new(SOURCE, 0).into());
                    return Ok(());
                }
                id if index < 0 => {
                    wiring.control_inputs.push(id);
                    return Ok(());
                }
                id => Edge { source: OutputRef::new(id, index as usize), explicit_zero },
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
        let source = OutputRef::new(self.ids[edge.from], edge.index);
        let from = self.graph.node(source.node);
        if source.port() >= from.num_outputs() {
            return Err(invalid!(
                "Output {} of node {} does not exist. Node only has {} outputs.",
                source.index,
                from.name,
                from.num_outputs()
            ));
        }
        let merge = self.graph.node(edge.merge).clone();
        self.check_edge(&merge.name, edge.input, source, &merge.input_dtypes)?;
        self.graph.set_input(edge.merge, edge.input, source.into());
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
                Some(other) if self.find(other).is_some() => {
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

    /// Merges the shapes that the producer has noted into those that were inferred. Shapes beyond the last output do not
    /// count.
    fn merge_output_shapes(&mut self, id: NodeId, shapes: &NotedShapes) -> Result<()> {
        let node = self.graph.node(id).clone();
        let shapes = shapes.as_ref().map_err(|(index, error)| {
            invalid!(
                "Node '{} has an invalid _output_shapes attribute (shape #{index} error:'{error}'",
                node.name
            )
        })?;
        if shapes.len() < node.num_outputs() {
            return Err(invalid!(
                "Node '{}' has {} outputs but the _output_shapes attribute specifies shapes for {} outputs",
                node.name,
                node.num_outputs(),
                shapes.len()
            ));
        }
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
            let Some(id) = self.added(&tensor.node) else {
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
            results.return_nodes.push(self.added(name).ok_or_else(|| {
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
        self.added(&tensor.node).is_some_and(|id| {
            tensor.is_control() || (tensor.index as usize) < self.graph.node(id).num_outputs()
        })
    }
}

/// Which nodes of a GraphDef wait for which, where they do not stand in order.
struct Waiting {
    /// How many inputs of each node are to be added first.
    counts: Vec<usize>,
    /// Where the consumers of each node begin, and where those of the last one end.
    starts: Vec<usize>,
    consumers: Vec<usize>,
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
    if options.prefix.is_empty() {
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
    if versions.producer < 0 {
        return Err(invalid!(
            "GraphDef producer version {} below min producer 0 supported by TensorFlow 2.21.0.  Please \
             regenerate your graph.",
            versions.producer
        ));
    }
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

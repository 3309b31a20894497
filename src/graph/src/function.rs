//! From a part of a graph to a `FunctionDef`.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use smallvec::SmallVec;
use tfcore_base::{DType, Error, Result, invalid, unimplemented_error};
use tfcore_framework::{AttrList, AttrValue};
use tfcore_proto::{self as proto, Message, op_def};

use crate::graph::FUNCTIONS_CONSUMER;
use crate::library::Function;
use crate::node::{Node, NodeId, OutputRef, SOURCE};
use crate::{Graph, node_to_proto};

/// Which part of a graph becomes a function.
#[derive(Debug, Clone, Default)]
pub struct FunctionRequest {
    pub name: String,
    /// Whether a hash of the definition goes behind the name.
    pub append_hash: bool,
    /// The nodes of the body; all but those of the inputs if this is `None`.
    pub body: Option<Vec<NodeId>>,
    pub inputs: Vec<OutputRef>,
    pub outputs: Vec<OutputRef>,
    /// The names of the outputs; made from those of the nodes if this is `None`.
    pub output_names: Option<Vec<String>>,
    pub control_outputs: Vec<NodeId>,
    pub control_output_names: Option<Vec<String>>,
    pub description: Option<String>,
}

impl Graph {
    /// Makes a function of a part of the graph.
    ///
    /// # Errors
    /// `InvalidArgument` or `OutOfRange` in the reference's words, for outputs that are not there or may
    /// not be passed, for inputs of the body that neither the body nor the inputs have, and for
    /// names that are taken.
    pub fn to_function(&self, request: &FunctionRequest) -> Result<Function> {
        check_inputs(self, request)?;
        check_outputs(self, request)?;
        let body = body_nodes(self, request)?;
        let mut writer = Writer::new(self, request);
        let mut def = proto::FunctionDef::default();
        let mut signature = proto::OpDef {
            description: request.description.clone().unwrap_or_default(),
            ..Default::default()
        };
        writer.write_outputs(&mut signature)?;
        writer.write_inputs(&mut signature, &mut def);
        writer.name_body(&body)?;
        for &id in &body {
            def.node_def.push(writer.node_def(id)?);
            let node = self.node(id);
            signature.is_stateful |= node.op.is_stateful;
            add_placeholders(node, &mut signature)?;
        }
        for (arg, &output) in signature.output_arg.iter().zip(&request.outputs) {
            let Some(tensor) = writer.tensor_name(output) else {
                return Err(invalid!(
                    "TF_Output {}:{} is neither in the function body nor among function inputs. \
                     Encountered while creating function '{}'",
                    self.node(output.node).name,
                    output.index,
                    request.name
                ));
            };
            def.ret.insert(arg.name.clone(), tensor);
        }
        def.signature = Some(signature);
        let hash = request.append_hash.then(|| hash_text(&def));
        let (controls, names) = writer.control_outputs()?;
        def.control_ret = controls;
        let signature = def.signature.get_or_insert_default();
        signature.control_output = names;
        signature.name = match hash {
            Some(hash) => format!("{}_{hash}", request.name),
            None => request.name.clone(),
        };
        Function::new(def)
    }

    /// Puts a function and its gradient function into the library.
    ///
    /// # Errors
    /// `InvalidArgument` if different ones have the names; the graph is then as it was.
    pub fn add_function(
        &mut self,
        function: &Arc<Function>,
        gradient: Option<&Arc<Function>>,
    ) -> Result<()> {
        let registry = self.registry().clone();
        let mark = self.library().mark();
        let library = self.library_mut();
        let mut outcome = library.add(&registry, function.clone());
        if let Some(gradient) = gradient {
            outcome = outcome
                .and_then(|()| library.add(&registry, gradient.clone()))
                .and_then(|()| library.add_gradient(function.name(), gradient.name()));
        }
        match outcome {
            Ok(()) => self.require_consumer(FUNCTIONS_CONSUMER),
            Err(_) => library.rewind(&mark),
        }
        outcome
    }
}

/// Every input is an output of some node, passed by value and once.
fn check_inputs(graph: &Graph, request: &FunctionRequest) -> Result<()> {
    let mut seen = HashSet::with_capacity(request.inputs.len());
    for (index, &input) in request.inputs.iter().enumerate() {
        let node = graph.node(input.node);
        let by_value = graph.output_dtype(input).and_then(|dtype| match dtype.is_ref() {
            true => Err(invalid!(
                "Output {} of node '{}' has a reference type {dtype}",
                input.index,
                node.name
            )),
            false => Ok(()),
        });
        by_value.map_err(|error| {
            let place = format!(
                "Encountered while processing input {index} into function '{}'",
                request.name
            );
            add_line(error, &place)
        })?;
        if !seen.insert(input) {
            return Err(invalid!(
                "TF_Output {}:{} appears more than once in the input list",
                node.name,
                input.index
            ));
        }
    }
    Ok(())
}

fn check_outputs(graph: &Graph, request: &FunctionRequest) -> Result<()> {
    for (index, &output) in request.outputs.iter().enumerate() {
        graph.output_dtype(output).map_err(|error| {
            let place = format!(
                "Encountered while processing output {index} from function '{}'",
                request.name
            );
            add_line(error, &place)
        })?;
    }
    Ok(())
}

pub(crate) fn add_line(error: Error, line: &str) -> Error {
    let message = format!("{}\n\t{line}", error.message());
    error.with_message(message)
}

fn body_nodes(graph: &Graph, request: &FunctionRequest) -> Result<Vec<NodeId>> {
    if let Some(body) = &request.body {
        return Ok(body.clone());
    }
    let inputs: HashSet<NodeId> = request.inputs.iter().map(|input| input.node).collect();
    let mut body = Vec::with_capacity(graph.nodes().len());
    for node in graph.nodes() {
        if !inputs.contains(&node.id) {
            body.push(node.id);
        } else if node.num_outputs() != 1 {
            return Err(invalid!(
                "When `num_opers` is set to -1, nodes referenced in `inputs` must have a single output. \
                 Node {} has {} outputs. Encountered while creating function '{}'",
                node.name,
                node.num_outputs(),
                request.name
            ));
        }
    }
    Ok(body)
}

/// A node of the body as the function has it.
struct BodyNode {
    name: String,
    /// The index of the first tensor of each output argument.
    starts: SmallVec<[usize; 2]>,
}

struct Writer<'a> {
    graph: &'a Graph,
    request: &'a FunctionRequest,
    names: Names,
    /// The arguments' names.
    inputs: HashMap<OutputRef, String>,
    /// The names of nodes for control edges: of the argument, or of the node of the body.
    nodes: HashMap<NodeId, String>,
    body: HashMap<NodeId, BodyNode>,
}

impl<'a> Writer<'a> {
    fn new(graph: &'a Graph, request: &'a FunctionRequest) -> Writer<'a> {
        Writer {
            graph,
            request,
            names: Names::default(),
            inputs: HashMap::new(),
            nodes: HashMap::new(),
            body: HashMap::new(),
        }
    }

    /// The outputs come first, so that they get the names that they ask for.
    fn write_outputs(&mut self, signature: &mut proto::OpDef) -> Result<()> {
        for (index, &output) in self.request.outputs.iter().enumerate() {
            let name = match &self.request.output_names {
                Some(names) => {
                    let name = names.get(index).cloned().unwrap_or_default();
                    self.names.take(&name)?;
                    name
                }
                None => self.names.unique(&arg_name(&self.graph.node(output.node).name)),
            };
            signature.output_arg.push(typed_arg(name, self.graph.output_dtype(output)?));
        }
        Ok(())
    }

    fn write_inputs(&mut self, signature: &mut proto::OpDef, def: &mut proto::FunctionDef) {
        for (index, &input) in self.request.inputs.iter().enumerate() {
            let node = self.graph.node(input.node);
            let name = self.names.unique(&arg_name(&node.name));
            let dtype = node.output_dtypes[input.port()];
            signature.input_arg.push(typed_arg(name.clone(), dtype));
            let attrs = arg_attrs(node, dtype);
            if !attrs.is_empty() {
                let attr = attrs.into_iter().collect();
                def.arg_attr.insert(index as u32, proto::function_def::ArgAttrs { attr });
            }
            if let Ok(id) = node.attrs.int("_resource_arg_unique_id")
                && let Ok(id) = u32::try_from(id)
            {
                def.resource_arg_unique_id.insert(index as u32, id);
            }
            self.nodes.insert(input.node, name.clone());
            self.inputs.insert(input, name);
        }
    }

    /// Names the nodes of the body, none like an argument or an output.
    fn name_body(&mut self, body: &[NodeId]) -> Result<()> {
        for &id in body {
            let node = self.graph.node(id);
            let name = self.names.unique(&node.name);
            let mut starts = SmallVec::with_capacity(node.op.outputs.len());
            let mut next = 0;
            for arg in &node.op.outputs {
                starts.push(next);
                next += arg.len(&node.attrs)?;
            }
            self.nodes.insert(id, name.clone());
            self.body.insert(id, BodyNode { name, starts });
        }
        Ok(())
    }

    /// What the function calls an output: the argument `x`, or `node:output:0`.
    fn tensor_name(&self, output: OutputRef) -> Option<String> {
        if let Some(name) = self.inputs.get(&output) {
            return Some(name.clone());
        }
        let BodyNode { name, starts } = self.body.get(&output.node)?;
        let arg = starts.partition_point(|&start| start <= output.port()).checked_sub(1)?;
        let arg_name = &self.graph.node(output.node).op.outputs.get(arg)?.name;
        Some(format!("{name}:{arg_name}:{}", output.port() - starts[arg]))
    }

    /// A node of the body with the inputs of a function.
    fn node_def(&self, id: NodeId) -> Result<proto::NodeDef> {
        let node = self.graph.node(id);
        let mut input = Vec::with_capacity(node.inputs.len() + node.control_inputs.len());
        for (index, edge) in node.inputs.iter().enumerate() {
            input.push(self.tensor_name(edge.source).ok_or_else(|| {
                invalid!(
                    "Input {index}, '{}:{}', of node '{}' in function '{}' is not available. You might \
                     need to include it in inputs or include its source node in the body",
                    self.graph.node(edge.source.node).name,
                    edge.source.index,
                    node.name,
                    self.request.name
                )
            })?);
        }
        // By name, so that the definition does not depend on the order of the edges.
        let sources = node.control_inputs.iter().filter(|&&source| source != SOURCE);
        let mut controls: Vec<&Node> = sources.map(|&source| &**self.graph.node(source)).collect();
        controls.sort_by(|a, b| a.name.as_str().cmp(b.name.as_str()));
        for source in controls {
            let Some(name) = self.nodes.get(&source.id) else {
                return Err(invalid!(
                    "The source of control edge [{}:-1 -> {}:-1] is not in the body. Encountered while \
                     creating function '{}'",
                    source.name,
                    node.name,
                    self.request.name
                ));
            };
            input.push(format!("^{name}"));
        }
        let name = self.nodes.get(&id).cloned().unwrap_or_default();
        Ok(proto::NodeDef { name, input, ..node_to_proto(self.graph, id) })
    }

    /// The control outputs by name, and their names in order.
    fn control_outputs(&self) -> Result<(BTreeMap<String, String>, Vec<String>)> {
        let controls = &self.request.control_outputs;
        let names = self.request.control_output_names.as_ref();
        if let Some(names) = names.filter(|names| !names.is_empty())
            && names.len() != controls.len()
        {
            return Err(invalid!(
                "Expected number of control outputs ({}) and the number of control output names ({}) to \
                 match but they do not.",
                controls.len(),
                names.len()
            ));
        }
        let mut by_name = BTreeMap::new();
        for (index, &id) in controls.iter().enumerate() {
            let name = match names.and_then(|names| names.get(index)) {
                Some(name) => name.clone(),
                None => self.graph.node(id).name.to_string(),
            };
            if name.is_empty() {
                return Err(invalid!("Control output name must be not empty"));
            }
            let Some(node) = self.nodes.get(&id) else {
                return Err(invalid!("Control output node name must be not empty"));
            };
            if by_name.contains_key(&name) {
                return Err(invalid!("Repeated control output name: {name}"));
            }
            by_name.insert(name, node.clone());
        }
        let names = by_name.keys().cloned().collect();
        Ok((by_name, names))
    }
}

/// The attrs of a node that go along with an argument made of its output: internal ones, and its
/// shape.
fn arg_attrs(node: &Node, dtype: DType) -> BTreeMap<String, proto::AttrValue> {
    let mut attrs = BTreeMap::new();
    for (name, value) in node.attrs.iter() {
        let shape = match value {
            AttrValue::Shape(shape) if &**name == "shape" && dtype != DType::RESOURCE => {
                Some((**shape).clone())
            }
            AttrValue::Tensor(tensor) if &**name == "value" && node.is_const() => {
                tensor.shape().ok().map(|shape| (&shape).into())
            }
            _ => None,
        };
        if let Some(shape) = shape {
            let shapes = AttrValue::list(AttrList::Shape(vec![shape]));
            attrs.entry("_output_shapes".to_string()).or_insert(shapes.to_proto());
        } else if name.starts_with('_') {
            attrs.insert(name.to_string(), value.to_proto());
        }
    }
    attrs
}

/// Declares the placeholders among a node's attrs as attrs of the function.
fn add_placeholders(node: &Node, signature: &mut proto::OpDef) -> Result<()> {
    for (name, value) in node.attrs.iter() {
        let AttrValue::Placeholder(placeholder) = value else {
            continue;
        };
        if signature.attr.iter().any(|attr| attr.name == **placeholder) {
            continue;
        }
        let Some(declared) = node.op.attr(name) else {
            return Err(unimplemented_error!(
                "Placeholder value is not supported for attributes not in OpDef. Attribute: {name}, \
                 OpDef: {}",
                node.op
            ));
        };
        signature.attr.push(op_def::AttrDef {
            name: placeholder.to_string(),
            r#type: declared.type_name.clone(),
            ..Default::default()
        });
    }
    Ok(())
}

fn typed_arg(name: String, dtype: DType) -> op_def::ArgDef {
    op_def::ArgDef { name, r#type: dtype.to_i32(), ..Default::default() }
}

/// A node's name as that of an argument: from its first letter on, in lower case, with `_` for what is neither
/// letter nor digit.
fn arg_name(node: &str) -> String {
    let to_arg = |byte: u8| match byte.is_ascii_alphanumeric() {
        true => byte.to_ascii_lowercase() as char,
        false => '_',
    };
    let name = node.bytes().skip_while(|byte| !byte.is_ascii_alphabetic()).map(to_arg);
    let name: String = name.collect();
    if name.is_empty() { "unknown".to_string() } else { name }
}

/// The names that arguments, outputs and nodes have taken, with the number to try next for each.
#[derive(Default)]
struct Names {
    used: HashMap<String, u64>,
}

impl Names {
    /// `name`, or the first of `name_0`, `name_1` and so on that is free.
    fn unique(&mut self, name: &str) -> String {
        let Some(&first) = self.used.get(name) else {
            self.used.insert(name.to_string(), 0);
            return name.to_string();
        };
        let mut number = first;
        loop {
            let candidate = format!("{name}_{number}");
            number += 1;
            if !self.used.contains_key(&candidate) {
                self.used.insert(name.to_string(), number);
                self.used.insert(candidate.clone(), 0);
                return candidate;
            }
        }
    }

    fn take(&mut self, name: &str) -> Result<()> {
        match self.used.insert(name.to_string(), 0) {
            None => Ok(()),
            Some(_) => Err(invalid!(
                "Cannot have duplicate output names. Name '{name}' appears more than once in \
                 'output_names' array."
            )),
        }
    }
}

/// Eleven letters and digits that depend on the definition alone.
fn hash_text(def: &proto::FunctionDef) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789aA";
    let mut hasher = DefaultHasher::new();
    def.encode_to_vec().hash(&mut hasher);
    let hash = hasher.finish();
    (0..11).map(|digit| DIGITS[(hash >> (6 * digit)) as usize & 63] as char).collect()
}

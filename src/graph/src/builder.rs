//! `NodeBuilder`: a node put together call by call, checked when it is finished.

use std::collections::{BTreeSet, HashSet};

use smallvec::SmallVec;
use tfcore_base::{Code, DType, Error, Result, invalid};
use tfcore_framework::{ArgDef, ArgKind, AttrList, AttrValue, Attrs, OpDef};

use crate::add_node::NewNode;
use crate::node::{Edge, NodeId, OutputRef};
use crate::validate::{check_deprecation, check_input_count, types_compatible, unknown_op};
use crate::{Graph, Name};

/// The attr that holds what a node is colocated with.
pub(crate) const COLOCATION_ATTR: &str = "_class";
/// What stands before a node's name there.
pub(crate) const COLOCATION_PREFIX: &str = "loc:@";

/// Collects what a node is made of. No call fails; what is wrong is reported by
/// [`NodeBuilder::finish`].
#[derive(Debug, Clone)]
pub struct NodeBuilder {
    name: Name,
    op: String,
    device: String,
    inputs: SmallVec<[Input; 2]>,
    control_inputs: SmallVec<[NodeId; 4]>,
    attrs: Vec<(String, AttrValue)>,
    colocations: BTreeSet<String>,
}

#[derive(Debug, Clone)]
enum Input {
    One(OutputRef),
    List(Vec<OutputRef>),
}

impl NodeBuilder {
    pub fn new(op: impl Into<String>, name: impl AsRef<str>) -> NodeBuilder {
        NodeBuilder {
            name: Name::new(name.as_ref()),
            op: op.into(),
            device: String::new(),
            inputs: SmallVec::new(),
            control_inputs: SmallVec::new(),
            attrs: Vec::new(),
            colocations: BTreeSet::new(),
        }
    }

    pub fn set_device(&mut self, device: impl Into<String>) {
        self.device = device.into();
    }

    /// The next input, where the op takes one tensor.
    pub fn add_input(&mut self, output: OutputRef) {
        self.inputs.push(Input::One(output));
    }

    /// The next input, where the op takes a list.
    pub fn add_input_list(&mut self, outputs: Vec<OutputRef>) {
        self.inputs.push(Input::List(outputs));
    }

    /// The node runs after `node`. One that is added again counts once.
    pub fn add_control_input(&mut self, node: NodeId) {
        self.control_inputs.push(node);
    }

    /// Places the node with another one.
    pub fn colocate_with(&mut self, name: &str) {
        self.colocations.insert(format!("{COLOCATION_PREFIX}{name}"));
    }

    pub fn set_attr(&mut self, name: impl Into<String>, value: AttrValue) {
        self.attrs.push((name.into(), value));
    }

    /// Checks everything and adds the node.
    ///
    /// # Errors
    /// `InvalidArgument` in the reference's words; the graph is then as it was.
    pub fn finish(mut self, graph: &mut Graph) -> Result<NodeId> {
        if graph.find(&self.name).is_some() {
            return Err(invalid!("Duplicate node name in graph: '{}'", self.name));
        }
        self.merge_colocations();
        let Some(op) = graph.find_op(&self.op) else {
            return Err(invalid!(
                "{} while building NodeDef '{}'",
                unknown_op(&self.op),
                self.name
            ));
        };
        let mut draft = Draft { graph, op: &op, attrs: Attrs::new(), errors: Vec::new() };
        let edges = draft.take_inputs(&self.inputs)?;
        for (name, value) in std::mem::take(&mut self.attrs) {
            draft.set_attr(&name, value);
        }
        let attrs = draft.finish(&self.name, self.inputs.len())?;
        let kind = graph.kind(&self.name, &op, attrs)?;
        check_input_count(&self.name, &op, &kind.input_dtypes, edges.len())?;
        check_deprecation(&op, graph.versions().producer)?;
        remove_repeated(&mut self.control_inputs);
        let device = graph.intern_device(&self.device);
        graph.add(NewNode {
            name: self.name,
            kind,
            device,
            inputs: edges,
            control_inputs: self.control_inputs,
        })
    }

    /// Joins what `colocate_with` collected with a `_class` attr that was set by name.
    fn merge_colocations(&mut self) {
        let mut position = 0;
        while position < self.attrs.len() {
            let (name, value) = &self.attrs[position];
            match value {
                AttrValue::List(list) if name == COLOCATION_ATTR => {
                    if let AttrList::String(locations) = &**list {
                        let texts =
                            locations.iter().map(|bytes| String::from_utf8_lossy(bytes).into());
                        self.colocations.extend(texts);
                    }
                    self.attrs.remove(position);
                }
                _ => position += 1,
            }
        }
        if !self.colocations.is_empty() {
            self.attrs.push((COLOCATION_ATTR.into(), AttrValue::strings(&self.colocations)));
        }
    }
}

/// Keeps the first of each of some nodes, in linear time.
fn remove_repeated(nodes: &mut SmallVec<[NodeId; 4]>) {
    if nodes.len() > 1 {
        let mut seen = HashSet::with_capacity(nodes.len());
        nodes.retain(|node| seen.insert(*node));
    }
}

/// The attrs of a node while its inputs settle them.
struct Draft<'a> {
    graph: &'a Graph,
    op: &'a OpDef,
    attrs: Attrs,
    errors: Vec<String>,
}

impl Draft<'_> {
    /// Matches the inputs to the op's arguments and returns all edges.
    fn take_inputs(&mut self, inputs: &[Input]) -> Result<SmallVec<[Edge; 2]>> {
        let mut edges = SmallVec::new();
        let mut bad_outputs = Vec::new();
        for (position, input) in inputs.iter().enumerate() {
            let outputs = match input {
                Input::One(output) => std::slice::from_ref(output),
                Input::List(outputs) => outputs,
            };
            let mut dtypes: SmallVec<[DType; 8]> = SmallVec::with_capacity(outputs.len());
            for &output in outputs {
                match self.graph.output_dtype(output) {
                    Ok(dtype) => dtypes.push(dtype),
                    Err(_) => bad_outputs.push(self.bad_output(output)),
                }
                edges.push(output.into());
            }
            if dtypes.len() < outputs.len() {
                continue;
            }
            match (self.op.inputs.get(position), input) {
                (None, _) => self.errors.push(format!(
                    "More Input() calls than the {} input_args",
                    self.op.inputs.len()
                )),
                (Some(arg), Input::One(_)) => self.take_one(arg, dtypes[0]),
                (Some(arg), Input::List(_)) => self.take_list(arg, &dtypes),
            }
        }
        if bad_outputs.is_empty() { Ok(edges) } else { Err(invalid!("{}", bad_outputs.join("\n"))) }
    }

    fn bad_output(&self, output: OutputRef) -> String {
        let node = self.graph.node(output.node);
        format!(
            "Attempt to add output {} of {} not in range [0, {}) to node with type {}. Node: {{{{node \
             {}}}}}",
            output.index,
            node.name,
            node.num_outputs(),
            self.op.name,
            node.name
        )
    }

    fn take_one(&mut self, arg: &ArgDef, dtype: DType) {
        match &arg.kind {
            ArgKind::Fixed(expected) => self.check_type(arg, *expected, dtype),
            ArgKind::TypeAttr(attr) => {
                self.check_ref(arg, dtype);
                self.set_attr(attr, AttrValue::Type(dtype.base()));
            }
            _ => self.errors.push(format!("Single tensor passed to '{}', expected list", arg.name)),
        }
    }

    fn take_list(&mut self, arg: &ArgDef, dtypes: &[DType]) {
        let count = AttrValue::Int(dtypes.len() as i64);
        match &arg.kind {
            ArgKind::FixedTimes(expected, number) => {
                self.set_attr(number, count);
                dtypes.iter().for_each(|&dtype| self.check_type(arg, *expected, dtype));
            }
            ArgKind::AttrTimes { dtype: attr, number } => {
                self.set_attr(number, count);
                if let Some(first) = dtypes.first() {
                    self.set_attr(attr, AttrValue::Type(first.base()));
                    dtypes.iter().for_each(|&dtype| self.check_type(arg, first.base(), dtype));
                }
            }
            ArgKind::ListAttr(attr) => {
                dtypes.iter().for_each(|&dtype| self.check_ref(arg, dtype));
                self.set_attr(attr, AttrValue::types(dtypes.iter().map(|dtype| dtype.base())));
            }
            ArgKind::Fixed(_) | ArgKind::TypeAttr(_) => self
                .errors
                .push(format!("List provided to input '{}' when single Tensor expected", arg.name)),
        }
    }

    fn check_type(&mut self, arg: &ArgDef, base: DType, actual: DType) {
        let expected = if arg.is_ref { base.make_ref() } else { base };
        if !types_compatible(expected, actual) {
            self.errors.push(format!("Input '{}' passed {actual} expected {expected}", arg.name));
        }
    }

    fn check_ref(&mut self, arg: &ArgDef, actual: DType) {
        if arg.is_ref && !actual.is_ref() {
            self.errors.push(format!("Input '{}' passed {actual} expected ref type", arg.name));
        }
    }

    fn set_attr(&mut self, name: &str, value: AttrValue) {
        match self.attrs.get(name) {
            None => match self.op.attr(name) {
                Some(declared) => self.attrs.set(declared.name.clone(), value),
                None => self.attrs.set(name, value),
            },
            Some(old) if *old == value => {}
            Some(old) => {
                self.errors.push(format!("Inconsistent values for attr '{name}' {old} vs. {value}"))
            }
        }
    }

    fn finish(mut self, name: &str, num_inputs: usize) -> Result<Attrs> {
        if self.errors.is_empty() && num_inputs < self.op.inputs.len() {
            let needed = self.op.inputs.len();
            self.errors.push(format!("{num_inputs} inputs specified of {needed} inputs in Op"));
        }
        if self.errors.is_empty() {
            return Ok(self.attrs);
        }
        // Only now: to write an op's signature takes longer than to build most nodes.
        let context = format!("while building NodeDef '{name}' using {}", self.op);
        let message = match &self.errors[..] {
            [one] => format!("{one} {context}"),
            many => format!("{} errors {context}:\n{}", many.len(), many.join("\n")),
        };
        Err(Error::new(Code::InvalidArgument, message))
    }
}

//! From a `FunctionDef` and the attrs of a call to a graph.
//!
//! A definition names tensors by argument (`x`, or `x:1` in a list) and by output argument of a node
//! (`node:output:1`). Here they become nodes `_Arg` and `_Retval` and the `node:1` of a GraphDef, which is then
//! imported, so that all of the importer's checks apply. Functions that the body calls are not
//! looked into.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use tfcore_base::{DType, Error, Result, internal, invalid, not_found};
use tfcore_framework::{ArgDef, ArgKind, AttrValue, Attrs, OpDef, Registry};
use tfcore_proto::{self as proto, attr_value};

use crate::function::add_line;
use crate::graph::{FunctionBody, GRAPH_VERSION};
use crate::library::{Function, FunctionLibrary};
use crate::{Graph, ImportOptions, NodeId};

/// No body has more arguments, inputs and outputs together; short definitions can ask for more than any
/// memory holds.
const MAX_TENSORS: usize = 1 << 22;

impl FunctionLibrary {
    /// The body of the function `name` for a call with `attrs`.
    ///
    /// # Errors
    /// `NotFound` for an unknown function, op or attr, `InvalidArgument` for a damaged definition, in
    /// the reference's words.
    pub fn instantiate(
        self: &Arc<Self>,
        registry: &Arc<Registry>,
        name: &str,
        attrs: &Attrs,
    ) -> Result<FunctionBody> {
        let function = self.require(name)?;
        check_attrs(function.op(), attrs)?;
        let mut graph = Graph::for_body(registry.clone(), self.clone());

        let mut writer = Writer::new(&graph, function, attrs);
        let args = writer.write_args()?;
        writer.write_nodes()?;
        let rets = writer.write_rets()?;
        let nodes = writer.nodes;

        let versions = proto::VersionDef { producer: GRAPH_VERSION, ..Default::default() };
        let def = proto::GraphDef { node: nodes, versions: Some(versions), ..Default::default() };
        let num_args = args.len();
        let options = ImportOptions {
            allow_internal_ops: true,
            validate_colocation: false,
            validate_shapes: false,
            return_nodes: args.into_iter().chain(rets).collect(),
            ..ImportOptions::default()
        };
        let mut args = graph.import(def, &options)?.return_nodes;
        let rets = args.split_off(num_args);
        let control_rets = control_rets(&graph, function);
        Ok(FunctionBody { graph, args, rets, control_rets, is_stateful: function.op().is_stateful })
    }
}

/// Checks that a call has the attrs that the signature declares.
fn check_attrs(signature: &OpDef, attrs: &Attrs) -> Result<()> {
    for declared in &signature.attrs {
        match attrs.get(&declared.name) {
            Some(value) => value
                .check_type(&declared.type_name)
                .map_err(|error| add_line(error, &format!("for attr '{}'", declared.name)))?,
            None if declared.default.is_none() => {
                return Err(not_found!("Attr {} is not found from {signature}", declared.name));
            }
            None => {}
        }
    }
    Ok(())
}

fn control_rets(graph: &Graph, function: &Function) -> Vec<NodeId> {
    let names: HashSet<&str> = function.def().control_ret.values().map(String::as_str).collect();
    let nodes = graph.nodes().iter().filter(|node| names.contains(node.name.as_str()));
    nodes.map(|node| node.id).collect()
}

/// Where the tensors of an argument or of an output argument are.
struct Tensors {
    source: Source,
    dtypes: Vec<DType>,
}

#[derive(Clone, Copy)]
enum Source {
    /// Output 0 of as many nodes, of which this is the first.
    Args(usize),
    /// Outputs of one node from this index on.
    Outputs { node: usize, first: usize },
}

/// The output arguments of a node of the body.
struct Outputs {
    node: usize,
    by_name: HashMap<String, Tensors>,
}

/// Writes the nodes of the GraphDef.
struct Writer<'a> {
    graph: &'a Graph,
    signature: &'a OpDef,
    def: &'a proto::FunctionDef,
    attrs: &'a Attrs,
    nodes: Vec<proto::NodeDef>,
    args: HashMap<&'a str, Tensors>,
    outputs: HashMap<&'a str, Outputs>,
    num_tensors: usize,
}

impl<'a> Writer<'a> {
    fn new(graph: &'a Graph, function: &'a Function, attrs: &'a Attrs) -> Writer<'a> {
        Writer {
            graph,
            signature: function.op(),
            def: function.def(),
            attrs,
            nodes: Vec::with_capacity(function.def().node_def.len() + 2),
            args: HashMap::new(),
            outputs: HashMap::new(),
            num_tensors: 0,
        }
    }

    /// The `_Arg` nodes; returns their names.
    fn write_args(&mut self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        let signature = self.signature;
        for (position, arg) in signature.inputs.iter().enumerate() {
            self.write_arg(position, arg, &mut names)
                .map_err(|error| add_line(error, &format!("In {arg}")))?;
        }
        Ok(names)
    }

    fn write_arg(
        &mut self,
        position: usize,
        arg: &'a ArgDef,
        names: &mut Vec<String>,
    ) -> Result<()> {
        let dtypes = self.signature_dtypes(arg)?;
        self.count_tensors(dtypes.len())?;
        let first = self.nodes.len();
        for (index, &dtype) in dtypes.iter().enumerate() {
            let name = member_name(&arg.name, index, dtypes.len());
            let dtype = if arg.is_ref { dtype.make_ref() } else { dtype };
            let node = self.boundary_node("_Arg", &name, dtype, names.len());
            self.nodes.push(self.with_arg_attrs(node, position as u32));
            names.push(name);
        }
        let tensors = Tensors { source: Source::Args(first), dtypes };
        match self.args.insert(&arg.name, tensors) {
            None => Ok(()),
            Some(_) => Err(invalid!("Duplicated arg name: {}", arg.name)),
        }
    }

    fn with_arg_attrs(&self, mut node: proto::NodeDef, position: u32) -> proto::NodeDef {
        if let Some(&id) = self.def.resource_arg_unique_id.get(&position) {
            let id = AttrValue::Int(id.into()).to_proto();
            node.attr.insert("_resource_arg_unique_id".to_string(), id);
        }
        if let Some(more) = self.def.arg_attr.get(&position) {
            let more = more.attr.iter().map(|(name, value)| (name.clone(), value.clone()));
            node.attr.extend(more);
        }
        node
    }

    /// The nodes of the body.
    fn write_nodes(&mut self) -> Result<()> {
        let first = self.nodes.len();
        let mut ops = Vec::with_capacity(self.def.node_def.len());
        for node in &self.def.node_def {
            let attr = self.bind_attrs(node)?;
            let op = self.graph.find_op(&node.op);
            ops.push(op.ok_or_else(|| not_found!("{}", Graph::unknown_op(&node.op)))?);
            self.nodes.push(proto::NodeDef {
                name: node.name.clone(),
                op: node.op.clone(),
                device: node.device.clone(),
                experimental_debug_info: node.experimental_debug_info.clone(),
                experimental_type: node.experimental_type.clone(),
                input: Vec::new(),
                attr,
            });
        }
        for (offset, (node, op)) in self.def.node_def.iter().zip(&ops).enumerate() {
            let indexed = self.index_outputs(node, op, first + offset);
            indexed.map_err(|error| in_node(error, node))?;
        }
        for (offset, (node, op)) in self.def.node_def.iter().zip(&ops).enumerate() {
            let inputs = self.inputs_of(node, op, &self.nodes[first + offset].attr);
            let inputs = inputs.map_err(|error| in_node(error, node))?;
            self.count_tensors(inputs.len())?;
            self.nodes[first + offset].input = inputs;
        }
        Ok(())
    }

    /// The attrs of a node with placeholders replaced.
    fn bind_attrs(&self, node: &proto::NodeDef) -> Result<BTreeMap<String, proto::AttrValue>> {
        let mut attr = node.attr.clone();
        for value in attr.values_mut() {
            if !self.bind(value) {
                return Err(invalid!(
                    "Failed to bind all placeholders in {}",
                    AttrValue::from_proto(value.clone())
                ));
            }
        }
        Ok(attr)
    }

    /// Replaces the placeholders in a value; false if there is nothing to put in the place of one.
    fn bind(&self, value: &mut proto::AttrValue) -> bool {
        use attr_value::Value;
        match &mut value.value {
            Some(Value::Placeholder(name)) => match self.signature_attr(name) {
                Some(bound) => *value = bound.to_proto(),
                None => return false,
            },
            Some(Value::Func(func)) => return func.attr.values_mut().all(|value| self.bind(value)),
            Some(Value::List(list)) => {
                let mut values = list.func.iter_mut().flat_map(|func| func.attr.values_mut());
                return values.all(|value| self.bind(value));
            }
            _ => {}
        }
        true
    }

    /// What the call or the signature's default says of an attr.
    fn signature_attr(&self, name: &str) -> Option<AttrValue> {
        let default = || self.signature.attr(name)?.default.as_ref();
        self.attrs.get(name).or_else(default).cloned()
    }

    fn signature_dtypes(&self, arg: &ArgDef) -> Result<Vec<DType>> {
        let dtypes = dtypes_of(arg, |name| self.signature_attr(name))?;
        match dtypes.is_empty() {
            true => Err(internal!("Expected a list of at least one dtype")),
            false => Ok(dtypes),
        }
    }

    /// Notes where the outputs of node number `position` are.
    fn index_outputs(
        &mut self,
        node: &'a proto::NodeDef,
        op: &OpDef,
        position: usize,
    ) -> Result<()> {
        let mut outputs = Outputs { node: position, by_name: HashMap::new() };
        let mut first = 0;
        for arg in &op.outputs {
            let dtypes = dtypes_of(arg, node_attr(op, &self.nodes[position].attr))?;
            let source = Source::Outputs { node: position, first };
            first += dtypes.len();
            self.count_tensors(dtypes.len())?;
            let tensors = Tensors { source, dtypes };
            if outputs.by_name.insert(arg.name.clone(), tensors).is_some() {
                return Err(invalid!("Duplicated ret name: {}:{}", node.name, arg.name));
            }
        }
        if op.outputs.is_empty() && self.args.contains_key(&*node.name) {
            return Err(invalid!("Duplicated ret name: {}", node.name));
        }
        if self.outputs.insert(&node.name, outputs).is_some() {
            let output = op.outputs.first().map_or(String::new(), |arg| format!(":{}", arg.name));
            return Err(invalid!("Duplicated ret name: {}{output}", node.name));
        }
        Ok(())
    }

    /// The inputs of a node as a GraphDef writes them.
    fn inputs_of(
        &self,
        node: &proto::NodeDef,
        op: &OpDef,
        attrs: &BTreeMap<String, proto::AttrValue>,
    ) -> Result<Vec<String>> {
        let mut inputs = Vec::with_capacity(node.input.len());
        let mut position = 0;
        for arg in &op.inputs {
            let expected = dtypes_of(arg, node_attr(op, attrs))?;
            let mut filled = 0;
            while filled < expected.len() {
                let Some(name) = node.input.get(position) else {
                    return Err(invalid!(
                        "Attempt to access beyond input size: {position} >= {}",
                        node.input.len()
                    ));
                };
                position += 1;
                let Some((source, actual)) = self.find(name) else {
                    return Err(invalid!("input {name} is not found: {{{{node {}}}}}", node.name));
                };
                if actual.len() > expected.len() - filled {
                    return Err(invalid!("Input {name} too long for {}", arg.name));
                }
                for (index, (&expected, &actual)) in
                    expected[filled..].iter().zip(actual).enumerate()
                {
                    if expected != actual {
                        return Err(invalid!(
                            "input {}[{}] expected type {expected} != {actual}, the type of \
                             {name}[{index}]",
                            arg.name,
                            filled + index
                        ));
                    }
                }
                inputs.extend((0..actual.len()).map(|index| self.input_text(source, index)));
                filled += actual.len();
            }
        }
        for (index, text) in node.input.iter().enumerate().skip(position) {
            let Some(name) = text.strip_prefix('^') else {
                return Err(invalid!("Expected input[{index}] == '{text}' to be a control input."));
            };
            let Some(position) = self.find_node(name) else {
                return Err(invalid!("input[{index}] == '{text}', is not found."));
            };
            inputs.push(format!("^{}", self.nodes[position].name));
        }
        Ok(inputs)
    }

    /// The `_Retval` nodes; returns their names.
    fn write_rets(&mut self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for ret in &self.signature.outputs {
            self.write_ret(ret, &mut names)
                .map_err(|error| add_line(error, &format!("In function output {ret}")))?;
        }
        Ok(names)
    }

    fn write_ret(&mut self, ret: &ArgDef, names: &mut Vec<String>) -> Result<()> {
        let Some(text) = self.def.ret.get(&ret.name) else {
            return Err(invalid!("Return {} missing.", ret.name));
        };
        let expected = self.signature_dtypes(ret)?;
        let Some((source, actual)) = self.find(text) else {
            return Err(invalid!("Return {} -> {text} is not found.", ret.name));
        };
        if expected != actual {
            return Err(invalid!(
                "Invalid ret types {} : {} vs. {}",
                ret.name,
                dtypes_text(&expected),
                dtypes_text(actual)
            ));
        }
        self.count_tensors(expected.len())?;
        for (index, &dtype) in expected.iter().enumerate() {
            let name = member_name(&format!("{}_RetVal", ret.name), index, expected.len());
            let mut node = self.boundary_node("_Retval", &name, dtype, names.len());
            node.input.push(self.input_text(source, index));
            self.nodes.push(node);
            names.push(name);
        }
        Ok(())
    }

    fn boundary_node(&self, op: &str, name: &str, dtype: DType, index: usize) -> proto::NodeDef {
        let attr = [
            ("T".to_string(), AttrValue::Type(dtype).to_proto()),
            ("index".to_string(), AttrValue::Int(index as i64).to_proto()),
        ];
        proto::NodeDef {
            name: name.to_string(),
            op: op.to_string(),
            attr: attr.into(),
            ..Default::default()
        }
    }

    /// The tensors that `x`, `x:1`, `node:output` or `node:output:1` stands for; `node` where it has no
    /// outputs.
    fn find(&self, text: &str) -> Option<(Source, &[DType])> {
        let (name, rest) = match text.split_once(':') {
            Some((name, rest)) => (name, Some(rest)),
            None => (text, None),
        };
        if let Some(tensors) = self.args.get(name) {
            match rest {
                None => return Some((tensors.source, &tensors.dtypes)),
                Some(index) => {
                    if let Some(found) = tensors.member(index) {
                        return Some(found);
                    }
                }
            }
        }
        let outputs = self.outputs.get(name)?;
        let Some(rest) = rest else {
            let source = Source::Outputs { node: outputs.node, first: 0 };
            return outputs.by_name.is_empty().then_some((source, &[][..]));
        };
        match rest.split_once(':') {
            None => outputs.by_name.get(rest).map(|tensors| (tensors.source, &*tensors.dtypes)),
            Some((output, index)) => outputs.by_name.get(output)?.member(index),
        }
    }

    /// The position of the node, or of the first node of the argument, that has this name.
    fn find_node(&self, name: &str) -> Option<usize> {
        match self.args.get(name).map(|tensors| tensors.source) {
            Some(Source::Args(first)) => Some(first),
            _ => self.outputs.get(name).map(|outputs| outputs.node),
        }
    }

    fn input_text(&self, source: Source, index: usize) -> String {
        match source {
            Source::Args(first) => self.nodes[first + index].name.clone(),
            Source::Outputs { node, first } => match first + index {
                0 => self.nodes[node].name.clone(),
                output => format!("{}:{output}", self.nodes[node].name),
            },
        }
    }

    fn count_tensors(&mut self, more: usize) -> Result<()> {
        self.num_tensors += more;
        match self.num_tensors > MAX_TENSORS {
            true => Err(invalid!(
                "Function {} has more than {MAX_TENSORS} arguments, inputs and outputs",
                self.signature.name
            )),
            false => Ok(()),
        }
    }
}

impl Tensors {
    /// The tensor whose index stands in a text.
    fn member(&self, index: &str) -> Option<(Source, &[DType])> {
        let number: usize = index.parse().ok()?;
        // No sign and no leading zeros.
        if number.to_string() != index {
            return None;
        }
        let dtype = self.dtypes.get(number..=number)?;
        let source = match self.source {
            Source::Args(first) => Source::Args(first + number),
            Source::Outputs { node, first } => Source::Outputs { node, first: first + number },
        };
        Some((source, dtype))
    }
}

/// The base dtypes of the tensors of an argument of a node or call whose attrs `attr` looks up.
fn dtypes_of(arg: &ArgDef, attr: impl Fn(&str) -> Option<AttrValue>) -> Result<Vec<DType>> {
    let mut attrs = Attrs::new();
    let mut take = |name: &Arc<str>, what: &str| match attr(name) {
        Some(value) => {
            attrs.set(name.clone(), value);
            Ok(())
        }
        None => Err(not_found!("{what} attr not found: {name}")),
    };
    match &arg.kind {
        ArgKind::Fixed(_) => {}
        ArgKind::TypeAttr(dtype) => take(dtype, "type")?,
        ArgKind::FixedTimes(_, number) => take(number, "number")?,
        ArgKind::AttrTimes { dtype, number } => {
            take(number, "number")?;
            take(dtype, "type")?;
        }
        ArgKind::ListAttr(dtypes) => take(dtypes, "type list")?,
    }
    let mut dtypes = Vec::new();
    arg.append_dtypes(&attrs, &mut dtypes)?;
    dtypes.iter_mut().for_each(|dtype| *dtype = dtype.base());
    Ok(dtypes)
}

/// Looks attrs up in a node, and defaults in its op.
fn node_attr<'n>(
    op: &'n OpDef,
    attrs: &'n BTreeMap<String, proto::AttrValue>,
) -> impl Fn(&str) -> Option<AttrValue> + 'n {
    |name| match attrs.get(name) {
        Some(value) => Some(AttrValue::from_proto(value.clone())),
        None => op.attr(name)?.default.clone(),
    }
}

/// `x` for the only tensor of an argument, `x_0` and so on for several.
fn member_name(arg: &str, index: usize, len: usize) -> String {
    if len == 1 { arg.to_string() } else { format!("{arg}_{index}") }
}

fn dtypes_text(dtypes: &[DType]) -> String {
    dtypes.iter().map(|dtype| dtype.name()).collect::<Vec<_>>().join(", ")
}

fn in_node(error: Error, node: &proto::NodeDef) -> Error {
    add_line(error, &format!("In {{{{node {}}}}}", node.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tfcore_base::Code;

    fn function(text: FunctionText<'_>) -> Arc<FunctionLibrary> {
        let mut library = FunctionLibrary::default();
        let function = Arc::new(Function::new(text.to_def()).unwrap());
        library.add(&Registry::new(), function).unwrap();
        Arc::new(library)
    }

    /// A function in short: `x:T` or `xs:N*T` or `xs:Tlist` for arguments, `name op input...` for nodes.
    #[derive(Default, Clone, Copy)]
    struct FunctionText<'a> {
        attrs: &'a [(&'a str, &'a str)],
        inputs: &'a [&'a str],
        outputs: &'a [&'a str],
        nodes: &'a [&'a str],
        ret: &'a [(&'a str, &'a str)],
        control_ret: &'a [&'a str],
    }

    impl FunctionText<'_> {
        fn to_def(self) -> proto::FunctionDef {
            let strings = |pairs: &[(&str, &str)]| {
                pairs.iter().map(|(a, b)| (a.to_string(), b.to_string())).collect()
            };
            let attr = |(name, type_name): &(&str, &str)| proto::op_def::AttrDef {
                name: name.to_string(),
                r#type: type_name.to_string(),
                ..Default::default()
            };
            let signature = proto::OpDef {
                name: "F".into(),
                input_arg: self.inputs.iter().map(|text| arg(text)).collect(),
                output_arg: self.outputs.iter().map(|text| arg(text)).collect(),
                attr: self.attrs.iter().map(attr).collect(),
                ..Default::default()
            };
            proto::FunctionDef {
                signature: Some(signature),
                node_def: self.nodes.iter().map(|text| node(text)).collect(),
                ret: strings(self.ret),
                control_ret: self
                    .control_ret
                    .iter()
                    .map(|name| (name.to_string(), name.to_string()))
                    .collect(),
                ..Default::default()
            }
        }
    }

    fn arg(text: &str) -> proto::op_def::ArgDef {
        let (name, kind) = text.split_once(':').unwrap();
        let mut arg = proto::op_def::ArgDef { name: name.into(), ..Default::default() };
        let dtype = match kind.split_once('*') {
            Some((number, dtype)) => {
                arg.number_attr = number.into();
                dtype
            }
            None => kind,
        };
        match dtype {
            "float" => arg.r#type = DType::FLOAT.to_i32(),
            "int32" => arg.r#type = DType::INT32.to_i32(),
            list if list.ends_with("list") => arg.type_list_attr = list.into(),
            other => arg.type_attr = other.into(),
        }
        arg
    }

    /// `T` and `N` of a node are those of the function.
    fn node(text: &str) -> proto::NodeDef {
        let mut words = text.split(' ').map(str::to_string);
        let mut node = proto::NodeDef {
            name: words.next().unwrap(),
            op: words.next().unwrap(),
            input: words.collect(),
            ..Default::default()
        };
        let attrs: &[&str] = match &*node.op {
            "AddN" => &["N", "T"],
            "NoOp" => &[],
            "IdentityN" => &["Tlist"],
            _ => &["T"],
        };
        for name in attrs {
            let value = AttrValue::Placeholder((*name).into()).to_proto();
            let name = if *name == "Tlist" { "T" } else { name };
            node.attr.insert(name.to_string(), value);
        }
        node
    }

    fn attrs() -> Attrs {
        [
            ("T", AttrValue::Type(DType::FLOAT)),
            ("N", AttrValue::Int(2)),
            ("Tlist", AttrValue::types([DType::FLOAT, DType::INT32])),
        ]
        .into_iter()
        .collect()
    }

    /// The nodes of a body as `name op input...`.
    fn lines(graph: &Graph) -> Vec<String> {
        let line = |node: proto::NodeDef| {
            format!("{} {} {}", node.name, node.op, node.input.join(" ")).trim_end().to_string()
        };
        graph.to_proto().node.into_iter().map(line).collect()
    }

    #[test]
    fn bodies_are_graphs() {
        let cases = [
            (
                FunctionText {
                    attrs: &[("T", "type")],
                    inputs: &["x:T"],
                    outputs: &["y:T"],
                    nodes: &["n Neg x", "m Neg n:y:0 ^x ^n", "e NoOp ^m"],
                    ret: &[("y", "m:y")],
                    control_ret: &["e"],
                },
                &["x _Arg", "n Neg x", "m Neg n ^x ^n", "e NoOp ^m", "y_RetVal _Retval m"][..],
            ),
            (
                FunctionText {
                    attrs: &[("T", "type"), ("N", "int")],
                    inputs: &["xs:N*T"],
                    outputs: &["all:N*T", "sum:T", "second:T"],
                    nodes: &["s AddN xs", "t AddN xs:1 xs:0"],
                    ret: &[("all", "xs"), ("sum", "t:sum:0"), ("second", "xs:1")],
                    ..Default::default()
                },
                &[
                    "xs_0 _Arg",
                    "xs_1 _Arg",
                    "all_RetVal_0 _Retval xs_0",
                    "all_RetVal_1 _Retval xs_1",
                    "s AddN xs_0 xs_1",
                    "second_RetVal _Retval xs_1",
                    "sum_RetVal _Retval t",
                    "t AddN xs_1 xs_0",
                ],
            ),
            (
                FunctionText {
                    attrs: &[("Tlist", "list(type)")],
                    inputs: &["xs:Tlist"],
                    outputs: &["ys:Tlist", "z:int32"],
                    nodes: &["i IdentityN xs"],
                    ret: &[("ys", "i:output"), ("z", "i:output:1")],
                    ..Default::default()
                },
                &[
                    "i IdentityN xs_0 xs_1",
                    "xs_0 _Arg",
                    "xs_1 _Arg",
                    "ys_RetVal_0 _Retval i",
                    "ys_RetVal_1 _Retval i:1",
                    "z_RetVal _Retval i:1",
                ],
            ),
        ];
        for (text, expected) in cases {
            let body = function(text).instantiate(&Arc::new(Registry::new()), "F", &attrs());
            let body = body.unwrap_or_else(|error| panic!("{:?}: {error}", text.nodes));
            let mut expected: Vec<&str> = expected.to_vec();
            expected.sort_unstable();
            let mut actual = lines(&body.graph);
            actual.sort_unstable();
            assert_eq!(actual, expected);
            for (position, &arg) in body.args.iter().enumerate() {
                let node = body.graph.node(arg);
                assert_eq!(
                    (&*node.op.name, node.attrs.int("index")),
                    ("_Arg", Ok(position as i64))
                );
            }
            for (position, &ret) in body.rets.iter().enumerate() {
                assert_eq!(body.graph.node(ret).attrs.int("index"), Ok(position as i64));
            }
            assert_eq!(body.control_rets.len(), text.control_ret.len());
        }
    }

    #[test]
    fn damaged_definitions_are_errors() {
        let good = FunctionText {
            attrs: &[("T", "type")],
            inputs: &["x:T"],
            outputs: &["y:T"],
            nodes: &["n Neg x"],
            ret: &[("y", "n:y:0")],
            control_ret: &[],
        };
        let nodes = |nodes| FunctionText { nodes, ..good };
        let cases = [
            (nodes(&["n Neg nope"]), "input nope is not found: {{node n}}\n\tIn {{node n}}"),
            (nodes(&["n Neg n"]), "input n is not found"),
            (nodes(&["n Neg x:1"]), "input x:1 is not found"),
            (nodes(&["n Neg x:00"]), "input x:00 is not found"),
            (nodes(&["n Neg"]), "Attempt to access beyond input size: 0 >= 0"),
            (nodes(&["n Neg x x"]), "Expected input[1] == 'x' to be a control input."),
            (nodes(&["n Neg x ^z"]), "input[1] == '^z', is not found."),
            (nodes(&["n Neg x", "n Neg x"]), "Duplicated ret name: n:y"),
            (nodes(&["n Neg m:y:0", "m Neg n:y:0"]), "3 nodes in a cycle"),
            (nodes(&["n Neg n:y:0"]), "2 nodes in a cycle"),
            (nodes(&["x Neg x", "n Neg x"]), "Node 'x' is not unique"),
            (nodes(&["x NoOp", "n Neg x"]), "Duplicated ret name: x"),
            (nodes(&["n NoSuchOp x"]), "Op type not registered 'NoSuchOp'"),
            (nodes(&["n AddN x"]), "Failed to bind all placeholders in $N"),
            (FunctionText { ret: &[], ..good }, "Return y missing.\n\tIn function output y:T"),
            (FunctionText { ret: &[("y", "z")], ..good }, "Return y -> z is not found."),
            (
                FunctionText { outputs: &["y:int32"], ..good },
                "Invalid ret types y : int32 vs. float",
            ),
            (
                FunctionText { inputs: &["x:int32"], ..good },
                "input x[0] expected type float != int32, the type of x[0]",
            ),
            (FunctionText { inputs: &["x:U"], ..good }, "type attr not found: U\n\tIn x:U"),
        ];
        let attrs: Attrs = [("T", AttrValue::Type(DType::FLOAT))].into_iter().collect();
        let registry = Arc::new(Registry::new());
        function(good).instantiate(&registry, "F", &attrs).map(drop).unwrap();
        for (text, expected) in cases {
            let error = function(text).instantiate(&registry, "F", &attrs).map(drop);
            let error = error.expect_err(expected);
            assert!(error.message().contains(expected), "{expected}: {error}");
        }
        let error = function(good).instantiate(&registry, "G", &attrs).map(drop).unwrap_err();
        assert_eq!((error.code(), error.message()), (Code::NotFound, "Function G is not defined."));
        let error = function(good).instantiate(&registry, "F", &Attrs::new()).map(drop);
        let message = "Attr T is not found from Op<name=F; signature=x:T -> y:T; attr=T:type>";
        assert_eq!(error.unwrap_err().message(), message);
    }
}

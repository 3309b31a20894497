//! Partition graphs: what a request runs, as one graph for each device, with a pair of `_Send` and `_Recv` wherever a value
//! passes from one to another.
//!
//! They are there to be looked at: a plan runs the nodes of all devices together. Names and attrs are the reference's, as are
//! the numbers in them, which come from counting edges and new nodes. Loops that span devices are divided as everything
//! else is.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

use tfcore_base::DType;
use tfcore_framework::AttrValue;
use tfcore_graph::{NodeId, OutputRef, parse_tensor};
use tfcore_proto as proto;
use tfcore_tensor::{Shape, Tensor};

use crate::graph::PlanGraph;

/// The reference counts the edges of a graph from here.
const FIRST_EDGE: usize = 3;

/// Constants of so many elements go to every device that reads them.
const MAX_REPLICATED: usize = 16;

/// What the graphs are made from.
pub struct Partition<'s> {
    /// After pruning: the nodes that run are those of the client's graph.
    pub graph: &'s PlanGraph<'s>,
    /// The names of the devices.
    pub devices: &'s [&'s str],
    pub versions: &'s proto::VersionDef,
    /// Whether nodes are to have the attrs of the client's graph: constants are copied for them.
    pub with_attrs: bool,
}

/// One graph for each device on which something runs.
pub fn partition_graphs(source: &Partition<'_>) -> Vec<proto::GraphDef> {
    let whole = Whole::new(source);
    let mut division = Division { devices: source.devices, ..Division::default() };
    for item in whole.items.iter().filter(|item| !item.is_left_out) {
        division.add(item, &whole.items);
    }
    let graph = |part: Part| proto::GraphDef {
        node: sorted(part.nodes),
        versions: Some(source.versions.clone()),
        library: Some(proto::FunctionDefLibrary::default()),
        ..Default::default()
    };
    division.parts.into_iter().map(graph).collect()
}

type Attrs = BTreeMap<String, proto::AttrValue>;

/// The graph before it is divided: the needed nodes in the order of the client's graph, then what is fed, then what is
/// fetched, then copies of constants.
struct Whole<'s> {
    items: Vec<Item<'s>>,
    num_needed: usize,
    num_args: usize,
    next_edge: usize,
}

struct Item<'s> {
    name: String,
    op: &'s str,
    device: u16,
    attrs: Attrs,
    output_dtypes: Vec<DType>,
    inputs: Vec<Input>,
    /// Whether it is in no graph: copies stand for it, or nobody reads what is fed.
    is_left_out: bool,
}

#[derive(Clone)]
struct Input {
    /// The number of the item.
    from: usize,
    /// `None` for a control edge.
    port: Option<usize>,
    /// The number of the edge.
    edge: usize,
}

impl<'s> Whole<'s> {
    fn new(source: &Partition<'s>) -> Whole<'s> {
        let mut needed = source.graph.order.clone();
        needed.sort_unstable();
        let args = by_name(source, source.graph.source.args);
        let mut numbers: HashMap<NodeId, usize> = HashMap::with_capacity(needed.len());
        numbers.extend(needed.iter().enumerate().map(|(number, &id)| (id, number)));
        let mut arg_numbers: HashMap<OutputRef, usize> = HashMap::with_capacity(args.len());
        arg_numbers.extend(args.iter().enumerate().map(|(k, &arg)| (arg, needed.len() + k)));
        let input = |output: OutputRef| {
            let port = (!output.is_control()).then(|| output.port());
            let from = arg_numbers.get(&output).or_else(|| numbers.get(&output.node));
            from.map(|&from| Input { from, port, edge: 0 })
        };
        let mut items: Vec<Item<'s>> = Vec::with_capacity(needed.len() + args.len());
        for id in &needed {
            let node = source.graph.node(*id);
            let data = node.inputs.iter().map(|edge| edge.source);
            let mut controls = node.control_inputs.to_vec();
            controls.sort_by_cached_key(|id| source.graph.node(*id).name.to_string());
            let controls = controls.into_iter().map(OutputRef::control);
            items.push(Item {
                name: node.name.to_string(),
                op: &node.op.name,
                device: source.graph.device(node.id),
                attrs: if source.with_attrs { node.attrs.to_proto() } else { Attrs::new() },
                output_dtypes: node.output_dtypes.iter().map(|dtype| dtype.base()).collect(),
                inputs: data.chain(controls).filter_map(input).collect(),
                is_left_out: false,
            });
        }
        for (index, &arg) in args.iter().enumerate() {
            items.push(boundary(source, "_Arg", "_arg", arg, index));
        }
        for (index, result) in by_name(source, source.graph.source.results).into_iter().enumerate()
        {
            let mut item = boundary(source, "_Retval", "_retval", result, index);
            item.inputs.extend(input(result));
            items.push(item);
        }
        let has_refs =
            needed.iter().any(|id| source.graph.node(*id).output_dtypes.iter().any(|d| d.is_ref()));
        for item in &mut items {
            item.attrs.insert("_XlaHasReferenceVars".into(), AttrValue::Bool(has_refs).to_proto());
        }
        let (num_needed, num_args) = (needed.len(), args.len());
        let mut whole = Whole { items, num_needed, num_args, next_edge: FIRST_EDGE };
        whole.leave_out(source, &needed);
        whole.number_edges();
        whole.copy_constants();
        whole
    }

    /// Leaves out what is fed to nobody, and the constants that are small and read, as data only, on several devices.
    fn leave_out(&mut self, source: &Partition<'_>, needed: &[NodeId]) {
        let mut readers: Vec<Option<u16>> = vec![None; self.items.len()];
        let mut is_wanted = vec![false; self.items.len()];
        let mut is_followed = vec![false; self.items.len()];
        for item in &self.items {
            for input in &item.inputs {
                let known = *readers[input.from].get_or_insert(item.device);
                is_wanted[input.from] |= known != item.device;
                is_followed[input.from] |= input.port.is_none();
            }
        }
        for arg in needed.len()..needed.len() + self.num_args {
            self.items[arg].is_left_out = readers[arg].is_none();
        }
        for (number, id) in needed.iter().enumerate() {
            let node = source.graph.node(*id);
            let is_small = || {
                let tensor = node.attrs.tensor("value").and_then(|value| value.tensor());
                tensor.is_ok_and(|tensor| tensor.count() <= MAX_REPLICATED)
            };
            self.items[number].is_left_out =
                node.is_const() && is_wanted[number] && !is_followed[number] && is_small();
        }
    }

    /// Numbers the edges as the reference comes across them. Those of constants that are to be copied come later.
    fn number_edges(&mut self) {
        let (num_needed, num_args) = (self.num_needed, self.num_args);
        let is_replaced: Vec<bool> = self.items.iter().map(|item| item.is_left_out).collect();
        let (mut reads, mut is_read) = (vec![false; num_needed], vec![false; num_needed]);
        let mut next = self.next_edge;
        let mut number = |edge: &mut usize| {
            *edge = next;
            next += 1;
        };
        for (reader, item) in self.items[..num_needed].iter_mut().enumerate() {
            for input in item.inputs.iter_mut().filter(|input| input.from < num_needed) {
                reads[reader] = true;
                is_read[input.from] = true;
                if !is_replaced[reader] && !is_replaced[input.from] {
                    number(&mut input.edge);
                }
            }
        }
        // Loose ends are tied to a source and a sink.
        for is_tied in [&reads, &is_read] {
            let ends = is_tied.iter().zip(&is_replaced);
            ends.filter(|(tied, replaced)| !**tied && !**replaced).for_each(|_| number(&mut 0));
        }
        let readers = self.readers();
        let (inner, results) = self.items.split_at_mut(num_needed + num_args);
        for arg in num_needed..num_needed + num_args {
            for &reader in readers[arg].iter().filter(|reader| **reader < num_needed) {
                let inputs = inner[reader].inputs.iter_mut();
                inputs.filter(|input| input.from == arg).for_each(|input| number(&mut input.edge));
            }
            number(&mut 0);
        }
        for input in results.iter_mut().flat_map(|item| &mut item.inputs) {
            if !is_replaced[input.from] {
                number(&mut input.edge);
            }
            number(&mut 0);
        }
        self.next_edge = next;
    }

    /// For each item the numbers of those that it is read by or that run after it, in order.
    fn readers(&self) -> Vec<Vec<usize>> {
        let mut readers: Vec<Vec<usize>> = vec![Vec::new(); self.items.len()];
        for (reader, item) in self.items.iter().enumerate() {
            for input in &item.inputs {
                if readers[input.from].last() != Some(&reader) {
                    readers[input.from].push(reader);
                }
            }
        }
        readers
    }

    /// Adds a copy of each marked constant for each device that reads it.
    fn copy_constants(&mut self) {
        let readers = self.readers();
        for constant in 0..self.num_needed {
            if !self.items[constant].is_left_out {
                continue;
            }
            let mut copies: Vec<(u16, usize)> = Vec::new();
            for &reader in &readers[constant] {
                let device = self.items[reader].device;
                let known = copies.iter().find(|(known, _)| *known == device);
                let copy = match known {
                    Some(&(_, copy)) => copy,
                    None => {
                        copies.push((device, self.items.len()));
                        self.copy(constant, device)
                    }
                };
                let inputs = self.items[reader].inputs.iter_mut();
                for input in inputs.filter(|input| input.from == constant) {
                    *input = Input { from: copy, port: Some(0), edge: self.next_edge };
                    self.next_edge += 1;
                }
            }
            for (_, copy) in copies {
                for input in &mut self.items[copy].inputs {
                    input.edge = self.next_edge;
                    self.next_edge += 1;
                }
            }
        }
    }

    /// Adds a copy of a constant and returns its number.
    fn copy(&mut self, constant: usize, device: u16) -> usize {
        let item = &self.items[constant];
        let copy = Item {
            name: format!("{}/replicate/_{device}", item.name),
            op: item.op,
            device,
            attrs: item.attrs.clone(),
            output_dtypes: item.output_dtypes.clone(),
            inputs: item.inputs.clone(),
            is_left_out: false,
        };
        self.items.push(copy);
        self.items.len() - 1
    }
}

/// What is fed, or fetched, in the order of the names.
fn by_name(source: &Partition<'_>, outputs: &[OutputRef]) -> Vec<OutputRef> {
    let mut outputs = outputs.to_vec();
    let name =
        |output: &OutputRef| format!("{}:{}", source.graph.node(output.node).name, output.index);
    outputs.sort_by_cached_key(name);
    outputs
}

/// The node for something that comes from the client, or goes to it: on the first device.
fn boundary<'s>(
    source: &Partition<'_>,
    op: &'s str,
    prefix: &str,
    output: OutputRef,
    index: usize,
) -> Item<'s> {
    let node = source.graph.node(output.node);
    let dtype = node.output_dtypes[output.port()].base();
    Item {
        name: format!("{prefix}_{}_{}_{index}", node.name, output.index),
        op,
        device: 0,
        attrs: attrs([("T", AttrValue::Type(dtype)), ("index", AttrValue::Int(index as i64))]),
        output_dtypes: vec![dtype],
        inputs: Vec::new(),
        is_left_out: false,
    }
}

/// The graphs as they grow.
#[derive(Default)]
struct Division<'s> {
    devices: &'s [&'s str],
    parts: Vec<Part>,
    /// How what an item sends is called on the device that receives it.
    received: HashMap<(usize, Option<usize>, u16), String>,
    /// How many nodes have been added.
    num_added: usize,
}

struct Part {
    device: u16,
    nodes: Vec<proto::NodeDef>,
}

impl Division<'_> {
    fn add(&mut self, item: &Item<'_>, items: &[Item<'_>]) {
        self.part(item.device);
        let mut input = Vec::with_capacity(item.inputs.len());
        for edge in &item.inputs {
            input.push(match items[edge.from].device == item.device {
                true => reference(&items[edge.from].name, edge.port),
                false => self.transfer(edge, &items[edge.from], item),
            });
        }
        let (op, attr) = (item.op, item.attrs.clone());
        self.push(item.device, item.name.clone(), op, input, attr);
    }

    /// Has `from` send to the device of `to`, unless it does already. Returns what `to` reads there.
    fn transfer(&mut self, edge: &Input, from: &Item<'_>, to: &Item<'_>) -> String {
        let key = (edge.from, edge.port, to.device);
        if let Some(known) = self.received.get(&key) {
            return known.clone();
        }
        let mut sent = reference(&from.name, edge.port);
        let mut dtype = DType::FLOAT;
        match edge.port {
            Some(port) => dtype = from.output_dtypes[port],
            // An edge without a value carries an empty one.
            None => {
                let name = self.new_name(&format!("{}/ctrl", from.name));
                let empty = Tensor::zeros(dtype, Shape::vector(0));
                let mut attrs = attrs([("dtype", AttrValue::Type(dtype))]);
                attrs.extend(
                    empty
                        .ok()
                        .map(|empty| ("value".to_string(), AttrValue::tensor(empty).to_proto())),
                );
                self.push(from.device, name.clone(), "Const", vec![sent], attrs);
                sent = name;
            }
        }
        let name = |device: u16| self.devices[usize::from(device)];
        let common = attrs([
            ("tensor_name", AttrValue::string(format!("edge_{}_{}", edge.edge, from.name))),
            ("send_device", AttrValue::string(name(from.device))),
            ("recv_device", AttrValue::string(name(to.device))),
            ("send_device_incarnation", AttrValue::Int(1)),
            ("client_terminated", AttrValue::Bool(false)),
            ("_src", AttrValue::string(&from.name)),
            ("_dst", AttrValue::string(&to.name)),
        ]);
        let with_type = |attr: &str| {
            let mut attrs = common.clone();
            attrs.insert(attr.to_string(), AttrValue::Type(dtype).to_proto());
            attrs
        };
        let (send_attrs, receive_attrs) = (with_type("T"), with_type("tensor_type"));
        let send = self.new_name(&from.name);
        self.push(from.device, send, "_Send", vec![sent], send_attrs);
        let mut received = self.new_name(&from.name);
        self.push(to.device, received.clone(), "_Recv", Vec::new(), receive_attrs);
        if edge.port.is_none() {
            let name = self.new_name(&from.name);
            let attrs = attrs([("T", AttrValue::Type(dtype))]);
            self.push(to.device, name.clone(), "Identity", vec![received], attrs);
            received = format!("^{name}");
        }
        self.received.insert(key, received.clone());
        received
    }

    fn new_name(&mut self, prefix: &str) -> String {
        self.num_added += 1;
        format!("{prefix}/_{}", self.num_added - 1)
    }

    fn part(&mut self, device: u16) -> &mut Part {
        let known = self.parts.iter().position(|part| part.device == device);
        let index = known.unwrap_or(self.parts.len());
        if known.is_none() {
            self.parts.push(Part { device, nodes: Vec::new() });
        }
        &mut self.parts[index]
    }

    fn push(&mut self, device: u16, name: String, op: &str, input: Vec<String>, attr: Attrs) {
        let node = proto::NodeDef {
            name,
            op: op.to_string(),
            input,
            device: self.devices[usize::from(device)].to_string(),
            attr,
            ..Default::default()
        };
        self.part(device).nodes.push(node);
    }
}

/// An input as a node names it.
fn reference(name: &str, port: Option<usize>) -> String {
    match port {
        None => format!("^{name}"),
        Some(0) => name.to_string(),
        Some(port) => format!("{name}:{port}"),
    }
}

fn attrs<const N: usize>(attrs: [(&str, AttrValue); N]) -> Attrs {
    attrs.into_iter().map(|(name, value)| (name.to_string(), value.to_proto())).collect()
}

/// The nodes, each after those it reads; of those that could come next, the one that came first before. Nodes of a cycle stay
/// in their order, at the end.
fn sorted(nodes: Vec<proto::NodeDef>) -> Vec<proto::NodeDef> {
    let numbers: HashMap<&str, usize> =
        nodes.iter().enumerate().map(|(number, node)| (&*node.name, number)).collect();
    let source = |input: &String| {
        let (name, _) = parse_tensor(input);
        numbers.get(name).copied()
    };
    let mut waits = vec![0usize; nodes.len()];
    let mut readers: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    for (number, node) in nodes.iter().enumerate() {
        for source in node.input.iter().filter_map(source) {
            waits[number] += 1;
            readers[source].push(number);
        }
    }
    let mut ready: BinaryHeap<Reverse<usize>> =
        (0..nodes.len()).filter(|&number| waits[number] == 0).map(Reverse).collect();
    let mut order = Vec::with_capacity(nodes.len());
    while let Some(Reverse(number)) = ready.pop() {
        order.push(number);
        for &reader in &readers[number] {
            waits[reader] -= 1;
            if waits[reader] == 0 {
                ready.push(Reverse(reader));
            }
        }
    }
    order.extend((0..nodes.len()).filter(|&number| waits[number] > 0));
    let mut nodes: Vec<Option<proto::NodeDef>> = nodes.into_iter().map(Some).collect();
    order.into_iter().filter_map(|number| nodes[number].take()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Source;
    use crate::passes::prune::prune;
    use crate::place::Placement;
    use crate::place::Placer;
    use crate::shapes::Shapes;
    use crate::testing::{nodes_of, registry};
    use tfcore_graph::{Graph, NodeBuilder};

    /// Adds a node on CPU `device` that reads the first inputs and runs after the others.
    fn add(
        graph: &mut Graph,
        name: &str,
        inputs: &[NodeId],
        after: &[NodeId],
        device: usize,
    ) -> NodeId {
        let op = if inputs.is_empty() { "Placeholder" } else { "Neg" };
        let mut builder = NodeBuilder::new(op, name);
        inputs.iter().for_each(|&id| builder.add_input(OutputRef::new(id, 0)));
        after.iter().for_each(|&id| builder.add_control_input(id));
        if inputs.is_empty() {
            builder.set_attr("dtype", AttrValue::Type(DType::FLOAT));
        }
        builder.set_device(format!("/cpu:{device}"));
        builder.finish(graph).unwrap()
    }

    #[test]
    fn values_and_order_pass_between_devices() {
        let mut graph = Graph::new(registry());
        let k = add(&mut graph, "k", &[], &[], 0);
        let a = add(&mut graph, "a", &[k], &[], 0);
        let b = add(&mut graph, "b", &[a], &[a], 1);
        let c = add(&mut graph, "c", &[a], &[], 1);
        let nodes = nodes_of(&graph);
        let devices = [0, 1].map(|k| format!("/job:localhost/replica:0/task:0/device:CPU:{k}"));
        let devices = devices.each_ref().map(String::as_str);
        let placer = Placer::new(devices, false, false);
        let placement = placer.place(&nodes, 0, &Placement::default()).unwrap();
        let fetches = [OutputRef::new(c, 0)];
        let shapes = Shapes::default();
        let targets = [b];
        let mut plan_graph = PlanGraph::new(Source {
            nodes: &nodes,
            placement: &placement,
            shapes: &shapes,
            args: &[],
            results: &fetches,
            targets: &targets,
        });
        prune(&mut plan_graph).unwrap();
        let graphs = partition_graphs(&Partition {
            graph: &plan_graph,
            devices: &devices,
            versions: &proto::VersionDef::default(),
            with_attrs: true,
        });
        let lines = |graph: &proto::GraphDef| -> Vec<String> {
            let line = |node: &proto::NodeDef| {
                format!("{} = {}({})", node.name, node.op, node.input.join(", "))
            };
            graph.node.iter().map(line).collect()
        };
        assert_eq!(graphs.len(), 2);
        assert_eq!(
            lines(&graphs[0]),
            [
                "k = Placeholder()",
                "a = Neg(k)",
                "a/_0 = _Send(a)",
                "a/ctrl/_2 = Const(^a)",
                "a/_3 = _Send(a/ctrl/_2)",
                "c/_7 = _Recv()",
                "_retval_c_0_0 = _Retval(c/_7)",
            ]
        );
        assert_eq!(
            lines(&graphs[1]),
            [
                "a/_1 = _Recv()",
                "a/_4 = _Recv()",
                "a/_5 = Identity(a/_4)",
                "b = Neg(a/_1, ^a/_5)",
                "c = Neg(a/_1)",
                "c/_6 = _Send(c)",
            ]
        );
        let name = &graphs[0].node[4].attr["tensor_name"];
        assert_eq!(*name, AttrValue::string("edge_5_a").to_proto());
    }
}

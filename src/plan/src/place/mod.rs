//! Placement: on which device of the session a node runs.
//!
//! A node asks for a device by a name of which parts may be open (`spec.rs`), and nodes may have to be together (`groups.rs`).
//! Each group gets the first device that it may have. Nodes without inputs and with one output come last: they go where they
//! are read if that is one device.

mod groups;
mod spec;

use std::collections::HashMap;
use std::sync::Arc;

use smallvec::SmallVec;
use tfcore_base::{DType, Error, Result, invalid};
use tfcore_framework::log::{self, Stream};
use tfcore_graph::{Name, Node, NodeId, SINK, SOURCE};

use groups::{Groups, is_call_across_devices};
pub use spec::DeviceSpec;

/// The devices of some nodes, by number.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Placement {
    /// By node; none at all if they are all at `home`.
    devices: Vec<u16>,
    home: u16,
}

impl Placement {
    /// All on one device.
    pub fn on(home: u16) -> Placement {
        Placement { devices: Vec::new(), home }
    }

    pub fn device_of(&self, id: NodeId) -> u16 {
        self.devices.get(id.index()).copied().unwrap_or(self.home)
    }
}

/// Where a function is called, which tells where its nodes go that do not ask for a device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct CallSite {
    pub device: u16,
    /// Whether all nodes go there, whatever they ask for.
    pub is_closed: bool,
    /// The devices of the arguments, if there are several devices.
    pub args: SmallVec<[u16; 4]>,
}

/// Places nodes on the devices of a session.
pub struct Placer {
    devices: Vec<Device>,
    soft: bool,
    /// Whether to print where each node goes.
    log: bool,
}

struct Device {
    name: String,
    spec: DeviceSpec,
}

impl Placer {
    /// A placer for devices with these names; see [`Placer::candidates`] for `soft`. `log` prints the device of each node.
    pub fn new<'d>(names: impl IntoIterator<Item = &'d str>, soft: bool, log: bool) -> Placer {
        let devices = names.into_iter().map(|name| Device {
            name: name.to_string(),
            spec: DeviceSpec::parse(name).unwrap_or_default(),
        });
        Placer { devices: devices.collect(), soft, log }
    }

    /// Places `nodes`, of which the first `num_known` keep the places that they have.
    ///
    /// # Errors
    /// `InvalidArgument` for a name that is none, a device that there is not, and nodes that cannot be together though they have to.
    pub fn place(
        &self,
        nodes: &[Arc<Node>],
        num_known: usize,
        known: &Placement,
    ) -> Result<Placement> {
        let bound = match self.devices.len() {
            1 => Vec::new(),
            _ => {
                nodes[..num_known].iter().map(|node| (node.id, known.device_of(node.id))).collect()
            }
        };
        let placement = self.place_at(nodes, &bound, 0)?;
        if self.log {
            // All of them, as the reference places all anew.
            self.print(nodes, &placement);
        }
        Ok(placement)
    }

    /// Places the nodes of a function; `args` are its `_Arg` nodes.
    ///
    /// # Errors
    /// As [`Placer::place`].
    pub fn place_body(
        &self,
        nodes: &[Arc<Node>],
        args: &[NodeId],
        site: &CallSite,
    ) -> Result<Placement> {
        if site.is_closed {
            return Ok(Placement::on(site.device));
        }
        // Handles stay with what they name.
        let bound: Vec<(NodeId, u16)> = args
            .iter()
            .zip(&site.args)
            .filter(|(id, _)| nodes[id.index()].output_dtypes[0] == DType::RESOURCE)
            .map(|(&id, &device)| (id, device))
            .collect();
        self.place_at(nodes, &bound, site.device)
    }

    /// What of a call tells where the function's nodes go.
    pub fn call_site(&self, node: &Node, placement: &Placement) -> CallSite {
        let device = placement.device_of(node.id);
        let is_closed = !is_call_across_devices(node);
        if is_closed || self.devices.len() == 1 {
            return CallSite { device, is_closed, args: SmallVec::new() };
        }
        let args = node.inputs.iter().zip(&node.input_dtypes).map(|(edge, dtype)| match *dtype {
            DType::RESOURCE => placement.device_of(edge.source.node),
            _ => device,
        });
        CallSite { device, is_closed, args: args.collect() }
    }

    fn place_at(
        &self,
        nodes: &[Arc<Node>],
        bound: &[(NodeId, u16)],
        home: u16,
    ) -> Result<Placement> {
        let specs = self.specs(nodes)?;
        let has_one_choice = self.devices.len() == 1
            && specs.values().all(|spec| spec.matches(&self.devices[0].spec));
        match has_one_choice {
            true => Ok(Placement::on(0)),
            false => self.choose(nodes, &specs, bound, home),
        }
    }

    /// What the nodes ask for, by text.
    fn specs<'n>(&self, nodes: &'n [Arc<Node>]) -> Result<HashMap<&'n Name, DeviceSpec>> {
        let mut specs: HashMap<&Name, DeviceSpec> = HashMap::new();
        for node in nodes.iter().filter(|node| !node.device.is_empty()) {
            if !specs.contains_key(&node.device) {
                let spec = DeviceSpec::parse(&node.device).ok_or_else(|| malformed(node, nodes))?;
                specs.insert(&node.device, spec);
            }
        }
        Ok(specs)
    }

    fn choose(
        &self,
        nodes: &[Arc<Node>],
        specs: &HashMap<&Name, DeviceSpec>,
        bound: &[(NodeId, u16)],
        home: u16,
    ) -> Result<Placement> {
        let spec_of = |node: &Arc<Node>| specs.get(&node.device).cloned().unwrap_or_default();
        let mut groups = Groups::new(nodes, nodes.iter().map(spec_of), self.soft)?;
        for &(id, device) in bound {
            let root = groups.root(id.index());
            groups.assign(root, device);
        }
        let mut devices = vec![home; nodes.len()];
        let mut readers = vec![Readers::None; nodes.len()];
        for is_last in [false, true] {
            for (index, node) in nodes.iter().enumerate() {
                if comes_last(node) != is_last {
                    continue;
                }
                let root = groups.root(index);
                let device = match groups.assigned(root) {
                    Some(device) => device,
                    None => {
                        let candidates = self.candidates(groups.requested(root));
                        let wanted = [readers[index].device(), Some(home)];
                        let mut wanted = wanted.into_iter().flatten();
                        wanted
                            .find(|device| candidates.contains(device))
                            .or_else(|| candidates.first().copied())
                            .ok_or_else(|| {
                                self.absent(node, specs.get(&node.device), root, &mut groups)
                            })?
                    }
                };
                groups.assign(root, device);
                devices[index] = device;
                // Among those that come last nobody waits for the others.
                let reader = if is_last { Readers::Several } else { Readers::At(device) };
                let sources = node.inputs.iter().map(|edge| edge.source.node);
                for source in sources.chain(node.control_inputs.iter().copied()) {
                    readers[source.index()].add(reader);
                }
            }
            if !is_last {
                let waiting = nodes.iter().filter(|node| comes_last(node));
                for source in waiting.flat_map(|node| &node.control_inputs) {
                    readers[source.index()].add(Readers::Several);
                }
            }
        }
        // Nodes that have been apart stay apart.
        bound.iter().for_each(|&(id, device)| devices[id.index()] = device);
        Ok(Placement { devices, home })
    }

    /// The devices that may be meant. If the session places softly, the number and then the type do not count if there is none.
    fn candidates(&self, spec: &DeviceSpec) -> SmallVec<[u16; 8]> {
        let matching = |spec: &DeviceSpec| -> SmallVec<[u16; 8]> {
            let numbers = (0u16..).zip(&self.devices);
            numbers.filter(|(_, device)| spec.matches(&device.spec)).map(|(n, _)| n).collect()
        };
        let found = matching(spec);
        if !found.is_empty() || !self.soft {
            return found;
        }
        let relaxed = spec.relaxed();
        relaxed.iter().map(matching).find(|found| !found.is_empty()).unwrap_or_default()
    }

    fn print(&self, nodes: &[Arc<Node>], placement: &Placement) {
        let nodes = nodes.iter().filter(|node| node.id != SOURCE && node.id != SINK);
        let (last, first): (Vec<_>, Vec<_>) = nodes.partition(|node| comes_last(node));
        let mut text = String::new();
        for node in first.into_iter().chain(last) {
            let device = &self.devices[usize::from(placement.device_of(node.id))].name;
            text.push_str(&format!("{}: ({}): {device}\n", node.name, node.op.name));
        }
        log::write(Stream::Stdout, &text);
    }

    fn absent(
        &self,
        node: &Node,
        asked: Option<&DeviceSpec>,
        root: usize,
        groups: &mut Groups<'_>,
    ) -> Error {
        let names: Vec<&str> = self.devices.iter().map(|device| &*device.name).collect();
        let names = names.join(", ");
        let name = &node.name;
        let required = groups.requested(root).clone();
        if asked.is_some_and(|asked| *asked == required) {
            let hint = match required.is_gpu() {
                true => " The requested device appears to be a GPU, but CUDA is not enabled.",
                false => "",
            };
            return invalid!(
                "Cannot assign a device for operation {name}: {{{{node {name}}}}} was explicitly assigned to {} but \
                 available devices are [ {names} ]. Make sure the device specification refers to a valid \
                 device.{hint}\n\t [[{name}]]",
                node.device
            );
        }
        invalid!(
            "Cannot assign a device for operation {name}: Could not satisfy explicit device specification '{}' because \
             the node {{{{colocation_node {name}}}}} was colocated with a group of nodes that required incompatible \
             device '{required}'. All available devices [{names}]. \nColocation Debug Info:\n{}",
            node.device,
            groups.describe(root)
        )
        .at_node(name)
    }
}

/// Where the readers of a node are.
#[derive(Clone, Copy)]
enum Readers {
    None,
    At(u16),
    Several,
}

impl Readers {
    fn add(&mut self, other: Readers) {
        *self = match (*self, other) {
            (Readers::None, other) => other,
            (Readers::At(a), Readers::At(b)) if a == b => Readers::At(a),
            _ => Readers::Several,
        };
    }

    fn device(self) -> Option<u16> {
        match self {
            Readers::At(device) => Some(device),
            Readers::None | Readers::Several => None,
        }
    }
}

/// Whether a node may go where it is read.
fn comes_last(node: &Node) -> bool {
    node.inputs.is_empty() && matches!(&node.output_dtypes[..], [dtype] if !dtype.is_ref())
}

fn malformed(node: &Node, nodes: &[Arc<Node>]) -> Error {
    invalid!(
        "Malformed device specification '{}' in node: {{name:'{}' id:{} op device:{{requested: '{}', assigned: ''}} \
         def:{{{}}}}}\n\t [[{}]]",
        node.device,
        node.name,
        node.id.0,
        node.device,
        node.describe(&|id| &nodes[id.index()].name),
        node.name
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{nodes_of, registry};
    use tfcore_framework::AttrValue;
    use tfcore_graph::{Graph, NodeBuilder, OutputRef};

    /// Adds `name = op(inputs)` that asks for `device` and wants to be with `with`.
    fn add(graph: &mut Graph, name: &str, inputs: &[NodeId], device: &str, with: &str) -> NodeId {
        let op = if inputs.is_empty() { "Placeholder" } else { "Neg" };
        let mut builder = NodeBuilder::new(op, name);
        inputs.iter().for_each(|&id| builder.add_input(OutputRef::new(id, 0)));
        if inputs.is_empty() {
            builder.set_attr("dtype", AttrValue::Type(DType::FLOAT));
        }
        if !with.is_empty() {
            builder.set_attr("_class", AttrValue::strings([format!("loc:@{with}")]));
        }
        builder.set_device(device);
        builder.finish(graph).unwrap()
    }

    fn placer(count: usize, soft: bool) -> Placer {
        let name = |index| format!("/job:localhost/replica:0/task:0/device:CPU:{index}");
        let names: Vec<String> = (0..count).map(name).collect();
        Placer::new(names.iter().map(String::as_str), soft, false)
    }

    /// Where x, a = -x and b = -a go, or the message; b wants to be with `with`.
    fn places(
        count: usize,
        soft: bool,
        devices: [&str; 3],
        with: &str,
    ) -> std::result::Result<[u16; 3], String> {
        let mut graph = Graph::new(registry());
        let x = add(&mut graph, "x", &[], devices[0], "");
        let a = add(&mut graph, "a", &[x], devices[1], "");
        let b = add(&mut graph, "b", &[a], devices[2], with);
        let placed = placer(count, soft).place(&nodes_of(&graph), 0, &Placement::default());
        placed
            .map(|placement| [x, a, b].map(|id| placement.device_of(id)))
            .map_err(|error| error.message().to_string())
    }

    #[test]
    fn nodes_go_where_they_ask_and_where_they_are_read() {
        let cases: [(usize, bool, [&str; 3], &str, std::result::Result<[u16; 3], &str>); 10] = [
            (1, false, ["", "/cpu:0", ""], "", Ok([0, 0, 0])),
            (2, false, ["", "/cpu:1", ""], "", Ok([1, 1, 0])),
            (2, false, ["/cpu:0", "/cpu:1", ""], "", Ok([0, 1, 0])),
            (2, false, ["", "/cpu:1", ""], "a", Ok([1, 1, 1])),
            (
                2,
                false,
                ["/cpu:0", "", "/cpu:1"],
                "x",
                Err("Cannot colocate nodes {{colocation_node b}}"),
            ),
            (2, true, ["/cpu:0", "", "/cpu:1"], "x", Ok([0, 0, 0])),
            (2, false, ["", "/cpu:2", ""], "", Err("but available devices are [ /job:localhost")),
            (2, true, ["", "/cpu:2", "/gpu:1"], "", Ok([0, 0, 0])),
            (1, true, ["", "/job:foo", ""], "", Err("explicitly assigned to /job:foo")),
            (1, true, ["", "/cpu", ""], "", Err("Malformed device specification '/cpu' in node")),
        ];
        for (count, soft, devices, with, expected) in cases {
            match (places(count, soft, devices, with), expected) {
                (Ok(placed), Ok(expected)) => assert_eq!(placed, expected, "{devices:?} {with}"),
                (Err(message), Err(part)) => assert!(message.contains(part), "{message}"),
                (placed, expected) => panic!("{devices:?} {with}: {placed:?}, not {expected:?}"),
            }
        }
    }

    #[test]
    fn nodes_stay_where_they_are() {
        let mut graph = Graph::new(registry());
        let x = add(&mut graph, "x", &[], "", "");
        let placer = placer(2, false);
        let nodes = nodes_of(&graph);
        let first = placer.place(&nodes, 0, &Placement::default()).unwrap();
        assert_eq!(first.device_of(x), 0);
        let a = add(&mut graph, "a", &[x], "/cpu:1", "");
        let second = placer.place(&nodes_of(&graph), nodes.len(), &first).unwrap();
        assert_eq!((second.device_of(x), second.device_of(a)), (0, 1));
    }

    #[test]
    fn nodes_of_functions_go_with_the_call() {
        let mut graph = Graph::new(registry());
        let x = add(&mut graph, "x", &[], "", "");
        let a = add(&mut graph, "a", &[x], "", "");
        let b = add(&mut graph, "b", &[a], "/cpu:0", "");
        for (is_closed, expected) in [(false, [1, 1, 0]), (true, [1, 1, 1])] {
            let site = CallSite { device: 1, is_closed, args: SmallVec::new() };
            let placement = placer(2, false).place_body(&nodes_of(&graph), &[x], &site).unwrap();
            assert_eq!([x, a, b].map(|id| placement.device_of(id)), expected);
        }
    }
}

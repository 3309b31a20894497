//! Groups of nodes that have to be on one device: those that a `_class` attr puts together, and those along the edges that
//! hand on a variable or the handle of a resource.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;
use std::sync::Arc;

use tfcore_base::{DType, Result, invalid};
use tfcore_framework::Role;
use tfcore_graph::Node;

use super::spec::DeviceSpec;

/// What a value of the list attr `_class` begins with that names a node to be with.
const LOCATION: &[u8] = b"loc:@";

/// The groups of a graph. Nodes go by their number; the state of a group is that of its root.
pub(super) struct Groups<'n> {
    nodes: &'n [Arc<Node>],
    members: Vec<Member>,
    soft: bool,
}

struct Member {
    parent: u32,
    rank: u8,
    /// What the nodes ask for.
    requested: DeviceSpec,
    /// What those of them ask for that make a resource; it has priority.
    resource: DeviceSpec,
    /// The device, once it is chosen.
    assigned: Option<u16>,
}

impl<'n> Groups<'n> {
    /// Puts `nodes` together, of which each asks for the device at its place in `requested`. If `soft`, differences of types and
    /// numbers are left open.
    ///
    /// # Errors
    /// `InvalidArgument` if nodes that have to be together ask for different devices.
    pub(super) fn new(
        nodes: &'n [Arc<Node>],
        requested: impl Iterator<Item = DeviceSpec>,
        soft: bool,
    ) -> Result<Groups<'n>> {
        let members = nodes.iter().zip(requested).enumerate().map(|(index, (node, requested))| {
            let resource =
                if makes_resource(node) { requested.clone() } else { DeviceSpec::default() };
            Member { parent: index as u32, rank: 0, requested, resource, assigned: None }
        });
        let mut groups = Groups { nodes, members: members.collect(), soft };
        groups.follow_resources()?;
        groups.follow_classes()?;
        Ok(groups)
    }

    /// The number of the node that stands for the group of node `index`.
    pub(super) fn root(&mut self, index: usize) -> usize {
        let mut at = index;
        while self.members[at].parent as usize != at {
            let parent = self.members[at].parent as usize;
            // Later searches have half the way.
            self.members[at].parent = self.members[parent].parent;
            at = parent;
        }
        at
    }

    pub(super) fn requested(&self, root: usize) -> &DeviceSpec {
        &self.members[root].requested
    }

    pub(super) fn assigned(&self, root: usize) -> Option<u16> {
        self.members[root].assigned
    }

    pub(super) fn assign(&mut self, root: usize, device: u16) {
        self.members[root].assigned.get_or_insert(device);
    }

    /// Along edges that hand on a variable or a handle, the source's request has priority.
    fn follow_resources(&mut self) -> Result<()> {
        let nodes = self.nodes;
        for (index, node) in nodes.iter().enumerate() {
            if is_call_across_devices(node) {
                continue;
            }
            for (edge, dtype) in node.inputs.iter().zip(&node.input_dtypes) {
                let source = edge.source.node.index();
                if is_bound(*dtype) && !is_call_across_devices(&nodes[source]) {
                    self.unite_along_edge(source, index)?;
                }
            }
        }
        Ok(())
    }

    fn unite_along_edge(&mut self, source: usize, target: usize) -> Result<()> {
        let (from, to) = (self.root(source), self.root(target));
        if from == to {
            return Ok(());
        }
        let (first, second) = (&self.members[from], &self.members[to]);
        let Ok(resource) = first.resource.merged(&second.resource, false) else {
            let (source, target) = (&self.nodes[source], &self.nodes[target]);
            return Err(invalid!(
                "Cannot place the graph because a reference or resource edge connects colocation groups with \
                 incompatible resource devices: {} vs {}. The edge src node is name='{}' (op='{}'), and the dst node \
                 is name='{}' (op='{}').",
                first.resource,
                second.resource,
                source.name,
                source.op.name,
                target.name,
                target.op.name
            ));
        };
        let requested = second.requested.overridden_by(&first.requested).overridden_by(&resource);
        self.unite(from, to, requested, resource);
        Ok(())
    }

    /// Nodes that name each other, or the same node, in `_class`.
    fn follow_classes(&mut self) -> Result<()> {
        let nodes = self.nodes;
        if nodes.iter().all(|node| locations(node).next().is_none()) {
            return Ok(());
        }
        let mut first_of: HashMap<&[u8], usize> = HashMap::with_capacity(nodes.len());
        for (index, node) in nodes.iter().enumerate() {
            for name in locations(node).chain([node.name.as_bytes()]) {
                let first = *first_of.entry(name).or_insert(index);
                match self.unite_strictly(index, first) {
                    Err(error) if !self.soft => {
                        return Err(invalid!(
                            "Cannot colocate nodes {{{{colocation_node {}}}}} and {{{{colocation_node {}}}}}: {}",
                            node.name,
                            nodes[first].name,
                            error.message()
                        )
                        .at_node(&node.name));
                    }
                    // Nodes that cannot be together are apart.
                    Ok(()) | Err(_) => {}
                }
            }
        }
        Ok(())
    }

    fn unite_strictly(&mut self, a: usize, b: usize) -> Result<()> {
        let (a, b) = (self.root(a), self.root(b));
        if a == b {
            return Ok(());
        }
        let (a, b) = if self.members[b].rank > self.members[a].rank { (b, a) } else { (a, b) };
        let (first, second) = (&self.members[a], &self.members[b]);
        let requested = first.requested.merged(&second.requested, self.soft)?;
        let resource = first.resource.merged(&second.resource, false)?;
        let requested = requested.overridden_by(&resource);
        self.unite(a, b, requested, resource);
        Ok(())
    }

    /// Makes two groups one, under the root of higher rank.
    fn unite(&mut self, a: usize, b: usize, requested: DeviceSpec, resource: DeviceSpec) {
        let (root, child) =
            if self.members[b].rank > self.members[a].rank { (b, a) } else { (a, b) };
        let grows = self.members[root].rank == self.members[child].rank;
        self.members[child].parent = root as u32;
        let assigned = self.members[child].assigned;
        let member = &mut self.members[root];
        member.rank += u8::from(grows);
        member.requested = requested;
        member.resource = resource;
        member.assigned = member.assigned.or(assigned);
    }

    /// All that there is to know of a group for which there is no device.
    pub(super) fn describe(&mut self, root: usize) -> String {
        let members: Vec<usize> =
            (0..self.nodes.len()).filter(|&index| self.root(index) == root).collect();
        let Member { requested, resource, .. } = &self.members[root];
        let mut text = format!(
            "Colocation group had the following types and supported devices: \nRoot \
             Member(assigned_device_name_index_=-1 requested_device_name_='{requested}' \
             assigned_device_name_='' resource_device_name_='{resource}' supported_device_types_=[CPU] \
             possible_devices_=[]\n"
        );
        let nodes = || members.iter().map(|&index| &self.nodes[index]);
        let ops: BTreeSet<&str> = nodes().map(|node| &*node.op.name).collect();
        // Writing to a string cannot fail.
        ops.iter().for_each(|op| text.push_str(&format!("{op}: CPU \n")));
        text.push_str(
            "\nColocation members, user-requested devices, and framework assigned devices, if any:\n",
        );
        for node in nodes() {
            let _infallible = writeln!(text, "  {} ({}) {}", node.name, node.op.name, node.device);
        }
        text
    }
}

/// The nodes that a node wants to be with.
fn locations(node: &Node) -> impl Iterator<Item = &[u8]> {
    let classes = node.attrs.string_list("_class").unwrap_or_default();
    classes.iter().filter_map(|class| class.strip_prefix(LOCATION))
}

/// Whether a value of this type is bound to a device: a variable or a handle.
fn is_bound(dtype: DType) -> bool {
    dtype.is_ref() || dtype == DType::RESOURCE
}

/// Whether a node makes a variable or a handle, rather than handing one on.
fn makes_resource(node: &Node) -> bool {
    node.inputs.is_empty() && matches!(&node.output_dtypes[..], [dtype] if is_bound(*dtype))
}

/// Whether a node calls a function whose nodes may be on several devices, so that handles may come from any of them.
pub(super) fn is_call_across_devices(node: &Node) -> bool {
    node.role() == Role::Call
}

//! `Plan`: a request made ready to run again and again.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use smallvec::SmallVec;
use tfcore_base::{DType, Result};
use tfcore_framework::{DeviceType, Kernel, KernelInit, OpDef, Registry, Value};
use tfcore_graph::{Name, Node, NodeId, OutputRef};
use tfcore_tensor::Tensor;

/// Where a kernel finds an input.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Source {
    /// In a slot. The last reader in program order moves the value out, so that it can reuse the memory.
    Slot { slot: u32, last: bool },
    /// Among the plan's constants.
    Constant(u32),
}

/// One node of a plan.
pub(crate) struct PlanNode {
    pub(crate) name: Name,
    pub(crate) op: Arc<OpDef>,
    pub(crate) kernel: Arc<dyn Kernel>,
    pub(crate) inputs: SmallVec<[Input; 3]>,
    /// The first slot of the outputs; they lie side by side.
    pub(crate) output: u32,
    pub(crate) output_dtypes: SmallVec<[DType; 8]>,
}

/// An input of a node of a plan.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Input {
    pub(crate) source: Source,
    /// Whether the kernel wants the value of a variable rather than the variable.
    pub(crate) deref: bool,
    /// Whether the variable may be without a value.
    pub(crate) may_be_uninitialized: bool,
}

/// Who waits for whom, for running side by side.
pub(crate) struct Dependencies {
    /// For each node, how many others it waits for.
    pub(crate) pending: Vec<u32>,
    /// For each node, those that wait for it.
    pub(crate) waiting: Vec<SmallVec<[u32; 2]>>,
    /// For each slot, how often it is read, fetches included.
    pub(crate) readers: Vec<u32>,
}

/// A request made ready: kernels, slots and order.
pub(crate) struct Plan {
    /// In an order in which they can run one after the other.
    pub(crate) nodes: Vec<PlanNode>,
    pub(crate) constants: Vec<Value>,
    pub(crate) num_slots: usize,
    /// The slot of each feed.
    pub(crate) feeds: Vec<u32>,
    pub(crate) fetches: Vec<Source>,
    pub(crate) dependencies: Dependencies,
    /// Whether enough nodes can run side by side for sharing them out.
    pub(crate) is_wide: bool,
    /// Slots of finished runs, to be used again.
    pub(crate) frames: Mutex<Vec<Vec<Value>>>,
    /// How long a node takes on average, in nanoseconds; 0 before the first run.
    pub(crate) node_nanos: std::sync::atomic::AtomicU64,
}

/// Kernels by node: a node has one kernel, whichever plans it is in, because kernels may hold state.
pub(crate) type Kernels = Mutex<HashMap<NodeId, Arc<dyn Kernel>>>;

/// Makes the plan of a request from the nodes that it needs, each after those it reads.
pub(crate) fn make_plan(
    registry: &Registry,
    kernels: &Kernels,
    nodes: &[Arc<Node>],
    order: &[NodeId],
    feeds: &[OutputRef],
    fetches: &[OutputRef],
) -> Result<Plan> {
    let mut builder = PlanBuilder::default();
    for &feed in feeds {
        let slot = builder.new_slot();
        builder.sources.insert(feed, Source::Slot { slot, last: false });
        builder.feeds.push(slot);
    }
    for id in order {
        builder.add_node(registry, kernels, &nodes[id.index()])?;
    }
    Ok(builder.finish(fetches))
}

#[derive(Default)]
struct PlanBuilder {
    nodes: Vec<PlanNode>,
    constants: Vec<Value>,
    num_slots: u32,
    feeds: Vec<u32>,
    sources: HashMap<OutputRef, Source>,
    /// The plan's number for a node of the graph; constants have none.
    numbers: HashMap<NodeId, u32>,
    /// The node that fills a slot.
    writers: Vec<Option<u32>>,
    waits_for: Vec<SmallVec<[u32; 4]>>,
}

impl PlanBuilder {
    fn new_slot(&mut self) -> u32 {
        self.num_slots += 1;
        self.writers.push(None);
        self.num_slots - 1
    }

    fn add_node(&mut self, registry: &Registry, kernels: &Kernels, node: &Node) -> Result<()> {
        if let Some(tensor) = constant(node)? {
            let number = self.constants.len() as u32;
            self.constants.push(Value::Tensor(tensor));
            self.sources.entry(OutputRef::new(node.id, 0)).or_insert(Source::Constant(number));
            return Ok(());
        }
        let number = self.nodes.len() as u32;
        let kernel = kernel_of(registry, kernels, node)?;
        let mut waits_for: SmallVec<[u32; 4]> = SmallVec::new();
        let mut inputs = SmallVec::with_capacity(node.inputs.len());
        for (edge, dtype) in node.inputs.iter().zip(&node.input_dtypes) {
            let source = self.sources[&edge.source];
            if let Source::Slot { slot, .. } = source {
                waits_for.extend(self.writers[slot as usize]);
            }
            inputs.push(Input {
                source,
                deref: !dtype.is_ref(),
                may_be_uninitialized: node.op.allows_uninitialized_input,
            });
        }
        waits_for.extend(node.control_inputs.iter().filter_map(|id| self.numbers.get(id).copied()));
        waits_for.sort_unstable();
        waits_for.dedup();
        self.waits_for.push(waits_for);
        self.numbers.insert(node.id, number);
        let output = self.num_slots;
        for index in 0..node.num_outputs() {
            let slot = self.new_slot();
            self.writers[slot as usize] = Some(number);
            // A fed output keeps the value it was fed.
            self.sources
                .entry(OutputRef::new(node.id, index))
                .or_insert(Source::Slot { slot, last: false });
        }
        self.nodes.push(PlanNode {
            name: node.name.clone(),
            op: node.op.clone(),
            kernel,
            inputs,
            output,
            output_dtypes: node.output_dtypes.clone(),
        });
        Ok(())
    }

    fn finish(mut self, fetches: &[OutputRef]) -> Plan {
        let fetches: Vec<Source> = fetches.iter().map(|fetch| self.sources[fetch]).collect();
        let mut readers = vec![0u32; self.num_slots as usize];
        let mut is_read_later = vec![false; self.num_slots as usize];
        for fetch in &fetches {
            if let Source::Slot { slot, .. } = fetch {
                readers[*slot as usize] += 1;
                is_read_later[*slot as usize] = true;
            }
        }
        for node in self.nodes.iter_mut().rev() {
            for input in node.inputs.iter_mut().rev() {
                if let Source::Slot { slot, last } = &mut input.source {
                    readers[*slot as usize] += 1;
                    *last = !std::mem::replace(&mut is_read_later[*slot as usize], true);
                }
            }
        }
        let pending: Vec<u32> = self.waits_for.iter().map(|list| list.len() as u32).collect();
        let mut waiting = vec![SmallVec::new(); self.nodes.len()];
        for (number, list) in self.waits_for.iter().enumerate() {
            for &other in list {
                waiting[other as usize].push(number as u32);
            }
        }
        Plan {
            is_wide: is_wide(&self.waits_for),
            nodes: self.nodes,
            constants: self.constants,
            num_slots: self.num_slots as usize,
            feeds: self.feeds,
            fetches,
            dependencies: Dependencies { pending, waiting, readers },
            frames: Mutex::new(Vec::new()),
            node_nanos: std::sync::atomic::AtomicU64::new(0),
        }
    }
}

/// Whether on average one and a half nodes or more can run at a time.
fn is_wide(waits_for: &[SmallVec<[u32; 4]>]) -> bool {
    let mut depths: Vec<usize> = Vec::with_capacity(waits_for.len());
    for list in waits_for {
        let depth = list.iter().map(|&other| depths[other as usize] + 1).max().unwrap_or(1);
        depths.push(depth);
    }
    let longest = depths.iter().copied().max().unwrap_or(1);
    waits_for.len() * 2 >= longest * 3
}

/// The value of a Const.
fn constant(node: &Node) -> Result<Option<Tensor>> {
    if &*node.op.name != "Const" {
        return Ok(None);
    }
    let tensor = node.attrs.tensor("value")?.tensor().map_err(|error| error.at_node(&node.name))?;
    if tensor.dtype() != node.output_dtypes[0] {
        let error = tfcore_base::invalid!(
            "Type mismatch between value ({}) and dtype ({})",
            tensor.dtype(),
            node.output_dtypes[0]
        );
        return Err(error.at_node(&node.name));
    }
    Ok(Some(tensor))
}

fn kernel_of(registry: &Registry, kernels: &Kernels, node: &Node) -> Result<Arc<dyn Kernel>> {
    if let Some(kernel) = kernels.lock().get(&node.id) {
        return Ok(kernel.clone());
    }
    let init = KernelInit {
        name: &node.name,
        op: &node.op,
        attrs: &node.attrs,
        input_dtypes: &node.input_dtypes,
        output_dtypes: &node.output_dtypes,
    };
    let kernel: Arc<dyn Kernel> = registry
        .build_kernel(DeviceType::Cpu, &init)
        .map_err(|error| error.at_node(&node.name))?
        .into();
    // Another thread may have been faster; its kernel may hold state by now.
    Ok(kernels.lock().entry(node.id).or_insert(kernel).clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::tests::{add, plan_of, registry};
    use tfcore_graph::Graph;

    #[test]
    fn the_last_reader_may_reuse_a_value() {
        let mut graph = Graph::new(registry());
        let x = add(&mut graph, "Placeholder", "x", &[]);
        let a = add(&mut graph, "Neg", "a", &[x]);
        let twice = add(&mut graph, "AddV2", "twice", &[a, a]);
        let sum = add(&mut graph, "AddV2", "sum", &[twice, x]);
        let cases: [(&[OutputRef], [&[bool]; 3]); 3] = [
            (&[sum], [&[false], &[false, true], &[true, true]]),
            (&[sum, a], [&[false], &[false, false], &[true, true]]),
            (&[sum, twice], [&[false], &[false, true], &[false, true]]),
        ];
        for (fetches, expected) in cases {
            let plan = plan_of(&graph, &[x], fetches);
            let last = |input: &Input| matches!(input.source, Source::Slot { last: true, .. });
            let marks: Vec<Vec<bool>> =
                plan.nodes.iter().map(|node| node.inputs.iter().map(last).collect()).collect();
            assert_eq!(marks, expected, "{fetches:?}");
        }
    }
}

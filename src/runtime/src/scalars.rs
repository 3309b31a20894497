//! Scalar groups: neighbouring nodes of a body that are nothing but arithmetic run on bare scalars.
//!
//! A loop that counts, or a schedule that computes a learning rate, consists of ops on scalars, and making a tensor
//! for each result would cost many times what the arithmetic does. A group reads its scalars once, runs its nodes
//! on them and makes tensors only of what others read. Where an input is no scalar, or a node has something to
//! complain of, the nodes run one by one as if there was no group; until then the group has changed nothing.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use tfcore_base::Result;
use tfcore_framework::{ScalarKernel, Value};
use tfcore_tensor::{Scalar, Shape, Tensor};

use crate::plan::{Action, PlanNode, Slots};

/// So many nodes a group has at most: their scalars stay in the first-level cache.
const MAX_NODES: usize = 256;

/// All groups of a body, in the order of their nodes.
#[derive(Default)]
pub(crate) struct ScalarGroups {
    groups: Vec<Group>,
    // The groups' parts, one group's after the other's.
    loads: Vec<u32>,
    code: Vec<Instruction>,
    stores: Vec<Store>,
    drops: Vec<u32>,
}

/// Neighbouring nodes. The registers of a group hold first what it loads, then the results of its instructions.
pub(crate) struct Group {
    nodes: Range<usize>,
    /// Slots of the values that the group reads.
    loads: Range<usize>,
    /// One for each node.
    code: Range<usize>,
    stores: Range<usize>,
    /// Slots of values that nobody reads after the group.
    drops: Range<usize>,
}

struct Instruction {
    kernel: Arc<dyn ScalarKernel>,
    /// The registers of the inputs; those that the kernel does not have are the first one's.
    inputs: [u16; 3],
    /// Of the output's dtype.
    zero: Scalar,
}

/// A result that others read.
struct Store {
    slot: u32,
    register: u16,
    /// A slot whose value nobody else reads any more, so that its tensor may hold the result.
    reused: Option<u32>,
}

impl ScalarGroups {
    /// The groups of nodes whose inputs and outputs have their slots. A group does not reach over `split`, where what runs may
    /// pause, nor into nodes that may be dead by their controls.
    pub(crate) fn new(nodes: &[PlanNode], split: usize, may_be_dead: bool) -> ScalarGroups {
        let mut groups = ScalarGroups::default();
        let mut start = 0;
        let mut kernels = Vec::new();
        for (index, node) in nodes.iter().enumerate() {
            if index == split || kernels.len() == MAX_NODES {
                groups.add(nodes, start, &mut kernels);
            }
            if kernels.is_empty() {
                start = index;
            }
            match scalar_kernel(node).filter(|_| node.controls.is_empty() || !may_be_dead) {
                Some(kernel) => kernels.push(kernel),
                None => groups.add(nodes, start, &mut kernels),
            }
        }
        groups.add(nodes, start, &mut kernels);
        groups
    }

    fn add(
        &mut self,
        nodes: &[PlanNode],
        start: usize,
        kernels: &mut Vec<(Arc<dyn ScalarKernel>, Scalar)>,
    ) {
        if kernels.is_empty() {
            return;
        }
        let (loads, code) = (self.loads.len(), self.code.len());
        let (stores, drops) = (self.stores.len(), self.drops.len());
        let nodes_range = start..start + kernels.len();
        let members = &nodes[nodes_range.clone()];
        let outputs = members[0].output..members[0].output + members.len() as u32;
        let mut registers: HashMap<u32, u16> = HashMap::new();
        for slot in members.iter().flat_map(|node| &node.inputs).map(|input| input.slot) {
            if !outputs.contains(&slot) && !registers.contains_key(&slot) {
                registers.insert(slot, (self.loads.len() - loads) as u16);
                self.loads.push(slot);
            }
        }
        let first = self.loads.len() - loads;
        for (index, (node, (kernel, zero))) in members.iter().zip(kernels.drain(..)).enumerate() {
            let register =
                |at: usize| registers[&node.inputs.get(at).unwrap_or(&node.inputs[0]).slot];
            let inputs = [register(0), register(1), register(2)];
            self.code.push(Instruction { kernel, inputs, zero });
            registers.insert(node.output, (first + index) as u16);
        }
        // Each node has one output, and nothing else is in between.
        let dropped = members.iter().flat_map(|node| node.drops.iter().copied());
        let (inner, outer): (Vec<u32>, Vec<u32>) = dropped.partition(|slot| outputs.contains(slot));
        for slot in outputs.filter(|slot| !inner.contains(slot)) {
            let reused = outer.get(self.stores.len() - stores).copied();
            self.stores.push(Store { slot, register: registers[&slot], reused });
        }
        self.drops.extend(outer);
        self.groups.push(Group {
            nodes: nodes_range,
            loads: loads..self.loads.len(),
            code: code..self.code.len(),
            stores: stores..self.stores.len(),
            drops: drops..self.drops.len(),
        });
    }

    /// The groups from node `start` on.
    pub(crate) fn from(&self, start: usize) -> &[Group] {
        &self.groups[self.groups.partition_point(|group| group.nodes.start < start)..]
    }

    /// How many registers a run needs.
    pub(crate) fn num_registers(&self) -> usize {
        self.groups.iter().map(|group| group.loads.len() + group.code.len()).max().unwrap_or(0)
    }

    /// Runs a group. Returns whether it could; if not, everything is as it was.
    ///
    /// # Errors
    /// `ResourceExhausted` if there is no memory for a result.
    pub(crate) fn run(&self, group: &Group, slots: &mut Slots) -> Result<bool> {
        let (values, registers) = (&mut slots.values, &mut slots.scalars);
        for (register, &slot) in registers.iter_mut().zip(&self.loads[group.loads.clone()]) {
            let Value::Tensor(tensor) = &values[slot as usize] else { return Ok(false) };
            let Some(scalar) = Scalar::of(tensor) else { return Ok(false) };
            *register = scalar;
        }
        for (index, instruction) in self.code[group.code.clone()].iter().enumerate() {
            let (before, behind) = registers.split_at_mut(group.loads.len() + index);
            let inputs = instruction.inputs.map(|register| &before[usize::from(register)]);
            behind[0] = instruction.zero;
            if !instruction.kernel.apply(inputs, &mut behind[0]) {
                return Ok(false);
            }
        }
        for store in &self.stores[group.stores.clone()] {
            let scalar = &registers[usize::from(store.register)];
            let spare = store.reused.map(|slot| std::mem::take(&mut values[slot as usize]));
            values[store.slot as usize] = Value::Tensor(tensor_of(scalar, spare)?);
        }
        for &slot in &self.drops[group.drops.clone()] {
            values[slot as usize] = Value::Absent;
        }
        // Only bodies that ask have such a list.
        if let Some(dead) = slots.dead.get_mut(group.nodes.clone()) {
            dead.fill(false);
        }
        Ok(true)
    }
}

impl Group {
    pub(crate) fn nodes(&self) -> Range<usize> {
        self.nodes.clone()
    }
}

/// The kernel of a node for scalars, and a scalar of its output's dtype.
fn scalar_kernel(node: &PlanNode) -> Option<(Arc<dyn ScalarKernel>, Scalar)> {
    let Action::Kernel(kernel) = &node.action else { return None };
    let [output] = node.output_dtypes[..] else { return None };
    let fits = node.refs.is_empty() && (1..=3).contains(&node.inputs.len());
    let zero = Scalar::zero(output).ok().filter(|_| fits)?;
    Some((kernel.clone().on_scalars()?, zero))
}

/// A tensor that holds the scalar: the spare one, if it can.
fn tensor_of(scalar: &Scalar, spare: Option<Value>) -> Result<Tensor> {
    if let Some(Value::Tensor(mut tensor)) = spare
        && scalar.store(&mut tensor)
    {
        return Ok(tensor);
    }
    let mut tensor = Tensor::zeros(scalar.dtype(), Shape::scalar())?;
    scalar.store(&mut tensor);
    Ok(tensor)
}

//! Finds the scalar groups of a body, and the loops that run on scalars from beginning to end.

use std::collections::HashMap;
use std::sync::Arc;

use tfcore_framework::{Forward, Kernel, ScalarKernel};
use tfcore_tensor::Scalar;

use crate::plan::{Action, Body, PlanNode};
use crate::scalars::{Group, Instruction, MAX_NODES, ScalarGroups, ScalarLoop, Store};

/// Number of variables of a loop in registers at most. With the values that its nodes read, their registers have numbers of
/// 16 bits.
const MAX_VARS: usize = 1 << 12;

/// The groups of nodes whose inputs and outputs have their slots. A group does not reach over `split`, where what runs may
/// pause, nor into nodes that may be dead by their controls.
pub(crate) fn groups(nodes: &[PlanNode], split: usize, may_be_dead: bool) -> ScalarGroups {
    let mut groups = ScalarGroups::default();
    let mut start = 0;
    let mut kernels = Vec::new();
    for (index, node) in nodes.iter().enumerate() {
        if index == split || kernels.len() == MAX_NODES {
            add(&mut groups, nodes, start, &mut kernels);
        }
        if kernels.is_empty() {
            start = index;
        }
        match scalar_kernel(node).filter(|_| node.controls.is_empty() || !may_be_dead) {
            Some(kernel) => kernels.push(kernel),
            None => add(&mut groups, nodes, start, &mut kernels),
        }
    }
    add(&mut groups, nodes, start, &mut kernels);
    groups
}

fn add(
    groups: &mut ScalarGroups,
    nodes: &[PlanNode],
    start: usize,
    kernels: &mut Vec<(Arc<dyn ScalarKernel>, Scalar)>,
) {
    if !kernels.iter().any(|(kernel, _)| kernel.is_arithmetic()) {
        return kernels.clear();
    }
    let (loads, code) = (groups.loads.len(), groups.code.len());
    let (stores, drops) = (groups.stores.len(), groups.drops.len());
    let nodes_range = start..start + kernels.len();
    let members = &nodes[nodes_range.clone()];
    let outputs = members[0].output..members[0].output + members.len() as u32;
    let registers = assemble(members, kernels, &mut groups.loads, &mut groups.code, loads);
    // Each node has one output, and nothing else is in between.
    let dropped = members.iter().flat_map(|node| node.drops.iter().copied());
    let (inner, outer): (Vec<u32>, Vec<u32>) = dropped.partition(|slot| outputs.contains(slot));
    for slot in outputs.filter(|slot| !inner.contains(slot)) {
        let reused = outer.get(groups.stores.len() - stores).copied();
        groups.stores.push(Store { slot, register: registers[&slot], reused });
    }
    groups.drops.extend(outer);
    groups.groups.push(Group {
        nodes: nodes_range,
        loads: loads..groups.loads.len(),
        code: code..groups.code.len(),
        stores: stores..groups.stores.len(),
        drops: drops..groups.drops.len(),
    });
}

/// The loop of a body whose first arguments are the variables and whose results are the condition and the variables' next
/// values; `None` if it consists of other nodes too.
pub(crate) fn scalar_loop(body: &Body, split: usize) -> Option<ScalarLoop> {
    let (first, results) = (body.args().start as u32, &body.results);
    let mut kernels: Vec<_> = body.nodes.iter().map_while(scalar_kernel).collect();
    let is_small = body.nodes.len() <= MAX_NODES && results.len() <= MAX_VARS;
    if kernels.len() < body.nodes.len() || !is_small || body.may_be_dead {
        return None;
    }
    let mut loads: Vec<u32> = (first..first + results.len() as u32 - 1).collect();
    let computed = body.args().end as u32;
    loads.extend(results.iter().copied().filter(|&slot| slot < computed));
    loads.sort_unstable_by_key(|&slot| (slot < first, slot));
    loads.dedup();
    let mut code = Vec::new();
    let registers = assemble(&body.nodes, &mut kernels, &mut loads, &mut code, 0);
    let mut results = results.iter().map(|slot| registers.get(slot).copied());
    let predicate = results.next()??;
    Some(ScalarLoop { loads, code, split, predicate, next: results.collect::<Option<_>>()? })
}

/// Turns nodes into instructions that follow on what is loaded from `first` on; adds what they load. Returns the register
/// of each slot.
fn assemble(
    nodes: &[PlanNode],
    kernels: &mut Vec<(Arc<dyn ScalarKernel>, Scalar)>,
    loads: &mut Vec<u32>,
    code: &mut Vec<Instruction>,
    first: usize,
) -> HashMap<u32, u16> {
    let outputs = nodes.first().map_or(0..0, |node| node.output..node.output + nodes.len() as u32);
    let mut registers: HashMap<u32, u16> = HashMap::new();
    registers.extend(loads[first..].iter().copied().zip(0..));
    for slot in nodes.iter().flat_map(|node| &node.inputs).map(|input| input.slot) {
        if !outputs.contains(&slot) && !registers.contains_key(&slot) {
            registers.insert(slot, (loads.len() - first) as u16);
            loads.push(slot);
        }
    }
    let num_loads = loads.len() - first;
    for (index, (node, (kernel, zero))) in nodes.iter().zip(kernels.drain(..)).enumerate() {
        let register = |at: usize| registers[&node.inputs.get(at).unwrap_or(&node.inputs[0]).slot];
        let inputs = [register(0), register(1), register(2)];
        code.push(Instruction { kernel, inputs, zero });
        registers.insert(node.output, (num_loads + index) as u16);
    }
    registers
}

/// The kernel of a node for scalars, and a scalar of its output's dtype.
fn scalar_kernel(node: &PlanNode) -> Option<(Arc<dyn ScalarKernel>, Scalar)> {
    let kernel: Arc<dyn Kernel> = match &node.action {
        Action::Kernel(kernel) => kernel.clone(),
        Action::Forward => Arc::new(Forward),
        _ => return None,
    };
    let [output] = node.output_dtypes[..] else { return None };
    let fits = node.refs.is_empty() && (1..=3).contains(&node.inputs.len());
    let zero = Scalar::zero(output).ok().filter(|_| fits)?;
    Some((kernel.on_scalars()?, zero))
}

//! Scalar groups: neighbouring nodes of a body that are nothing but arithmetic run on bare scalars.
//!
//! A loop that counts, or a schedule that computes a learning rate, consists of ops on scalars, and making a tensor
//! for each result would cost many times what the arithmetic does. A group reads its scalars once, runs its nodes
//! on them and makes tensors only of what others read. Where an input is no scalar, or a node has something to
//! complain of, the nodes run one by one as if there was no group; until then the group has changed nothing.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use tfcore_base::{DType, Result};
use tfcore_framework::{Forward, Kernel, ScalarKernel, Value};
use tfcore_tensor::{Scalar, Shape, Tensor};

use crate::plan::{Action, Body, PlanNode, Slots};

/// So many nodes a group has at most: their scalars stay in the first-level cache.
const MAX_NODES: usize = 256;

/// So many variables a loop in registers has at most. With what its nodes read, their registers have numbers of 16 bits.
const MAX_VARS: usize = 1 << 12;

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
        if !kernels.iter().any(|(kernel, _)| kernel.is_arithmetic()) {
            return kernels.clear();
        }
        let (loads, code) = (self.loads.len(), self.code.len());
        let (stores, drops) = (self.stores.len(), self.drops.len());
        let nodes_range = start..start + kernels.len();
        let members = &nodes[nodes_range.clone()];
        let outputs = members[0].output..members[0].output + members.len() as u32;
        let registers = assemble(members, kernels, &mut self.loads, &mut self.code, loads);
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
    pub(crate) fn starting_at(&self, start: usize) -> &[Group] {
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
        let code = &self.code[group.code.clone()];
        if !load(&self.loads[group.loads.clone()], values, registers)
            || !execute(code, group.loads.len(), registers)
        {
            return Ok(false);
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

/// Fills the first registers with the values of slots. Returns whether all are scalars.
fn load(slots: &[u32], values: &[Value], registers: &mut [Scalar]) -> bool {
    slots.iter().zip(registers).all(|(&slot, register)| {
        let Value::Tensor(tensor) = &values[slot as usize] else { return false };
        let scalar = Scalar::of(tensor);
        *register = scalar.unwrap_or_default();
        scalar.is_some()
    })
}

/// Runs instructions whose results go to the registers from `first` on. Returns whether all had a result.
fn execute(code: &[Instruction], first: usize, registers: &mut [Scalar]) -> bool {
    code.iter().enumerate().all(|(index, instruction)| {
        let (before, behind) = registers.split_at_mut(first + index);
        let inputs = instruction.inputs.map(|register| &before[usize::from(register)]);
        behind[0] = instruction.zero;
        instruction.kernel.apply(inputs, &mut behind[0])
    })
}

/// A loop that is nothing but arithmetic on scalars: its variables stay in registers from the first iteration to the last.
pub(crate) struct ScalarLoop {
    /// The variables, and whatever else the loop reads.
    loads: Vec<u32>,
    code: Vec<Instruction>,
    /// So many instructions belong to the condition.
    split: usize,
    predicate: u16,
    /// Where the next values of the variables are.
    next: Vec<u16>,
}

impl ScalarLoop {
    /// The loop of a body whose first arguments are the variables and whose results are the condition and the variables' next
    /// values; `None` if it consists of other nodes too.
    pub(crate) fn new(body: &Body, split: usize) -> Option<ScalarLoop> {
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

    /// Runs iterations as long as the condition holds and `go_on` has no objection, and puts the variables back to their slots.
    /// Returns whether the loop is over; if not, the variables are those of the iteration that is to come.
    ///
    /// # Errors
    /// What `go_on` says; `ResourceExhausted` if there is no memory for a result.
    pub(crate) fn run(&self, values: &mut [Value], go_on: impl Fn() -> Result<()>) -> Result<bool> {
        let is_scalar = |&slot: &u32| match &values[slot as usize] {
            Value::Tensor(tensor) => tensor.rank() == 0,
            _ => false,
        };
        if !self.loads.iter().all(is_scalar) {
            return Ok(false);
        }
        let mut registers = vec![Scalar::default(); self.loads.len() + self.code.len()];
        if !load(&self.loads, values, &mut registers) {
            return Ok(false);
        }
        let (cond, body) = self.code.split_at(self.split);
        let mut next = vec![Scalar::default(); self.next.len()];
        let is_over = loop {
            go_on()?;
            if !execute(cond, self.loads.len(), &mut registers) {
                break false;
            }
            let predicate = &registers[usize::from(self.predicate)];
            if predicate.dtype() != DType::BOOL {
                break false;
            }
            if !predicate.elems().typed::<bool>()[0] {
                break true;
            }
            if !execute(body, self.loads.len() + self.split, &mut registers) {
                break false;
            }
            for (next, &register) in next.iter_mut().zip(&self.next) {
                *next = registers[usize::from(register)];
            }
            registers[..next.len()].copy_from_slice(&next);
        };
        for (&slot, scalar) in self.loads.iter().zip(&registers[..next.len()]) {
            let spare = std::mem::take(&mut values[slot as usize]);
            values[slot as usize] = Value::Tensor(tensor_of(scalar, Some(spare))?);
        }
        Ok(is_over)
    }
}

impl Group {
    pub(crate) fn nodes(&self) -> Range<usize> {
        self.nodes.clone()
    }
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

#[cfg(test)]
mod tests {
    use tfcore_base::invalid;
    use tfcore_framework::{Binary, OpContext, Registry, Unary};
    use tfcore_graph::OutputRef;

    use super::*;
    use crate::executor::tests::{plan_of, run_of};
    use crate::executor::{fetched, run};
    use crate::loop_tests::{COUNT, graph};

    struct Arithmetic<const OP: char>;

    impl Binary<f32> for Arithmetic<'+'> {
        type Out = f32;

        fn apply(x: f32, y: f32) -> f32 {
            x + y
        }
    }

    impl Binary<f32> for Arithmetic<'/'> {
        type Out = f32;
        const CHECK: Option<fn(&[f32], &[f32]) -> Result<()>> =
            Some(
                |_, divisors| {
                    if divisors.contains(&0.0) { Err(invalid!("division by zero")) } else { Ok(()) }
                },
            );

        fn apply(x: f32, y: f32) -> f32 {
            x / y
        }
    }

    impl Binary<f32> for Arithmetic<'<'> {
        type Out = bool;

        fn apply(x: f32, y: f32) -> bool {
            x < y
        }
    }

    impl Unary<f32> for Arithmetic<'-'> {
        type Out = f32;

        fn apply(x: f32) -> f32 {
            -x
        }
    }

    fn registry() -> Arc<Registry> {
        let mut registry = Registry::new();
        registry.op("Placeholder").compute(|_| Err(invalid!("not fed")));
        registry.op("AddV2").binary::<Arithmetic<'+'>, (f32,)>();
        registry.op("Div").binary::<Arithmetic<'/'>, (f32,)>();
        registry.op("Less").binary::<Arithmetic<'<'>, (f32,)>();
        registry.op("Neg").unary::<Arithmetic<'-'>, (f32,)>();
        registry.op("Identity").cpu(|_| Ok(Box::new(Forward)));
        registry.op("Abs").cpu(|_| Ok(Box::new(Shy)));
        Arc::new(registry)
    }

    /// Hands its input on, but not on scalars if that is 3.
    struct Shy;

    impl Kernel for Shy {
        fn compute(&self, ctx: &mut OpContext<'_>) -> Result<()> {
            Forward.compute(ctx)
        }

        fn on_scalars(self: Arc<Self>) -> Option<Arc<dyn ScalarKernel>> {
            Some(self)
        }
    }

    impl ScalarKernel for Shy {
        fn apply(&self, [x, ..]: [&Scalar; 3], out: &mut Scalar) -> bool {
            *out = *x;
            x.elems().typed::<f32>()[0] != 3.0
        }
    }

    /// Runs a graph three times, as scalars and as vectors, since both must give the same; the slots are the same ones.
    fn values(lines: &str, feeds: &[(&str, f32)], fetches: &[&str]) -> Result<Vec<f32>> {
        let graph = graph(registry(), lines);
        let output = |name: &&str| OutputRef::new(graph.find(name).unwrap(), 0);
        let args: Vec<OutputRef> = feeds.iter().map(|(name, _)| output(name)).collect();
        let plan =
            Arc::new(plan_of(&graph, &args, &fetches.iter().map(output).collect::<Vec<_>>()));
        let run_with = |shape: &Shape| {
            let feed = |(_, value): &(&str, f32)| {
                Value::Tensor(Tensor::from_slice(shape.clone(), &[*value]).unwrap())
            };
            let results = run(&plan, feeds.iter().map(feed).collect(), &run_of(&graph, None))?;
            let value = |result: Value| -> f32 {
                let tensor = fetched(result).unwrap();
                assert_eq!(tensor.shape(), shape);
                tensor.as_slice().unwrap()[0]
            };
            Ok(results.into_iter().map(value).collect::<Vec<f32>>())
        };
        let shapes = [Shape::scalar(), Shape::vector(1), Shape::scalar()];
        // A loop's condition must be a scalar.
        let shapes = &shapes[..if lines.contains("Less") { 1 } else { 3 }];
        let [first, others @ ..] = &shapes.iter().map(run_with).collect::<Vec<_>>()[..] else {
            panic!()
        };
        for other in others {
            assert_eq!(first.as_ref().ok(), other.as_ref().ok());
        }
        first.clone()
    }

    #[test]
    fn a_group_makes_tensors_of_what_others_read() {
        let lines = "
            x Placeholder
            y Placeholder
            a AddV2 x y
            b Neg a
            same Identity b
            c AddV2 same a
            d AddV2 c x";
        let feeds = [("x", 2.0), ("y", 3.0)];
        assert_eq!(values(lines, &feeds, &["d"]).unwrap(), [2.0]);
        assert_eq!(values(lines, &feeds, &["b", "d", "b"]).unwrap(), [-5.0, 2.0, -5.0]);
        // Results may be fed, and whatever is fed may be fetched by way of an op.
        assert_eq!(values(lines, &[("a", 7.0), ("x", 1.0)], &["same", "d"]).unwrap(), [-7.0, 1.0]);
    }

    #[test]
    fn a_node_that_complains_is_named() {
        let lines = "
            x Placeholder
            y Placeholder
            a AddV2 x y
            b Div x a
            c AddV2 b x";
        assert_eq!(values(lines, &[("x", 2.0), ("y", 2.0)], &["c", "a"]).unwrap(), [2.5, 4.0]);
        let error = values(lines, &[("x", 2.0), ("y", -2.0)], &["c", "a"]).unwrap_err();
        assert_eq!(error.message(), "division by zero\n\t [[{{node b}}]]");
    }

    #[test]
    fn long_chains_are_cut_into_groups() {
        let mut lines = "x Placeholder\n a0 AddV2 x x\n".to_string();
        for index in 1..=3 * MAX_NODES {
            lines += &format!("a{index} AddV2 a{} x\n", index - 1);
        }
        let last = format!("a{}", 3 * MAX_NODES);
        let expected = (3 * MAX_NODES + 2) as f32;
        assert_eq!(values(&lines, &[("x", 1.0)], &[&last]).unwrap(), [expected]);
    }

    #[test]
    fn loops_of_arithmetic_keep_their_variables_in_registers() {
        let feeds = |n| [("i", 0.0), ("n", n), ("one", 1.0)];
        for (n, expected) in [(0.0, [0.0, 0.0]), (1.0, [1.0, 1.0]), (10.0, [10.0, 55.0])] {
            assert_eq!(values(COUNT, &feeds(n), &["exit_i", "exit_sum"]).unwrap(), expected);
        }
        // `i, sum = sum + 1, i`: a variable becomes what another one was.
        let swapped = COUNT
            .replace("add AddV2 switch_i:1", "add AddV2 switch_sum:1")
            .replace("next_sum NextIteration sum", "next_sum NextIteration switch_i:1");
        let expected = [4.0, 3.0];
        assert_eq!(values(&swapped, &feeds(4.0), &["exit_i", "exit_sum"]).unwrap(), expected);
    }

    #[test]
    fn what_has_no_result_on_scalars_goes_on_by_its_nodes() {
        let lines = "
            x Placeholder
            a AddV2 x x
            shy Abs a
            b Neg shy";
        assert_eq!(values(lines, &[("x", 1.5)], &["b", "a"]).unwrap(), [-3.0, 3.0]);
        // In a loop from that iteration on, with the variables of the one before.
        let lines = COUNT.replace(
            "add AddV2 switch_i:1 enter_one",
            "more AddV2 switch_i:1 enter_one\n add Abs more",
        );
        let feeds = [("i", 0.0), ("n", 10.0), ("one", 1.0)];
        assert_eq!(values(&lines, &feeds, &["exit_i", "exit_sum"]).unwrap(), [10.0, 55.0]);
    }

    #[test]
    fn groups_of_a_branch_that_is_dead_do_not_run() {
        let lines = "
            x Placeholder
            y Placeholder
            one Placeholder
            less Less x y
            switch Switch x less
            a AddV2 switch:1 one
            b Neg a
            c AddV2 switch y
            d Neg c
            after Neg one ^b
            e AddV2 after a
            merge Merge e d
            result AddV2 merge one";
        let graph = graph(registry(), lines);
        let output = |name: &str| OutputRef::new(graph.find(name).unwrap(), 0);
        let args = ["x", "y", "one"].map(output);
        let plan = Arc::new(plan_of(&graph, &args, &[output("result")]));
        // The slots are the same for all runs, so that nothing may be left of the one before.
        for (x, y) in [(1.0, 2.0), (5.0, 2.0), (3.0, 4.0), (4.0, 4.0)] {
            let feeds = [x, y, 1.0].map(|value: f32| Value::Tensor(Tensor::scalar(value)));
            let results = run(&plan, feeds.into_iter().collect(), &run_of(&graph, None)).unwrap();
            let result = fetched(results[0].clone()).unwrap().scalar_value::<f32>().unwrap();
            assert_eq!(result, if x < y { x + 1.0 } else { 1.0 - x - y }, "{x} {y}");
        }
    }

    #[test]
    fn a_loop_whose_node_complains_fails_with_its_name() {
        // `sum = sum / (i + 1)`, with `i` from -3 on.
        let lines = COUNT.replace("sum AddV2 switch_sum:1 add", "sum Div switch_sum:1 add");
        let feeds = [("i", -3.0), ("n", 5.0), ("one", 1.0)];
        let error = values(&lines, &feeds, &["exit_sum"]).unwrap_err();
        assert_eq!(error.message(), "division by zero\n\t [[{{node sum}}]]");
    }
}

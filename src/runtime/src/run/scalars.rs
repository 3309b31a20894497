//! Runs scalar groups and loops on scalars; the plan crate's `scalars.rs` says what they are.

use tfcore_base::{DType, Result};
use tfcore_framework::Value;
use tfcore_plan::plan::Slots;
use tfcore_plan::scalars::{Group, Instruction, ScalarGroups, ScalarLoop};
use tfcore_tensor::{Scalar, Shape, Tensor};

/// Runs a group. Returns whether it could; if not, everything is as it was.
///
/// # Errors
/// `ResourceExhausted` if there is no memory for a result.
pub(crate) fn run_group(groups: &ScalarGroups, group: &Group, slots: &mut Slots) -> Result<bool> {
    let (values, registers) = (&mut slots.values, &mut slots.scalars);
    let code = &groups.code[group.code.clone()];
    if !load(&groups.loads[group.loads.clone()], values, registers)
        || !execute(code, group.loads.len(), registers)
    {
        return Ok(false);
    }
    for store in &groups.stores[group.stores.clone()] {
        let scalar = &registers[usize::from(store.register)];
        let spare = store.reused.map(|slot| std::mem::take(&mut values[slot as usize]));
        values[store.slot as usize] = Value::Tensor(tensor_of(scalar, spare)?);
    }
    for &slot in &groups.drops[group.drops.clone()] {
        values[slot as usize] = Value::Absent;
    }
    // Only bodies that ask have such a list.
    if let Some(dead) = slots.dead.get_mut(group.nodes.clone()) {
        dead.fill(false);
    }
    Ok(true)
}

/// Runs iterations as long as the condition holds and `go_on` has no objection, and puts the variables back to their slots.
/// Returns whether the loop is over; if not, the variables are those of the iteration that is to come.
///
/// # Errors
/// What `go_on` says; `ResourceExhausted` if there is no memory for a result.
pub(crate) fn run_loop(
    made: &ScalarLoop,
    values: &mut [Value],
    go_on: impl Fn() -> Result<()>,
) -> Result<bool> {
    let is_scalar = |&slot: &u32| match &values[slot as usize] {
        Value::Tensor(tensor) => tensor.rank() == 0,
        _ => false,
    };
    if !made.loads.iter().all(is_scalar) {
        return Ok(false);
    }
    let mut registers = vec![Scalar::default(); made.loads.len() + made.code.len()];
    if !load(&made.loads, values, &mut registers) {
        return Ok(false);
    }
    let (cond, body) = made.code.split_at(made.split);
    let mut next = vec![Scalar::default(); made.next.len()];
    let is_over = loop {
        go_on()?;
        if !execute(cond, made.loads.len(), &mut registers) {
            break false;
        }
        let predicate = &registers[usize::from(made.predicate)];
        if predicate.dtype() != DType::BOOL {
            break false;
        }
        if !predicate.elems().typed::<bool>()[0] {
            break true;
        }
        if !execute(body, made.loads.len() + made.split, &mut registers) {
            break false;
        }
        for (next, &register) in next.iter_mut().zip(&made.next) {
            *next = registers[usize::from(register)];
        }
        registers[..next.len()].copy_from_slice(&next);
    };
    for (&slot, scalar) in made.loads.iter().zip(&registers[..next.len()]) {
        let spare = std::mem::take(&mut values[slot as usize]);
        values[slot as usize] = Value::Tensor(tensor_of(scalar, Some(spare))?);
    }
    Ok(is_over)
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
    use std::sync::Arc;

    use tfcore_base::invalid;
    use tfcore_framework::{Binary, Forward, Kernel, OpContext, Registry, ScalarKernel, Unary};
    use tfcore_graph::OutputRef;

    use super::*;
    use crate::run::engine::run;
    use crate::run::exec::fetched;
    use crate::run::testing::run_of;
    use tfcore_plan::scalars::MAX_NODES;
    use tfcore_plan::testing::{COUNT, graph, plan_of};

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

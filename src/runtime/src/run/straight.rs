//! The straight gear: nodes run one after the other on the caller's thread. Values may be dead, so that conditionals of Switch
//! and Merge need nothing else. Loops that are one node run here too.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use smallvec::SmallVec;
use tfcore_base::{Error, Result, invalid};
use tfcore_framework::{Outputs, Value};
use tfcore_plan::plan::{Action, Body, Loop, Plan, PlanNode, Slots};

use crate::run::condition::holds;
use crate::run::exec::{Exec, Inputs, Within};
use crate::run::node::{panicked, run_in_place};
use crate::run::scalars;

/// Runs a plan.
pub(crate) fn run(plan: &Plan, args: Inputs, exec: Exec<'_>) -> Result<Outputs> {
    let body = &plan.body;
    let mut slots = body.take_slots();
    for (slot, arg) in slots.values[body.args()].iter_mut().zip(args) {
        *slot = arg;
    }
    if let Err(error) = run_range(body, 0..body.nodes.len(), &mut slots, exec) {
        body.give_back(slots);
        return Err(error);
    }
    let results = body.results.iter().map(|&slot| {
        let value = &mut slots.values[slot as usize];
        if body.moves_results { std::mem::take(value) } else { value.clone() }
    });
    let results = results.collect();
    body.give_back_done(slots);
    Ok(results)
}

/// Runs some nodes of a body, one after the other.
///
/// # Errors
/// The failing node's error, with its name.
fn run_range(body: &Body, range: Range<usize>, slots: &mut Slots, exec: Exec<'_>) -> Result<()> {
    // Where a panic happened; one guard for all nodes costs them nothing.
    let mut at = range.start;
    let end = range.end;
    // A trace is of nodes.
    let mut groups = if exec.run.trace.is_some() { &[] } else { body.scalars.starting_at(at) };
    let mut go_on = || -> Result<()> {
        while at < end {
            exec.check()?;
            let node = &body.nodes[at];
            if let Some((group, rest)) = groups.split_first()
                && group.nodes.start == at
            {
                groups = rest;
                let done = scalars::run_group(&body.scalars, group, slots);
                if done.map_err(|error| error.at_node(&node.name))? {
                    at = group.nodes.end;
                    continue;
                }
            }
            if body.may_be_dead && is_dead(node, slots) {
                slots.dead[at] = true;
                // In a loop they may still hold what they were in the last iteration.
                let outputs = node.output as usize..node.output as usize + node.num_outputs();
                slots.values[outputs].fill_with(Value::default);
                drop_unread(node, &mut slots.values);
            } else {
                run_in_place(node, &mut slots.values, exec)
                    .map_err(|error| exec.blame(node, error))?;
                drop_unread(node, &mut slots.values);
                if body.may_be_dead {
                    slots.dead[at] = false;
                }
            }
            at += 1;
        }
        Ok(())
    };
    match catch_unwind(AssertUnwindSafe(&mut go_on)) {
        Ok(result) => result,
        Err(_) => Err(panicked(&body.nodes[at])),
    }
}

/// Whether a node must not run: something that it reads or runs after is dead.
fn is_dead(node: &PlanNode, slots: &Slots) -> bool {
    let is_absent = |slot: u32| matches!(slots.values[slot as usize], Value::Absent);
    match node.action {
        Action::Trigger | Action::Transfer(_) => false,
        Action::Merge => node.inputs.iter().all(|input| is_absent(input.slot)),
        _ => {
            node.inputs.iter().any(|input| is_absent(input.slot))
                || node.controls.iter().any(|&control| slots.dead[control as usize])
        }
    }
}

fn drop_unread(node: &PlanNode, values: &mut [Value]) {
    for &slot in &node.drops {
        values[slot as usize] = Value::Absent;
    }
}

/// Runs a loop that is one node.
///
/// `by_switches`: the reference makes it of Switches, which want a scalar for a condition.
pub(crate) fn run_loop(
    made: &Loop,
    inputs: Inputs,
    outputs: &mut [Value],
    by_switches: bool,
    exec: Exec<'_>,
) -> Result<()> {
    let mut slots = made.body.take_slots();
    let calls = made.functions.is_some() && !by_switches;
    let exec = exec.within(if calls { Within::Call } else { Within::Loop });
    let result = iterate(made, &mut slots, inputs, by_switches, exec);
    if result.is_ok() {
        let vars = &mut slots.values[made.body.args()];
        let exits = vars.iter_mut().zip(&made.exits).filter(|(_, exits)| **exits);
        for ((var, _), output) in exits.zip(outputs) {
            *output = std::mem::take(var);
        }
    }
    made.body.give_back(slots);
    result
}

fn iterate(
    made: &Loop,
    slots: &mut Slots,
    inputs: Inputs,
    by_switches: bool,
    exec: Exec<'_>,
) -> Result<()> {
    let (body, args) = (&made.body, made.body.args());
    for (slot, input) in slots.values[args.clone()].iter_mut().zip(inputs) {
        *slot = input;
    }
    // A trace is of nodes.
    if let (Some(on_scalars), None) = (&made.scalars, &exec.run.trace)
        && scalars::run_loop(on_scalars, &mut slots.values, || exec.check())?
    {
        return Ok(());
    }
    let mut next: SmallVec<[Value; 8]> = SmallVec::new();
    loop {
        run_range(body, 0..made.split, slots, exec).map_err(|error| leave(made, 0, error))?;
        let Value::Tensor(predicate) = &slots.values[body.results[0] as usize] else {
            return Err(invalid!("The condition of a loop is dead"));
        };
        if !holds(predicate, by_switches)? {
            return Ok(());
        }
        run_range(body, made.split..body.nodes.len(), slots, exec)
            .map_err(|error| leave(made, 1, error))?;
        exec.check()?;
        if made.all_move {
            for (var, &slot) in args.clone().zip(&body.results[1..]) {
                slots.values[var] = std::mem::take(&mut slots.values[slot as usize]);
            }
            continue;
        }
        for (&slot, &moves) in body.results[1..].iter().zip(&made.moves) {
            let value = &mut slots.values[slot as usize];
            next.push(if moves { std::mem::take(value) } else { value.clone() });
        }
        for (slot, value) in slots.values[args.clone()].iter_mut().zip(next.drain(..)) {
            *slot = value;
        }
    }
}

/// Notes in an error of the condition (0) or the body (1) which function it has left.
fn leave(made: &Loop, part: usize, error: Error) -> Error {
    match &made.functions {
        Some(functions) => error.in_function(&functions[part]),
        None => error,
    }
}

//! Loops and conditionals as front ends build them, in both of the ways they can run.

use std::sync::Arc;

use tfcore_base::{Code, Result};
use tfcore_framework::{Outputs, Registry, Value};
use tfcore_graph::OutputRef;
use tfcore_plan::plan::Gear;
use tfcore_plan::testing::{COUNT, graph, plan_of, vector};
use tfcore_tensor::{Shape, Tensor};

use crate::run::engine;
use crate::run::exec::fetched;
use crate::run::testing::run_of;

fn registry() -> Arc<Registry> {
    let mut registry = Registry::new();
    registry.op("Placeholder").compute(|_| Err(tfcore_base::invalid!("not fed")));
    registry.op("Less").compute(|ctx| {
        let less = ctx.input_slice::<f32>(0)?[0] < ctx.input_slice::<f32>(1)?[0];
        ctx.set_output(0, Tensor::scalar(less));
        Ok(())
    });
    registry.op("LessEqual").compute(|ctx| {
        let less = ctx.input_slice::<f32>(0)?[0] <= ctx.input_slice::<f32>(1)?[0];
        ctx.set_output(0, Tensor::from_slice(Shape::vector(1), &[less])?);
        Ok(())
    });
    registry.op("AddV2").compute(|ctx| {
        let sum = ctx.input_slice::<f32>(0)?[0] + ctx.input_slice::<f32>(1)?[0];
        ctx.set_output(0, vector(&[sum]));
        Ok(())
    });
    registry.op("LeakyRelu").compute(|ctx| {
        let value = ctx.take_input(0)?;
        ctx.set_output(0, value);
        Ok(())
    });
    registry.op("Exp").compute(|_| Err(tfcore_base::invalid!("must not run")));
    Arc::new(registry)
}

/// What the nodes `fetches` give for a graph in which every placeholder is fed its value, and whether the plan
/// needed the gear with frames.
fn run(lines: &str, feeds: &[(&str, f32)], fetches: &[&str]) -> (Result<Vec<f32>>, bool) {
    let graph = graph(registry(), lines);
    let output = |name: &&str| OutputRef::new(graph.find(name).unwrap(), 0);
    let args: Vec<OutputRef> = feeds.iter().map(|(name, _)| output(name)).collect();
    let fetches: Vec<OutputRef> = fetches.iter().map(output).collect();
    let plan = Arc::new(plan_of(&graph, &args, &fetches));
    let values = feeds.iter().map(|(_, value)| Value::Tensor(vector(&[*value]))).collect();
    let results = engine::run(&plan, values, &run_of(&graph, None));
    let value = |result: Value| fetched(result).unwrap().as_slice().unwrap()[0];
    let values = |results: Outputs| results.into_iter().map(value).collect();
    (results.map(values), matches!(plan.gear, Gear::Dataflow(_)))
}

/// As [`COUNT`], but in a shape that is not lifted: the variable passes another node on its way out.
fn count_in_frames() -> String {
    COUNT.replace("exit_i Exit switch_i", "way_out LeakyRelu switch_i\n exit_i Exit way_out")
}

#[test]
fn a_loop_counts() {
    for (lines, in_frames) in [(COUNT.to_string(), false), (count_in_frames(), true)] {
        let cases =
            [(0.0, [0.0, 0.0, 0.0]), (1.0, [1.0, 1.0, 2.0]), (100.0, [100.0, 5050.0, 5150.0])];
        for (n, expected) in cases {
            let feeds = [("i", 0.0), ("n", n), ("one", 1.0)];
            let (result, needs_frames) = run(&lines, &feeds, &["exit_i", "exit_sum", "last"]);
            assert_eq!(result.unwrap(), expected);
            assert_eq!(needs_frames, in_frames);
        }
    }
}

/// `while i < n: (j = i; while j < n: j += i + 1); i = j`
const NESTED: &str = "
    i Placeholder
    n Placeholder
    one Placeholder
    enter_i Enter i outer
    enter_n Enter n outer!
    enter_one Enter one outer!
    merge_i Merge enter_i next_i
    less Less merge_i enter_n
    cond LoopCond less
    switch_i Switch merge_i cond
    step AddV2 switch_i:1 enter_one
    enter_j Enter switch_i:1 inner
    inner_n Enter enter_n inner!
    inner_step Enter step inner!
    merge_j Merge enter_j next_j
    inner_less Less merge_j inner_n
    inner_cond LoopCond inner_less
    switch_j Switch merge_j inner_cond
    add AddV2 switch_j:1 inner_step
    next_j NextIteration add
    exit_j Exit switch_j
    next_i NextIteration exit_j
    exit_i Exit switch_i
";

#[test]
fn loops_nest() {
    let in_frames =
        NESTED.replace("exit_i Exit switch_i", "way_out LeakyRelu switch_i\n exit_i Exit way_out");
    for (lines, in_frames) in [(NESTED, false), (&in_frames, true)] {
        // 0, 1, 2, ... 10 by ones; from 3: 3, 7, 11.
        for (i, expected) in [(0.0, 10.0), (3.0, 11.0), (12.0, 12.0)] {
            let feeds = [("i", i), ("n", 10.0), ("one", 1.0)];
            let (result, needs_frames) = run(lines, &feeds, &["exit_i"]);
            assert_eq!(result.unwrap(), [expected], "{in_frames}");
            assert_eq!(needs_frames, in_frames);
        }
    }
}

/// What is fetched from inside of the outer loop is there if that runs once.
#[test]
fn an_inner_loop_is_fetched() {
    // The outer loop runs once from below 10; the inner one adds one more than where it starts.
    let cases = [
        ("exit_j", 9.0, Ok([19.0])),
        ("exit_j", 4.0, Ok([14.0])),
        ("exit_j", 12.0, Err("Retval[0] does not have value")),
        ("next_i", 9.0, Ok([19.0])),
        ("enter_j", 9.0, Ok([9.0])),
        // Of every iteration of the inner loop.
        ("inner_n", 9.0, Err("A result is in a loop")),
    ];
    for (fetch, i, expected) in cases {
        let feeds = [("i", i), ("n", 10.0), ("one", 1.0)];
        let (result, needs_frames) = run(NESTED, &feeds, &[fetch, "exit_i"]);
        assert!(needs_frames);
        match (result, expected) {
            (Ok(values), Ok(expected)) => assert_eq!(values[..1], expected, "{fetch}"),
            (Err(error), Err(message)) => assert!(error.message().starts_with(message), "{error}"),
            (result, expected) => panic!("{fetch} from {i}: {result:?}, not {expected:?}"),
        }
    }
}

/// `z = x < y ? x + y : y`, and what only one of the branches computes.
const COND: &str = "
    x Placeholder
    y Placeholder
    lower Less x y
    switch_x Switch x lower
    switch_y Switch y lower
    then AddV2 switch_x:1 switch_y:1
    else LeakyRelu switch_y
    merge Merge else then
    z LeakyRelu merge
    never Exp switch_x
    after LeakyRelu x ^then
";

#[test]
fn a_conditional_runs_one_branch() {
    // Side by side with a loop in frames it runs in the other gear.
    let with_loop = format!("{COND}{}", count_in_frames());
    for (lines, in_frames) in [(COND, false), (&with_loop, true)] {
        let fetch = |x: f32, y: f32, fetches: &[&str]| {
            let mut feeds = vec![("x", x), ("y", y)];
            let mut fetches = fetches.to_vec();
            if in_frames {
                feeds.extend([("i", 0.0), ("n", 2.0), ("one", 1.0)]);
                fetches.push("exit_i");
            }
            let (result, needs_frames) = run(lines, &feeds, &fetches);
            assert_eq!(needs_frames, in_frames);
            result.map(|values| values[0])
        };
        assert_eq!(fetch(1.0, 2.0, &["z"]).unwrap(), 3.0);
        assert_eq!(fetch(2.0, 1.0, &["z"]).unwrap(), 1.0);
        assert_eq!(fetch(1.0, 2.0, &["after"]).unwrap(), 1.0);
        let dead = fetch(1.0, 2.0, &["never"]).unwrap_err();
        assert_eq!(
            (dead.code(), dead.message()),
            (Code::InvalidArgument, "Retval[0] does not have value")
        );
        assert_eq!(fetch(2.0, 1.0, &["after"]).unwrap_err().message(), dead.message());
        assert!(fetch(2.0, 1.0, &["never"]).unwrap_err().message().starts_with("must not run"));
    }
}

#[test]
fn a_condition_is_a_scalar() {
    for lines in [COUNT.to_string(), count_in_frames()] {
        let lines = lines.replace("less Less", "less LessEqual");
        for n in [-1.0, 3.0] {
            let (result, _) = run(&lines, &[("i", 0.0), ("n", n), ("one", 1.0)], &["exit_i"]);
            let error = result.unwrap_err();
            assert_eq!(error.code(), Code::InvalidArgument);
            let message = "The second input must be a scalar, but it has shape [1]";
            assert!(error.message().starts_with(message), "{error}");
        }
    }
}

/// `way_out` leaves the loop past a Switch on another predicate: it must not be taken for the loop's own.
#[test]
fn an_exit_of_another_switch_is_not_lifted() {
    let lines = COUNT.replace(
        "exit_i Exit switch_i",
        "lower Less merge_i enter_n\n way_out Switch merge_i lower\n exit_i Exit way_out",
    );
    let feeds = [("i", 0.0), ("n", 3.0), ("one", 1.0)];
    let (result, needs_frames) = run(&lines, &feeds, &["exit_i"]);
    assert!(needs_frames);
    // The other predicate is false, and the Exit alive, in the same iteration as the loop's own.
    assert_eq!(result.unwrap(), [3.0]);
}

//! The planner: passes over a graph, then lowering. Plans of requests, of functions, and of loops of two functions.

use tfcore_base::{Result, invalid};

use crate::context::PassContext;
use crate::graph::{PlanGraph, Source};
use crate::loops::ROOT;
use crate::lower::body::{BodyBuilder, make_loop};
use crate::lower::plan::{items_of, lower, lower_to_frames};
use crate::passes;
use crate::plan::{Loop, Parts, Plan};

/// A plan that computes the results of `source` and runs its targets.
///
/// # Errors
/// What is wrong with the nodes, in the reference's words.
pub fn plan(source: Source<'_>, context: &PassContext<'_>) -> Result<Plan> {
    let mut graph = PlanGraph::new(source);
    passes::run(passes::ALL, &mut graph, context)?;
    lower(&graph, context)
}

/// As [`plan`], for a run whose arguments come one by one: it runs in frames.
///
/// # Errors
/// As [`plan`]; `InvalidArgument` for a result inside of a loop.
pub fn plan_partial(source: Source<'_>, context: &PassContext<'_>) -> Result<Plan> {
    let mut graph = PlanGraph::new(source);
    passes::run(passes::FOR_PARTIAL_RUNS, &mut graph, context)?;
    let results = graph.source.results.iter().filter(|output| !graph.fed.contains(*output));
    if let Some(inside) = results.map(|output| output.node).find(|&id| graph.frames.of(id) != ROOT)
    {
        let name = &graph.node(inside).name;
        return Err(invalid!("Operation '{name}' is in a while loop, cannot be fetched"));
    }
    lower_to_frames(&graph, context)
}

/// A function, as part of a loop.
pub struct LoopPart<'p> {
    pub name: &'p str,
    pub parts: &'p Parts,
    pub context: PassContext<'p>,
}

/// The loop of two functions as one body; `None` if it must run by calls, because a node may wait for others or
/// the functions do not fit together.
///
/// # Errors
/// What is wrong with the functions.
pub fn while_loop(cond: &LoopPart<'_>, body: &LoopPart<'_>) -> Result<Option<Loop>> {
    let num_vars = cond.parts.args.len();
    let dtypes = cond.parts.dtypes(&cond.parts.args);
    let fits = cond.parts.results.len() == 1
        && body.parts.dtypes(&body.parts.args) == dtypes
        && body.parts.dtypes(&body.parts.results) == dtypes;
    if !fits {
        return Ok(None);
    }
    let (mut cond_graph, mut body_graph) =
        (PlanGraph::new(cond.parts.source()), PlanGraph::new(body.parts.source()));
    passes::run(passes::FOR_LOOPS, &mut cond_graph, &cond.context)?;
    let Some(items) = items_of(&cond_graph) else { return Ok(None) };
    let mut builder = BodyBuilder::new(&cond_graph, cond.context, &cond.parts.args);
    builder.add_items(&items)?;
    let split = builder.nodes.len();
    let mut results = vec![builder.place_of(cond.parts.results[0])?];

    passes::run(passes::FOR_LOOPS, &mut body_graph, &body.context)?;
    let Some(items) = items_of(&body_graph) else { return Ok(None) };
    builder.go_on_with(&body_graph, body.context, &body.parts.args);
    builder.add_items(&items)?;
    for &next in &body.parts.results {
        results.push(builder.place_of(next)?);
    }
    if builder.may_wait {
        return Ok(None);
    }
    let made = builder.finish_loop(&results, split, num_vars);
    let made = make_loop(made, split, vec![true; num_vars]);
    let functions = Some([cond.name.to_string(), body.name.to_string()]);
    Ok(Some(Loop { dtypes, functions, ..made }))
}

#[cfg(test)]
mod tests {
    use crate::testing::{add, plan_of, registry};
    use tfcore_base::DType;
    use tfcore_framework::AttrValue;
    use tfcore_graph::{Graph, NodeBuilder, OutputRef};
    use tfcore_tensor::Tensor;

    #[test]
    fn the_last_reader_may_reuse_a_value() {
        let mut graph = Graph::new(registry());
        let x = add(&mut graph, "Placeholder", "x", &[]);
        let a = add(&mut graph, "Neg", "a", &[x]);
        let twice = add(&mut graph, "AddV2", "twice", &[a, a]);
        let sum = add(&mut graph, "AddV2", "sum", &[twice, x]);
        // For each node whether its inputs may be taken, and how many values are dropped after it.
        let cases: [(&[OutputRef], [(&[bool], usize); 3]); 3] = [
            (&[sum], [(&[false], 0), (&[false, false], 1), (&[true, true], 2)]),
            (&[sum, a], [(&[false], 0), (&[false, false], 0), (&[true, true], 2)]),
            (&[sum, twice], [(&[false], 0), (&[false, false], 1), (&[false, true], 1)]),
        ];
        for (fetches, expected) in cases {
            let plan = plan_of(&graph, &[x], fetches);
            for (node, (last, drops)) in plan.body.nodes.iter().zip(expected) {
                let marks: Vec<bool> = node.inputs.iter().map(|input| input.last).collect();
                assert_eq!((&marks[..], node.drops.len()), (last, drops), "{}", node.name.as_str());
            }
        }
    }

    #[test]
    fn who_uses_a_constant_runs_after_what_it_runs_after() {
        let mut graph = Graph::new(registry());
        let x = add(&mut graph, "Placeholder", "x", &[]);
        let first = add(&mut graph, "Neg", "first", &[x]);
        let mut builder = NodeBuilder::new("Const", "c");
        builder.set_attr("dtype", AttrValue::Type(DType::FLOAT));
        builder.set_attr("value", AttrValue::tensor(Tensor::scalar(1.0f32)));
        builder.add_control_input(first.node);
        let constant = OutputRef::new(builder.finish(&mut graph).unwrap(), 0);
        let sum = add(&mut graph, "AddV2", "sum", &[x, constant]);
        let plan = plan_of(&graph, &[x], &[sum]);
        let names: Vec<&str> = plan.body.nodes.iter().map(|node| node.name.as_str()).collect();
        assert_eq!(names, ["first", "sum"]);
        assert_eq!(plan.body.nodes[1].controls[..], [0]);
    }
}

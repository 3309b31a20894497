//! The engine: runs each plan in the gear that was chosen when it was made.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use tfcore_base::Result;
use tfcore_framework::{Outputs, Value};
use tfcore_plan::plan::{Control, Gear, Plan, PlanNode};
use tfcore_plan::retval;

use crate::run::exec::{Engine, Exec, Inputs, Run, fetched};
use crate::run::{control, flow, parallel, straight};

/// From this many nanoseconds a node on average, sharing nodes out pays for handing them over.
const WORTH_SHARING_NANOS: u64 = 5_000;

/// All gears.
pub(crate) struct Gears;

impl Engine for Gears {
    fn run_plan(&self, plan: &Arc<Plan>, args: Inputs, exec: Exec<'_>) -> Result<Outputs> {
        run_plan(plan, args, exec)
    }

    fn run_control(
        &self,
        control: &Control,
        inputs: Inputs,
        outputs: &mut [Value],
        node: &PlanNode,
        exec: Exec<'_>,
    ) -> Result<()> {
        control::run(control, inputs, outputs, node, exec)
    }
}

/// Runs a plan on the fed tensors and returns the fetched ones, every one a tensor.
///
/// # Errors
/// The first failing node's error, with its name.
pub(crate) fn run(plan: &Arc<Plan>, feeds: Inputs, run: &Arc<Run>) -> Result<Outputs> {
    let mut results = run_plan(plan, feeds, Exec::new(run)).map_err(|error| run.cause_of(error))?;
    let mut is_missing = false;
    for value in results.iter_mut().filter(|value| !matches!(value, Value::Tensor(_))) {
        match fetched(value.clone()) {
            Ok(tensor) => *value = Value::Tensor(tensor),
            Err(_) => is_missing = true,
        }
    }
    if is_missing { Err(retval::missing(&plan.retvals, &results)) } else { Ok(results) }
}

/// Runs a plan to its end; this thread takes part.
fn run_plan(plan: &Arc<Plan>, args: Inputs, exec: Exec<'_>) -> Result<Outputs> {
    match &plan.gear {
        Gear::Straight => straight::run(plan, args, exec),
        Gear::Parallel(dependencies) => {
            if let Some(pool) = &exec.run.pool
                && dependencies.node_nanos.load(Ordering::Relaxed) >= WORTH_SHARING_NANOS
            {
                return parallel::run(plan, dependencies, args, pool, exec);
            }
            let is_first = dependencies.node_nanos.load(Ordering::Relaxed) == 0;
            let start = is_first.then(Instant::now);
            let result = straight::run(plan, args, exec)?;
            if let Some(start) = start {
                note_time(&dependencies.node_nanos, start, plan.body.nodes.len());
            }
            Ok(result)
        }
        Gear::Dataflow(dataflow) => flow::run(plan, dataflow, args, exec),
    }
}

fn note_time(node_nanos: &AtomicU64, start: Instant, nodes: usize) {
    let nanos = start.elapsed().as_nanos() as u64 / nodes.max(1) as u64;
    node_nanos.store(nanos.max(1), Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;
    use tfcore_base::Code;
    use tfcore_graph::{Graph, OutputRef};
    use tfcore_math::pool::Pool;
    use tfcore_plan::testing::{add, plan_of, registry, vector};
    use tfcore_tensor::Tensor;

    use crate::run::testing::run_of;

    /// What both gears give for a plan fed with `x`.
    fn both_gears(graph: &Graph, plan: Plan, x: &Tensor) -> [Result<Vec<Tensor>>; 2] {
        let plan = Arc::new(plan);
        let tensors = |results: Outputs| results.into_iter().map(fetched).collect();
        let args = || [Value::Tensor(x.clone())].into_iter().collect();
        let straight = run(&plan, args(), &run_of(graph, None)).and_then(tensors);
        let Gear::Parallel(dependencies) = &plan.gear else { return [straight.clone(), straight] };
        let pool = Arc::new(Pool::new(3));
        let run = run_of(graph, Some(pool.clone()));
        let results = parallel::run(&plan, dependencies, args(), &pool, Exec::new(&run));
        [straight, results.and_then(tensors)]
    }

    #[test]
    fn both_gears_give_the_same() {
        let mut graph = Graph::new(registry());
        let x = add(&mut graph, "Placeholder", "x", &[]);
        let a = add(&mut graph, "Neg", "a", &[x]);
        let b = add(&mut graph, "Neg", "b", &[x]);
        let twice = add(&mut graph, "AddV2", "twice", &[a, a]);
        let sum = add(&mut graph, "AddV2", "sum", &[twice, b]);
        let last = add(&mut graph, "AddV2", "last", &[sum, x]);
        let fed = vector(&[1.0, -2.0]);
        for _ in 0..50 {
            // Values that are fetched, or read twice, must not be overwritten by those that follow.
            let plan = plan_of(&graph, &[x], &[last, a, sum, a]);
            for result in both_gears(&graph, plan, &fed) {
                let values: Vec<Vec<f32>> =
                    result.unwrap().iter().map(|t| t.as_slice().unwrap().to_vec()).collect();
                assert_eq!(values, [[-2.0, 4.0], [-1.0, 2.0], [-3.0, 6.0], [-1.0, 2.0]]);
            }
            assert_eq!(fed.as_slice::<f32>().unwrap(), [1.0, -2.0]);
        }
    }

    #[test]
    fn the_caller_does_what_the_pool_does_not() {
        let mut graph = Graph::new(registry());
        let x = add(&mut graph, "Placeholder", "x", &[]);
        let mut sums: Vec<OutputRef> =
            (0..8).map(|i| add(&mut graph, "Neg", &format!("neg{i}"), &[x])).collect();
        while let [first, second, ..] = sums[..] {
            let name = format!("sum{}", graph.num_ids());
            sums.push(add(&mut graph, "AddV2", &name, &[first, second]));
            sums.drain(..2);
        }
        let plan = Arc::new(plan_of(&graph, &[x], &sums));
        let Gear::Parallel(dependencies) = &plan.gear else { panic!("the graph is wide") };
        // Threads that have something else to do are as good as none.
        let pool = Arc::new(Pool::new(2));
        let (release, wait) = std::sync::mpsc::channel::<()>();
        let wait = Arc::new(Mutex::new(wait));
        for _ in 0..2 {
            let wait = wait.clone();
            let task = move || {
                let _ = wait.lock().recv();
            };
            assert!(pool.spawn(Box::new(task)).is_ok());
        }
        let run = run_of(&graph, Some(pool.clone()));
        let args = [Value::Tensor(vector(&[1.0]))].into_iter().collect();
        let results = parallel::run(&plan, dependencies, args, &pool, Exec::new(&run)).unwrap();
        let sum = fetched(results[0].clone()).unwrap();
        assert_eq!(sum.as_slice::<f32>().unwrap(), [-8.0]);
        drop(release);
    }

    #[test]
    fn a_failing_node_is_named_in_both_gears() {
        let cases = [
            ("Exp", Code::Internal, "panicked"),
            ("Placeholder", Code::InvalidArgument, "not fed"),
        ];
        for (op, code, message) in cases {
            let mut graph = Graph::new(registry());
            let x = add(&mut graph, "Placeholder", "x", &[]);
            let inputs = if op == "Exp" { &[x][..] } else { &[] };
            let bad = add(&mut graph, op, "bad", inputs);
            let sum = add(&mut graph, "AddV2", "sum", &[x, bad]);
            for result in both_gears(&graph, plan_of(&graph, &[x], &[sum]), &vector(&[1.0])) {
                let error = result.unwrap_err();
                assert_eq!(error.code(), code);
                assert!(error.message().contains(message), "{error}");
                assert!(error.message().ends_with("[[{{node bad}}]]"), "{error}");
            }
        }
    }
}

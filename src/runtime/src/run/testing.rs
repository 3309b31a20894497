//! Steps for tests.

use std::sync::{Arc, OnceLock};

use tfcore_graph::Graph;
use tfcore_math::pool::Pool;
use tfcore_plan::testing::functions_of;

use crate::run::engine::Gears;
use crate::run::exec::Run;

pub(crate) fn run_of(graph: &Graph, pool: Option<Arc<Pool>>) -> Arc<Run> {
    let functions = functions_of(graph);
    Arc::new(Run {
        step: Arc::default(),
        others: Vec::new(),
        pool,
        trace: None,
        deadline: None,
        call_deadlines: None,
        functions,
        engine: &Gears,
        cause: OnceLock::new(),
    })
}

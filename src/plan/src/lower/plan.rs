//! From a graph to a plan: chooses the gear.

use std::borrow::Cow;
use std::sync::Arc;

use tfcore_base::Result;

use crate::context::PassContext;
use crate::graph::PlanGraph;
use crate::loops::Item;
use crate::lower::body::{BodyBuilder, dependencies, is_wide};
use crate::lower::dataflow::dataflow;
use crate::plan::{Body, Gear, Plan};

/// The plan of a graph.
///
/// # Errors
/// What is wrong with a node: it has no kernel, or one that refuses its attrs.
pub(crate) fn lower(graph: &PlanGraph<'_>, context: &PassContext<'_>) -> Result<Plan> {
    if let Some(items) = items_of(graph) {
        let mut builder = BodyBuilder::new(graph, *context, graph.source.args);
        builder.add_items(&items)?;
        if !builder.may_wait {
            let (body, waits_for) = builder.finish(graph.source.results);
            let gear = match !body.may_be_dead && is_wide(&waits_for) {
                true => Gear::Parallel(Arc::new(dependencies(&body, &waits_for))),
                false => Gear::Straight,
            };
            return Ok(plan_of(graph, body, gear));
        }
    }
    lower_to_frames(graph, context)
}

/// As [`lower`], in the gear with frames.
///
/// # Errors
/// As [`lower`].
pub(crate) fn lower_to_frames(graph: &PlanGraph<'_>, context: &PassContext<'_>) -> Result<Plan> {
    let mut builder = BodyBuilder::new(graph, *context, graph.source.args);
    builder.keeps_frames = true;
    builder.add_items(&nodes_of(graph))?;
    let may_wait = builder.may_wait;
    let numbers = std::mem::take(&mut builder.numbers);
    let (body, _) = builder.finish(graph.source.results);
    let flow = dataflow(graph, &body, &numbers, may_wait);
    Ok(plan_of(graph, body, Gear::Dataflow(Arc::new(flow))))
}

/// The nodes in order, each loop one item; `None` if a loop must run in frames.
pub(crate) fn items_of<'g>(graph: &'g PlanGraph<'_>) -> Option<Cow<'g, [Item]>> {
    match (&graph.items, graph.frames.is_flat()) {
        (Some(items), _) => Some(Cow::Borrowed(items)),
        (None, true) => Some(Cow::Owned(nodes_of(graph))),
        (None, false) => None,
    }
}

fn nodes_of(graph: &PlanGraph<'_>) -> Vec<Item> {
    graph.order.iter().map(|&id| Item::Node(id)).collect()
}

fn plan_of(graph: &PlanGraph<'_>, body: Body, gear: Gear) -> Plan {
    let (args, results) = (graph.dtypes(graph.source.args), graph.dtypes(graph.source.results));
    Plan::new(body, gear, args, results)
}

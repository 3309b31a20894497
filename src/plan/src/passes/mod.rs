//! Passes: what is found out about a graph, and what is changed in it, before it is lowered. One file each.
//!
//! A pass for later belongs into [`ALL`] behind `fold`: common subexpressions, chains of element-wise ops, batch norm folded into
//! weights, epilogues of products and convolutions; transfers between devices come behind `lift`.

use tfcore_base::Result;
use tfcore_framework::log::{self, Stream};

use crate::context::PassContext;
use crate::graph::PlanGraph;
use crate::passes::pass::Pass;

pub mod fold;
pub mod frames;
pub mod lift;
pub mod pass;
pub mod place;
pub mod prune;
pub mod unread;

/// All passes in their order.
pub const ALL: &[&dyn Pass] =
    &[&prune::Prune, &unread::Unread, &place::Place, &frames::FindFrames, &fold::Fold, &lift::Lift];

/// Those for a run whose arguments come one by one.
pub const FOR_PARTIAL_RUNS: &[&dyn Pass] = &[&prune::Prune, &place::Place, &frames::FindFrames];

/// Those for the functions of a loop.
pub const FOR_LOOPS: &[&dyn Pass] =
    &[&prune::Prune, &place::Place, &frames::FindFrames, &lift::Lift];

/// Runs passes one after the other.
///
/// # Errors
/// The first error of a pass. In debug builds `Internal` for a graph that a pass has left inconsistent.
pub fn run(
    passes: &[&dyn Pass],
    graph: &mut PlanGraph<'_>,
    context: &PassContext<'_>,
) -> Result<()> {
    for pass in passes {
        if !pass.is_required() && !context.options.is_on(pass.name()) {
            continue;
        }
        print(graph, context, "before", *pass);
        pass.run(graph, context)?;
        print(graph, context, "after", *pass);
        if cfg!(debug_assertions) {
            graph.check().map_err(|error| error.at_node(pass.name()))?;
        }
    }
    Ok(())
}

fn print(graph: &PlanGraph<'_>, context: &PassContext<'_>, when: &str, pass: &dyn Pass) {
    if context.options.log {
        let (name, count) = (pass.name(), graph.order.len());
        let nodes = graph.dump();
        log::write(Stream::Stderr, &format!("plan: {when} {name}, {count} nodes\n{nodes}"));
    }
}

//! `Pass`: what all passes are to the list of passes.

use tfcore_base::Result;

use crate::context::PassContext;
use crate::graph::PlanGraph;

/// A step on the way from the client's graph to a plan.
pub trait Pass: Sync {
    /// The name by which the pass is switched and printed.
    fn name(&self) -> &'static str;

    /// True if no plan can be made without the pass, so that it cannot be switched off.
    fn is_required(&self) -> bool {
        false
    }

    /// Changes the graph, or notes facts in it.
    ///
    /// # Errors
    /// What is wrong with the client's graph, in the reference's words.
    fn run(&self, graph: &mut PlanGraph<'_>, context: &PassContext<'_>) -> Result<()>;
}

//! Plans: how a request, or a function, becomes a list of kernels with numbered slots.
//!
//! This crate holds what plans consist of (`plan.rs`, `dataflow.rs`, `scalars.rs`), where nodes are placed (`place/`), the
//! passes (`passes/`) and the lowering (`lower/`). It runs no plan: the crate `runtime` does.
#![forbid(unsafe_code)]

pub mod constant;
pub mod context;
pub mod dataflow;
pub mod functions;
pub mod graph;
pub mod lanes;
pub mod loops;
pub mod options;
pub mod partition;
pub mod passes;
pub mod place;
pub mod plan;
pub mod planner;
pub mod retval;
pub mod scalars;
pub mod shapes;
pub mod stack;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

/// From nodes to plans.
mod lower {
    pub(crate) mod body;
    pub(crate) mod control;
    pub(crate) mod dataflow;
    pub(crate) mod plan;
    pub(crate) mod scalars;
}

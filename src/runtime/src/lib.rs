//! The runtime: sessions, and how plans become values. The crate `plan` makes the plans.
//!
//! Everything that can be decided once is decided when a plan is made; a run looks nothing up by name.
#![forbid(unsafe_code)]

/// Running plans: gears, and what nodes with plans of their own do.
mod run {
    pub(crate) mod call;
    pub(crate) mod condition;
    pub(crate) mod control;
    pub(crate) mod engine;
    pub(crate) mod exec;
    pub(crate) mod flow;
    #[cfg(test)]
    mod loop_tests;
    pub(crate) mod map;
    pub(crate) mod node;
    pub(crate) mod parallel;
    pub(crate) mod queue;
    pub(crate) mod repeat;
    pub(crate) mod scalars;
    pub(crate) mod straight;
    #[cfg(test)]
    mod testing;
}

/// What is noted of runs, and what clients are told of it.
mod trace {
    pub(crate) mod cost;
    pub(crate) mod oom;
    pub(crate) mod record;
    pub(crate) mod report;
}

mod eager;
mod environment;
mod session;

pub use eager::executor::Executor;
pub use eager::handle::TensorHandle;
pub use eager::request::EagerOp;
pub use eager::{EagerContext, Policy};
pub use environment::Environment;
pub use environment::config::SessionConfig;
pub use environment::device::Device;
pub use run::exec::Inputs;
pub use session::graph_session::GraphSession;
pub use session::life::reset;
pub use session::named::{NamedRequest, NamedSession};
pub use session::partial::{Announcement, Named};
pub use session::{Outcome, Request, Session};
pub use tfcore_plan::place::DeviceSpec;

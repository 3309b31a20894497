//! The runtime: sessions, and how a request becomes a plan and a plan becomes values.
//!
//! Everything that can be decided once is decided when a plan is made; a run looks nothing up by name.
#![forbid(unsafe_code)]

mod config;
mod control;
mod cost;
mod dataflow;
mod device;
mod executor;
mod flow;
mod frames;
mod functions;
mod lanes;
mod life;
mod lift;
#[cfg(test)]
mod loop_tests;
mod map;
mod mutated;
mod named;
mod oom;
mod parallel;
mod partial;
mod partition;
mod place;
mod plan;
mod planner;
mod prune;
mod queue;
mod repeat;
mod report;
mod retval;
mod scalars;
mod session;
mod trace;
mod unread;

pub use config::SessionConfig;
pub use control::Inputs;
pub use device::DeviceInfo;
pub use life::reset;
pub use named::{NamedRequest, NamedSession};
pub use partial::{Announcement, Named};
pub use session::{Outcome, Request, Session};

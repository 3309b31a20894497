//! The runtime: sessions, and how a request becomes a plan and a plan becomes values.
//!
//! Everything that can be decided once is decided when a plan is made; a run looks nothing up by name.
#![forbid(unsafe_code)]

mod config;
mod device;
mod executor;
mod parallel;
mod place;
mod plan;
mod prune;
mod session;
mod trace;

pub use config::SessionConfig;
pub use device::DeviceInfo;
pub use session::{Outcome, Request, Session};

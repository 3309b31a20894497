//! Geometry: how the elements of operands and results correspond. Each kind is a small value computed
//! once and used by the shape function, the kernels and the gradient alike.

mod broadcast;

pub use broadcast::{Broadcast, Run};

//! `libtfcore`: TensorFlow's C API over a Rust core.
//!
//! This crate composes: it registers the op families and exports the C functions. What they do is
//! decided in the rooms below; `ARCHITECTURE.md` is the map.

pub mod capi;
mod ops;

pub use ops::registry;

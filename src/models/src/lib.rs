//! Models in files: SavedModels, loaded into a graph and a session.
#![forbid(unsafe_code)]

mod load;
mod meta_graph;
mod saved_model;
mod validate;

pub use load::{LoadOptions, Loaded, load};
pub use meta_graph::MetaGraph;
pub use saved_model::{find_meta_graph, read_saved_model};

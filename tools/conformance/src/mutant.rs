//! Tries one damaged graph, in a worker: whatever the library answers, it must answer, and a failed
//! import must leave the graph as it was.

use std::path::Path;

use prost::Message;

use crate::case::Case;
use crate::graph_def::{GraphDef, NodeDef};
use crate::handle::{Failure, Graph, Session, Tensor};
use crate::library::Api;
use crate::play::{code_name, feed_value};

/// The node that is in the graph before the damaged ones come.
const RESIDENT: &str = "resident_before_import";

/// A serialised `RunOptions` with `timeout_in_ms` (field 2, varint) of 2000: queues and loops may
/// wait for ever.
const RUN_OPTIONS: [u8; 3] = [0x10, 0xd0, 0x0f];

/// `TF_INTERNAL`, which also stands for a panic that was caught.
const INTERNAL: i32 = 13;

/// Returns how it ended: `rejected`, `not run`, `ran` or `failed`, with the code's name.
pub(crate) fn try_mutant(api: &Api, case: &Case, folder: &Path) -> Result<String, String> {
    let graph = Graph::new(api);
    let resident = NodeDef { name: RESIDENT.into(), op: "NoOp".into(), ..NodeDef::default() };
    let before = GraphDef { nodes: vec![resident], ..GraphDef::default() };
    graph
        .import(&before.encode_to_vec())
        .map_err(|f| format!("a NoOp cannot be imported: {}", f.message))?;
    if let Err(failure) = graph.import(&case.graph_def) {
        let names = graph.operation_names();
        if names.len() != 1 || names[0].to_bytes() != RESIDENT.as_bytes() {
            return Err(format!(
                "a failed import ({}) left {names:?} in the graph",
                failure.message
            ));
        }
        return ended("rejected", &failure);
    }
    match run(api, case, &graph, folder) {
        Ok(true) => Ok("ran".into()),
        Ok(false) => Ok("not run: nothing to fetch is left".into()),
        Err(failure) => ended("failed", &failure),
    }
}

/// Errors are fine, but not those that tell of a broken promise.
fn ended(how: &str, failure: &Failure) -> Result<String, String> {
    let Failure { code, stage, message } = failure;
    if *code < 0 {
        return Err(message.clone());
    }
    if *code == INTERNAL && message.contains("panic") {
        return Err(format!("panic at {stage}: {message}"));
    }
    if message.is_empty() {
        return Err(format!("{} at {stage} without a message", code_name(*code)));
    }
    Ok(format!("{how} {}", code_name(*code)))
}

/// Runs what is left of the case; false when no fetch and no target is.
fn run(api: &Api, case: &Case, graph: &Graph<'_>, folder: &Path) -> Result<bool, Failure> {
    // Damage may have taken the named nodes away, so what cannot be found is left out.
    let fetches: Vec<_> = case.fetches.iter().filter_map(|name| graph.output(name).ok()).collect();
    let targets: Vec<_> =
        case.targets.iter().filter_map(|name| graph.operation(name).ok()).collect();
    for fetch in &fetches {
        graph.static_shape(*fetch)?;
    }
    if fetches.is_empty() && targets.is_empty() {
        return Ok(false);
    }
    let session = Session::new(graph)?;
    let mut feeds = Vec::new();
    for feed in &case.feeds {
        if let Ok(output) = graph.output(&feed.name) {
            feeds.push((output, Tensor::new(api, &feed_value(&feed.bytes, folder)?)?));
        }
    }
    let feeds: Vec<_> = feeds.iter().map(|(output, tensor)| (*output, tensor)).collect();
    for name in &case.targets_first {
        if let Ok(target) = graph.operation(name) {
            session.run(&RUN_OPTIONS, &feeds, &[], &[target])?;
        }
    }
    for tensor in session.run(&RUN_OPTIONS, &feeds, &fetches, &targets)? {
        tensor.read()?;
    }
    session.close()?;
    Ok(true)
}

//! Frames: which loop each node belongs to.
//!
//! An Enter node hands a value into a frame, an Exit node out of it; all that a node reads must be in one frame. Two
//! Enter nodes of the same parent frame that name the same frame enter the same.

use hashbrown::HashMap;
use tfcore_base::{Result, invalid};
use tfcore_graph::{Node, NodeId};

use crate::context::PassContext;
use crate::graph::PlanGraph;
use crate::loops::{Frame, Frames, ROOT};
use crate::passes::pass::Pass;

/// See the module's documentation.
pub struct FindFrames;

impl Pass for FindFrames {
    fn name(&self) -> &'static str {
        "frames"
    }

    fn is_required(&self) -> bool {
        true
    }

    fn run(&self, graph: &mut PlanGraph<'_>, _: &PassContext<'_>) -> Result<()> {
        graph.frames = frames(graph)?;
        Ok(())
    }
}

/// Assigns frames to the nodes that run.
///
/// # Errors
/// `InvalidArgument` for a node whose inputs are in different frames, and for an Exit outside any.
fn frames(graph: &PlanGraph<'_>) -> Result<Frames> {
    let mut frames = Frames::root();
    let mut by_name: HashMap<(usize, String), usize> = HashMap::new();
    for &id in &graph.order {
        let node = &**graph.node(id);
        let frame = frame_of_inputs(graph, &frames, node)?;
        let frame = match () {
            () if node.is_enter() => {
                let name = node.attrs.str("frame_name")?.to_string();
                let child = *by_name.entry((frame, name.clone())).or_insert_with(|| {
                    frames.frames.push(Frame { name, parent: frame, enters: Vec::new() });
                    frames.frames.len() - 1
                });
                frames.frames[child].enters.push(id);
                child
            }
            () if node.is_exit() && frame == ROOT => {
                let error = invalid!("Invalid Exit op: Cannot find a corresponding Enter op.");
                return Err(error.at_node(&node.name));
            }
            () if node.is_exit() => frames.frames[frame].parent,
            () => frame,
        };
        frames.set(id, frame);
    }
    Ok(frames)
}

/// The frame that all inputs of `node` are in.
fn frame_of_inputs(graph: &PlanGraph<'_>, frames: &Frames, node: &Node) -> Result<usize> {
    let mut first: Option<(NodeId, usize)> = None;
    let fed_inputs = node.inputs.iter().filter(|edge| graph.fed.contains(&edge.source));
    let fed_inputs = fed_inputs.map(|edge| (edge.source.node, ROOT));
    let needed = graph
        .sources(node)
        .filter(|&source| !graph.is_back_edge(source, node))
        .map(|source| (source, frames.of(source)));
    for (source, frame) in needed.chain(fed_inputs) {
        match first {
            None => first = Some((source, frame)),
            Some((_, known)) if known == frame => {}
            Some((other, known)) => {
                return Err(invalid!(
                    "{{{{node {}}}}} has inputs from different frames. The input {{{{node {}}}}} is in frame \
                     '{}'. The input {{{{node {}}}}} is in frame '{}'.",
                    node.name,
                    graph.node(source).name,
                    frames.frames[frame].name,
                    graph.node(other).name,
                    frames.frames[known].name
                ));
            }
        }
    }
    Ok(first.map_or(ROOT, |(_, frame)| frame))
}

#[cfg(test)]
mod tests {
    use tfcore_graph::{Graph, OutputRef};

    use super::*;
    use crate::passes::prune::prune;
    use crate::testing::{COUNT, graph, graph_of, registry};

    /// The frame of `name`, the frames' names and numbers of Enter nodes; or what is wrong.
    fn frames_of(lines: &str, name: &str) -> Result<(usize, Vec<(String, usize)>)> {
        let graph: Graph = graph(registry(), lines);
        let output = |name: &str| OutputRef::new(graph.find(name).unwrap(), 0);
        graph_of(&graph, &["i", "n", "one"].map(output), &[output("last")], &[], |plan_graph| {
            prune(plan_graph)?;
            let found = frames(plan_graph)?;
            let all = found.frames.iter().map(|f| (f.name.clone(), f.enters.len())).collect();
            Ok((found.of(output(name).node), all))
        })
    }

    #[test]
    fn nodes_are_in_the_frame_that_they_read_from() {
        let all = vec![(String::new(), 0), ("f".to_string(), 4)];
        assert_eq!(frames_of(COUNT, "less").unwrap(), (1, all.clone()));
        assert_eq!(frames_of(COUNT, "exit_i").unwrap(), (ROOT, all.clone()));
        assert_eq!(frames_of(COUNT, "last").unwrap(), (ROOT, all));
        let mixed = COUNT.replace("last AddV2 exit_i exit_sum", "last AddV2 exit_i add");
        let error = frames_of(&mixed, "last").unwrap_err();
        assert!(error.message().contains("{{node last}} has inputs from different frames"));
    }
}

//! `Shapes`: the static shapes of all outputs of a graph, in a few bytes for each.

use tfcore_graph::{Graph, NodeId, OutputRef};

/// The static shapes of the outputs of a graph's nodes, by number.
#[derive(Debug, Clone, Default)]
pub struct Shapes {
    /// Where the outputs of each node begin.
    first: Vec<u32>,
    outputs: Vec<Known>,
    /// The sizes of all shapes, concatenated; -1 for unknown.
    dims: Vec<i64>,
}

#[derive(Debug, Clone, Copy)]
struct Known {
    start: u32,
    /// `None` if unknown.
    rank: Option<u8>,
}

impl Shapes {
    /// Adds the nodes of a graph that were added since the last call.
    pub fn extend(&mut self, graph: &Graph) {
        for index in self.first.len()..graph.num_ids() {
            let node = graph.node(NodeId(index as u32));
            self.first.push(self.outputs.len() as u32);
            for port in 0..node.num_outputs() {
                let shape = graph.shape(OutputRef::new(node.id, port));
                let dims = shape.ok().and_then(|shape| shape.dims());
                let rank = dims.and_then(|dims| u8::try_from(dims.len()).ok());
                self.outputs.push(Known { start: self.dims.len() as u32, rank });
                let sizes = dims.unwrap_or_default().iter().map(|dim| dim.value().unwrap_or(-1));
                self.dims.extend(sizes);
            }
        }
    }

    /// The sizes of an output, -1 for unknown; `None` if the rank is unknown.
    pub fn of(&self, output: OutputRef) -> Option<&[i64]> {
        let first = *self.first.get(output.node.index())?;
        let known = self.outputs.get(first as usize + output.port())?;
        let start = known.start as usize;
        self.dims.get(start..start + usize::from(known.rank?))
    }
}

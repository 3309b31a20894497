//! The parts of shape-like vectors that constants and static shapes tell before the run.

use tfcore_base::{DType, Result};
use tfcore_framework::{Role, shape_from_tensor};
use tfcore_tensor::{Dim, MAX_RANK, PartialShape};

use crate::Graph;
use crate::fold::constant_value;
use crate::node::{Node, OutputRef};

/// How deep shape-like vectors are followed.
const MAX_DEPTH: usize = 64;
/// How many nodes are looked at to find what is known of one shape-like vector. One that is concatenated with itself
/// again and again has more parts than could ever be followed.
const MAX_VISITS: usize = 1 << 10;

/// What is known of an integer vector that stands for a shape; -1 in it is an unknown dimension.
///
/// # Errors
/// `InvalidArgument` if it holds what is no dimension.
pub(crate) fn partial_value(graph: &Graph, output: OutputRef) -> Result<Option<PartialShape>> {
    Search { graph, visits: 0, depth: 0 }.partial_value(output)
}

struct Search<'g> {
    graph: &'g Graph,
    /// How many nodes have been looked at.
    visits: usize,
    depth: usize,
}

impl Search<'_> {
    fn partial_value(&mut self, output: OutputRef) -> Result<Option<PartialShape>> {
        if self.depth == MAX_DEPTH || self.visits == MAX_VISITS {
            return Ok(None);
        }
        self.visits += 1;
        self.depth += 1;
        let value = self.visit(output);
        self.depth -= 1;
        value
    }

    fn visit(&mut self, output: OutputRef) -> Result<Option<PartialShape>> {
        let graph = self.graph;
        if let Some(tensor) = constant_value(graph, output) {
            return match tensor.dtype() {
                DType::INT32 | DType::INT64 => shape_from_tensor(&tensor).map(Some),
                _ => Ok(None),
            };
        }
        let node = graph.node(output.node);
        let input = |index: usize| node.inputs[index].source;
        match node.role() {
            Role::Shape => Ok(Some(graph.shape(input(0))?.clone())),
            Role::ShapeN => match node.inputs.get(output.port()) {
                Some(edge) => Ok(Some(graph.shape(edge.source)?.clone())),
                None => Ok(None),
            },
            Role::Identity | Role::StopGradient => self.partial_value(input(0)),
            Role::Cast => match self.partial_value(input(0))? {
                Some(shape) if node.attrs.dtype("DstT").is_ok_and(|dtype| dtype.is_integer()) => {
                    Ok(Some(shape))
                }
                _ => Ok(None),
            },
            Role::Pack => self.pack_value(node),
            Role::Concat | Role::ConcatV2 => self.concat_value(node),
            Role::StridedSlice => self.strided_slice_value(node),
            _ => Ok(None),
        }
    }

    /// A vector of scalars, each known or not.
    fn pack_value(&mut self, node: &Node) -> Result<Option<PartialShape>> {
        let graph = self.graph;
        if node.inputs.len() > MAX_VISITS {
            return Ok(Some(PartialShape::unknown()));
        }
        let mut dims = Vec::with_capacity(node.inputs.len());
        for edge in &node.inputs {
            if graph.shape(edge.source)?.rank().is_some_and(|rank| rank != 0) {
                return Ok(None);
            }
            let value = self.scalar_value(edge.source)?;
            dims.push(value.unwrap_or_else(Dim::fresh));
        }
        Ok(Some(dims.into_iter().collect()))
    }

    /// A scalar that stands for a dimension: constant, or one element of a shape-like vector.
    fn scalar_value(&mut self, output: OutputRef) -> Result<Option<Dim>> {
        let graph = self.graph;
        if let Some(tensor) = constant_value(graph, output) {
            return Ok(tensor.to_i64s()?.first().map(|&value| Dim::new(value)));
        }
        let node = graph.node(output.node);
        if node.role() != Role::StridedSlice || node.attrs.int("shrink_axis_mask")? != 1 {
            return Ok(None);
        }
        let Some(vector) = self.partial_value(node.inputs[0].source)? else {
            return Ok(None);
        };
        let index =
            constant_value(graph, node.inputs[1].source).and_then(|begin| begin.to_i64s().ok());
        Ok(match (vector.dims(), index.as_deref()) {
            (Some(dims), Some([index])) => {
                let index = if *index < 0 { *index + dims.len() as i64 } else { *index };
                usize::try_from(index).ok().and_then(|index| dims.get(index)).copied()
            }
            _ => None,
        })
    }

    fn concat_value(&mut self, node: &Node) -> Result<Option<PartialShape>> {
        let graph = self.graph;
        let parts = match node.role() {
            Role::Concat => 1..node.inputs.len(),
            _ => 0..node.inputs.len() - 1,
        };
        if parts.len() > MAX_VISITS {
            return Ok(None);
        }
        let mut dims = Vec::new();
        for index in parts {
            let source = node.inputs[index].source;
            // A scalar -1 stands for an unknown shape, which a concatenation cannot hold.
            if graph.shape(source)?.rank() != Some(1) {
                return Ok(None);
            }
            match self.partial_value(source)? {
                Some(shape) => match shape.dims() {
                    Some(known) => dims.extend_from_slice(known),
                    None => return Ok(Some(PartialShape::unknown())),
                },
                None => match graph.shape(source)?.count() {
                    Some(count) if count <= MAX_RANK as i64 => {
                        dims.extend((0..count).map(|_| Dim::fresh()));
                    }
                    _ => return Ok(None),
                },
            }
            if dims.len() > MAX_RANK {
                return Ok(None);
            }
        }
        Ok(Some(dims.into_iter().collect()))
    }

    /// A part of a shape-like vector, in steps.
    fn strided_slice_value(&mut self, node: &Node) -> Result<Option<PartialShape>> {
        let graph = self.graph;
        let mask = |name: &str| node.attrs.int(name);
        if mask("ellipsis_mask")? != 0
            || mask("new_axis_mask")? != 0
            || mask("shrink_axis_mask")? != 0
        {
            return Ok(None);
        }
        let Some(vector) = self.partial_value(node.inputs[0].source)? else {
            return Ok(None);
        };
        let Some(dims) = vector.dims() else {
            return Ok(Some(PartialShape::unknown()));
        };
        let bound = |index: usize| {
            let values = constant_value(graph, node.inputs[index].source)?.to_i64s().ok()?;
            (values.len() == 1).then(|| values[0])
        };
        let (Some(begin), Some(end), Some(stride)) = (bound(1), bound(2), bound(3)) else {
            return Ok(None);
        };
        if stride == 0 {
            return Ok(None);
        }
        let len = dims.len() as i64;
        let (low, high) = if stride > 0 { (0, len) } else { (-1, len - 1) };
        let clamp = |bound: i64| (if bound < 0 { bound + len } else { bound }).clamp(low, high);
        let (first, last) = if stride > 0 { (0, len) } else { (len - 1, -1) };
        let begin = if mask("begin_mask")? & 1 != 0 { first } else { clamp(begin) };
        let end = if mask("end_mask")? & 1 != 0 { last } else { clamp(end) };
        let mut taken = Vec::new();
        let mut at = begin;
        while (stride > 0 && at < end) || (stride < 0 && at > end) {
            taken.push(dims[at as usize]);
            at = at.saturating_add(stride);
        }
        Ok(Some(taken.into_iter().collect()))
    }
}

//! Shape refinement: runs the shape function of a node. Calls are looked into by `call_shapes.rs`.

use std::panic::{AssertUnwindSafe, catch_unwind};

use smallvec::SmallVec;
use tfcore_base::{Error, Result, internal, invalid};
use tfcore_framework::{HandleData, InferenceContext, Operands};
use tfcore_tensor::{Dim, PartialShape, Tensor};

use crate::Graph;
use crate::graph::OutputInfo;
use crate::node::{Node, NodeId, OutputRef, SOURCE};
use crate::operands::NodeOperands;

/// Outputs of which nothing is known.
pub(crate) fn unknown_outputs(node: &Node) -> SmallVec<[OutputInfo; 1]> {
    let unknown = OutputInfo { shape: PartialShape::unknown(), handle: None };
    SmallVec::from_elem(unknown, node.num_outputs())
}

/// Whether an input comes from behind the node, or is not there yet: only loops have such.
pub(crate) fn is_back_edge(node: &Node, source: OutputRef) -> bool {
    source.node == SOURCE || (source.node >= node.id && node.is_merge())
}

/// The outputs of a node by the shape function of its op.
///
/// # Errors
/// `InvalidArgument` with the node and its input shapes behind the shape function's own message.
pub(crate) fn run_shape_fn(graph: &Graph, node: &Node) -> Result<SmallVec<[OutputInfo; 1]>> {
    let Some(shape_fn) = &node.shape_fn else {
        if graph.requires_shape_fns() && !is_known_to_reference(graph, node) {
            return Err(invalid!(
                "No shape inference function exists for op '{}', did you forget to define it?",
                node.op.name
            ));
        }
        return Ok(unknown_outputs(node));
    };
    let mut shapes: SmallVec<[PartialShape; 4]> = SmallVec::with_capacity(node.inputs.len());
    let mut handles: SmallVec<[HandleData; 2]> = SmallVec::new();
    for (index, edge) in node.inputs.iter().enumerate() {
        if is_back_edge(node, edge.source) {
            shapes.push(PartialShape::unknown());
            continue;
        }
        let info = graph.output_info(edge.source)?;
        shapes.push(info.shape.clone());
        if info.handle.is_some() {
            handles.resize(index, None);
            handles.push(info.handle.clone());
        }
    }
    // A panic is a bug, which must not leave a half-made node in the graph.
    let run = |operands: &dyn Operands| {
        let mut ctx = InferenceContext::new(
            &node.op,
            &node.attrs,
            &shapes,
            &handles,
            operands,
            node.num_outputs(),
        )
        .of_producer(graph.versions().producer);
        let outcome = catch_unwind(AssertUnwindSafe(|| shape_fn(&mut ctx))).unwrap_or_else(|_| {
            Err(internal!("The shape function of op '{}' panicked", node.op.name))
        });
        match outcome {
            Err(error) if ctx.failed_at_operand() => Err(error),
            Err(error) => Err(with_context(graph, node, &shapes, &ctx, error)),
            Ok(()) => Ok(ctx.into_outputs()),
        }
    };
    // Values are looked at only if the shapes by themselves are right; that is told by the message.
    let (shapes, handles) = run(&NodeOperands { graph, node })
        .map_err(|error| run(&NoOperands).err().unwrap_or(error))?;
    Ok(shapes
        .into_iter()
        .zip(handles)
        .map(|(shape, handle)| OutputInfo { shape: with_identities(shape), handle })
        .collect())
}

/// Nothing is known of what the operands hold.
struct NoOperands;

impl Operands for NoOperands {
    fn tensor(&self, _index: usize) -> Option<Tensor> {
        None
    }

    fn partial_shape(&self, _index: usize) -> Result<Option<PartialShape>> {
        Ok(None)
    }
}

/// Whether the op is one of the table's, whose shape function may still be missing here, rather
/// than one that a client has defined.
fn is_known_to_reference(graph: &Graph, node: &Node) -> bool {
    !graph.registry().is_added(&node.op.name)
}

/// Every unknown dimension of an output is one and the same wherever the output goes.
fn with_identities(shape: PartialShape) -> PartialShape {
    match shape.dims() {
        Some(dims) if dims.contains(&Dim::UNKNOWN) => {
            dims.iter().map(|&dim| if dim == Dim::UNKNOWN { Dim::fresh() } else { dim }).collect()
        }
        _ => shape,
    }
}

fn with_context(
    graph: &Graph,
    node: &Node,
    shapes: &[PartialShape],
    ctx: &InferenceContext<'_>,
    error: Error,
) -> Error {
    let inputs: Vec<String> = shapes.iter().map(PartialShape::to_string).collect();
    let name = |id: NodeId| graph.node(id).name.as_str();
    let message = format!(
        "{} for '{}' with input shapes: {}{}.",
        error.message(),
        node.describe(&name),
        inputs.join(", "),
        ctx.describe_operands()
    );
    error.with_message(message)
}

//! Shapes of calls: what a function's body makes of the shapes of a call's inputs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use smallvec::SmallVec;
use tfcore_base::{Result, internal};
use tfcore_framework::{AttrList, AttrValue, Attrs, HandleData};
use tfcore_tensor::PartialShape;

use crate::Graph;
use crate::graph::OutputInfo;
use crate::node::{Node, OutputRef};

/// Functions that call each other are looked into so deep ...
const MAX_DEPTH: u32 = 32;
/// ... and so many times for one node of a graph. Beyond, nothing is known of a call's outputs.
const MAX_BODIES: u32 = 4096;

/// How far a graph may look into the functions that its nodes call.
#[derive(Clone, Default)]
pub(crate) enum Insight {
    /// A client's graph.
    #[default]
    Full,
    /// A body that is looked into.
    Body { depth: u32, budget: Arc<AtomicU32> },
    /// A body that is going to run.
    None,
}

impl Insight {
    /// That of a body which a node of this graph calls.
    fn deeper(&self) -> Option<Insight> {
        let (depth, budget) = match self {
            Insight::Full => (0, Arc::new(AtomicU32::new(MAX_BODIES))),
            Insight::Body { depth, budget } => (*depth, budget.clone()),
            Insight::None => return None,
        };
        let is_left = budget
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
            .is_ok();
        (is_left && depth < MAX_DEPTH).then_some(Insight::Body { depth: depth + 1, budget })
    }
}

/// The function that a node calls, with its attrs.
fn callee<'n>(graph: &Graph, node: &'n Node) -> Option<(&'n str, &'n Attrs)> {
    match &*node.op.name {
        "PartitionedCall" | "StatefulPartitionedCall" => {
            let func = node.attrs.func("f").ok()?;
            Some((&func.name, &func.attrs))
        }
        name => graph.library().get(name).map(|_| (name, &node.attrs)),
    }
}

/// What is known of the outputs of a call by its function's body; `None` if the node calls no known
/// function, or one that must not be looked into.
///
/// # Errors
/// What the body's own nodes report.
pub(crate) fn infer_call(
    graph: &Graph,
    node: &Node,
    shapes: &[PartialShape],
    handles: &[HandleData],
) -> Result<Option<SmallVec<[OutputInfo; 1]>>> {
    if graph.library().is_empty() {
        return Ok(None);
    }
    let Some((name, attrs)) = callee(graph, node) else { return Ok(None) };
    let is_off = node.attrs.bool("_disable_call_shape_inference").unwrap_or(false);
    if is_off || graph.library().get(name).is_none() {
        return Ok(None);
    }
    let Some(insight) = graph.insight().deeper() else { return Ok(None) };
    let args = shapes.iter().enumerate().map(|(index, shape)| OutputInfo {
        shape: shape.clone(),
        handle: handles.get(index).cloned().flatten(),
    });
    let args: Vec<OutputInfo> = args.collect();
    let body = graph.library().body(graph.registry(), name, attrs, insight, &args)?;
    if body.args.len() > args.len() {
        return Err(internal!(
            "Function instantiation included invalid input index: {} not in [0, {}).",
            args.len(),
            args.len()
        ));
    }
    let unknown = || OutputInfo { shape: PartialShape::unknown(), handle: None };
    let mut outputs: SmallVec<[OutputInfo; 1]> = SmallVec::new();
    for ret in &body.rets {
        let source: OutputRef = body.graph.node(*ret).inputs[0].source;
        outputs.push(body.graph.output_info(source)?.clone());
    }
    outputs.resize_with(node.num_outputs(), unknown);
    Ok(Some(outputs))
}

/// What an `_Arg` node says of the value it stands for.
pub(crate) fn arg_attrs(arg: &OutputInfo) -> Vec<(&'static str, AttrValue)> {
    let shapes = |shapes: Vec<PartialShape>| AttrValue::list(AttrList::Shape(shapes.into()));
    let mut attrs = vec![("_output_shapes", shapes(vec![arg.shape.clone()]))];
    if let Some(handle) = &arg.handle {
        let dtypes = handle.iter().map(|value| value.dtype);
        attrs.push(("_handle_dtypes", AttrValue::types(dtypes)));
        attrs.push(("_handle_shapes", shapes(handle.iter().map(|v| v.shape.clone()).collect())));
    }
    attrs
}

//! The gradient of a function's body, for SymbolicGradient.

use tfcore_base::{DType, Result};
use tfcore_framework::AttrValue;

use crate::instantiate::FunctionBody;
use crate::name_scope::NameScope;
use crate::node::{NodeId, OutputRef};
use crate::{Graph, NodeBuilder};

impl FunctionBody {
    /// The body that takes the arguments and, for each result, a derivative by it, and returns the derivatives
    /// by the arguments: zeros where nothing depends on one.
    ///
    /// # Errors
    /// `NotFound` for an op without a gradient, and what building nodes reports.
    pub fn gradient(mut self) -> Result<FunctionBody> {
        let graph = &mut self.graph;
        let ys: Vec<OutputRef> =
            self.rets.iter().map(|ret| graph.node(*ret).inputs[0].source).collect();
        let xs: Vec<OutputRef> = self.args.iter().map(|&arg| OutputRef::new(arg, 0)).collect();
        let mut args = self.args.clone();
        let mut dys = Vec::with_capacity(ys.len());
        for &y in &ys {
            let arg = boundary(graph, "_Arg", args.len(), graph.output_dtype(y)?, None)?;
            args.push(arg);
            dys.push(OutputRef::new(arg, 0));
        }
        let depends = nodes_above(graph, &ys);
        let used: Vec<OutputRef> = xs.iter().copied().filter(|x| depends[x.node.index()]).collect();
        let mut by_used = match used.is_empty() {
            true => Vec::new(),
            false => graph.add_gradients(&ys, &used, Some(&dys), None)?,
        }
        .into_iter();
        let mut rets = Vec::with_capacity(xs.len());
        for &x in &xs {
            let dx = if depends[x.node.index()] { by_used.next().flatten() } else { None };
            let dx = match dx {
                Some(dx) => dx,
                None => zeros_like(graph, x)?,
            };
            rets.push(boundary(graph, "_Retval", rets.len(), graph.output_dtype(dx)?, Some(dx))?);
        }
        Ok(FunctionBody { args, rets, ..self })
    }
}

/// Adds the node of an argument or of a result.
fn boundary(
    graph: &mut Graph,
    op: &str,
    index: usize,
    dtype: DType,
    input: Option<OutputRef>,
) -> Result<NodeId> {
    let mut builder =
        NodeBuilder::new(op, NameScope::new("").unique(graph, &format!("gradient{op}_{index}")));
    input.into_iter().for_each(|input| builder.add_input(input));
    builder.set_attr("T", AttrValue::Type(dtype));
    builder.set_attr("index", AttrValue::Int(index as i64));
    builder.finish(graph)
}

fn zeros_like(graph: &mut Graph, x: OutputRef) -> Result<OutputRef> {
    let mut builder =
        NodeBuilder::new("ZerosLike", NameScope::new("").unique(graph, "gradient_zeros"));
    builder.add_input(x);
    Ok(OutputRef::new(builder.finish(graph)?, 0))
}

/// For each node whether some of `outputs` depends on it.
fn nodes_above(graph: &Graph, outputs: &[OutputRef]) -> Vec<bool> {
    let mut seen = vec![false; graph.num_ids()];
    let mut stack: Vec<NodeId> = outputs.iter().map(|output| output.node).collect();
    while let Some(id) = stack.pop() {
        if !std::mem::replace(&mut seen[id.index()], true) {
            stack.extend(graph.node(id).inputs.iter().map(|edge| edge.source.node));
        }
    }
    seen
}

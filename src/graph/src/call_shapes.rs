//! Shapes of the outputs of nodes; those of calls are inferred through the bodies of the functions.

use std::sync::{Arc, PoisonError};

use smallvec::SmallVec;
use tfcore_base::{Result, internal};
use tfcore_framework::{Attrs, Role};
use tfcore_tensor::{PartialShape, Tensor};

use crate::fold::constant_value;
use crate::graph::{Bodies, Body, Calls, FunctionBody, Graph, OutputInfo};
use crate::library::{Function, FunctionLibrary};
use crate::node::{Node, NodeId, SINK};
use crate::refine::{self, run_shape_fn, unknown_outputs};
use crate::stack::deeper;

/// Calls that lie deeper in one another than this are not followed; their shapes stay unknown.
const MAX_DEPTH: usize = 64;
/// How many nodes of bodies are gone through for one graph. A few functions that call one another twice would
/// take for ever.
const MAX_NODES: usize = 1 << 22;
/// Arguments with more elements than this are no shapes.
const MAX_VALUES: i64 = 256;

/// The attr of a call whose function is not to be looked into.
const NOT_INFERRED: &str = "_disable_call_shape_inference";

/// What is known of an argument of a call.
struct Argument {
    info: OutputInfo,
    value: Option<Tensor>,
}

/// What is known of the outputs of a node whose inputs are in the graph.
///
/// # Errors
/// `InvalidArgument` with the node and its input shapes behind the shape function's own message.
pub(crate) fn infer(graph: &Graph, node: &Node) -> Result<SmallVec<[OutputInfo; 1]>> {
    match callee(graph.library(), node) {
        Some((function, attrs)) => match graph.calls() {
            Some(calls) => calls.infer(graph, node, &function, attrs),
            None => Ok(unknown_outputs(node)),
        },
        None => run_shape_fn(graph, node),
    }
}

/// The function that a node calls, and the attrs that the call gives it.
fn callee<'n>(library: &FunctionLibrary, node: &'n Node) -> Option<(Arc<Function>, &'n Attrs)> {
    if library.is_empty() || node.attrs.bool(NOT_INFERRED).unwrap_or(false) {
        return None;
    }
    match node.role() {
        Role::Call => {
            let func = node.attrs.func("f").ok()?;
            Some((library.get(&func.name)?.clone(), &func.attrs))
        }
        Role::Function => Some((library.get(&node.op.name)?.clone(), &node.attrs)),
        _ => None,
    }
}

impl Calls {
    /// What is known of the outputs of `node`, which calls `function`.
    ///
    /// # Errors
    /// Those of the function's body, whose nodes they name.
    pub(crate) fn infer(
        &self,
        graph: &Graph,
        node: &Node,
        function: &Arc<Function>,
        attrs: &Attrs,
    ) -> Result<SmallVec<[OutputInfo; 1]>> {
        let mut bodies = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let call = Call { graph, node, library: graph.library(), depth: 0 };
        bodies.infer(&call, function, attrs)
    }
}

/// A node that calls a function.
struct Call<'g> {
    /// The graph that the node is in.
    graph: &'g Graph,
    node: &'g Node,
    /// The functions of the outermost graph.
    library: &'g Arc<FunctionLibrary>,
    depth: usize,
}

impl Bodies {
    fn infer(
        &mut self,
        call: &Call<'_>,
        function: &Arc<Function>,
        attrs: &Attrs,
    ) -> Result<SmallVec<[OutputInfo; 1]>> {
        let unknown = || Ok(refine::unknown_outputs(call.node));
        if call.depth == MAX_DEPTH || self.nodes > MAX_NODES {
            return unknown();
        }
        let name = function.name();
        let mut body = match self.by_name.insert(name.to_string(), None) {
            // The function calls itself.
            Some(None) => return unknown(),
            Some(Some(body)) if Arc::ptr_eq(&body.function, function) && body.attrs == *attrs => {
                body
            }
            _ => match instantiate(call, function, attrs) {
                Ok(body) => body,
                Err(error) => {
                    self.by_name.remove(name);
                    return Err(error);
                }
            },
        };
        let outputs = deeper(|| self.go_through(&mut body.body, call));
        self.by_name.insert(name.to_string(), Some(body));
        outputs
    }

    /// Infers the shapes of all nodes of a body.
    fn go_through(
        &mut self,
        body: &mut FunctionBody,
        call: &Call<'_>,
    ) -> Result<SmallVec<[OutputInfo; 1]>> {
        let mut arguments = arguments(call)?;
        let values = arguments.iter_mut().map(|argument| argument.value.take());
        body.graph.set_arg_values(values.collect());
        let mut outputs = refine::unknown_outputs(call.node);
        self.nodes = self.nodes.saturating_add(body.graph.num_ids());
        for id in SINK.index() + 1..body.graph.num_ids() {
            let graph = &body.graph;
            let node = graph.node(NodeId(id as u32)).clone();
            let infos = match callee(call.library, &node) {
                Some((function, attrs)) => {
                    let (library, depth) = (call.library, call.depth + 1);
                    self.infer(&Call { graph, node: &node, library, depth }, &function, attrs)?
                }
                None => run_shape_fn(graph, &node)?,
            };
            body.graph.set_outputs(&node, infos);
            match node.role() {
                Role::Arg => {
                    let index = index_of(&node, "input", arguments.len())?;
                    body.graph
                        .set_outputs(&node, argument_info(&body.graph, &node, &arguments[index])?);
                }
                Role::Retval => {
                    let index = index_of(&node, "output", outputs.len())?;
                    outputs[index] = body.graph.output_info(node.inputs[0].source)?.clone();
                }
                _ => {}
            }
        }
        body.graph.set_arg_values(Vec::new());
        Ok(outputs)
    }
}

fn instantiate(call: &Call<'_>, function: &Arc<Function>, attrs: &Attrs) -> Result<Box<Body>> {
    let mut body = call.library.instantiate(call.graph.registry(), function.name(), attrs)?;
    // Whoever adds functions later shall not have to copy the library because a body has it.
    body.graph.set_library(Arc::default());
    Ok(Box::new(Body { function: function.clone(), attrs: attrs.clone(), body }))
}

/// What the caller knows of the arguments.
fn arguments(call: &Call<'_>) -> Result<Vec<Argument>> {
    let inputs = call.node.inputs.iter().zip(&call.node.input_dtypes);
    let argument = |(edge, dtype): (&crate::Edge, &tfcore_base::DType)| {
        let source = edge.source;
        if refine::is_back_edge(call.node, source) {
            let info = OutputInfo { shape: PartialShape::unknown(), handle: None };
            return Ok(Argument { info, value: None });
        }
        let info = call.graph.output_info(source)?.clone();
        let is_small = info.shape.count().is_some_and(|count| count <= MAX_VALUES);
        let value = match is_small && dtype.is_integer() {
            true => constant_value(call.graph, source),
            false => None,
        };
        Ok(Argument { info, value })
    };
    inputs.map(argument).collect()
}

/// The shape is the caller's; what the definition says of a handle stays where the caller knows nothing.
fn argument_info(
    body: &Graph,
    node: &Node,
    argument: &Argument,
) -> Result<SmallVec<[OutputInfo; 1]>> {
    let mut info = argument.info.clone();
    if info.handle.is_none() {
        info.handle = body.output_info(crate::OutputRef::new(node.id, 0))?.handle.clone();
    }
    Ok(SmallVec::from_elem(info, 1))
}

fn index_of(node: &Node, what: &str, len: usize) -> Result<usize> {
    let index = node.attrs.int("index")?;
    usize::try_from(index).ok().filter(|&index| index < len).ok_or_else(|| {
        internal!(
            "Function instantiation included invalid {what} index: {index} not in [0, {len})."
        )
    })
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use tfcore_base::DType;
    use tfcore_framework::{AttrValue, Registry, shape_fns};
    use tfcore_proto as proto;

    use super::*;
    use crate::{NodeBuilder, OutputRef};

    fn registry() -> Arc<Registry> {
        let mut registry = Registry::new();
        registry.op("Neg").shape(shape_fns::unchanged);
        registry.op("Placeholder").shape(shape_fns::explicit);
        registry.op("AddV2").shape(shape_fns::broadcast_binary);
        Arc::new(registry)
    }

    /// `name(x) = Neg(first(x)) + second(x)` on floats.
    fn function(name: &str, first: &str, second: &str) -> Arc<Function> {
        let arg = |name: &str| proto::op_def::ArgDef {
            name: name.into(),
            r#type: DType::FLOAT.to_i32(),
            ..Default::default()
        };
        let node = |name: &str, op: &str, input: &[&str]| proto::NodeDef {
            name: name.into(),
            op: op.into(),
            input: input.iter().map(|input| input.to_string()).collect(),
            attr: [("T".to_string(), AttrValue::Type(DType::FLOAT).to_proto())].into(),
            ..Default::default()
        };
        let signature = proto::OpDef {
            name: name.into(),
            input_arg: vec![arg("x")],
            output_arg: vec![arg("y")],
            ..Default::default()
        };
        let def = proto::FunctionDef {
            signature: Some(signature),
            node_def: vec![
                node("a", first, &["x"]),
                node("n", "Neg", &["a:y:0"]),
                node("b", second, &["x"]),
                node("s", "AddV2", &["n:y:0", "b:y:0"]),
            ],
            ret: [("y".to_string(), "s:z:0".to_string())].into(),
            ..Default::default()
        };
        Arc::new(Function::new(def).unwrap())
    }

    fn call(graph: &mut Graph, function: &str) -> String {
        let mut builder = NodeBuilder::new("Placeholder", format!("x{}", graph.num_ids()));
        builder.set_attr("dtype", AttrValue::Type(DType::FLOAT));
        let shape = PartialShape::from_i64s(&[2, -1]).unwrap();
        builder.set_attr("shape", AttrValue::shape(shape));
        let x = builder.finish(graph).unwrap();
        let mut builder = NodeBuilder::new(function, format!("call{}", graph.num_ids()));
        builder.add_input(OutputRef::new(x, 0));
        let call = builder.finish(graph).unwrap();
        graph.shape(OutputRef::new(call, 0)).unwrap().to_string()
    }

    #[test]
    fn shapes_go_through_nested_calls() {
        let mut graph = Graph::new(registry());
        graph.add_function(&function("Inner", "Neg", "Neg"), None).unwrap();
        graph.add_function(&function("Outer", "Inner", "Neg"), None).unwrap();
        assert_eq!(call(&mut graph, "Outer"), "[2,?]");
        assert_eq!(call(&mut graph, "Inner"), "[2,?]");
    }

    #[test]
    fn functions_that_call_themselves_and_one_another_end_soon() {
        let start = Instant::now();
        let mut graph = Graph::new(registry());
        graph.add_function(&function("Self", "Self", "Self"), None).unwrap();
        graph.add_function(&function("A", "B", "Neg"), None).unwrap();
        graph.add_function(&function("B", "A", "A"), None).unwrap();
        assert_eq!(call(&mut graph, "Self"), "?");
        assert_eq!(call(&mut graph, "A"), "?");
        for level in 0..10_000 {
            let next = if level == 9_999 { "Neg".into() } else { format!("F{}", level + 1) };
            let function = function(&format!("F{level}"), &next, &next);
            graph.add_function(&function, None).unwrap();
        }
        assert_eq!(call(&mut graph, "F0"), "?");
        assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
    }
}

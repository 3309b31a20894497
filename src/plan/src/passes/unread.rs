//! Inputs that the functions of a node do not read.
//!
//! The reference puts functions in place of their calls before it looks for what a request needs: what feeds nothing but
//! an unread argument does not run, and may be a placeholder without a value. Here the node reads a zero instead.

use hashbrown::HashSet;
use tfcore_base::{DType, Result};
use tfcore_framework::AttrValue;
use tfcore_graph::{Graph, Node, NodeBuilder, NodeId, OutputRef};
use tfcore_tensor::{Shape, Tensor};

use crate::context::PassContext;
use crate::graph::PlanGraph;
use crate::lower::control::called_functions;
use crate::passes::pass::Pass;
use crate::passes::prune::prune;

/// See the module's documentation.
pub struct Unread;

impl Pass for Unread {
    fn name(&self) -> &'static str {
        "unread"
    }

    fn run(&self, graph: &mut PlanGraph<'_>, context: &PassContext<'_>) -> Result<()> {
        if context.functions.is_empty() {
            return Ok(());
        }
        let may_be_dead = graph.order.iter().any(|&id| graph.node(id).is_switch());
        let mut is_changed = false;
        for id in graph.order.clone() {
            let unread = unread_inputs(graph, context, graph.node(id));
            // A node that reads nothing any more would not be dead where it should be.
            if unread.is_empty() || may_be_dead && unread.len() == graph.node(id).inputs.len() {
                continue;
            }
            for input in unread {
                let Ok(zero) = zero(context, graph.node(id).input_dtypes[input]) else { continue };
                let zero = graph.add(zero);
                graph.set_input(id, input, OutputRef::new(zero, 0));
                is_changed = true;
            }
        }
        if is_changed { prune(graph) } else { Ok(()) }
    }
}

/// The inputs that none of the functions reads which `node` may call.
fn unread_inputs(graph: &PlanGraph<'_>, context: &PassContext<'_>, node: &Node) -> Vec<usize> {
    let Some((functions, first)) = called_functions(graph, node, context) else {
        return Vec::new();
    };
    let mut unread: Vec<usize> = (first..node.inputs.len()).collect();
    unread.retain(|&input| node.input_dtypes[input].is_plain());
    for function in functions {
        if unread.is_empty() {
            break;
        }
        let reads = context.functions.reads(&function, context.callers);
        unread.retain(|&input| reads.get(input - first) == Some(&false));
    }
    unread
}

/// For each argument of a function's body: true if a result comes from it. All of them if the body does something besides,
/// since it has to wait for them.
///
/// # Errors
/// What is wrong with the body.
pub fn read_args(
    graph: &mut PlanGraph<'_>,
    context: &PassContext<'_>,
    args: &[OutputRef],
    targets: &[NodeId],
) -> Result<Vec<bool>> {
    prune(graph)?;
    Unread.run(graph, context)?;
    let order: HashSet<NodeId> = graph.order.iter().copied().collect();
    let has_effects = targets.iter().any(|target| !order.contains(target));
    Ok(args.iter().map(|arg| has_effects || order.contains(&arg.node)).collect())
}

/// A constant.
fn zero(context: &PassContext<'_>, dtype: DType) -> Result<Node> {
    let mut graph = Graph::new(context.registry.clone());
    let mut builder = NodeBuilder::new("Const", "unread");
    builder.set_attr("dtype", AttrValue::Type(dtype));
    builder.set_attr("value", AttrValue::tensor(Tensor::zeros(dtype, Shape::scalar())?));
    let id = builder.finish(&mut graph)?;
    Ok(Node::clone(graph.node(id)))
}

#[cfg(test)]
mod tests {
    use tfcore_graph::ImportOptions;
    use tfcore_proto as proto;

    use super::*;
    use crate::testing::{graph_of, registry, with_context};

    #[test]
    fn an_argument_that_is_not_read_becomes_a_zero() {
        let float = proto::op_def::ArgDef { r#type: 1, ..Default::default() };
        let arg = |name: &str| proto::op_def::ArgDef { name: name.to_string(), ..float.clone() };
        let signature = proto::OpDef {
            name: "First".to_string(),
            input_arg: vec![arg("a"), arg("b")],
            output_arg: vec![arg("r")],
            ..Default::default()
        };
        let function = proto::FunctionDef {
            signature: Some(signature),
            ret: [("r".to_string(), "a".to_string())].into_iter().collect(),
            ..Default::default()
        };
        let node = |name: &str, op: &str, input: &[&str]| proto::NodeDef {
            name: name.to_string(),
            op: op.to_string(),
            input: input.iter().map(|name| name.to_string()).collect(),
            ..Default::default()
        };
        let placeholder = |name: &str| {
            let mut node = node(name, "Placeholder", &[]);
            node.attr.insert("dtype".to_string(), AttrValue::Type(DType::FLOAT).to_proto());
            node
        };
        let nodes = [placeholder("x"), placeholder("y"), node("call", "First", &["x", "y"])];
        let library = proto::FunctionDefLibrary { function: vec![function], ..Default::default() };
        let def =
            proto::GraphDef { node: nodes.into(), library: Some(library), ..Default::default() };
        let mut graph = Graph::new(registry());
        graph.import(def, &ImportOptions::default()).unwrap();
        let output = |name: &str| OutputRef::new(graph.find(name).unwrap(), 0);
        let names = graph_of(&graph, &[output("x")], &[output("call")], &[], |plan_graph| {
            prune(plan_graph).unwrap();
            with_context(&graph, |context| Unread.run(plan_graph, context)).unwrap();
            let names = plan_graph.order.iter().map(|&id| plan_graph.node(id).name.to_string());
            names.collect::<Vec<_>>()
        });
        assert_eq!(names, ["unread", "call"]);
    }
}

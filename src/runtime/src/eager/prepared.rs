//! `Prepared`: an op with its attrs, made ready to be executed on any tensors of the same dtypes.

use std::sync::Arc;

use tfcore_base::{DType, Result};
use tfcore_framework::{AttrValue, Attrs, DeviceType, Kernel, KernelInit};
use tfcore_graph::{FunctionLibrary, Graph, Node, NodeBuilder, NodeId, OutputRef};
use tfcore_plan::context::PassContext;
use tfcore_plan::graph::Source;
use tfcore_plan::place::Placement;
use tfcore_plan::plan::{Kernels, Plan};
use tfcore_plan::planner::plan;
use tfcore_plan::shapes::Shapes;
use tfcore_plan::stack::with_stack;

use crate::eager::request::EagerOp;
use crate::environment::Environment;

/// What runs for an op.
pub(crate) struct Prepared {
    pub(crate) output_dtypes: Vec<DType>,
    pub(crate) action: Action,
}

pub(crate) enum Action {
    Kernel(Arc<dyn Kernel>),
    /// Of ops that call functions: the plan of a graph with this one node.
    Plan(Arc<Plan>),
}

impl Prepared {
    /// # Errors
    /// What is wrong with inputs and attrs; "No OpKernel was registered" without a kernel.
    pub(crate) fn new(
        request: &EagerOp,
        environment: &Environment,
        library: &Arc<FunctionLibrary>,
        device: u16,
    ) -> Result<Prepared> {
        let attrs = request.resolve()?;
        let (graph, node) = graph_of(request, &attrs, environment, library)?;
        let output_dtypes = node.output_dtypes.iter().map(|dtype| dtype.base()).collect();
        let role = node.role();
        let action = match role.calls_functions() || role.is_control_flow() {
            false => {
                let init = KernelInit {
                    name: &node.name,
                    op: &node.op,
                    attrs: &node.attrs,
                    input_dtypes: &node.input_dtypes,
                    output_dtypes: &node.output_dtypes,
                };
                let kernel = environment.registry.build_kernel(DeviceType::Cpu, &init)?;
                Action::Kernel(kernel.into())
            }
            true => Action::Plan(Arc::new(plan_of(&graph, &node, environment, device)?)),
        };
        Ok(Prepared { output_dtypes, action })
    }
}

/// A graph of placeholders for the inputs and of the op, and the op's node.
fn graph_of(
    request: &EagerOp,
    attrs: &Attrs,
    environment: &Environment,
    library: &Arc<FunctionLibrary>,
) -> Result<(Graph, Arc<Node>)> {
    let mut graph = Graph::new(environment.registry.clone());
    *graph.library_mut() = (**library).clone();
    let op = request.op();
    let mut inputs = Vec::with_capacity(request.inputs().len());
    for (index, input) in request.inputs().iter().enumerate() {
        let mut builder = NodeBuilder::new("Placeholder", format!("input_{index}"));
        builder.set_attr("dtype", AttrValue::Type(input.dtype()));
        inputs.push(OutputRef::new(builder.finish(&mut graph)?, 0));
    }
    let mut builder = NodeBuilder::new(&*op.name, &*op.name);
    let mut rest = &inputs[..];
    for arg in &op.inputs {
        let (outputs, behind) = rest.split_at(arg.len(attrs)?);
        rest = behind;
        match arg.is_list() {
            true => builder.add_input_list(outputs.to_vec()),
            false => builder.add_input(outputs[0]),
        }
    }
    let declared = attrs.iter().filter(|(name, _)| op.attr(name).is_some());
    declared.for_each(|(name, value)| builder.set_attr(&**name, value.clone()));
    let id = builder.finish(&mut graph)?;
    let node = graph.node(id).clone();
    Ok((graph, node))
}

/// The plan that computes all outputs of a node from its inputs.
fn plan_of(graph: &Graph, node: &Node, environment: &Environment, device: u16) -> Result<Plan> {
    let mut shapes = Shapes::default();
    shapes.extend(graph);
    let nodes: Vec<Arc<Node>> =
        (0..graph.num_ids()).map(|index| graph.node(NodeId(index as u32)).clone()).collect();
    let args: Vec<OutputRef> = node.inputs.iter().map(|edge| edge.source).collect();
    let results: Vec<OutputRef> =
        (0..node.num_outputs()).map(|index| OutputRef::new(node.id, index)).collect();
    let source = Source {
        nodes: &nodes,
        placement: &Placement::on(device),
        shapes: &shapes,
        args: &args,
        results: &results,
        targets: &[node.id],
    };
    let context = PassContext {
        registry: &environment.registry,
        functions: &*environment.functions,
        placer: environment.functions.placer(),
        kernels: &Kernels::default(),
        callers: &[],
        in_function: false,
        options: &environment.options,
    };
    with_stack(|| plan(source, &context))
}

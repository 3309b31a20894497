//! Small registries, graphs and plans for tests, those of the runtime too.

use std::sync::Arc;

use tfcore_base::{DType, invalid};
use tfcore_framework::{AttrValue, Registry};
use tfcore_graph::{Graph, ImportOptions, Node, NodeBuilder, NodeId, OutputRef};
use tfcore_proto::{self as proto, attr_value};
use tfcore_tensor::{Shape, Tensor};

use crate::context::PassContext;
use crate::functions::Functions;
use crate::graph::{PlanGraph, Source};
use crate::options::PassOptions;
use crate::place::{Placement, Placer};
use crate::plan::{Kernels, Plan};
use crate::planner::plan;
use crate::shapes::Shapes;

/// The number of float32 in messages.
const FLOAT: i32 = 1;

/// Negation and addition of floats, and an Exp that panics.
pub fn registry() -> Arc<Registry> {
    registry_with(|_| ())
}

/// As [`registry`], with some more.
pub fn registry_with(add: impl FnOnce(&mut Registry)) -> Arc<Registry> {
    let mut registry = Registry::new();
    add(&mut registry);
    registry.op("Placeholder").compute(|_| Err(invalid!("not fed")));
    registry.op("Exp").compute(|_| panic!("a bug"));
    registry.op("Neg").compute(|ctx| {
        let mut tensor = ctx.take_or_copy_input(0)?;
        tensor.as_mut_slice::<f32>()?.iter_mut().for_each(|value| *value = -*value);
        ctx.set_output(0, tensor);
        Ok(())
    });
    registry.op("AddV2").compute(|ctx| {
        let mut sum = ctx.take_or_copy_input(0)?;
        for (sum, value) in sum.as_mut_slice::<f32>()?.iter_mut().zip(ctx.input_slice(1)?) {
            *sum += value;
        }
        ctx.set_output(0, sum);
        Ok(())
    });
    Arc::new(registry)
}

/// Adds `name = op(inputs)`.
pub fn add(graph: &mut Graph, op: &str, name: &str, inputs: &[OutputRef]) -> OutputRef {
    let mut builder = NodeBuilder::new(op, name);
    inputs.iter().for_each(|&input| builder.add_input(input));
    if op == "Placeholder" {
        builder.set_attr("dtype", AttrValue::Type(DType::FLOAT));
    }
    OutputRef::new(builder.finish(graph).unwrap(), 0)
}

pub fn nodes_of(graph: &Graph) -> Vec<Arc<Node>> {
    (0..graph.num_ids()).map(|index| graph.node(NodeId(index as u32)).clone()).collect()
}

/// The functions of a graph, on one CPU.
pub fn functions_of(graph: &Graph) -> Arc<Functions> {
    let placer = Placer::new(["/job:localhost/replica:0/task:0/device:CPU:0"], false, false);
    let functions = Functions::new(graph.registry().clone(), placer, PassOptions::default());
    functions.set_library(graph.library());
    Arc::new(functions)
}

/// Hands `what` a graph for passes, in which no pass has run.
pub fn graph_of<T>(
    graph: &Graph,
    feeds: &[OutputRef],
    fetches: &[OutputRef],
    targets: &[NodeId],
    what: impl FnOnce(&mut PlanGraph<'_>) -> T,
) -> T {
    let mut shapes = Shapes::default();
    shapes.extend(graph);
    let nodes = nodes_of(graph);
    let placement = Placement::default();
    what(&mut PlanGraph::new(Source {
        nodes: &nodes,
        placement: &placement,
        shapes: &shapes,
        args: feeds,
        results: fetches,
        targets,
    }))
}

/// Hands `what` a context for passes over a graph.
pub fn with_context<T>(graph: &Graph, what: impl FnOnce(&PassContext<'_>) -> T) -> T {
    let functions = functions_of(graph);
    what(&PassContext {
        registry: graph.registry(),
        functions: &*functions,
        placer: functions.placer(),
        kernels: &Kernels::default(),
        callers: &[],
        in_function: false,
        options: &PassOptions::default(),
    })
}

/// The plan that computes `fetches` from `feeds`.
pub fn plan_of(graph: &Graph, feeds: &[OutputRef], fetches: &[OutputRef]) -> Plan {
    graph_of(graph, feeds, fetches, &[], |made| {
        with_context(graph, |context| plan(made.source, context)).unwrap()
    })
}

/// A graph from lines such as `sum AddV2 x y:1 ^z`; an Enter's line ends with its frame, `!` behind a constant
/// one's.
pub fn graph(registry: Arc<Registry>, lines: &str) -> Graph {
    let mut def = proto::GraphDef::default();
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let mut words = line.split(' ');
        let (name, op) = (words.next().unwrap(), words.next().unwrap());
        let mut input: Vec<String> = words.map(str::to_string).collect();
        let mut attr = std::collections::BTreeMap::new();
        let mut set = |name: &str, value| {
            attr.insert(name.to_string(), proto::AttrValue { value: Some(value) });
        };
        match op {
            "Placeholder" => set("dtype", attr_value::Value::Type(FLOAT)),
            "LoopCond" => {}
            _ => set("T", attr_value::Value::Type(FLOAT)),
        }
        match op {
            "Merge" => set("N", attr_value::Value::I(input.len() as i64)),
            "Enter" => {
                let frame = input.pop().unwrap();
                let is_constant = frame.ends_with('!');
                set(
                    "frame_name",
                    attr_value::Value::S(frame.trim_end_matches('!').to_string().into()),
                );
                set("is_constant", attr_value::Value::B(is_constant));
            }
            _ => {}
        }
        let (name, op) = (name.to_string(), op.to_string());
        def.node.push(proto::NodeDef { name, op, input, attr, ..Default::default() });
    }
    let mut graph = Graph::new(registry);
    graph.import(def, &ImportOptions::default()).unwrap();
    graph
}

/// `while i < n: i += 1, sum += i`
pub const COUNT: &str = "
    i Placeholder
    n Placeholder
    one Placeholder
    enter_i Enter i f
    enter_sum Enter i f
    enter_n Enter n f!
    enter_one Enter one f!
    merge_i Merge enter_i next_i
    merge_sum Merge enter_sum next_sum
    less Less merge_i enter_n
    cond LoopCond less
    switch_i Switch merge_i cond
    switch_sum Switch merge_sum cond
    add AddV2 switch_i:1 enter_one
    sum AddV2 switch_sum:1 add
    next_i NextIteration add
    next_sum NextIteration sum
    exit_i Exit switch_i
    exit_sum Exit switch_sum
    last AddV2 exit_i exit_sum
";

pub fn vector(values: &[f32]) -> Tensor {
    Tensor::from_slice(Shape::vector(values.len()), values).unwrap()
}

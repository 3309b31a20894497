//! Gradients through several nodes: loops and conditionals of the old kind, and integers; against difference quotients.

use tfcore::registry;
use tfcore_base::DType;
use tfcore_framework::AttrValue;
use tfcore_graph::{Graph, LoopPart, NodeBuilder, OutputRef};
use tfcore_runtime::{Request, Session, SessionConfig};
use tfcore_tensor::Tensor;

fn node(graph: &mut Graph, op: &str, inputs: &[OutputRef]) -> OutputRef {
    let mut builder = NodeBuilder::new(op, format!("{op}_{}", graph.num_ids()));
    match op {
        "Merge" => builder.add_input_list(inputs.to_vec()),
        _ => inputs.iter().for_each(|&input| builder.add_input(input)),
    }
    OutputRef::new(builder.finish(graph).unwrap(), 0)
}

fn constant(graph: &mut Graph, value: Tensor) -> OutputRef {
    let mut builder = NodeBuilder::new("Const", format!("c_{}", graph.num_ids()));
    builder.set_attr("dtype", AttrValue::Type(value.dtype()));
    builder.set_attr("value", AttrValue::tensor(value));
    OutputRef::new(builder.finish(graph).unwrap(), 0)
}

fn input(graph: &mut Graph) -> OutputRef {
    let mut builder = NodeBuilder::new("Placeholder", format!("x_{}", graph.num_ids()));
    builder.set_attr("dtype", AttrValue::Type(DType::DOUBLE));
    OutputRef::new(builder.finish(graph).unwrap(), 0)
}

fn cast(graph: &mut Graph, x: OutputRef, dtype: DType) -> OutputRef {
    let mut builder = NodeBuilder::new("Cast", format!("cast_{}", graph.num_ids()));
    builder.add_input(x);
    builder.set_attr("DstT", AttrValue::Type(dtype));
    OutputRef::new(builder.finish(graph).unwrap(), 0)
}

type Body = fn(&mut Graph, &[OutputRef]) -> Vec<OutputRef>;

/// Repeats `body` on `values` and returns what they have become.
fn repeat(
    graph: &mut Graph,
    name: &str,
    times: i32,
    values: &[OutputRef],
    body: Body,
) -> Vec<OutputRef> {
    let counter = constant(graph, Tensor::scalar(0i32));
    let inputs = [&[counter], values].concat();
    let (mut cond, mut part) = (Graph::new(registry().clone()), Graph::new(registry().clone()));
    let cond_inputs = cond.add_loop_inputs(graph, &inputs, "cond_input").unwrap();
    let limit = constant(&mut cond, Tensor::scalar(times));
    let proceed = node(&mut cond, "Less", &[cond_inputs[0], limit]);
    let body_inputs = part.add_loop_inputs(graph, &inputs, "body_input").unwrap();
    let one = constant(&mut part, Tensor::scalar(1i32));
    let mut outputs = vec![node(&mut part, "Add", &[body_inputs[0], one])];
    outputs.extend(body(&mut part, &body_inputs[1..]));
    let cond = LoopPart { graph: &cond, inputs: &cond_inputs, outputs: &[proceed] };
    let part = LoopPart { graph: &part, inputs: &body_inputs, outputs: &outputs };
    graph.add_while(name, &inputs, &cond, &part).unwrap().split_off(1)
}

/// `-x` below 1, else `x^2`.
fn conditional(graph: &mut Graph, x: OutputRef) -> OutputRef {
    let one = constant(graph, Tensor::scalar(1.0f64));
    let is_large = node(graph, "Greater", &[x, one]);
    let switch = node(graph, "Switch", &[x, is_large]);
    let below = node(graph, "Neg", &[switch]);
    let above = node(graph, "Square", &[OutputRef::new(switch.node, 1)]);
    node(graph, "Merge", &[below, above])
}

/// Compares the gradient of what `build` makes of two numbers with difference quotients.
fn check(what: &str, at: [f64; 2], build: fn(&mut Graph, [OutputRef; 2]) -> OutputRef) {
    let mut graph = Graph::new(registry().clone());
    let xs = [input(&mut graph), input(&mut graph)];
    let y = build(&mut graph, xs);
    let grads = graph.add_gradients(&[y], &xs, None, None).unwrap();
    let session = Session::new(registry().clone(), &SessionConfig::default()).unwrap();
    session.extend(&graph).unwrap();
    let run = |at: [f64; 2], fetch: OutputRef| -> f64 {
        let feeds = xs.iter().zip(at).map(|(&x, value)| (x, Tensor::scalar(value)));
        let outcome = session.run(Request::new(feeds, &[fetch]));
        let mut outcome = outcome.unwrap_or_else(|error| panic!("{what}: {error}"));
        outcome.take_tensors().next().unwrap().scalar_value().unwrap()
    };
    for index in 0..2 {
        let mut ends = [at, at];
        ends[0][index] += 1e-5;
        ends[1][index] -= 1e-5;
        let quotient = (run(ends[0], y) - run(ends[1], y)) / 2e-5;
        let gradient = grads[index].map_or(0.0, |grad| run(at, grad));
        let error = (gradient - quotient).abs() / quotient.abs().max(1.0);
        assert!(error < 1e-6, "{what}, by input {index}: {gradient}, not {quotient}");
    }
}

#[test]
fn a_value_that_changes_and_one_that_does_not() {
    check("x * w^4", [0.7, 1.3], |graph, [x, w]| {
        repeat(graph, "loop", 4, &[x, w], |body, v| vec![node(body, "Mul", &[v[0], v[1]]), v[1]])[0]
    });
    check("no iterations", [0.7, 1.3], |graph, [x, w]| {
        let ends = repeat(graph, "loop", 0, &[x, w], |body, v| {
            vec![node(body, "Mul", &[v[0], v[1]]), v[1]]
        });
        node(graph, "Mul", &[ends[0], ends[1]])
    });
}

#[test]
fn values_of_all_iterations_matter() {
    check("sin and tanh in turn", [0.4, -0.9], |graph, [x, w]| {
        let ends = repeat(graph, "loop", 5, &[x, w], |body, v| {
            let sum = node(body, "Add", &[v[0], v[1]]);
            vec![node(body, "Sin", &[sum]), node(body, "Tanh", &[v[0]])]
        });
        node(graph, "Mul", &[ends[0], ends[1]])
    });
}

#[test]
fn loops_in_loops() {
    check("nested", [0.8, 1.1], |graph, [x, w]| {
        repeat(graph, "outer", 3, &[x, w], |body, v| {
            let ends = repeat(body, "inner", 2, &[v[0], v[1]], |body, v| {
                let product = node(body, "Mul", &[v[0], v[1]]);
                vec![node(body, "Sin", &[product]), v[1]]
            });
            vec![ends[0], v[1]]
        })[0]
    });
}

#[test]
fn conditionals() {
    for at in [[0.6, 0.8], [1.7, 0.8]] {
        check("conditional", at, |graph, [x, w]| {
            let y = conditional(graph, x);
            let sum = node(graph, "Add", &[x, w]);
            node(graph, "Mul", &[y, sum])
        });
    }
}

#[test]
fn conditionals_in_loops() {
    check("conditional in a loop", [0.9, 1.4], |graph, [x, w]| {
        repeat(graph, "loop", 4, &[x, w], |body, v| {
            let chosen = conditional(body, v[0]);
            vec![node(body, "Mul", &[chosen, v[1]]), v[1]]
        })[0]
    });
}

#[test]
fn integers_let_nothing_through() {
    check("x * w rounded", [0.7, 1.3], |graph, [x, w]| {
        let whole = cast(graph, w, DType::INT32);
        let negated = node(graph, "Neg", &[whole]);
        let rounded = cast(graph, negated, DType::DOUBLE);
        node(graph, "Mul", &[x, rounded])
    });
}

//! What a run costs besides arithmetic: per run, per op in a chain, per independent op, per feed and
//! fetch.
//!
//! Everything goes through the rooms below the C functions, which add a few nanoseconds. `cargo bench` prints the
//! median and the fastest of several rounds; compare figures of one run only.
#![allow(clippy::print_stdout)]

use std::time::Instant;

use tfcore::registry;
use tfcore_base::DType;
use tfcore_framework::AttrValue;
use tfcore_graph::{Graph, NodeBuilder, OutputRef};
use tfcore_runtime::{Request, Session, SessionConfig};
use tfcore_tensor::{PartialShape, Shape, Tensor};

const ROUNDS: usize = 15;

/// Prints how long `body` takes for each of its `items`, after one round to warm up.
fn measure(name: &str, items: usize, mut body: impl FnMut()) {
    body();
    let mut nanos: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            body();
            start.elapsed().as_nanos() as f64 / items as f64
        })
        .collect();
    nanos.sort_by(f64::total_cmp);
    println!("{name:<24} {:>10.1} ns median {:>10.1} ns fastest", nanos[ROUNDS / 2], nanos[0]);
}

fn placeholder(graph: &mut Graph, name: &str) -> OutputRef {
    let mut builder = NodeBuilder::new("Placeholder", name);
    builder.set_attr("dtype", AttrValue::Type(DType::FLOAT));
    builder.set_attr("shape", AttrValue::shape(PartialShape::unknown()));
    OutputRef::new(builder.finish(graph).expect("a placeholder"), 0)
}

fn op(graph: &mut Graph, op: &str, name: String, inputs: &[OutputRef]) -> OutputRef {
    let mut builder = NodeBuilder::new(op, name);
    inputs.iter().for_each(|&input| builder.add_input(input));
    OutputRef::new(builder.finish(graph).expect("an op"), 0)
}

fn session(graph: &Graph) -> Session {
    let config = SessionConfig { threads: 1, ..SessionConfig::default() };
    let session = Session::new(registry().clone(), &config).unwrap();
    session.extend(graph).expect("a graph that can run");
    session
}

fn run(session: &Session, feeds: &[(OutputRef, Tensor)], fetches: &[OutputRef]) {
    let request = Request::new(feeds.iter().cloned(), fetches);
    let mut outcome = session.run(request).expect("a run");
    assert_eq!(outcome.take_tensors().count(), fetches.len());
}

fn chain(len: usize) -> (Graph, OutputRef, OutputRef) {
    let mut graph = Graph::new(registry().clone());
    let x = placeholder(&mut graph, "x");
    let mut last = x;
    for index in 0..len {
        last = op(&mut graph, "AddV2", format!("a{index}"), &[last, x]);
    }
    (graph, x, last)
}

/// The sum of so many independent ops on 16 floats.
fn wide(len: usize) -> (Graph, OutputRef, OutputRef) {
    let mut graph = Graph::new(registry().clone());
    let x = placeholder(&mut graph, "x");
    let ops = (0..len).map(|index| op(&mut graph, "Neg", format!("m{index}"), &[x])).collect();
    let mut sum = NodeBuilder::new("AddN", "sum");
    sum.add_input_list(ops);
    let sum = OutputRef::new(sum.finish(&mut graph).expect("a sum"), 0);
    (graph, x, sum)
}

fn runs() {
    let one = Tensor::scalar(1.0f32);
    let floats = Tensor::zeros(DType::FLOAT, Shape::vector(16)).expect("a vector");
    let cases = [
        ("run of one op", chain(1), &one, 1, 1000),
        ("op in a chain", chain(1000), &one, 1000, 10),
        ("independent op", wide(1000), &floats, 1000, 10),
    ];
    for (name, (graph, x, last), value, len, repeats) in cases {
        let session = session(&graph);
        let feeds = [(x, value.clone())];
        measure(name, len * repeats, || {
            (0..repeats).for_each(|_| run(&session, &feeds, &[last]));
        });
    }
    let mut graph = Graph::new(registry().clone());
    let feeds: Vec<(OutputRef, Tensor)> =
        (0..100).map(|i| (placeholder(&mut graph, &format!("x{i}")), one.clone())).collect();
    let fetches: Vec<OutputRef> =
        (0..100).map(|i| op(&mut graph, "Neg", format!("y{i}"), &[feeds[i].0])).collect();
    let session = session(&graph);
    measure("feed, op and fetch", 100 * 100, || {
        (0..100).for_each(|_| run(&session, &feeds, &fetches));
    });
}

fn main() {
    runs();
}

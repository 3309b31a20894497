//! What a graph costs per node: to build, import (also with a prefix), export and free, at sizes from a thousand to a
//! million nodes. Flat columns mean that nothing is quadratic.
//!
//! The imported graphs are layers of six nodes, whose weights all differ; those of the built ones are one long chain, of
//! additions or of tensors that take their shape from the one before.
//! `cargo bench --bench graph` prints nanoseconds per node, the least of a few rounds; compare figures of one run
//! only.
#![allow(clippy::print_stdout)]

use std::time::{Duration, Instant};

use tfcore::registry;
use tfcore_base::DType;
use tfcore_framework::AttrValue;
use tfcore_graph::{Graph, ImportOptions, NodeBuilder, OutputRef, ParsedGraphDef};
use tfcore_tensor::{PartialShape, Shape, Tensor};

const SIZES: [usize; 4] = [1_000, 10_000, 100_000, 1_000_000];
/// How many nodes a row goes through in all of its rounds, at least three.
const NODES: usize = 1_000_000;

fn new_graph() -> Graph {
    Graph::new(registry().clone())
}

fn add(graph: &mut Graph, op: &str, name: String, inputs: &[OutputRef]) -> OutputRef {
    let mut builder = NodeBuilder::new(op, name);
    inputs.iter().for_each(|&input| builder.add_input(input));
    OutputRef::new(builder.finish(graph).expect("an op"), 0)
}

fn placeholder(graph: &mut Graph, shape: PartialShape) -> OutputRef {
    let mut builder = NodeBuilder::new("Placeholder", "input");
    builder.set_attr("dtype", AttrValue::Type(DType::FLOAT));
    builder.set_attr("shape", AttrValue::shape(shape));
    OutputRef::new(builder.finish(graph).expect("a placeholder"), 0)
}

fn constant(graph: &mut Graph, name: String, shape: &[i64], value: f32) -> OutputRef {
    let shape = Shape::new(shape).expect("a small shape");
    let values = vec![value; shape.count()];
    let tensor = Tensor::from_slice(shape, &values).expect("as many values as elements");
    let mut builder = NodeBuilder::new("Const", name);
    builder.set_attr("dtype", AttrValue::Type(DType::FLOAT));
    builder.set_attr("value", AttrValue::tensor(tensor));
    OutputRef::new(builder.finish(graph).expect("a constant"), 0)
}

fn chain(nodes: usize) -> Graph {
    let mut graph = new_graph();
    let first = placeholder(&mut graph, PartialShape::scalar());
    let mut last = first;
    for index in 1..nodes {
        last = add(&mut graph, "AddV2", format!("n{index}"), &[last, first]);
    }
    graph
}

/// Tensors whose first dimension is unknown, reshaped again and again to `[shape(x)[0], 3]`.
fn reshapes(nodes: usize) -> Graph {
    let mut graph = new_graph();
    let mut last = placeholder(&mut graph, PartialShape::from_i64s(&[-1, 3]).expect("a shape"));
    let integers = |graph: &mut Graph, name: &str, shape: &[i64], value: i32| {
        let shape = Shape::new(shape).expect("a small shape");
        let tensor = Tensor::from_slice(shape, &[value]).expect("one value");
        let mut builder = NodeBuilder::new("Const", name);
        builder.set_attr("dtype", AttrValue::Type(DType::INT32));
        builder.set_attr("value", AttrValue::tensor(tensor));
        OutputRef::new(builder.finish(graph).expect("a constant"), 0)
    };
    let zero = integers(&mut graph, "zero", &[1], 0);
    let one = integers(&mut graph, "one", &[1], 1);
    let three = integers(&mut graph, "three", &[], 3);
    for index in 0..nodes / 4 {
        let name = |part: &str| format!("{part}_{index}");
        let shape = add(&mut graph, "Shape", name("shape"), &[last]);
        let mut builder = NodeBuilder::new("StridedSlice", name("slice"));
        [shape, zero, one, one].into_iter().for_each(|input| builder.add_input(input));
        builder.set_attr("shrink_axis_mask", AttrValue::Int(1));
        let rows = OutputRef::new(builder.finish(&mut graph).expect("a slice"), 0);
        let mut builder = NodeBuilder::new("Pack", name("pack"));
        builder.add_input_list(vec![rows, three]);
        let shape = OutputRef::new(builder.finish(&mut graph).expect("a vector"), 0);
        last = add(&mut graph, "Reshape", name("reshape"), &[last, shape]);
    }
    graph
}

fn layers(nodes: usize) -> Graph {
    let mut graph = new_graph();
    let mut last = placeholder(&mut graph, PartialShape::unknown());
    for layer in 0..nodes / 6 {
        let name = |part: &str| format!("layer_{layer}/{part}");
        let input = last;
        let kernel = constant(&mut graph, name("kernel"), &[4, 4], layer as f32);
        let bias = constant(&mut graph, name("bias"), &[4], layer as f32);
        last = add(&mut graph, "MatMul", name("matmul"), &[last, kernel]);
        last = add(&mut graph, "BiasAdd", name("biasadd"), &[last, bias]);
        last = add(&mut graph, "Relu", name("relu"), &[last]);
        last = add(&mut graph, "AddV2", name("residual"), &[last, input]);
    }
    graph
}

fn import(bytes: &[u8], prefix: &str) -> Graph {
    let mut graph = new_graph();
    let def = ParsedGraphDef::from_bytes(bytes, registry()).expect("a GraphDef");
    let options = ImportOptions { prefix: prefix.to_string(), ..ImportOptions::default() };
    graph.import_parsed(def, &options).expect("an import");
    graph
}

/// Prints the least time per node that `make` takes, and that what it makes takes to be freed.
fn measure<T>(name: &str, nodes: usize, mut make: impl FnMut() -> T) {
    let mut least = [Duration::MAX; 2];
    for _ in 0..(NODES / nodes).max(3) {
        let start = Instant::now();
        let made = make();
        least[0] = least[0].min(start.elapsed());
        let start = Instant::now();
        drop(made);
        least[1] = least[1].min(start.elapsed());
    }
    let [made, freed] = least.map(|time| time.as_nanos() as f64 / nodes as f64);
    println!("{name:<16} {nodes:>9} nodes {made:>9.0} ns {freed:>9.0} ns to free");
}

fn main() {
    for nodes in SIZES {
        measure("build", nodes, || chain(nodes));
        measure("build shapes", nodes, || reshapes(nodes));
    }
    for nodes in SIZES {
        let graph = layers(nodes);
        measure("export", nodes, || graph.encode());
        let def = graph.encode();
        drop(graph);
        measure("import", nodes, || import(def.as_bytes(), ""));
        measure("prefix import", nodes, || import(def.as_bytes(), "tower_0/replica"));
    }
}

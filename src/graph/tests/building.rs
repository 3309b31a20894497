//! Building and importing: attributes are inferred, names made unique, and what fails leaves no trace.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tfcore_base::{Code, DType};
use tfcore_framework::{AttrValue, Registry};
use tfcore_graph::{Graph, ImportOptions, NodeBuilder, NodeId, OutputRef, TensorRef};
use tfcore_proto::{AttrValue as AttrProto, GraphDef, NodeDef, attr_value};
use tfcore_tensor::{Dim, PartialShape, Shape, Tensor};

fn placeholder(graph: &mut Graph, name: &str, dtype: DType) -> OutputRef {
    let mut builder = NodeBuilder::new("Placeholder", name);
    builder.set_attr("dtype", AttrValue::Type(dtype));
    OutputRef::new(builder.finish(graph).unwrap(), 0)
}

fn op(op: &str, name: &str, inputs: &[OutputRef]) -> NodeBuilder {
    let mut builder = NodeBuilder::new(op, name);
    inputs.iter().for_each(|&input| builder.add_input(input));
    builder
}

#[test]
fn a_builder_infers_attributes_or_changes_nothing() {
    let mut graph = Graph::new(Arc::new(Registry::new()));
    let x = placeholder(&mut graph, "x", DType::FLOAT);
    let i = placeholder(&mut graph, "i", DType::INT32);
    let sum = op("AddV2", "sum", &[x, x]).finish(&mut graph).unwrap();
    assert_eq!(graph.node(sum).attrs.dtype("T").unwrap(), DType::FLOAT);
    assert_eq!(graph.consumers(x).collect::<Vec<_>>(), [(sum, 0), (sum, 1)]);

    let before = graph.num_ids();
    let cases = [
        (op("AddV2", "sum", &[x, x]), "Duplicate node name in graph: 'sum'"),
        (op("AddV2", "bad", &[x, i]), "Inconsistent values for attr 'T' DT_FLOAT vs. DT_INT32"),
        (op("AddV2", "bad", &[x]), "1 inputs specified of 2 inputs in Op"),
        (op("Neg", "bad", &[OutputRef::new(x.node, 7)]), "output 7 of x not in range [0, 1)"),
        (op("NoSuchOp", "bad", &[]), "Op type not registered 'NoSuchOp'"),
        (op("Placeholder", "bad", &[]), "NodeDef missing attr 'dtype'"),
    ];
    for (builder, message) in cases {
        let error = builder.finish(&mut graph).unwrap_err();
        assert!(error.message().contains(message), "{error}");
        assert_eq!((graph.num_ids(), graph.find("bad")), (before, None), "{message}");
        assert_eq!(graph.consumers(x).count(), 2, "{message}");
    }
}

#[test]
fn a_shape_function_that_panics_leaves_no_node() {
    let mut registry = Registry::new();
    registry.op("Neg").shape(|_| panic!("a bug"));
    let mut graph = Graph::new(Arc::new(registry));
    let x = placeholder(&mut graph, "x", DType::FLOAT);
    let error = op("Neg", "neg", &[x]).finish(&mut graph).unwrap_err();
    assert_eq!(error.code(), Code::Internal);
    assert_eq!((graph.find("neg"), graph.consumers(x).count()), (None, 0));
}

/// `name = Op(inputs)`, with `T` float where the op has it.
fn node(text: &str) -> NodeDef {
    let (name, call) = text.split_once(" = ").unwrap();
    let (op, inputs) = call.strip_suffix(')').unwrap().split_once('(').unwrap();
    let attr = |value| AttrProto { value: Some(value) };
    let float = attr(attr_value::Value::Type(DType::FLOAT.to_i32()));
    let mut node = NodeDef {
        name: name.into(),
        op: op.into(),
        input: inputs.split(", ").filter(|input| !input.is_empty()).map(String::from).collect(),
        ..Default::default()
    };
    match op {
        "Placeholder" => drop(node.attr.insert("dtype".into(), float)),
        "NoOp" => {}
        _ => drop(node.attr.insert("T".into(), float)),
    }
    if op == "Merge" {
        node.attr.insert("N".into(), attr(attr_value::Value::I(2)));
    }
    node
}

fn graph_def(nodes: &[&str]) -> GraphDef {
    GraphDef { node: nodes.iter().map(|text| node(text)).collect(), ..Default::default() }
}

#[test]
fn a_failed_import_leaves_the_graph_as_it_was() {
    let mut graph = Graph::new(Arc::new(Registry::new()));
    let x = placeholder(&mut graph, "x", DType::FLOAT);
    // Every import reads `x` of the graph, by data and by control, before it fails.
    let options = ImportOptions {
        input_map: vec![(TensorRef::new("in", 0), x)],
        control_dependencies: vec![x.node],
        ..Default::default()
    };
    let cases: [(&[&str], Code, &str); 9] = [
        (&["a = Placeholder()"], Code::InvalidArgument, "Node 'a' is not unique"),
        (&["b = Neg(nobody)"], Code::InvalidArgument, "Unknown input node 'nobody'"),
        (&["b = Neg(c)", "c = Neg(b)"], Code::InvalidArgument, "2 nodes in a cycle"),
        (&["b = NoSuchOp(a)"], Code::NotFound, "Op type not registered 'NoSuchOp'"),
        (&["b = Neg(a:1)"], Code::InvalidArgument, "Connecting to invalid output 1"),
        (&["b = AddV2(a)"], Code::InvalidArgument, "do not match 1 inputs specified"),
        (&["b = Neg(^a, a)"], Code::InvalidArgument, "Control dependencies must come after"),
        (&["x = Placeholder()"], Code::InvalidArgument, "Node name 'x' already exists"),
        (
            &["m = Merge(a, a, ^n)", "n = NextIteration(m)"],
            Code::InvalidArgument,
            "2 nodes in a cycle",
        ),
    ];
    for (nodes, code, message) in cases {
        let def = graph_def(&[&["a = Neg(in)", "s/p = Placeholder()"], nodes].concat());
        let error = graph.import(def, &options).unwrap_err();
        assert_eq!(error.code(), code, "{error}");
        assert!(error.message().contains(message), "{error}");
        assert_eq!(graph.num_ids(), x.node.index() + 1, "{message}");
        assert!(!graph.is_name_or_scope("a") && !graph.is_name_or_scope("s"), "{message}");
        assert_eq!(graph.consumers(x).count(), 0, "{message}");
        assert!(graph.control_outputs(x.node).next().is_none(), "{message}");
    }
    graph.import(graph_def(&["a = Neg(in)", "s/p = Placeholder()"]), &options).unwrap();
    assert_eq!((graph.consumers(x).count(), graph.control_outputs(x.node).count()), (1, 2));
}

#[test]
fn many_control_inputs_are_added_in_linear_time() {
    let mut graph = Graph::new(Arc::new(Registry::new()));
    let first = op("NoOp", "first", &[]).finish(&mut graph).unwrap();
    let ids: Vec<NodeId> = (0..200_000)
        .map(|i| op("NoOp", &format!("n{i}"), &[]).finish(&mut graph).unwrap())
        .collect();
    let begin = Instant::now();
    let mut last = op("NoOp", "last", &[]);
    ids.iter().for_each(|&id| last.add_control_input(id));
    // One that comes twice counts once, where it came first.
    last.add_control_input(ids[7]);
    last.add_control_input(first);
    let last = last.finish(&mut graph).unwrap();
    assert!(begin.elapsed() < Duration::from_secs(1), "{:?}", begin.elapsed());
    let found = &graph.node(last).control_inputs;
    assert_eq!((found.len(), found[7], found[200_000]), (200_001, ids[7], first));
}

#[test]
fn a_loop_is_closed_by_its_next_iteration() {
    let mut graph = Graph::new(Arc::new(Registry::new()));
    let nodes = ["m = Merge(a, n)", "n = NextIteration(m)", "a = Placeholder()"];
    graph.import(graph_def(&nodes), &ImportOptions::default()).unwrap();
    let (merge, next) = (graph.find("m").unwrap(), graph.find("n").unwrap());
    assert_eq!(graph.node(merge).inputs[1].source, OutputRef::new(next, 0));
    assert_eq!(graph.consumers(OutputRef::new(next, 0)).collect::<Vec<_>>(), [(merge, 1)]);
}

#[test]
fn names_are_made_unique() {
    let mut graph = Graph::new(Arc::new(Registry::new()));
    for name in ["a", "a_1", "scope/b"] {
        placeholder(&mut graph, name, DType::FLOAT);
    }
    let nodes = ["a = Placeholder()", "a_2 = Placeholder()", "scope = Placeholder()", "b = Neg(a)"];
    let options = ImportOptions { uniquify_names: true, ..Default::default() };
    graph.import(graph_def(&nodes), &options).unwrap();
    let names: Vec<String> = graph.nodes()[3..].iter().map(|node| node.name.to_string()).collect();
    // `a_2` is taken by another node of the import, `scope` by a scope of the graph.
    assert_eq!(names, ["a_3", "a_2", "scope_1", "b"]);
    assert_eq!(graph.node(graph.find("b").unwrap()).inputs[0].source.node, NodeId(5));
}

/// Ops that build a shape-like vector, and Fill, whose output has the shape that the vector says.
fn shape_graph() -> Graph {
    let mut registry = Registry::new();
    let vector = |ctx: &mut tfcore_framework::InferenceContext<'_>| {
        ctx.set_output(0, PartialShape::vector(Dim::UNKNOWN));
        Ok(())
    };
    registry.op("Placeholder").shape(|ctx| {
        let shape = ctx.attrs.shape("shape")?.clone();
        ctx.set_output(0, shape);
        Ok(())
    });
    registry.op("Shape").shape(vector);
    registry.op("ConcatV2").shape(vector);
    registry.op("Const").shape(|ctx| {
        let shape = ctx.attrs.tensor("value")?.tensor()?.shape().into();
        ctx.set_output(0, shape);
        Ok(())
    });
    registry.op("Fill").shape(|ctx| {
        let shape = ctx.operand_shape(0)?;
        ctx.set_output(0, shape);
        Ok(())
    });
    Graph::new(Arc::new(registry))
}

fn constant(graph: &mut Graph, name: &str, tensor: Tensor) -> OutputRef {
    let mut builder = NodeBuilder::new("Const", name);
    builder.set_attr("dtype", AttrValue::Type(tensor.dtype()));
    builder.set_attr("value", AttrValue::tensor(tensor));
    OutputRef::new(builder.finish(graph).unwrap(), 0)
}

fn concat(graph: &mut Graph, name: &str, parts: &[OutputRef], axis: OutputRef) -> OutputRef {
    let mut builder = NodeBuilder::new("ConcatV2", name);
    builder.add_input_list(parts.to_vec());
    builder.add_input(axis);
    OutputRef::new(builder.finish(graph).unwrap(), 0)
}

#[test]
fn shapes_from_concatenated_vectors() {
    let mut graph = shape_graph();
    let x = placeholder(&mut graph, "x", DType::FLOAT);
    let axis = constant(&mut graph, "axis", Tensor::scalar(0i32));
    let three = Tensor::from_slice(Shape::vector(1), &[3i32]).unwrap();
    let three = constant(&mut graph, "three", three);
    let shape = OutputRef::new(op("Shape", "shape", &[x]).finish(&mut graph).unwrap(), 0);
    let known = concat(&mut graph, "known", &[three, three], axis);
    let mixed = concat(&mut graph, "mixed", &[shape, three], axis);
    let mut builder = NodeBuilder::new("Placeholder", "y");
    builder.set_attr("dtype", AttrValue::Type(DType::FLOAT));
    builder.set_attr("shape", AttrValue::shape(PartialShape::vector(Dim::UNKNOWN)));
    let y = OutputRef::new(builder.finish(&mut graph).unwrap(), 0);
    let mut many = OutputRef::new(op("Shape", "one", &[y]).finish(&mut graph).unwrap(), 0);
    for level in 0..50 {
        // 2^50 dimensions, if they were all followed.
        many = concat(&mut graph, &format!("many_{level}"), &[many, many], axis);
    }
    for (vector, expected) in [(known, "[3,3]"), (mixed, "?"), (many, "?")] {
        let name = format!("fill_{}", vector.node.0);
        let fill = op("Fill", &name, &[vector, axis]).finish(&mut graph).unwrap();
        let inferred = graph.shape(OutputRef::new(fill, 0)).unwrap();
        assert_eq!(inferred.to_string(), expected, "{name}");
    }
}

//! Damaged and malicious GraphDefs: an import ends soon, and one that fails leaves nothing behind.

use std::sync::Arc;
use std::time::{Duration, Instant};

use prost::Message;
use tfcore_base::DType;
use tfcore_framework::{AttrValue, Attrs, Operands, Registry};
use tfcore_proto as proto;
use tfcore_proto::attr_value::Value;

use crate::operands::NodeOperands;
use crate::{Function, FunctionLibrary, Graph, ImportOptions, NodeId, OutputRef};

/// Longer than any import here takes on a busy machine, shorter than what is quadratic in its size.
const SOON: Duration = Duration::from_secs(20);

fn node(name: impl Into<String>, op: &str, inputs: &[&str]) -> proto::NodeDef {
    let dtypes: &[&str] = match op {
        "Placeholder" | "VariableV2" | "Const" => &["dtype"],
        "StridedSlice" => &["T", "Index"],
        "NoOp" => &[],
        _ => &["T"],
    };
    let dtype = |name: &&str| (name.to_string(), attr(Value::Type(DType::INT32.to_i32())));
    proto::NodeDef {
        name: name.into(),
        op: op.into(),
        input: inputs.iter().map(|input| input.to_string()).collect(),
        attr: dtypes.iter().map(dtype).collect(),
        ..Default::default()
    }
}

fn attr(value: Value) -> proto::AttrValue {
    proto::AttrValue { value: Some(value) }
}

fn list_attr(list: proto::attr_value::ListValue) -> proto::AttrValue {
    attr(Value::List(list.into()))
}

fn graph_def(node: Vec<proto::NodeDef>) -> proto::GraphDef {
    let versions = proto::VersionDef { producer: 1087, ..Default::default() };
    proto::GraphDef { node, versions: Some(versions), ..Default::default() }
}

/// A graph that holds one node, `resident`, whose output is an int32.
fn graph() -> Graph {
    let mut graph = Graph::new(Arc::new(Registry::new()));
    let resident = graph_def(vec![node("resident", "Placeholder", &[])]);
    graph.import(resident, &ImportOptions::default()).expect("a placeholder can be imported");
    graph
}

/// Imports what must fail, in little time, and leave nothing.
fn fail_soon(def: proto::GraphDef, options: &ImportOptions, expected: &str) {
    let mut graph = graph();
    let (start, before) = (Instant::now(), Snapshot::of(&graph));
    let error = graph.import(def, options).expect_err(expected);
    assert!(error.message().contains(expected), "{}", error.message());
    assert_eq!(Snapshot::of(&graph), before);
    assert!(start.elapsed() < SOON, "{expected}: {:?}", start.elapsed());
}

/// All that an import may change.
#[derive(Debug, PartialEq)]
struct Snapshot {
    num_ids: usize,
    versions: crate::Versions,
    library: proto::FunctionDefLibrary,
    consumers: Vec<(NodeId, usize)>,
    control_outputs: Vec<Vec<NodeId>>,
    names: Vec<bool>,
}

impl Snapshot {
    fn of(graph: &Graph) -> Snapshot {
        let ids = (0..graph.num_ids()).map(|id| NodeId(id as u32));
        let resident = graph.find("resident").expect("it is never taken away");
        let names = ["a", "scope", "scope/b", "function", "merge", "next", "p", "p/scope"];
        Snapshot {
            num_ids: graph.num_ids(),
            versions: graph.versions().clone(),
            library: graph.library().to_proto(),
            consumers: graph.consumers(OutputRef::new(resident, 0)).collect(),
            control_outputs: ids.map(|id| graph.control_outputs(id).collect()).collect(),
            names: names.iter().map(|name| graph.is_name_or_scope(name)).collect(),
        }
    }
}

/// Something of all that a GraphDef can hold: a loop, a function, colocation, lists, a tensor.
fn rich_graph_def() -> proto::GraphDef {
    let dim = proto::tensor_shape_proto::Dim { size: 2, ..Default::default() };
    let shape = proto::TensorShapeProto { dim: vec![dim], unknown_rank: false };
    let tensor = proto::TensorProto {
        dtype: DType::INT32.to_i32(),
        tensor_shape: Some(shape.clone()),
        int_val: vec![1, 2],
        ..Default::default()
    };
    let mut constant = node("a", "Const", &[]);
    constant.attr.insert("value".into(), attr(Value::Tensor(tensor.into())));
    let mut sum = node("scope/b", "AddN", &["a", "a:0", "^resident_too"]);
    sum.attr.insert("N".into(), attr(Value::I(2)));
    let class = proto::attr_value::ListValue { s: vec!["loc:@a".into()], ..Default::default() };
    sum.attr.insert("_class".into(), list_attr(class));
    let shapes = proto::attr_value::ListValue { shape: vec![shape], ..Default::default() };
    sum.attr.insert("_output_shapes".into(), list_attr(shapes));
    sum.device = "/device:CPU:0".into();
    let full_type = proto::FullTypeDef { type_id: 1000, ..Default::default() };
    sum.experimental_type = Some(Box::new(full_type));
    let names = vec!["scope/old".to_string()];
    let debug_info =
        proto::node_def::ExperimentalDebugInfo { original_node_names: names, ..Default::default() };
    sum.experimental_debug_info = Some(Box::new(debug_info));
    let mut merge = node("merge", "Merge", &["a", "next"]);
    merge.attr.insert("N".into(), attr(Value::I(2)));
    let signature = proto::OpDef { name: "function".into(), ..Default::default() };
    let function = proto::FunctionDef {
        signature: Some(signature),
        node_def: vec![node("inside", "NoOp", &[])],
        ..Default::default()
    };
    let nodes = vec![
        constant,
        node("resident_too", "NoOp", &[]),
        sum,
        merge,
        node("next", "NextIteration", &["merge"]),
    ];
    let gradient =
        proto::GradientDef { function_name: "function".into(), gradient_func: "other".into() };
    let library = proto::FunctionDefLibrary {
        function: vec![function],
        gradient: vec![gradient],
        ..Default::default()
    };
    proto::GraphDef { library: Some(library), ..graph_def(nodes) }
}

/// A sequence of numbers that look random, the same at every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % limit
    }

    fn damage(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.below(3) {
            let at = self.below(bytes.len());
            let end = at + self.below((bytes.len() - at).min(8)) + 1;
            match self.below(6) {
                0 => bytes[at] ^= 1 << self.below(8),
                1 => bytes[at] = self.below(256) as u8,
                2 => bytes.insert(at, self.below(256) as u8),
                3 => bytes[at] = bytes[at].wrapping_add(1),
                4 if bytes.len() > 8 => drop(bytes.drain(at..end)),
                _ => {
                    let from = self.below(bytes.len());
                    bytes[at] = bytes[from];
                }
            }
        }
    }
}

#[test]
fn damaged_graphs_are_imported_whole_or_not_at_all() {
    let bytes = rich_graph_def().encode_to_vec();
    let (mut random, mut graph) = (Random(1), graph());
    let before = Snapshot::of(&graph);
    let (mut imported, mut rejected) = (0, 0);
    for round in 0..20_000 {
        let mut mutant = bytes.clone();
        random.damage(&mut mutant);
        let Ok(def) = proto::decode::<proto::GraphDef>(&mutant) else {
            continue;
        };
        let prefix = if round % 2 == 0 { "" } else { "p" };
        let options = ImportOptions {
            prefix: prefix.into(),
            uniquify_names: round % 3 == 0,
            control_dependencies: graph.find("resident").into_iter().collect(),
            ..ImportOptions::default()
        };
        match graph.import(def, &options) {
            Ok(_) => {
                imported += 1;
                graph = self::graph();
            }
            Err(error) => {
                rejected += 1;
                assert_eq!(Snapshot::of(&graph), before, "{}", error.message());
            }
        }
    }
    // Both ways have been taken often.
    assert!(imported > 1000 && rejected > 1000, "{imported} imported, {rejected} rejected");
}

/// A function with a list argument, placeholders, control edges and a nested call.
fn rich_function() -> proto::FunctionDef {
    let arg = |name: &str, type_attr: &str, number_attr: &str| proto::op_def::ArgDef {
        name: name.into(),
        type_attr: type_attr.into(),
        number_attr: number_attr.into(),
        ..Default::default()
    };
    let declared = |name: &str, type_name: &str| proto::op_def::AttrDef {
        name: name.into(),
        r#type: type_name.into(),
        ..Default::default()
    };
    let signature = proto::OpDef {
        name: "rich".into(),
        input_arg: vec![arg("xs", "T", "N")],
        output_arg: vec![arg("ys", "T", "N"), arg("z", "T", "")],
        attr: vec![declared("T", "type"), declared("N", "int")],
        ..Default::default()
    };
    let mut sum = node("sum", "AddN", &["xs", "^nothing"]);
    sum.attr.insert("N".into(), attr(Value::Placeholder("N".into())));
    sum.attr.insert("T".into(), attr(Value::Placeholder("T".into())));
    let mut same = node("same", "Identity", &["sum:sum:0", "^xs"]);
    same.attr.insert("T".into(), attr(Value::Placeholder("T".into())));
    let nested = node("nested", "plain", &[]);
    proto::FunctionDef {
        signature: Some(signature),
        node_def: vec![node("nothing", "NoOp", &[]), sum, same, nested],
        ret: [("ys".to_string(), "xs".to_string()), ("z".to_string(), "same:output:0".to_string())]
            .into(),
        control_ret: [("done".to_string(), "nested".to_string())].into(),
        ..Default::default()
    }
}

#[test]
fn damaged_functions_are_instantiated_or_refused() {
    let bytes = rich_function().encode_to_vec();
    let plain = proto::OpDef { name: "plain".into(), ..Default::default() };
    let plain = proto::FunctionDef { signature: Some(plain), ..Default::default() };
    let plain = Arc::new(Function::new(plain).unwrap());
    let attrs: Attrs =
        [("T", AttrValue::Type(DType::INT32)), ("N", AttrValue::Int(2))].into_iter().collect();
    let registry = Arc::new(Registry::new());
    let (mut random, mut whole, mut refused) = (Random(2), 0, 0);
    let start = Instant::now();
    for round in 0..20_000 {
        let mut mutant = bytes.clone();
        if round > 0 {
            random.damage(&mut mutant);
        }
        let Ok(Ok(function)) = proto::decode(&mutant).map(Function::new) else {
            continue;
        };
        let mut library = FunctionLibrary::default();
        library.add(&registry, plain.clone()).unwrap();
        let name = function.name().to_string();
        if library.add(&registry, Arc::new(function)).is_err() {
            continue;
        }
        match Arc::new(library).instantiate(&registry, &name, &attrs) {
            Ok(body) => {
                assert!(round > 0 || (body.args.len(), body.rets.len()) == (2, 3));
                whole += 1;
            }
            Err(error) => {
                assert!(round > 0, "{error}");
                refused += 1;
            }
        }
    }
    assert!(whole > 200 && refused > 1000, "{whole} instantiated, {refused} refused");
    assert!(start.elapsed() < 4 * SOON, "{:?}", start.elapsed());
}

#[test]
fn the_undamaged_graph_goes_in_and_out() {
    let mut graph = graph();
    let result = graph.import(rich_graph_def(), &ImportOptions::default());
    assert!(result.is_ok(), "{:?}", result.err());
    assert_eq!(graph.encode().as_bytes(), graph.to_proto().encode_to_vec());
}

#[test]
fn a_failed_import_of_many_readers_is_undone_soon() {
    let mut nodes = vec![node("x", "Placeholder", &[])];
    nodes.extend((0..300_000).map(|i| node(format!("n{i}"), "Neg", &["x"])));
    nodes.push(node("z", "NoSuchOp", &["x"]));
    fail_soon(graph_def(nodes), &ImportOptions::default(), "Op type not registered 'NoSuchOp'");
}

#[test]
fn many_control_inputs_and_functions_are_taken_soon() {
    let count = 100_000;
    let mut nodes: Vec<_> = (0..count).map(|i| node(format!("n{i}"), "NoOp", &[])).collect();
    let mut last = node("last", "NoOp", &[]);
    last.input = (0..count).map(|i| format!("^n{i}")).collect();
    nodes.push(last);
    nodes.push(node("z", "NoSuchOp", &["^last"]));
    let function = |i: usize| proto::FunctionDef {
        signature: Some(proto::OpDef { name: format!("f{i}"), ..Default::default() }),
        ..Default::default()
    };
    let library = proto::FunctionDefLibrary {
        function: (0..count).map(function).collect(),
        ..Default::default()
    };
    let def = proto::GraphDef { library: Some(library), ..graph_def(nodes) };
    fail_soon(def, &ImportOptions::default(), "Op type not registered 'NoSuchOp'");
}

/// Each level reads the one before twice, so that there are 2^30 ways from the last to the first.
#[test]
fn shapes_are_not_followed_along_every_path() {
    let mut nodes = vec![
        node("x", "Placeholder", &[]),
        node("s0", "Shape", &["x"]),
        node("axis", "Placeholder", &[]),
    ];
    for level in 0..30 {
        let from = format!("s{level}");
        let mut concat = node(format!("c{level}"), "ConcatV2", &[&from, &from, "axis"]);
        concat.attr.insert("N".into(), attr(Value::I(2)));
        nodes.push(concat);
        let inputs = [&*format!("c{level}"), "x", "x", "x"];
        nodes.push(node(format!("s{}", level + 1), "StridedSlice", &inputs));
    }
    let mut graph = graph();
    graph.import(graph_def(nodes), &ImportOptions::default()).expect("all ops are known");
    let vector = tfcore_tensor::PartialShape::from_iter([tfcore_tensor::Dim::new(2)]);
    for id in graph.nodes().iter().map(|node| node.id).collect::<Vec<_>>() {
        graph.merge_shape(OutputRef::new(id, 0), &vector).expect("nothing was known");
    }
    let start = Instant::now();
    let last = graph.node(graph.find("c29").expect("the last level"));
    let operands = NodeOperands { graph: &graph, node: last };
    operands.partial_shape(0).expect("no attr is missing");
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
}

#[test]
fn a_name_of_many_scopes_is_one_name() {
    let name = format!("a{}b", "/".repeat(1 << 20));
    let mut graph = graph();
    let start = Instant::now();
    for prefix in ["", "again"] {
        let options = ImportOptions { prefix: prefix.into(), ..ImportOptions::default() };
        graph.import(graph_def(vec![node(&*name, "NoOp", &[])]), &options).expect("a valid name");
        assert!(graph.is_name_or_scope("a") && graph.is_name_or_scope("a///"), "{prefix}");
        assert!(!graph.is_name_or_scope("b") && !graph.is_name_or_scope(""), "{prefix}");
    }
    assert!(graph.is_name_or_scope("again/a/") && !graph.is_name_or_scope("agai"));
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
}

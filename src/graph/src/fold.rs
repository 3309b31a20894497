//! Values of operands before the run: constants, and what can be computed from constants and static shapes.
//!
//! What is known of a part of a vector only is in `partial_value.rs`.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use smallvec::SmallVec;
use tfcore_base::{DType, Result};
use tfcore_framework::{DeviceType, KernelInit, OpContext, Role, Step, Value};
use tfcore_math::pool::Parallel;
use tfcore_tensor::{Shape, TString, Tensor};

use crate::Graph;
use crate::fold_memo::{FoldMemo, NodeValues, held_bytes};
use crate::node::{Node, NodeId, OutputRef};

/// How much is done to find the value of a constant expression.
#[derive(Clone, Copy)]
struct Limits {
    /// Values of a node that are larger than this are left to the run: a few bytes of a graph can stand for a tensor of any
    /// size.
    bytes: usize,
    /// Strings that are longer than this together are left to the run: they can double with every node.
    text: usize,
    /// Expressions whose values take more than this together are left to the run.
    held: usize,
}

/// For shape functions, which nobody has asked to compute anything.
const FOR_SHAPES: Limits = Limits { bytes: 1 << 20, text: 1 << 10, held: 1 << 26 };
/// For a client who asks for the value. He could run the expression as well.
const FOR_CLIENTS: Limits = Limits { bytes: usize::MAX, text: usize::MAX, held: usize::MAX };

impl Graph {
    /// The value of an output, if it depends on constants and static shapes only. Control inputs do not count.
    ///
    /// # Errors
    /// `OutOfRange` if the node has no such output.
    pub fn evaluate_constant(&self, output: OutputRef) -> Result<Option<Tensor>> {
        self.output_dtype(output)?;
        Ok(value_within(self, output, FOR_CLIENTS, &mut FoldMemo::unlimited()))
    }
}

pub(crate) fn constant_value(graph: &Graph, output: OutputRef) -> Option<Tensor> {
    value_within(graph, output, FOR_SHAPES, &mut graph.fold_memo())
}

/// The value of an output that depends on constants and static shapes only.
fn value_within(
    graph: &Graph,
    output: OutputRef,
    limits: Limits,
    memo: &mut FoldMemo,
) -> Option<Tensor> {
    let mut fold = Fold { graph, limits, memo, values: HashMap::new(), held: 0 };
    let values = match fold.at_first_sight(output.node) {
        Sight::Values(values) => values,
        Sight::Open => return None,
        Sight::Computed => fold.compute_all(output.node)?,
    };
    values.get(output.port()).cloned()
}

/// An expression whose value is being found.
struct Fold<'g> {
    graph: &'g Graph,
    limits: Limits,
    memo: &'g mut FoldMemo,
    /// The values of the nodes gone through; the memo may drop them before they are used.
    values: HashMap<NodeId, NodeValues>,
    /// What these take.
    held: usize,
}

/// What a node's values are, before its inputs have been looked at.
enum Sight {
    Values(NodeValues),
    /// Not known before the run.
    Open,
    /// Whatever the inputs make of them.
    Computed,
}

impl Fold<'_> {
    fn at_first_sight(&mut self, id: NodeId) -> Sight {
        let node = self.graph.node(id);
        if let Some(tensor) = static_value(self.graph, node) {
            return Sight::Values(SmallVec::from_elem(tensor, 1));
        }
        if node.is_const() {
            let value = if self.allows_outputs(node) { const_value(node) } else { None };
            return match value.filter(|tensor| self.allows(tensor)) {
                Some(tensor) => Sight::Values(SmallVec::from_elem(tensor, 1)),
                None => Sight::Open,
            };
        }
        if let Some(values) = self.memo.values(id) {
            return Sight::Values(values);
        }
        match self.memo.is_open(id) || !is_foldable(self.graph, node) || !self.allows_outputs(node)
        {
            true => Sight::Open,
            false => Sight::Computed,
        }
    }

    /// Computes the values of a node and of all that it depends on. Whatever is found on the way is kept, so that no node
    /// is gone through again for another expression that it is a part of.
    fn compute_all(&mut self, target: NodeId) -> Option<NodeValues> {
        let mut entered: HashSet<NodeId> = HashSet::new();
        // Nodes with whether they have been entered: those that have lead from the target to the node at hand.
        let mut stack = vec![(target, false)];
        while let Some((id, is_entered)) = stack.pop() {
            if self.values.contains_key(&id) {
                continue;
            }
            let values = match is_entered {
                true => self.compute(id),
                false => match self.at_first_sight(id) {
                    Sight::Values(values) => Some(values),
                    Sight::Open => None,
                    Sight::Computed if entered.insert(id) => {
                        stack.push((id, true));
                        let inputs = &self.graph.node(id).inputs;
                        stack.extend(inputs.iter().map(|edge| (edge.source.node, false)));
                        continue;
                    }
                    // It depends on itself.
                    Sight::Computed => None,
                },
            };
            let held = values.as_ref().map_or(0, |values| held_bytes(values));
            self.held = self.held.saturating_add(held);
            match values.filter(|_| self.held <= self.limits.held) {
                Some(values) => drop(self.values.insert(id, values)),
                None => {
                    // Nor has any node a value that depends on this one.
                    stack.push((id, is_entered));
                    let path = stack.iter().filter(|(_, is_entered)| *is_entered);
                    path.for_each(|&(id, _)| self.memo.set_open(id));
                    return None;
                }
            }
        }
        self.values.remove(&target)
    }

    /// Runs a node whose inputs are there.
    fn compute(&mut self, id: NodeId) -> Option<NodeValues> {
        let node = self.graph.node(id);
        let mut bytes = self.bytes_of_outputs(node);
        let mut inputs: SmallVec<[Value; 4]> = SmallVec::with_capacity(node.inputs.len());
        for (edge, dtype) in node.inputs.iter().zip(&node.input_dtypes) {
            let tensor = self.values.get(&edge.source.node)?.get(edge.source.port())?;
            // Where the graph was changed, the types along an edge may differ; a kernel must not see that.
            if tensor.dtype() != *dtype {
                return None;
            }
            bytes = bytes.saturating_add(tensor.byte_size());
            inputs.push(Value::Tensor(tensor.clone()));
        }
        if inputs.len() != node.input_dtypes.len() || !self.memo.spend(bytes) {
            return None;
        }
        let values = evaluate(self.graph, node, inputs)?;
        if !values.iter().all(|tensor| self.allows(tensor)) {
            return None;
        }
        self.memo.keep(id, values.clone());
        Some(values)
    }

    /// Whether the static shapes of a node's outputs allow its values to be small.
    fn allows_outputs(&self, node: &Node) -> bool {
        self.bytes_of_outputs(node) <= self.limits.bytes
    }

    /// What the outputs take as far as static shapes tell.
    fn bytes_of_outputs(&self, node: &Node) -> usize {
        let bytes = |(index, dtype): (usize, &DType)| {
            let shape = self.graph.shape(OutputRef::new(node.id, index)).ok()?.to_shape()?;
            Some(shape.count().saturating_mul(dtype.size()))
        };
        let outputs = node.output_dtypes.iter().enumerate();
        outputs.filter_map(bytes).fold(0, usize::saturating_add)
    }

    fn allows(&self, tensor: &Tensor) -> bool {
        let text = match tensor.as_slice::<TString>() {
            Ok(strings) => strings.iter().map(TString::len).fold(0, usize::saturating_add),
            Err(_) => 0,
        };
        tensor.byte_size() <= self.limits.bytes && text <= self.limits.text
    }
}

fn const_value(node: &Node) -> Option<Tensor> {
    let tensor = node.attrs.tensor("value").ok()?.tensor().ok()?;
    // A graph may lie about the dtype of its constants; a kernel must not see that.
    (tensor.dtype() == *node.output_dtypes.first()?).then_some(tensor)
}

/// Whether a node gives the same result whenever it runs on the same inputs.
fn is_foldable(graph: &Graph, node: &Node) -> bool {
    let has_refs =
        || node.input_dtypes.iter().chain(&node.output_dtypes).any(|dtype| dtype.is_ref());
    // Its default is no constant: it may be fed.
    let feedable = node.role() == Role::PlaceholderWithDefault;
    !node.op.is_stateful
        && !node.inputs.is_empty()
        && !feedable
        && !has_refs()
        && node.output_dtypes.iter().all(|dtype| dtype.is_plain() || *dtype == DType::STRING)
        && graph.registry().computes(DeviceType::Cpu, &node.op.name, &node.attrs)
}

/// The value of `Shape`, `Rank` and `Size` of an input whose static shape tells it, of one element of such a
/// `Shape`, of which the other elements need not be known, and of an argument that the caller knows.
fn static_value(graph: &Graph, node: &Node) -> Option<Tensor> {
    let shape = || graph.shape(node.inputs.first()?.source).ok();
    let (shape, values) = match node.role() {
        Role::Arg => return arg_value(graph, node),
        Role::StridedSlice => return element_of_shape(graph, node),
        Role::Rank => {
            return integer_tensor(DType::INT32, Shape::scalar(), &[shape()?.rank()? as i64]);
        }
        Role::Size => (Shape::scalar(), vec![shape()?.count()?]),
        Role::Shape => {
            let shape = shape()?.to_shape()?;
            (Shape::vector(shape.rank()), shape.dims().to_vec())
        }
        _ => return None,
    };
    integer_tensor(*node.output_dtypes.first()?, shape, &values)
}

/// The value of an argument of a function, if the caller knows it.
fn arg_value(graph: &Graph, node: &Node) -> Option<Tensor> {
    let index = usize::try_from(node.attrs.int("index").ok()?).ok()?;
    let value = graph.arg_value(index)?;
    // A call may pass another dtype than the function takes; a kernel must not see that.
    (value.dtype() == *node.output_dtypes.first()?).then(|| value.clone())
}

/// The value of `shape(x)[i]`, the way that front ends write it: a slice of length one whose axis is dropped.
fn element_of_shape(graph: &Graph, node: &Node) -> Option<Tensor> {
    let mask = |name: &str| node.attrs.int(name).ok();
    for name in ["begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask"] {
        if mask(name)? != 0 {
            return None;
        }
    }
    let shape_node = graph.node(node.inputs.first()?.source.node);
    if mask("shrink_axis_mask")? != 1 || shape_node.role() != Role::Shape {
        return None;
    }
    let begin = node.inputs.get(1)?.source;
    let count = graph.shape(begin).ok()?.count();
    let begin = graph.node(begin.node);
    if !begin.is_const() || count.is_some_and(|count| count != 1) {
        return None;
    }
    let begin = begin.attrs.tensor("value").ok()?.tensor().ok()?.to_i64s().ok()?;
    let [begin] = begin[..] else {
        return None;
    };
    let dims = graph.shape(shape_node.inputs.first()?.source).ok()?.dims()?;
    let index = if begin < 0 { begin.checked_add(dims.len() as i64)? } else { begin };
    let dim = dims.get(usize::try_from(index).ok()?)?.value()?;
    integer_tensor(*node.output_dtypes.first()?, Shape::scalar(), &[dim])
}

fn integer_tensor(dtype: DType, shape: Shape, values: &[i64]) -> Option<Tensor> {
    if dtype == DType::INT64 {
        return Tensor::from_slice(shape, values).ok();
    }
    let narrow: Option<Vec<i32>> = values.iter().map(|&value| i32::try_from(value).ok()).collect();
    Tensor::from_slice(shape, &narrow?).ok()
}

/// Runs one node.
fn evaluate(graph: &Graph, node: &Node, mut inputs: SmallVec<[Value; 4]>) -> Option<NodeValues> {
    let init = KernelInit {
        name: &node.name,
        op: &node.op,
        attrs: &node.attrs,
        input_dtypes: &node.input_dtypes,
        output_dtypes: &node.output_dtypes,
    };
    let kernel = graph.registry().build_kernel(DeviceType::Cpu, &init).ok()?;
    let mut outputs: SmallVec<[Value; 1]> = SmallVec::from_elem(Value::Absent, node.num_outputs());
    let step = Arc::new(Step::default());
    let mut ctx =
        OpContext::new(&mut inputs, &mut outputs, &node.output_dtypes, &step, Parallel::SERIAL);
    kernel.compute(&mut ctx).ok()?;
    outputs
        .into_iter()
        .map(|value| match value {
            Value::Tensor(tensor) => Some(tensor),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tfcore_framework::{AttrValue, Registry, kernel, shape_fns};
    use tfcore_proto as proto;

    use tfcore_tensor::PartialShape;

    use super::*;
    use crate::{ImportOptions, NodeBuilder};

    /// A graph whose sums are counted.
    struct Counted {
        graph: Graph,
        sums: Arc<AtomicUsize>,
        zero: OutputRef,
        one: OutputRef,
    }

    fn add(ctx: &mut OpContext<'_>) -> Result<()> {
        let (a, b) = (ctx.input(0)?.to_i64s()?, ctx.input(1)?.to_i64s()?);
        let sums: Vec<i64> =
            a.iter().zip(b.iter().cycle()).map(|(a, b)| a.wrapping_add(*b)).collect();
        let shape = ctx.input(0)?.shape().clone();
        ctx.set_output(0, Tensor::from_slice(shape, &sums)?);
        Ok(())
    }

    impl Counted {
        fn new() -> Counted {
            let sums = Arc::new(AtomicUsize::new(0));
            let mut registry = Registry::new();
            registry.op("Placeholder").shape(shape_fns::explicit);
            registry.op("_Arg").shape(shape_fns::unknown);
            registry.op("Const").shape(|ctx| {
                let shape = ctx.attrs.tensor("value")?.tensor()?.shape().into();
                ctx.set_output(0, shape);
                Ok(())
            });
            registry.op("Fill").shape(|ctx| {
                let shape = ctx.operand_shape_or_unknown(0)?;
                ctx.set_output(0, shape);
                Ok(())
            });
            let counter = sums.clone();
            registry.op("AddV2").shape(shape_fns::unchanged).cpu(move |_| {
                counter.fetch_add(1, Ordering::Relaxed);
                kernel(add)
            });
            let mut graph = Graph::new(Arc::new(registry));
            let [zero, one] = [0, 1].map(|value| vector(&mut graph, &[value]));
            Counted { graph, sums, zero, one }
        }

        fn add(&mut self, a: OutputRef, b: OutputRef) -> OutputRef {
            node(&mut self.graph, "AddV2", &[a, b], &[])
        }

        /// The static shape of a tensor whose shape is `dims` at the run.
        fn filled(&mut self, dims: OutputRef) -> String {
            let fill = node(&mut self.graph, "Fill", &[dims, self.zero], &[]);
            self.graph.shape(fill).expect("it was made here").to_string()
        }

        fn sums(&self) -> usize {
            self.sums.load(Ordering::Relaxed)
        }
    }

    fn node(
        graph: &mut Graph,
        op: &str,
        inputs: &[OutputRef],
        attrs: &[(&str, AttrValue)],
    ) -> OutputRef {
        let mut builder = NodeBuilder::new(op, format!("n{}", graph.num_ids()));
        inputs.iter().for_each(|&input| builder.add_input(input));
        attrs.iter().for_each(|(name, value)| builder.set_attr(*name, value.clone()));
        OutputRef::new(builder.finish(graph).expect(op), 0)
    }

    fn vector(graph: &mut Graph, values: &[i64]) -> OutputRef {
        let tensor = Tensor::from_slice(Shape::vector(values.len()), values).expect("a vector");
        let attrs =
            [("dtype", AttrValue::Type(DType::INT64)), ("value", AttrValue::tensor(tensor))];
        node(graph, "Const", &[], &attrs)
    }

    fn placeholder(graph: &mut Graph) -> OutputRef {
        node(graph, "Placeholder", &[], &[("dtype", AttrValue::Type(DType::INT64))])
    }

    #[test]
    fn every_node_is_folded_once() {
        let mut counted = Counted::new();
        let mut last = counted.zero;
        for index in 1..=2000 {
            last = counted.add(last, counted.one);
            assert_eq!(counted.filled(last), format!("[{index}]"));
        }
        assert_eq!(counted.sums(), 2000);
    }

    #[test]
    fn expressions_may_be_long_and_double() {
        let mut counted = Counted::new();
        let mut last = counted.one;
        for _ in 0..40 {
            last = counted.add(last, last);
        }
        assert_eq!(counted.filled(last), format!("[{}]", 1i64 << 40));
        assert_eq!(counted.sums(), 40);
        let mut last = counted.zero;
        for _ in 0..10_000 {
            last = counted.add(last, counted.one);
        }
        assert_eq!(counted.filled(last), "[10000]");
        assert_eq!(counted.sums(), 10_040);
    }

    #[test]
    fn what_depends_on_the_run_is_gone_through_once() {
        let mut counted = Counted::new();
        let mut constant = counted.one;
        for _ in 0..100 {
            constant = counted.add(constant, counted.one);
        }
        let mut open = placeholder(&mut counted.graph);
        for _ in 0..1000 {
            open = counted.add(open, constant);
            assert_eq!(counted.filled(open), "?");
            assert!(counted.graph.fold_memo().is_open(open.node));
        }
        // The constants beside it are folded for the first of them at most.
        assert!(counted.sums() <= 100, "{}", counted.sums());
    }

    #[test]
    fn large_values_are_left_to_the_run_when_many_were_folded() {
        let mut counted = Counted::new();
        let mut last = vector(&mut counted.graph, &vec![1; 1 << 17]);
        for _ in 0..500 {
            last = counted.add(last, counted.one);
            constant_value(&counted.graph, last);
        }
        let large = counted.sums();
        assert!((4..100).contains(&large), "{large}");
        // What is small is folded all the same.
        let small = counted.add(counted.one, counted.one);
        assert_eq!(counted.filled(small), "[2]");
        // And one value that is larger than any shape function needs never is.
        let mut counted = Counted::new();
        let huge = vector(&mut counted.graph, &vec![1; (1 << 17) + 1]);
        let sum = counted.add(huge, counted.one);
        assert!(constant_value(&counted.graph, sum).is_none());
        assert_eq!(counted.sums(), 0);
        // A client may ask for it.
        let value = counted.graph.evaluate_constant(sum).expect("an output");
        assert_eq!(value.expect("a constant").count(), (1 << 17) + 1);
    }

    #[test]
    fn long_strings_are_left_to_the_run() {
        let mut graph = Graph::new(Arc::new(Registry::new()));
        for (len, expected) in [(1 << 10, true), ((1 << 10) + 1, false)] {
            let text = TString::from(&vec![b'a'; len][..]);
            let tensor = Tensor::from_slice(Shape::scalar(), &[text]).expect("a scalar");
            let attrs =
                [("dtype", AttrValue::Type(DType::STRING)), ("value", AttrValue::tensor(tensor))];
            let text = node(&mut graph, "Const", &[], &attrs);
            assert_eq!(constant_value(&graph, text).is_some(), expected, "{len}");
        }
    }

    #[test]
    fn a_changed_graph_has_other_values() {
        let mut counted = Counted::new();
        let x = placeholder(&mut counted.graph);
        let shape =
            node(&mut counted.graph, "Shape", &[x], &[("out_type", AttrValue::Type(DType::INT64))]);
        let from_shape = counted.add(shape, counted.one);
        assert_eq!(counted.filled(from_shape), "?");
        counted
            .graph
            .merge_shape(x, &PartialShape::from_i64s(&[4]).expect("a shape"))
            .expect("new");
        assert_eq!(counted.filled(from_shape), "[5]");

        let three = vector(&mut counted.graph, &[3]);
        let sum = counted.add(three, counted.one);
        assert_eq!(counted.filled(sum), "[4]");
        let seven = Tensor::from_slice(Shape::vector(1), &[7i64]).expect("a vector");
        counted.graph.set_attr(three.node, "value", AttrValue::tensor(seven));
        assert_eq!(counted.filled(sum), "[8]");
        counted.graph.update_edge(from_shape, sum.node, 1).expect("a vector too");
        assert_eq!(counted.filled(sum), "[12]");
        // Now it depends on itself.
        counted.graph.update_edge(sum, sum.node, 1).expect("of the same shape");
        assert_eq!(counted.filled(sum), "[?]");
    }

    #[test]
    fn a_call_has_the_values_of_its_arguments() {
        let mut counted = Counted::new();
        let attrs = [("T", AttrValue::Type(DType::INT64)), ("index", AttrValue::Int(0))];
        let arg = node(&mut counted.graph, "_Arg", &[], &attrs);
        let sum = counted.add(arg, counted.one);
        for value in [2i64, 3] {
            let tensor = Tensor::from_slice(Shape::vector(1), &[value]).expect("a vector");
            counted.graph.set_arg_values(vec![Some(tensor)]);
            assert_eq!(counted.filled(sum), format!("[{}]", value + 1));
        }
        counted.graph.set_arg_values(Vec::new());
        assert_eq!(counted.filled(sum), "?");
    }

    /// The numbers of nodes that an import has taken back are used again.
    #[test]
    fn a_failed_import_leaves_no_values() {
        let mut counted = Counted::new();
        let dtype = |name: &str| (name.to_string(), AttrValue::Type(DType::INT64).to_proto());
        let def = |name: &str, op: &str, input: &[&str]| proto::NodeDef {
            name: name.into(),
            op: op.into(),
            input: input.iter().map(|input| input.to_string()).collect(),
            attr: [dtype("T"), dtype("index_type")].into(),
            ..Default::default()
        };
        let value = Tensor::from_slice(Shape::vector(2), &[5i64, 5]).expect("a vector");
        let mut five = def("five", "Const", &[]);
        five.attr =
            [dtype("dtype"), ("value".to_string(), AttrValue::tensor(value).to_proto())].into();
        let nodes = vec![
            five,
            def("sum", "AddV2", &["five", "five"]),
            def("good", "Fill", &["sum", "five"]),
            def("bad", "Fill", &["good", "five"]),
        ];
        let graph = proto::GraphDef { node: nodes, ..Default::default() };
        let before = counted.graph.num_ids();
        // A matrix is no shape.
        let outcome = counted.graph.import(graph, &ImportOptions::default());
        let error = outcome.expect_err("the last node");
        assert!(error.message().contains("Shape must be at most rank 1"), "{}", error.message());
        assert_eq!(counted.sums(), 1);
        assert_eq!(counted.graph.num_ids(), before);
        let three = vector(&mut counted.graph, &[3]);
        let sum = counted.add(three, counted.one);
        assert_eq!(sum.node.index(), before + 1);
        assert_eq!(counted.filled(sum), "[4]");
    }
}

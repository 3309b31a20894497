//! Values of operands before the run: constants, what can be computed from constants, and the parts
//! of shape-like vectors that static shapes tell.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use smallvec::SmallVec;
use tfcore_base::{DType, Result};
use tfcore_framework::{
    DeviceType, KernelInit, OpContext, Operands, Step, Value, shape_from_tensor,
};
use tfcore_math::pool::Parallel;
use tfcore_tensor::{Dim, PartialShape, Shape, Tensor};

use crate::Graph;
use crate::node::{Node, NodeId, OutputRef};

/// How much is done to find the value of a constant expression.
#[derive(Clone, Copy)]
struct Limits {
    /// Values larger than this are left to the run: a few bytes of a graph can stand for a tensor of any size.
    bytes: usize,
    /// An expression of more nodes than this is left to the run.
    nodes: usize,
}

/// For shape functions, which nobody has asked to compute anything.
const FOR_SHAPES: Limits = Limits { bytes: 1 << 20, nodes: 1 << 12 };
/// For a client who asks for the value. He could run the expression as well.
const FOR_CLIENTS: Limits = Limits { bytes: usize::MAX, nodes: usize::MAX };

/// How deep shape-like vectors are followed.
const MAX_DEPTH: usize = 64;
/// How many nodes are looked at to find what is known of one shape-like vector. One that is concatenated with itself
/// again and again has more parts than could ever be followed.
const MAX_VISITS: usize = 1 << 10;

/// The operands of one node, for its shape function.
pub(crate) struct NodeOperands<'g> {
    pub(crate) graph: &'g Graph,
    pub(crate) node: &'g Node,
}

impl Operands for NodeOperands<'_> {
    fn tensor(&self, index: usize) -> Option<Tensor> {
        constant_value(self.graph, self.node.inputs.get(index)?.source)
    }

    fn partial_shape(&self, index: usize) -> Result<Option<PartialShape>> {
        match self.node.inputs.get(index) {
            Some(edge) => {
                Search { graph: self.graph, visits: 0, depth: 0 }.partial_value(edge.source)
            }
            None => Ok(None),
        }
    }
}

impl Graph {
    /// The value of an output, if it depends on constants and static shapes only. Control inputs do not count.
    ///
    /// # Errors
    /// `OutOfRange` if the node has no such output.
    pub fn evaluate_constant(&self, output: OutputRef) -> Result<Option<Tensor>> {
        self.output_dtype(output)?;
        Ok(value_within(self, output, FOR_CLIENTS))
    }
}

pub(crate) fn constant_value(graph: &Graph, output: OutputRef) -> Option<Tensor> {
    value_within(graph, output, FOR_SHAPES)
}

/// The value of an output that depends on constants and static shapes only.
fn value_within(graph: &Graph, output: OutputRef, limits: Limits) -> Option<Tensor> {
    let order = expression(graph, output, limits)?;
    let mut values: HashMap<OutputRef, Tensor> = HashMap::new();
    for id in order {
        let node = graph.node(id);
        if !is_small(graph, node, limits) {
            return None;
        }
        for (index, tensor) in evaluate(graph, node, &values)?.into_iter().enumerate() {
            if tensor.byte_size() > limits.bytes {
                return None;
            }
            values.insert(OutputRef::new(id, index), tensor);
        }
    }
    values.remove(&output)
}

/// Whether the static shapes of a node's outputs allow its values to be small.
fn is_small(graph: &Graph, node: &Node, limits: Limits) -> bool {
    node.output_dtypes.iter().enumerate().all(|(index, dtype)| {
        let shape = graph.shape(OutputRef::new(node.id, index));
        let count = shape.ok().and_then(|shape| shape.to_shape()).map_or(0, |shape| shape.count());
        count.saturating_mul(dtype.size()) <= limits.bytes
    })
}

fn is_const(node: &Node) -> bool {
    &*node.op.name == "Const"
}

/// The nodes of the constant expression behind an output, each after its inputs; `None` if it is not
/// constant.
fn expression(graph: &Graph, output: OutputRef, limits: Limits) -> Option<Vec<NodeId>> {
    let mut order = Vec::new();
    let mut entered: HashSet<NodeId> = HashSet::new();
    let mut stack = vec![(output.node, false)];
    while let Some((id, inputs_done)) = stack.pop() {
        if inputs_done {
            order.push(id);
            continue;
        }
        if !entered.insert(id) {
            continue;
        }
        let node = graph.node(id);
        if entered.len() > limits.nodes || !is_foldable(graph, node) {
            return None;
        }
        stack.push((id, true));
        if static_value(graph, node).is_none() {
            stack.extend(node.inputs.iter().map(|edge| (edge.source.node, false)));
        }
    }
    Some(order)
}

/// Whether a node gives the same result whenever it runs.
fn is_foldable(graph: &Graph, node: &Node) -> bool {
    if static_value(graph, node).is_some() || is_const(node) {
        return true;
    }
    let has_refs = node.input_dtypes.iter().chain(&node.output_dtypes).any(|dtype| dtype.is_ref());
    let control = node.is_merge()
        || node.is_next_iteration()
        || matches!(&*node.op.name, "Switch" | "Enter" | "Exit" | "LoopCond");
    // Its default is no constant: it may be fed.
    let feedable = &*node.op.name == "PlaceholderWithDefault";
    !node.op.is_stateful
        && !node.inputs.is_empty()
        && !has_refs
        && !control
        && !feedable
        && node.output_dtypes.iter().all(|dtype| dtype.is_plain() || *dtype == DType::STRING)
        && graph.registry().has_kernel(DeviceType::Cpu, &node.op.name, &node.attrs)
}

/// The value of `Shape`, `Rank` and `Size` of an input whose static shape tells it, of one element of such a
/// `Shape`, of which the other elements need not be known, and of an argument that the caller knows.
fn static_value(graph: &Graph, node: &Node) -> Option<Tensor> {
    if &*node.op.name == "_Arg" {
        let index = usize::try_from(node.attrs.int("index").ok()?).ok()?;
        let value = graph.arg_value(index)?;
        // A call may pass what the function does not take; a kernel must not see that.
        return (value.dtype() == *node.output_dtypes.first()?).then(|| value.clone());
    }
    if &*node.op.name == "StridedSlice" {
        return element_of_shape(graph, node);
    }
    let shape = match &*node.op.name {
        "Shape" | "Rank" | "Size" => graph.shape(node.inputs.first()?.source).ok()?,
        _ => return None,
    };
    let values = match &*node.op.name {
        "Rank" => return integer_tensor(DType::INT32, Shape::scalar(), &[shape.rank()? as i64]),
        "Size" => (Shape::scalar(), vec![shape.count()?]),
        _ => {
            let shape = shape.to_shape()?;
            (Shape::vector(shape.rank()), shape.dims().to_vec())
        }
    };
    integer_tensor(*node.output_dtypes.first()?, values.0, &values.1)
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
    if mask("shrink_axis_mask")? != 1 || &*shape_node.op.name != "Shape" {
        return None;
    }
    let begin = graph.node(node.inputs.get(1)?.source.node);
    if !is_const(begin) {
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

/// Runs one node on values that are there.
fn evaluate(
    graph: &Graph,
    node: &Node,
    values: &HashMap<OutputRef, Tensor>,
) -> Option<SmallVec<[Tensor; 1]>> {
    if let Some(tensor) = static_value(graph, node) {
        return Some(SmallVec::from_elem(tensor, 1));
    }
    if is_const(node) {
        let tensor = node.attrs.tensor("value").ok()?.tensor().ok()?;
        // A graph may lie about the dtype of its constants; a kernel must not see that.
        return (tensor.dtype() == *node.output_dtypes.first()?)
            .then(|| SmallVec::from_elem(tensor, 1));
    }
    let init = KernelInit {
        name: &node.name,
        op: &node.op,
        attrs: &node.attrs,
        input_dtypes: &node.input_dtypes,
        output_dtypes: &node.output_dtypes,
    };
    let kernel = graph.registry().build_kernel(DeviceType::Cpu, &init).ok()?;
    let mut inputs: SmallVec<[Value; 4]> = SmallVec::new();
    for (edge, dtype) in node.inputs.iter().zip(&node.input_dtypes) {
        let tensor = values.get(&edge.source)?;
        // Where the graph was changed, the types along an edge may differ; a kernel must not see that.
        if tensor.dtype() != *dtype {
            return None;
        }
        inputs.push(Value::Tensor(tensor.clone()));
    }
    if inputs.len() != node.input_dtypes.len() {
        return None;
    }
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

/// A search for what is known of a shape-like vector.
struct Search<'g> {
    graph: &'g Graph,
    /// How many nodes have been looked at.
    visits: usize,
    depth: usize,
}

impl Search<'_> {
    /// What is known of an integer vector that stands for a shape; -1 in it is an unknown dimension.
    ///
    /// # Errors
    /// `InvalidArgument` if it holds what is no dimension.
    fn partial_value(&mut self, output: OutputRef) -> Result<Option<PartialShape>> {
        if self.depth == MAX_DEPTH || self.visits == MAX_VISITS {
            return Ok(None);
        }
        self.visits += 1;
        self.depth += 1;
        let value = self.visit(output);
        self.depth -= 1;
        value
    }

    fn visit(&mut self, output: OutputRef) -> Result<Option<PartialShape>> {
        let graph = self.graph;
        if let Some(tensor) = constant_value(graph, output) {
            return match tensor.dtype() {
                DType::INT32 | DType::INT64 => shape_from_tensor(&tensor).map(Some),
                _ => Ok(None),
            };
        }
        let node = graph.node(output.node);
        let input = |index: usize| node.inputs[index].source;
        match &*node.op.name {
            "Shape" => Ok(Some(graph.shape(input(0))?.clone())),
            "ShapeN" => match node.inputs.get(output.port()) {
                Some(edge) => Ok(Some(graph.shape(edge.source)?.clone())),
                None => Ok(None),
            },
            "Identity" | "StopGradient" => self.partial_value(input(0)),
            "Cast" => match self.partial_value(input(0))? {
                Some(shape) if node.attrs.dtype("DstT").is_ok_and(|dtype| dtype.is_integer()) => {
                    Ok(Some(shape))
                }
                _ => Ok(None),
            },
            "Pack" => self.pack_value(node),
            "Concat" | "ConcatV2" => self.concat_value(node),
            "StridedSlice" => self.strided_slice_value(node),
            _ => Ok(None),
        }
    }

    /// A vector of scalars, each known or not.
    fn pack_value(&mut self, node: &Node) -> Result<Option<PartialShape>> {
        let graph = self.graph;
        let mut dims = Vec::with_capacity(node.inputs.len());
        for edge in &node.inputs {
            if graph.shape(edge.source)?.rank().is_some_and(|rank| rank != 0) {
                return Ok(None);
            }
            let value = self.scalar_value(edge.source)?;
            dims.push(value.unwrap_or_else(Dim::fresh));
        }
        Ok(Some(dims.into_iter().collect()))
    }

    /// A scalar that stands for a dimension: constant, or one element of a shape-like vector.
    fn scalar_value(&mut self, output: OutputRef) -> Result<Option<Dim>> {
        let graph = self.graph;
        if let Some(tensor) = constant_value(graph, output) {
            return Ok(tensor.to_i64s()?.first().map(|&value| Dim::new(value)));
        }
        let node = graph.node(output.node);
        if &*node.op.name != "StridedSlice" || node.attrs.int("shrink_axis_mask")? != 1 {
            return Ok(None);
        }
        let Some(vector) = self.partial_value(node.inputs[0].source)? else {
            return Ok(None);
        };
        let index =
            constant_value(graph, node.inputs[1].source).and_then(|begin| begin.to_i64s().ok());
        Ok(match (vector.dims(), index.as_deref()) {
            (Some(dims), Some([index])) => {
                let index = if *index < 0 { *index + dims.len() as i64 } else { *index };
                usize::try_from(index).ok().and_then(|index| dims.get(index)).copied()
            }
            _ => None,
        })
    }

    fn concat_value(&mut self, node: &Node) -> Result<Option<PartialShape>> {
        let graph = self.graph;
        let parts = match &*node.op.name {
            "Concat" => 1..node.inputs.len(),
            _ => 0..node.inputs.len() - 1,
        };
        let mut dims = Vec::new();
        for index in parts {
            let source = node.inputs[index].source;
            // A scalar -1 stands for an unknown shape, which a concatenation cannot hold.
            if graph.shape(source)?.rank() != Some(1) {
                return Ok(None);
            }
            match self.partial_value(source)? {
                Some(shape) => match shape.dims() {
                    Some(known) => dims.extend_from_slice(known),
                    None => return Ok(Some(PartialShape::unknown())),
                },
                None => match graph.shape(source)?.count() {
                    Some(count) if count <= tfcore_tensor::MAX_RANK as i64 => {
                        dims.extend((0..count).map(|_| Dim::fresh()));
                    }
                    _ => return Ok(None),
                },
            }
            if dims.len() > tfcore_tensor::MAX_RANK {
                return Ok(None);
            }
        }
        Ok(Some(dims.into_iter().collect()))
    }

    /// A part of a shape-like vector, in steps.
    fn strided_slice_value(&mut self, node: &Node) -> Result<Option<PartialShape>> {
        let graph = self.graph;
        let mask = |name: &str| node.attrs.int(name);
        if mask("ellipsis_mask")? != 0
            || mask("new_axis_mask")? != 0
            || mask("shrink_axis_mask")? != 0
        {
            return Ok(None);
        }
        let Some(vector) = self.partial_value(node.inputs[0].source)? else {
            return Ok(None);
        };
        let Some(dims) = vector.dims() else {
            return Ok(Some(PartialShape::unknown()));
        };
        let bound = |index: usize| {
            let values = constant_value(graph, node.inputs[index].source)?.to_i64s().ok()?;
            (values.len() == 1).then(|| values[0])
        };
        let (Some(begin), Some(end), Some(stride)) = (bound(1), bound(2), bound(3)) else {
            return Ok(None);
        };
        if stride == 0 {
            return Ok(None);
        }
        let len = dims.len() as i64;
        let (low, high) = if stride > 0 { (0, len) } else { (-1, len - 1) };
        let clamp = |bound: i64| (if bound < 0 { bound + len } else { bound }).clamp(low, high);
        let (first, last) = if stride > 0 { (0, len) } else { (len - 1, -1) };
        let begin = if mask("begin_mask")? & 1 != 0 { first } else { clamp(begin) };
        let end = if mask("end_mask")? & 1 != 0 { last } else { clamp(end) };
        let mut taken = Vec::new();
        let mut at = begin;
        while (stride > 0 && at < end) || (stride < 0 && at > end) {
            taken.push(dims[at as usize]);
            at = at.saturating_add(stride);
        }
        Ok(Some(taken.into_iter().collect()))
    }
}

//! Numeric differentiation: what a gradient must agree with.

use tfcore::registry;
use tfcore_base::{Code, DType, Elem, Error, Result, internal};
use tfcore_framework::{AttrValue, DeviceType};
use tfcore_graph::{Graph, NodeBuilder, OutputRef};
use tfcore_runtime::{Request, Session, SessionConfig};
use tfcore_tensor::{PartialShape, Shape, Tensor};

/// How exact difference quotients are.
#[derive(Clone, Copy)]
struct Precision {
    /// How far an input is moved to each side.
    step: f64,
    /// How far the gradient may be from the difference quotient, as a part of the larger of it and 1.
    tolerance: f64,
}

const DOUBLE: Precision = Precision { step: 1e-5, tolerance: 1e-6 };
/// For ops that take or give single precision.
const SINGLE: Precision = Precision { step: 1e-2, tolerance: 2e-3 };

/// An op applied to values. All inputs of type float64 and float32 are differentiated by, but for the fixed ones.
pub(crate) struct Case {
    pub(crate) op: &'static str,
    arguments: Vec<Argument>,
    attrs: Vec<(&'static str, AttrValue)>,
    /// How many outputs are looked at, if not all.
    outputs: Option<usize>,
    /// Which of them, if not all.
    only: Option<&'static [usize]>,
    /// The graph knows the shapes of the arguments.
    known_shapes: bool,
}

enum Argument {
    One(Tensor),
    /// Not differentiated by.
    Fixed(Tensor),
    List(Vec<Tensor>),
}

/// An op without arguments, to which they are added.
pub(crate) fn case(op: &'static str) -> Case {
    Case {
        op,
        arguments: Vec::new(),
        attrs: Vec::new(),
        outputs: None,
        only: None,
        known_shapes: false,
    }
}

impl Case {
    /// A float64 argument.
    pub(crate) fn x(self, dims: &[i64], values: &[f64]) -> Case {
        self.tensor(tensor(dims, values))
    }

    /// A float32 argument.
    pub(crate) fn single(self, dims: &[i64], values: &[f32]) -> Case {
        self.tensor(Tensor::from_slice(Shape::new(dims).unwrap(), values).unwrap())
    }

    /// An argument that is not differentiated by.
    pub(crate) fn fixed<T: Elem>(mut self, dims: &[i64], values: &[T]) -> Case {
        let value = Tensor::from_slice(Shape::new(dims).unwrap(), values).unwrap();
        self.arguments.push(Argument::Fixed(value));
        self
    }

    /// An argument of any type.
    pub(crate) fn tensor(mut self, value: Tensor) -> Case {
        self.arguments.push(Argument::One(value));
        self
    }

    /// An int32 vector.
    pub(crate) fn ints(self, values: &[i32]) -> Case {
        self.tensor(Tensor::from_slice(Shape::vector(values.len()), values).unwrap())
    }

    /// An int32 scalar.
    pub(crate) fn int(self, value: i32) -> Case {
        self.tensor(Tensor::scalar(value))
    }

    /// An argument that is a list of int32 vectors.
    pub(crate) fn int_list(mut self, parts: &[&[i32]]) -> Case {
        let vector = |part: &&[i32]| Tensor::from_slice(Shape::vector(part.len()), part).unwrap();
        self.arguments.push(Argument::List(parts.iter().map(vector).collect()));
        self
    }

    /// An argument that is a list of float64 tensors.
    pub(crate) fn list(mut self, parts: &[(&[i64], &[f64])]) -> Case {
        let parts = parts.iter().map(|(dims, values)| tensor(dims, values)).collect();
        self.arguments.push(Argument::List(parts));
        self
    }

    pub(crate) fn attr(mut self, name: &'static str, value: AttrValue) -> Case {
        self.attrs.push((name, value));
        self
    }

    pub(crate) fn number(self, name: &'static str, value: i64) -> Case {
        self.attr(name, AttrValue::Int(value))
    }

    /// Leaves out all but the first `count` outputs.
    pub(crate) fn outputs(self, count: usize) -> Case {
        Case { outputs: Some(count), ..self }
    }

    /// Leaves out all but these outputs.
    pub(crate) fn only(self, outputs: &'static [usize]) -> Case {
        Case { only: Some(outputs), ..self }
    }

    /// Lets the graph know the shapes of the arguments.
    pub(crate) fn known_shapes(self) -> Case {
        Case { known_shapes: true, ..self }
    }

    pub(crate) fn flag(self, name: &'static str, value: bool) -> Case {
        self.attr(name, AttrValue::Bool(value))
    }
}

pub(crate) fn tensor(dims: &[i64], values: &[f64]) -> Tensor {
    Tensor::from_slice(Shape::new(dims).unwrap(), values).unwrap()
}

/// The op of `case` in a graph with its gradient.
struct Probe {
    session: Session,
    inputs: Vec<(OutputRef, Tensor)>,
    outputs: Vec<OutputRef>,
    weights: Vec<OutputRef>,
    gradients: Vec<Option<OutputRef>>,
    precision: Precision,
}

/// Compares the gradient of a case with difference quotients.
///
/// # Errors
/// What went wrong. `NotFound` names the ops that have no kernel.
pub(crate) fn check(case: &Case) -> Result<()> {
    let probe = Probe::new(case)?;
    let exact: Vec<Option<Tensor>> = probe.run_gradients()?;
    for (input, gradient) in exact.iter().enumerate() {
        let shape = probe.inputs[input].1.shape().clone();
        let Some(gradient) = gradient else {
            return Err(internal!("no gradient by input {input}"));
        };
        if *gradient.shape() != shape {
            let (found, input_shape) = (gradient.shape(), &shape);
            return Err(internal!("gradient {input} has shape {found:?}, not {input_shape:?}"));
        }
        for (element, value) in reals(gradient)?.into_iter().enumerate() {
            let quotient = probe.quotient(input, element)?;
            let error = (value - quotient).abs() / quotient.abs().max(1.0);
            if error.is_nan() || error > probe.precision.tolerance {
                return Err(internal!(
                    "by element {element} of input {input}: gradient {value}, difference quotient {quotient}"
                ));
            }
        }
    }
    Ok(())
}

impl Probe {
    fn new(case: &Case) -> Result<Probe> {
        let mut graph = Graph::new(registry().clone());
        let mut inputs = Vec::new();
        let mut builder = NodeBuilder::new(case.op, "op");
        for argument in &case.arguments {
            match argument {
                Argument::One(value) => {
                    let node = input_node(&mut graph, &mut inputs, value, case.known_shapes)?;
                    builder.add_input(node);
                }
                Argument::Fixed(value) => builder.add_input(constant(&mut graph, value)?),
                Argument::List(values) => {
                    let nodes: Result<Vec<OutputRef>> = values
                        .iter()
                        .map(|value| input_node(&mut graph, &mut inputs, value, case.known_shapes))
                        .collect();
                    builder.add_input_list(nodes?);
                }
            }
        }
        for (name, value) in &case.attrs {
            builder.set_attr(*name, value.clone());
        }
        let id = builder.finish(&mut graph)?;
        let outputs: Vec<OutputRef> = (0..graph.node(id).num_outputs())
            .take(case.outputs.unwrap_or(usize::MAX))
            .filter(|index| case.only.is_none_or(|only| only.contains(index)))
            .map(|index| OutputRef::new(id, index))
            .filter(|&output| graph.output_dtype(output).is_ok_and(is_real))
            .collect();
        let mut weights = Vec::new();
        let mut dtypes: Vec<DType> = inputs.iter().map(|(_, value)| value.dtype()).collect();
        for (index, &output) in outputs.iter().enumerate() {
            let dtype = graph.output_dtype(output)?;
            let (name, shape) = (format!("weights{index}"), PartialShape::unknown());
            weights.push(placeholder(&mut graph, &name, dtype, shape)?);
            dtypes.push(dtype);
        }
        let precision = if dtypes.contains(&DType::FLOAT) { SINGLE } else { DOUBLE };
        let xs: Vec<OutputRef> = inputs.iter().map(|input| input.0).collect();
        let gradients = graph.add_gradients(&outputs, &xs, Some(&weights), None)?;
        let mut missing: Vec<&str> = graph
            .nodes()
            .iter()
            .filter(|node| !registry().has_kernel(DeviceType::Cpu, &node.op.name, &node.attrs))
            .map(|node| &*node.op.name)
            .filter(|&op| op != "Placeholder")
            .collect();
        missing.sort_unstable();
        missing.dedup();
        if !missing.is_empty() {
            return Err(Error::new(Code::NotFound, missing.join(" ")));
        }
        let session = Session::new(registry().clone(), &SessionConfig::default()).unwrap();
        session.extend(&graph)?;
        Ok(Probe { session, inputs, outputs, weights, gradients, precision })
    }

    fn run(&self, inputs: &[(OutputRef, Tensor)], fetches: &[OutputRef]) -> Result<Vec<Tensor>> {
        let request = Request::new(inputs.iter().cloned(), fetches);
        Ok(self.session.run(request)?.take_tensors().collect())
    }

    fn run_gradients(&self) -> Result<Vec<Option<Tensor>>> {
        let values = self.run(&self.inputs, &self.outputs)?;
        let mut feeds = self.inputs.clone();
        for (number, (&weights, value)) in self.weights.iter().zip(&values).enumerate() {
            let all: Vec<f64> = (0..value.count()).map(|i| weight(number, i)).collect();
            feeds.push((weights, tensor_of(value.dtype(), value.shape(), &all)?));
        }
        let fetches: Vec<OutputRef> = self.gradients.iter().flatten().copied().collect();
        let mut tensors = self.run(&feeds, &fetches)?.into_iter();
        Ok(self.gradients.iter().map(|gradient| gradient.and_then(|_| tensors.next())).collect())
    }

    /// The derivative of the weighted sum of the outputs by one element, from two points beside it.
    fn quotient(&self, input: usize, element: usize) -> Result<f64> {
        let mut ends = [0.0; 2];
        let step = self.precision.step;
        for (end, step) in ends.iter_mut().zip([step, -step]) {
            let mut inputs = self.inputs.clone();
            let value = &mut inputs[input].1;
            let mut moved = reals(value)?;
            moved[element] += step;
            *value = tensor_of(value.dtype(), value.shape(), &moved)?;
            for (number, output) in self.run(&inputs, &self.outputs)?.iter().enumerate() {
                let terms = reals(output)?.into_iter().enumerate();
                *end += terms.map(|(i, value)| value * weight(number, i)).sum::<f64>();
            }
        }
        Ok((ends[0] - ends[1]) / (2.0 * step))
    }
}

/// Weights of no pattern, so that elements cannot be mixed up unnoticed.
fn weight(output: usize, element: usize) -> f64 {
    let phase = (output * 7 + element * 13 + 5) as f64;
    0.4 + (phase * 0.618_033_988_75).fract()
}

fn is_real(dtype: DType) -> bool {
    matches!(dtype, DType::DOUBLE | DType::FLOAT)
}

/// The elements of a tensor of float64 or float32.
fn reals(tensor: &Tensor) -> Result<Vec<f64>> {
    if tensor.dtype() == DType::FLOAT {
        return Ok(tensor.as_slice::<f32>()?.iter().copied().map(f64::from).collect());
    }
    Ok(tensor.as_slice::<f64>()?.to_vec())
}

/// The reverse of [`reals`].
fn tensor_of(dtype: DType, shape: &Shape, values: &[f64]) -> Result<Tensor> {
    if dtype == DType::FLOAT {
        let values: Vec<f32> = values.iter().map(|&value| value as f32).collect();
        return Tensor::from_slice(shape.clone(), &values);
    }
    Tensor::from_slice(shape.clone(), values)
}

/// A node for an input: fed if it is a real number, else a constant, as shapes and axes are.
fn input_node(
    graph: &mut Graph,
    inputs: &mut Vec<(OutputRef, Tensor)>,
    value: &Tensor,
    known_shape: bool,
) -> Result<OutputRef> {
    if !is_real(value.dtype()) {
        return constant(graph, value);
    }
    let shape = match known_shape {
        true => PartialShape::from_i64s(value.shape().dims())?,
        false => PartialShape::unknown(),
    };
    let node = placeholder(graph, &format!("x{}", graph.num_ids()), value.dtype(), shape)?;
    inputs.push((node, value.clone()));
    Ok(node)
}

fn constant(graph: &mut Graph, value: &Tensor) -> Result<OutputRef> {
    let mut builder = NodeBuilder::new("Const", format!("c{}", graph.num_ids()));
    builder.set_attr("dtype", AttrValue::Type(value.dtype()));
    builder.set_attr("value", AttrValue::tensor(value.clone()));
    Ok(OutputRef::new(builder.finish(graph)?, 0))
}

fn placeholder(
    graph: &mut Graph,
    name: &str,
    dtype: DType,
    shape: PartialShape,
) -> Result<OutputRef> {
    let mut builder = NodeBuilder::new("Placeholder", name);
    builder.set_attr("dtype", AttrValue::Type(dtype));
    builder.set_attr("shape", AttrValue::shape(shape));
    Ok(OutputRef::new(builder.finish(graph)?, 0))
}

//! Numeric differentiation in float64: what a gradient must agree with.

use tfcore::registry;
use tfcore_base::{Code, DType, Error, Result, internal};
use tfcore_framework::{AttrValue, DeviceType};
use tfcore_graph::{Graph, NodeBuilder, OutputRef};
use tfcore_runtime::{Request, Session, SessionConfig};
use tfcore_tensor::{Shape, Tensor};

/// How far an input is moved to each side.
const STEP: f64 = 1e-5;
/// How far the gradient may be from the difference quotient, as a part of the larger of it and 1.
const TOLERANCE: f64 = 1e-6;

/// An op applied to values. All inputs of type float64 are differentiated by, but for the fixed ones.
pub(crate) struct Case {
    pub(crate) op: &'static str,
    arguments: Vec<Argument>,
    attrs: Vec<(&'static str, AttrValue)>,
}

enum Argument {
    One(Tensor),
    /// Not differentiated by.
    Fixed(Tensor),
    List(Vec<Tensor>),
}

/// An op without arguments, to which they are added.
pub(crate) fn case(op: &'static str) -> Case {
    Case { op, arguments: Vec::new(), attrs: Vec::new() }
}

impl Case {
    /// A float64 argument.
    pub(crate) fn x(self, dims: &[i64], values: &[f64]) -> Case {
        self.tensor(tensor(dims, values))
    }

    /// A float64 argument that is not differentiated by.
    pub(crate) fn fixed(mut self, dims: &[i64], values: &[f64]) -> Case {
        self.arguments.push(Argument::Fixed(tensor(dims, values)));
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
    /// Positions in `inputs` of what is differentiated by.
    by: Vec<usize>,
    outputs: Vec<OutputRef>,
    weights: Vec<OutputRef>,
    gradients: Vec<Option<OutputRef>>,
}

/// Compares the gradient of a case with difference quotients.
///
/// # Errors
/// What went wrong. `NotFound` names the ops that have no kernel.
pub(crate) fn check(case: &Case) -> Result<()> {
    let probe = Probe::new(case)?;
    let exact: Vec<Option<Tensor>> = probe.run_gradients()?;
    for (position, (&input, gradient)) in probe.by.iter().zip(&exact).enumerate() {
        let shape = probe.inputs[input].1.shape().clone();
        let Some(gradient) = gradient else {
            return Err(internal!("no gradient by input {input}"));
        };
        if *gradient.shape() != shape {
            let (found, input_shape) = (gradient.shape(), &shape);
            return Err(internal!("gradient {position} has shape {found:?}, not {input_shape:?}"));
        }
        let values = gradient.as_slice::<f64>()?;
        for (element, &value) in values.iter().enumerate() {
            let quotient = probe.quotient(input, element)?;
            let error = (value - quotient).abs() / quotient.abs().max(1.0);
            if error.is_nan() || error > TOLERANCE {
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
                    builder.add_input(input_node(&mut graph, &mut inputs, value)?)
                }
                Argument::Fixed(value) => builder.add_input(constant(&mut graph, value)?),
                Argument::List(values) => {
                    let nodes: Result<Vec<OutputRef>> = values
                        .iter()
                        .map(|value| input_node(&mut graph, &mut inputs, value))
                        .collect();
                    builder.add_input_list(nodes?);
                }
            }
        }
        for (name, value) in &case.attrs {
            builder.set_attr(*name, value.clone());
        }
        let id = builder.finish(&mut graph)?;
        let is_double = |graph: &Graph, output| graph.output_dtype(output) == Ok(DType::DOUBLE);
        let by: Vec<usize> =
            (0..inputs.len()).filter(|index| inputs[*index].1.dtype() == DType::DOUBLE).collect();
        let outputs: Vec<OutputRef> = (0..graph.node(id).num_outputs())
            .map(|index| OutputRef::new(id, index))
            .filter(|&output| is_double(&graph, output))
            .collect();
        let mut weights = Vec::new();
        for index in 0..outputs.len() {
            weights.push(placeholder(&mut graph, &format!("weights{index}"), DType::DOUBLE)?);
        }
        let xs: Vec<OutputRef> = by.iter().map(|&index| inputs[index].0).collect();
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
        Ok(Probe { session, inputs, by, outputs, weights, gradients })
    }

    fn run(&self, inputs: &[(OutputRef, Tensor)], fetches: &[OutputRef]) -> Result<Vec<Tensor>> {
        let request =
            Request { feeds: inputs.to_vec(), fetches: fetches.to_vec(), ..Default::default() };
        Ok(self.session.run(request)?.tensors)
    }

    fn run_gradients(&self) -> Result<Vec<Option<Tensor>>> {
        let values = self.run(&self.inputs, &self.outputs)?;
        let mut feeds = self.inputs.clone();
        for (number, (&weights, value)) in self.weights.iter().zip(&values).enumerate() {
            let all: Vec<f64> = (0..value.count()).map(|i| weight(number, i)).collect();
            feeds.push((weights, Tensor::from_slice(value.shape().clone(), &all)?));
        }
        let fetches: Vec<OutputRef> = self.gradients.iter().flatten().copied().collect();
        let mut tensors = self.run(&feeds, &fetches)?.into_iter();
        Ok(self.gradients.iter().map(|gradient| gradient.and_then(|_| tensors.next())).collect())
    }

    /// The derivative of the weighted sum of the outputs by one element, from two points beside it.
    fn quotient(&self, input: usize, element: usize) -> Result<f64> {
        let mut ends = [0.0; 2];
        for (end, step) in ends.iter_mut().zip([STEP, -STEP]) {
            let mut inputs = self.inputs.clone();
            let mut value = inputs[input].1.deep_copy()?;
            value.as_mut_slice::<f64>()?[element] += step;
            inputs[input].1 = value;
            for (number, output) in self.run(&inputs, &self.outputs)?.iter().enumerate() {
                let terms = output.as_slice::<f64>()?.iter().enumerate();
                *end += terms.map(|(i, value)| value * weight(number, i)).sum::<f64>();
            }
        }
        Ok((ends[0] - ends[1]) / (2.0 * STEP))
    }
}

/// Weights of no pattern, so that elements cannot be mixed up unnoticed.
fn weight(output: usize, element: usize) -> f64 {
    let phase = (output * 7 + element * 13 + 5) as f64;
    0.4 + (phase * 0.618_033_988_75).fract()
}

/// A node for an input: fed if it is a float64, else a constant, as shapes and axes are.
fn input_node(
    graph: &mut Graph,
    inputs: &mut Vec<(OutputRef, Tensor)>,
    value: &Tensor,
) -> Result<OutputRef> {
    if value.dtype() != DType::DOUBLE {
        return constant(graph, value);
    }
    let node = placeholder(graph, &format!("x{}", graph.num_ids()), DType::DOUBLE)?;
    inputs.push((node, value.clone()));
    Ok(node)
}

fn constant(graph: &mut Graph, value: &Tensor) -> Result<OutputRef> {
    let mut builder = NodeBuilder::new("Const", format!("c{}", graph.num_ids()));
    builder.set_attr("dtype", AttrValue::Type(value.dtype()));
    builder.set_attr("value", AttrValue::tensor(value.clone()));
    Ok(OutputRef::new(builder.finish(graph)?, 0))
}

fn placeholder(graph: &mut Graph, name: &str, dtype: DType) -> Result<OutputRef> {
    let mut builder = NodeBuilder::new("Placeholder", name);
    builder.set_attr("dtype", AttrValue::Type(dtype));
    Ok(OutputRef::new(builder.finish(graph)?, 0))
}

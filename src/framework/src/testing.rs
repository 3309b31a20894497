//! For the tests of op families: runs one op by itself, without a graph or a session.

use std::sync::Arc;

use tfcore_base::{Elem, Result, internal, not_found};
use tfcore_math::pool::Parallel;
use tfcore_tensor::{PartialShape, Shape, Tensor};

use crate::context::OpContext;
use crate::kernel::KernelInit;
use crate::step::Step;
use crate::value::Value;
use crate::{AttrValue, Attrs, DeviceType, InferenceContext, OpDef, Operands, Registry};

/// Attributes by name, such as `[("T", AttrValue::Type(DType::FLOAT))]`.
pub type AttrPairs<'a> = &'a [(&'a str, AttrValue)];

/// A registry with the ops that `register` brings.
pub fn registry_of(register: fn(&mut Registry)) -> Registry {
    let mut registry = Registry::new();
    register(&mut registry);
    registry
}

/// A tensor of these elements, which must be as many as the shape has.
pub fn tensor<T: Elem>(dims: &[i64], elements: &[T]) -> Tensor {
    let shape = Shape::new(dims).expect("the dimensions of a test");
    Tensor::from_slice(shape, elements).expect("as many elements as the shape has")
}

/// As [`tensor`], for literals that need not say their type.
pub fn floats(dims: &[i64], elements: &[f32]) -> Tensor {
    tensor(dims, elements)
}

/// Runs the CPU kernel of `op` once, on one thread, and returns its outputs.
///
/// # Errors
/// What the lookup, the factory or the kernel reports.
pub fn run_op(
    registry: &Registry,
    op: &str,
    attrs: AttrPairs<'_>,
    inputs: &[Tensor],
) -> Result<Vec<Tensor>> {
    run_op_in(&step(), registry, op, attrs, inputs.to_vec())
}

/// A step on the first CPU.
pub fn step() -> Arc<Step> {
    Arc::new(Step {
        device: "/job:localhost/replica:0/task:0/device:CPU:0".into(),
        ..Step::default()
    })
}

/// As [`run_op`], in a step that other ops share. No op but this one reads the inputs that are given away.
///
/// # Errors
/// What the lookup, the factory or the kernel reports.
pub fn run_op_in(
    step: &Arc<Step>,
    registry: &Registry,
    op: &str,
    attrs: AttrPairs<'_>,
    inputs: Vec<Tensor>,
) -> Result<Vec<Tensor>> {
    let (def, attrs) = node(registry, op, attrs)?;
    let input_dtypes = def.input_dtypes(&attrs)?;
    let output_dtypes = def.output_dtypes(&attrs)?;
    let init = KernelInit {
        name: "op",
        op: &def,
        attrs: &attrs,
        input_dtypes: &input_dtypes,
        output_dtypes: &output_dtypes,
    };
    let kernel = registry.build_kernel(DeviceType::Cpu, &init)?;
    let mut inputs: Vec<Value> = inputs.into_iter().map(Value::Tensor).collect();
    let mut outputs = vec![Value::Absent; output_dtypes.len()];
    let mut ctx = OpContext::new(&mut inputs, &mut outputs, &output_dtypes, step, Parallel::SERIAL);
    kernel.compute(&mut ctx)?;
    outputs
        .into_iter()
        .map(|output| match output {
            Value::Tensor(tensor) => Ok(tensor),
            _ => Err(internal!("{op} left an output unset")),
        })
        .collect()
}

/// Runs the shape function of `op` on shapes in TensorFlow's notation: `"[1,?];[3];?"`, and returns the
/// shapes of the outputs in the same notation. `constants` are the values of inputs that have one.
///
/// # Errors
/// What the shape function reports.
pub fn infer(
    registry: &Registry,
    op: &str,
    attrs: AttrPairs<'_>,
    inputs: &str,
    constants: &[(usize, Tensor)],
) -> Result<String> {
    let (def, attrs) = node(registry, op, attrs)?;
    let inputs: Vec<PartialShape> = match inputs {
        "" => Vec::new(),
        list => list.split(';').map(parse_shape).collect::<Result<_>>()?,
    };
    let shape = registry.shape_fn(op).ok_or_else(|| not_found!("{op} has no shape function"))?;
    let operands = Constants(constants);
    let num_outputs = def.output_dtypes(&attrs)?.len();
    let mut ctx = InferenceContext::new(&def, &attrs, &inputs, &[], &operands, num_outputs);
    shape(&mut ctx)?;
    let outputs: Vec<String> = ctx.into_outputs().0.iter().map(PartialShape::to_string).collect();
    Ok(outputs.join(";"))
}

fn node(registry: &Registry, op: &str, pairs: AttrPairs<'_>) -> Result<(Arc<OpDef>, Attrs)> {
    let def = registry.def(op).ok_or_else(|| not_found!("Op type not registered '{op}'"))?;
    let mut attrs: Attrs = pairs.iter().map(|(name, value)| (*name, value.clone())).collect();
    def.add_defaults(&mut attrs);
    Ok((def, attrs))
}

fn parse_shape(text: &str) -> Result<PartialShape> {
    if text == "?" {
        return Ok(PartialShape::unknown());
    }
    let inner = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'))
        .ok_or_else(|| internal!("'{text}' is no shape"))?;
    let dims: Vec<i64> = inner
        .split(',')
        .filter(|dim| !dim.is_empty())
        .map(|dim| if dim == "?" { Ok(-1) } else { dim.parse() })
        .collect::<std::result::Result<_, _>>()
        .map_err(|_| internal!("'{text}' is no shape"))?;
    PartialShape::from_i64s(&dims)
}

struct Constants<'a>(&'a [(usize, Tensor)]);

impl Operands for Constants<'_> {
    fn tensor(&self, index: usize) -> Option<Tensor> {
        self.0.iter().find(|(at, _)| *at == index).map(|(_, tensor)| tensor.clone())
    }

    fn partial_shape(&self, _: usize) -> Result<Option<PartialShape>> {
        Ok(None)
    }
}

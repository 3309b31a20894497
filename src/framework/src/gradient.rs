//! Gradients of ops: functions that build nodes.
//!
//! A gradient function sees one node of a graph, and the gradients of some `y` by each of the node's outputs. It
//! returns the gradients of `y` by each of its inputs, as nodes that it adds through [`GradientContext`]. It reads like the
//! formula:
//!
//! ```ignore
//! // `y = tan(x)`: `dx = dy * (1 / cos(x))^2`.
//! fn tan(c: &GradientContext<'_>) -> Result<Gradients> {
//!     let slope = c.square(c.reciprocal(c.cos(c.input(0))));
//!     Ok(vec![Some(c.mul(c.grad(0), c.conj(slope)))])
//! }
//! ```
//!
//! Building a node cannot fail from the function's point of view: after the first failure nothing more is added, and
//! whoever called the function finds the error in its [`GradientBuilder`].

use std::cell::RefCell;

use smallvec::SmallVec;
use tfcore_base::{DType, Elem, Error, Result, invalid};
use tfcore_tensor::{PartialShape, Shape, Tensor};

use crate::{AttrValue, Attrs};

/// An output of a node in the graph that is differentiated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Output {
    /// The number of the node.
    pub node: u32,
    pub index: u32,
}

impl Output {
    /// What comes of a node that could not be built.
    const NONE: Output = Output { node: u32::MAX, index: 0 };

    /// Another output of the same node.
    #[must_use]
    pub fn at(self, index: u32) -> Output {
        Output { index, ..self }
    }
}

/// The gradients by each input of a node; `None` where there is none, as for shapes and indices.
pub type Gradients = Vec<Option<Output>>;

/// Builds the gradients by the inputs of one node.
pub type GradientFn = fn(&GradientContext<'_>) -> Result<Gradients>;

/// What an op has to say about its gradient.
#[derive(Clone, Copy, Default)]
pub enum Gradient {
    /// Nothing: to differentiate the op is an error.
    #[default]
    Undefined,
    /// The op is constant in its inputs, or takes and gives what has no gradient.
    Zero,
    Function(GradientFn),
}

/// An argument of a node that is to be built.
#[derive(Debug, Clone)]
pub enum Operand<'a> {
    One(Output),
    List(&'a [Output]),
}

/// A node that is to be built.
pub struct NodeRequest<'a> {
    pub op: &'a str,
    /// What the name begins with; made unique by the scope.
    pub stem: &'a str,
    /// What stands behind the unique part of the name.
    pub suffix: &'a str,
    pub operands: &'a [Operand<'a>],
    pub attrs: &'a [(&'a str, AttrValue)],
    /// Nodes that run before this one.
    pub controls: &'a [u32],
    pub device: &'a str,
    /// A node on whose device this one is to be.
    pub beside: Option<u32>,
}

/// The graph to which gradients are added.
pub trait GradientScope {
    /// Adds a node and returns its number.
    ///
    /// # Errors
    /// What the builder of nodes reports.
    fn add(&mut self, request: &NodeRequest<'_>) -> Result<u32>;

    fn dtype(&self, output: Output) -> Result<DType>;

    /// What is known of the shape of an output.
    fn shape(&self, output: Output) -> Result<PartialShape>;

    /// The value of an output that depends on constants only.
    fn constant(&self, output: Output) -> Option<Tensor>;

    /// Whether `op` is the op of the node that an output belongs to.
    fn is_made_by(&self, output: Output, op: &str) -> bool;
}

/// A scope together with the first error that occurred in it.
pub struct GradientBuilder<'s> {
    scope: RefCell<&'s mut dyn GradientScope>,
    error: RefCell<Option<Error>>,
}

impl<'s> GradientBuilder<'s> {
    pub fn new(scope: &'s mut dyn GradientScope) -> GradientBuilder<'s> {
        GradientBuilder { scope: RefCell::new(scope), error: RefCell::new(None) }
    }

    /// Adds a node; after an error, nothing.
    fn add(&self, request: &NodeRequest<'_>) -> Output {
        if self.error.borrow().is_some() {
            return Output::NONE;
        }
        let added = self.scope.borrow_mut().add(request);
        self.keep(added.map(|node| Output { node, index: 0 })).unwrap_or(Output::NONE)
    }

    /// The value, or nothing and the error kept.
    fn keep<T>(&self, result: Result<T>) -> Option<T> {
        result.map_err(|error| self.error.borrow_mut().get_or_insert(error).code()).ok()
    }

    /// Ends the building.
    ///
    /// # Errors
    /// The first error there was.
    pub fn finish(&self) -> Result<()> {
        self.error.take().map_or(Ok(()), Err)
    }
}

/// A node that is differentiated.
pub struct GradientNode<'a> {
    pub op: &'a str,
    pub attrs: &'a Attrs,
    pub inputs: &'a [Output],
    pub num_outputs: usize,
    /// The number of the node.
    pub id: u32,
    /// The gradients by its outputs.
    pub grads: &'a [Output],
}

/// What a gradient function sees: the node, and the means to build others.
pub struct GradientContext<'a> {
    node: &'a GradientNode<'a>,
    builder: &'a GradientBuilder<'a>,
    controls: SmallVec<[u32; 1]>,
    device: &'static str,
    beside: Option<u32>,
}

/// The node.
impl<'a> GradientContext<'a> {
    pub fn new(
        node: &'a GradientNode<'a>,
        builder: &'a GradientBuilder<'a>,
    ) -> GradientContext<'a> {
        GradientContext { node, builder, controls: SmallVec::new(), device: "", beside: None }
    }

    /// The name of the op.
    pub fn op(&self) -> &str {
        self.node.op
    }

    pub fn attrs(&self) -> &'a Attrs {
        self.node.attrs
    }

    pub fn inputs(&self) -> &'a [Output] {
        self.node.inputs
    }

    /// Input `index`, which the op's definition must have.
    pub fn input(&self, index: usize) -> Output {
        self.node.inputs[index]
    }

    pub fn num_outputs(&self) -> usize {
        self.node.num_outputs
    }

    /// Output `index`.
    pub fn output(&self, index: u32) -> Output {
        Output { node: self.node.id, index }
    }

    /// The gradient by output `index`.
    pub fn grad(&self, index: usize) -> Output {
        self.node.grads[index]
    }

    /// The gradients by all outputs.
    pub fn grads(&self) -> &'a [Output] {
        self.node.grads
    }

    /// The dtype of an output of any node.
    pub fn dtype(&self, output: Output) -> DType {
        if output == Output::NONE {
            return DType::FLOAT;
        }
        let dtype = self.builder.scope.borrow().dtype(output);
        self.builder.keep(dtype).unwrap_or(DType::FLOAT).base()
    }

    /// What is known of the shape of an output of any node.
    pub fn static_shape(&self, output: Output) -> PartialShape {
        if output == Output::NONE {
            return PartialShape::unknown();
        }
        let shape = self.builder.scope.borrow().shape(output);
        self.builder.keep(shape).unwrap_or_else(PartialShape::unknown)
    }

    /// The value of an output, if it depends on constants only.
    pub fn static_value(&self, output: Output) -> Option<Tensor> {
        if output == Output::NONE { None } else { self.builder.scope.borrow().constant(output) }
    }

    /// Whether `op` is the op of the node that an output belongs to.
    pub fn is_made_by(&self, output: Output, op: &str) -> bool {
        output != Output::NONE && self.builder.scope.borrow().is_made_by(output, op)
    }

    /// The values of attrs of this node, for another that has them too.
    ///
    /// # Errors
    /// `NotFound` for an attr that the node lacks.
    pub fn attrs_named<'n>(&self, names: &[&'n str]) -> Result<Vec<(&'n str, AttrValue)>> {
        let attr = |&name: &&'n str| Ok((name, self.attrs().require(name)?.clone()));
        names.iter().map(attr).collect()
    }
}

/// Nodes of any op.
impl<'a> GradientContext<'a> {
    /// The same context; what it builds runs after `output`.
    #[must_use]
    pub fn after(&self, output: Output) -> GradientContext<'a> {
        let mut controls = self.controls.clone();
        controls.push(output.node);
        GradientContext { controls, ..*self }
    }

    /// The same context; what it builds asks for `device`.
    #[must_use]
    pub fn on(&self, device: &'static str) -> GradientContext<'a> {
        GradientContext { controls: self.controls.clone(), device, ..*self }
    }

    /// The same context; what it builds is placed with the node of `output`.
    #[must_use]
    pub fn beside(&self, output: Output) -> GradientContext<'a> {
        GradientContext { controls: self.controls.clone(), beside: Some(output.node), ..*self }
    }

    /// A node whose arguments are single tensors.
    pub fn node(&self, op: &str, inputs: &[Output], attrs: &[(&str, AttrValue)]) -> Output {
        let operands: SmallVec<[Operand<'_>; 4]> =
            inputs.iter().map(|&input| Operand::One(input)).collect();
        self.node_of(op, &operands, attrs)
    }

    /// A node with lists among its arguments.
    pub fn node_of(
        &self,
        op: &str,
        operands: &[Operand<'_>],
        attrs: &[(&str, AttrValue)],
    ) -> Output {
        self.request(op, stem(op), "", operands, attrs)
    }

    fn request(
        &self,
        op: &str,
        stem: &str,
        suffix: &str,
        operands: &[Operand<'_>],
        attrs: &[(&str, AttrValue)],
    ) -> Output {
        let (controls, device, beside) = (&self.controls[..], self.device, self.beside);
        self.builder.add(&NodeRequest {
            op,
            stem,
            suffix,
            operands,
            attrs,
            controls,
            device,
            beside,
        })
    }

    /// A node whose attrs are settled by its inputs.
    pub fn apply<const N: usize>(&self, op: &str, inputs: [Output; N]) -> Output {
        self.node(op, &inputs, &[])
    }

    /// A constant.
    pub fn constant(&self, value: Tensor) -> Output {
        self.constant_node("", value)
    }

    /// A constant that the reference writes as a plain argument, which shows in the name of its node.
    pub fn literal(&self, value: Tensor) -> Output {
        self.constant_node("/Const", value)
    }

    fn constant_node(&self, suffix: &str, value: Tensor) -> Output {
        let dtype = AttrValue::Type(value.dtype());
        let attrs = [("dtype", dtype), ("value", AttrValue::tensor(value))];
        self.without_controls().request("Const", "Const", suffix, &[], &attrs)
    }

    /// The same context; what it builds waits for nothing but its inputs.
    pub(crate) fn without_controls(&self) -> GradientContext<'a> {
        GradientContext { controls: SmallVec::new(), ..*self }
    }

    /// A constant vector.
    pub fn vector<T: Elem>(&self, values: &[T]) -> Output {
        match self.builder.keep(Tensor::from_slice(Shape::vector(values.len()), values)) {
            Some(tensor) => self.literal(tensor),
            None => Output::NONE,
        }
    }

    /// Gradients as an error, for what the reference leaves out too.
    ///
    /// # Errors
    /// Always: `InvalidArgument` with the op's name before the reason.
    pub fn refuse(&self, reason: &str) -> Result<Gradients> {
        Err(invalid!("Gradient of {}: {reason}", self.op()))
    }
}

/// What nodes of an op are called in the reference, whose classes have names of their own for some ops.
fn stem(op: &str) -> &str {
    match op {
        "Mul" => "Multiply",
        "Sub" => "Subtract",
        "Neg" => "Negate",
        "ConcatV2" => "Concat",
        "Pack" => "Stack",
        "Unpack" => "Unstack",
        "ReverseV2" => "Reverse",
        "Select" => "Where3",
        "ListDiff" => "SetDiff1D",
        _ => op.trim_start_matches('_'),
    }
}

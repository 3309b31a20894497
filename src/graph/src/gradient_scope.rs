//! `Scope`: the place where gradient nodes are added, and short ways to add them.
//!
//! Gradients of loops and calls need gradients of the bodies, which may have loops and calls. They ask for them by
//! [`Scope::backprop`], so that their files need not know the one that walks the graph.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

use smallvec::SmallVec;
use tfcore_base::{DType, Result};
use tfcore_framework::{AttrValue, Func, GradientScope, NodeRequest, Operand, Output};
use tfcore_tensor::{PartialShape, Tensor};

use crate::fold::constant_value;
use crate::library::Function;
use crate::name_scope::NameScope;
use crate::node::{Node, NodeId, OutputRef};
use crate::stack::deeper;
use crate::{Graph, NodeBuilder};

/// Computes the gradients by `xs`, given those by `ys`. See [`Scope::backprop`].
pub(crate) type Backprop = fn(
    scope: &mut Scope<'_>,
    ys: &[OutputRef],
    dys: &[Output],
    xs: &[OutputRef],
    frontier: Option<&HashSet<NodeId>>,
) -> Result<Vec<Option<Output>>>;

/// A request to differentiate, shared by the graph and the bodies of its functions.
#[derive(Clone)]
pub(crate) struct Request {
    pub(crate) derived: Rc<RefCell<Derived>>,
    backprop: Backprop,
}

impl Request {
    pub(crate) fn new(backprop: Backprop) -> Request {
        Request { derived: Rc::default(), backprop }
    }
}

/// A function that takes the arguments of another one and derivatives by some of its results, and returns derivatives
/// by some of its arguments.
pub(crate) struct GradientFunction {
    pub(crate) function: Arc<Function>,
    /// For each of the `xs` asked for, the type of the derivative by it, if there is one. The results are those that are there.
    pub(crate) dtypes: Vec<Option<DType>>,
    /// For each argument of the original, whether its value matters.
    pub(crate) reads: Vec<bool>,
}

/// The functions that have been made for a request to differentiate.
#[derive(Default)]
pub(crate) struct Derived {
    /// By what was asked for; `None` for those being made.
    pub(crate) known: HashMap<String, Option<Rc<GradientFunction>>>,
    /// Those that are called.
    pub(crate) used: Vec<Arc<Function>>,
}

impl Derived {
    /// Puts the functions that are called into the library of a graph.
    ///
    /// # Errors
    /// `InvalidArgument` if other functions have their names.
    pub(crate) fn add_to(&self, graph: &mut Graph) -> Result<()> {
        self.used.iter().try_for_each(|function| graph.add_function(function, None))
    }
}

/// The part of the graph where gradient nodes go.
pub(crate) struct Scope<'g> {
    pub(crate) graph: &'g mut Graph,
    pub(crate) names: NameScope,
    /// In a loop: a node that runs in each iteration, after which nodes without inputs run.
    pub(crate) pivot: Option<NodeId>,
    /// How many loops and functions lie around the nodes that are added.
    pub(crate) depth: usize,
    pub(crate) request: Request,
}

impl GradientScope for Scope<'_> {
    fn add(&mut self, request: &NodeRequest<'_>) -> Result<u32> {
        let name = self.names.unique(self.graph, request.stem) + request.suffix;
        let mut builder = NodeBuilder::new(request.op, name);
        for operand in request.operands {
            match operand {
                Operand::One(output) => builder.add_input(to_ref(*output)),
                Operand::List(outputs) => {
                    builder.add_input_list(outputs.iter().copied().map(to_ref).collect());
                }
            }
        }
        for (name, value) in request.attrs {
            builder.set_attr(*name, value.clone());
        }
        for &control in request.controls {
            builder.add_control_input(NodeId(control));
        }
        let is_free = request.operands.is_empty() && request.controls.is_empty();
        if let Some(pivot) = self.pivot.filter(|_| is_free) {
            builder.add_control_input(pivot);
        }
        builder.set_device(request.device);
        if let Some(beside) = request.beside {
            let class = format!("loc:@{}", self.graph.node(NodeId(beside)).name);
            builder.set_attr("_class", AttrValue::strings([class]));
        }
        Ok(builder.finish(self.graph)?.0)
    }

    fn dtype(&self, output: Output) -> Result<DType> {
        self.graph.output_dtype(to_ref(output))
    }

    fn shape(&self, output: Output) -> Result<PartialShape> {
        self.graph.shape(to_ref(output)).cloned()
    }

    fn constant(&self, output: Output) -> Option<Tensor> {
        constant_value(self.graph, to_ref(output))
    }

    fn is_made_by(&self, output: Output, op: &str) -> bool {
        &*self.graph.node(NodeId(output.node)).op.name == op
    }
}

pub(crate) fn to_ref(output: Output) -> OutputRef {
    OutputRef { node: NodeId(output.node), index: output.index }
}

pub(crate) fn to_output(output: OutputRef) -> Output {
    Output { node: output.node.0, index: output.index }
}

/// The inputs of a node.
pub(crate) fn inputs_of(node: &Node) -> Vec<Output> {
    node.inputs.iter().map(|edge| to_output(edge.source)).collect()
}

/// Whether values of this type have gradients. Those of a variant are lists of such values, those of a resource are
/// by the value that it holds.
pub(crate) fn has_gradient(dtype: DType) -> bool {
    let dtype = dtype.base();
    dtype.is_float() || dtype.is_complex() || matches!(dtype, DType::VARIANT | DType::RESOURCE)
}

/// A function as the value of an attr.
pub(crate) fn func_attr(func: Func) -> AttrValue {
    AttrValue::Func(Arc::new(func))
}

impl<'g> Scope<'g> {
    /// A scope with names of its own in a function's body.
    pub(crate) fn new(graph: &'g mut Graph, request: &Request, depth: usize) -> Scope<'g> {
        let names = NameScope::new(&graph.default_prefix());
        Scope { graph, names, pivot: None, depth, request: request.clone() }
    }
}

impl Scope<'_> {
    /// The gradients by `xs`, given those by `ys`. With a `frontier` nothing behind its nodes is looked at, and the
    /// `ys` need not depend on all of the `xs`. May be called from within the gradient of a loop or a function, on
    /// a stack of any size.
    ///
    /// # Errors
    /// See [`Graph::add_gradients`].
    pub(crate) fn backprop(
        &mut self,
        ys: &[OutputRef],
        dys: &[Output],
        xs: &[OutputRef],
        frontier: Option<&HashSet<NodeId>>,
    ) -> Result<Vec<Option<Output>>> {
        let backprop = self.request.backprop;
        deeper(|| backprop(self, ys, dys, xs, frontier))
    }

    /// A node of one argument.
    pub(crate) fn single(&mut self, op: &str, operand: Operand<'_>) -> Result<Output> {
        self.build(op, &[operand], &[], &[])
    }

    /// A node of two tensors.
    pub(crate) fn pair(&mut self, op: &str, a: Output, b: Output) -> Result<Output> {
        self.build(op, &[Operand::One(a), Operand::One(b)], &[], &[])
    }

    /// A node whose arguments are single tensors.
    pub(crate) fn node(
        &mut self,
        op: &str,
        inputs: &[Output],
        attrs: &[(&str, AttrValue)],
    ) -> Result<Output> {
        let operands: Vec<Operand<'_>> = inputs.iter().map(|&input| Operand::One(input)).collect();
        self.build(op, &operands, attrs, &[])
    }

    /// A constant, in the frame of `after` if that is given.
    pub(crate) fn constant(&mut self, value: Tensor, after: Option<Output>) -> Result<Output> {
        let dtype = AttrValue::Type(value.dtype());
        let attrs = [("dtype", dtype), ("value", AttrValue::tensor(value))];
        let controls: SmallVec<[u32; 1]> = after.into_iter().map(|output| output.node).collect();
        self.build("Const", &[], &attrs, &controls)
    }

    /// A node with lists among its arguments.
    pub(crate) fn list_node(
        &mut self,
        op: &str,
        operands: &[Operand<'_>],
        attrs: &[(&str, AttrValue)],
    ) -> Result<Output> {
        self.build(op, operands, attrs, &[])
    }

    fn build(
        &mut self,
        op: &str,
        operands: &[Operand<'_>],
        attrs: &[(&str, AttrValue)],
        controls: &[u32],
    ) -> Result<Output> {
        let request = NodeRequest {
            op,
            stem: op,
            suffix: "",
            operands,
            attrs,
            controls,
            device: "",
            beside: None,
        };
        Ok(Output { node: self.add(&request)?, index: 0 })
    }

    /// The sum of some derivatives; `None` of none.
    pub(crate) fn sum(&mut self, parts: &[Output]) -> Result<Option<Output>> {
        match parts {
            [] => Ok(None),
            [one] => Ok(Some(*one)),
            many => self.single("AddN", Operand::List(many)).map(Some),
        }
    }

    /// The gradients by all outputs of a node: zeros by those that nothing flows back from.
    pub(crate) fn dense(&mut self, node: &Node, grads: &[Option<Output>]) -> Result<Vec<Output>> {
        let mut dense = Vec::with_capacity(grads.len());
        for (index, grad) in grads.iter().enumerate() {
            dense.push(match grad {
                Some(grad) => *grad,
                None => {
                    let output = to_output(OutputRef::new(node.id, index));
                    self.single("ZerosLike", Operand::One(output))?
                }
            });
        }
        Ok(dense)
    }

    /// What is known of the shape of the derivative by a value.
    pub(crate) fn gradient_shape(&self, x: Output) -> Result<PartialShape> {
        let x = to_ref(x);
        match (self.graph.output_dtype(x)?.base(), self.graph.handle_data(x)?.as_deref()) {
            (DType::RESOURCE, Some([value, ..])) => Ok(value.shape.clone()),
            (DType::RESOURCE, _) => Ok(PartialShape::unknown()),
            _ => self.graph.shape(x).cloned(),
        }
    }
}

//! Gradients of functions: of a body, for SymbolicGradient, and as functions of their own, which gradients of
//! conditionals and loops are made of.

use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;

use tfcore_base::{DType, Result, invalid};
use tfcore_framework::{AttrValue, Attrs, Func, Operand, Output};

use crate::function::FunctionRequest;
use crate::gradient_scope::{GradientFunction, Request, Scope, has_gradient, to_output, to_ref};
use crate::graph::FunctionBody;
use crate::library::Function;
use crate::name_scope::NameScope;
use crate::node::{NodeId, OutputRef, SOURCE};
use crate::repeatable::check_repeatable;
use crate::{Graph, NodeBuilder};

/// How deep conditionals and loops made of functions may lie in each other.
const MAX_DEPTH: usize = 32;

/// A body with its gradient.
pub(crate) struct Differentiated {
    pub(crate) xs: Vec<OutputRef>,
    /// New arguments: the derivatives by the results.
    pub(crate) dys: Vec<OutputRef>,
    /// The derivatives by the `xs` that the results depend on.
    pub(crate) dxs: Vec<Option<OutputRef>>,
}

/// Differentiates the results `ys` of a body by the arguments `xs`.
pub(crate) fn differentiate(
    body: &mut FunctionBody,
    ys: &[usize],
    xs: &[usize],
    request: &Request,
    depth: usize,
) -> Result<Differentiated> {
    let graph = &mut body.graph;
    let xs: Vec<OutputRef> = xs.iter().map(|&x| OutputRef::new(body.args[x], 0)).collect();
    let mut all_dys = Vec::with_capacity(ys.len());
    let (mut sources, mut dys) = (Vec::new(), Vec::new());
    for (index, &y) in ys.iter().enumerate() {
        let source = graph.node(body.rets[y]).inputs[0].source;
        let dtype = graph.output_dtype(source)?.base();
        let arg = boundary(graph, "_Arg", body.args.len() + index, dtype, None)?;
        let dy = OutputRef::new(arg, 0);
        all_dys.push(dy);
        if has_gradient(dtype) {
            sources.push(source);
            dys.push(to_output(dy));
        }
    }
    let mut scope = Scope::new(graph, request, depth);
    let frontier: HashSet<NodeId> = body.args.iter().copied().collect();
    let dxs = scope.backprop(&sources, &dys, &xs, Some(&frontier))?;
    Ok(Differentiated { xs, dys: all_dys, dxs: dxs.into_iter().map(|dx| dx.map(to_ref)).collect() })
}

/// Which gradient of a function is asked for.
pub(crate) struct Wanted<'a> {
    pub(crate) function: &'a Func,
    /// The results that there are derivatives by.
    pub(crate) ys: &'a [usize],
    /// The arguments to differentiate by.
    pub(crate) xs: &'a [usize],
    /// For each of the `xs` the type of the zeros to return if nothing depends on it; `None` to return nothing.
    pub(crate) zeros: &'a [Option<DType>],
}

impl Scope<'_> {
    /// The gradient of a function as a function. Each is made once.
    ///
    /// # Errors
    /// `NotFound` for an unknown function or an op without a gradient, `InvalidArgument` for a function that calls itself
    /// other than by a plain call, `Unimplemented` for one that cannot be computed again.
    pub(crate) fn gradient_function(&self, wanted: &Wanted<'_>) -> Result<Rc<GradientFunction>> {
        let Func { name, attrs } = wanted.function;
        let mut attrs: Vec<String> =
            attrs.iter().map(|(name, value)| format!("{name}={value}")).collect();
        attrs.sort();
        let key = format!("{name}{attrs:?}{:?}{:?}{:?}", wanted.ys, wanted.xs, wanted.zeros);
        let known = self.request.derived.borrow().known.get(&key).cloned();
        match known {
            Some(Some(known)) => return Ok(known),
            Some(None) => {
                return Err(invalid!(
                    "Function {name} calls itself through a conditional or a loop, or with a resource, and cannot be \
                     differentiated"
                ));
            }
            None if self.depth == MAX_DEPTH => {
                return Err(invalid!(
                    "Gradients of conditionals and loops that lie more than {MAX_DEPTH} deep in each other"
                ));
            }
            None => {}
        }
        self.request.derived.borrow_mut().known.insert(key.clone(), None);
        let made = Rc::new(self.make_gradient_function(wanted)?);
        self.request.derived.borrow_mut().known.insert(key, Some(made.clone()));
        Ok(made)
    }

    fn make_gradient_function(&self, wanted: &Wanted<'_>) -> Result<GradientFunction> {
        let mut body = self.body(wanted.function)?;
        let (num_args, num_rets) = (body.args.len(), body.rets.len());
        if wanted.xs.iter().any(|&x| x >= num_args) || wanted.ys.iter().any(|&y| y >= num_rets) {
            let name = &wanted.function.name;
            return Err(invalid!(
                "Function {name} has {num_args} arguments and {num_rets} results, its caller more"
            ));
        }
        let Differentiated { xs, dys, mut dxs } =
            differentiate(&mut body, wanted.ys, wanted.xs, &self.request, self.depth + 1)?;
        let mut scope = Scope::new(&mut body.graph, &self.request, self.depth);
        for ((dx, &x), dtype) in dxs.iter_mut().zip(&xs).zip(wanted.zeros) {
            if let (None, Some(dtype)) = (&dx, dtype) {
                *dx = Some(to_ref(scope.zeros_like(to_output(x), *dtype)?));
            }
        }
        let outputs: Vec<OutputRef> = dxs.iter().flatten().copied().collect();
        let args = body.args.iter().map(|&arg| OutputRef::new(arg, 0));
        let inputs: Vec<OutputRef> = args.chain(dys).collect();
        let (nodes, entered) = nodes_above(&body.graph, &outputs, &inputs);
        check_repeatable(&wanted.function.name, &body.graph, &nodes)?;
        let dtype = |dx: Option<OutputRef>| dx.map(|dx| body.graph.output_dtype(dx)).transpose();
        let dtypes = dxs.into_iter().map(dtype).collect::<Result<_>>()?;
        let reads = body.args.iter().map(|arg| entered[arg.index()]).collect();
        let name = format!("{}_grad", wanted.function.name);
        let function = to_function(&body.graph, name, inputs, outputs, nodes)?;
        Ok(GradientFunction { function, dtypes, reads })
    }

    /// The body of a function of the graph.
    pub(crate) fn body(&self, function: &Func) -> Result<FunctionBody> {
        let registry = self.graph.registry();
        self.graph.library().instantiate(registry, &function.name, &function.attrs)
    }

    /// The function by name, which will be in the graph's library.
    pub(crate) fn call_to(&self, gradient: &GradientFunction) -> Func {
        self.use_function(gradient.function.clone())
    }

    fn use_function(&self, function: Arc<Function>) -> Func {
        let func = Func { name: function.name().to_string(), attrs: Attrs::new() };
        self.request.derived.borrow_mut().used.push(function);
        func
    }

    /// Makes a function of what `build` adds to an empty graph with arguments of these types, and returns it by name.
    pub(crate) fn function_of(
        &self,
        name: String,
        dtypes: &[DType],
        build: impl FnOnce(&mut Scope<'_>, &[Output]) -> Result<Vec<Output>>,
    ) -> Result<Func> {
        let mut graph =
            Graph::for_body(self.graph.registry().clone(), self.graph.library().clone());
        let mut inputs = Vec::with_capacity(dtypes.len());
        for (index, &dtype) in dtypes.iter().enumerate() {
            inputs.push(OutputRef::new(boundary(&mut graph, "_Arg", index, dtype, None)?, 0));
        }
        let args: Vec<Output> = inputs.iter().copied().map(to_output).collect();
        let mut scope = Scope::new(&mut graph, &self.request, self.depth);
        let outputs: Vec<OutputRef> = build(&mut scope, &args)?.into_iter().map(to_ref).collect();
        let (nodes, _) = nodes_above(&graph, &outputs, &inputs);
        let function = to_function(&graph, name, inputs, outputs, nodes)?;
        Ok(self.use_function(function))
    }

    /// Zeros like `x`; of the value that it holds, which is of type `dtype`, if it is a resource.
    pub(crate) fn zeros_like(&mut self, x: Output, dtype: DType) -> Result<Output> {
        let value = match self.graph.output_dtype(to_ref(x))?.base() {
            DType::RESOURCE => {
                self.node("ReadVariableOp", &[x], &[("dtype", AttrValue::Type(dtype))])?
            }
            _ => x,
        };
        self.single("ZerosLike", Operand::One(value))
    }
}

fn to_function(
    graph: &Graph,
    name: String,
    inputs: Vec<OutputRef>,
    outputs: Vec<OutputRef>,
    nodes: Vec<NodeId>,
) -> Result<Arc<Function>> {
    let request = FunctionRequest {
        name,
        // The same gradient has the same name wherever it is made, others have others.
        append_hash: true,
        body: Some(nodes),
        inputs,
        outputs,
        ..FunctionRequest::default()
    };
    graph.to_function(&request).map(Arc::new)
}

/// Adds the node of an argument or of a result.
pub(crate) fn boundary(
    graph: &mut Graph,
    op: &str,
    index: usize,
    dtype: DType,
    input: Option<OutputRef>,
) -> Result<NodeId> {
    let mut builder =
        NodeBuilder::new(op, NameScope::new("").unique(graph, &format!("gradient{op}_{index}")));
    input.into_iter().for_each(|input| builder.add_input(input));
    builder.set_attr("T", AttrValue::Type(dtype));
    builder.set_attr("index", AttrValue::Int(index as i64));
    builder.finish(graph)
}

/// The nodes that `outputs` are computed by, in order of creation and without those of the `inputs`, and for every node
/// whether it was come by.
fn nodes_above(
    graph: &Graph,
    outputs: &[OutputRef],
    inputs: &[OutputRef],
) -> (Vec<NodeId>, Vec<bool>) {
    let mut seen = vec![false; graph.num_ids()];
    let mut stack: Vec<NodeId> = outputs.iter().map(|output| output.node).collect();
    while let Some(id) = stack.pop() {
        if id != SOURCE && !std::mem::replace(&mut seen[id.index()], true) {
            let node = graph.node(id);
            stack.extend(node.inputs.iter().map(|edge| edge.source.node));
            stack.extend(&node.control_inputs);
        }
    }
    let ends: HashSet<NodeId> = inputs.iter().map(|input| input.node).collect();
    let nodes = graph.nodes().iter().map(|node| node.id);
    let nodes = nodes.filter(|id| seen[id.index()] && !ends.contains(id)).collect();
    (nodes, seen)
}

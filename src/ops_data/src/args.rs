//! What the ops of the family read of their nodes: datasets, scalars, functions and their captured inputs.

use std::ops::Range;
use std::sync::Arc;

use tfcore_base::{Code, DType, Elem, Result, internal, invalid, require};
use tfcore_framework::{
    Attrs, Callable, InferenceContext, Kernel, KernelForm, KernelInit, OpContext, OpDef, shape_ops,
};
use tfcore_tensor::{PartialShape, TString, Tensor};

use crate::dataset::{self, Dataset, Element, Handle, IterContext, Rule, keeps_elements};

/// Makes the rule of a dataset from a node and its inputs.
pub(crate) type Build = fn(&mut Args<'_, '_>) -> Result<Arc<dyn Rule>>;

/// A kernel of the family. Its form keeps plans from computing it ahead of a run: datasets belong to the run.
pub(crate) struct DataKernel<F> {
    pub(crate) node: Arc<Node>,
    pub(crate) run: F,
}

/// What is kept of a node.
pub(crate) struct Node {
    pub(crate) op: Arc<OpDef>,
    pub(crate) attrs: Attrs,
}

impl<F: Fn(&mut Args<'_, '_>) -> Result<()> + Send + Sync> Kernel for DataKernel<F> {
    fn compute(&self, ctx: &mut OpContext<'_>) -> Result<()> {
        (self.run)(&mut Args {
            node: &self.node,
            ctx,
            inputs: Vec::new(),
            options: Vec::new(),
            shapes: None,
            dtypes: None,
        })
    }

    fn form(&self) -> KernelForm<'_> {
        KernelForm::CallsFunctions
    }
}

/// A kernel that reads its node through [`Args`].
pub(crate) fn kernel<F>(init: &KernelInit<'_>, run: F) -> Result<Box<dyn Kernel>>
where
    F: Fn(&mut Args<'_, '_>) -> Result<()> + Send + Sync + 'static,
{
    let node = Node { op: init.op.clone(), attrs: init.attrs.clone() };
    Ok(Box::new(DataKernel { node: Arc::new(node), run }))
}

/// A kernel whose output is a dataset.
pub(crate) fn dataset_kernel(init: &KernelInit<'_>, build: Build) -> Result<Box<dyn Kernel>> {
    kernel(init, move |args| {
        let has_elements =
            |tensor: &&Tensor| tensor.dtype().is_plain() || tensor.dtype() == DType::STRING;
        let tensors = (0..args.ctx.num_inputs()).filter_map(|index| args.ctx.input(index).ok());
        let source = (args.node.attrs.clone(), tensors.filter(has_elements).cloned().collect());
        let rule = build(args)?;
        let inputs = std::mem::take(&mut args.inputs);
        let name = transformation(&args.node.op.name);
        let mut signature = match &inputs[..] {
            [input, ..] if keeps_elements(&name) => (input.dtypes.clone(), input.shapes.clone()),
            _ => args.signature(&inputs)?,
        };
        signature.0 = args.dtypes.take().unwrap_or(signature.0);
        signature.1 = args.shapes.take().unwrap_or(signature.1);
        let mut made = Dataset::new(name, signature, inputs, rule)?;
        made.source = source;
        made.options.append(&mut args.options);
        args.ctx.set_output(0, made.into_tensor());
        Ok(())
    })
}

/// `ParallelMap` of `ParallelMapDatasetV2`.
pub(crate) fn transformation(op: &str) -> String {
    let op = op.strip_prefix("Experimental").unwrap_or(op);
    op.split("Dataset").next().unwrap_or(op).to_string()
}

/// A node in one execution.
pub(crate) struct Args<'n, 'c> {
    pub(crate) node: &'n Arc<Node>,
    pub(crate) ctx: &'n mut OpContext<'c>,
    /// The datasets that were read.
    pub(crate) inputs: Vec<Handle>,
    pub(crate) options: Vec<u8>,
    /// The shapes of the components, where the inputs say more than the attr.
    pub(crate) shapes: Option<Vec<PartialShape>>,
    /// The dtypes of the components, where they are not the attr's.
    pub(crate) dtypes: Option<Vec<DType>>,
}

impl Args<'_, '_> {
    pub(crate) fn attrs(&self) -> &Attrs {
        &self.node.attrs
    }

    pub(crate) fn iter_context(&self) -> IterContext {
        IterContext::of(self.ctx)
    }

    /// The inputs that belong to the argument `name`.
    fn range(&self, name: &str) -> Result<Range<usize>> {
        self.node.op.input_range(name, &self.node.attrs)
    }

    pub(crate) fn has_input(&self, name: &str) -> bool {
        self.node.op.inputs.iter().any(|arg| &*arg.name == name)
    }

    /// The input of the argument `name`.
    pub(crate) fn index(&self, name: &str) -> Result<usize> {
        Ok(self.range(name)?.start)
    }

    pub(crate) fn tensor(&self, name: &str) -> Result<&Tensor> {
        self.ctx.input(self.index(name)?)
    }

    /// The inputs of the list argument `name`.
    pub(crate) fn tensors(&self, name: &str) -> Result<Vec<Tensor>> {
        self.range(name)?.map(|index| self.ctx.input(index).cloned()).collect()
    }

    /// # Errors
    /// `InvalidArgument` "count must be a scalar".
    pub(crate) fn scalar<T: Elem>(&self, name: &str) -> Result<T> {
        let tensor = self.tensor(name)?;
        require!(tensor.rank() == 0, "{name} must be a scalar");
        tensor.scalar_value()
    }

    /// # Errors
    /// `InvalidArgument` "batch_sizes must be a vector".
    pub(crate) fn vector<T: Elem>(&self, name: &str) -> Result<Vec<T>> {
        let tensor = self.tensor(name)?;
        require!(tensor.rank() == 1, "{name} must be a vector");
        Ok(tensor.as_slice::<T>()?.to_vec())
    }

    pub(crate) fn text(&self, name: &str) -> Result<Vec<u8>> {
        Ok(self.scalar::<TString>(name)?.as_bytes().to_vec())
    }

    /// The dataset at the argument `name`, which becomes an input of the one that is made.
    pub(crate) fn dataset(&mut self, name: &str) -> Result<Handle> {
        let dataset = dataset::from_tensor(self.tensor(name)?)?;
        self.inputs.push(dataset.clone());
        Ok(dataset)
    }

    /// The datasets at the list argument `name`.
    pub(crate) fn datasets(&mut self, name: &str) -> Result<Vec<Handle>> {
        let tensors = self.tensors(name)?;
        let datasets: Vec<Handle> =
            tensors.iter().map(dataset::from_tensor).collect::<Result<_>>()?;
        self.inputs.extend(datasets.iter().cloned());
        Ok(datasets)
    }

    /// The function of attr `attr`, with the inputs of the argument `captured` as its last arguments.
    pub(crate) fn function(&self, attr: &str, captured: &str) -> Result<Captured> {
        let func = self.attrs().func(attr)?.clone();
        self.captured(&func.name, &func.attrs, self.tensors(captured)?)
    }

    /// The function `name` with captured arguments.
    pub(crate) fn captured(
        &self,
        name: &str,
        attrs: &Attrs,
        captured: Vec<Tensor>,
    ) -> Result<Captured> {
        let step = self.ctx.step();
        let function = step.functions()?.function(name, attrs, &step.device)?;
        Ok(Captured { function, captured })
    }

    /// How many calls at once an argument asks for; -1 leaves it to the library.
    ///
    /// # Errors
    /// `InvalidArgument` for zero and other negative numbers.
    pub(crate) fn parallelism(&self, name: &str) -> Result<usize> {
        let tensor = self.tensor(name)?;
        require!(tensor.rank() == 0, "{name} must be a scalar");
        let given = tensor.to_i64s()?.first().copied().unwrap_or(0);
        require!(given == -1 || given > 0, "{name} must be greater than zero.");
        let threads = self.ctx.step().functions().map_or(1, |functions| functions.threads());
        Ok(if given == -1 { threads } else { (given as usize).min(threads.max(1) * 4) }.max(1))
    }

    /// The attr `deterministic` or `sloppy`: true if elements may come as they are ready.
    pub(crate) fn is_sloppy(&self) -> bool {
        let attrs = self.attrs();
        attrs.str("deterministic").is_ok_and(|value| value == "false")
            || attrs.bool("sloppy").unwrap_or(false)
    }

    /// The dtypes and shapes of the dataset's components.
    pub(crate) fn signature(&self, inputs: &[Handle]) -> Result<(Vec<DType>, Vec<PartialShape>)> {
        let attrs = self.attrs();
        let shapes = match attrs.contains("output_shapes") {
            true => attrs.shapes("output_shapes")?.to_vec(),
            false => Vec::new(),
        };
        let named = |name: &&str| attrs.contains(name);
        let dtypes = match ["output_types", "Toutput_types"].iter().find(|name| named(name)) {
            Some(name) => attrs.dtypes(name)?.to_vec(),
            None if attrs.contains("Tvalues") => {
                return self.sparse_signature();
            }
            None => match inputs {
                [input, ..] => input.dtypes.clone(),
                [] => vec![DType::STRING],
            },
        };
        let shapes = match (shapes.is_empty(), inputs.first()) {
            (false, _) => shapes,
            (true, Some(input)) => input.shapes.clone(),
            (true, None) => vec![PartialShape::scalar(); dtypes.len()],
        };
        Ok((dtypes, shapes))
    }

    /// A slice of a sparse tensor: indices, values and the shape.
    fn sparse_signature(&self) -> Result<(Vec<DType>, Vec<PartialShape>)> {
        let rank = self.tensor("dense_shape")?.count() as i64 - 1;
        let dtypes = vec![DType::INT64, self.attrs().dtype("Tvalues")?, DType::INT64];
        let shapes = [&[-1, rank][..], &[-1], &[rank]];
        let shapes = shapes.into_iter().map(PartialShape::from_i64s).collect::<Result<_>>()?;
        Ok((dtypes, shapes))
    }
}

/// A function with its last arguments.
#[derive(Clone)]
pub(crate) struct Captured {
    function: Arc<dyn Callable>,
    captured: Vec<Tensor>,
}

impl Captured {
    /// # Errors
    /// Those of the function.
    pub(crate) fn call(&self, ctx: &IterContext, mut args: Element) -> Result<Element> {
        args.extend(self.captured.iter().cloned());
        self.function.call(args, &ctx.caller)
    }

    /// Calls a function that ends the sequence by `OutOfRange`: `None`; an error if the number of elements is to be kept.
    ///
    /// # Errors
    /// Those of the function.
    pub(crate) fn call_or_end(
        &self,
        ctx: &IterContext,
        args: Element,
        preserve_cardinality: bool,
    ) -> Result<Option<Element>> {
        match self.call(ctx, args) {
            Err(error) if error.code() == Code::OutOfRange && preserve_cardinality => {
                Err(invalid!("Function invocation produced OutOfRangeError: {}", error.message()))
            }
            Err(error) if error.code() == Code::OutOfRange => Ok(None),
            result => result.map(Some),
        }
    }

    /// Calls a function whose result is one scalar.
    ///
    /// # Errors
    /// Those of the function; `InvalidArgument` with the text `must` for other results.
    pub(crate) fn scalar<T: Elem>(
        &self,
        ctx: &IterContext,
        args: Element,
        must: &str,
    ) -> Result<T> {
        match &self.call(ctx, args)?[..] {
            [tensor] if tensor.dtype() == T::DTYPE && tensor.count() == 1 => {
                Ok(tensor.as_slice::<T>()?[0].clone())
            }
            _ => Err(invalid!("{must}")),
        }
    }

    /// Calls a function whose result is one dataset.
    ///
    /// # Errors
    /// Those of the function; `InvalidArgument` for other results.
    pub(crate) fn dataset(&self, ctx: &IterContext, args: Element) -> Result<Handle> {
        match &self.call(ctx, args)?[..] {
            [tensor] if tensor.dtype() == DType::VARIANT && tensor.rank() == 0 => {
                dataset::from_tensor(tensor)
            }
            _ => Err(invalid!("Function must return a single scalar of dtype DT_VARIANT.")),
        }
    }
}

/// Arguments that shape functions require to be scalars.
const SCALARS: [&str; 18] = [
    "count",
    "batch_size",
    "drop_remainder",
    "buffer_size",
    "seed",
    "seed2",
    "start",
    "stop",
    "step",
    "num_shards",
    "filename",
    "compression_type",
    "header_bytes",
    "record_bytes",
    "footer_bytes",
    "reshuffle",
    "cardinality",
    "rate",
];

/// The shape function of ops that make a dataset or another handle: scalars.
pub(crate) fn handle_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    for arg in &ctx.op.inputs {
        let range = ctx.op.input_range(&arg.name, ctx.attrs)?;
        if SCALARS.contains(&&*arg.name) {
            shape_ops::with_rank(ctx.input(range.start), 0)?;
        } else if &*arg.name == "filenames" {
            shape_ops::with_rank_at_most(ctx.input(range.start), 1)?;
        }
    }
    for index in 0..ctx.num_outputs() {
        ctx.set_output(index, PartialShape::scalar());
    }
    Ok(())
}

/// The shape function of ops whose outputs are the components of an element: attr `output_shapes`.
pub(crate) fn components_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let shapes = ctx.attrs.shapes("output_shapes")?;
    require!(
        shapes.len() == ctx.num_outputs(),
        "`output_shapes` must be the same length as `output_types` ({} vs. {})",
        shapes.len(),
        ctx.num_outputs()
    );
    for (index, shape) in shapes.iter().enumerate() {
        ctx.set_output(index, shape.clone());
    }
    Ok(())
}

/// Sets the outputs to the components of an element.
///
/// # Errors
/// `Internal` if they are not as many as the outputs.
pub(crate) fn set_components(ctx: &mut OpContext<'_>, element: Element) -> Result<()> {
    if element.len() != ctx.num_outputs() {
        return Err(internal!("{} components for {} outputs", element.len(), ctx.num_outputs()));
    }
    element
        .into_iter()
        .enumerate()
        .try_for_each(|(index, tensor)| ctx.try_set_output(index, tensor))
}

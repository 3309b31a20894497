//! Kernels: what an op does on a device, and what it sees while it runs.

use std::sync::Arc;

use smallvec::SmallVec;
use tfcore_base::{DType, Elem, Error, Result, internal, invalid};
use tfcore_math::pool::Parallel;
use tfcore_tensor::{BufferPool, Elems, ElemsMut, Scalar, Shape, Tensor};

use crate::blocking::{BlockingKernel, Outputs};
use crate::cancellation::Cancellation;
use crate::rendezvous::Rendezvous;
use crate::resource::{ResourceManager, StepContainer};
use crate::variable::Variable;
use crate::{Attrs, OpDef};

/// The computation of one node, built once when the node is planned and then run many times, by
/// many threads at once.
pub trait Kernel: Send + Sync {
    /// Reads the inputs and sets every output.
    fn compute(&self, ctx: &mut OpContext<'_>) -> Result<()>;

    /// The form that does not hold a thread, of a kernel that may have to wait.
    fn blocking(&self) -> Option<&Arc<dyn BlockingKernel>> {
        None
    }

    /// The form for inputs that are all plain scalars, of a kernel of at most three inputs whose one output then is a
    /// plain scalar too. It depends on nothing but the inputs.
    fn on_scalars(self: Arc<Self>) -> Option<Arc<dyn ScalarKernel>> {
        None
    }
}

/// A kernel for scalars: what is between ops that are nothing but arithmetic need not be tensors.
pub trait ScalarKernel: Send + Sync {
    /// Sets the output, which has its dtype already. Missing inputs are whatever the first is. Returns whether there
    /// is a result; if not, [`Kernel::compute`] says what is wrong.
    fn apply(&self, inputs: [&Scalar; 3], out: &mut Scalar) -> bool;

    /// Whether there is anything to compute, so that it pays to keep away from tensors.
    fn is_arithmetic(&self) -> bool {
        true
    }
}

impl<F> Kernel for F
where
    F: Fn(&mut OpContext<'_>) -> Result<()> + Send + Sync,
{
    fn compute(&self, ctx: &mut OpContext<'_>) -> Result<()> {
        self(ctx)
    }
}

/// Boxes a closure as a kernel; what most factories end with.
pub fn kernel<F>(compute: F) -> Result<Box<dyn Kernel>>
where
    F: Fn(&mut OpContext<'_>) -> Result<()> + Send + Sync + 'static,
{
    Ok(Box::new(compute))
}

/// What a factory knows of the node that it builds a kernel for.
#[derive(Clone, Copy)]
pub struct KernelInit<'a> {
    /// The node's name.
    pub name: &'a str,
    pub op: &'a Arc<OpDef>,
    pub attrs: &'a Attrs,
    pub input_dtypes: &'a [DType],
    pub output_dtypes: &'a [DType],
}

/// What flows along an edge.
#[derive(Clone, Default)]
pub enum Value {
    /// Nothing: not computed yet, or dead.
    #[default]
    Absent,
    Tensor(Tensor),
    /// What a ref-typed output hands out: the variable itself.
    Ref(Arc<Variable>),
}

/// What all kernels of a step share.
#[derive(Default)]
pub struct Step {
    /// Unique among the steps of the process, and positive.
    pub id: i64,
    pub resources: Arc<ResourceManager>,
    pub buffers: Arc<BufferPool>,
    /// The full name of the device, such as `/job:localhost/replica:0/task:0/device:CPU:0`.
    pub device: Arc<str>,
    pub cancellation: Arc<Cancellation>,
    /// The resources that end with the step.
    pub container: StepContainer,
    /// What passes between nodes without an edge.
    pub rendezvous: Rendezvous,
    /// The step on the session's first device, if this is its part on another one.
    pub first: Option<Arc<Step>>,
}

impl Step {
    /// Whether a step that is over is as good as new but for its number: it keeps nothing, and nobody waits for its end.
    pub fn is_untouched(&mut self) -> bool {
        self.container.is_empty()
            && self.rendezvous.is_untouched()
            && Arc::get_mut(&mut self.cancellation).is_some_and(Cancellation::is_untouched)
    }
}

/// Where an input lies among the values that a plan keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InputSlot {
    pub slot: u32,
    /// Whether nobody reads the value afterwards, this node's other inputs included.
    pub last: bool,
}

/// A kernel's view of one execution.
pub struct OpContext<'a> {
    values: &'a mut [Value],
    /// Where the inputs lie among the values; without it the values are the inputs.
    inputs: Option<&'a [InputSlot]>,
    outputs: &'a mut [Value],
    output_dtypes: &'a [DType],
    step: &'a Arc<Step>,
    parallel: Parallel<'a>,
}

impl<'a> OpContext<'a> {
    /// The view of a kernel whose inputs are all present. Inputs that nobody else will read should be
    /// moved in, not cloned: then a kernel may reuse their memory.
    pub fn new(
        inputs: &'a mut [Value],
        outputs: &'a mut [Value],
        output_dtypes: &'a [DType],
        step: &'a Arc<Step>,
        parallel: Parallel<'a>,
    ) -> OpContext<'a> {
        OpContext { values: inputs, inputs: None, outputs, output_dtypes, step, parallel }
    }

    /// The view of a kernel whose inputs lie among other values: they are neither moved nor cloned unless the
    /// kernel takes them.
    #[inline]
    pub fn among(
        values: &'a mut [Value],
        inputs: &'a [InputSlot],
        outputs: &'a mut [Value],
        output_dtypes: &'a [DType],
        step: &'a Arc<Step>,
        parallel: Parallel<'a>,
    ) -> OpContext<'a> {
        OpContext { values, inputs: Some(inputs), outputs, output_dtypes, step, parallel }
    }

    #[inline]
    pub fn num_inputs(&self) -> usize {
        self.inputs.map_or(self.values.len(), <[_]>::len)
    }

    /// The place of input `index` among the values, and whether nobody reads it afterwards.
    #[inline]
    fn place(&self, index: usize) -> Option<(usize, bool)> {
        match self.inputs {
            None => Some((index, true)),
            Some(inputs) => inputs.get(index).map(|input| (input.slot as usize, input.last)),
        }
    }

    pub fn num_outputs(&self) -> usize {
        self.outputs.len()
    }

    pub fn output_dtype(&self, index: usize) -> DType {
        self.output_dtypes[index]
    }

    pub(crate) fn output_dtypes(&self) -> &'a [DType] {
        self.output_dtypes
    }

    /// Takes all inputs out of the context.
    pub(crate) fn take_values(&mut self) -> SmallVec<[Value; 3]> {
        (0..self.num_inputs()).map(|index| self.take_value(index)).collect()
    }

    /// Sets all outputs.
    pub(crate) fn set_values(&mut self, values: Outputs) {
        for (output, value) in self.outputs.iter_mut().zip(values) {
            *output = value;
        }
    }

    pub fn step(&self) -> &'a Arc<Step> {
        self.step
    }

    pub fn resources(&self) -> &'a ResourceManager {
        &self.step.resources
    }

    /// How loops may be shared among threads.
    pub fn parallel(&self) -> Parallel<'a> {
        self.parallel
    }

    /// The tensor of input `index`.
    ///
    /// # Errors
    /// `Internal` if there is none, or it has been taken.
    #[inline]
    pub fn input(&self, index: usize) -> Result<&Tensor> {
        match self.value(index) {
            Some(Value::Tensor(tensor)) => Ok(tensor),
            _ => Err(internal!("Input {index} is not a tensor")),
        }
    }

    /// The elements of input `index`.
    pub fn input_slice<T: Elem>(&self, index: usize) -> Result<&[T]> {
        self.input(index)?.as_slice()
    }

    /// The value of the scalar input `index`; `name` is that of the argument, for the message.
    ///
    /// # Errors
    /// `InvalidArgument` if the input is no scalar.
    pub fn input_scalar<T: Elem>(&self, index: usize, name: &str) -> Result<T> {
        let tensor = self.input(index)?;
        if tensor.rank() != 0 {
            return Err(invalid!("{name} must be a scalar, got shape {}", tensor.shape()));
        }
        tensor.scalar_value()
    }

    /// Takes the tensor of input `index` out of the context, so that its buffer may be reused; a clone if
    /// somebody reads it afterwards.
    #[inline]
    pub fn take_input(&mut self, index: usize) -> Result<Tensor> {
        match self.take_value(index) {
            Value::Tensor(tensor) => Ok(tensor),
            _ => Err(internal!("Input {index} is not a tensor")),
        }
    }

    #[inline]
    fn take_value(&mut self, index: usize) -> Value {
        match self.place(index) {
            Some((place, true)) => self.values.get_mut(place).map(std::mem::take),
            Some((place, false)) => self.values.get(place).cloned(),
            None => None,
        }
        .unwrap_or_default()
    }

    /// Whether the memory of input `index` would be the kernel's alone if it took the input.
    #[inline]
    pub fn is_reusable(&self, index: usize) -> bool {
        match self.place(index) {
            Some((place, true)) => {
                matches!(self.values.get(place), Some(Value::Tensor(t)) if t.is_exclusive())
            }
            _ => false,
        }
    }

    /// Whatever input `index` is.
    #[inline]
    pub fn value(&self, index: usize) -> Option<&Value> {
        self.place(index).and_then(|(place, _)| self.values.get(place))
    }

    /// The variable that the ref-typed input `index` refers to.
    #[inline]
    pub fn input_ref(&self, index: usize) -> Result<&Arc<Variable>> {
        match self.value(index) {
            Some(Value::Ref(variable)) => Ok(variable),
            _ => Err(internal!("Input {index} is not a reference")),
        }
    }

    #[inline]
    pub fn set_output(&mut self, index: usize, tensor: Tensor) {
        debug_assert_eq!(tensor.dtype(), self.output_dtypes[index].base(), "output {index}");
        self.outputs[index] = Value::Tensor(tensor);
    }

    pub fn set_output_ref(&mut self, index: usize, variable: Arc<Variable>) {
        self.outputs[index] = Value::Ref(variable);
    }

    /// A new tensor from the session's pool. Its plain elements are arbitrary: the caller writes
    /// every one.
    #[inline]
    pub fn allocate(&self, dtype: DType, shape: Shape) -> Result<Tensor> {
        let made = Tensor::allocate(dtype, shape, Some(&self.step.buffers));
        made.map_err(|error| on_device(error, &self.step.device))
    }

    /// A new tensor from the session's pool, filled with zeros or empty elements.
    pub fn allocate_zeros(&self, dtype: DType, shape: Shape) -> Result<Tensor> {
        let mut tensor = self.allocate(dtype, shape)?;
        tensor.elems_mut()?.fill_default();
        Ok(tensor)
    }

    /// A new tensor of output `index`'s dtype; see [`OpContext::allocate`].
    pub fn allocate_output(&self, index: usize, shape: Shape) -> Result<Tensor> {
        self.allocate(self.output_dtypes[index], shape)
    }

    /// A tensor for output `index` that reuses the memory of the first of `inputs` that has the
    /// output's dtype, as many elements and no other reader; a new one if there is none.
    /// Returns the input's index too: that input is gone then, its elements stand in the tensor.
    pub fn forward_or_allocate(
        &mut self,
        inputs: &[usize],
        index: usize,
        shape: Shape,
    ) -> Result<(Tensor, Option<usize>)> {
        let dtype = self.output_dtypes[index].base();
        let reusable = inputs.iter().copied().find(|&input| {
            self.is_reusable(input)
                && matches!(self.value(input), Some(Value::Tensor(tensor))
                    if tensor.dtype() == dtype && tensor.count() == shape.count())
        });
        match reusable {
            Some(input) => Ok((self.take_input(input)?.with_shape(shape)?, Some(input))),
            None => Ok((self.allocate(dtype, shape)?, None)),
        }
    }
}

/// Elements an element-wise loop should do at least per thread: about the cost of handing over.
const MIN_ELEMENTS: usize = 16 * 1024;

/// Runs `f(start, part)` over consecutive parts of `out`, on several threads if it is worth it. `cost`
/// is roughly the work for one element, 1 being an addition.
pub fn for_each_part(
    parallel: Parallel<'_>,
    out: ElemsMut<'_>,
    cost: usize,
    f: &(dyn Fn(usize, ElemsMut<'_>) + Sync),
) {
    let grain = (MIN_ELEMENTS / cost.max(1)).max(64);
    let len = out.len();
    let parts = (len / grain).min(parallel.threads() * 4);
    if parallel.threads() == 1 || parts < 2 {
        return f(0, out);
    }
    let step = len.div_ceil(parts).next_multiple_of(16);
    let mut cells: SmallVec<[parking_lot::Mutex<Option<ElemsMut<'_>>>; 32]> = SmallVec::new();
    let mut rest = out;
    while rest.len() > step {
        let (part, tail) = rest.split_at(step);
        cells.push(parking_lot::Mutex::new(Some(part)));
        rest = tail;
    }
    cells.push(parking_lot::Mutex::new(Some(rest)));
    parallel.for_each_chunk(cells.len(), 1, &|range| {
        for index in range {
            if let Some(part) = cells[index].lock().take() {
                f(index * step, part);
            }
        }
    });
}

/// The part of `input` that belongs to a part of an output of the same length.
pub fn matching<'a>(input: Elems<'a>, start: usize, part: &ElemsMut<'_>) -> Elems<'a> {
    input.slice(start..start + part.len())
}

/// Names the device that has no memory left.
#[cold]
fn on_device(error: Error, device: &str) -> Error {
    let message = format!("{} on {device} by allocator cpu", error.message());
    error.with_message(message)
}

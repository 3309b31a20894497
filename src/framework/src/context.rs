//! `OpContext`: a kernel's view of one execution.

use std::cell::Cell;
use std::sync::Arc;

use smallvec::SmallVec;
use tfcore_base::{DType, Elem, Error, Result, internal, invalid};
use tfcore_math::pool::Parallel;
use tfcore_tensor::{ElemsMut, HandleKey, ResourceHandle, Shape, Tensor};

use crate::resource::ResourceManager;
use crate::step::Step;
use crate::value::{Outputs, Value};
use crate::variable::{Variable, copy};

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
    /// Cells, so that a kernel can set an output while it reads inputs.
    outputs: &'a [Cell<Value>],
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
        let outputs = Cell::from_mut(outputs).as_slice_of_cells();
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
        let outputs = Cell::from_mut(outputs).as_slice_of_cells();
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
    pub(crate) fn set_values(&self, values: Outputs) {
        for (output, value) in self.outputs.iter().zip(values) {
            output.set(value);
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
    pub fn set_output(&self, index: usize, tensor: Tensor) {
        debug_assert_eq!(tensor.dtype(), self.output_dtypes[index].base(), "output {index}");
        self.outputs[index].set(Value::Tensor(tensor));
    }

    pub fn set_output_ref(&self, index: usize, variable: Arc<Variable>) {
        self.outputs[index].set(Value::Ref(variable));
    }

    /// Makes output `index`: allocates a tensor of `shape`, and has `fill` write every element if there are any.
    #[inline]
    pub fn produce(
        &self,
        index: usize,
        shape: Shape,
        fill: impl FnOnce(ElemsMut<'_>),
    ) -> Result<()> {
        self.try_produce(index, shape, |out| {
            fill(out);
            Ok(())
        })
    }

    /// As [`OpContext::produce`], where writing the elements may fail.
    #[inline]
    pub fn try_produce(
        &self,
        index: usize,
        shape: Shape,
        fill: impl FnOnce(ElemsMut<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut tensor = self.allocate_output(index, shape)?;
        if tensor.count() > 0 {
            fill(tensor.elems_mut()?)?;
        }
        self.set_output(index, tensor);
        Ok(())
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
        self.allocate(self.output_dtypes[index].base(), shape)
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

impl OpContext<'_> {
    /// What the resource handle at input `index` says.
    ///
    /// # Errors
    /// `InvalidArgument` if the input is no handle or an empty one.
    pub fn handle(&self, index: usize) -> Result<&Arc<HandleKey>> {
        match self.input_slice::<ResourceHandle>(index)? {
            [ResourceHandle(Some(key))] => Ok(key),
            [ResourceHandle(None)] => Err(invalid!("Input {index} is an empty resource handle")),
            handles => {
                Err(invalid!("Input {index} must be one resource handle, got {}", handles.len()))
            }
        }
    }

    /// The variable at input `index`, be it a ref or a handle.
    ///
    /// # Errors
    /// `NotFound` if the handle's variable does not exist.
    pub fn variable(&self, index: usize) -> Result<Arc<Variable>> {
        match self.value(index) {
            Some(Value::Ref(variable)) => Ok(variable.clone()),
            Some(Value::Tensor(_)) => {
                let key = self.handle(index)?;
                self.resources().get(&key.container, Variable::RESOURCE, &key.name)
            }
            _ => Err(internal!("Input {index} is not a variable")),
        }
    }

    /// A tensor with the elements of input `index` that will be nobody else's: the input itself if its
    /// last reader is this op, else a copy.
    pub fn take_or_copy_input(&mut self, index: usize) -> Result<Tensor> {
        let tensor = self.take_input(index)?;
        if tensor.is_exclusive() { Ok(tensor) } else { copy(&tensor, &self.step().buffers) }
    }
}

/// Names the device that has no memory left.
#[cold]
fn on_device(error: Error, device: &str) -> Error {
    let message = format!("{} on {device} by allocator cpu", error.message());
    error.with_message(message)
}

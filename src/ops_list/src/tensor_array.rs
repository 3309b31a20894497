//! `TensorArray`: an array of tensors that ops write and read during one step.
//!
//! Each element of a forward array is written once. What is written twice to an element of a gradient array
//! is summed: each reader of the forward array's element has a gradient for it.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tfcore_base::{DType, Error, Result, invalid, require, resource_exhausted};
use tfcore_framework::{OpContext, Resource, add_assign};
use tfcore_tensor::{PartialShape, Shape, Tensor};

use crate::element_shape::{merged, text};
use crate::step_handles::StepResource;

/// An array of tensors of one dtype.
pub(crate) struct TensorArray {
    /// The name in messages.
    pub(crate) name: String,
    pub(crate) dtype: DType,
    /// Elements must have the shape of the first one written.
    has_identical_shapes: bool,
    /// An element can be read only once.
    clears_after_read: bool,
    is_gradient: bool,
    state: Mutex<State>,
    /// The gradient arrays made so far, by what they are for.
    gradients: Mutex<HashMap<String, Arc<TensorArray>>>,
}

struct State {
    is_closed: bool,
    /// Writing makes the array as long as it must be.
    is_dynamic: bool,
    has_sums: bool,
    /// The length when the array was last filled whole; -1 if it has never been.
    marked_len: i64,
    /// What is known of the elements' shapes.
    element: PartialShape,
    slots: Vec<Slot>,
}

/// One element.
#[derive(Clone, Default)]
struct Slot {
    /// The value; for a slot that has been written, none stands for zeros.
    tensor: Option<Tensor>,
    shape: Shape,
    is_written: bool,
    is_read: bool,
    is_cleared: bool,
}

/// What an op says of the array it makes.
pub(crate) struct ArraySpec {
    pub(crate) dtype: DType,
    pub(crate) element: PartialShape,
    pub(crate) is_dynamic: bool,
    pub(crate) clears_after_read: bool,
    pub(crate) has_identical_shapes: bool,
}

impl TensorArray {
    /// An array of `len` elements, none of them written.
    ///
    /// # Errors
    /// `ResourceExhausted` if there is no memory for so many.
    pub(crate) fn new(name: String, spec: &ArraySpec, len: usize) -> Result<TensorArray> {
        let mut slots = Vec::new();
        resize(&mut slots, len)?;
        let state = State {
            is_closed: false,
            is_dynamic: spec.is_dynamic,
            has_sums: false,
            marked_len: -1,
            element: spec.element.clone(),
            slots,
        };
        Ok(TensorArray {
            name,
            dtype: spec.dtype,
            has_identical_shapes: spec.has_identical_shapes,
            clears_after_read: spec.clears_after_read,
            is_gradient: false,
            state: Mutex::new(state),
            gradients: Mutex::default(),
        })
    }

    /// The array for the gradients of this one's elements, whose shapes have `prefix` before them. From
    /// now on this array keeps its length.
    ///
    /// # Errors
    /// `InvalidArgument` if this array is closed or is itself one of sums.
    pub(crate) fn gradient(
        &self,
        source: &str,
        prefix: Option<&Shape>,
    ) -> Result<Arc<TensorArray>> {
        // Both locks are held, in this order, until the new array has the shapes of what is there.
        let mut gradients = self.gradients.lock();
        let mut state = self.state.lock();
        state.is_dynamic = false;
        self.require_open(&state)?;
        require!(
            !state.has_sums,
            "Unable to create a gradients TensorArray for {}.  Perhaps you used the \
             multiple_writes_aggregate flag on a previous write?  Gradient calculation is impossible when \
             multiple writes are performed to the same index.",
            self.name
        );
        if let Some(known) = gradients.get(source) {
            return Ok(known.clone());
        }
        let made = Arc::new(self.make_gradient(&state, source, prefix)?);
        gradients.insert(source.to_string(), made.clone());
        Ok(made)
    }

    fn make_gradient(
        &self,
        state: &State,
        source: &str,
        prefix: Option<&Shape>,
    ) -> Result<TensorArray> {
        let prefix = prefix.map_or(&[][..], Shape::dims);
        let prefixed = |dims: &[i64]| [prefix, dims].concat();
        let element = match state.element.dims() {
            None => PartialShape::unknown(),
            Some(dims) => {
                let dims: Vec<i64> = dims.iter().map(|dim| dim.to_i64()).collect();
                PartialShape::from_i64s(&prefixed(&dims))?
            }
        };
        let slots = state.slots.iter().map(|slot| {
            let shape = Shape::new(&prefixed(slot.shape.dims()))?;
            let is_written = slot.is_written;
            Ok(if is_written {
                Slot { shape, is_written, ..Slot::default() }
            } else {
                Slot::default()
            })
        });
        let slots = slots.collect::<Result<Vec<Slot>>>()?;
        Ok(TensorArray {
            name: format!("{}@{source}", self.name),
            dtype: self.dtype,
            has_identical_shapes: self.has_identical_shapes,
            clears_after_read: true,
            is_gradient: true,
            state: Mutex::new(State {
                is_closed: false,
                is_dynamic: false,
                has_sums: false,
                marked_len: state.marked_len,
                element,
                slots,
            }),
            gradients: Mutex::default(),
        })
    }

    fn require_open(&self, state: &State) -> Result<()> {
        require!(!state.is_closed, "TensorArray {} has already been closed.", self.name);
        Ok(())
    }

    fn open(&self) -> Result<MutexGuard<'_, State>> {
        let state = self.state.lock();
        self.require_open(&state)?;
        Ok(state)
    }

    /// Drops the elements; every use from now on is an error.
    pub(crate) fn close(&self) {
        let slots = {
            let mut state = self.state.lock();
            state.is_closed = true;
            std::mem::take(&mut state.slots)
        };
        drop(slots);
    }

    /// The number of elements.
    pub(crate) fn len(&self) -> Result<usize> {
        self.open().map(|state| state.slots.len())
    }

    /// How many elements there will be once element `len - 1` has been written.
    pub(crate) fn len_with(&self, len: usize) -> Result<usize> {
        self.open().map(|state| {
            if state.is_dynamic { state.slots.len().max(len) } else { state.slots.len() }
        })
    }

    /// How many elements an op takes that takes all: those of a gradient array are as many as the
    /// forward array was filled with.
    pub(crate) fn packed_len(&self) -> Result<usize> {
        let state = self.open()?;
        match self.is_gradient {
            true => Ok(usize::try_from(state.marked_len).unwrap_or(0)),
            false => Ok(state.slots.len()),
        }
    }

    /// Notes that the array has been filled whole.
    pub(crate) fn mark_len(&self, len: usize) -> Result<()> {
        let mut state = self.open()?;
        if !self.is_gradient {
            state.marked_len = len as i64;
        }
        Ok(())
    }

    /// Takes over what an op knows of the elements' shape.
    ///
    /// # Errors
    /// `InvalidArgument` if the array knows otherwise.
    pub(crate) fn refine_element(&self, shape: &PartialShape) -> Result<()> {
        if shape.rank().is_some() {
            let mut state = self.state.lock();
            state.element = merged(&state.element, shape)?;
        }
        Ok(())
    }

    /// # Errors
    /// `InvalidArgument` if the array has elements of another type than an op writes.
    pub(crate) fn require_written_dtype(&self, dtype: DType) -> Result<()> {
        require!(
            self.dtype == dtype,
            "TensorArray dtype is {} but Op is trying to write dtype {dtype}.",
            self.dtype
        );
        Ok(())
    }

    /// # Errors
    /// `InvalidArgument` if the array has elements of another type than an op reads.
    pub(crate) fn require_read_dtype(&self, dtype: DType) -> Result<()> {
        require!(
            self.dtype == dtype,
            "TensorArray dtype is {} but Op requested dtype {dtype}.",
            self.dtype
        );
        Ok(())
    }

    /// Writes several elements.
    ///
    /// # Errors
    /// `InvalidArgument` for the first element that cannot be written.
    pub(crate) fn write_all(
        &self,
        ctx: &OpContext<'_>,
        values: impl IntoIterator<Item = (i32, Tensor)>,
    ) -> Result<()> {
        let mut state = self.state.lock();
        values.into_iter().try_for_each(|(index, value)| self.write(ctx, &mut state, index, value))
    }

    fn write(
        &self,
        ctx: &OpContext<'_>,
        state: &mut State,
        index: i32,
        value: Tensor,
    ) -> Result<()> {
        self.require_open(state)?;
        let name = &self.name;
        let len = state.slots.len();
        let at = match usize::try_from(index) {
            Ok(at) if state.is_dynamic || at < len => at,
            _ => {
                return Err(invalid!(
                    "TensorArray {name}: Tried to write to index {index} but array is not resizeable and \
                     size is: {len}"
                ));
            }
        };
        if at >= len {
            resize(&mut state.slots, at + 1)?;
        }
        let failure =
            format_args!("TensorArray {name}: Could not write to TensorArray index {index}");
        require!(
            state.element.admits(value.shape()),
            "{failure} because the value shape is {} which is incompatible with the TensorArray's inferred \
             element shape: {} (consider setting infer_shape=False).",
            value.shape(),
            text(&state.element)
        );
        if self.has_identical_shapes && !state.element.is_fully_known() {
            state.element = value.shape().into();
        }
        let slot = &mut state.slots[at];
        require!(!slot.is_read, "{failure} because it has already been read.");
        if !slot.is_written {
            slot.shape = value.shape().clone();
            slot.tensor = Some(value);
            slot.is_written = true;
            return Ok(());
        }
        require!(self.is_gradient, "{failure} because it has already been written to.");
        require!(
            slot.shape == *value.shape(),
            "TensorArray {name}: Could not aggregate to TensorArray index {index} because the existing \
             shape is {} but the new input shape is {}.",
            slot.shape,
            value.shape()
        );
        slot.tensor = match slot.tensor.take() {
            Some(sum) if sum.count() > 0 => {
                state.has_sums = true;
                Some(add(ctx, sum, &value)?)
            }
            _ => Some(value),
        };
        Ok(())
    }

    /// Reads several elements.
    ///
    /// # Errors
    /// `InvalidArgument` for the first element that cannot be read.
    pub(crate) fn read_all(
        &self,
        ctx: &OpContext<'_>,
        indices: impl IntoIterator<Item = i32>,
    ) -> Result<Vec<Tensor>> {
        let mut state = self.state.lock();
        indices.into_iter().map(|index| self.read(ctx, &mut state, index)).collect()
    }

    fn read(&self, ctx: &OpContext<'_>, state: &mut State, index: i32) -> Result<Tensor> {
        self.require_open(state)?;
        let len = state.slots.len();
        let at = match usize::try_from(index) {
            Ok(at) if self.is_gradient || at < len => at,
            _ => {
                return Err(invalid!("Tried to read from index {index} but array size is: {len}"));
            }
        };
        if state.slots.get(at).is_none_or(|slot| !slot.is_written) {
            self.write_zeros(state, at)?;
        }
        let slot = &mut state.slots[at];
        require!(
            !slot.is_cleared,
            "TensorArray {}: Could not read index {index} twice because it was cleared after a previous read \
             (perhaps try setting clear_after_read = false?).",
            self.name
        );
        slot.is_read = true;
        let value = match slot.tensor.take() {
            Some(value) => value,
            None => zeros(ctx, self.dtype, slot.shape.clone())?,
        };
        match self.clears_after_read {
            true => slot.is_cleared = true,
            false => slot.tensor = Some(value.clone()),
        }
        Ok(value)
    }

    /// Makes an element that nobody has written one of zeros, and those that a gradient array lacks before
    /// it.
    fn write_zeros(&self, state: &mut State, at: usize) -> Result<()> {
        let known = state.slots.get(at).filter(|slot| self.is_gradient && slot.shape.rank() > 0);
        let shape = match known {
            Some(slot) => slot.shape.clone(),
            None => state.element.to_shape().ok_or_else(|| {
                invalid!(
                    "TensorArray {}: Could not read from TensorArray index {at}.  Furthermore, the element \
                     shape is not fully defined: {}.  It is possible you are working with a resizeable \
                     TensorArray and stop_gradients is not allowing the gradients to be written.  If you set \
                     the full element_shape property on the forward TensorArray, the proper all-zeros tensor \
                     will be returned instead of incurring this error.",
                    self.name,
                    text(&state.element)
                )
            })?,
        };
        let first = state.slots.len().min(at);
        if at >= state.slots.len() {
            resize(&mut state.slots, at + 1)?;
        }
        for slot in &mut state.slots[first..=at] {
            if !slot.is_written {
                slot.shape = shape.clone();
                slot.is_written = true;
            }
        }
        Ok(())
    }
}

impl Resource for TensorArray {
    fn type_name(&self) -> &'static str {
        TensorArray::TYPE
    }
}

impl StepResource for TensorArray {
    const TYPE: &'static str = "N10tensorflow11TensorArrayE";

    fn no_handle(shape: &Shape) -> Error {
        invalid!("Tensor array handle must be 2-element vector, but had shape: {shape}")
    }
}

fn resize(slots: &mut Vec<Slot>, len: usize) -> Result<()> {
    slots
        .try_reserve(len.saturating_sub(slots.len()))
        .map_err(|_| resource_exhausted!("OOM when allocating an array of {len} tensors"))?;
    slots.resize(len, Slot::default());
    Ok(())
}

/// The sum of two tensors of one shape, in the memory of the first where nobody else reads that.
fn add(ctx: &OpContext<'_>, mut sum: Tensor, term: &Tensor) -> Result<Tensor> {
    let add = add_assign(sum.dtype())
        .ok_or_else(|| invalid!("tensor_array::AddToTensor type not supported: {}", sum.dtype()))?;
    if !sum.is_exclusive() {
        let mut copy = ctx.allocate(sum.dtype(), sum.shape().clone())?;
        copy.elems_mut()?.copy_from(sum.elems());
        sum = copy;
    }
    add(sum.elems_mut()?, term.elems());
    Ok(sum)
}

fn zeros(ctx: &OpContext<'_>, dtype: DType, shape: Shape) -> Result<Tensor> {
    require!(
        shape.count() == 0 || dtype == DType::BOOL || add_assign(dtype).is_some(),
        "tensor_array::TensorSetZero type not supported: {dtype}"
    );
    ctx.allocate_zeros(dtype, shape)
}

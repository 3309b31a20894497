//! `Variable`: a tensor that ops replace or change in place, and how kernels find it.
//!
//! Ref edges carry the variable itself; a resource handle names it. Both kinds share the type, so that an
//! op that updates variables is written once.

use std::sync::Arc;

use parking_lot::Mutex;
use tfcore_base::{DType, Result, failed_precondition};
use tfcore_tensor::{BufferPool, Shape, Tensor};

use crate::resource::Resource;

/// A tensor that ops can replace, or change in place.
#[derive(Debug)]
pub struct Variable {
    /// The name of the node or of the resource, for messages.
    name: String,
    dtype: DType,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    value: Option<Tensor>,
    /// What stands for the value's shape until there is a value.
    declared: Shape,
}

impl Variable {
    /// The type name of resource variables, as handles and messages show it.
    pub const RESOURCE: &'static str = "N10tensorflow3VarE";
    /// The type name of the variables behind refs.
    pub const REF: &'static str = "N10tensorflow9LegacyVarE";

    /// A variable without a value.
    pub fn new(name: impl Into<String>, dtype: DType, declared: Shape) -> Variable {
        let state = Mutex::new(State { value: None, declared });
        Variable { name: name.into(), dtype: dtype.base(), state }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn dtype(&self) -> DType {
        self.dtype
    }

    pub fn is_initialized(&self) -> bool {
        self.state.lock().value.is_some()
    }

    /// The current value.
    ///
    /// # Errors
    /// `FailedPrecondition` if there is none yet.
    pub fn read(&self) -> Result<Tensor> {
        self.state.lock().value.clone().ok_or_else(|| self.uninitialized())
    }

    /// Replaces the value by `tensor`, which must have the variable's dtype.
    pub fn write(&self, tensor: Tensor) {
        debug_assert_eq!(tensor.dtype(), self.dtype, "variable {}", self.name);
        self.state.lock().value = Some(tensor);
    }

    /// Replaces the value by `tensor`, if `check` accepts its shape: it is called with the shape of the
    /// value or, where there is none, the declared one, and with whether there is a value.
    ///
    /// # Errors
    /// What `check` reports.
    pub fn write_if(
        &self,
        tensor: Tensor,
        check: impl FnOnce(&Shape, bool) -> Result<()>,
    ) -> Result<()> {
        debug_assert_eq!(tensor.dtype(), self.dtype, "variable {}", self.name);
        let mut state = self.state.lock();
        match &state.value {
            Some(value) => check(value.shape(), true)?,
            None => check(&state.declared, false)?,
        }
        state.value = Some(tensor);
        Ok(())
    }

    /// Lets `change` write to the value while no other op sees it. Nobody else holds the tensor's
    /// buffer: where a reader still does, `change` gets a copy, and the reader keeps what it read.
    ///
    /// # Errors
    /// `FailedPrecondition` if there is no value yet, and whatever `change` reports.
    pub fn update<R>(
        &self,
        buffers: &Arc<BufferPool>,
        change: impl FnOnce(&mut Tensor) -> Result<R>,
    ) -> Result<R> {
        let mut state = self.state.lock();
        let tensor = state.value.as_mut().ok_or_else(|| self.uninitialized())?;
        if !tensor.is_exclusive() {
            *tensor = copy(tensor, buffers)?;
        }
        change(tensor)
    }

    fn uninitialized(&self) -> tfcore_base::Error {
        failed_precondition!("Attempting to use uninitialized value {}", self.name)
    }
}

impl Resource for Variable {
    fn type_name(&self) -> &'static str {
        Variable::RESOURCE
    }
}

/// The same elements in a buffer of their own.
pub(crate) fn copy(tensor: &Tensor, buffers: &Arc<BufferPool>) -> Result<Tensor> {
    let mut copy = Tensor::allocate(tensor.dtype(), tensor.shape().clone(), Some(buffers))?;
    copy.elems_mut()?.copy_from(tensor.elems());
    Ok(copy)
}

#[cfg(test)]
mod tests {
    use tfcore_base::invalid;

    use super::*;

    fn vector(values: &[f32]) -> Tensor {
        Tensor::from_slice(Shape::vector(values.len()), values).unwrap()
    }

    #[test]
    fn updates_leave_what_was_read_before() {
        let buffers = Arc::new(BufferPool::default());
        let variable = Variable::new("v", DType::FLOAT, Shape::vector(2));
        let increment = |tensor: &mut Tensor| {
            tensor.as_mut_slice::<f32>()?.iter_mut().for_each(|value| *value += 1.0);
            Ok(tensor.data())
        };
        let error = variable.update(&buffers, increment).unwrap_err();
        assert_eq!(error.message(), "Attempting to use uninitialized value v");

        variable.write(vector(&[1.0, 2.0]));
        let read = variable.read().unwrap();
        let copied = variable.update(&buffers, increment).unwrap();
        assert_eq!(read.as_slice::<f32>().unwrap(), [1.0, 2.0]);
        assert_ne!(copied, read.data());
        // Nobody holds the copy, so that the next update stays in place.
        assert_eq!(variable.update(&buffers, increment).unwrap(), copied);
        assert_eq!(variable.read().unwrap().as_slice::<f32>().unwrap(), [3.0, 4.0]);
    }

    #[test]
    fn checked_writes_see_the_declared_shape_first() {
        let variable = Variable::new("v", DType::FLOAT, Shape::vector(2));
        let same = |expected: Shape| {
            move |shape: &Shape, _: bool| match *shape == expected {
                true => Ok(()),
                false => Err(invalid!("not {expected}")),
            }
        };
        assert!(variable.write_if(vector(&[1.0]), same(Shape::vector(1))).is_err());
        assert!(!variable.is_initialized());
        variable.write_if(vector(&[1.0, 2.0, 3.0]), |_, _| Ok(())).unwrap();
        variable.write_if(vector(&[4.0]), same(Shape::vector(3))).unwrap();
        assert_eq!(variable.read().unwrap().shape().dims(), [1]);
    }
}

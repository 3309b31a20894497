//! `TensorHandle`: a tensor that an op has made, or will have made once an executor comes to it.

use std::sync::{Arc, OnceLock};

use parking_lot::{Condvar, Mutex};
use tfcore_base::{DType, Error, Result};
use tfcore_tensor::Tensor;

/// A tensor on a device, now or later.
#[derive(Clone)]
pub struct TensorHandle {
    dtype: DType,
    device: u16,
    content: Content,
}

#[derive(Clone)]
enum Content {
    Ready(Tensor),
    Promised(Arc<Promise>),
}

/// What an op of an asynchronous executor leaves for one of its outputs.
#[derive(Default)]
pub(crate) struct Promise {
    kept: OnceLock<Result<Tensor>>,
    waiting: Mutex<()>,
    changed: Condvar,
}

impl Promise {
    /// Sets the tensor, or the error of the op; once.
    pub(crate) fn keep(&self, result: Result<Tensor>) {
        let _waiting = self.waiting.lock();
        let is_first = self.kept.set(result).is_ok();
        debug_assert!(is_first, "a promise is kept once");
        self.changed.notify_all();
    }

    fn wait(&self) -> &Result<Tensor> {
        let mut waiting = self.waiting.lock();
        loop {
            match self.kept.get() {
                Some(result) => return result,
                None => self.changed.wait(&mut waiting),
            }
        }
    }
}

impl TensorHandle {
    /// A tensor on the device with this number.
    pub fn new(tensor: Tensor, device: u16) -> TensorHandle {
        TensorHandle { dtype: tensor.dtype(), device, content: Content::Ready(tensor) }
    }

    /// A tensor of `dtype` that is promised.
    pub(crate) fn promised(dtype: DType, device: u16, promise: Arc<Promise>) -> TensorHandle {
        TensorHandle { dtype, device, content: Content::Promised(promise) }
    }

    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The number of the device.
    pub fn device(&self) -> u16 {
        self.device
    }

    /// The tensor; waits for the op that makes it.
    ///
    /// # Errors
    /// The op's.
    pub fn tensor(&self) -> Result<&Tensor> {
        match &self.content {
            Content::Ready(tensor) => Ok(tensor),
            Content::Promised(promise) => match promise.kept.get() {
                Some(result) => result.as_ref().map_err(Error::clone),
                None => promise.wait().as_ref().map_err(Error::clone),
            },
        }
    }

    /// The error of the op that was to make the tensor, if it is known already.
    ///
    /// # Errors
    /// That error.
    pub fn known_status(&self) -> Result<()> {
        match &self.content {
            Content::Promised(promise) => match promise.kept.get() {
                Some(Err(error)) => Err(error.clone()),
                _ => Ok(()),
            },
            Content::Ready(_) => Ok(()),
        }
    }
}

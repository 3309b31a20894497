//! Runs the family's ops one after the other, in one step.

use std::sync::Arc;

use tfcore_base::{DType, Elem, Result};
pub(crate) use tfcore_framework::testing::{AttrPairs, registry_of};
use tfcore_framework::testing::{run_op_in, step};
use tfcore_framework::{AttrValue, Registry, Step};
use tfcore_tensor::{Shape, Tensor};

/// A step and the ops that run in it.
pub(crate) struct Ops {
    registry: Registry,
    step: Arc<Step>,
}

impl Ops {
    pub(crate) fn new() -> Ops {
        let registry = registry_of(crate::register);
        Ops { registry, step: step() }
    }

    /// The same ops in another step.
    pub(crate) fn next_step(&mut self) {
        self.step = Arc::new(Step { id: self.step.id + 1, ..Step::default() });
    }

    /// All outputs of `op`.
    pub(crate) fn all(
        &self,
        op: &str,
        attrs: AttrPairs<'_>,
        inputs: Vec<Tensor>,
    ) -> Result<Vec<Tensor>> {
        run_op_in(&self.step, &self.registry, op, attrs, inputs)
    }

    /// The first output of `op`.
    pub(crate) fn first(
        &self,
        op: &str,
        attrs: AttrPairs<'_>,
        inputs: Vec<Tensor>,
    ) -> Result<Tensor> {
        Ok(self.all(op, attrs, inputs)?.swap_remove(0))
    }

    /// The message of the error that `op` reports.
    pub(crate) fn failure(&self, op: &str, attrs: AttrPairs<'_>, inputs: Vec<Tensor>) -> String {
        self.all(op, attrs, inputs).unwrap_err().message().to_string()
    }
}

/// The attr `name` of type `dtype`.
pub(crate) fn of(name: &str, dtype: DType) -> (&str, AttrValue) {
    (name, AttrValue::Type(dtype))
}

pub(crate) fn floats(values: &[f32]) -> Tensor {
    Tensor::from_slice(Shape::vector(values.len()), values).unwrap()
}

pub(crate) fn ints(values: &[i32]) -> Tensor {
    Tensor::from_slice(Shape::vector(values.len()), values).unwrap()
}

/// A shape operand: unknown.
pub(crate) fn any_shape() -> Tensor {
    Tensor::scalar(-1)
}

/// The shape and the elements.
pub(crate) fn contents<T: Elem>(tensor: &Tensor) -> (Vec<i64>, Vec<T>) {
    (tensor.shape().dims().to_vec(), tensor.as_slice().unwrap().to_vec())
}

//! Short words for this family's tests.

use std::sync::OnceLock;

use tfcore_base::{DType, Elem, Result};
pub(crate) use tfcore_framework::testing::tensor;
use tfcore_framework::testing::{AttrPairs, infer, registry_of, run_op};
use tfcore_framework::{AttrValue, Registry};
use tfcore_tensor::Tensor;

fn registry() -> &'static Registry {
    static REGISTRY: OnceLock<Registry> = OnceLock::new();
    REGISTRY.get_or_init(|| registry_of(crate::register))
}

/// Runs an op; see [`run_op`].
pub(crate) fn run(op: &str, attrs: AttrPairs<'_>, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
    run_op(registry(), op, attrs, inputs)
}

/// Runs an op whose first output is of type `T`, and returns its shape and elements.
pub(crate) fn values<T: Elem>(
    op: &str,
    attrs: AttrPairs<'_>,
    inputs: &[Tensor],
) -> Result<(Vec<i64>, Vec<T>)> {
    let out = run(op, attrs, inputs)?.swap_remove(0);
    Ok((out.shape().dims().to_vec(), out.as_slice::<T>()?.to_vec()))
}

/// The message of an op that fails.
pub(crate) fn failure(op: &str, attrs: AttrPairs<'_>, inputs: &[Tensor]) -> String {
    match run(op, attrs, inputs) {
        Ok(_) => "no error".to_string(),
        Err(error) => error.message().to_string(),
    }
}

/// Infers the shapes of an op; see [`infer`].
pub(crate) fn shapes(
    op: &str,
    attrs: AttrPairs<'_>,
    inputs: &str,
    constants: &[(usize, Tensor)],
) -> String {
    match infer(registry(), op, attrs, inputs, constants) {
        Ok(shapes) => shapes,
        Err(error) => error.message().to_string(),
    }
}

/// The tensor `0, 1, 2, ..` of type `int32`.
pub(crate) fn counting(dims: &[i64]) -> Tensor {
    let count: i64 = dims.iter().product();
    tensor(dims, &(0..count as i32).collect::<Vec<_>>())
}

/// A vector of `int32`.
pub(crate) fn ints(elements: &[i32]) -> Tensor {
    tensor(&[elements.len() as i64], elements)
}

/// The value of a type attr.
pub(crate) fn of(dtype: DType) -> AttrValue {
    AttrValue::Type(dtype)
}

/// The attr `T` of most tests.
pub(crate) fn int32() -> (&'static str, AttrValue) {
    ("T", of(DType::INT32))
}

//! Collections inside collections: how deep they may be, and how they are dropped without recursion.

use std::cell::Cell;

use tfcore_base::{DType, Result, resource_exhausted};
use tfcore_tensor::{Tensor, Variant};

use crate::tensor_list::TensorList;
use crate::tensor_map::TensorMap;

/// How many collections inside one another are gone through recursively.
const MAX_DEPTH: u32 = 200;

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Runs `f`, which may come back here for the collections inside a collection.
///
/// # Errors
/// `ResourceExhausted` if too many collections stand inside one another, and whatever `f` reports.
pub(crate) fn descend<R>(f: impl FnOnce() -> Result<R>) -> Result<R> {
    let depth = DEPTH.get();
    if depth == MAX_DEPTH {
        return Err(resource_exhausted!(
            "More than {MAX_DEPTH} tensor lists and maps inside one another"
        ));
    }
    DEPTH.set(depth + 1);
    let result = f();
    DEPTH.set(depth);
    result
}

/// Drops tensors that may hold collections, however deep: a loop builds a list of a list of a list ...
/// faster than the stack could take it apart.
pub(crate) fn drop_tensors(mut tensors: Vec<Tensor>) {
    while let Some(mut tensor) = tensors.pop() {
        // What others hold as well is for them to drop.
        let Ok(values) = tensor.as_mut_slice::<Variant>() else {
            continue;
        };
        for value in values {
            if let Some(list) = value.get_mut::<TensorList>() {
                tensors.extend(list.elements.drain(..).flatten());
            } else if let Some(map) = value.get_mut::<TensorMap>() {
                tensors.extend(map.take_values());
            }
        }
    }
}

/// Whether tensors of this type may hold collections.
pub(crate) fn may_nest(dtype: DType) -> bool {
    dtype == DType::VARIANT
}

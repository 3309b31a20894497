//! Ops on collections of tensors: tensor lists and maps, which are values, and tensor arrays and stacks,
//! which are resources of a step.
#![forbid(unsafe_code)]

mod array_parts;
mod array_shapes;
mod element_shape;
mod gradients;
mod list_ops;
mod list_parts;
mod list_shapes;
mod nested;
mod parts;
mod stacks;
mod step_handles;
mod tensor_array;
mod tensor_arrays;
mod tensor_list;
mod tensor_map;
#[cfg(test)]
mod testing;

use tfcore_framework::Registry;

/// Attaches the family's behaviour.
pub fn register(r: &mut Registry) {
    list_ops::register(r);
    list_parts::register(r);
    tensor_map::register(r);
    tensor_arrays::register(r);
    array_parts::register(r);
    stacks::register(r);
    gradients::register(r);
}

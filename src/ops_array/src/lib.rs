//! Ops that make, move and select the elements of tensors.
#![forbid(unsafe_code)]

use tfcore_base::{Error, invalid};
use tfcore_framework::{KernelInit, Registry};

mod combine;
mod concat;
mod constants;
mod diag;
mod edit_distance;
mod find;
mod formats;
mod gather;
mod gradients;
mod identity;
mod indexing;
mod inplace;
mod list_diff;
mod matrix_diag;
mod mirror_pad_grad;
mod one_hot;
mod pad;
mod partition;
mod patches;
mod queries;
mod reshape;
mod rotate;
mod scatter_nd;
mod search;
mod sets;
mod slice;
mod space_batch;
mod sparse_groups;
mod split;
mod stitch;
mod strided_slice_grad;
mod tensor_scatter;
#[cfg(test)]
mod testing;
mod tile;
mod top_k;
mod transpose;

/// The error for a node whose attr `attr`, which is no type, has a value for which the reference has no kernel.
fn no_kernel(init: &KernelInit<'_>, attr: &str, value: impl std::fmt::Display) -> Error {
    invalid!(
        "No OpKernel was registered to support Op '{}' used by {{{{node {}}}}} with {attr}=\"{value}\"",
        init.op.name,
        init.name
    )
}

/// Registers the ops of this family.
pub fn register(r: &mut Registry) {
    concat::register(r);
    constants::register(r);
    diag::register(r);
    edit_distance::register(r);
    find::register(r);
    formats::register(r);
    gather::register(r);
    gradients::register(r);
    identity::register(r);
    indexing::register(r);
    inplace::register(r);
    list_diff::register(r);
    matrix_diag::register(r);
    mirror_pad_grad::register(r);
    one_hot::register(r);
    pad::register(r);
    partition::register(r);
    patches::register(r);
    queries::register(r);
    reshape::register(r);
    rotate::register(r);
    scatter_nd::register(r);
    search::register(r);
    sets::register(r);
    slice::register(r);
    space_batch::register(r);
    split::register(r);
    stitch::register(r);
    strided_slice_grad::register(r);
    tensor_scatter::register(r);
    tile::register(r);
    top_k::register(r);
    transpose::register(r);
}

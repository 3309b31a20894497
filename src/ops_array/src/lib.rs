//! Ops that make, move and select the elements of tensors.
#![forbid(unsafe_code)]

use tfcore_framework::Registry;

mod concat;
mod constants;
mod diag;
mod find;
mod gather;
mod gradients;
mod identity;
mod list_diff;
mod mirror_pad_grad;
mod one_hot;
mod pad;
mod partition;
mod queries;
mod reshape;
mod rotate;
mod scatter_nd;
mod slice;
mod split;
mod stitch;
mod strided_slice_grad;
#[cfg(test)]
mod testing;
mod tile;
mod top_k;
mod transpose;

/// Registers the ops of this family.
pub fn register(r: &mut Registry) {
    concat::register(r);
    constants::register(r);
    diag::register(r);
    find::register(r);
    gather::register(r);
    gradients::register(r);
    identity::register(r);
    list_diff::register(r);
    mirror_pad_grad::register(r);
    one_hot::register(r);
    pad::register(r);
    partition::register(r);
    queries::register(r);
    reshape::register(r);
    rotate::register(r);
    scatter_nd::register(r);
    slice::register(r);
    split::register(r);
    stitch::register(r);
    strided_slice_grad::register(r);
    tile::register(r);
    top_k::register(r);
    transpose::register(r);
}

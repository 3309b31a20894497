//! Ops that make, move and select the elements of tensors.
#![forbid(unsafe_code)]

use tfcore_framework::Registry;

mod concat;
mod constants;
mod find;
mod gather;
mod gradients;
mod identity;
mod list_diff;
mod one_hot;
mod pad;
mod queries;
mod reshape;
mod slice;
mod split;
mod stitch;
#[cfg(test)]
mod testing;
mod tile;
mod top_k;
mod transpose;
mod types;

/// Registers the ops of this family.
pub fn register(r: &mut Registry) {
    concat::register(r);
    constants::register(r);
    find::register(r);
    gather::register(r);
    gradients::register(r);
    identity::register(r);
    list_diff::register(r);
    one_hot::register(r);
    pad::register(r);
    queries::register(r);
    reshape::register(r);
    slice::register(r);
    split::register(r);
    stitch::register(r);
    tile::register(r);
    top_k::register(r);
    transpose::register(r);
}

//! Gradients of ops that give elements other places: each puts them back.

use tfcore_base::Result;
use tfcore_framework::{AttrValue, GradientContext, Gradients, Registry};

use super::by_first;

pub(crate) fn register(r: &mut Registry) {
    r.ops(["ExpandDims", "Reshape", "Squeeze"], |op| {
        op.gradient(|c| by_first(c, c.reshape(c.grad(0), c.shape(c.input(0)))));
    });
    r.op("Transpose").gradient(|c| {
        let back = c.invert_permutation(c.input(1));
        by_first(c, c.transpose(c.grad(0), back))
    });
    r.op("ReverseV2").gradient(|c| by_first(c, c.apply("ReverseV2", [c.grad(0), c.input(1)])));
    r.op("ReverseSequence").gradient(|c| inverse(c, "ReverseSequence", &["seq_dim", "batch_dim"]));
    r.op("Roll").gradient(|c| {
        let back = c.neg(c.input(1));
        by_first(c, c.apply("Roll", [c.grad(0), back, c.input(2)]))
    });
    r.op("SpaceToBatch").gradient(|c| inverse(c, "BatchToSpace", &["block_size"]));
    r.op("BatchToSpace").gradient(|c| inverse(c, "SpaceToBatch", &["block_size"]));
    r.op("SpaceToBatchND").gradient(|c| inverse(c, "BatchToSpaceND", &[]));
    r.op("BatchToSpaceND").gradient(|c| inverse(c, "SpaceToBatchND", &[]));
    // The reference forgets the format, for which it fails if that is not NHWC.
    r.op("SpaceToDepth").gradient(|c| inverse(c, "DepthToSpace", &["block_size", "data_format"]));
    r.op("DepthToSpace").gradient(|c| inverse(c, "SpaceToDepth", &["block_size", "data_format"]));
    r.op("MirrorPad").gradient(|c| inverse(c, "MirrorPadGrad", &["mode"]));
    r.op("MirrorPadGrad").gradient(|c| inverse(c, "MirrorPad", &["mode"]));
}

/// The op `name` on the gradient, with the other inputs and the attrs that the differentiated node has.
fn inverse(c: &GradientContext<'_>, name: &str, attrs: &[&str]) -> Result<Gradients> {
    let mut inputs = c.inputs().to_vec();
    inputs[0] = c.grad(0);
    let attrs: Vec<(&str, AttrValue)> =
        attrs.iter().filter_map(|&attr| Some((attr, c.attrs().get(attr)?.clone()))).collect();
    by_first(c, c.node(name, &inputs, &attrs))
}

//! Gradients of conditionals of the old kind. A branch that is not taken hands back nothing, as it has yielded nothing.

use tfcore_base::{Result, invalid};
use tfcore_framework::{GradientContext, Gradients, Operand, Registry};
use tfcore_tensor::Tensor;

pub(crate) fn register(r: &mut Registry) {
    // The gradient of the branch that was taken.
    r.op("Switch").gradient(|c| {
        let merged = c.node_of("Merge", &[Operand::List(c.grads())], &[]);
        Ok(vec![Some(merged), None])
    });
    r.op("Merge").gradient(merge);
}

/// The gradient goes to the input that came.
fn merge(c: &GradientContext<'_>) -> Result<Gradients> {
    let came = c.output(1);
    let only_if = |index: usize| {
        let index = i32::try_from(index).map_err(|_| invalid!("Merge has too many inputs"))?;
        let is_it = c.equal(came, c.constant(Tensor::scalar(index)));
        Ok(Some(c.apply("Switch", [c.grad(0), is_it]).at(1)))
    };
    (0..c.inputs().len()).map(only_if).collect()
}

//! The loop over strings that have nothing to do with one another.

use tfcore_base::{Elem, Result};
use tfcore_framework::{OpContext, for_each_part};
use tfcore_tensor::TString;

/// Output 0 is `of` each string of input 0, on several threads if there are many. `cost` is roughly the work for one
/// string, 1 being an addition.
pub(crate) fn map<O: Elem>(
    ctx: &OpContext<'_>,
    cost: usize,
    of: impl Fn(&[u8], &mut O) + Sync,
) -> Result<()> {
    let input = ctx.input(0)?;
    let texts = input.as_slice::<TString>()?;
    ctx.produce(0, input.shape().clone(), |out| {
        for_each_part(ctx.parallel(), out, cost, &|start, part| {
            for (out, text) in part.typed::<O>().iter_mut().zip(&texts[start..]) {
                of(text.as_bytes(), out);
            }
        });
    })
}

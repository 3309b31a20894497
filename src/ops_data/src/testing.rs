//! For the tests of the family.

use tfcore_framework::testing::step;
use tfcore_framework::{OpContext, Value};
use tfcore_math::pool::Parallel;

use crate::dataset::IterContext;

/// The context of a step of its own.
pub(crate) fn iter_context() -> IterContext {
    let step = step();
    let mut inputs: [Value; 0] = [];
    let mut outputs: [Value; 0] = [];
    IterContext::of(&OpContext::new(&mut inputs, &mut outputs, &[], &step, Parallel::SERIAL))
}

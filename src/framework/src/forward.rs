//! `Forward`: the kernel of ops that hand on what they get.

use std::sync::Arc;

use tfcore_base::Result;
use tfcore_tensor::Scalar;

use crate::context::OpContext;
use crate::kernel::{Kernel, KernelForm, ScalarKernel};

/// Makes each input the output of the same number.
pub struct Forward;

impl Kernel for Forward {
    fn compute(&self, ctx: &mut OpContext<'_>) -> Result<()> {
        for index in 0..ctx.num_inputs() {
            let tensor = ctx.take_input(index)?;
            ctx.set_output(index, tensor);
        }
        Ok(())
    }

    fn form(&self) -> KernelForm<'_> {
        KernelForm::Forwards
    }

    fn on_scalars(self: Arc<Self>) -> Option<Arc<dyn ScalarKernel>> {
        Some(self)
    }
}

impl ScalarKernel for Forward {
    fn apply(&self, [x, ..]: [&Scalar; 3], out: &mut Scalar) -> bool {
        *out = *x;
        true
    }

    /// Handing on a tensor costs less than making one.
    fn is_arithmetic(&self) -> bool {
        false
    }
}

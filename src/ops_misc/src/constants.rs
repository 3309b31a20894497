//! Ops without inputs, and those that hand on what they get.

use std::time::{SystemTime, UNIX_EPOCH};

use tfcore_base::{failed_precondition, require};
use tfcore_framework::{Forward, Registry, kernel, shape_fns};
use tfcore_tensor::{TString, Tensor};

pub(crate) fn register(r: &mut Registry) {
    // `Fact() -> fact: string`.
    r.op("Fact").shape(shape_fns::unknown).compute(|ctx| {
        ctx.set_output(0, Tensor::scalar(TString::from("0! == 1")));
        Ok(())
    });

    // `Timestamp() -> ts: double`: seconds since 1970.
    r.op("Timestamp").shape(shape_fns::scalar).compute(|ctx| {
        // A clock before 1970 counts as 1970.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        ctx.set_output(0, Tensor::scalar(now.as_secs_f64()));
        Ok(())
    });

    // `HostConst(; value, dtype) -> output: dtype`: a constant in host memory.
    r.op("HostConst").shape(shape_fns::unknown).cpu(|init| {
        let value = init.attrs.tensor("value")?;
        let (actual, dtype) = (value.dtype()?, init.output_dtypes[0]);
        require!(actual == dtype, "Type mismatch between value ({actual}) and dtype ({dtype})");
        let tensor = value.tensor()?;
        kernel(move |ctx| {
            ctx.set_output(0, tensor.clone());
            Ok(())
        })
    });

    // `_EagerConst(input: T) -> output: T`.
    r.op("_EagerConst").shape(shape_fns::unchanged).cpu(|_| Ok(Box::new(Forward)));

    // `CheckPinned(tensor: T) -> output: T`: only builds for GPUs pin memory.
    r.op("CheckPinned").shape(shape_fns::unchanged).compute(|_| {
        Err(failed_precondition!(
            "In order to check pinnedness, must be built with GOOGLE_CUDA or TENSORFLOW_USE_ROCM"
        ))
    });
}

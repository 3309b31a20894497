//! What `c_api_experimental.h` adds to ops.

use super::cancellation::TFE_CancellationManager;
use super::op::TFE_Op;
use crate::capi::handle::{CStrIn, Mut, Ref, Status, guard};

/// Makes the op a new one of this name, without inputs and attrs. `raw_device_name` may be null.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_OpReset(
    mut op_to_reset: Mut<TFE_Op>,
    op_or_function_name: CStrIn,
    raw_device_name: CStrIn,
    status: Status,
) {
    guard(status, (), || {
        let op = op_to_reset.get("op_to_reset")?;
        let name = op_or_function_name.get("op_or_function_name")?;
        let mut fresh = TFE_Op::new(op.client_context, &name)?;
        if let Some(device) = raw_device_name.opt() {
            fresh.set_device(&device)?;
        }
        *op = fresh;
        Ok(())
    })
}

/// Has the op end when the manager cancels; the manager may be deleted before.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_OpSetCancellationManager(
    mut op: Mut<TFE_Op>,
    cancellation_manager: Ref<TFE_CancellationManager>,
    status: Status,
) {
    guard(status, (), || {
        let manager = cancellation_manager.get("cancellation_manager")?;
        op.get("op")?.cancellation = Some(manager.cancellation().clone());
        Ok(())
    })
}

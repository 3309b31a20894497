//! Functions of contexts, and what contexts record of runs.

use std::ffi::c_uchar;
use std::sync::Arc;

use tfcore_base::invalid;
use tfcore_graph::Function;
use tfcore_proto as proto;

use super::context::TFE_Context;
use crate::capi::function::TF_Function;
use crate::capi::handle::{Bytes, CStrIn, Mut, Ref, Status, guard, quiet};
use crate::capi::tf_buffer::{TF_Buffer, fill};

/// Adds the function of a serialised `FunctionDef`.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_ContextAddFunctionDef(
    ctx: Ref<TFE_Context>,
    serialized_function_def: Bytes,
    size: usize,
    status: Status,
) {
    guard(status, (), || {
        let bytes = serialized_function_def.get(size, "serialized_function_def")?;
        let def = tfcore_proto::decode(bytes).map_err(|_| invalid!("Invalid FunctionDef proto"))?;
        TFE_Context::of(&ctx)?.add_function(&Arc::new(Function::new(def)?))
    })
}

/// Adds a function, which stays the caller's too.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_ContextAddFunction(
    ctx: Ref<TFE_Context>,
    function: Ref<TF_Function>,
    status: Status,
) {
    guard(status, (), || TFE_Context::of(&ctx)?.add_function(&function.get("function")?.function))
}

/// Removes a function.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_ContextRemoveFunction(ctx: Ref<TFE_Context>, name: CStrIn, status: Status) {
    guard(status, (), || TFE_Context::of(&ctx)?.remove_function(&name.get("name")?))
}

/// Returns whether the context has a function of that name.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_ContextHasFunction(ctx: Ref<TFE_Context>, name: CStrIn) -> c_uchar {
    quiet(0, || {
        let found = TFE_Context::of(&ctx)?.function(&name.get("name")?);
        Ok(c_uchar::from(found.is_some()))
    })
}

/// Has runs recorded for `TFE_ContextExportRunMetadata`. Nothing is recorded yet.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_ContextEnableRunMetadata(_ctx: Ref<TFE_Context>) {}

/// Ends what `TFE_ContextEnableRunMetadata` began.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_ContextDisableRunMetadata(_ctx: Ref<TFE_Context>) {}

/// Waits for all ops and stores a serialised `RunMetadata`, which is empty.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_ContextExportRunMetadata(
    ctx: Ref<TFE_Context>,
    buf: Mut<TF_Buffer>,
    status: Status,
) {
    guard(status, (), || {
        TFE_Context::of(&ctx)?.wait()?;
        fill(buf, &proto::RunMetadata::default())
    })
}

/// Begins a step. Steps of a context keep nothing that would have to end with them.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_ContextStartStep(_ctx: Ref<TFE_Context>) {}

/// Ends a step.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_ContextEndStep(_ctx: Ref<TFE_Context>) {}

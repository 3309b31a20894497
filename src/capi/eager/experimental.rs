//! Functions, numbers and records of contexts that stand in `c_api_experimental.h`.

use std::ptr;
use std::sync::Arc;

use tfcore_base::{Result, not_found};
use tfcore_graph::Function;
use tfcore_runtime::EagerContext;

use super::context::{TFE_Context, TFE_ContextOptions};
use crate::capi::function::TF_Function;
use crate::capi::handle::{Boxed, CStrIn, Mut, Ref, Status, guard, quiet};
use crate::capi::tf_buffer::{TF_Buffer, fill, fill_with};

fn find(context: &EagerContext, name: &str) -> Result<Arc<Function>> {
    let found = context.function(name);
    found.ok_or_else(|| not_found!("Unable to find FunctionDef with name: {name}"))
}

/// Stores a function as a serialised `FunctionDef`.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_ContextGetFunctionDef(
    ctx: Ref<TFE_Context>,
    function_name: CStrIn,
    buf: Mut<TF_Buffer>,
    status: Status,
) {
    guard(status, (), || {
        let function = find(TFE_Context::of(&ctx)?, &function_name.get("function_name")?)?;
        fill(buf, function.def())
    })
}

/// Returns a function, for the caller to delete; null on error.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_ContextGetFunction(
    ctx: Ref<TFE_Context>,
    name: CStrIn,
    status: Status,
) -> *mut TF_Function {
    guard(status, ptr::null_mut(), || {
        let function = find(TFE_Context::of(&ctx)?, &name.get("name")?)?;
        Ok(TF_Function { function }.hand_out())
    })
}

/// Has the graphs of functions recorded for `TFE_ContextExportRunMetadata`. Nothing is recorded yet.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_ContextEnableGraphCollection(_ctx: Ref<TFE_Context>) {}

/// Ends what `TFE_ContextEnableGraphCollection` began.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_ContextDisableGraphCollection(_ctx: Ref<TFE_Context>) {}

/// Stores the names of the ops that ran within functions, where they are recorded: nothing.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_GetExecutedOpNames(
    ctx: Ref<TFE_Context>,
    buf: Mut<TF_Buffer>,
    status: Status,
) {
    guard(status, (), || {
        TFE_Context::of(&ctx)?;
        fill_with(buf, b"")
    })
}

/// Returns a number that no other context of the process has.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_GetContextId(ctx: Ref<TFE_Context>) -> u64 {
    quiet(0, || Ok(TFE_Context::of(&ctx)?.id()))
}

/// Chooses another runtime, which is not built in: nothing changes.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_ContextOptionsSetTfrt(_options: Ref<TFE_ContextOptions>, _use_tfrt: bool) {}

//! Executors: in which order, and on whose thread, the eager ops of a thread run.

use std::ffi::c_int;
use std::ptr;
use std::sync::Arc;

use tfcore_runtime::Executor;

use super::context::TFE_Context;
use crate::capi::handle::{Boxed, Owned, Ref, Status, guard, quiet};

/// Runs ops at once, or later, in order, on a thread of its own.
pub struct TFE_Executor {
    executor: Arc<Executor>,
}

impl Boxed for TFE_Executor {}

/// Returns an executor, for the caller to delete. An asynchronous one lets at most `in_flight_nodes_limit` ops wait, any number if that
/// is 0. Ops are handed on one by one in any case.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_NewExecutor(
    is_async: bool,
    _enable_streaming_enqueue: bool,
    in_flight_nodes_limit: c_int,
) -> *mut TFE_Executor {
    quiet(ptr::null_mut(), || {
        let limit = usize::try_from(in_flight_nodes_limit).unwrap_or(0);
        Ok(TFE_Executor { executor: Executor::new(is_async, limit) }.hand_out())
    })
}

/// Deletes an executor; null is allowed. Threads that it is set for keep using it.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_DeleteExecutor(executor: Owned<TFE_Executor>) {
    drop(executor);
}

/// Returns whether ops run later.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_ExecutorIsAsync(executor: Ref<TFE_Executor>) -> bool {
    quiet(false, || Ok(executor.get("executor")?.executor.is_async()))
}

/// Waits until all ops have run; the first error since the last one was cleared goes to `status`.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_ExecutorWaitForAllPendingNodes(executor: Ref<TFE_Executor>, status: Status) {
    guard(status, (), || executor.get("executor")?.executor.wait())
}

/// Forgets the error, so that ops run again.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_ExecutorClearError(executor: Ref<TFE_Executor>) {
    quiet((), || {
        executor.get("executor")?.executor.clear_error();
        Ok(())
    });
}

/// Has the ops of this thread run by an executor.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_ContextSetExecutorForThread(
    ctx: Ref<TFE_Context>,
    executor: Ref<TFE_Executor>,
) {
    quiet((), || {
        let executor = executor.get("executor")?.executor.clone();
        TFE_Context::of(&ctx)?.set_thread_executor(executor);
        Ok(())
    });
}

/// Returns the executor of this thread, for the caller to delete.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_ContextGetExecutorForThread(ctx: Ref<TFE_Context>) -> *mut TFE_Executor {
    quiet(ptr::null_mut(), || {
        Ok(TFE_Executor { executor: TFE_Context::of(&ctx)?.executor() }.hand_out())
    })
}

/// Waits until all ops of all threads have run; the first error goes to `status`.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_ContextAsyncWait(ctx: Ref<TFE_Context>, status: Status) {
    guard(status, (), || TFE_Context::of(&ctx)?.wait())
}

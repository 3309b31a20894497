//! Contexts of eager execution.

use std::ffi::{c_int, c_uchar};
use std::ptr;
use std::sync::Arc;

use tfcore_base::{Result, invalid};
use tfcore_proto as proto;
use tfcore_runtime::{EagerContext, Policy, SessionConfig};

use crate::capi::device_list::TF_DeviceList;
use crate::capi::handle::{Boxed, Bytes, Mut, Owned, Ref, Status, guard, quiet};
use crate::capi::not_built_in::not_built_in;
use crate::ops;

/// How contexts are made.
pub struct TFE_ContextOptions {
    config: proto::ConfigProto,
    is_async: bool,
    policy: Policy,
}

/// Devices, functions, variables and kernels for ops that are executed one by one. All functions may be called by several
/// threads at once, except the deletion.
pub struct TFE_Context {
    pub(crate) context: Arc<EagerContext>,
}

impl Boxed for TFE_ContextOptions {}

impl Boxed for TFE_Context {}

/// What happens to an input that lies on another device than the op.
#[repr(C)]
#[derive(Clone, Copy)]
pub enum TFE_ContextDevicePlacementPolicy {
    /// The op fails.
    TFE_DEVICE_PLACEMENT_EXPLICIT = 0,
    /// The input is copied, and a warning is logged.
    TFE_DEVICE_PLACEMENT_WARN = 1,
    /// The input is copied.
    TFE_DEVICE_PLACEMENT_SILENT = 2,
    /// Inputs of int32 are copied, others make the op fail.
    TFE_DEVICE_PLACEMENT_SILENT_FOR_INT32 = 3,
}

use TFE_ContextDevicePlacementPolicy::*;

/// A `TFE_ContextDevicePlacementPolicy` as C passes it: any number.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct TFE_PolicyNumber(c_int);

impl TFE_PolicyNumber {
    /// Numbers that are no policy stand for the default one.
    fn policy(self) -> Policy {
        match self.0 {
            0 => Policy::Explicit,
            1 => Policy::Warn,
            3 => Policy::SilentForInt32,
            _ => Policy::Silent,
        }
    }
}

/// Returns options for a context, for the caller to delete: one thread for each processor, inputs copied between devices silently,
/// ops run on the caller's thread.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_NewContextOptions() -> *mut TFE_ContextOptions {
    quiet(ptr::null_mut(), || {
        let config = proto::ConfigProto::default();
        Ok(TFE_ContextOptions { config, is_async: false, policy: Policy::Silent }.hand_out())
    })
}

/// Sets the configuration: a serialised `ConfigProto`.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_ContextOptionsSetConfig(
    mut options: Mut<TFE_ContextOptions>,
    proto: Bytes,
    proto_len: usize,
    status: Status,
) {
    guard(status, (), || {
        let (options, bytes) = (options.get("options")?, proto.get(proto_len, "proto")?);
        options.config =
            tfcore_proto::decode(bytes).map_err(|_| invalid!("Unparseable ConfigProto"))?;
        Ok(())
    })
}

/// Has ops run later, in order, on a thread of the context. Errors then reach whoever asks for a result, and the ops that follow.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_ContextOptionsSetAsync(
    mut options: Mut<TFE_ContextOptions>,
    enable: c_uchar,
) {
    quiet((), || {
        options.get("options")?.is_async = enable != 0;
        Ok(())
    });
}

/// Sets what happens to inputs on other devices than their op.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_ContextOptionsSetDevicePlacementPolicy(
    mut options: Mut<TFE_ContextOptions>,
    policy: TFE_PolicyNumber,
) {
    quiet((), || {
        options.get("options")?.policy = policy.policy();
        Ok(())
    });
}

/// Deletes options; null is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_DeleteContextOptions(options: Owned<TFE_ContextOptions>) {
    drop(options);
}

/// Returns a context, for the caller to delete; null on error.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_NewContext(
    opts: crate::capi::handle::In<TFE_ContextOptions>,
    status: Status,
) -> *mut TFE_Context {
    guard(status, ptr::null_mut(), || {
        let options = opts.get("opts")?;
        let config = SessionConfig::from_proto(&options.config)?;
        let (registry, policy) = (ops::registry().clone(), options.policy);
        let context = EagerContext::new(registry, &config, options.is_async, policy)?;
        Ok(TFE_Context { context: Arc::new(context) }.hand_out())
    })
}

/// Deletes a context; null is allowed. Handles stay good. Waits for the ops that still run.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_DeleteContext(ctx: Owned<TFE_Context>) {
    drop(ctx);
}

impl TFE_Context {
    /// The context of an argument.
    pub(crate) fn of(ctx: &Ref<TFE_Context>) -> Result<&Arc<EagerContext>> {
        Ok(&ctx.get("ctx")?.context)
    }
}

/// Returns the devices of a context, for the caller to delete.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_ContextListDevices(
    ctx: Ref<TFE_Context>,
    status: Status,
) -> *mut TF_DeviceList {
    guard(status, ptr::null_mut(), || {
        Ok(TF_DeviceList::new(TFE_Context::of(&ctx)?.devices()).hand_out())
    })
}

/// Forgets the kernels that the context has prepared.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_ContextClearCaches(ctx: Ref<TFE_Context>) {
    quiet((), || {
        TFE_Context::of(&ctx)?.clear_caches();
        Ok(())
    });
}

/// Sets what happens to inputs on other devices than their op, for this thread.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_ContextSetThreadLocalDevicePlacementPolicy(
    ctx: Ref<TFE_Context>,
    policy: TFE_PolicyNumber,
) {
    quiet((), || {
        TFE_Context::of(&ctx)?.set_thread_policy(policy.policy());
        Ok(())
    });
}

/// Returns what happens to inputs on other devices than their op, for this thread.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_ContextGetDevicePlacementPolicy(
    ctx: Ref<TFE_Context>,
) -> TFE_ContextDevicePlacementPolicy {
    quiet(TFE_DEVICE_PLACEMENT_SILENT, || {
        Ok(match TFE_Context::of(&ctx)?.policy() {
            Policy::Explicit => TFE_DEVICE_PLACEMENT_EXPLICIT,
            Policy::Warn => TFE_DEVICE_PLACEMENT_WARN,
            Policy::Silent => TFE_DEVICE_PLACEMENT_SILENT,
            Policy::SilentForInt32 => TFE_DEVICE_PLACEMENT_SILENT_FOR_INT32,
        })
    })
}

/// Makes the context one of a cluster. Not implemented.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_ContextSetServerDef(
    _ctx: Ref<TFE_Context>,
    _keep_alive_secs: c_int,
    _proto: Bytes,
    _proto_len: usize,
    status: Status,
) {
    guard(status, (), || Err(not_built_in("TFE_ContextSetServerDef")))
}

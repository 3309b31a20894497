//! Cancellation of eager ops.

use std::collections::HashMap;
use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use parking_lot::Mutex;
use tfcore_framework::{Cancellation, CancellationToken};

use crate::capi::handle::{Boxed, CStrIn, In, Owned, Ref, quiet};

/// Cancels the ops that it is set on.
pub struct TFE_CancellationManager {
    cancellation: Arc<Cancellation>,
    next: AtomicI64,
    callbacks: Mutex<HashMap<i64, CancellationToken>>,
}

impl Boxed for TFE_CancellationManager {}

impl TFE_CancellationManager {
    pub(crate) fn cancellation(&self) -> &Arc<Cancellation> {
        &self.cancellation
    }

    /// Takes a callback back. Returns whether it was there and had not been called.
    fn deregister(&self, token: i64) -> bool {
        let known = self.callbacks.lock().remove(&token);
        known.is_some_and(|known| self.cancellation.deregister(known))
    }
}

/// Names a callback of a manager.
pub type TFE_CancellationToken = i64;

/// What a cancellation calls.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct TFE_CancelCallback {
    pub callback: Option<unsafe extern "C" fn(context: *mut c_void)>,
    pub context: *mut c_void,
}

// SAFETY: the client knows that the callback is called on whichever thread cancels.
unsafe impl Send for TFE_CancelCallback {}

impl TFE_CancelCallback {
    fn call(self) {
        if let Some(callback) = self.callback {
            // SAFETY: the client's promise when it registered the callback.
            unsafe { callback(self.context) }
        }
    }
}

/// Returns a manager, for the caller to delete.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_NewCancellationManager() -> *mut TFE_CancellationManager {
    quiet(ptr::null_mut(), || {
        let (cancellation, callbacks) = (Arc::default(), Mutex::default());
        Ok(TFE_CancellationManager { cancellation, next: AtomicI64::new(0), callbacks }.hand_out())
    })
}

/// Returns whether the ops have been cancelled.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_CancellationManagerIsCancelled(
    cancellation_manager: Ref<TFE_CancellationManager>,
) -> bool {
    quiet(false, || {
        Ok(cancellation_manager.get("cancellation_manager")?.cancellation.is_cancelled())
    })
}

/// As `TFE_CancellationManagerIsCancelled`: a cancellation takes no time.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_CancellationManagerIsCancelling(
    cancellation_manager: Ref<TFE_CancellationManager>,
) -> bool {
    TFE_CancellationManagerIsCancelled(cancellation_manager)
}

/// Cancels the ops, and calls each callback once, on this thread.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_CancellationManagerStartCancel(
    cancellation_manager: Ref<TFE_CancellationManager>,
) {
    quiet((), || {
        cancellation_manager.get("cancellation_manager")?.cancellation.cancel();
        Ok(())
    });
}

/// Returns a token for a callback.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_CancellationManagerGetToken(
    cancellation_manager: Ref<TFE_CancellationManager>,
) -> TFE_CancellationToken {
    quiet(-1, || {
        let manager = cancellation_manager.get("cancellation_manager")?;
        Ok(manager.next.fetch_add(1, Ordering::Relaxed))
    })
}

/// Has a callback called upon cancellation. Returns false, and never calls it, if that has happened already. `callback_name` is not
/// looked at.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_CancellationManagerRegisterCallback(
    cancellation_manager: Ref<TFE_CancellationManager>,
    token: TFE_CancellationToken,
    c_callback: In<TFE_CancelCallback>,
    _callback_name: CStrIn,
) -> bool {
    quiet(false, || {
        let manager = cancellation_manager.get("cancellation_manager")?;
        let callback = *c_callback.get("c_callback")?;
        let registered = manager.cancellation.register(move || callback.call());
        Ok(registered.map(|known| manager.callbacks.lock().insert(token, known)).is_some())
    })
}

/// Takes a callback back. Returns whether it was there and had not been called.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_CancellationManagerDeregisterCallback(
    cancellation_manager: Ref<TFE_CancellationManager>,
    token: TFE_CancellationToken,
) -> bool {
    quiet(false, || Ok(cancellation_manager.get("cancellation_manager")?.deregister(token)))
}

/// As `TFE_CancellationManagerDeregisterCallback`, which does not wait either.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_CancellationManagerTryDeregisterCallback(
    cancellation_manager: Ref<TFE_CancellationManager>,
    token: TFE_CancellationToken,
) -> bool {
    TFE_CancellationManagerDeregisterCallback(cancellation_manager, token)
}

/// Deletes a manager; null is allowed. Callbacks that are left are not called any more.
#[unsafe(no_mangle)]
pub extern "C" fn TFE_DeleteCancellationManager(
    cancellation_manager: Owned<TFE_CancellationManager>,
) {
    drop(cancellation_manager);
}

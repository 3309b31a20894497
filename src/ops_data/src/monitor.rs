//! `Monitor`: state that threads wait for, and waits that end when their step is cancelled.

use std::sync::Arc;

use parking_lot::{Condvar, Mutex, MutexGuard};
use tfcore_base::{Result, cancelled};

use crate::dataset::IterContext;

/// State and a signal that it has changed.
#[derive(Default)]
pub(crate) struct Monitor<T> {
    state: Mutex<T>,
    changed: Condvar,
}

impl<T: Send + 'static> Monitor<T> {
    pub(crate) fn new(state: T) -> Arc<Monitor<T>> {
        Arc::new(Monitor { state: Mutex::new(state), changed: Condvar::new() })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.state.lock()
    }

    /// Changes the state and wakes all who wait.
    pub(crate) fn change<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        let result = f(&mut self.state.lock());
        self.changed.notify_all();
        result
    }

    /// Waits until `poll` returns something.
    ///
    /// # Errors
    /// `Cancelled` once the step is.
    pub(crate) fn wait_until<R>(
        self: &Arc<Self>,
        ctx: &IterContext,
        mut poll: impl FnMut(&mut T) -> Option<R>,
    ) -> Result<R> {
        if let Some(result) = poll(&mut self.state.lock()) {
            self.changed.notify_all();
            return Ok(result);
        }
        let cancellation = &ctx.caller.cancellation;
        let this = self.clone();
        let token = cancellation.register(move || {
            // With the lock, so that nobody is between a look at the cancellation and the wait.
            drop(this.state.lock());
            this.changed.notify_all();
        });
        let Some(token) = token else {
            return Err(cancelled!("Iterator was cancelled"));
        };
        let mut state = self.state.lock();
        let result = loop {
            if let Some(result) = poll(&mut state) {
                break Ok(result);
            }
            if cancellation.is_cancelled() {
                break Err(cancelled!("Iterator was cancelled"));
            }
            self.changed.wait(&mut state);
        };
        drop(state);
        self.changed.notify_all();
        cancellation.deregister(token);
        result
    }
}

//! What the thread pool is made of: the standard library's threads, locks and atomics. Under `cfg(loom)` they are loom's, and the
//! models beside the pool go through the orders in which threads can run (`make loom`).

#[cfg(loom)]
pub(crate) use loom::{
    hint,
    sync::{Condvar, Mutex, MutexGuard, atomic},
    thread,
};
#[cfg(not(loom))]
pub(crate) use std::{
    hint,
    sync::{Condvar, Mutex, MutexGuard, atomic},
    thread,
};

/// The thread that made it waits until another one has called [`Parker::unpark`] since; there may be false alarms.
#[cfg(not(loom))]
pub(crate) struct Parker(thread::Thread);

#[cfg(not(loom))]
impl Parker {
    pub(crate) fn new() -> Parker {
        Parker(thread::current())
    }

    pub(crate) fn park(&self) {
        thread::park();
    }

    pub(crate) fn unpark(&self) {
        self.0.unpark();
    }
}

/// The same by other means: in loom, `unpark` also wakes those who wait for a lock.
#[cfg(loom)]
pub(crate) struct Parker {
    is_called: Mutex<bool>,
    called: Condvar,
}

#[cfg(loom)]
impl Parker {
    pub(crate) fn new() -> Parker {
        Parker { is_called: Mutex::new(false), called: Condvar::new() }
    }

    pub(crate) fn park(&self) {
        let mut is_called = self.is_called.lock().expect("a model that panics ends");
        while !*is_called {
            is_called = self.called.wait(is_called).expect("a model that panics ends");
        }
        *is_called = false;
    }

    pub(crate) fn unpark(&self) {
        *self.is_called.lock().expect("a model that panics ends") = true;
        self.called.notify_one();
    }
}

//! Cancellation: how a step that nobody waits for any more reaches the ops that do.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, Ordering};

/// What a waiting op leaves behind, to be called if its step is cancelled.
type Callback = Box<dyn FnOnce() + Send>;

/// Whether a step, or all steps of a session, have been cancelled, and who wants to know.
#[derive(Default)]
pub struct Cancellation {
    is_cancelled: AtomicBool,
    /// Whose cancellation reaches this one too: a step's is its session's.
    parent: Option<Arc<Cancellation>>,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    next: u64,
    callbacks: BTreeMap<u64, Callback>,
    /// This one's own callback in the parent, there once anybody waits here.
    link: Option<CancellationToken>,
}

/// Names a registered callback, to take it back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CancellationToken(u64);

impl Cancellation {
    /// One that is cancelled with `parent`.
    pub fn child_of(parent: &Arc<Cancellation>) -> Cancellation {
        let mut child = Cancellation::default();
        child.parent = Some(parent.clone());
        child
    }

    /// Whether this or its parent has been cancelled. Two loads: cheap enough for every op of a run.
    #[inline]
    pub fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Acquire)
            || self.parent.as_ref().is_some_and(|parent| parent.is_cancelled())
    }

    /// Whether it has not been cancelled, and nobody wants to know.
    pub(crate) fn is_untouched(&mut self) -> bool {
        let waiting = self.waiting.get_mut();
        waiting.callbacks.is_empty() && waiting.link.is_none() && !self.is_cancelled()
    }

    /// Cancels: every registered callback is called once, on this thread.
    pub fn cancel(&self) {
        let callbacks = {
            let mut waiting = self.waiting.lock();
            self.is_cancelled.store(true, Ordering::Release);
            std::mem::take(&mut waiting.callbacks)
        };
        callbacks.into_values().for_each(|callback| callback());
    }

    /// Has `callback` called upon cancellation. `None` if that has happened already: then the callback is
    /// dropped, and the caller gives up by itself.
    pub fn register(
        self: &Arc<Self>,
        callback: impl FnOnce() + Send + 'static,
    ) -> Option<CancellationToken> {
        self.register_boxed(Box::new(callback))
    }

    fn register_boxed(self: &Arc<Self>, callback: Callback) -> Option<CancellationToken> {
        let mut waiting = self.waiting.lock();
        if let (Some(parent), None) = (&self.parent, waiting.link) {
            let this: Weak<Cancellation> = Arc::downgrade(self);
            // Not called under this lock: a parent calls back from `cancel` alone.
            waiting.link = Some(parent.register_boxed(Box::new(move || {
                if let Some(this) = this.upgrade() {
                    this.cancel();
                }
            }))?);
        }
        if self.is_cancelled() {
            return None;
        }
        let token = waiting.next;
        waiting.next += 1;
        waiting.callbacks.insert(token, callback);
        Some(CancellationToken(token))
    }

    /// Takes a callback back. Returns whether it was still there; if not, it has been called or is about to be.
    pub fn deregister(&self, token: CancellationToken) -> bool {
        // Dropped after the lock: it may hold the last handle to something that asks here too.
        let callback = self.waiting.lock().callbacks.remove(&token.0);
        callback.is_some()
    }
}

impl Drop for Cancellation {
    fn drop(&mut self) {
        if let (Some(parent), Some(link)) = (&self.parent, self.waiting.get_mut().link) {
            parent.deregister(link);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[test]
    fn callbacks_are_called_once() {
        let calls = Arc::new(AtomicUsize::new(0));
        let count = || {
            let calls = calls.clone();
            move || {
                calls.fetch_add(1, Ordering::Relaxed);
            }
        };
        let session = Arc::new(Cancellation::default());
        let step = Arc::new(Cancellation::child_of(&session));
        let taken_back = step.register(count()).unwrap();
        step.register(count()).unwrap();
        assert!(step.deregister(taken_back));
        assert!(!step.deregister(taken_back));
        assert!(!step.is_cancelled());

        session.cancel();
        assert!(step.is_cancelled());
        assert_eq!(calls.load(Ordering::Relaxed), 1);
        step.cancel();
        assert_eq!(calls.load(Ordering::Relaxed), 1);
        assert!(step.register(count()).is_none());
        assert!(Arc::new(Cancellation::child_of(&session)).register(count()).is_none());
    }

    #[test]
    fn a_finished_step_leaves_nothing_in_its_session() {
        let session = Arc::new(Cancellation::default());
        let step = Arc::new(Cancellation::child_of(&session));
        step.register(|| ()).unwrap();
        assert_eq!(session.waiting.lock().callbacks.len(), 1);
        drop(step);
        assert_eq!(session.waiting.lock().callbacks.len(), 0);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::thread;

    use super::*;
    use crate::sync::atomic::AtomicUsize;

    /// A callback that counts its calls.
    fn counted(calls: &Arc<AtomicUsize>) -> impl FnOnce() + Send + 'static {
        let calls = calls.clone();
        move || {
            calls.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn who_registers_is_told_or_refused() {
        loom::model(|| {
            let session = Arc::new(Cancellation::default());
            let step = Arc::new(Cancellation::child_of(&session));
            let calls = Arc::new(AtomicUsize::new(0));
            let canceller = thread::spawn(move || session.cancel());
            let token = step.register(counted(&calls));
            canceller.join().unwrap();
            assert!(step.is_cancelled());
            assert_eq!(calls.load(Ordering::Relaxed), usize::from(token.is_some()));
        });
    }

    #[test]
    fn a_callback_is_called_or_taken_back() {
        loom::model(|| {
            let session = Arc::new(Cancellation::default());
            let step = Arc::new(Cancellation::child_of(&session));
            let calls = Arc::new(AtomicUsize::new(0));
            let token = step.register(counted(&calls)).unwrap();
            let both = [session.clone(), step.clone()];
            let cancellers = both.map(|it| thread::spawn(move || it.cancel()));
            let is_back = step.deregister(token);
            cancellers.into_iter().for_each(|canceller| canceller.join().unwrap());
            assert_eq!(calls.load(Ordering::Relaxed), usize::from(!is_back));
        });
    }

    #[test]
    fn a_step_may_end_while_its_session_is_cancelled() {
        loom::model(|| {
            let session = Arc::new(Cancellation::default());
            let step = Arc::new(Cancellation::child_of(&session));
            let calls = Arc::new(AtomicUsize::new(0));
            step.register(counted(&calls)).unwrap();
            let cancelled = session.clone();
            let canceller = thread::spawn(move || cancelled.cancel());
            drop(step);
            canceller.join().unwrap();
            assert!(calls.load(Ordering::Relaxed) <= 1);
            assert_eq!(session.waiting.lock().callbacks.len(), 0);
        });
    }
}

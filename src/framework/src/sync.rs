//! The locks and atomics of what several threads wait for. Under `cfg(loom)` they are loom's, and the models beside the code go through
//! the orders in which threads can run (`make loom`).

#[cfg(not(loom))]
pub use parking_lot::{Condvar, Mutex, MutexGuard};
#[cfg(not(loom))]
pub use std::{sync::atomic, thread_local};

#[cfg(loom)]
pub use loom::{sync::atomic, thread_local};
#[cfg(loom)]
pub use modelled::{Condvar, Mutex, MutexGuard};

/// loom's locks with the methods of `parking_lot`.
#[cfg(loom)]
mod modelled {
    use std::ops::{Deref, DerefMut};
    use std::time::Instant;

    #[derive(Default)]
    pub struct Mutex<T>(loom::sync::Mutex<T>);

    /// Empty only within [`Condvar::wait`].
    pub struct MutexGuard<'a, T>(Option<loom::sync::MutexGuard<'a, T>>);

    #[derive(Default)]
    pub struct Condvar(loom::sync::Condvar);

    const HELD: &str = "the lock is held";
    const SOUND: &str = "a model that panics ends";

    impl<T> Mutex<T> {
        pub fn new(value: T) -> Mutex<T> {
            Mutex(loom::sync::Mutex::new(value))
        }

        pub fn lock(&self) -> MutexGuard<'_, T> {
            MutexGuard(Some(self.0.lock().expect(SOUND)))
        }

        pub fn get_mut(&mut self) -> &mut T {
            self.0.get_mut().expect(SOUND)
        }
    }

    impl<T> Deref for MutexGuard<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            self.0.as_ref().expect(HELD)
        }
    }

    impl<T> DerefMut for MutexGuard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            self.0.as_mut().expect(HELD)
        }
    }

    impl Condvar {
        pub fn new() -> Condvar {
            Condvar::default()
        }

        pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
            let held = guard.0.take().expect(HELD);
            guard.0 = Some(self.0.wait(held).expect(SOUND));
        }

        /// Waits without end: models know no time.
        pub fn wait_until<T>(&self, guard: &mut MutexGuard<'_, T>, _deadline: Instant) {
            self.wait(guard);
        }

        pub fn notify_one(&self) {
            self.0.notify_one();
        }

        pub fn notify_all(&self) {
            self.0.notify_all();
        }
    }
}

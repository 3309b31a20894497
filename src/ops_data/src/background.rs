//! Threads of iterators: they take elements from the input one at a time, do the work on them at the same time, and hand the results
//! over in order or as they come. The threads start when the first element is asked for, and end with the iterator.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use tfcore_base::{Result, internal};
use tfcore_framework::Cancellation;

use crate::dataset::{Element, Iter, IterContext};
use crate::monitor::Monitor;

/// The work on one element, which `None` ends the sequence.
pub(crate) type Work<T> = Arc<dyn Fn(&IterContext, Element) -> Result<Option<T>> + Send + Sync>;

/// Threads and what they have done.
pub(crate) struct Background<T: Send + 'static> {
    shared: Arc<Monitor<Shared<T>>>,
    work: Work<T>,
    threads: usize,
    running: Vec<JoinHandle<()>>,
    cancellation: Arc<Cancellation>,
}

struct Shared<T> {
    /// `None` while a thread takes an element from it, and at the end.
    input: Option<Iter>,
    ended: bool,
    stopped: bool,
    in_order: bool,
    /// At most so many elements are begun and not handed over.
    limit: usize,
    /// The number of the first of `slots`.
    first: u64,
    /// One for each element that was begun, with its result once there is one.
    slots: VecDeque<Slot<T>>,
}

enum Slot<T> {
    Begun,
    Done(Result<Option<T>>),
    Taken,
}

impl<T: Send + 'static> Background<T> {
    /// `threads` threads, which have at most `limit` elements ahead.
    pub(crate) fn new(
        input: Iter,
        work: Work<T>,
        threads: usize,
        limit: usize,
        in_order: bool,
    ) -> Background<T> {
        let shared = Shared {
            input: Some(input),
            ended: false,
            stopped: false,
            in_order,
            limit: limit.max(1),
            first: 0,
            slots: VecDeque::new(),
        };
        Background {
            shared: Monitor::new(shared),
            work,
            threads: threads.max(1),
            running: Vec::new(),
            cancellation: Arc::new(Cancellation::default()),
        }
    }

    /// The next result; `None` at the end.
    ///
    /// # Errors
    /// Those of the input and of the work, in order; `Cancelled`.
    pub(crate) fn next(&mut self, ctx: &IterContext) -> Result<Option<T>> {
        while self.running.len() < self.threads {
            let (shared, work) = (self.shared.clone(), self.work.clone());
            let ctx = ctx.detached(&self.cancellation);
            let started = thread::Builder::new()
                .name("tfcore-data".to_string())
                .spawn(move || run(&shared, &work, &ctx));
            match started {
                Ok(thread) => self.running.push(thread),
                // Fewer threads than wanted are enough.
                Err(_) if !self.running.is_empty() => break,
                Err(error) => return Err(internal!("No thread for an iterator: {error}")),
            }
        }
        self.shared.wait_until(ctx, Shared::take)?
    }
}

impl<T> Shared<T> {
    /// A result that may be handed over; `None` if there is none yet.
    fn take(&mut self) -> Option<Result<Option<T>>> {
        while matches!(self.slots.front(), Some(Slot::Taken)) {
            self.slots.pop_front();
            self.first += 1;
        }
        let is_done = |slot: &Slot<T>| matches!(slot, Slot::Done(_));
        let found = match self.in_order {
            true => self.slots.front().is_some_and(is_done).then_some(0),
            false => self.slots.iter().position(is_done),
        };
        match found {
            Some(index) => match std::mem::replace(&mut self.slots[index], Slot::Taken) {
                Slot::Done(Ok(None)) => {
                    // The work has ended the sequence.
                    self.ended = true;
                    self.slots.clear();
                    Some(Ok(None))
                }
                Slot::Done(result) => Some(result),
                _ => None,
            },
            None if self.ended && self.slots.is_empty() => Some(Ok(None)),
            None => None,
        }
    }

    /// Elements that are begun and not handed over.
    fn ahead(&self) -> usize {
        self.slots.iter().filter(|slot| !matches!(slot, Slot::Taken)).count()
    }

    fn finish(&mut self, number: u64, result: Result<Option<T>>) {
        let index = number.checked_sub(self.first).and_then(|index| usize::try_from(index).ok());
        if let Some(slot) = index.and_then(|index| self.slots.get_mut(index)) {
            *slot = Slot::Done(result);
        }
    }
}

/// A thread's life. It holds no lock while it asks the input or does its work.
fn run<T: Send + 'static>(shared: &Arc<Monitor<Shared<T>>>, work: &Work<T>, ctx: &IterContext) {
    loop {
        let turn = shared.wait_until(ctx, |state| {
            if state.stopped || state.ended {
                return Some(None);
            }
            if state.ahead() >= state.limit {
                return None;
            }
            state.input.take().map(Some)
        });
        let Ok(Some(input)) = turn else {
            return;
        };
        let mut input = Returned { shared, input: Some(input), number: None };
        let next = match &mut input.input {
            Some(input) => input.next(ctx),
            None => return,
        };
        let number = shared.change(|state| {
            let number = state.first + state.slots.len() as u64;
            match &next {
                Ok(None) => state.ended = true,
                // Work on an earlier element has ended the sequence.
                _ if state.ended => {}
                _ => state.slots.push_back(Slot::Begun),
            }
            number
        });
        match next {
            Ok(None) => return,
            Err(error) => {
                shared.change(|state| state.finish(number, Err(error)));
            }
            Ok(Some(element)) => {
                // The next thread may have the input while this one works.
                input.number = Some(number);
                input.give_back();
                let result = work(ctx, element);
                input.number = None;
                shared.change(|state| state.finish(number, result));
            }
        }
    }
}

/// The input in the hands of a thread, which goes back whatever happens to the thread; and the element that it works on.
struct Returned<'s, T: Send + 'static> {
    shared: &'s Arc<Monitor<Shared<T>>>,
    input: Option<Iter>,
    number: Option<u64>,
}

impl<T: Send + 'static> Returned<'_, T> {
    fn give_back(&mut self) {
        if let Some(input) = self.input.take() {
            let left = self.shared.change(|state| match state.ended || state.stopped {
                true => Some(input),
                false => state.input.replace(input),
            });
            drop(left);
        }
    }
}

impl<T: Send + 'static> Drop for Returned<'_, T> {
    fn drop(&mut self) {
        self.give_back();
        if let Some(number) = self.number {
            let error = internal!("The function of an iterator panicked");
            self.shared.change(|state| state.finish(number, Err(error)));
        }
    }
}

impl<T: Send + 'static> Drop for Background<T> {
    fn drop(&mut self) {
        self.cancellation.cancel();
        let input = self.shared.change(|state| {
            state.stopped = true;
            state.input.take()
        });
        drop(input);
        for thread in self.running.drain(..) {
            // A thread cannot wait for itself; it ends by itself.
            if thread.thread().id() != thread::current().id() {
                // One that panicked has said so.
                let _ = thread.join();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use tfcore_base::{Code, invalid};
    use tfcore_tensor::Tensor;

    use super::*;
    use crate::testing::iter_context;

    fn numbers(count: i32) -> Iter {
        let mut next = 0;
        Iter::new(move |_| {
            next += 1;
            Ok((next <= count).then(|| vec![Tensor::scalar(next)]))
        })
        .unwrap()
    }

    fn value(element: &Element) -> i32 {
        element[0].scalar_value().unwrap()
    }

    #[test]
    fn results_come_in_order_however_long_they_take() {
        let work: Work<i32> = Arc::new(|_, element| {
            std::thread::sleep(Duration::from_millis(3 - value(&element) as u64 % 3));
            Ok(Some(value(&element) * 2))
        });
        let ctx = iter_context();
        let mut background = Background::new(numbers(20), work, 4, 4, true);
        for expected in 1..=20 {
            assert_eq!(background.next(&ctx).unwrap(), Some(expected * 2));
        }
        assert_eq!(background.next(&ctx).unwrap(), None);
        assert_eq!(background.next(&ctx).unwrap(), None);
    }

    #[test]
    fn without_order_all_come_once() {
        let work: Work<i32> = Arc::new(|_, element| Ok(Some(value(&element))));
        let ctx = iter_context();
        let mut background = Background::new(numbers(20), work, 3, 5, false);
        let mut all = Vec::new();
        while let Some(one) = background.next(&ctx).unwrap() {
            all.push(one);
        }
        all.sort_unstable();
        assert_eq!(all, (1..=20).collect::<Vec<_>>());
    }

    #[test]
    fn errors_come_at_their_place_and_are_not_the_end() {
        let work: Work<i32> = Arc::new(|_, element| match value(&element) {
            2 => Err(invalid!("two")),
            other => Ok(Some(other)),
        });
        let ctx = iter_context();
        let mut background = Background::new(numbers(3), work, 2, 2, true);
        assert_eq!(background.next(&ctx).unwrap(), Some(1));
        assert_eq!(background.next(&ctx).unwrap_err().message(), "two");
        assert_eq!(background.next(&ctx).unwrap(), Some(3));
        assert_eq!(background.next(&ctx).unwrap(), None);
    }

    #[test]
    fn no_more_than_the_limit_is_begun() {
        let begun = Arc::new(AtomicUsize::new(0));
        let counter = begun.clone();
        let work: Work<i32> = Arc::new(move |_, element| {
            counter.fetch_add(1, Ordering::SeqCst);
            Ok(Some(value(&element)))
        });
        let ctx = iter_context();
        let mut background = Background::new(numbers(50), work, 2, 3, true);
        assert_eq!(background.next(&ctx).unwrap(), Some(1));
        std::thread::sleep(Duration::from_millis(20));
        assert!(begun.load(Ordering::SeqCst) <= 4);
    }

    #[test]
    fn who_waits_is_cancelled_and_threads_end() {
        let work: Work<i32> = Arc::new(|ctx, _| {
            while !ctx.caller.cancellation.is_cancelled() {
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok(None)
        });
        let ctx = iter_context();
        let cancellation = ctx.caller.cancellation.clone();
        let mut background = Background::new(numbers(5), work, 2, 2, true);
        let canceller = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(10));
            cancellation.cancel();
        });
        assert_eq!(background.next(&ctx).unwrap_err().code(), Code::Cancelled);
        canceller.join().unwrap();
        drop(background);
    }
}

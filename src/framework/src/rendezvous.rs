//! The rendezvous of a step: where one node leaves a value for another one to which no edge leads.

use std::collections::VecDeque;
use std::collections::btree_map::{BTreeMap, Entry};
use std::sync::Arc;

use parking_lot::Mutex;
use tfcore_base::{Result, cancelled};

use crate::kernel::{Step, Value};

/// Who gets a value, or learns that none will come.
type Receiver = Box<dyn FnOnce(Result<Value>) + Send>;

/// Values by key. Each is received once; those of one key in the order in which they were sent. A dead value travels as an
/// absent one.
#[derive(Default)]
pub struct Rendezvous {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// No key has an empty side.
    meetings: BTreeMap<String, Meeting>,
    /// Whether the step's cancellation is going to wake those who wait.
    is_watched: bool,
}

/// Values before their receivers, or the other way round.
enum Meeting {
    Sent(VecDeque<Value>),
    Awaited(VecDeque<Receiver>),
}

impl Step {
    /// Leaves a value for whoever receives `key`, in whichever part of the step.
    pub fn send(&self, key: &str, value: Value) {
        let rendezvous = &self.first.as_deref().unwrap_or(self).rendezvous;
        let met = rendezvous.state.lock().send(key, value);
        if let Some((receiver, value)) = met {
            receiver(Ok(value));
        }
    }

    /// Has `receiver` called with the next value of `key`, at once or later; with `Cancelled` if the step is cancelled before
    /// there is one.
    pub fn receive(
        self: &Arc<Self>,
        key: &str,
        receiver: impl FnOnce(Result<Value>) + Send + 'static,
    ) {
        let first = self.first.as_ref().unwrap_or(self);
        let (met, was_watched) = {
            let mut state = first.rendezvous.state.lock();
            let met = state.receive(key, Box::new(receiver));
            let waits = met.is_none();
            let was_watched = state.is_watched;
            state.is_watched |= waits;
            (met, was_watched || !waits)
        };
        if let Some((receiver, value)) = met {
            return receiver(Ok(value));
        }
        if !was_watched {
            let step = Arc::downgrade(first);
            // If it comes too late it is not called, but then the step is cancelled already.
            let _token = first.cancellation.register(move || {
                if let Some(step) = step.upgrade() {
                    step.rendezvous.abort();
                }
            });
        }
        if first.cancellation.is_cancelled() {
            first.rendezvous.abort();
        }
    }
}

impl Rendezvous {
    /// Whether nothing has been left here and nobody has waited.
    pub(crate) fn is_untouched(&mut self) -> bool {
        let state = self.state.get_mut();
        state.meetings.is_empty() && !state.is_watched
    }

    /// Ends the wait of all receivers.
    fn abort(&self) {
        let meetings = std::mem::take(&mut self.state.lock().meetings);
        for meeting in meetings.into_values() {
            if let Meeting::Awaited(receivers) = meeting {
                receivers
                    .into_iter()
                    .for_each(|receiver| receiver(Err(cancelled!("Step was cancelled"))));
            }
        }
    }
}

impl State {
    /// Leaves a value; returns it with its receiver if that has been waiting.
    fn send(&mut self, key: &str, value: Value) -> Option<(Receiver, Value)> {
        match self.meetings.entry(key.to_string()) {
            Entry::Vacant(entry) => {
                entry.insert(Meeting::Sent(VecDeque::from([value])));
                None
            }
            Entry::Occupied(mut entry) => match entry.get_mut() {
                Meeting::Sent(values) => {
                    values.push_back(value);
                    None
                }
                Meeting::Awaited(receivers) => {
                    let receiver = receivers.pop_front();
                    if receivers.is_empty() {
                        entry.remove();
                    }
                    receiver.map(|receiver| (receiver, value))
                }
            },
        }
    }

    /// Leaves a receiver; returns it with its value if that has been there.
    fn receive(&mut self, key: &str, receiver: Receiver) -> Option<(Receiver, Value)> {
        match self.meetings.entry(key.to_string()) {
            Entry::Vacant(entry) => {
                entry.insert(Meeting::Awaited(VecDeque::from([receiver])));
                None
            }
            Entry::Occupied(mut entry) => match entry.get_mut() {
                Meeting::Awaited(receivers) => {
                    receivers.push_back(receiver);
                    None
                }
                Meeting::Sent(values) => {
                    let value = values.pop_front();
                    if values.is_empty() {
                        entry.remove();
                    }
                    value.map(|value| (receiver, value))
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use tfcore_base::Code;
    use tfcore_tensor::Tensor;

    use super::*;

    type Received = Arc<Mutex<Vec<Result<Option<i32>>>>>;

    /// Receives `key`, a number or something dead.
    fn receive(step: &Arc<Step>, key: &str, received: &Received) {
        let received = received.clone();
        step.receive(key, move |value| {
            let number = value.map(|value| match value {
                Value::Tensor(tensor) => Some(tensor.scalar_value::<i32>().unwrap()),
                _ => None,
            });
            received.lock().push(number);
        });
    }

    fn number(number: i32) -> Value {
        Value::Tensor(Tensor::scalar(number))
    }

    #[test]
    fn values_meet_their_receivers() {
        let first = Arc::new(Step::default());
        let other = Arc::new(Step { first: Some(first.clone()), ..Step::default() });
        let received = Received::default();
        first.send("a", number(1));
        first.send("a", Value::Absent);
        receive(&other, "a", &received);
        receive(&first, "b", &received);
        receive(&first, "b", &received);
        receive(&first, "a", &received);
        other.send("b", number(2));
        first.send("b", number(3));
        let numbers: Vec<Option<i32>> = received.lock().drain(..).map(Result::unwrap).collect();
        assert_eq!(numbers, [Some(1), None, Some(2), Some(3)]);
        assert!(first.rendezvous.state.lock().meetings.is_empty());
    }

    #[test]
    fn a_cancelled_step_wakes_its_receivers() {
        let step = Arc::new(Step::default());
        let received = Received::default();
        receive(&step, "a", &received);
        assert!(received.lock().is_empty());
        step.cancellation.cancel();
        receive(&step, "b", &received);
        let received = received.lock();
        let codes: Vec<Code> = received.iter().map(|r| r.as_ref().unwrap_err().code()).collect();
        assert_eq!(codes, [Code::Cancelled; 2]);
    }
}

//! The rendezvous of a step: where one node leaves a value for another one to which no edge leads.

use std::collections::VecDeque;
use std::collections::btree_map::{BTreeMap, Entry};

use parking_lot::Mutex;
use tfcore_base::{Result, cancelled};

use crate::value::Value;

/// Who gets a value, or learns that none will come.
pub(crate) type Receiver = Box<dyn FnOnce(Result<Value>) + Send>;

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

impl Rendezvous {
    /// Whether nothing has been left here and nobody has waited.
    pub(crate) fn is_untouched(&mut self) -> bool {
        let state = self.state.get_mut();
        state.meetings.is_empty() && !state.is_watched
    }

    /// Leaves a value for whoever receives `key`.
    pub(crate) fn send(&self, key: &str, value: Value) {
        let met = self.state.lock().send(key, value);
        if let Some((receiver, value)) = met {
            receiver(Ok(value));
        }
    }

    /// Calls `receiver` with the next value of `key`, at once or later. Returns `None` if the value was there, else
    /// true if the step's cancellation does not call [`Rendezvous::abort`] yet.
    pub(crate) fn receive(&self, key: &str, receiver: Receiver) -> Option<bool> {
        let mut state = self.state.lock();
        if let Some((receiver, value)) = state.receive(key, receiver) {
            drop(state);
            receiver(Ok(value));
            return None;
        }
        Some(!std::mem::replace(&mut state.is_watched, true))
    }

    /// Ends the wait of all receivers.
    pub(crate) fn abort(&self) {
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
    use std::sync::Arc;

    use tfcore_base::Code;
    use tfcore_tensor::Tensor;

    use super::*;
    use crate::step::Step;

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

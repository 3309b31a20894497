//! What nodes have for the caller, noted as they end.

use super::*;
use tfcore_plan::retval::Retval;

impl Flow {
    /// The error of a result that two iterations have yielded.
    pub(super) fn set_twice(&self, result: u32) -> Error {
        let retval = self.plan.retvals.get(result as usize);
        retval.map_or_else(|| internal!("A result is in a loop"), Retval::set_twice)
    }
}

impl Events<'_> {
    /// Keeps the results among what a node yields in the iteration in which it runs. What is alive behind an Exit or a constant
    /// Enter is elsewhere, or in several iterations: there it is kept as it gets there.
    pub(super) fn note_end(&mut self, place: Place, number: u32, outputs: Option<&Outputs>) {
        match self.node(number).kind {
            Kind::Exit => {}
            Kind::Enter { is_constant: true, .. } if outputs.is_some() => {}
            _ => self.note(place, number, outputs),
        }
    }

    fn note(&mut self, place: Place, number: u32, outputs: Option<&Outputs>) {
        match place.frame {
            ROOT => self.note_results(number, outputs),
            _ => self.note_inner_results(number, outputs),
        }
    }

    /// Keeps what a node has for the caller. What is dead is absent.
    fn note_results(&mut self, number: u32, outputs: Option<&Outputs>) {
        for &(output, result) in &self.node(number).results {
            let value = outputs.map_or(Value::Absent, |outputs| outputs[output as usize].clone());
            self.state.results[result as usize] = Some(value);
        }
    }

    /// As [`Events::note_results`], for a node inside of a loop, which may be alive in one iteration only.
    fn note_inner_results(&mut self, number: u32, outputs: Option<&Outputs>) {
        let Some(outputs) = outputs else { return };
        for &(output, result) in &self.node(number).results {
            let value = &outputs[output as usize];
            match &mut self.state.results[result as usize] {
                _ if matches!(value, Value::Absent) => {}
                Some(_) => self.state.set_twice = Some(result),
                unset => *unset = Some(value.clone()),
            }
        }
    }

    /// Tells the frame around, where an Exit may be what is fetched.
    pub(super) fn propagate_exit(&mut self, parent: Place, number: u32, outputs: Option<Outputs>) {
        self.note(parent, number, outputs.as_ref());
        self.propagate(parent, number, outputs);
    }

    /// Tells an iteration what a constant Enter brings: to whoever fetches it, every iteration has yielded it.
    pub(super) fn propagate_constant(
        &mut self,
        place: Place,
        number: u32,
        outputs: Option<Outputs>,
    ) {
        self.note_inner_results(number, outputs.as_ref());
        self.propagate(place, number, outputs);
    }
}

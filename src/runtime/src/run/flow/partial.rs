//! A run whose arguments come one by one, and whose results are looked at before it ends.

use super::*;

impl Flow {
    /// Says when a call that goes on with the run has to be over, for nodes that take long.
    pub(crate) fn limit_call(&self, deadline: Option<Instant>) {
        if let (Some(deadlines), Some(deadline)) = (&self.run.call_deadlines, deadline) {
            deadlines.lock().push(deadline);
        }
    }

    /// Ends what [`Flow::limit_call`] said for a call; those of others stay.
    pub(crate) fn unlimit_call(&self, deadline: Option<Instant>) {
        let Some(deadlines) = &self.run.call_deadlines else { return };
        let deadlines = &mut *deadlines.lock();
        if let Some(index) = deadlines.iter().position(|&other| Some(other) == deadline) {
            deadlines.swap_remove(index);
        }
    }

    /// Begins a run without its arguments. `done` is called when it ends, with no results: they stay here.
    pub(crate) fn start_partial(
        plan: &Arc<Plan>,
        dataflow: &Arc<Dataflow>,
        run: &Arc<Run>,
        queue: Arc<Queue>,
        done: Done,
    ) -> Arc<Flow> {
        let flow = Arc::new(Flow {
            plan: plan.clone(),
            dataflow: dataflow.clone(),
            run: run.clone(),
            scope: Scope::STEP,
            queue,
            is_partial: true,
            state: Mutex::default(),
            done: Mutex::new(Some(done)),
        });
        let missing = std::iter::repeat_with(|| None).take(plan.arg_dtypes.len());
        let ready = flow.begin(missing);
        flow.launch(ready);
        flow.settle();
        flow
    }

    /// Brings an argument. Each comes once, or is given up.
    pub(crate) fn deliver(self: &Arc<Self>, index: usize, value: Value) {
        let ready = {
            let state = &mut *self.state.lock();
            let mut events = Events::new(self, state);
            if events.state.error.is_none() {
                events.deliver_arg(index, value);
            }
            events.run()
        };
        self.launch(ready);
        self.settle();
        self.tell();
    }

    /// Ends a run of which so many arguments will not come, with `error` if it has none.
    pub(crate) fn give_up(&self, missing: usize, error: Error) {
        self.fail(error);
        (0..missing).for_each(|_| self.settle());
    }

    /// The results of these numbers, once all are there; those that are dead are absent.
    pub(crate) fn results(&self, wanted: &[usize]) -> Option<Result<Outputs>> {
        let state = self.state.lock();
        if let Some(error) = &state.error {
            return Some(Err(error.clone()));
        }
        let is_over = state.outstanding == 0;
        let result = |&index: &usize| match &state.results[index] {
            None => is_over.then_some(Value::Absent),
            result => result.clone(),
        };
        wanted.iter().map(result).collect::<Option<Outputs>>().map(Ok)
    }

    /// Whether the run has ended, or failed.
    pub(crate) fn is_over(&self) -> bool {
        let state = self.state.lock();
        state.outstanding == 0 || state.error.is_some()
    }

    /// Wakes those who wait for single results.
    pub(super) fn tell(&self) {
        if self.is_partial {
            self.queue.wake();
        }
    }
}

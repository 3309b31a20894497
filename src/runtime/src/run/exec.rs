//! `Run` and `Exec`: what all plans of a step share, and a step seen from one of its plans.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use parking_lot::Mutex;
use smallvec::SmallVec;
use tfcore_base::{
    Code, Error, Result, cancelled, deadline_exceeded, internal, resource_exhausted,
};
use tfcore_framework::{Outputs, Step, Value};
use tfcore_math::pool::{Parallel, Pool};
use tfcore_plan::functions::Functions;
use tfcore_plan::plan::{Control, Function, Plan, PlanNode};
use tfcore_tensor::Tensor;

use crate::trace::record::Trace;

/// The inputs of a node, owned.
pub type Inputs = SmallVec<[Value; 3]>;

/// The gears, as nodes see them that run other plans. `engine.rs` implements it and imports all gears.
pub(crate) trait Engine: Sync {
    /// Runs a plan to its end; this thread takes part.
    fn run_plan(&self, plan: &Arc<Plan>, args: Inputs, exec: Exec<'_>) -> Result<Outputs>;

    /// Runs a node that has plans of its own to its end on this thread.
    fn run_control(
        &self,
        control: &Control,
        inputs: Inputs,
        outputs: &mut [Value],
        node: &PlanNode,
        exec: Exec<'_>,
    ) -> Result<()>;
}

/// Functions may call each other so deep. Recursion that never ends is an error, not a crash.
const MAX_DEPTH: u32 = 10_000;

/// What a plan is part of: what a cancelled step says depends on where that is noticed between two nodes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Within {
    Step,
    /// A loop of Switches.
    Loop,
    /// A While that is not lowered to them.
    Call,
}

impl Within {
    fn cancelled(self) -> Error {
        match self {
            Within::Step => cancelled!("Step was cancelled"),
            Within::Loop => cancelled!("Loop execution was cancelled."),
            Within::Call => cancelled!("Function was cancelled before it was started"),
        }
    }
}

/// What all plans of a step share.
pub(crate) struct Run {
    /// The step on the first device.
    pub(crate) step: Arc<Step>,
    /// The step on the other devices.
    pub(crate) others: Vec<Arc<Step>>,
    pub(crate) pool: Option<Arc<Pool>>,
    pub(crate) trace: Option<Arc<Trace>>,
    pub(crate) deadline: Option<Instant>,
    /// Of a partial run: when the calls that go on with it now have to be over, each for itself.
    pub(crate) call_deadlines: Option<Mutex<Vec<Instant>>>,
    pub(crate) functions: Arc<Functions>,
    /// The gears.
    pub(crate) engine: &'static dyn Engine,
    /// The error for which the step was cancelled, whichever of its plans it arose in.
    pub(crate) cause: OnceLock<Error>,
}

impl Run {
    /// Whether a run that is over can be the next one: nobody holds on to anything of it.
    pub(crate) fn is_untouched(&mut self) -> bool {
        self.others.is_empty()
            && self.trace.is_none()
            && self.cause.get().is_none()
            && Arc::get_mut(&mut self.step).is_some_and(Step::is_untouched)
    }

    /// What a run that ended with `error` reports: for what its end made fail, the error that ended it.
    pub(crate) fn cause_of(&self, error: Error) -> Error {
        match self.cause.get() {
            // It arose between nodes, wherever it was noticed.
            _ if error.code() == Code::DeadlineExceeded && self.is_late() => timed_out(),
            Some(cause) if error.code() == Code::Cancelled => cause.clone(),
            _ => error,
        }
    }

    /// Whether its time is over.
    pub(crate) fn is_late(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// The step on the device with this number.
    #[inline]
    pub(crate) fn step_on(&self, device: u16) -> &Arc<Step> {
        match device {
            0 => &self.step,
            other => &self.others[usize::from(other) - 1],
        }
    }
}

/// Where in a step a plan runs.
#[derive(Clone, Copy)]
pub(crate) struct Scope {
    /// So many calls deep.
    depth: u32,
    within: Within,
}

impl Scope {
    /// That of the plan for the request.
    pub(crate) const STEP: Scope = Scope { depth: 0, within: Within::Step };
}

/// A step, seen from one of its plans.
#[derive(Clone, Copy)]
pub(crate) struct Exec<'r> {
    pub(crate) run: &'r Arc<Run>,
    pub(crate) scope: Scope,
}

impl<'r> Exec<'r> {
    pub(crate) fn new(run: &'r Arc<Run>) -> Exec<'r> {
        Exec { run, scope: Scope::STEP }
    }

    /// The view of a function that a kernel calls, around which there are so many calls already.
    pub(crate) fn called_by_kernel(run: &'r Arc<Run>, depth: u32) -> Exec<'r> {
        Exec { run, scope: Scope { depth, within: Within::Call } }
    }

    /// The view from a part of the plan.
    pub(crate) fn within(self, within: Within) -> Exec<'r> {
        Exec { scope: Scope { within, ..self.scope }, ..self }
    }

    pub(crate) fn parallel(self) -> Parallel<'r> {
        self.run.pool.as_ref().map_or(Parallel::SERIAL, |pool| Parallel::new(pool))
    }

    /// Whether the step is to go on.
    ///
    /// # Errors
    /// `Cancelled` or `DeadlineExceeded`.
    #[inline]
    pub(crate) fn check(self) -> Result<()> {
        if self.run.step.cancellation.is_cancelled() {
            return Err(self.scope.within.cancelled());
        }
        match (&self.run.deadline, &self.run.call_deadlines) {
            (None, None) => Ok(()),
            _ => self.check_time(),
        }
    }

    fn check_time(self) -> Result<()> {
        let deadline = match &self.run.call_deadlines {
            None => self.run.deadline,
            Some(deadlines) => deadlines.lock().iter().min().copied(),
        };
        match deadline {
            Some(deadline) if Instant::now() >= deadline => Err(timed_out()),
            _ => Ok(()),
        }
    }

    /// The error of a node, with its name. What memory is in use is noted before it is given back.
    #[cold]
    pub(crate) fn blame(self, node: &PlanNode, error: Error) -> Error {
        if error.code() == Code::ResourceExhausted
            && let Some(trace) = &self.run.trace
        {
            trace.note_usage();
        }
        error.at_node(&node.name)
    }

    /// The view of a function that is called.
    pub(crate) fn deeper(self, callee: &Function) -> Result<Exec<'r>> {
        let Scope { depth, .. } = self.scope;
        if depth >= MAX_DEPTH {
            return Err(resource_exhausted!(
                "Calls are nested deeper than {MAX_DEPTH}, at function '{}'",
                callee.name
            ));
        }
        Ok(Exec { scope: Scope { depth: depth + 1, ..self.scope }, ..self })
    }
}

/// The error of a step whose time is over.
pub(crate) fn timed_out() -> Error {
    deadline_exceeded!("Timed out waiting for notification")
}

/// The tensor of a value that is fetched.
pub(crate) fn fetched(value: Value) -> Result<Tensor> {
    match value {
        Value::Tensor(tensor) => Ok(tensor),
        Value::Ref(variable) => variable.read(),
        Value::Absent => Err(internal!("A dead value has no tensor")),
    }
}

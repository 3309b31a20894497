//! `Plan`: a request, or a function, made ready to run again and again.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64};

use parking_lot::MutexGuard;
use smallvec::SmallVec;
use tfcore_base::{DType, Error, failed_precondition};
use tfcore_framework::{InputSlot, Kernel, OpDef, Value};
use tfcore_graph::Name;
use tfcore_tensor::Scalar;

use crate::control::Control;
use crate::dataflow::Dataflow;
use crate::lanes::Lanes;
use crate::retval::Retval;
use crate::scalars::ScalarGroups;

/// What a node of a plan does.
pub(crate) enum Action {
    Kernel(Arc<dyn Kernel>),
    /// A kernel that wants to know of dead inputs: it tells others.
    Transfer(Arc<dyn Kernel>),
    /// Hands its input on: the ends of a frame, and identities.
    Forward,
    /// Hands its first input to the output that the second one names; the other outputs are dead.
    Switch,
    /// Hands on the input that is not dead, and its index.
    Merge,
    /// Runs even if what it waits for is dead.
    Trigger,
    /// Runs other plans.
    Control(Box<Control>),
}

/// One node of a plan.
pub(crate) struct PlanNode {
    pub(crate) name: Name,
    pub(crate) op: Arc<OpDef>,
    pub(crate) action: Action,
    /// The number of the device that it runs on.
    pub(crate) device: u16,
    /// Whether it is a node of a function's body rather than of the graph.
    pub(crate) in_function: bool,
    pub(crate) inputs: SmallVec<[InputSlot; 3]>,
    /// The first slot of the outputs; they lie side by side, behind those of all inputs.
    pub(crate) output: u32,
    pub(crate) output_dtypes: SmallVec<[DType; 8]>,
    /// The nodes of the plan that it runs after without reading them.
    pub(crate) controls: SmallVec<[u32; 2]>,
    /// Slots that nobody reads after it.
    pub(crate) drops: SmallVec<[u32; 3]>,
    /// How inputs that may hold variables are to be handed to the kernel; empty if there are none.
    pub(crate) refs: Box<[RefInput]>,
}

impl PlanNode {
    pub(crate) fn num_outputs(&self) -> usize {
        self.output_dtypes.len()
    }

    /// Whether somebody reads an output.
    pub(crate) fn is_read(&self, output: usize) -> bool {
        !self.drops.contains(&(self.output + output as u32))
    }

    /// The kernel's form that does not hold a thread while it waits.
    pub(crate) fn blocking(&self) -> Option<&Arc<dyn tfcore_framework::BlockingKernel>> {
        match &self.action {
            Action::Kernel(kernel) => kernel.blocking(),
            _ => None,
        }
    }
}

/// What a kernel wants of an input that may be a variable.
#[derive(Debug, Clone)]
pub(crate) struct RefInput {
    /// What the input is in the node's definition, and the node's name.
    pub(crate) input: Box<str>,
    pub(crate) node: Name,
    /// Its value rather than the variable.
    pub(crate) deref: bool,
    /// Whether the variable may be without a value.
    pub(crate) may_be_uninitialized: bool,
}

impl RefInput {
    /// The error of a variable without a value.
    pub(crate) fn uninitialized(&self) -> Error {
        let error = failed_precondition!("Attempting to use uninitialized value {}", self.input);
        error.at_node(&self.node)
    }
}

/// Nodes in an order in which they can run one after the other, and the slots through which values
/// pass: first those of the constants, then those of the arguments, then the nodes' outputs.
#[derive(Default)]
pub(crate) struct Body {
    pub(crate) nodes: Vec<PlanNode>,
    pub(crate) constants: Vec<Value>,
    pub(crate) num_args: usize,
    pub(crate) num_slots: usize,
    /// The slots of what the plan yields.
    pub(crate) results: Vec<u32>,
    /// Whether results may be moved out: none is a constant or yielded twice.
    pub(crate) moves_results: bool,
    /// Whether a value may be dead, so that nodes have to look.
    pub(crate) may_be_dead: bool,
    /// The nodes that run on bare scalars where they can.
    pub(crate) scalars: ScalarGroups,
    /// The slots of finished runs, to be used again.
    pub(crate) spare: Lanes<Vec<Slots>>,
}

/// So many runs' slots a thread keeps: a deep recursion must not leave as many as it was deep.
const MAX_SPARE: usize = 4;

/// A body of more slots is large.
const LARGE: usize = 1 << 12;

/// The values of a run.
#[derive(Default)]
pub(crate) struct Slots {
    pub(crate) values: Vec<Value>,
    /// For each node whether it was dead, if the body asks.
    pub(crate) dead: Vec<bool>,
    /// The registers of scalar groups.
    pub(crate) scalars: Vec<Scalar>,
}

impl Body {
    /// Slots with the constants in them.
    pub(crate) fn take_slots(&self) -> Slots {
        if let Some(slots) = self.lane().pop() {
            return slots;
        }
        let mut values = self.constants.clone();
        values.resize(self.num_slots, Value::Absent);
        Slots {
            values,
            dead: vec![false; if self.may_be_dead { self.nodes.len() } else { 0 }],
            scalars: vec![Scalar::default(); self.scalars.num_registers()],
        }
    }

    /// Takes slots back.
    pub(crate) fn give_back(&self, mut slots: Slots) {
        slots.values[self.constants.len()..].fill_with(Value::default);
        self.keep(slots);
    }

    /// Takes the slots of a run back in which every node has done its part: it has dropped what it was the last to read, so
    /// that only arguments that nobody reads and results are left.
    pub(crate) fn give_back_done(&self, mut slots: Slots) {
        slots.values[self.args()].fill_with(Value::default);
        let results = self.results.iter().map(|&slot| slot as usize);
        for slot in results.filter(|&slot| slot >= self.constants.len()) {
            slots.values[slot] = Value::Absent;
        }
        let mut rest = slots.values[self.constants.len()..].iter();
        debug_assert!(rest.all(|value| matches!(value, Value::Absent)), "a value was not dropped");
        self.keep(slots);
    }

    fn keep(&self, slots: Slots) {
        let max = if self.is_large() { 1 } else { MAX_SPARE };
        let mut spare = self.lane();
        if spare.len() < max {
            spare.push(slots);
        }
    }

    /// Where slots are kept: those of a large body by all threads together, since a thread's own would take too much.
    fn lane(&self) -> MutexGuard<'_, Vec<Slots>> {
        if self.is_large() { self.spare.common() } else { self.spare.mine() }
    }

    fn is_large(&self) -> bool {
        self.num_slots > LARGE
    }

    /// The slots of the arguments.
    pub(crate) fn args(&self) -> std::ops::Range<usize> {
        self.constants.len()..self.constants.len() + self.num_args
    }
}

/// Which part of the executor runs a plan.
pub(crate) enum Gear {
    /// One node after the other.
    Straight,
    /// One after the other or, if the nodes are worth it, side by side.
    Parallel(Arc<Dependencies>),
    /// With frames, or nodes that wait for other nodes of the run.
    Dataflow(Arc<Dataflow>),
}

/// Who waits for whom, for running side by side.
#[derive(Default)]
pub(crate) struct Dependencies {
    /// For each node, how many others it waits for.
    pub(crate) pending: Vec<u32>,
    /// For each node, those that wait for it.
    pub(crate) waiting: Vec<SmallVec<[u32; 2]>>,
    /// For each slot, how often it is read, results included.
    pub(crate) readers: Vec<u32>,
    /// How long a node takes on average, in nanoseconds; 0 before the first run.
    pub(crate) node_nanos: AtomicU64,
}

/// A request, or a function, made ready.
pub(crate) struct Plan {
    pub(crate) body: Body,
    pub(crate) gear: Gear,
    /// What the fed values must be, in order of the arguments.
    pub(crate) arg_dtypes: Vec<DType>,
    pub(crate) result_dtypes: Vec<DType>,
    /// What messages call the results; empty for a function's plan.
    pub(crate) retvals: Vec<Retval>,
    /// How often it has run, if the session measures some of its runs.
    pub(crate) runs: AtomicI64,
}

impl Plan {
    /// A plan that has not run.
    pub(crate) fn new(
        body: Body,
        gear: Gear,
        arg_dtypes: Vec<DType>,
        result_dtypes: Vec<DType>,
    ) -> Plan {
        let runs = AtomicI64::new(0);
        Plan { body, gear, arg_dtypes, result_dtypes, retvals: Vec::new(), runs }
    }

    /// Whether some node may wait for another one of the same step.
    pub(crate) fn may_wait(&self) -> bool {
        matches!(&self.gear, Gear::Dataflow(flow) if flow.may_wait)
    }
}

//! `Plan`: a request, or a function, made ready to run again and again. This file holds data: `planner.rs` makes plans, the
//! crate `runtime` runs them.
//!
//! Plans, nodes, calls and functions stand in one file because they contain each other: a node may call functions, and a
//! function has a plan.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, AtomicU64};
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;
use tfcore_base::{DType, Error, failed_precondition};
use tfcore_framework::{Attrs, BlockingKernel, InputSlot, Kernel, OpDef, Value};
use tfcore_graph::{Name, Node, NodeId, OutputRef};
use tfcore_tensor::{PartialShape, Scalar};

use crate::dataflow::Dataflow;
use crate::graph::Source;
use crate::lanes::Lanes;
use crate::place::{CallSite, Placement};
use crate::retval::Retval;
use crate::scalars::{ScalarGroups, ScalarLoop};
use crate::shapes::Shapes;

/// What a node of a plan does.
pub enum Action {
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
pub struct PlanNode {
    pub name: Name,
    pub op: Arc<OpDef>,
    pub action: Action,
    /// The number of the device that it runs on.
    pub device: u16,
    /// Whether it is a node of a function's body rather than of the graph.
    pub in_function: bool,
    pub inputs: SmallVec<[InputSlot; 3]>,
    /// The first slot of the outputs; they lie side by side, behind those of all inputs.
    pub output: u32,
    pub output_dtypes: SmallVec<[DType; 8]>,
    /// The nodes of the plan that it runs after without reading them.
    pub controls: SmallVec<[u32; 2]>,
    /// Slots that nobody reads after it.
    pub drops: SmallVec<[u32; 3]>,
    /// How inputs that may hold variables are to be handed to the kernel; empty if there are none.
    pub refs: Box<[RefInput]>,
}

impl PlanNode {
    pub fn num_outputs(&self) -> usize {
        self.output_dtypes.len()
    }

    /// Whether somebody reads an output.
    pub fn is_read(&self, output: usize) -> bool {
        !self.drops.contains(&(self.output + output as u32))
    }

    /// The kernel's form that does not hold a thread while it waits.
    pub fn blocking(&self) -> Option<&Arc<dyn BlockingKernel>> {
        match &self.action {
            Action::Kernel(kernel) => kernel.blocking(),
            _ => None,
        }
    }
}

/// What a kernel wants of an input that may be a variable.
#[derive(Debug, Clone)]
pub struct RefInput {
    /// What the input is in the node's definition, and the node's name.
    pub input: Box<str>,
    pub node: Name,
    /// Its value rather than the variable.
    pub deref: bool,
    /// Whether the variable may be without a value.
    pub may_be_uninitialized: bool,
}

impl RefInput {
    /// The error of a variable without a value.
    pub fn uninitialized(&self) -> Error {
        let error = failed_precondition!("Attempting to use uninitialized value {}", self.input);
        error.at_node(&self.node)
    }
}

/// Nodes in an order in which they can run one after the other, and the slots through which values
/// pass: first those of the constants, then those of the arguments, then the nodes' outputs.
#[derive(Default)]
pub struct Body {
    pub nodes: Vec<PlanNode>,
    pub constants: Vec<Value>,
    pub num_args: usize,
    pub num_slots: usize,
    /// The slots of what the plan yields.
    pub results: Vec<u32>,
    /// Whether results may be moved out: none is a constant or yielded twice.
    pub moves_results: bool,
    /// Whether a value may be dead, so that nodes have to look.
    pub may_be_dead: bool,
    /// The nodes that run on bare scalars where they can.
    pub scalars: ScalarGroups,
    /// The slots of finished runs, to be used again.
    pub spare: Lanes<Vec<Slots>>,
}

/// So many runs' slots a thread keeps: a deep recursion must not leave as many as it was deep.
const MAX_SPARE: usize = 4;

/// A body of more slots is large.
const LARGE: usize = 1 << 12;

/// The values of a run.
#[derive(Default)]
pub struct Slots {
    pub values: Vec<Value>,
    /// For each node whether it was dead, if the body asks.
    pub dead: Vec<bool>,
    /// The registers of scalar groups.
    pub scalars: Vec<Scalar>,
}

impl Body {
    /// Slots with the constants in them.
    pub fn take_slots(&self) -> Slots {
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
    pub fn give_back(&self, mut slots: Slots) {
        slots.values[self.constants.len()..].fill_with(Value::default);
        self.keep(slots);
    }

    /// Takes the slots of a run back in which every node has done its part: it has dropped what it was the last to read, so
    /// that only arguments that nobody reads and results are left.
    pub fn give_back_done(&self, mut slots: Slots) {
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
    pub fn args(&self) -> std::ops::Range<usize> {
        self.constants.len()..self.constants.len() + self.num_args
    }
}

/// Which part of the executor runs a plan.
pub enum Gear {
    /// One node after the other.
    Straight,
    /// One after the other or, if the nodes are worth it, side by side.
    Parallel(Arc<Dependencies>),
    /// With frames, or nodes that wait for other nodes of the run.
    Dataflow(Arc<Dataflow>),
}

/// Who waits for whom, for running side by side.
#[derive(Default)]
pub struct Dependencies {
    /// For each node, how many others it waits for.
    pub pending: Vec<u32>,
    /// For each node, those that wait for it.
    pub waiting: Vec<SmallVec<[u32; 2]>>,
    /// For each slot, how often it is read, results included.
    pub readers: Vec<u32>,
    /// How long a node takes on average, in nanoseconds; 0 before the first run.
    pub node_nanos: AtomicU64,
}

/// A request, or a function, made ready.
pub struct Plan {
    pub body: Body,
    pub gear: Gear,
    /// What the fed values must be, in order of the arguments.
    pub arg_dtypes: Vec<DType>,
    pub result_dtypes: Vec<DType>,
    /// What messages call the results; empty for a function's plan.
    pub retvals: Vec<Retval>,
    /// How often it has run, if the session measures some of its runs.
    pub runs: AtomicI64,
}

impl Plan {
    /// A plan that has not run.
    pub fn new(body: Body, gear: Gear, arg_dtypes: Vec<DType>, result_dtypes: Vec<DType>) -> Plan {
        let runs = AtomicI64::new(0);
        Plan { body, gear, arg_dtypes, result_dtypes, retvals: Vec::new(), runs }
    }

    /// Whether some node may wait for another one of the same step.
    pub fn may_wait(&self) -> bool {
        matches!(&self.gear, Gear::Dataflow(flow) if flow.may_wait)
    }
}

/// A node with plans of its own.
pub struct Control {
    pub task: Task,
    pub style: Style,
}

/// How the reference runs the functions of a node. Its error messages depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// It replaces the node by their nodes.
    Inlined,
    /// It calls them.
    Called,
}

impl Style {
    /// Adds to an error that has left a function how the reference names the calling node `name`.
    pub fn tell(self, error: Error, name: &str) -> Error {
        match self {
            Style::Inlined => error.inlined_at(name),
            Style::Called => error.called_by(name),
        }
    }
}

/// The functions of a node, and when they are called.
pub enum Task {
    /// Calls the function with the inputs.
    Call { function: Arc<Function>, kind: CallKind },
    /// Calls the function that the first input selects, with the other inputs.
    Branch { functions: Vec<Arc<Function>>, by_index: bool },
    /// Calls `body` as long as `cond` returns true.
    While { cond: Arc<Function>, body: Arc<Function> },
    /// Calls the function with a counter before the other inputs.
    For { body: Arc<Function> },
    /// Calls the function for every row.
    Map(Arc<Map>),
    /// Runs a loop that has no calls.
    Loop(Arc<Loop>),
}

/// The ops that call one function once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallKind {
    /// PartitionedCall, or a node whose op is a function.
    Call,
    /// RemoteCall, whose first input names the device. All devices share one memory.
    Remote,
    /// SymbolicGradient.
    Gradient,
}

impl Control {
    /// True if the reference replaces the node by the nodes of its functions.
    pub fn is_inlined(&self) -> bool {
        matches!(self.style, Style::Inlined)
    }

    /// The kind of call, if the op calls one function once.
    pub fn call_kind(&self) -> Option<CallKind> {
        match &self.task {
            Task::Call { kind, .. } => Some(*kind),
            _ => None,
        }
    }

    /// True if a node within may wait for another node of the step.
    pub fn may_wait(&self) -> bool {
        match &self.task {
            Task::Call { function, .. } | Task::For { body: function } => function.may_wait(),
            Task::Branch { functions, .. } => functions.iter().any(|f| f.may_wait()),
            Task::While { cond, body } => cond.may_wait() || body.may_wait(),
            Task::Map(map) => map.function.may_wait(),
            Task::Loop(_) => false,
        }
    }
}

/// `MapDefun(arguments, captured_inputs, f) -> output`
pub struct Map {
    pub function: Arc<Function>,
    /// Number of inputs that are cut into rows; each call gets the others unchanged.
    pub num_mapped: usize,
    /// The shape of a row of each output.
    pub output_shapes: Vec<PartialShape>,
}

/// A loop whose condition and body are nodes of one body, so that an iteration costs no more than its nodes.
pub struct Loop {
    /// The arguments are the variables and the invariants; the results are the condition and the variables'
    /// next values.
    pub body: Body,
    /// The first node that runs only if the condition holds.
    pub split: usize,
    /// For each variable: true if its last value is an output.
    pub exits: Vec<bool>,
    /// For each variable: true if its next value may be moved because nothing else reads it.
    pub moves: Vec<bool>,
    /// True if all `moves` are. Then no next value is a variable itself, and each can be moved straight to its place.
    pub all_move: bool,
    /// The loop on bare scalars, if all its nodes are arithmetic.
    pub scalars: Option<ScalarLoop>,
    /// The dtypes of the variables of a While.
    pub dtypes: Vec<DType>,
    /// The names of the condition and the body of a While.
    pub functions: Option<[String; 2]>,
}

impl Loop {
    /// True if the variables have these dtypes.
    pub fn takes(&self, dtypes: &[DType]) -> bool {
        self.dtypes.iter().copied().eq(dtypes.iter().map(|dtype| dtype.base()))
    }
}

/// Kernels by node. A node has one kernel in all plans because kernels may hold state.
pub type Kernels = Mutex<HashMap<NodeId, Arc<dyn Kernel>>>;

/// A function with the attrs of its calls. Body, plan and kernels are made when they are first needed.
pub struct Function {
    pub name: String,
    pub attrs: Attrs,
    pub site: CallSite,
    /// True for the function's gradient.
    pub is_gradient: bool,
    pub kernels: Kernels,
    /// The body, instantiated once because kernels belong to its nodes.
    pub parts: OnceLock<Arc<Parts>>,
    pub plan: OnceLock<Arc<Plan>>,
    /// For each argument: true if the body reads it.
    pub reads: OnceLock<Vec<bool>>,
}

impl Function {
    pub fn new(name: &str, attrs: &Attrs, site: CallSite, is_gradient: bool) -> Function {
        Function {
            name: name.to_string(),
            attrs: attrs.clone(),
            site,
            is_gradient,
            kernels: Mutex::default(),
            parts: OnceLock::new(),
            plan: OnceLock::new(),
            reads: OnceLock::new(),
        }
    }

    /// The plan, if the body has been planned.
    pub fn known_plan(&self) -> Option<&Arc<Plan>> {
        self.plan.get()
    }

    /// True if the plan is known and a node of the body may wait for another node of the step.
    pub fn may_wait(&self) -> bool {
        self.known_plan().is_some_and(|plan| plan.may_wait())
    }

    /// The number that stands for the function in a list of callers.
    pub fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// `callers` with this function added.
    pub fn callers(&self, callers: &[usize]) -> Vec<usize> {
        [callers, &[self.address()]].concat()
    }
}

impl Drop for Function {
    /// Plans hold functions, which hold plans, and so on down a chain of calls of any length: they are dropped one by one.
    fn drop(&mut self) {
        thread_local! {
            /// Plans to be dropped, while some function of the thread is.
            static LEFT: RefCell<Option<Vec<Arc<Plan>>>> = const { RefCell::new(None) };
        }
        let Some(plan) = self.plan.take() else { return };
        let is_first = LEFT.try_with(|left| match &mut *left.borrow_mut() {
            Some(left) => {
                left.push(plan);
                false
            }
            none => {
                *none = Some(vec![plan]);
                true
            }
        });
        // A thread that ends has no list any more, and drops the plan at once.
        if is_first == Ok(true) {
            while let Some(plan) = LEFT.with_borrow_mut(|left| left.as_mut().and_then(Vec::pop)) {
                drop(plan);
            }
            LEFT.set(None);
        }
    }
}

/// The body of a function, instantiated.
pub struct Parts {
    pub nodes: Vec<Arc<Node>>,
    pub shapes: Shapes,
    pub placement: Placement,
    pub args: Vec<OutputRef>,
    pub results: Vec<OutputRef>,
    /// Nodes that run although no result depends on them.
    pub targets: Vec<NodeId>,
}

impl Parts {
    /// The body as a graph to plan.
    pub fn source(&self) -> Source<'_> {
        Source {
            nodes: &self.nodes,
            placement: &self.placement,
            shapes: &self.shapes,
            args: &self.args,
            results: &self.results,
            targets: &self.targets,
        }
    }

    /// The dtypes of some outputs.
    pub fn dtypes(&self, outputs: &[OutputRef]) -> Vec<DType> {
        let dtype = |o: &OutputRef| self.nodes[o.node.index()].output_dtypes[o.port()].base();
        outputs.iter().map(dtype).collect()
    }
}

//! The planner: from the nodes that a request or a function needs to a plan.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;
use smallvec::SmallVec;
use tfcore_base::{DType, Result, internal, invalid};
use tfcore_framework::{DeviceType, InputSlot, Kernel, KernelInit, Registry, Value};
use tfcore_graph::{Node, NodeId, OutputRef};
use tfcore_tensor::Tensor;

use crate::control::{Control, Loop};
use crate::dataflow::Dataflow;
use crate::frames::{Frames, ROOT};
use crate::functions::{Function, Functions, Parts};
use crate::lanes::Lanes;
use crate::lift::{Item, LiftedLoop, lift};
use crate::place::{CallSite, Placement};
use crate::plan::{Action, Body, Dependencies, Gear, Plan, PlanNode, RefInput};
use crate::prune::needed_nodes;
use crate::scalars::ScalarGroups;
use crate::unread::without_unread;

/// Kernels by node: a node has one kernel, whichever plans it is in, because kernels may hold state.
pub(crate) type Kernels = Mutex<HashMap<NodeId, Arc<dyn Kernel>>>;

/// What plans are made from.
#[derive(Clone, Copy)]
pub(crate) struct Planner<'p> {
    pub(crate) registry: &'p Registry,
    pub(crate) functions: &'p Arc<Functions>,
    pub(crate) kernels: &'p Kernels,
    pub(crate) nodes: &'p [Arc<Node>],
    pub(crate) placement: &'p Placement,
    /// The functions that are being planned, each called by the one before; see [`Function::callers`].
    pub(crate) callers: &'p [usize],
    /// Whether the nodes are those of a function's body.
    pub(crate) in_function: bool,
}

impl<'p> Planner<'p> {
    /// The plan that computes `results` and runs `targets`, with `args` given.
    ///
    /// # Errors
    /// What is wrong with the nodes, in the reference's words.
    pub(crate) fn plan(
        &self,
        args: &[OutputRef],
        results: &[OutputRef],
        targets: &[NodeId],
    ) -> Result<Plan> {
        let order = needed_nodes(self.nodes, args, results, targets)?;
        self.plan_needed(&order, args, results, targets)
    }

    /// As [`Planner::plan`], where the needed nodes are known.
    pub(crate) fn plan_needed(
        &self,
        order: &[NodeId],
        args: &[OutputRef],
        results: &[OutputRef],
        targets: &[NodeId],
    ) -> Result<Plan> {
        match without_unread(self, order) {
            None => self.plan_nodes(order, args, results),
            Some(nodes) => {
                let order = needed_nodes(&nodes, args, results, targets)?;
                let planner: Planner<'_> = Planner { nodes: &nodes, ..*self };
                planner.plan_nodes(&order, args, results)
            }
        }
    }

    /// A plan of nodes that are in an order in which they can run.
    fn plan_nodes(
        &self,
        order: &[NodeId],
        args: &[OutputRef],
        results: &[OutputRef],
    ) -> Result<Plan> {
        let fed: HashSet<OutputRef> = args.iter().copied().collect();
        let frames = Frames::new(self.nodes, order, &fed)?;
        if let Some(items) = self.lifted(order, results, &fed, &frames) {
            let mut builder = BodyBuilder::new(*self, args);
            builder.add_items(&items)?;
            if !builder.may_wait {
                let (body, waits_for) = builder.finish(results);
                let gear = match !body.may_be_dead && is_wide(&waits_for) {
                    true => Gear::Parallel(Arc::new(dependencies(&body, &waits_for))),
                    false => Gear::Straight,
                };
                return Ok(Plan::new(body, gear, self.dtypes(args), self.dtypes(results)));
            }
        }
        self.plan_dataflow(order, args, results, &frames)
    }

    /// As [`Planner::plan_nodes`], for a run whose arguments come one by one.
    pub(crate) fn plan_partial(
        &self,
        order: &[NodeId],
        args: &[OutputRef],
        results: &[OutputRef],
    ) -> Result<Plan> {
        let fed = args.iter().copied().collect();
        let frames = Frames::new(self.nodes, order, &fed)?;
        if let Some(inside) = inner_result(results, &fed, &frames) {
            let name = &self.nodes[inside.node.index()].name;
            return Err(invalid!("Operation '{name}' is in a while loop, cannot be fetched"));
        }
        self.plan_dataflow(order, args, results, &frames)
    }

    fn plan_dataflow(
        &self,
        order: &[NodeId],
        args: &[OutputRef],
        results: &[OutputRef],
        frames: &Frames,
    ) -> Result<Plan> {
        let mut builder = BodyBuilder::new(*self, args);
        builder.keeps_frames = true;
        builder.add_items(&items_of(order))?;
        let may_wait = builder.may_wait;
        let numbers = std::mem::take(&mut builder.numbers);
        let (body, _) = builder.finish(results);
        let flow = Dataflow::new(self.nodes, &body, &numbers, frames, may_wait);
        let gear = Gear::Dataflow(Arc::new(flow));
        Ok(Plan::new(body, gear, self.dtypes(args), self.dtypes(results)))
    }

    /// The items of a function's body; `None` if it has loops that cannot be lifted.
    fn items(&self, parts: &Parts) -> Result<Option<Vec<Item>>> {
        let order = needed_nodes(self.nodes, &parts.args, &parts.results, &parts.targets)?;
        let fed: HashSet<OutputRef> = parts.args.iter().copied().collect();
        let frames = Frames::new(self.nodes, &order, &fed)?;
        Ok(self.lifted(&order, &parts.results, &fed, &frames))
    }

    /// The nodes, each loop made one item; `None` if a loop cannot be lifted, or has a result inside.
    fn lifted(
        &self,
        order: &[NodeId],
        results: &[OutputRef],
        fed: &HashSet<OutputRef>,
        frames: &Frames,
    ) -> Option<Vec<Item>> {
        match frames.is_flat() {
            true => Some(items_of(order)),
            false if inner_result(results, fed, frames).is_some() => None,
            false => lift(self.nodes, order, fed, frames),
        }
    }

    fn dtypes(&self, outputs: &[OutputRef]) -> Vec<DType> {
        let dtype = |o: &OutputRef| self.nodes[o.node.index()].output_dtypes[o.port()].base();
        outputs.iter().map(dtype).collect()
    }

    /// Where `node` is when it calls a function.
    pub(crate) fn call_site(&self, node: &Node) -> CallSite {
        self.functions.placer().call_site(node, self.placement)
    }

    fn kernel_of(&self, node: &Node) -> Result<Arc<dyn Kernel>> {
        if let Some(kernel) = self.kernels.lock().get(&node.id) {
            return Ok(kernel.clone());
        }
        let init = KernelInit {
            name: &node.name,
            op: &node.op,
            attrs: &node.attrs,
            input_dtypes: &node.input_dtypes,
            output_dtypes: &node.output_dtypes,
        };
        let kernel: Arc<dyn Kernel> = self
            .registry
            .build_kernel(DeviceType::Cpu, &init)
            .map_err(|error| error.at_node(&node.name))?
            .into();
        // Another thread may have been faster; its kernel may hold state by now.
        Ok(self.kernels.lock().entry(node.id).or_insert(kernel).clone())
    }
}

/// A result that a node inside of a loop yields.
fn inner_result<'o>(
    results: &'o [OutputRef],
    fed: &HashSet<OutputRef>,
    frames: &Frames,
) -> Option<&'o OutputRef> {
    results.iter().find(|output| !fed.contains(output) && frames.of(output.node) != ROOT)
}

/// The loop of two functions as one body; `None` if it has to run by calls, because a node may wait for others or
/// the functions do not fit together.
pub(crate) fn while_loop(
    functions: &Arc<Functions>,
    cond: &Function,
    body: &Function,
    callers: &[usize],
) -> Result<Option<Loop>> {
    let (cond_parts, body_parts) = (cond.parts(functions)?, body.parts(functions)?);
    let num_vars = cond_parts.args.len();
    let dtypes = cond_parts.dtypes(&cond_parts.args);
    let fits = cond_parts.results.len() == 1
        && body_parts.dtypes(&body_parts.args) == dtypes
        && body_parts.dtypes(&body_parts.results) == dtypes;
    if !fits {
        return Ok(None);
    }
    let callers = (cond.callers(callers), body.callers(callers));
    let planner = cond.planner(functions, cond_parts, &callers.0);
    let mut builder = BodyBuilder::new(planner, &cond_parts.args);
    let Some(items) = planner.items(cond_parts)? else { return Ok(None) };
    builder.add_items(&items)?;
    let split = builder.nodes.len();
    let mut results = vec![builder.place_of(cond_parts.results[0])?];

    let planner = body.planner(functions, body_parts, &callers.1);
    let Some(items) = planner.items(body_parts)? else { return Ok(None) };
    builder.go_on_with(planner, &body_parts.args);
    builder.add_items(&items)?;
    for &next in &body_parts.results {
        results.push(builder.place_of(next)?);
    }
    if builder.may_wait {
        return Ok(None);
    }
    let made = builder.finish_loop(&results, split, num_vars);
    Ok(Some(Loop::new(made, split, vec![true; num_vars]).with_functions(
        dtypes,
        cond.name(),
        body.name(),
    )))
}

fn items_of(order: &[NodeId]) -> Vec<Item> {
    order.iter().map(|&id| Item::Node(id)).collect()
}

/// What a slot is before all are numbered: constants go first, and how many there are is known last.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Place {
    Constant(u32),
    Slot(u32),
}

/// The place of what comes back to a Merge.
const BACK_EDGE: Place = Place::Slot(u32::MAX);

/// Collects the nodes of a body.
struct BodyBuilder<'p> {
    planner: Planner<'p>,
    nodes: Vec<DraftNode>,
    constants: Vec<Value>,
    num_args: usize,
    num_slots: u32,
    places: HashMap<OutputRef, Place>,
    /// The body's number for a node of the graph; constants have none.
    numbers: HashMap<NodeId, u32>,
    /// The nodes that constants run after.
    after_constants: HashMap<NodeId, SmallVec<[u32; 2]>>,
    /// The node that fills a slot; arguments have none.
    writers: Vec<Option<u32>>,
    may_be_dead: bool,
    may_wait: bool,
    /// Whether Enter, Exit and NextIteration are nodes of the body.
    keeps_frames: bool,
}

struct DraftNode {
    node: PlanNode,
    inputs: SmallVec<[Place; 3]>,
    waits_for: SmallVec<[u32; 4]>,
}

impl<'p> BodyBuilder<'p> {
    fn new(planner: Planner<'p>, args: &[OutputRef]) -> BodyBuilder<'p> {
        let mut builder = BodyBuilder {
            planner,
            nodes: Vec::new(),
            constants: Vec::new(),
            num_args: args.len(),
            num_slots: 0,
            places: HashMap::new(),
            numbers: HashMap::new(),
            after_constants: HashMap::new(),
            writers: Vec::new(),
            may_be_dead: false,
            may_wait: false,
            keeps_frames: false,
        };
        for &arg in args {
            let place = builder.new_slot(None);
            builder.places.insert(arg, place);
        }
        builder
    }

    /// Goes on with the nodes of another function, which has the same arguments.
    fn go_on_with(&mut self, planner: Planner<'p>, args: &[OutputRef]) {
        self.planner = planner;
        self.places.clear();
        self.numbers.clear();
        self.after_constants.clear();
        let args = args.iter().enumerate();
        self.places.extend(args.map(|(index, &arg)| (arg, Place::Slot(index as u32))));
    }

    fn new_slot(&mut self, writer: Option<u32>) -> Place {
        self.writers.push(writer);
        self.num_slots += 1;
        Place::Slot(self.num_slots - 1)
    }

    fn add_items(&mut self, items: &[Item]) -> Result<()> {
        for item in items {
            match item {
                Item::Node(id) => self.add_node(&self.planner.nodes[id.index()].clone())?,
                Item::Loop(lifted) => self.add_loop(lifted)?,
            }
        }
        Ok(())
    }

    fn add_node(&mut self, node: &Node) -> Result<()> {
        // A constant that runs after something may be dead.
        let runs_after = node.control_inputs.iter().any(|id| self.numbers.contains_key(id));
        if !(self.may_be_dead && runs_after)
            && let Some(tensor) = constant(node)?
        {
            let place = Place::Constant(self.constants.len() as u32);
            self.constants.push(Value::Tensor(tensor));
            self.places.entry(OutputRef::new(node.id, 0)).or_insert(place);
            // It takes no time, but whoever uses it still runs after what it runs after.
            let controls = self.numbers_of(node.control_inputs.iter().copied());
            if !controls.is_empty() {
                self.after_constants.insert(node.id, controls);
            }
            return Ok(());
        }
        let action = self.action(node)?;
        let inputs = node.inputs.iter().map(|edge| self.place_of(edge.source));
        let inputs: SmallVec<[Place; 3]> = inputs.collect::<Result<_>>()?;
        let sources = node.inputs.iter().map(|edge| edge.source.node);
        let draft = self.draft(node, action, inputs, sources, &node.control_inputs);
        self.push(node, draft);
        Ok(())
    }

    /// The body's numbers of nodes; for a constant those of the nodes that it runs after.
    fn numbers_of(&self, ids: impl Iterator<Item = NodeId>) -> SmallVec<[u32; 2]> {
        let mut numbers: SmallVec<[u32; 2]> = SmallVec::new();
        for id in ids {
            match self.numbers.get(&id) {
                Some(&number) => numbers.push(number),
                None => {
                    numbers.extend(self.after_constants.get(&id).into_iter().flatten().copied())
                }
            }
        }
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    /// What the node does. Constants that may be dead have a kernel, as every other op.
    fn action(&mut self, node: &Node) -> Result<Action> {
        let action = match &*node.op.name {
            "Switch" | "RefSwitch" | "_SwitchN" => Action::Switch,
            "Merge" | "RefMerge" => Action::Merge,
            "Enter" | "RefEnter" | "Exit" | "RefExit" | "NextIteration" | "RefNextIteration"
            | "LoopCond" => Action::Forward,
            "ControlTrigger" => Action::Trigger,
            _ => match Control::of_node(node, &self.planner)? {
                Some(control) => {
                    self.may_wait |= control.may_wait();
                    return Ok(Action::Control(Box::new(control)));
                }
                None => {
                    let kernel = self.planner.kernel_of(node)?;
                    self.may_wait |= kernel.blocking().is_some();
                    return Ok(match &*node.op.name {
                        "_Send" | "_HostSend" => Action::Transfer(kernel),
                        _ if forwards(&kernel, node) => Action::Forward,
                        _ => Action::Kernel(kernel),
                    });
                }
            },
        };
        self.may_be_dead |= matches!(action, Action::Switch);
        Ok(action)
    }

    /// Where an output is. The back edge of a loop in frames has no place yet: it gets one that nobody reads, since values
    /// travel by edges there.
    fn place_of(&self, output: OutputRef) -> Result<Place> {
        match self.places.get(&output) {
            Some(&place) => Ok(place),
            None if self.keeps_frames => Ok(BACK_EDGE),
            None => Err(internal!("Output {} of a node is not there yet", output.index)),
        }
    }

    fn draft(
        &self,
        node: &Node,
        action: Action,
        inputs: SmallVec<[Place; 3]>,
        sources: impl Iterator<Item = NodeId>,
        controls: &[NodeId],
    ) -> DraftNode {
        let constants = sources.filter(|id| self.after_constants.contains_key(id));
        let controls = self.numbers_of(controls.iter().copied().chain(constants));
        let mut waits_for: SmallVec<[u32; 4]> = controls.iter().copied().collect();
        for place in &inputs {
            if let Place::Slot(slot) = place {
                waits_for.extend(self.writers.get(*slot as usize).copied().flatten());
            }
        }
        waits_for.sort_unstable();
        waits_for.dedup();
        let node = PlanNode {
            name: node.name.clone(),
            op: node.op.clone(),
            device: self.planner.placement.device_of(node.id),
            in_function: self.planner.in_function,
            refs: self.refs(node),
            action,
            inputs: SmallVec::new(),
            output: 0,
            output_dtypes: node.output_dtypes.clone(),
            controls,
            drops: SmallVec::new(),
        };
        DraftNode { node, inputs, waits_for }
    }

    /// Which inputs of a node may hold variables.
    fn refs(&self, node: &Node) -> Box<[RefInput]> {
        if !node.inputs.iter().any(|edge| self.is_ref(edge.source)) {
            return Box::default();
        }
        (0..node.inputs.len()).map(|index| self.ref_input(node, index)).collect()
    }

    /// As [`BodyBuilder::refs`], for the inputs of several nodes of one input.
    fn refs_of<'n>(&self, nodes: impl Iterator<Item = &'n Node> + Clone) -> Box<[RefInput]> {
        if !nodes.clone().any(|node| self.is_ref(node.inputs[0].source)) {
            return Box::default();
        }
        nodes.map(|node| self.ref_input(node, 0)).collect()
    }

    fn ref_input(&self, node: &Node, index: usize) -> RefInput {
        let source = node.inputs[index].source;
        let name = &self.planner.nodes[source.node.index()].name;
        RefInput {
            input: match source.index {
                0 => name.to_string().into(),
                port => format!("{name}:{port}").into(),
            },
            node: node.name.clone(),
            deref: !node.input_dtypes[index].is_ref(),
            may_be_uninitialized: node.op.allows_uninitialized_input,
        }
    }

    fn is_ref(&self, source: OutputRef) -> bool {
        let node = &self.planner.nodes[source.node.index()];
        node.output_dtypes.get(source.port()).is_some_and(|dtype| dtype.is_ref())
    }

    /// Gives a node its number and its outputs their slots.
    fn push(&mut self, node: &Node, mut draft: DraftNode) {
        let number = self.nodes.len() as u32;
        self.numbers.insert(node.id, number);
        draft.node.output = self.num_slots;
        for index in 0..draft.node.output_dtypes.len() {
            let place = self.new_slot(Some(number));
            // A fed output keeps the value it was fed.
            self.places.entry(OutputRef::new(node.id, index)).or_insert(place);
        }
        self.nodes.push(draft);
    }

    /// Adds a loop as one node: its inputs are the variables' first values and the invariants, its outputs the
    /// variables' last values.
    fn add_loop(&mut self, lifted: &LiftedLoop) -> Result<()> {
        let nodes = self.planner.nodes;
        let node = |id: NodeId| &*nodes[id.index()];
        let enters: Vec<NodeId> =
            lifted.vars.iter().map(|v| v.enter).chain(lifted.invariants.iter().copied()).collect();
        let mut controls: Vec<NodeId> =
            enters.iter().flat_map(|&id| node(id).control_inputs.iter().copied()).collect();
        controls.sort_unstable();
        controls.dedup();
        let inputs = enters.iter().map(|&id| self.place_of(node(id).inputs[0].source));
        let inputs = inputs.collect::<Result<_>>()?;

        let mut inner = BodyBuilder::new(self.planner, &[]);
        inner.num_args = enters.len();
        for var in &lifted.vars {
            let place = inner.new_slot(None);
            inner.places.insert(OutputRef::new(var.merge, 0), place);
            if let Some(switch) = var.switch {
                inner.places.insert(OutputRef::new(switch, 1), place);
            }
        }
        for &invariant in &lifted.invariants {
            let place = inner.new_slot(None);
            inner.places.insert(OutputRef::new(invariant, 0), place);
        }
        inner.add_items(&lifted.cond)?;
        let split = inner.nodes.len();
        if let Some(&predicate) = inner.places.get(&lifted.predicate) {
            inner.places.insert(OutputRef::new(lifted.loop_cond, 0), predicate);
        }
        inner.add_items(&lifted.body)?;
        let next = lifted.vars.iter().map(|var| var.next);
        let results: Vec<Place> = std::iter::once(lifted.predicate)
            .chain(next)
            .map(|result| inner.place_of(result))
            .collect::<Result<_>>()?;
        self.may_wait |= inner.may_wait;
        let exits = lifted.vars.iter().map(|var| var.exit.is_some()).collect();
        let made = Loop::new(inner.finish_loop(&results, split, lifted.vars.len()), split, exits);

        let first = node(lifted.loop_cond);
        let action = Action::Control(Box::new(Control::lifted(made)));
        let sources = enters.iter().map(|&id| node(id).inputs[0].source.node);
        let mut draft = self.draft(first, action, inputs, sources, &controls);
        draft.node.refs = self.refs_of(enters.iter().map(|&id| node(id)));
        let exits: Vec<NodeId> = lifted.vars.iter().filter_map(|var| var.exit).collect();
        draft.node.output_dtypes = exits.iter().map(|&id| node(id).output_dtypes[0]).collect();
        let number = self.nodes.len() as u32;
        draft.node.output = self.num_slots;
        for exit in exits {
            let place = self.new_slot(Some(number));
            self.places.entry(OutputRef::new(exit, 0)).or_insert(place);
            self.numbers.insert(exit, number);
        }
        self.nodes.push(draft);
        Ok(())
    }

    /// The body of a loop. The variables are still there when the nodes before `split` have run.
    fn finish_loop(self, results: &[Place], split: usize, num_vars: usize) -> Body {
        let num_args = self.num_args as u32;
        let vars: Vec<u32> = (0..num_vars as u32).collect();
        let invariants: Vec<u32> = (num_vars as u32..num_args).collect();
        self.finish_with(results, split, &[(usize::MAX, &invariants), (split, &vars)]).0
    }

    /// The body, and for each node those that it waits for.
    fn finish(self, results: &[OutputRef]) -> (Body, Vec<SmallVec<[u32; 4]>>) {
        let results: Vec<Place> = results.iter().map(|result| self.places[result]).collect();
        self.finish_with(&results, 0, &[])
    }

    /// Between the nodes before `split` and the others there may be a pause. `kept` names slots of arguments that are read
    /// before the node of a number runs, by somebody else.
    fn finish_with(
        self,
        results: &[Place],
        split: usize,
        kept: &[(usize, &[u32])],
    ) -> (Body, Vec<SmallVec<[u32; 4]>>) {
        let num_constants = self.constants.len() as u32;
        let number = |place: Place| match place {
            Place::Constant(index) => index,
            BACK_EDGE => u32::MAX,
            Place::Slot(slot) => slot + num_constants,
        };
        let results: Vec<u32> = results.iter().map(|&result| number(result)).collect();
        let num_slots = (self.num_slots + num_constants) as usize;
        // Constants are read by the runs to come.
        let mut read_later = vec![false; num_slots];
        read_later[..num_constants as usize].fill(true);
        results.iter().for_each(|&slot| read_later[slot as usize] = true);
        let keep = |at: usize, read_later: &mut [bool]| {
            for (_, slots) in kept.iter().filter(|(until, _)| *until == at) {
                slots.iter().for_each(|&s| read_later[(s + num_constants) as usize] = true);
            }
        };
        keep(usize::MAX, &mut read_later);

        let mut nodes = Vec::with_capacity(self.nodes.len());
        let mut waits_for = Vec::with_capacity(self.nodes.len());
        for (index, mut draft) in self.nodes.into_iter().enumerate().rev() {
            keep(index + 1, &mut read_later);
            let node = &mut draft.node;
            node.output += num_constants;
            let slots: SmallVec<[u32; 3]> = draft.inputs.iter().map(|&p| number(p)).collect();
            let repeated = repeated(&slots);
            for &slot in &slots {
                let is_back_edge = slot == u32::MAX;
                let once = repeated.binary_search(&slot).is_err();
                let last = !is_back_edge && !read_later[slot as usize];
                node.inputs.push(InputSlot { slot, last: last && once });
                if last && once {
                    node.drops.push(slot);
                }
            }
            let is_dropped = |slot: &u32| *slot != u32::MAX && !read_later[*slot as usize];
            node.drops.extend(repeated.into_iter().filter(is_dropped));
            for slot in slots.into_iter().filter(|&slot| slot != u32::MAX) {
                read_later[slot as usize] = true;
            }
            let outputs = node.output..node.output + node.output_dtypes.len() as u32;
            node.drops.extend(outputs.filter(|&slot| !read_later[slot as usize]));
            waits_for.push(draft.waits_for);
            nodes.push(draft.node);
        }
        nodes.reverse();
        waits_for.reverse();
        let body = Body {
            scalars: ScalarGroups::new(&nodes, split, self.may_be_dead),
            nodes,
            constants: self.constants,
            num_args: self.num_args,
            num_slots,
            moves_results: results.iter().all(|&slot| slot >= num_constants)
                && results.iter().collect::<HashSet<_>>().len() == results.len(),
            results,
            may_be_dead: self.may_be_dead,
            spare: Lanes::default(),
        };
        (body, waits_for)
    }
}

/// The slots that are there more than once, in order.
fn repeated(slots: &[u32]) -> SmallVec<[u32; 3]> {
    let mut sorted: SmallVec<[u32; 8]> = slots.into();
    sorted.sort_unstable();
    let mut repeated: SmallVec<[u32; 3]> =
        sorted.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect();
    repeated.dedup();
    repeated
}

/// Whether a node does nothing but hand on its one input: then it needs no kernel to do it.
fn forwards(kernel: &Arc<dyn Kernel>, node: &Node) -> bool {
    let on_scalars = || kernel.clone().on_scalars();
    let is_single = node.inputs.len() == 1 && node.num_outputs() == 1;
    is_single && on_scalars().is_some_and(|kernel| !kernel.is_arithmetic())
}

/// Whether on average one and a half nodes or more can run at a time.
fn is_wide(waits_for: &[SmallVec<[u32; 4]>]) -> bool {
    let mut depths: Vec<usize> = Vec::with_capacity(waits_for.len());
    for list in waits_for {
        let depth = list.iter().map(|&other| depths[other as usize] + 1).max().unwrap_or(1);
        depths.push(depth);
    }
    let longest = depths.iter().copied().max().unwrap_or(1);
    waits_for.len() * 2 >= longest * 3
}

fn dependencies(body: &Body, waits_for: &[SmallVec<[u32; 4]>]) -> Dependencies {
    let mut waiting = vec![SmallVec::new(); waits_for.len()];
    for (number, list) in waits_for.iter().enumerate() {
        for &other in list {
            waiting[other as usize].push(number as u32);
        }
    }
    let mut readers = vec![0u32; body.num_slots];
    let inputs = body.nodes.iter().flat_map(|node| &node.inputs).map(|input| input.slot);
    for slot in inputs.chain(body.results.iter().copied()) {
        readers[slot as usize] += 1;
    }
    let pending = waits_for.iter().map(|list| list.len() as u32).collect();
    Dependencies { pending, waiting, readers, ..Default::default() }
}

/// The value of a Const.
fn constant(node: &Node) -> Result<Option<Tensor>> {
    if &*node.op.name != "Const" {
        return Ok(None);
    }
    let tensor = node.attrs.tensor("value")?.tensor().map_err(|error| error.at_node(&node.name))?;
    if tensor.dtype() != node.output_dtypes[0] {
        let error = invalid!(
            "Type mismatch between value ({}) and dtype ({})",
            tensor.dtype(),
            node.output_dtypes[0]
        );
        return Err(error.at_node(&node.name));
    }
    Ok(Some(tensor))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::tests::{add, plan_of, registry};
    use tfcore_framework::AttrValue;
    use tfcore_graph::{Graph, NodeBuilder};

    #[test]
    fn the_last_reader_may_reuse_a_value() {
        let mut graph = Graph::new(registry());
        let x = add(&mut graph, "Placeholder", "x", &[]);
        let a = add(&mut graph, "Neg", "a", &[x]);
        let twice = add(&mut graph, "AddV2", "twice", &[a, a]);
        let sum = add(&mut graph, "AddV2", "sum", &[twice, x]);
        // For each node whether its inputs may be taken, and how many values are dropped after it.
        let cases: [(&[OutputRef], [(&[bool], usize); 3]); 3] = [
            (&[sum], [(&[false], 0), (&[false, false], 1), (&[true, true], 2)]),
            (&[sum, a], [(&[false], 0), (&[false, false], 0), (&[true, true], 2)]),
            (&[sum, twice], [(&[false], 0), (&[false, false], 1), (&[false, true], 1)]),
        ];
        for (fetches, expected) in cases {
            let plan = plan_of(&graph, &[x], fetches);
            for (node, (last, drops)) in plan.body.nodes.iter().zip(expected) {
                let marks: Vec<bool> = node.inputs.iter().map(|input| input.last).collect();
                assert_eq!((&marks[..], node.drops.len()), (last, drops), "{}", node.name.as_str());
            }
        }
    }

    #[test]
    fn who_uses_a_constant_runs_after_what_it_runs_after() {
        let mut graph = Graph::new(registry());
        let x = add(&mut graph, "Placeholder", "x", &[]);
        let first = add(&mut graph, "Neg", "first", &[x]);
        let mut builder = NodeBuilder::new("Const", "c");
        builder.set_attr("dtype", AttrValue::Type(DType::FLOAT));
        builder.set_attr("value", AttrValue::tensor(Tensor::scalar(1.0f32)));
        builder.add_control_input(first.node);
        let constant = OutputRef::new(builder.finish(&mut graph).unwrap(), 0);
        let sum = add(&mut graph, "AddV2", "sum", &[x, constant]);
        let plan = plan_of(&graph, &[x], &[sum]);
        let names: Vec<&str> = plan.body.nodes.iter().map(|node| node.name.as_str()).collect();
        assert_eq!(names, ["first", "sum"]);
        assert_eq!(plan.body.nodes[1].controls[..], [0]);
    }
}

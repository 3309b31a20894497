//! Lowering: nodes become a body, whose slots are numbered and which knows the last reader of each.

use hashbrown::{HashMap, HashSet};

use smallvec::SmallVec;
use std::sync::Arc;
use tfcore_base::{Result, internal};
use tfcore_framework::{InputSlot, Kernel, KernelForm, Role, Value};
use tfcore_graph::{Node, NodeId, OutputRef};
use tfcore_tensor::Tensor;

use crate::constant::constant;
use crate::context::PassContext;
use crate::graph::PlanGraph;
use crate::lanes::Lanes;
use crate::loops::{Item, LiftedLoop};
use crate::lower::control::control_of;
use crate::lower::scalars;
use crate::plan::{Action, Body, Control, Dependencies, Loop, PlanNode, RefInput, Style, Task};

/// What a slot is before all are numbered: constants go first, and how many there are is known last.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    Constant(u32),
    Slot(u32),
}

/// The place of what comes back to a Merge.
const BACK_EDGE: Place = Place::Slot(u32::MAX);

/// Collects the nodes of a body.
pub(crate) struct BodyBuilder<'p> {
    graph: &'p PlanGraph<'p>,
    context: PassContext<'p>,
    pub(crate) nodes: Vec<DraftNode>,
    constants: Vec<Value>,
    num_args: usize,
    num_slots: u32,
    places: HashMap<OutputRef, Place>,
    /// The body's number for a node of the graph; constants have none.
    pub(crate) numbers: HashMap<NodeId, u32>,
    /// The nodes that constants run after.
    after_constants: HashMap<NodeId, SmallVec<[u32; 2]>>,
    /// The node that fills a slot; arguments have none.
    writers: Vec<Option<u32>>,
    may_be_dead: bool,
    pub(crate) may_wait: bool,
    /// Whether Enter, Exit and NextIteration are nodes of the body.
    pub(crate) keeps_frames: bool,
}

pub(crate) struct DraftNode {
    node: PlanNode,
    inputs: SmallVec<[Place; 3]>,
    waits_for: SmallVec<[u32; 4]>,
}

impl<'p> BodyBuilder<'p> {
    pub(crate) fn new(
        graph: &'p PlanGraph<'p>,
        context: PassContext<'p>,
        args: &[OutputRef],
    ) -> BodyBuilder<'p> {
        let mut builder = BodyBuilder {
            graph,
            context,
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
    pub(crate) fn go_on_with(
        &mut self,
        graph: &'p PlanGraph<'p>,
        context: PassContext<'p>,
        args: &[OutputRef],
    ) {
        self.graph = graph;
        self.context = context;
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

    pub(crate) fn add_items(&mut self, items: &[Item]) -> Result<()> {
        for item in items {
            match item {
                Item::Node(id) => self.add_node(self.graph.node(*id))?,
                Item::Loop(lifted) => self.add_loop(lifted)?,
            }
        }
        Ok(())
    }

    fn add_node(&mut self, node: &Node) -> Result<()> {
        if let Some(values) = self.graph.values(node.id) {
            for (index, value) in values.iter().enumerate() {
                self.add_constant(OutputRef::new(node.id, index), value.clone());
            }
            return Ok(());
        }
        // A constant that runs after something may be dead.
        let runs_after = node.control_inputs.iter().any(|id| self.numbers.contains_key(id));
        if !(self.may_be_dead && runs_after)
            && let Some(tensor) = constant(node)?
        {
            self.add_constant(OutputRef::new(node.id, 0), tensor);
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

    fn add_constant(&mut self, output: OutputRef, value: Tensor) {
        let place = Place::Constant(self.constants.len() as u32);
        self.constants.push(Value::Tensor(value));
        self.places.entry(output).or_insert(place);
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
        let action = match node.role() {
            Role::Switch => Action::Switch,
            Role::Merge => Action::Merge,
            Role::Enter | Role::Exit | Role::NextIteration | Role::LoopCond => Action::Forward,
            Role::ControlTrigger => Action::Trigger,
            role => match control_of(self.graph, node, &self.context)? {
                Some(control) => {
                    self.may_wait |= control.may_wait();
                    return Ok(Action::Control(Box::new(control)));
                }
                None => {
                    let kernel = self.context.kernel_of(node)?;
                    self.may_wait |= kernel.blocking().is_some();
                    return Ok(match role {
                        Role::Send => Action::Transfer(kernel),
                        _ if forwards(&*kernel, node) => Action::Forward,
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
    pub(crate) fn place_of(&self, output: OutputRef) -> Result<Place> {
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
            device: self.graph.device(node.id),
            in_function: self.context.in_function,
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
        let name = &self.graph.node(source.node).name;
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
        let node = self.graph.node(source.node);
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
        let graph = self.graph;
        let node = |id: NodeId| &**graph.node(id);
        let enters: Vec<NodeId> =
            lifted.vars.iter().map(|v| v.enter).chain(lifted.invariants.iter().copied()).collect();
        let mut controls: Vec<NodeId> =
            enters.iter().flat_map(|&id| node(id).control_inputs.iter().copied()).collect();
        controls.sort_unstable();
        controls.dedup();
        let inputs = enters.iter().map(|&id| self.place_of(node(id).inputs[0].source));
        let inputs = inputs.collect::<Result<_>>()?;

        let mut inner = BodyBuilder::new(self.graph, self.context, &[]);
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
        let made = make_loop(inner.finish_loop(&results, split, lifted.vars.len()), split, exits);

        let first = node(lifted.loop_cond);
        let action = Action::Control(Box::new(Control {
            task: Task::Loop(Arc::new(made)),
            style: Style::Inlined,
        }));
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
    pub(crate) fn finish_loop(self, results: &[Place], split: usize, num_vars: usize) -> Body {
        let num_args = self.num_args as u32;
        let vars: Vec<u32> = (0..num_vars as u32).collect();
        let invariants: Vec<u32> = (num_vars as u32..num_args).collect();
        self.finish_with(results, split, &[(usize::MAX, &invariants), (split, &vars)]).0
    }

    /// The body, and for each node those that it waits for.
    pub(crate) fn finish(self, results: &[OutputRef]) -> (Body, Vec<SmallVec<[u32; 4]>>) {
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
            scalars: scalars::groups(&nodes, split, self.may_be_dead),
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

/// A loop of a body whose nodes from `split` on run only if the condition holds.
pub(crate) fn make_loop(body: Body, split: usize, exits: Vec<bool>) -> Loop {
    let next = &body.results[1..];
    let outputs = body.args().end as u32;
    // Of several readers the last one may move.
    let mut read_later: HashSet<u32> = HashSet::from([body.results[0]]);
    let mut moves: Vec<bool> =
        next.iter().rev().map(|&slot| read_later.insert(slot) && slot >= outputs).collect();
    moves.reverse();
    let all_move = moves.iter().all(|&moves| moves);
    let scalars = scalars::scalar_loop(&body, split);
    Loop { body, split, exits, moves, all_move, scalars, dtypes: Vec::new(), functions: None }
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

/// True if a node only hands on its one input, for which no kernel is needed.
fn forwards(kernel: &dyn Kernel, node: &Node) -> bool {
    let is_single = node.inputs.len() == 1 && node.num_outputs() == 1;
    is_single && matches!(kernel.form(), KernelForm::Forwards)
}

/// Whether on average one and a half nodes or more can run at a time.
pub(crate) fn is_wide(waits_for: &[SmallVec<[u32; 4]>]) -> bool {
    let mut depths: Vec<usize> = Vec::with_capacity(waits_for.len());
    for list in waits_for {
        let depth = list.iter().map(|&other| depths[other as usize] + 1).max().unwrap_or(1);
        depths.push(depth);
    }
    let longest = depths.iter().copied().max().unwrap_or(1);
    waits_for.len() * 2 >= longest * 3
}

pub(crate) fn dependencies(body: &Body, waits_for: &[SmallVec<[u32; 4]>]) -> Dependencies {
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

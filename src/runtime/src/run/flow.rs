//! A run in the gear with frames: values travel along edges into iterations of frames, and a node runs in an
//! iteration once all that it waits for has arrived there, dead or alive.
//!
//! One lock guards the bookkeeping; kernels run outside of it.

use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use smallvec::SmallVec;
use tfcore_base::{Error, Result, internal};
use tfcore_framework::{BlockingContext, Outputs, Value};
use tfcore_plan::dataflow::{Dataflow, FlowNode, Kind};
use tfcore_plan::loops::ROOT;
use tfcore_plan::plan::{Action, Control, Function, Gear, Plan, Task};
use tfcore_plan::stack;

use crate::run::call::check_args;
use crate::run::control::{repeat, select, set_outputs, take_target};
use crate::run::exec::{Exec, Inputs, Run, Scope, Within, timed_out};
use crate::run::node::{prepare, run_node};
use crate::run::queue::Queue;
use crate::run::repeat::{Next, Repeat};

mod partial;
mod results;

/// Who is told how a plan ended.
type Done = Box<dyn FnOnce(Result<Outputs>) + Send>;

/// Runs a plan to its end; this thread takes part.
pub(crate) fn run(
    plan: &Arc<Plan>,
    dataflow: &Arc<Dataflow>,
    args: Inputs,
    exec: Exec<'_>,
) -> Result<Outputs> {
    let queue = Queue::new(exec.run.pool.clone());
    let end: Arc<Mutex<Option<Result<Outputs>>>> = Arc::default();
    let (tell, woken) = (end.clone(), queue.clone());
    let done = move |result| {
        *tell.lock() = Some(result);
        woken.wake();
    };
    let flow = Flow::start(plan, dataflow, args, exec, queue.clone(), Box::new(done));
    let is_over = || end.lock().is_some();
    if !queue.drive(exec.run.deadline, &is_over) {
        flow.fail(timed_out());
        // What waits has been cancelled and ends by itself.
        queue.drive(None, &is_over);
    }
    let result = end.lock().take();
    result.unwrap_or_else(|| Err(internal!("The run ended without a result")))
}

/// One run of a plan.
pub(crate) struct Flow {
    plan: Arc<Plan>,
    dataflow: Arc<Dataflow>,
    run: Arc<Run>,
    scope: Scope,
    queue: Arc<Queue>,
    /// Whether somebody waits for single results.
    is_partial: bool,
    state: Mutex<State>,
    done: Mutex<Option<Done>>,
}

#[derive(Default)]
struct State {
    /// Frames by number; those that have ended leave a gap.
    frames: Vec<Option<LiveFrame>>,
    /// The gaps, for frames to come.
    unused_frames: Vec<usize>,
    /// The live frame that a frame of the plan has within an iteration of its parent.
    children: HashMap<(usize, Place), usize>,
    /// Nodes that are ready, run or wait, and arguments that are still to come.
    outstanding: usize,
    error: Option<Error>,
    results: Vec<Option<Value>>,
    /// A result inside of a loop that a second iteration has yielded.
    set_twice: Option<u32>,
}

/// An iteration of a live frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Place {
    frame: usize,
    iteration: u64,
}

/// A frame while it runs.
struct LiveFrame {
    /// Its number in the plan.
    frame: usize,
    parent: Place,
    iterations: VecDeque<Iteration>,
    /// The number of the first iteration that has not ended.
    first: u64,
    /// What constant Enter nodes brought, for the iterations to come.
    constants: Vec<(u32, Arrival)>,
    /// What goes to an iteration that may not begin yet.
    held_back: Vec<(u32, Value)>,
    /// Enter nodes that have not run.
    pending_enters: usize,
    /// Exit nodes that were dead in the last iteration.
    dead_exits: Vec<u32>,
}

struct Iteration {
    nodes: Vec<Waiting>,
    inputs: Vec<Value>,
    /// Nodes that are ready, run or wait, and frames within that have not ended.
    outstanding: usize,
}

/// What a node still waits for in an iteration.
#[derive(Clone)]
struct Waiting {
    data: u32,
    controls: u32,
    dead_data: u32,
    is_dead: bool,
    /// For a Merge, the input that is alive.
    live: Option<u32>,
    has_run: bool,
}

/// What an edge brings.
#[derive(Clone)]
enum Arrival {
    Value(Value),
    Dead,
}

/// What happens next under the lock: there may be long chains of it.
enum Event {
    /// An input arrives.
    Data {
        place: Place,
        node: u32,
        input: u32,
        arrival: Arrival,
    },
    Control {
        place: Place,
        node: u32,
        is_dead: bool,
    },
    /// A node has ended, `None` if it was dead.
    Ended {
        place: Place,
        node: u32,
        outputs: Option<Outputs>,
    },
}

/// A node that can run.
struct Ready {
    place: Place,
    node: u32,
    inputs: Inputs,
}

impl Flow {
    /// Begins a run.
    pub(crate) fn start(
        plan: &Arc<Plan>,
        dataflow: &Arc<Dataflow>,
        args: Inputs,
        exec: Exec<'_>,
        queue: Arc<Queue>,
        done: Done,
    ) -> Arc<Flow> {
        let flow = Arc::new(Flow {
            plan: plan.clone(),
            dataflow: dataflow.clone(),
            run: exec.run.clone(),
            scope: exec.scope,
            queue,
            is_partial: false,
            state: Mutex::default(),
            done: Mutex::new(Some(done)),
        });
        let ready = flow.begin(args.into_iter().map(Some));
        flow.launch(ready);
        flow.settle();
        flow
    }

    /// What can run at once; arguments that are `None` come later. The run has one more outstanding than there is,
    /// until that has been launched.
    fn begin(&self, args: impl Iterator<Item = Option<Value>>) -> Vec<Ready> {
        let state = &mut *self.state.lock();
        state.outstanding = 1;
        let body = &self.plan.body;
        let constants = body.results.iter().map(|&slot| body.constants.get(slot as usize).cloned());
        state.results = constants.collect();
        let root = Place { frame: ROOT, iteration: 0 };
        state.frames.push(Some(LiveFrame::new(&self.dataflow, ROOT, root)));
        let mut events = Events::new(self, state);
        events.begin_iteration(ROOT);
        for source in self.dataflow.sources() {
            events.check_ready(root, source);
        }
        for (index, arg) in args.enumerate() {
            match arg {
                Some(value) => events.deliver_arg(index, value),
                None => events.state.outstanding += 1,
            }
        }
        events.run()
    }

    /// Hands nodes that can run to the queue.
    fn launch(self: &Arc<Self>, ready: Vec<Ready>) {
        for node in ready {
            let flow = self.clone();
            self.queue.push(Box::new(move || flow.work(node)));
        }
    }

    fn exec(&self) -> Exec<'_> {
        Exec { run: &self.run, scope: self.scope }
    }

    /// Runs a node, or begins to.
    fn work(self: Arc<Self>, ready: Ready) {
        let Ready { place, node: number, mut inputs } = ready;
        if self.state.lock().error.is_some() {
            return self.settle();
        }
        let node = &self.plan.body.nodes[number as usize];
        let mut exec = self.exec();
        if place.frame != ROOT {
            exec = exec.within(Within::Loop);
        }
        if let Err(error) = exec.check() {
            return self.ended(place, number, Err(error));
        }
        if let Some(kernel) = node.blocking() {
            if let Err(error) = prepare(node, &mut inputs) {
                return self.ended(place, number, Err(error));
            }
            let (dtypes, step) = (&node.output_dtypes, self.run.step_on(node.device).clone());
            let ctx = BlockingContext::new(inputs, dtypes, step, self.end_of(place, number));
            // A panic drops the context, which ends the node with an error.
            let _ = catch_unwind(AssertUnwindSafe(|| kernel.start(ctx)));
            return;
        }
        if let Action::Control(control) = &node.action
            && control.may_wait()
        {
            return self.start_control(control, number, inputs, self.end_of(place, number));
        }
        let mut outputs: Outputs = SmallVec::from_elem(Value::Absent, node.num_outputs());
        let result = run_node(node, inputs, &mut outputs, exec);
        self.ended(place, number, result.map(|()| outputs));
    }

    /// What is called when a node has ended that began here.
    fn end_of(self: &Arc<Self>, place: Place, number: u32) -> Done {
        let flow = self.clone();
        let start = self.run.trace.as_ref().map(|_| Instant::now());
        Box::new(move |result| {
            if let (Some(trace), Some(start), Ok(outputs)) = (&flow.run.trace, start, &result) {
                trace.record(&flow.plan.body.nodes[number as usize], start, outputs);
            }
            flow.ended(place, number, result);
        })
    }

    /// Notes the end of a node, and lets those run that waited for it.
    fn ended(self: &Arc<Self>, place: Place, number: u32, result: Result<Outputs>) {
        let outputs = match result {
            Ok(outputs) => outputs,
            Err(error) => {
                self.fail(self.exec().blame(&self.plan.body.nodes[number as usize], error));
                return self.settle();
            }
        };
        let (ready, set_twice) = {
            let state = &mut *self.state.lock();
            let mut events = Events::new(self, state);
            if events.state.error.is_none() {
                events.queue.push_back(Event::Ended {
                    place,
                    node: number,
                    outputs: Some(outputs),
                });
            }
            (events.run(), state.set_twice.take())
        };
        if let Some(result) = set_twice {
            self.fail(self.set_twice(result));
        }
        self.launch(ready);
        self.settle();
        self.tell();
    }

    /// Notes the first error and cancels the step, so that what waits ends.
    pub(crate) fn fail(&self, error: Error) {
        // Others of the step's plans end with `Cancelled` because of it; the client is told the cause.
        if !self.run.step.cancellation.is_cancelled() {
            self.run.cause.get_or_init(|| error.clone());
        }
        self.state.lock().error.get_or_insert(error);
        self.run.step.cancellation.cancel();
        self.tell();
    }

    /// One less is outstanding; ends the run if nothing is left.
    fn settle(&self) {
        let result = {
            let mut state = self.state.lock();
            state.outstanding -= 1;
            if state.outstanding > 0 {
                return;
            }
            match &state.error {
                Some(error) => Err(error.clone()),
                None if self.is_partial => Ok(Outputs::new()),
                None => {
                    let results = std::mem::take(&mut state.results);
                    Ok(results.into_iter().map(Option::unwrap_or_default).collect())
                }
            }
        };
        let done = self.done.lock().take();
        if let Some(done) = done {
            // It may end the caller's run too, and so on up a long chain of calls. Jobs of the queue begin on a short stack.
            match stack::is_low() {
                true => self.queue.push(Box::new(move || done(result))),
                false => done(result),
            }
        }
    }

    /// Begins what runs other plans, of which some node may wait for nodes of this one.
    fn start_control(
        self: &Arc<Self>,
        control: &Control,
        number: u32,
        mut inputs: Inputs,
        done: Done,
    ) {
        let (flow, style, kind) = (self.clone(), control.style, control.call_kind());
        let done: Done = Box::new(move |results| {
            let node = &flow.plan.body.nodes[number as usize];
            let outputs = results.and_then(|results| {
                let mut outputs: Outputs = SmallVec::from_elem(Value::Absent, node.num_outputs());
                set_outputs(results, &mut outputs, node, kind).map(|()| outputs)
            });
            done(outputs.map_err(|error| style.tell(error, &node.name)))
        });
        match &control.task {
            Task::Call { function, kind } => match take_target(*kind, &mut inputs, self.exec()) {
                Ok(()) => self.start_call(function, inputs, done),
                Err(error) => done(Err(error)),
            },
            Task::Branch { functions, by_index } => {
                match select(functions, *by_index, inputs.remove(0)) {
                    Ok(branch) => self.start_call(branch, inputs, done),
                    Err(error) => done(Err(error)),
                }
            }
            Task::While { .. } | Task::For { .. } | Task::Map(_) => match repeat(control, inputs) {
                Ok(repeat) => self.clone().go_on(repeat, Outputs::new(), done),
                Err(error) => done(Err(error)),
            },
            Task::Loop(_) => done(Err(internal!("A lifted loop does not wait"))),
        }
    }

    /// Makes the next call of `repeat`, after one with these results. Each goes through the queue, so that the stack does not grow
    /// with their number.
    fn go_on(self: Arc<Self>, mut repeat: Box<dyn Repeat>, results: Outputs, done: Done) {
        let exec = repeat.view(self.exec());
        // A panic is a bug, which must not leave the step waiting.
        let next = catch_unwind(AssertUnwindSafe(|| {
            exec.check()?;
            repeat.next(results, exec)
        }))
        .unwrap_or_else(|_| Err(internal!("A call could not be made")));
        match next {
            Err(error) => done(Err(error)),
            Ok(Next::End(outputs)) => done(Ok(outputs)),
            Ok(Next::Call(function, args)) => {
                let flow = self.clone();
                let then = move |results| match results {
                    Err(error) => done(Err(error)),
                    Ok(results) => {
                        let queue = flow.queue.clone();
                        queue.push(Box::new(move || flow.go_on(repeat, results, done)));
                    }
                };
                self.start_call(&function, args, Box::new(then));
            }
        }
    }

    fn start_call(self: &Arc<Self>, function: &Arc<Function>, args: Inputs, done: Done) {
        let begin = || {
            let exec = self.exec().deeper(function)?;
            let plan = self.run.functions.plan(function)?;
            check_args(plan, &args)?;
            Ok((exec, plan.clone()))
        };
        match begin() {
            Err(error) => done(Err(error)),
            Ok((exec, plan)) => match &plan.gear {
                Gear::Dataflow(dataflow) => {
                    let function = function.clone();
                    let done = move |results: Result<Outputs>| {
                        done(results.map_err(|error| error.in_function(&function.name)));
                    };
                    Flow::start(&plan, dataflow, args, exec, self.queue.clone(), Box::new(done));
                }
                _ => {
                    let results = stack::with_stack(|| exec.run.engine.run_plan(&plan, args, exec));
                    done(results.map_err(|error| error.in_function(&function.name)));
                }
            },
        }
    }
}

impl LiveFrame {
    fn new(flow: &Dataflow, frame: usize, parent: Place) -> LiveFrame {
        LiveFrame {
            frame,
            parent,
            iterations: VecDeque::new(),
            first: 0,
            constants: Vec::new(),
            held_back: Vec::new(),
            pending_enters: flow.frames[frame].num_enters,
            dead_exits: Vec::new(),
        }
    }

    fn iteration(&mut self, number: u64) -> Option<&mut Iteration> {
        let index = number.checked_sub(self.first)?;
        self.iterations.get_mut(usize::try_from(index).ok()?)
    }

    /// The number of the iteration that would begin next.
    fn end(&self) -> u64 {
        self.first + self.iterations.len() as u64
    }
}

/// The bookkeeping after something has happened, under the lock.
struct Events<'s> {
    plan: &'s Plan,
    flow: &'s Dataflow,
    state: &'s mut State,
    queue: VecDeque<Event>,
    /// Live frames that may have ended.
    may_have_ended: Vec<usize>,
    ready: Vec<Ready>,
}

impl<'s> Events<'s> {
    fn new(flow: &'s Flow, state: &'s mut State) -> Events<'s> {
        Events {
            plan: &flow.plan,
            flow: &flow.dataflow,
            state,
            queue: VecDeque::new(),
            may_have_ended: Vec::new(),
            ready: Vec::new(),
        }
    }

    /// Goes on until nothing follows from what has happened. Returns the nodes that can run now.
    fn run(mut self) -> Vec<Ready> {
        loop {
            match self.queue.pop_front() {
                Some(Event::Data { place, node, input, arrival }) => {
                    self.data_arrived(place, node, input, arrival);
                }
                Some(Event::Control { place, node, is_dead }) => {
                    self.control_arrived(place, node, is_dead);
                }
                Some(Event::Ended { place, node, outputs }) => {
                    self.node_ended(place, node, outputs);
                }
                // Only when all has arrived can be told what nothing more comes to.
                None => match self.may_have_ended.pop() {
                    Some(frame) => self.clean_up(frame),
                    None => return self.ready,
                },
            }
        }
    }

    fn node(&self, number: u32) -> &'s FlowNode {
        &self.flow.nodes[number as usize]
    }

    fn frame(&mut self, frame: usize) -> Option<&mut LiveFrame> {
        self.state.frames.get_mut(frame)?.as_mut()
    }

    fn deliver_arg(&mut self, index: usize, value: Value) {
        let place = Place { frame: ROOT, iteration: 0 };
        let slot = (self.plan.body.args().start + index) as u32;
        for (result, _) in self.plan.body.results.iter().enumerate().filter(|(_, s)| **s == slot) {
            self.state.results[result] = Some(value.clone());
        }
        for &(node, input) in &self.flow.args[index] {
            let arrival = Arrival::Value(value.clone());
            self.queue.push_back(Event::Data { place, node, input, arrival });
        }
    }

    fn data_arrived(&mut self, place: Place, number: u32, input: u32, arrival: Arrival) {
        let node = self.node(number);
        let Some(iteration) = self.frame(place.frame).and_then(|f| f.iteration(place.iteration))
        else {
            return;
        };
        let waiting = &mut iteration.nodes[node.number];
        waiting.data = waiting.data.saturating_sub(1);
        match arrival {
            Arrival::Dead => {
                waiting.dead_data += 1;
                waiting.is_dead = true;
            }
            Arrival::Value(value) => {
                let is_first = waiting.live.is_none();
                waiting.live.get_or_insert(input);
                if is_first || !matches!(node.kind, Kind::Merge { .. }) {
                    iteration.inputs[node.first_input + input as usize] = value;
                }
            }
        }
        self.check_ready(place, number);
    }

    fn control_arrived(&mut self, place: Place, number: u32, is_dead: bool) {
        let node = self.node(number);
        let Some(iteration) = self.frame(place.frame).and_then(|f| f.iteration(place.iteration))
        else {
            return;
        };
        let waiting = &mut iteration.nodes[node.number];
        waiting.controls = waiting.controls.saturating_sub(1);
        waiting.is_dead |= is_dead;
        self.check_ready(place, number);
    }

    /// Lets a node run, or die, if all is there.
    fn check_ready(&mut self, place: Place, number: u32) {
        let node = self.node(number);
        let planned = &self.plan.body.nodes[number as usize];
        let constants = &self.plan.body.constants;
        let constant = |slot: u32| constants.get(slot as usize);
        let Some(iteration) = self.frame(place.frame).and_then(|f| f.iteration(place.iteration))
        else {
            return;
        };
        let waiting = &mut iteration.nodes[node.number];
        if waiting.has_run || waiting.controls > 0 {
            return;
        }
        let (is_ready, is_dead) = match node.kind {
            Kind::Merge { back_edges } => {
                let has_constant =
                    planned.inputs.iter().any(|input| constant(input.slot).is_some());
                let is_live = waiting.live.is_some() || has_constant;
                let is_dead = !is_live && waiting.dead_data >= node.num_data - back_edges;
                (is_live || is_dead, is_dead)
            }
            Kind::Trigger | Kind::Transfer => (waiting.data == 0, false),
            _ => (waiting.data == 0, waiting.is_dead),
        };
        if !is_ready {
            return;
        }
        waiting.has_run = true;
        // What a dead node would have sent is dead.
        let is_cut_off = waiting.is_dead && node.kind == Kind::Transfer;
        iteration.outstanding += 1;
        let inputs = &mut iteration.inputs[node.first_input..];
        let mut inputs: Inputs = planned
            .inputs
            .iter()
            .zip(inputs)
            .map(|(input, value)| {
                constant(input.slot).cloned().unwrap_or_else(|| std::mem::take(value))
            })
            .collect();
        if is_cut_off {
            inputs.fill(Value::Absent);
        }
        if is_dead {
            self.queue.push_back(Event::Ended { place, node: number, outputs: None });
        } else {
            self.state.outstanding += 1;
            self.ready.push(Ready { place, node: number, inputs });
        }
    }

    fn node_ended(&mut self, place: Place, number: u32, outputs: Option<Outputs>) {
        let node = self.node(number);
        self.note_end(place, number, outputs.as_ref());
        match node.kind {
            Kind::Enter { child, is_constant } => {
                let child = self.child(child, place);
                self.enter(child, number, is_constant, outputs);
            }
            Kind::Exit => self.exit(place, number, outputs),
            Kind::NextIteration => {
                if let Some(value) = outputs.and_then(|mut outputs| outputs.pop()) {
                    self.next_iteration(place, number, value);
                }
            }
            _ => self.propagate(place, number, outputs),
        }
        if let Some(iteration) = self.frame(place.frame).and_then(|f| f.iteration(place.iteration))
        {
            iteration.outstanding -= 1;
        }
        self.may_have_ended.push(place.frame);
    }

    /// Tells all that wait for a node, in iteration `place`.
    fn propagate(&mut self, place: Place, number: u32, outputs: Option<Outputs>) {
        let node = self.node(number);
        let is_dead = outputs.is_none();
        for (index, readers) in node.readers.iter().enumerate() {
            let value = outputs.as_ref().map_or(Value::Absent, |outputs| outputs[index].clone());
            for &(reader, input) in readers {
                let arrival = match &value {
                    Value::Absent => Arrival::Dead,
                    value => Arrival::Value(value.clone()),
                };
                self.queue.push_back(Event::Data { place, node: reader, input, arrival });
            }
        }
        for &follower in &node.followers {
            self.queue.push_back(Event::Control { place, node: follower, is_dead });
        }
    }

    /// The live frame within `place`; it begins with its first Enter.
    fn child(&mut self, frame: usize, place: Place) -> usize {
        if let Some(&child) = self.state.children.get(&(frame, place)) {
            return child;
        }
        let made = Some(LiveFrame::new(self.flow, frame, place));
        let child = match self.state.unused_frames.pop() {
            Some(unused) => {
                self.state.frames[unused] = made;
                unused
            }
            None => {
                self.state.frames.push(made);
                self.state.frames.len() - 1
            }
        };
        self.state.children.insert((frame, place), child);
        if let Some(parent) = self.frame(place.frame).and_then(|f| f.iteration(place.iteration)) {
            parent.outstanding += 1;
        }
        self.begin_iteration(child);
        child
    }

    fn enter(&mut self, child: usize, number: u32, is_constant: bool, outputs: Option<Outputs>) {
        let place = Place { frame: child, iteration: 0 };
        let Some(frame) = self.frame(child) else { return };
        frame.pending_enters = frame.pending_enters.saturating_sub(1);
        if is_constant {
            let arrival = match outputs.as_ref().and_then(|outputs| outputs.first()) {
                Some(value) => Arrival::Value(value.clone()),
                None => Arrival::Dead,
            };
            frame.constants.push((number, arrival));
            let iterations = frame.first..frame.end();
            for iteration in iterations {
                let place = Place { frame: child, iteration };
                self.propagate_constant(place, number, outputs.clone());
            }
        } else {
            self.propagate(place, number, outputs);
        }
        self.may_have_ended.push(child);
    }

    fn exit(&mut self, place: Place, number: u32, outputs: Option<Outputs>) {
        let Some(frame) = self.frame(place.frame) else { return };
        if outputs.is_some() {
            let parent = frame.parent;
            self.propagate_exit(parent, number, outputs);
        } else if place.iteration + 1 == frame.end() {
            frame.dead_exits.push(number);
        }
    }

    fn next_iteration(&mut self, place: Place, number: u32, value: Value) {
        let Some(frame) = self.frame(place.frame) else { return };
        let next = place.iteration + 1;
        if next == frame.end() {
            let limit = frame.frame;
            if frame.iterations.len() >= self.flow.frames[limit].parallel_iterations {
                let Some(frame) = self.frame(place.frame) else { return };
                return frame.held_back.push((number, value));
            }
            self.begin_iteration(place.frame);
        }
        let place = Place { iteration: next, ..place };
        self.propagate(place, number, Some(SmallVec::from_iter([value])));
    }

    fn begin_iteration(&mut self, live: usize) {
        let flow = self.flow;
        let Some(frame) = self.frame(live) else { return };
        let planned = &flow.frames[frame.frame];
        let waiting = |&number: &u32| {
            let node = &flow.nodes[number as usize];
            Waiting {
                data: node.num_data,
                controls: node.num_controls,
                dead_data: 0,
                is_dead: false,
                live: None,
                has_run: false,
            }
        };
        frame.iterations.push_back(Iteration {
            nodes: planned.nodes.iter().map(waiting).collect(),
            inputs: vec![Value::Absent; planned.num_inputs],
            outstanding: 0,
        });
        frame.dead_exits.clear();
        let iteration = frame.end() - 1;
        let constants = frame.constants.clone();
        for (number, arrival) in constants {
            let outputs = match arrival {
                Arrival::Value(value) => Some(SmallVec::from_iter([value])),
                Arrival::Dead => None,
            };
            self.propagate_constant(Place { frame: live, iteration }, number, outputs);
        }
    }

    /// Ends iterations to which nothing can come any more, and then the frame.
    fn clean_up(&mut self, live: usize) {
        let flow = self.flow;
        let Some(frame) = self.frame(live).filter(|_| live != ROOT) else { return };
        let is_over = |iteration: &Iteration| iteration.outstanding == 0;
        while frame.pending_enters == 0 && frame.iterations.front().is_some_and(is_over) {
            frame.iterations.pop_front();
            frame.first += 1;
        }
        let has_room = frame.iterations.len() < flow.frames[frame.frame].parallel_iterations;
        if has_room && !frame.held_back.is_empty() {
            let held_back = std::mem::take(&mut frame.held_back);
            let place = Place { frame: live, iteration: frame.end() };
            self.begin_iteration(live);
            for (number, value) in held_back {
                self.propagate(place, number, Some(SmallVec::from_iter([value])));
            }
            self.may_have_ended.push(live);
        } else if frame.iterations.is_empty() && frame.pending_enters == 0 {
            self.end_frame(live);
        }
    }

    fn end_frame(&mut self, live: usize) {
        let Some(frame) = self.state.frames[live].take() else { return };
        self.state.unused_frames.push(live);
        let parent = frame.parent;
        self.state.children.remove(&(frame.frame, parent));
        for number in frame.dead_exits {
            self.propagate_exit(parent, number, None);
        }
        if let Some(iteration) =
            self.frame(parent.frame).and_then(|f| f.iteration(parent.iteration))
        {
            iteration.outstanding -= 1;
        }
        self.may_have_ended.push(parent.frame);
    }
}

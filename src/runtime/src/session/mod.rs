//! `Session`: a graph's nodes taken in for running, their state, and the plans made so far.

pub(crate) mod graph_session;
pub(crate) mod life;
pub(crate) mod mutated;
pub(crate) mod named;
pub(crate) mod partial;
mod recent;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use tfcore_base::{DType, Result, invalid, out_of_range};
use tfcore_framework::{Caller, Outputs, Registry, Value};
use tfcore_graph::{Graph, Node, NodeId, OutputRef, SINK, SOURCE, is_valid_node_name};
use tfcore_math::denormals::FlushDenormals;
use tfcore_math::pool::Pool;
use tfcore_proto as proto;
use tfcore_tensor::Tensor;

use crate::environment::config::SessionConfig;
use crate::environment::device::Device;
use crate::environment::{Environment, new_steps};
use crate::run::engine;
use crate::run::exec::Inputs;
use crate::run::exec::Run;
use crate::session::life::Life;
use crate::session::mutated::check_nodes;
use crate::session::partial::{Announcement, check_names};
use crate::session::recent::Recent;
use crate::trace::oom;
use crate::trace::record::Trace;
use crate::trace::report::{self, Report, describe_feeds};
use tfcore_plan::context::PassContext;
use tfcore_plan::graph::{PlanGraph, Source};
use tfcore_plan::lanes::Lanes;
use tfcore_plan::partition::{Partition, partition_graphs};
use tfcore_plan::passes::prune::prune;
use tfcore_plan::place::Placement;
use tfcore_plan::plan::{Kernels, Plan};
use tfcore_plan::planner::{plan, plan_partial};
use tfcore_plan::retval::{Retval, positions};
use tfcore_plan::shapes::Shapes;
use tfcore_plan::stack::with_stack;

/// What a client asks of a session.
#[derive(Default)]
pub struct Request {
    pub feeds: Vec<OutputRef>,
    /// What the feeds are, in their order.
    pub values: Inputs,
    pub fetches: Vec<OutputRef>,
    pub targets: Vec<NodeId>,
    /// Whether the times of all nodes are wanted.
    pub step_stats: bool,
    /// Whether the costs of all nodes are wanted, with their times, if the run is one of those that the session measures.
    pub cost_graph: bool,
    /// Whether an error of memory is to tell what was in use.
    pub notes_memory: bool,
    /// Whether the graphs that the devices run are wanted.
    pub partition_graphs: bool,
    /// How long the run may take; the session's limit if `None`.
    pub timeout: Option<Duration>,
    /// Which of the session's pools the nodes share; -1 for the caller's thread alone.
    pub pool: i32,
}

impl Request {
    /// A request for fetches, given feeds.
    pub fn new(
        feeds: impl IntoIterator<Item = (OutputRef, Tensor)>,
        fetches: &[OutputRef],
    ) -> Request {
        let mut request = Request { fetches: fetches.to_vec(), ..Request::default() };
        feeds.into_iter().for_each(|(output, tensor)| request.feed(output, tensor));
        request
    }

    /// Gives an output a value.
    pub fn feed(&mut self, output: OutputRef, tensor: Tensor) {
        self.feeds.push(output);
        self.values.push(Value::Tensor(tensor));
    }
}

/// What a run yields.
#[derive(Default)]
pub struct Outcome {
    /// The fetched tensors.
    values: Outputs,
    /// The times of all nodes, if they were wanted.
    pub step_stats: Option<proto::StepStats>,
    /// What the nodes cost, if the run was measured.
    pub cost_graph: Option<proto::CostGraphDef>,
    /// A graph for each device that runs something, if they were wanted.
    pub partition_graphs: Vec<proto::GraphDef>,
    /// What the session serves, if it was told.
    pub session: Option<proto::SessionMetadata>,
}

impl Outcome {
    /// The fetched tensors, in order; they are taken out.
    pub fn take_tensors(&mut self) -> impl Iterator<Item = Tensor> + '_ {
        self.values.drain(..).filter_map(|value| match value {
            Value::Tensor(tensor) => Some(tensor),
            _ => None,
        })
    }
}

/// Runs parts of a graph, and keeps the state of its variables.
pub struct Session {
    environment: Arc<Environment>,
    nodes: RwLock<Arc<Vec<Arc<Node>>>>,
    /// Of all `nodes`, and maybe of some that are about to be taken in.
    placement: RwLock<Arc<Placement>>,
    /// Of all `nodes`, and maybe of some that are about to be taken in.
    shapes: RwLock<Arc<Shapes>>,
    versions: RwLock<proto::VersionDef>,
    plans: Recent<Signature, Plan>,
    kept: Lanes<Kept>,
    kernels: Kernels,
    config: SessionConfig,
    life: Arc<Life>,
    /// Held while nodes are taken in.
    extending: Mutex<()>,
}

/// A session keeps the plans of the latest requests as long as they have at most this many nodes together. A node takes about
/// 240 bytes.
const MAX_PLANNED_NODES: usize = 1 << 16;

/// A plan without nodes takes about as much memory as this number of nodes.
const SMALLEST_PLAN: usize = 32;

/// What distinguishes the plans of a session.
#[derive(PartialEq, Eq, Hash, Clone)]
struct Signature {
    feeds: Vec<OutputRef>,
    fetches: Vec<OutputRef>,
    targets: Vec<NodeId>,
    is_partial: bool,
    /// True for runs that note each node: all nodes of the client's graph run then.
    is_traced: bool,
}

impl Signature {
    /// What is asked for, and the nodes that may be needed for it.
    fn source<'s>(
        &'s self,
        nodes: &'s [Arc<Node>],
        placement: &'s Placement,
        shapes: &'s Shapes,
    ) -> Source<'s> {
        let Signature { feeds: args, fetches: results, targets, .. } = self;
        Source { nodes, placement, shapes, args, results, targets }
    }
}

/// Threads take so many step numbers at a time.
const STEPS_AT_A_TIME: i64 = 64;

/// What a thread keeps of its last run for the next one, which most often asks for the same.
#[derive(Default)]
struct Kept {
    plan: Option<(Signature, Arc<Plan>)>,
    run: Option<Arc<Run>>,
    /// Step numbers that nobody else uses.
    steps: Range<i64>,
}

impl Kept {
    fn begin_run(
        &mut self,
        session: &Session,
        pool: &Option<Arc<Pool>>,
        trace: Option<Arc<Trace>>,
        deadline: Option<Instant>,
    ) -> Arc<Run> {
        let step = self.steps.next().unwrap_or_else(|| {
            let first = new_steps(STEPS_AT_A_TIME);
            self.steps = first + 1..first + STEPS_AT_A_TIME;
            first
        });
        if let Some(mut kept) = self.run.take()
            && let Some(run) = Arc::get_mut(&mut kept)
            && run.pool.as_ref().map(Arc::as_ptr) == pool.as_ref().map(Arc::as_ptr)
            && let Some(old) = Arc::get_mut(&mut run.step)
        {
            old.id = step;
            (run.trace, run.deadline) = (trace, deadline);
            return kept;
        }
        Arc::new(Run { trace, deadline, ..session.new_run(step, pool) })
    }

    /// Keeps a run that is over, unless something of it has to go with it.
    fn end_run(&mut self, mut run: Arc<Run>) {
        if Arc::get_mut(&mut run).is_some_and(Run::is_untouched) {
            self.run = Some(run);
        }
    }
}

impl Session {
    /// A session in an environment of its own.
    ///
    /// # Errors
    /// As [`Environment::new`] and [`Session::in_environment`].
    pub fn new(registry: Arc<Registry>, config: &SessionConfig) -> Result<Session> {
        Session::in_environment(Environment::new(registry, config)?, config)
    }

    /// A session whose variables, functions, threads and memory are those of `environment`.
    ///
    /// # Errors
    /// `InvalidArgument` if there is a session of the same name and version.
    pub fn in_environment(
        environment: Arc<Environment>,
        config: &SessionConfig,
    ) -> Result<Session> {
        let life = Life::begin(&environment, config.metadata.clone())?;
        environment.enter();
        Ok(Session {
            environment,
            nodes: RwLock::default(),
            placement: RwLock::default(),
            shapes: RwLock::default(),
            versions: RwLock::default(),
            plans: Recent::new(MAX_PLANNED_NODES),
            kept: Lanes::default(),
            kernels: Mutex::default(),
            life,
            config: config.clone(),
            extending: Mutex::new(()),
        })
    }

    /// What the session is made of besides its graph.
    pub fn environment(&self) -> &Arc<Environment> {
        &self.environment
    }

    pub fn devices(&self) -> &[Device] {
        &self.environment.devices
    }

    /// Whether the session has not been closed.
    ///
    /// # Errors
    /// `Cancelled` if it has.
    pub fn check_open(&self) -> Result<()> {
        self.life.check()
    }

    /// Takes in the nodes that were added to the graph since the last call.
    ///
    /// # Errors
    /// `InvalidArgument` for a node that no GraphDef could hold, and for one that has no place; then none is taken in.
    /// `Cancelled` for new nodes after the session has been closed.
    pub fn extend(&self, graph: &Graph) -> Result<()> {
        self.environment.functions.set_library(graph.library());
        if self.nodes.read().len() == graph.num_ids() {
            return Ok(());
        }
        self.life.check()?;
        let _extending = self.extending.lock();
        let known = self.nodes.read().len();
        let mut nodes: Vec<Arc<Node>> = Vec::with_capacity(graph.num_ids());
        nodes.extend(self.nodes.read().iter().cloned());
        for index in known..graph.num_ids() {
            let node = graph.node(NodeId(index as u32));
            // Source and Sink, which every graph has, are internal.
            let is_internal = [SOURCE, SINK].contains(&node.id);
            if !is_valid_node_name(&node.name, is_internal) {
                return Err(invalid!(
                    "Node '{}': Node name contains invalid characters",
                    node.name
                ));
            }
            nodes.push(node.clone());
        }
        if graph.is_mutated() {
            check_nodes(&nodes, known)?;
        }
        let placement =
            self.environment.functions.placer().place(&nodes, known, &self.placement.read())?;
        *self.placement.write() = Arc::new(placement);
        Arc::make_mut(&mut self.shapes.write()).extend(graph);
        *self.versions.write() = graph.versions_to_proto();
        *self.nodes.write() = Arc::new(nodes);
        Ok(())
    }

    /// Cancels the runs in progress and makes further ones fail. Closing twice is allowed.
    pub fn close(&self) {
        self.life.close();
    }

    /// Runs what the fetches and targets need.
    ///
    /// # Errors
    /// The request's, in the reference's words; else the first failing node's, with its name.
    pub fn run(&self, request: Request) -> Result<Outcome> {
        self.life.check()?;
        self.config.check_partition_graphs(request.partition_graphs)?;
        let Request { feeds, values, fetches, targets, timeout, pool, .. } = request;
        let is_traced = request.step_stats || request.notes_memory;
        let signature = Signature { feeds, fetches, targets, is_partial: false, is_traced };
        let mut kept = std::mem::take(&mut *self.kept.mine());
        let plan = match kept.plan.take() {
            Some((known, plan)) if known == signature => plan,
            _ => self.plan(&signature, |nodes| check_request(nodes, &signature))?,
        };
        check_dtypes(&plan, &values, || describe(&self.nodes.read(), &signature.feeds))?;
        let pool = self.environment.pool(pool)?;
        let timeout = timeout.or(self.config.timeout);
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let is_measured = self.config.build_cost_model > 0
            && self.config.measures(plan.runs.fetch_add(1, Ordering::Relaxed))
            && request.cost_graph;
        let fed = (request.step_stats || is_measured)
            .then(|| describe_feeds(&self.nodes.read(), &signature.feeds, &values));
        let is_traced = fed.is_some() || request.notes_memory;
        let trace = is_traced.then(|| Arc::new(Trace::new()));
        let run = kept.begin_run(self, pool, trace, deadline);
        let values = {
            let _flush = FlushDenormals::new();
            engine::run(&plan, values, &run)
        };
        self.environment.buffers.end_run();
        let values = values.map_err(|error| {
            oom::explain(error, run.trace.as_deref(), &self.environment.devices)
        })?;
        let mut outcome = Outcome { values, ..Outcome::default() };
        if fed.is_some() || request.partition_graphs {
            outcome.partition_graphs =
                self.partition_graphs(&signature, request.partition_graphs)?;
        }
        if let (Some(trace), Some(fed)) = (&run.trace, fed) {
            let nodes = self.nodes.read().clone();
            let report = Report::new(&self.environment.devices, &nodes, &outcome.partition_graphs);
            let done = report.by_device(trace.take(), &fed);
            outcome.cost_graph = is_measured.then(|| report.cost_graph(&done));
            outcome.step_stats = Some(report::step_stats(done));
        }
        if !request.partition_graphs {
            outcome.partition_graphs.clear();
        }
        kept.plan = Some((signature, plan));
        kept.end_run(run);
        *self.kept.mine() = kept;
        let metadata = self.config.metadata.clone();
        outcome.session = metadata.map(|(name, version)| proto::SessionMetadata { name, version });
        Ok(outcome)
    }

    /// The graphs that the devices run for a request.
    fn partition_graphs(
        &self,
        signature: &Signature,
        with_attrs: bool,
    ) -> Result<Vec<proto::GraphDef>> {
        let nodes = self.nodes.read().clone();
        let (placement, shapes) = (self.placement.read().clone(), self.shapes.read().clone());
        let mut graph = PlanGraph::new(signature.source(&nodes, &placement, &shapes));
        prune(&mut graph)?;
        let devices: Vec<&str> = self.environment.devices.iter().map(Device::name).collect();
        Ok(partition_graphs(&Partition {
            graph: &graph,
            devices: &devices,
            versions: &self.versions.read().clone(),
            with_attrs,
        }))
    }

    /// Begins a partial run of what is announced, and returns its handle.
    ///
    /// # Errors
    /// What is wrong with the announcement.
    pub fn begin_partial(&self, announced: &Announcement) -> Result<String> {
        self.life.check()?;
        let nodes = self.nodes.read().clone();
        let (feeds, fetches, targets) = announced.resolve(&nodes)?;
        let signature = Signature {
            feeds: feeds.iter().map(|feed| feed.output).collect(),
            fetches: fetches.iter().map(|fetch| fetch.output).collect(),
            targets,
            is_partial: true,
            is_traced: false,
        };
        let plan = self.plan(&signature, |_| Ok(()))?;
        let step = new_steps(1);
        let call_deadlines = self.config.timeout.map(|_| Mutex::default());
        let run = Run { call_deadlines, ..self.new_run(step, self.environment.pool(0)?) };
        let run = Arc::new(run);
        self.life.partial_runs.begin(&announced.key(), nodes, &plan, &run, feeds, fetches)
    }

    /// Goes on with a partial run: feeds a part of what was announced, waits for another and returns it.
    ///
    /// # Errors
    /// `InvalidArgument` for an unknown handle and for feeds and fetches out of turn, which do no harm. Any other error ends the
    /// partial run.
    pub fn run_partial(
        &self,
        handle: &str,
        feeds: Vec<(String, Tensor)>,
        fetches: &[String],
    ) -> Result<Vec<Tensor>> {
        self.life.check()?;
        let deadline = self.config.timeout.and_then(|limit| Instant::now().checked_add(limit));
        let _flush = FlushDenormals::new();
        let outcome = self.life.partial_runs.proceed(handle, feeds, fetches, deadline);
        self.environment.buffers.end_run();
        outcome
    }

    /// A run that ends with the session.
    fn new_run(&self, id: i64, pool: &Option<Arc<Pool>>) -> Run {
        let cancellation = self.life.cancellation.clone();
        self.environment.new_run(id, pool, &Caller { cancellation, depth: 0 })
    }

    /// The plan for a request, made if need be.
    fn plan(
        &self,
        signature: &Signature,
        check: impl FnOnce(&[Arc<Node>]) -> Result<()>,
    ) -> Result<Arc<Plan>> {
        if let Some(plan) = self.plans.get(signature) {
            return Ok(plan);
        }
        let nodes = self.nodes.read().clone();
        check(&nodes)?;
        self.config.check_executor()?;
        let (placement, shapes) = (self.placement.read().clone(), self.shapes.read().clone());
        let source = signature.source(&nodes, &placement, &shapes);
        let without_fold = signature.is_traced.then(|| self.environment.options.without("fold"));
        let context = PassContext {
            registry: &self.environment.registry,
            functions: &*self.environment.functions,
            placer: self.environment.functions.placer(),
            kernels: &self.kernels,
            callers: &[],
            in_function: false,
            options: without_fold.as_ref().unwrap_or(&self.environment.options),
        };
        let mut plan = with_stack(|| {
            if signature.is_partial {
                return plan_partial(source, &context);
            }
            check_fed_references(source)?;
            plan(source, &context)
        })?;
        plan.retvals = Retval::all(&nodes, &signature.fetches);
        let weight = plan.body.nodes.len() + SMALLEST_PLAN;
        Ok(self.plans.get_or_insert(signature, plan, weight))
    }
}

/// Checks that no node that runs wants to change what is fed, which is a value.
fn check_fed_references(source: Source<'_>) -> Result<()> {
    let (nodes, feeds) = (source.nodes, source.args);
    let is_ref = |feed: &OutputRef| nodes[feed.node.index()].output_dtypes[feed.port()].is_ref();
    if !feeds.iter().any(is_ref) {
        return Ok(());
    }
    let mut graph = PlanGraph::new(source);
    prune(&mut graph)?;
    for node in graph.order.iter().map(|&id| graph.node(id)) {
        for (input, (edge, expected)) in node.inputs.iter().zip(&node.input_dtypes).enumerate() {
            if expected.is_ref()
                && let Some(feed) = feeds.iter().position(|feed| *feed == edge.source)
            {
                return Err(invalid!(
                    "Input {input} of node {} was passed {} from _arg_{}_{}_{}:0 incompatible with expected {expected}.",
                    node.name,
                    expected.base(),
                    nodes[edge.source.node.index()].name,
                    edge.source.index,
                    positions(nodes, feeds)[feed],
                ));
            }
        }
    }
    Ok(())
}

/// Returns what messages call feeds: position and name.
fn describe(nodes: &[Arc<Node>], feeds: &[OutputRef]) -> Vec<(usize, String)> {
    let name = |feed: &OutputRef| format!("{}:{}", nodes[feed.node.index()].name, feed.index);
    positions(nodes, feeds).into_iter().zip(feeds.iter().map(name)).collect()
}

/// Compares the feeds with what the plan expects; `described` tells what messages call them.
fn check_dtypes(
    plan: &Plan,
    values: &[Value],
    described: impl FnOnce() -> Vec<(usize, String)>,
) -> Result<()> {
    let wrong = |(expected, value): (&DType, &Value)| match value {
        Value::Tensor(tensor) if tensor.dtype() != *expected => Some((*expected, tensor.dtype())),
        _ => None,
    };
    let pairs = || plan.arg_dtypes.iter().zip(values);
    if pairs().all(|pair| wrong(pair).is_none()) {
        return Ok(());
    }
    let wrong = pairs().zip(described()).filter_map(|(pair, at)| wrong(pair).map(|w| (at, w)));
    wrong.min_by_key(|(at, _)| at.0).map_or(Ok(()), |((position, name), (expected, got))| {
        Err(invalid!(
            "Expects arg[{position}] to be {expected} but {got} is provided (feed '{name}')"
        ))
    })
}

impl Drop for Session {
    /// Partial runs that nobody ends hold on to what they wait for.
    fn drop(&mut self) {
        self.life.close();
        self.environment.leave();
    }
}

fn check_request(nodes: &[Arc<Node>], signature: &Signature) -> Result<()> {
    let Signature { feeds, fetches, targets, .. } = signature;
    if fetches.is_empty() && targets.is_empty() {
        return Err(invalid!("Must specify at least one target to fetch or execute."));
    }
    let strange = |id: &NodeId| id.index() >= nodes.len();
    let mut ids = feeds.iter().chain(fetches).map(|output| &output.node).chain(targets);
    if let Some(id) = ids.find(|id| strange(id)) {
        return Err(invalid!("Node {} is not in the session's graph", id.0));
    }
    // Of several mistakes the reference tells the one that comes first by name.
    let sorted = |outputs: &[OutputRef]| {
        let name = |output: &OutputRef| {
            (format!("{}:{}", nodes[output.node.index()].name, output.index), *output)
        };
        let mut named: Vec<(String, OutputRef)> = outputs.iter().map(name).collect();
        named.sort_unstable();
        named
    };
    let (feeds, fetches) = (sorted(feeds), sorted(fetches));
    for (_, output) in feeds.iter().chain(&fetches) {
        let node = &nodes[output.node.index()];
        if output.port() >= node.num_outputs() {
            return Err(out_of_range!(
                "Node '{}' (type: '{}', num of outputs: {}) does not have output {}",
                node.name,
                node.op.name,
                node.num_outputs(),
                output.index
            ));
        }
    }
    let names = |named: Vec<(String, OutputRef)>| Vec::from_iter(named.into_iter().map(|n| n.0));
    check_names(&names(feeds), &names(fetches))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tfcore_base::Code;
    use tfcore_plan::testing::{add, registry, vector};

    #[test]
    fn a_session_takes_new_nodes_in_and_refuses_bad_requests() {
        let mut graph = Graph::new(registry());
        let x = add(&mut graph, "Placeholder", "x", &[]);
        let a = add(&mut graph, "Neg", "a", &[x]);
        let session = Session::new(registry(), &SessionConfig::default()).unwrap();
        let run = |feeds: &[(OutputRef, &Tensor)], fetches: &[OutputRef]| {
            let feeds = feeds.iter().map(|&(to, tensor)| (to, tensor.clone()));
            session.run(Request::new(feeds, fetches))
        };
        let one = vector(&[1.0]);
        session.extend(&graph).unwrap();
        run(&[(x, &one)], &[a]).unwrap();

        let b = add(&mut graph, "Neg", "b", &[a]);
        assert_eq!(run(&[(x, &one)], &[b]).err().unwrap().code(), Code::InvalidArgument);
        session.extend(&graph).unwrap();
        let mut outcome = run(&[(x, &one)], &[b]).unwrap();
        let tensor = outcome.take_tensors().next().unwrap();
        assert_eq!(tensor.as_slice::<f32>().unwrap(), [1.0]);

        let integer = Tensor::scalar(1i32);
        let beyond = OutputRef::new(a.node, 1);
        let cases: [(&[(OutputRef, &Tensor)], &[OutputRef], Code, &str); 6] = [
            (&[], &[], Code::InvalidArgument, "Must specify at least one target"),
            (&[(x, &one), (x, &one)], &[a], Code::InvalidArgument, "\"x:0\" fed more than once"),
            (&[(x, &one)], &[x], Code::InvalidArgument, "x:0 is both fed and fetched"),
            (&[(x, &one)], &[beyond], Code::OutOfRange, "does not have output 1"),
            (
                &[(x, &integer)],
                &[a],
                Code::InvalidArgument,
                "Expects arg[0] to be float but int32 is provided (feed 'x:0')",
            ),
            (&[], &[a], Code::InvalidArgument, "not fed"),
        ];
        for (feeds, fetches, code, message) in cases {
            let error = run(feeds, fetches).err().unwrap();
            assert_eq!(error.code(), code, "{message}");
            assert!(error.message().contains(message), "{error}");
        }
        session.close();
        assert_eq!(run(&[(x, &one)], &[a]).err().unwrap().code(), Code::Cancelled);
    }

    /// A session of `y = op(x)`, and how to run it.
    fn session_of(
        compute: fn(&mut tfcore_framework::OpContext<'_>) -> Result<()>,
    ) -> (Session, impl Fn(&Session, Request) -> Result<Tensor>) {
        let mut registry = Registry::new();
        registry.op("Placeholder").compute(|_| Err(invalid!("not fed")));
        registry.op("Neg").compute(compute);
        let registry = Arc::new(registry);
        let mut graph = Graph::new(registry.clone());
        let x = add(&mut graph, "Placeholder", "x", &[]);
        let y = add(&mut graph, "Neg", "y", &[x]);
        let session = Session::new(registry, &SessionConfig::default()).unwrap();
        session.extend(&graph).unwrap();
        let run = move |session: &Session, options: Request| {
            let request = Request::new([(x, vector(&[1.0]))], &[y]);
            let Request { timeout, step_stats, .. } = options;
            let request = Request { timeout, step_stats, ..request };
            let mut outcome = session.run(request)?;
            assert_eq!(outcome.step_stats.is_some(), step_stats);
            Ok(outcome.take_tensors().next().unwrap())
        };
        (session, run)
    }

    #[test]
    fn a_step_takes_nothing_from_the_one_before() {
        #[derive(Debug)]
        struct Left;
        impl tfcore_framework::Resource for Left {
            fn type_name(&self) -> &'static str {
                "Left"
            }
        }
        static LEFT: Mutex<Vec<std::sync::Weak<Left>>> = Mutex::new(Vec::new());
        let (session, run) = session_of(|ctx| {
            let left = Arc::new(Left);
            LEFT.lock().push(Arc::downgrade(&left));
            ctx.step().keep("Left", "name".to_string(), left)?;
            ctx.set_output(0, vector(&[2.0]));
            Ok(())
        });
        for _ in 0..3 {
            run(&session, Request::default()).unwrap();
            assert!(LEFT.lock().iter().all(|left| left.strong_count() == 0));
        }
    }

    #[test]
    fn a_run_has_its_own_time_limit_and_trace() {
        let (session, run) = session_of(|ctx| {
            std::thread::sleep(Duration::from_millis(30));
            let tensor = ctx.take_input(0)?;
            ctx.set_output(0, tensor);
            Ok(())
        });
        let limited =
            |millis| Request { timeout: Some(Duration::from_millis(millis)), ..Request::default() };
        run(&session, limited(10_000)).unwrap();
        run(&session, Request::default()).unwrap();
        run(&session, Request { step_stats: true, ..Request::default() }).unwrap();
        run(&session, Request::default()).unwrap();
        assert!(session.kept.mine().run.as_mut().is_some_and(|run| run.trace.is_none()));
    }

    #[test]
    fn step_numbers_are_unique() {
        static SEEN: Mutex<Vec<i64>> = Mutex::new(Vec::new());
        let (session, run) = session_of(|ctx| {
            SEEN.lock().push(ctx.step().id);
            ctx.set_output(0, vector(&[2.0]));
            Ok(())
        });
        std::thread::scope(|scope| {
            for _ in 0..10 {
                let (session, run) = (&session, &run);
                scope.spawn(move || {
                    for _ in 0..100 {
                        run(session, Request::default()).unwrap();
                    }
                });
            }
        });
        let mut seen = std::mem::take(&mut *SEEN.lock());
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 1000);
    }
}

//! Partial runs: a request is announced as a whole, then fed and fetched piece by piece.
//!
//! The nodes run in the gear with frames, each as soon as its inputs are there; a call of the client brings arguments and
//! waits for results. An error, also one of a call that was late, ends the partial run and leaves the session alone.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use tfcore_base::{Code, Error, Result, cancelled, internal, invalid, not_found};
use tfcore_framework::{Value, wrong_output_dtype};
use tfcore_graph::{Node, NodeId, OutputRef};
use tfcore_tensor::Tensor;

use crate::run::exec::{Run, fetched, timed_out};
use crate::run::flow::Flow;
use crate::run::queue::Queue;
use tfcore_plan::plan::{Gear, Plan};

/// A part of a graph that a client names; what it names may not be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named<T> {
    pub name: String,
    pub at: Option<T>,
}

/// What a client announces of a partial run.
#[derive(Debug, Clone, Default)]
pub struct Announcement {
    pub feeds: Vec<Named<OutputRef>>,
    pub fetches: Vec<Named<OutputRef>>,
    pub targets: Vec<Named<NodeId>>,
}

impl Announcement {
    /// What handles begin with: the sorted names, and that the run is a partial one.
    pub(crate) fn key(&self) -> String {
        fn names<T>(named: &[Named<T>]) -> String {
            let names: Vec<&str> = sorted(named).iter().map(|named| named.name.as_str()).collect();
            names.join(",")
        }
        let (feeds, fetches) = (names(&self.feeds), names(&self.fetches));
        format!("{feeds}->{fetches}/{}/1/;", names(&self.targets))
    }

    /// The outputs to feed, those to fetch and the nodes to run, each in the order of the names.
    ///
    /// # Errors
    /// What is not there, in the reference's words for partial runs.
    pub(crate) fn resolve(
        &self,
        nodes: &[Arc<Node>],
    ) -> Result<(Vec<Endpoint>, Vec<Endpoint>, Vec<NodeId>)> {
        if self.fetches.is_empty() && self.targets.is_empty() {
            return Err(invalid!("Must specify at least one target to fetch or execute."));
        }
        let (feeds, fetches) = (sorted(&self.feeds), sorted(&self.fetches));
        let feed_names: Vec<&String> = feeds.iter().map(|feed| &feed.name).collect();
        let fetch_names: Vec<&String> = fetches.iter().map(|fetch| &fetch.name).collect();
        check_names(&feed_names, &fetch_names)?;
        let node_of = |named: &Named<OutputRef>| {
            let output = named.at?;
            Some((output, nodes.get(output.node.index())?.num_outputs()))
        };
        let feed = |named: &Named<OutputRef>| match (node_of(named), &named.name) {
            (None, name) => Err(not_found!("FeedInputs: unable to find feed output {name}")),
            (Some((output, outputs)), name) if output.port() >= outputs => {
                Err(invalid!("FeedInputs: {name} should have output index < {outputs}"))
            }
            (Some((output, _)), name) => Ok(Endpoint { name: name.clone(), output }),
        };
        let fetch = |named: &Named<OutputRef>| match (node_of(named), &named.name) {
            (None, name) => Err(not_found!("FetchOutputs node {name}: not found")),
            (Some((output, outputs)), name) if output.port() >= outputs => {
                Err(invalid!("FetchOutputs {name}: output index too large, must be < {outputs}"))
            }
            (Some((output, _)), name) => Ok(Endpoint { name: name.clone(), output }),
        };
        let target = |named: &Named<NodeId>| match named.at {
            Some(id) if id.index() < nodes.len() => Ok(id),
            _ => Err(not_found!("PruneForTargets: Some target nodes not found: {} ", named.name)),
        };
        Ok((
            feeds.into_iter().map(feed).collect::<Result<_>>()?,
            fetches.into_iter().map(fetch).collect::<Result<_>>()?,
            sorted(&self.targets).into_iter().map(target).collect::<Result<_>>()?,
        ))
    }
}

/// In the order of the names, in which the reference goes through them.
fn sorted<T>(named: &[Named<T>]) -> Vec<&Named<T>> {
    let mut sorted: Vec<&Named<T>> = named.iter().collect();
    sorted.sort_by(|a, b| a.name.cmp(&b.name));
    sorted
}

/// Checks that nothing is fed twice, or fed and fetched. Both are in order.
///
/// # Errors
/// `InvalidArgument` for the first by name.
pub(crate) fn check_names<N: Ord + Display>(feeds: &[N], fetches: &[N]) -> Result<()> {
    if let Some(pair) = feeds.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(invalid!("Endpoint \"{}\" fed more than once.", pair[0]));
    }
    match feeds.iter().find(|feed| fetches.binary_search(feed).is_ok()) {
        Some(feed) => Err(invalid!("{feed} is both fed and fetched.")),
        None => Ok(()),
    }
}

/// A feed or a fetch, with the name by which the client asks for it.
pub(crate) struct Endpoint {
    pub(crate) name: String,
    pub(crate) output: OutputRef,
}

/// The partial runs of a session that have not ended.
#[derive(Default)]
pub(crate) struct PartialRuns {
    runs: Mutex<HashMap<String, Arc<PartialRun>>>,
    next: AtomicU64,
}

impl PartialRuns {
    /// Begins a partial run and returns its handle, made as the reference makes it.
    ///
    /// # Errors
    /// `Internal` if the plan is for another gear.
    pub(crate) fn begin(
        &self,
        key: &str,
        nodes: Arc<Vec<Arc<Node>>>,
        plan: &Arc<Plan>,
        run: &Arc<Run>,
        feeds: Vec<Endpoint>,
        fetches: Vec<Endpoint>,
    ) -> Result<String> {
        let Gear::Dataflow(dataflow) = &plan.gear else {
            return Err(internal!("A partial run needs the gear with frames"));
        };
        let queue = Queue::new(run.pool.clone());
        let woken = queue.clone();
        let done = move |_| woken.wake();
        let flow = Flow::start_partial(plan, dataflow, run, queue.clone(), Box::new(done));
        let progress = Progress {
            fed: vec![false; feeds.len()],
            fetched: vec![false; fetches.len()],
            calls: 0,
            has_ended: false,
        };
        let progress = Mutex::new(progress);
        let started =
            Arc::new(PartialRun { nodes, feeds, fetches, flow, queue: queue.clone(), progress });
        let handle = format!("{key}{}", self.next.fetch_add(1, Ordering::Relaxed));
        self.runs.lock().insert(handle.clone(), started);
        queue.leave();
        Ok(handle)
    }

    /// Feeds and fetches a part.
    ///
    /// # Errors
    /// What is wrong with the call, which leaves the run as it was; else the first failing node's error, or
    /// `DeadlineExceeded`, which end it.
    pub(crate) fn proceed(
        &self,
        handle: &str,
        feeds: Vec<(String, Tensor)>,
        fetches: &[String],
        deadline: Option<Instant>,
    ) -> Result<Vec<Tensor>> {
        let run = self.runs.lock().get(handle).cloned();
        let run =
            run.ok_or_else(|| invalid!("Must run 'setup' before performing partial runs!"))?;
        let wanted = run.accept(&feeds, fetches)?;
        run.queue.enter();
        run.flow.limit_call(deadline);
        let is_late = || deadline.is_some_and(|deadline| Instant::now() >= deadline);
        let outcome =
            run.go_on(feeds, &wanted, fetches, deadline).map_err(|error| match error.code() {
                // Whichever node noticed it.
                Code::DeadlineExceeded if is_late() => timed_out(),
                _ => error,
            });
        run.flow.unlimit_call(deadline);
        run.queue.leave();
        let is_last = run.finish_call();
        if is_last || outcome.is_err() {
            self.runs.lock().remove(handle);
        }
        if let Err(error) = &outcome {
            run.end(error.clone());
        }
        outcome
    }

    /// Ends all, each with `error`.
    pub(crate) fn end_all(&self, error: &Error) {
        let runs = std::mem::take(&mut *self.runs.lock());
        runs.into_values().for_each(|run| run.end(error.clone()));
    }
}

/// One partial run.
struct PartialRun {
    /// The session's nodes when the run began.
    nodes: Arc<Vec<Arc<Node>>>,
    feeds: Vec<Endpoint>,
    fetches: Vec<Endpoint>,
    flow: Arc<Flow>,
    queue: Arc<Queue>,
    progress: Mutex<Progress>,
}

struct Progress {
    /// As the feeds and fetches of the run.
    fed: Vec<bool>,
    fetched: Vec<bool>,
    /// Calls that have been let in and not returned.
    calls: usize,
    has_ended: bool,
}

impl Progress {
    /// Whether the client has given and got everything.
    fn is_complete(&self) -> bool {
        self.fed.iter().chain(&self.fetched).all(|done| *done)
    }
}

impl PartialRun {
    /// Checks a call and notes what it feeds and fetches. Returns the numbers of the results that it waits for.
    fn accept(&self, feeds: &[(String, Tensor)], fetches: &[String]) -> Result<Vec<usize>> {
        let mut progress = self.progress.lock();
        if progress.has_ended {
            self.flow.results(&[]).transpose()?;
            return Err(cancelled!("The partial run has ended."));
        }
        for (name, _) in feeds {
            match self.feeds.iter().position(|feed| feed.name == *name) {
                None => {
                    return Err(invalid!(
                        "The feed {name} was not specified in partial_run_setup."
                    ));
                }
                Some(index) if progress.fed[index] => {
                    return Err(invalid!("The feed {name} has already been fed."));
                }
                Some(_) => {}
            }
        }
        let mut wanted = Vec::with_capacity(fetches.len());
        for name in fetches {
            match self.fetches.iter().position(|fetch| fetch.name == *name) {
                None => {
                    return Err(invalid!(
                        "The fetch {name} was not specified in partial_run_setup."
                    ));
                }
                Some(index) if progress.fetched[index] => {
                    return Err(invalid!("The fetch {name} has already been fetched."));
                }
                Some(index) => wanted.push(index),
            }
        }
        self.check_reachable(&progress, feeds, &wanted)?;
        progress.calls += 1;
        // A tensor may have been announced twice; it counts once.
        for (feed, fed) in self.feeds.iter().zip(&mut progress.fed) {
            *fed |= feeds.iter().any(|(name, _)| *name == feed.name);
        }
        for (fetch, fetched) in self.fetches.iter().zip(&mut progress.fetched) {
            *fetched |= fetches.contains(&fetch.name);
        }
        Ok(wanted)
    }

    /// Checks that no fetch depends on a feed that is still to come, as the reference does: in the whole graph, also through
    /// what has been fed.
    fn check_reachable(
        &self,
        progress: &Progress,
        feeds: &[(String, Tensor)],
        wanted: &[usize],
    ) -> Result<()> {
        let is_pending = |(feed, fed): &(&Endpoint, &bool)| {
            !**fed && feeds.iter().all(|(name, _)| *name != feed.name)
        };
        let pending: HashSet<OutputRef> = self
            .feeds
            .iter()
            .zip(&progress.fed)
            .filter(is_pending)
            .map(|(feed, _)| feed.output)
            .collect();
        if pending.is_empty() {
            return Ok(());
        }
        let mut seen: HashSet<NodeId> = HashSet::new();
        let mut stack: Vec<NodeId> =
            wanted.iter().map(|&index| self.fetches[index].output.node).collect();
        while let Some(id) = stack.pop() {
            let node = &self.nodes[id.index()];
            let sources = node.inputs.iter().map(|edge| edge.source);
            for source in sources {
                if pending.contains(&source) {
                    return Err(invalid!(
                        "Fetch {}:{} can't be computed from the feeds that have been fed so far.",
                        self.nodes[source.node.index()].name,
                        source.index
                    ));
                }
                if seen.insert(source.node) {
                    stack.push(source.node);
                }
            }
            stack.extend(node.control_inputs.iter().filter(|&&source| seen.insert(source)));
        }
        Ok(())
    }

    /// Brings the arguments and drives the run until the results are there; after the last of them, to its end.
    fn go_on(
        &self,
        feeds: Vec<(String, Tensor)>,
        wanted: &[usize],
        names: &[String],
        deadline: Option<Instant>,
    ) -> Result<Vec<Tensor>> {
        // The first of two tensors for one feed counts.
        let mut values: BTreeMap<usize, Tensor> = BTreeMap::new();
        for (name, tensor) in feeds {
            let index = self.feeds.iter().position(|feed| feed.name == name);
            let index = index.ok_or_else(|| internal!("Feed {name} got lost"))?;
            values.entry(index).or_insert(tensor);
        }
        let checked = values
            .iter()
            .try_for_each(|(&index, tensor)| self.check_dtype(&self.feeds[index], tensor));
        if let Err(error) = checked {
            // They do not come, so that the end of the run must not wait for them.
            let mut progress = self.progress.lock();
            values.keys().for_each(|&index| progress.fed[index] = false);
            return Err(error);
        }
        for (index, tensor) in values {
            self.flow.deliver(index, Value::Tensor(tensor));
        }
        if !self.queue.drive(deadline, &|| self.flow.results(wanted).is_some()) {
            return Err(timed_out());
        }
        let results = self.flow.results(wanted);
        let results = results.ok_or_else(|| internal!("Results got lost"))??;
        let is_complete = {
            let progress = self.progress.lock();
            progress.is_complete() && progress.calls == 1
        };
        if is_complete {
            if !self.queue.drive(deadline, &|| self.flow.is_over()) {
                return Err(timed_out());
            }
            // An error after the last result is the run's as well.
            self.flow.results(&[]).transpose()?;
        }
        let tensor = |(value, name): (Value, &String)| match value {
            Value::Absent => Err(invalid!("The tensor returned for {name} was not valid.")),
            value => fetched(value),
        };
        results.into_iter().zip(names).map(tensor).collect()
    }

    fn check_dtype(&self, feed: &Endpoint, tensor: &Tensor) -> Result<()> {
        let OutputRef { node, .. } = feed.output;
        let node = &self.nodes[node.index()];
        let expected = node.output_dtypes[feed.output.port()].base();
        if tensor.dtype() == expected {
            return Ok(());
        }
        let receiver = format!("_recv_{}_{}", node.name, feed.output.index);
        Err(wrong_output_dtype(0, tensor.dtype(), expected).at_node(&receiver))
    }

    /// Notes that a call returns. Whether it was the last one of the run.
    fn finish_call(&self) -> bool {
        let mut progress = self.progress.lock();
        progress.calls -= 1;
        progress.calls == 0 && progress.is_complete()
    }

    /// Ends the run before its time: no argument comes any more, and who waits for results gets the error.
    fn end(&self, error: Error) {
        let missing = {
            let mut progress = self.progress.lock();
            if std::mem::replace(&mut progress.has_ended, true) {
                return;
            }
            progress.fed.iter().filter(|fed| !**fed).count()
        };
        self.flow.give_up(missing, error);
        // What is left in the queue ends at once, and lets go of the run.
        self.queue.enter();
        self.queue.leave();
    }
}

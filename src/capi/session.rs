//! Sessions.

use std::ffi::c_int;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tfcore_base::{Result, invalid, not_found, unimplemented_error};
use tfcore_framework::Value;
use tfcore_graph::{Graph, NodeId, OutputRef};
use tfcore_models::{LoadOptions, load};
use tfcore_proto as proto;
use tfcore_runtime::{GraphSession, Inputs, Outcome, Request, Session, SessionConfig};
use tfcore_tensor::Tensor;

use super::checkpoint_reader::path;
use super::graph::{SharedGraph, TF_Graph, TF_Operation, TF_Output};
use super::handle::{
    Array, ArrayMut, Boxed, Bytes, CStrIn, Counted, In, Mut, Owned, Ref, Status, count, guard,
    quiet,
};
use super::mutate::Taken;
use super::tf_buffer::{TF_Buffer, fill, fill_with};
use super::tf_tensor::TF_Tensor;
use crate::ops;

/// How sessions are made.
#[derive(Default)]
pub struct TF_SessionOptions {
    target: String,
    config: proto::ConfigProto,
}

/// A session over a graph.
pub struct TF_Session {
    graph: Arc<SharedGraph>,
    /// What the client has of the graph.
    _handle: Arc<TF_Graph>,
    session: Box<dyn GraphSession>,
    taken: Arc<Taken>,
    /// Off once the client has extended the session itself.
    extends_itself: AtomicBool,
}

impl Boxed for TF_SessionOptions {}

impl Boxed for TF_Session {}

impl TF_SessionOptions {
    /// What the options say about sessions in this process.
    ///
    /// # Errors
    /// `NotFound` or `Unimplemented` for other targets; `InvalidArgument` for a configuration that makes no sense.
    pub(crate) fn config(&self) -> Result<SessionConfig> {
        if let Some(address) = self.target.strip_prefix("grpc://") {
            check_address(address)?;
            return Err(unimplemented_error!(
                "Sessions with target '{}' are not implemented: only those of this process are",
                self.target
            ));
        }
        let use_tfrt = self.config.experimental.as_ref().is_some_and(|options| options.use_tfrt);
        if !self.target.is_empty() || use_tfrt {
            return Err(not_found!(
                "No session factory registered for the given session options: {{target: \"{}\" \
                 config: }} Registered factories are {{GRPC_SESSION, DIRECT_SESSION}}.",
                self.target
            ));
        }
        SessionConfig::from_proto(&self.config)
    }
}

impl TF_SessionOptions {
    /// Sets `global_jit_level`, which no session of this library looks at.
    pub(crate) fn set_global_jit(&mut self, is_on: bool) {
        let options = self.config.graph_options.get_or_insert_default();
        // The levels `ON_1` and `OFF`.
        options.optimizer_options.get_or_insert_default().global_jit_level =
            if is_on { 1 } else { -1 };
    }
}

/// Checks what stands behind `grpc://`: a host and the number of a port.
fn check_address(address: &str) -> Result<()> {
    let (host, port) = address.rsplit_once(':').unwrap_or((address, address));
    if address.starts_with("/bns/") || (port.parse::<u32>().is_ok() && !host.contains('/')) {
        return Ok(());
    }
    Err(invalid!("Could not interpret \"{address}\" as a host-port pair."))
}

impl TF_Session {
    pub(crate) fn session(&self) -> &dyn GraphSession {
        &*self.session
    }

    /// The node of an operation, if the session has taken it in. One of another graph stands for the node of its name, as sessions
    /// of the reference go by names.
    pub(crate) fn find(&self, oper: &TF_Operation) -> Option<NodeId> {
        let id = match oper.is_in(&self.graph) {
            true => oper.id,
            false => self.graph.lock().find(&oper.name)?,
        };
        (id.index() < self.taken.nodes()).then_some(id)
    }

    /// The node of a name, if the session has taken it in.
    pub(crate) fn find_named(&self, name: &str) -> Option<NodeId> {
        self.graph.lock().find(name).filter(|id| id.index() < self.taken.nodes())
    }

    /// Takes in the nodes that are new in the graph.
    fn extend(&self) -> Result<()> {
        self.taken.warn_of_mutation();
        let graph = self.graph.lock();
        self.session.extend(&graph)?;
        self.taken.set_nodes(graph.num_ids());
        Ok(())
    }

    /// As `extend`, unless the client does that.
    pub(crate) fn extend_if_needed(&self) -> Result<()> {
        if !self.extends_itself.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.taken.warn_of_mutation();
        if self.taken.nodes() == self.graph.num_ids() {
            return Ok(());
        }
        self.extend()
    }
}

/// Returns options for a session in this process, with the default configuration.
#[unsafe(no_mangle)]
pub extern "C" fn TF_NewSessionOptions() -> *mut TF_SessionOptions {
    TF_SessionOptions::default().hand_out()
}

/// Deletes options; null is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn TF_DeleteSessionOptions(options: Owned<TF_SessionOptions>) {
    drop(options);
}

/// Sets where sessions run: "" for this process.
#[unsafe(no_mangle)]
pub extern "C" fn TF_SetTarget(mut options: Mut<TF_SessionOptions>, target: CStrIn) {
    quiet((), || {
        let (options, target) = (options.get("options")?, target.get("target")?);
        options.target = target.into_owned();
        Ok(())
    });
}

/// Sets the configuration to a serialised `ConfigProto`.
#[unsafe(no_mangle)]
pub extern "C" fn TF_SetConfig(
    mut options: Mut<TF_SessionOptions>,
    proto: Bytes,
    proto_len: usize,
    status: Status,
) {
    guard(status, (), || {
        let (options, bytes) = (options.get("options")?, proto.get(proto_len, "proto")?);
        options.config =
            tfcore_proto::decode(bytes).map_err(|_| invalid!("Unparseable ConfigProto"))?;
        Ok(())
    })
}

/// Returns a session over `graph`, which stays alive as long as the session; null on error.
#[unsafe(no_mangle)]
pub extern "C" fn TF_NewSession(
    graph: Ref<TF_Graph>,
    opts: In<TF_SessionOptions>,
    status: Status,
) -> *mut TF_Session {
    guard(status, ptr::null_mut(), || {
        let graph = Counted::share(graph, "graph")?;
        let config = opts.get("opts")?.config()?;
        let session = Box::new(Session::new(ops::registry().clone(), &config)?);
        let taken = Arc::new(Taken::default());
        graph.shared.lock().add_session(Arc::downgrade(&taken));
        Ok(TF_Session {
            graph: graph.shared.clone(),
            _handle: graph,
            session,
            taken,
            extends_itself: AtomicBool::new(true),
        }
        .hand_out())
    })
}

/// Loads the SavedModel in the directory `export_dir`: imports the graph that has exactly the given tags into `graph`, which
/// must be empty, and returns a session in which its variables are restored and its init op has run. `run_options` is null or
/// a serialised `RunOptions` for these runs. Unless `meta_graph_def` is null, it is set to the serialised `MetaGraphDef`.
/// Returns null on error; the graph is empty then.
#[unsafe(no_mangle)]
pub extern "C" fn TF_LoadSessionFromSavedModel(
    session_options: In<TF_SessionOptions>,
    run_options: In<TF_Buffer>,
    export_dir: CStrIn,
    tags: Array<CStrIn>,
    tags_len: c_int,
    graph: Ref<TF_Graph>,
    meta_graph_def: Mut<TF_Buffer>,
    status: Status,
) -> *mut TF_Session {
    guard(status, ptr::null_mut(), || {
        let graph = Counted::share(graph, "graph")?;
        let config = session_options.get("session_options")?.config()?;
        let directory = path(&export_dir, "export_dir")?;
        let tags = tags.get(count(tags_len, "tags_len")?, "tags")?;
        let tags = tags.iter().map(|tag| Ok(tag.get("tag")?.into_owned()));
        let tags = tags.collect::<Result<Vec<String>>>()?;
        let mut state = graph.shared.lock();
        if state.num_ids() > Graph::new(state.registry().clone()).num_ids() {
            return Err(invalid!("Graph is non-empty."));
        }
        let run_options = parse_run_options(run_options)?;
        let mut empty = Graph::new(state.registry().clone());
        *empty.library_mut() = (**state.library()).clone();
        let options = LoadOptions { config: &config, run_options, tags: &tags };
        let model = load(empty, directory, &options)?;
        if !meta_graph_def.is_null() {
            fill_with(meta_graph_def, &model.meta_graph)?;
        }
        *state = model.graph;
        let taken = Arc::new(Taken::default());
        taken.set_nodes(state.num_ids());
        state.add_session(Arc::downgrade(&taken));
        drop(state);
        Ok(TF_Session {
            graph: graph.shared.clone(),
            _handle: graph,
            session: Box::new(model.session),
            taken,
            extends_itself: AtomicBool::new(true),
        }
        .hand_out())
    })
}

/// Ends a session: runs in progress are cancelled, and runs that come later fail, both with `TF_CANCELLED`.
/// Closing twice is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn TF_CloseSession(session: Ref<TF_Session>, status: Status) {
    guard(status, (), || {
        session.get("session")?.session.close();
        Ok(())
    })
}

/// Deletes a session; null is allowed. Runs must have ended; partial runs may be left.
#[unsafe(no_mangle)]
pub extern "C" fn TF_DeleteSession(session: Owned<TF_Session>, status: Status) {
    guard(status, (), || {
        drop(session);
        Ok(())
    })
}

/// Takes in the operations that are new in the graph. From then on the session does not do so by
/// itself any more.
#[unsafe(no_mangle)]
pub extern "C" fn TF_ExtendSession(session: Ref<TF_Session>, status: Status) {
    guard(status, (), || {
        let session = session.get("session")?;
        session.extends_itself.store(false, Ordering::Relaxed);
        session.extend()
    })
}

/// Runs what the outputs and targets need and stores a new tensor for each output, which the caller deletes.
/// On error all of them are null.
///
/// `run_options` may be null, else it holds a serialised `RunOptions`. `run_metadata` may be null, else it is
/// empty and receives a serialised `RunMetadata`.
#[unsafe(no_mangle)]
pub extern "C" fn TF_SessionRun(
    session: Ref<TF_Session>,
    run_options: In<TF_Buffer>,
    inputs: Array<TF_Output>,
    input_values: Array<Ref<TF_Tensor>>,
    ninputs: c_int,
    outputs: Array<TF_Output>,
    mut output_values: ArrayMut<*mut TF_Tensor>,
    noutputs: c_int,
    target_opers: Array<In<TF_Operation>>,
    ntargets: c_int,
    mut run_metadata: Mut<TF_Buffer>,
    status: Status,
) {
    guard(status, (), || {
        let results = output_values.get(count(noutputs, "noutputs")?, "output_values")?;
        results.fill(ptr::null_mut());
        let session = session.get("session")?;
        session.extend_if_needed()?;
        let options = options_of_run(run_options, &mut run_metadata)?;
        let (feeds, values) = feeds(session, inputs, input_values, count(ninputs, "ninputs")?)?;
        let fetches = endpoints(session, outputs.get(results.len(), "outputs")?)?;
        let targets = target_opers.get(count(ntargets, "ntargets")?, "target_opers")?;
        let targets = self::targets(session, targets)?;
        let request = Request { feeds, values, fetches, targets, ..options };
        let outcome = session.session.run(request)?;
        hand_out(outcome, results, run_metadata)
    })
}

/// Stores what a run has yielded.
pub(crate) fn hand_out(
    mut outcome: Outcome,
    results: &mut [*mut TF_Tensor],
    run_metadata: Mut<TF_Buffer>,
) -> Result<()> {
    if !run_metadata.is_null() {
        let metadata = proto::RunMetadata {
            step_stats: outcome.step_stats.take(),
            cost_graph: outcome.cost_graph.take(),
            partition_graphs: std::mem::take(&mut outcome.partition_graphs),
            session_metadata: outcome.session.take(),
            ..Default::default()
        };
        fill(run_metadata, &metadata)?;
    }
    hand_out_tensors(outcome.take_tensors(), results);
    Ok(())
}

pub(crate) fn hand_out_tensors(
    tensors: impl IntoIterator<Item = Tensor>,
    results: &mut [*mut TF_Tensor],
) {
    for (result, tensor) in results.iter_mut().zip(tensors) {
        *result = TF_Tensor::new(tensor);
    }
}

/// The options of a run; the default ones for null.
fn parse_run_options(run_options: In<TF_Buffer>) -> Result<proto::RunOptions> {
    match run_options.opt() {
        None => Ok(proto::RunOptions::default()),
        Some(buffer) => tfcore_proto::decode(buffer.bytes("run_options")?)
            .map_err(|_| invalid!("Unparseable RunOptions proto")),
    }
}

/// A request with the options of a run, and nothing to run. Checks that the metadata can be stored.
pub(crate) fn options_of_run(
    run_options: In<TF_Buffer>,
    run_metadata: &mut Mut<TF_Buffer>,
) -> Result<Request> {
    let options = parse_run_options(run_options)?;
    let metadata = run_metadata.opt();
    let has_metadata = metadata.is_some();
    if metadata.is_some_and(|buffer| !buffer.data.is_null()) {
        return Err(invalid!("Passing non-empty run_metadata is invalid."));
    }
    let is_traced = options.trace_level != proto::RunOptions::NO_TRACE;
    let millis = u64::try_from(options.timeout_in_ms).ok().filter(|&millis| millis > 0);
    Ok(Request {
        step_stats: is_traced && has_metadata,
        cost_graph: has_metadata,
        notes_memory: options.report_tensor_allocations_upon_oom,
        partition_graphs: options.output_partition_graphs,
        timeout: millis.map(Duration::from_millis),
        pool: options.inter_op_thread_pool,
        ..Request::default()
    })
}

fn feeds(
    session: &TF_Session,
    inputs: Array<TF_Output>,
    values: Array<Ref<TF_Tensor>>,
    len: usize,
) -> Result<(Vec<OutputRef>, Inputs)> {
    let (inputs, values) = (inputs.get(len, "inputs")?, values.get(len, "input_values")?);
    let mut feeds = (Vec::with_capacity(len), Inputs::with_capacity(len));
    for (input, value) in inputs.iter().zip(values) {
        feeds.0.push(endpoint(session, input)?);
        feeds.1.push(Value::Tensor(value.get("input_values")?.tensor()?));
    }
    Ok(feeds)
}

fn endpoints(session: &TF_Session, outputs: &[TF_Output]) -> Result<Vec<OutputRef>> {
    let mut endpoints = Vec::with_capacity(outputs.len());
    for output in outputs {
        endpoints.push(endpoint(session, output)?);
    }
    Ok(endpoints)
}

/// A feed or a fetch.
fn endpoint(session: &TF_Session, output: &TF_Output) -> Result<OutputRef> {
    let oper = output.oper.get("oper")?;
    match (session.find(oper), u32::try_from(output.index)) {
        (Some(node), Ok(index)) => Ok(OutputRef { node, index }),
        (_, index) => {
            session.session.check_open()?;
            // Not the number of any output, the reference takes it for a part of the name.
            let port = if index.is_err() { ":0" } else { "" };
            Err(invalid!(
                "Tensor {}:{}{port}, specified in either feed_devices or fetch_devices was not found in the Graph",
                oper.name,
                output.index
            ))
        }
    }
}

fn targets(session: &TF_Session, opers: &[In<TF_Operation>]) -> Result<Vec<NodeId>> {
    let mut targets = Vec::with_capacity(opers.len());
    let mut missing: Vec<&str> = Vec::new();
    for oper in opers {
        let oper = oper.get("target_opers")?;
        match session.find(oper) {
            Some(id) => targets.push(id),
            None => missing.push(oper.name.as_str()),
        }
    }
    if missing.is_empty() {
        return Ok(targets);
    }
    session.session.check_open()?;
    missing.sort_unstable();
    Err(not_found!("PruneForTargets: Some target nodes not found: {} ", missing.join(" ")))
}

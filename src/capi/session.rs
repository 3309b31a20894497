//! Sessions.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tfcore_base::{Result, invalid, not_found, unimplemented_error};
use tfcore_framework::Value;
use tfcore_graph::{NodeId, OutputRef};
use tfcore_proto as proto;
use tfcore_runtime::{Inputs, Outcome, Request, Session, SessionConfig};
use tfcore_tensor::Tensor;

use super::graph::{SharedGraph, TF_Graph, TF_Operation, TF_Output};
use super::handle::{count, get, get_mut, guard, slice, slice_mut, text};
use super::mutate::Taken;
use super::tf_buffer::{TF_Buffer, bytes, fill};
use super::tf_status::TF_Status;
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
    session: Session,
    taken: Arc<Taken>,
    /// Off once the client has extended the session itself.
    extends_itself: AtomicBool,
}

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

/// Checks what stands behind `grpc://`: a host and the number of a port.
fn check_address(address: &str) -> Result<()> {
    let (host, port) = address.rsplit_once(':').unwrap_or((address, address));
    if address.starts_with("/bns/") || (port.parse::<u32>().is_ok() && !host.contains('/')) {
        return Ok(());
    }
    Err(invalid!("Could not interpret \"{address}\" as a host-port pair."))
}

impl TF_Session {
    pub(crate) fn session(&self) -> &Session {
        &self.session
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
    Box::into_raw(Box::default())
}

/// Deletes options; null is allowed.
///
/// # Safety
/// `options` must be null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_DeleteSessionOptions(options: *mut TF_SessionOptions) {
    if !options.is_null() {
        // SAFETY: the caller hands the options over.
        drop(unsafe { Box::from_raw(options) });
    }
}

/// Sets where sessions run: "" for this process.
///
/// # Safety
/// `options` must be live, `target` a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_SetTarget(options: *mut TF_SessionOptions, target: *const c_char) {
    super::handle::quiet((), || {
        // SAFETY: as the caller promises.
        let (options, target) = unsafe { (get_mut(options, "options")?, text(target, "target")?) };
        options.target = target.into_owned();
        Ok(())
    });
}

/// Sets the configuration to a serialised `ConfigProto`.
///
/// # Safety
/// `options` must be live, `proto` readable for `proto_len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_SetConfig(
    options: *mut TF_SessionOptions,
    proto: *const c_void,
    proto_len: usize,
    status: *mut TF_Status,
) {
    let body = || {
        // SAFETY: as the caller promises.
        let (options, bytes) = unsafe {
            (get_mut(options, "options")?, slice::<u8>(proto.cast(), proto_len, "proto")?)
        };
        options.config =
            tfcore_proto::decode(bytes).map_err(|_| invalid!("Unparseable ConfigProto"))?;
        Ok(())
    };
    // SAFETY: as the caller promises.
    unsafe { guard(status, (), body) }
}

/// Returns a session over `graph`, which stays alive as long as the session; null on error.
///
/// # Safety
/// The pointers must be live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_NewSession(
    graph: *mut TF_Graph,
    opts: *const TF_SessionOptions,
    status: *mut TF_Status,
) -> *mut TF_Session {
    let body = || {
        // SAFETY: as the caller promises, here and below.
        let options = unsafe {
            get(graph, "graph")?;
            get(opts, "opts")?
        };
        // SAFETY: as above; the count lies beside what a reference may reach, so that it takes the client's pointer.
        let graph = unsafe { TF_Graph::share(graph) };
        let config = options.config()?;
        let session = Session::new(ops::registry().clone(), &config)?;
        let taken = Arc::new(Taken::default());
        graph.shared.lock().add_session(Arc::downgrade(&taken));
        Ok(Box::into_raw(Box::new(TF_Session {
            graph: graph.shared.clone(),
            _handle: graph,
            session,
            taken,
            extends_itself: AtomicBool::new(true),
        })))
    };
    // SAFETY: as the caller promises.
    unsafe { guard(status, ptr::null_mut(), body) }
}

/// Not available yet. Reports `TF_UNIMPLEMENTED`.
///
/// # Safety
/// `status` must be live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_LoadSessionFromSavedModel(
    _session_options: *const TF_SessionOptions,
    _run_options: *const TF_Buffer,
    _export_dir: *const c_char,
    _tags: *const *const c_char,
    _tags_len: c_int,
    _graph: *mut TF_Graph,
    _meta_graph_def: *mut TF_Buffer,
    status: *mut TF_Status,
) -> *mut TF_Session {
    let body = || Err(unimplemented_error!("TF_LoadSessionFromSavedModel is not implemented"));
    // SAFETY: as the caller promises.
    unsafe { guard(status, ptr::null_mut(), body) }
}

/// Ends a session: runs in progress are cancelled, and runs that come later fail, both with `TF_CANCELLED`.
/// Closing twice is allowed.
///
/// # Safety
/// `session` and `status` must be live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_CloseSession(session: *mut TF_Session, status: *mut TF_Status) {
    let body = || {
        // SAFETY: as the caller promises.
        unsafe { get(session, "session")? }.session.close();
        Ok(())
    };
    // SAFETY: as the caller promises.
    unsafe { guard(status, (), body) }
}

/// Deletes a session; null is allowed. Runs must have ended; partial runs may be left.
///
/// # Safety
/// `session` must be null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_DeleteSession(session: *mut TF_Session, status: *mut TF_Status) {
    let body = || {
        if !session.is_null() {
            // SAFETY: the caller hands the session over.
            drop(unsafe { Box::from_raw(session) });
        }
        Ok(())
    };
    // SAFETY: as the caller promises.
    unsafe { guard(status, (), body) }
}

/// Takes in the operations that are new in the graph. From then on the session does not do so by
/// itself any more.
///
/// # Safety
/// `session` and `status` must be live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_ExtendSession(session: *mut TF_Session, status: *mut TF_Status) {
    let body = || {
        // SAFETY: as the caller promises.
        let session = unsafe { get(session, "session")? };
        session.extends_itself.store(false, Ordering::Relaxed);
        session.extend()
    };
    // SAFETY: as the caller promises.
    unsafe { guard(status, (), body) }
}

/// Runs what the outputs and targets need and stores a new tensor for each output, which the caller deletes.
/// On error all of them are null.
///
/// `run_options` may be null, else it holds a serialised `RunOptions`. `run_metadata` may be null, else it is
/// empty and receives a serialised `RunMetadata`.
///
/// # Safety
/// The pointers must be live and the arrays as long as their counts say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_SessionRun(
    session: *mut TF_Session,
    run_options: *const TF_Buffer,
    inputs: *const TF_Output,
    input_values: *const *mut TF_Tensor,
    ninputs: c_int,
    outputs: *const TF_Output,
    output_values: *mut *mut TF_Tensor,
    noutputs: c_int,
    target_opers: *const *const TF_Operation,
    ntargets: c_int,
    run_metadata: *mut TF_Buffer,
    status: *mut TF_Status,
) {
    let body = || {
        // SAFETY: as the caller promises, here and below.
        let results =
            unsafe { slice_mut(output_values, count(noutputs, "noutputs")?, "output_values")? };
        results.fill(ptr::null_mut());
        // SAFETY: as above.
        let session = unsafe { get(session, "session")? };
        session.extend_if_needed()?;
        // SAFETY: as above.
        let options = unsafe { options_of_run(run_options, run_metadata)? };
        // SAFETY: as above.
        let request = unsafe {
            let (feeds, values) = feeds(session, inputs, input_values, count(ninputs, "ninputs")?)?;
            Request {
                feeds,
                values,
                fetches: endpoints(session, slice(outputs, results.len(), "outputs")?)?,
                targets: {
                    let ntargets = count(ntargets, "ntargets")?;
                    targets(session, slice(target_opers, ntargets, "target_opers")?)?
                },
                ..options
            }
        };
        let outcome = session.session.run(request)?;
        // SAFETY: as above.
        unsafe { hand_out(outcome, results, run_metadata) }
    };
    // SAFETY: as the caller promises.
    unsafe { guard(status, (), body) }
}

/// Stores what a run has yielded.
///
/// # Safety
/// The buffer must be null or live.
pub(crate) unsafe fn hand_out(
    mut outcome: Outcome,
    results: &mut [*mut TF_Tensor],
    run_metadata: *mut TF_Buffer,
) -> Result<()> {
    if !run_metadata.is_null() {
        let metadata = proto::RunMetadata {
            step_stats: outcome.step_stats.take(),
            cost_graph: outcome.cost_graph.take(),
            partition_graphs: std::mem::take(&mut outcome.partition_graphs),
            session_metadata: outcome.session.take(),
            ..Default::default()
        };
        // SAFETY: as the caller promises.
        unsafe { fill(run_metadata, &metadata)? };
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

/// A request with the options of a run, and nothing to run. Checks that the metadata can be stored.
///
/// # Safety
/// The buffers must be null or live.
pub(crate) unsafe fn options_of_run(
    run_options: *const TF_Buffer,
    run_metadata: *mut TF_Buffer,
) -> Result<Request> {
    let options = match run_options.is_null() {
        true => proto::RunOptions::default(),
        // SAFETY: as the caller promises.
        false => tfcore_proto::decode(unsafe { bytes(run_options, "run_options")? })
            .map_err(|_| invalid!("Unparseable RunOptions proto"))?,
    };
    // SAFETY: as the caller promises.
    let metadata = unsafe { run_metadata.as_ref() };
    if metadata.is_some_and(|buffer| !buffer.data.is_null()) {
        return Err(invalid!("Passing non-empty run_metadata is invalid."));
    }
    let has_metadata = metadata.is_some();
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

/// # Safety
/// Both arrays must have `len` elements, which must be live.
unsafe fn feeds(
    session: &TF_Session,
    inputs: *const TF_Output,
    values: *const *mut TF_Tensor,
    len: usize,
) -> Result<(Vec<OutputRef>, Inputs)> {
    // SAFETY: as the caller promises.
    unsafe {
        let (inputs, values) = (slice(inputs, len, "inputs")?, slice(values, len, "input_values")?);
        let mut feeds = (Vec::with_capacity(len), Inputs::with_capacity(len));
        for (&input, &value) in inputs.iter().zip(values) {
            feeds.0.push(endpoint(session, input)?);
            feeds.1.push(Value::Tensor(get(value, "input_values")?.tensor()?));
        }
        Ok(feeds)
    }
}

/// # Safety
/// The operations must be null or live.
unsafe fn endpoints(session: &TF_Session, outputs: &[TF_Output]) -> Result<Vec<OutputRef>> {
    let mut endpoints = Vec::with_capacity(outputs.len());
    for &output in outputs {
        // SAFETY: as the caller promises.
        endpoints.push(unsafe { endpoint(session, output)? });
    }
    Ok(endpoints)
}

/// A feed or a fetch.
///
/// # Safety
/// The operation must be null or live.
unsafe fn endpoint(session: &TF_Session, output: TF_Output) -> Result<OutputRef> {
    // SAFETY: as the caller promises.
    let oper = unsafe { get(output.oper, "oper")? };
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

/// # Safety
/// The operations must be null or live.
unsafe fn targets(session: &TF_Session, opers: &[*const TF_Operation]) -> Result<Vec<NodeId>> {
    let mut targets = Vec::with_capacity(opers.len());
    let mut missing: Vec<&str> = Vec::new();
    for &oper in opers {
        // SAFETY: as the caller promises.
        let oper = unsafe { get(oper, "target_opers")? };
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

//! Graphs and the operations in them, as C holds them.

use std::ffi::{c_char, c_int};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, MutexGuard};
use tfcore_base::{Result, invalid, not_found, out_of_range};
use tfcore_framework::OpDef;
use tfcore_graph::{Graph, Name, NodeId, OutputRef};
use tfcore_proto as proto;
use tfcore_tensor::PartialShape;

use super::arena::Arena;
use super::handle::{count, get, get_mut, guard, quiet, slice, slice_mut, text, to_int};
use super::mutate::{Sessions, Taken};
use super::tf_buffer::{TF_Buffer, fill, fill_with};
use super::tf_status::TF_Status;
use super::while_loop::PendingLoop;
use crate::ops;

/// A graph. Sessions keep it alive after the client has deleted it, so that the client's pointer is good as long as its
/// sessions are.
pub struct TF_Graph {
    pub(crate) shared: Arc<SharedGraph>,
    /// The loop that the graph is a part of, until that is finished.
    pub(crate) pending_loop: Option<Box<PendingLoop>>,
}

impl TF_Graph {
    pub(crate) fn new() -> TF_Graph {
        TF_Graph { shared: SharedGraph::new(), pending_loop: None }
    }

    /// The pointer that the client gets.
    #[expect(clippy::arc_with_non_send_sync, reason = "which threads use it is up to the client")]
    pub(crate) fn into_raw(self) -> *mut TF_Graph {
        Arc::into_raw(Arc::new(self)).cast_mut()
    }

    /// Takes over what the client holds.
    ///
    /// # Safety
    /// `graph` must come from [`TF_Graph::into_raw`], and not have been taken over before.
    pub(crate) unsafe fn from_raw(graph: *mut TF_Graph) -> Arc<TF_Graph> {
        // SAFETY: as the caller promises.
        unsafe { Arc::from_raw(graph) }
    }

    /// Shares the graph with the client.
    ///
    /// # Safety
    /// `graph` must come from [`TF_Graph::into_raw`] and be live.
    pub(crate) unsafe fn share(graph: *const TF_Graph) -> Arc<TF_Graph> {
        // SAFETY: as the caller promises; the count now has one for the result.
        unsafe {
            Arc::increment_strong_count(graph);
            Arc::from_raw(graph)
        }
    }
}

/// The part of a graph that its operations and sessions hold.
pub(crate) struct SharedGraph {
    state: Mutex<GraphState>,
    /// The number of ids that the graph has handed out, to be read without the lock.
    num_ids: AtomicUsize,
}

/// What the lock guards.
pub(crate) struct GraphState {
    pub(crate) graph: Graph,
    /// The operations that C has been handed, by node; null where it has not asked yet.
    handles: Vec<*mut TF_Operation>,
    operations: Arena<TF_Operation>,
    sessions: Sessions,
}

// SAFETY: the operations are only made under the lock and freed with it, and immutable in between.
unsafe impl Send for GraphState {}

impl SharedGraph {
    fn new() -> Arc<SharedGraph> {
        let graph = Graph::new(ops::registry().clone());
        Arc::new(SharedGraph {
            num_ids: AtomicUsize::new(graph.num_ids()),
            state: Mutex::new(GraphState {
                graph,
                handles: Vec::new(),
                operations: Arena::new(),
                sessions: Sessions::default(),
            }),
        })
    }

    pub(crate) fn lock(&self) -> GraphGuard<'_> {
        GraphGuard { shared: self, state: self.state.lock() }
    }

    pub(crate) fn num_ids(&self) -> usize {
        self.num_ids.load(Ordering::Acquire)
    }
}

/// The lock on a graph. On release it publishes how many nodes there are.
pub(crate) struct GraphGuard<'a> {
    shared: &'a SharedGraph,
    state: MutexGuard<'a, GraphState>,
}

impl GraphGuard<'_> {
    /// The operation for a node; the same pointer each time.
    pub(crate) fn handle(&mut self, id: NodeId) -> *mut TF_Operation {
        let state = &mut *self.state;
        if state.handles.len() <= id.index() {
            state.handles.resize(state.graph.num_ids(), ptr::null_mut());
        }
        let handle = &mut state.handles[id.index()];
        if handle.is_null() {
            let node = state.graph.node(id);
            *handle = state.operations.push(TF_Operation {
                graph: self.shared,
                id,
                name: node.name.clone(),
                op: node.op.clone(),
            });
        }
        *handle
    }

    pub(crate) fn add_session(&mut self, session: Weak<Taken>) {
        self.state.sessions.add(session);
    }

    /// Notes that a node was changed by `action`, for those sessions that have it already.
    pub(crate) fn record_mutation(&self, id: NodeId, action: &str) {
        self.state.sessions.record_mutation(&self.state.graph, id, action);
    }

    pub(crate) fn output(&mut self, output: OutputRef) -> TF_Output {
        TF_Output { oper: self.handle(output.node), index: to_int(output.port()) }
    }
}

impl std::ops::Deref for GraphGuard<'_> {
    type Target = Graph;

    fn deref(&self) -> &Graph {
        &self.state.graph
    }
}

impl std::ops::DerefMut for GraphGuard<'_> {
    fn deref_mut(&mut self) -> &mut Graph {
        &mut self.state.graph
    }
}

impl Drop for GraphGuard<'_> {
    fn drop(&mut self) {
        self.shared.num_ids.store(self.state.graph.num_ids(), Ordering::Release);
    }
}

/// An operation of a graph; lives as long as the graph.
pub struct TF_Operation {
    graph: *const SharedGraph,
    pub(crate) id: NodeId,
    pub(crate) name: Name,
    pub(crate) op: Arc<OpDef>,
}

// SAFETY: an operation never changes, and the graph behind it is locked when it is used.
unsafe impl Send for TF_Operation {}
// SAFETY: as above.
unsafe impl Sync for TF_Operation {}

impl TF_Operation {
    /// The graph that the operation belongs to.
    pub(crate) fn graph(&self) -> &SharedGraph {
        // SAFETY: a graph frees its operations when it goes.
        unsafe { &*self.graph }
    }

    pub(crate) fn is_in(&self, graph: &SharedGraph) -> bool {
        ptr::eq(self.graph, graph)
    }
}

/// Input `index` of an operation.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct TF_Input {
    pub oper: *mut TF_Operation,
    pub index: c_int,
}

/// Output `index` of an operation.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct TF_Output {
    pub oper: *mut TF_Operation,
    pub index: c_int,
}

impl TF_Output {
    /// The output in `graph`. Whether the operation has so many outputs is not checked.
    ///
    /// # Errors
    /// `InvalidArgument` for null and for operations of another graph, `OutOfRange` for a negative index.
    ///
    /// # Safety
    /// The operation must be null or live.
    pub(crate) unsafe fn in_graph(self, graph: &SharedGraph) -> Result<OutputRef> {
        // SAFETY: as the caller promises.
        unsafe { node_in(self.oper, graph)? }.output(self.index)
    }
}

impl TF_Operation {
    /// Output `index`. Whether there are so many is not checked.
    ///
    /// # Errors
    /// `OutOfRange` for a negative index.
    #[inline]
    pub(crate) fn output(&self, index: c_int) -> Result<OutputRef> {
        let port = u32::try_from(index).map_err(|_| {
            let count = self.graph().lock().node(self.id).num_outputs();
            out_of_range!(
                "Node '{}' (type: '{}', num of outputs: {count}) does not have output {index}",
                self.name,
                self.op.name
            )
        })?;
        Ok(OutputRef { node: self.id, index: port })
    }
}

/// The operation, which must belong to `graph`.
///
/// # Safety
/// The operation must be null or live.
pub(crate) unsafe fn node_in<'a>(
    oper: *mut TF_Operation,
    graph: &SharedGraph,
) -> Result<&'a TF_Operation> {
    // SAFETY: as the caller promises.
    let oper = unsafe { get(oper, "oper")? };
    if !oper.is_in(graph) {
        return Err(invalid!("Node {} was not found in the graph", oper.name));
    }
    Ok(oper)
}

/// Returns a new, empty graph.
#[unsafe(no_mangle)]
pub extern "C" fn TF_NewGraph() -> *mut TF_Graph {
    quiet(ptr::null_mut(), || Ok(TF_Graph::new().into_raw()))
}

/// Deletes a graph once no session uses it any more; null is allowed.
///
/// # Safety
/// `graph` must be null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_DeleteGraph(graph: *mut TF_Graph) {
    if !graph.is_null() {
        // SAFETY: the caller hands the graph over.
        let graph = unsafe { TF_Graph::from_raw(graph) };
        quiet((), || {
            drop(graph);
            Ok(())
        });
    }
}

/// Merges a shape into what is known of an output's: -1 for an unknown dimension, `num_dims` -1 for an
/// unknown rank, which changes nothing.
///
/// # Safety
/// `graph` and the operation must be live, `dims` readable for `num_dims` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_GraphSetTensorShape(
    graph: *mut TF_Graph,
    output: TF_Output,
    dims: *const i64,
    num_dims: c_int,
    status: *mut TF_Status,
) {
    let body = || {
        // SAFETY: as the caller promises.
        let graph = unsafe { get(graph, "graph")? };
        // SAFETY: as the caller promises.
        let (output, shape) =
            unsafe { (output.in_graph(&graph.shared)?, partial_shape(dims, num_dims)?) };
        graph.shared.lock().merge_shape(output, &shape)
    };
    // SAFETY: as the caller promises.
    unsafe { guard(status, (), body) }
}

/// A shape as C passes it.
///
/// # Safety
/// `dims` must be readable for `num_dims` elements.
pub(crate) unsafe fn partial_shape(dims: *const i64, num_dims: c_int) -> Result<PartialShape> {
    if num_dims < 0 {
        return Ok(PartialShape::unknown());
    }
    // SAFETY: as the caller promises.
    PartialShape::from_i64s(unsafe { slice(dims, count(num_dims, "num_dims")?, "dims")? })
}

/// Returns the rank of an output, or -1 if it is unknown.
///
/// # Safety
/// `graph` and the operation must be live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_GraphGetTensorNumDims(
    graph: *mut TF_Graph,
    output: TF_Output,
    status: *mut TF_Status,
) -> c_int {
    let body = || {
        // SAFETY: as the caller promises.
        let graph = unsafe { get(graph, "graph")? };
        // SAFETY: as the caller promises.
        let output = unsafe { output.in_graph(&graph.shared)? };
        let graph = graph.shared.lock();
        Ok(graph.shape(output)?.rank().map_or(-1, to_int))
    };
    // SAFETY: as the caller promises.
    unsafe { guard(status, -1, body) }
}

/// Stores the dimensions of an output, -1 for unknown ones. `num_dims` must be the rank.
///
/// # Safety
/// `graph` and the operation must be live, `dims` writable for `num_dims` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_GraphGetTensorShape(
    graph: *mut TF_Graph,
    output: TF_Output,
    dims: *mut i64,
    num_dims: c_int,
    status: *mut TF_Status,
) {
    let body = || {
        // SAFETY: as the caller promises.
        let graph = unsafe { get(graph, "graph")? };
        // SAFETY: as the caller promises.
        let output = unsafe { output.in_graph(&graph.shared)? };
        let graph = graph.shared.lock();
        let shape = graph.shape(output)?;
        let rank = shape.rank().map_or(-1, to_int);
        if rank != num_dims {
            return Err(invalid!("Expected rank is {num_dims} but actual rank is {rank}"));
        }
        let known = shape.dims().unwrap_or_default();
        // SAFETY: as the caller promises.
        let dims = unsafe { slice_mut(dims, known.len(), "dims")? };
        for (out, dim) in dims.iter_mut().zip(known) {
            *out = dim.to_i64();
        }
        Ok(())
    };
    // SAFETY: as the caller promises.
    unsafe { guard(status, (), body) }
}

/// Returns the operation called `oper_name`, or null.
///
/// # Safety
/// `graph` must be live, `oper_name` a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_GraphOperationByName(
    graph: *mut TF_Graph,
    oper_name: *const c_char,
) -> *mut TF_Operation {
    quiet(ptr::null_mut(), || {
        // SAFETY: as the caller promises.
        let (graph, name) = unsafe { (get(graph, "graph")?, text(oper_name, "oper_name")?) };
        let mut graph = graph.shared.lock();
        Ok(graph.find(&name).map_or(ptr::null_mut(), |id| graph.handle(id)))
    })
}

/// Goes through the operations in order of their creation: returns the one at `*pos`, which begins at 0,
/// and moves on; null at the end.
///
/// # Safety
/// `graph` must be live, `pos` valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_GraphNextOperation(
    graph: *mut TF_Graph,
    pos: *mut usize,
) -> *mut TF_Operation {
    quiet(ptr::null_mut(), || {
        // SAFETY: as the caller promises.
        let (graph, pos) = unsafe { (get(graph, "graph")?, get_mut(pos, "pos")?) };
        let mut graph = graph.shared.lock();
        let Some(id) = graph.nodes().get(*pos).map(|node| node.id) else {
            return Ok(ptr::null_mut());
        };
        *pos += 1;
        Ok(graph.handle(id))
    })
}

/// Stores the graph as a serialised `GraphDef`.
///
/// # Safety
/// `graph`, the buffer and `status` must be live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_GraphToGraphDef(
    graph: *mut TF_Graph,
    output_graph_def: *mut TF_Buffer,
    status: *mut TF_Status,
) {
    let body = || {
        // SAFETY: as the caller promises.
        let message = unsafe { get(graph, "graph")? }.shared.lock().encode();
        // SAFETY: as the caller promises.
        unsafe { fill_with(output_graph_def, message.as_bytes()) }
    };
    // SAFETY: as the caller promises.
    unsafe { guard(status, (), body) }
}

/// Stores the serialised `OpDef` of an op or of a function of the graph.
///
/// # Safety
/// `graph`, the buffer and `status` must be live, `op_name` a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_GraphGetOpDef(
    graph: *mut TF_Graph,
    op_name: *const c_char,
    output_op_def: *mut TF_Buffer,
    status: *mut TF_Status,
) {
    let body = || {
        // SAFETY: as the caller promises.
        let (graph, name) = unsafe { (get(graph, "graph")?, text(op_name, "op_name")?) };
        let graph = graph.shared.lock();
        let def = graph.op_def(&name).ok_or_else(|| not_found!("{}", Graph::unknown_op(&name)))?;
        // SAFETY: as the caller promises.
        unsafe { fill(output_op_def, &def) }
    };
    // SAFETY: as the caller promises.
    unsafe { guard(status, (), body) }
}

/// Stores the serialised `VersionDef` of the graph.
///
/// # Safety
/// `graph`, the buffer and `status` must be live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_GraphVersions(
    graph: *mut TF_Graph,
    output_version_def: *mut TF_Buffer,
    status: *mut TF_Status,
) {
    let body = || {
        // SAFETY: as the caller promises.
        let versions = unsafe { get(graph, "graph")? }.shared.lock().versions().clone();
        let message = proto::VersionDef {
            producer: versions.producer,
            min_consumer: versions.min_consumer,
            bad_consumers: versions.bad_consumers,
        };
        // SAFETY: as the caller promises.
        unsafe { fill(output_version_def, &message) }
    };
    // SAFETY: as the caller promises.
    unsafe { guard(status, (), body) }
}

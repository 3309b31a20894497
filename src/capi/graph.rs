//! Graphs and the operations in them, as C holds them.

use std::ffi::c_int;
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
use super::handle::{
    Array, ArrayMut, CStrIn, Counted, Handle, Mut, Owned, Ref, Status, count, guard, quiet, to_int,
};
use super::mutate::{Sessions, Taken};
use super::tf_buffer::{TF_Buffer, fill, fill_with};
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
}

impl TF_Graph {
    /// The pointer that the client gets.
    #[expect(clippy::arc_with_non_send_sync, reason = "which threads use it is up to the client")]
    pub(crate) fn hand_out(self) -> *mut TF_Graph {
        Arc::new(self).hand_out_counted()
    }
}

impl Counted for TF_Graph {}

impl Handle for TF_Graph {
    unsafe fn free(graph: *mut TF_Graph) {
        // SAFETY: as the caller promises.
        drop(unsafe { TF_Graph::take_back(graph) });
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

    /// As [`GraphGuard::handle`], for the structs that C keeps.
    pub(crate) fn oper(&mut self, id: NodeId) -> Ref<TF_Operation> {
        // SAFETY: an operation never changes and lives as long as its graph, which C keeps alive as long as it uses the result.
        unsafe { Ref::new(self.handle(id)) }
    }

    pub(crate) fn add_session(&mut self, session: Weak<Taken>) {
        self.state.sessions.add(session);
    }

    /// Notes that a node was changed by `action`, for those sessions that have it already.
    pub(crate) fn record_mutation(&self, id: NodeId, action: &str) {
        self.state.sessions.record_mutation(&self.state.graph, id, action);
    }

    pub(crate) fn output(&mut self, output: OutputRef) -> TF_Output {
        TF_Output { oper: self.oper(output.node), index: to_int(output.port()) }
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
    pub oper: Ref<TF_Operation>,
    pub index: c_int,
}

/// Output `index` of an operation.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct TF_Output {
    pub oper: Ref<TF_Operation>,
    pub index: c_int,
}

impl TF_Output {
    /// The output in `graph`. Whether the operation has so many outputs is not checked.
    ///
    /// # Errors
    /// `InvalidArgument` for null and for operations of another graph, `OutOfRange` for a negative index.
    pub(crate) fn in_graph(self, graph: &SharedGraph) -> Result<OutputRef> {
        node_in(self.oper.get("oper")?, graph)?.output(self.index)
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
pub(crate) fn node_in<'a>(oper: &'a TF_Operation, graph: &SharedGraph) -> Result<&'a TF_Operation> {
    if !oper.is_in(graph) {
        return Err(invalid!("Node {} was not found in the graph", oper.name));
    }
    Ok(oper)
}

/// Returns a new, empty graph.
#[unsafe(no_mangle)]
pub extern "C" fn TF_NewGraph() -> *mut TF_Graph {
    quiet(ptr::null_mut(), || Ok(TF_Graph::new().hand_out()))
}

/// Deletes a graph once no session uses it any more; null is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn TF_DeleteGraph(graph: Owned<TF_Graph>) {
    drop(graph);
}

/// Merges a shape into what is known of an output's: -1 for an unknown dimension, `num_dims` -1 for an
/// unknown rank, which changes nothing.
#[unsafe(no_mangle)]
pub extern "C" fn TF_GraphSetTensorShape(
    graph: Ref<TF_Graph>,
    output: TF_Output,
    dims: Array<i64>,
    num_dims: c_int,
    status: Status,
) {
    guard(status, (), || {
        let graph = graph.get("graph")?;
        let (output, shape) = (output.in_graph(&graph.shared)?, partial_shape(dims, num_dims)?);
        graph.shared.lock().merge_shape(output, &shape)
    })
}

/// A shape as C passes it.
pub(crate) fn partial_shape(dims: Array<i64>, num_dims: c_int) -> Result<PartialShape> {
    if num_dims < 0 {
        return Ok(PartialShape::unknown());
    }
    PartialShape::from_i64s(dims.get(count(num_dims, "num_dims")?, "dims")?)
}

/// Returns the rank of an output, or -1 if it is unknown.
#[unsafe(no_mangle)]
pub extern "C" fn TF_GraphGetTensorNumDims(
    graph: Ref<TF_Graph>,
    output: TF_Output,
    status: Status,
) -> c_int {
    guard(status, -1, || {
        let graph = graph.get("graph")?;
        let output = output.in_graph(&graph.shared)?;
        let graph = graph.shared.lock();
        Ok(graph.shape(output)?.rank().map_or(-1, to_int))
    })
}

/// Stores the dimensions of an output, -1 for unknown ones. `num_dims` must be the rank.
#[unsafe(no_mangle)]
pub extern "C" fn TF_GraphGetTensorShape(
    graph: Ref<TF_Graph>,
    output: TF_Output,
    mut dims: ArrayMut<i64>,
    num_dims: c_int,
    status: Status,
) {
    guard(status, (), || {
        let graph = graph.get("graph")?;
        let output = output.in_graph(&graph.shared)?;
        let graph = graph.shared.lock();
        let shape = graph.shape(output)?;
        let rank = shape.rank().map_or(-1, to_int);
        if rank != num_dims {
            return Err(invalid!("Expected rank is {num_dims} but actual rank is {rank}"));
        }
        let known = shape.dims().unwrap_or_default();
        let dims = dims.get(known.len(), "dims")?;
        for (out, dim) in dims.iter_mut().zip(known) {
            *out = dim.to_i64();
        }
        Ok(())
    })
}

/// Returns the operation called `oper_name`, or null.
#[unsafe(no_mangle)]
pub extern "C" fn TF_GraphOperationByName(
    graph: Ref<TF_Graph>,
    oper_name: CStrIn,
) -> *mut TF_Operation {
    quiet(ptr::null_mut(), || {
        let (graph, name) = (graph.get("graph")?, oper_name.get("oper_name")?);
        let mut graph = graph.shared.lock();
        Ok(graph.find(&name).map_or(ptr::null_mut(), |id| graph.handle(id)))
    })
}

/// Goes through the operations in order of their creation: returns the one at `*pos`, which begins at 0,
/// and moves on; null at the end.
#[unsafe(no_mangle)]
pub extern "C" fn TF_GraphNextOperation(
    graph: Ref<TF_Graph>,
    mut pos: Mut<usize>,
) -> *mut TF_Operation {
    quiet(ptr::null_mut(), || {
        let (graph, pos) = (graph.get("graph")?, pos.get("pos")?);
        let mut graph = graph.shared.lock();
        let Some(id) = graph.nodes().get(*pos).map(|node| node.id) else {
            return Ok(ptr::null_mut());
        };
        *pos += 1;
        Ok(graph.handle(id))
    })
}

/// Stores the graph as a serialised `GraphDef`.
#[unsafe(no_mangle)]
pub extern "C" fn TF_GraphToGraphDef(
    graph: Ref<TF_Graph>,
    output_graph_def: Mut<TF_Buffer>,
    status: Status,
) {
    guard(status, (), || {
        let message = graph.get("graph")?.shared.lock().encode();
        fill_with(output_graph_def, message.as_bytes())
    })
}

/// Stores the serialised `OpDef` of an op or of a function of the graph.
#[unsafe(no_mangle)]
pub extern "C" fn TF_GraphGetOpDef(
    graph: Ref<TF_Graph>,
    op_name: CStrIn,
    output_op_def: Mut<TF_Buffer>,
    status: Status,
) {
    guard(status, (), || {
        let (graph, name) = (graph.get("graph")?, op_name.get("op_name")?);
        let graph = graph.shared.lock();
        let def = graph.op_def(&name).ok_or_else(|| not_found!("{}", Graph::unknown_op(&name)))?;
        fill(output_op_def, &def)
    })
}

/// Stores the serialised `VersionDef` of the graph.
#[unsafe(no_mangle)]
pub extern "C" fn TF_GraphVersions(
    graph: Ref<TF_Graph>,
    output_version_def: Mut<TF_Buffer>,
    status: Status,
) {
    guard(status, (), || {
        let versions = graph.get("graph")?.shared.lock().versions().clone();
        let message = proto::VersionDef {
            producer: versions.producer,
            min_consumer: versions.min_consumer,
            bad_consumers: versions.bad_consumers,
        };
        fill(output_version_def, &message)
    })
}

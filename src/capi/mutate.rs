//! Changes to operations that are in a graph already, and what is known of resource handles.
//!
//! Sessions that have taken an operation in go on with the old one, and warn of that at their next run; new sessions see
//! the change.

use std::ffi::{c_char, c_void};
use std::ptr;
use std::sync::Weak;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;
use tfcore_base::{Result, invalid};
use tfcore_framework::AttrValue;
use tfcore_graph::{Graph, NodeId};
use tfcore_proto::{self as messages, decode};

use super::graph::{GraphGuard, TF_Graph, TF_Input, TF_Operation, TF_Output, node_in};
use super::handle::{count, get, guard, quiet, slice, text};
use super::log;
use super::tf_buffer::{self, TF_Buffer, bytes};
use super::tf_status::TF_Status;
use super::tf_tensor::TF_Tensor;

/// How far a session has taken its graph in. The session has it, and its graph knows of it.
#[derive(Default)]
pub(crate) struct Taken {
    /// How many nodes.
    nodes: AtomicUsize,
    /// Whether there is a warning.
    is_mutated: AtomicBool,
    /// The last change to a node that had been taken in.
    warning: Mutex<Option<String>>,
}

impl Taken {
    pub(crate) fn nodes(&self) -> usize {
        self.nodes.load(Ordering::Acquire)
    }

    pub(crate) fn set_nodes(&self, nodes: usize) {
        self.nodes.store(nodes, Ordering::Release);
    }

    /// Warns, once, that a node was changed too late.
    pub(crate) fn warn_of_mutation(&self) {
        if self.is_mutated.load(Ordering::Relaxed)
            && self.is_mutated.swap(false, Ordering::Acquire)
            && let Some(warning) = self.warning.lock().take()
        {
            log::warn(&warning);
        }
    }
}

/// The sessions of a graph.
#[derive(Default)]
pub(crate) struct Sessions(Vec<Weak<Taken>>);

impl Sessions {
    pub(crate) fn add(&mut self, session: Weak<Taken>) {
        self.0.retain(|known| known.strong_count() > 0);
        self.0.push(session);
    }

    /// Notes that a node was changed by `action`, for those sessions that have it.
    pub(crate) fn record_mutation(&self, graph: &Graph, id: NodeId, action: &str) {
        for session in self.0.iter().filter_map(Weak::upgrade) {
            if session.nodes() > id.index() {
                *session.warning.lock() = Some(warning(graph, id, action));
                session.is_mutated.store(true, Ordering::Release);
            }
        }
    }
}

fn warning(graph: &Graph, id: NodeId, action: &str) -> String {
    let node = graph.node(id);
    let input_name = |id: NodeId| graph.node(id).name.as_str();
    format!(
        "Operation '{{name:'{}' id:{} op device:{{requested: '{}', assigned: ''}} def:{{{}}}}}' was changed by \
         {action} after it was run by a session. This mutation will have no effect, and will trigger an error in \
         the future. Either don't modify nodes after running them or create a new session.",
        node.name,
        id.0,
        node.device,
        node.describe(&input_name)
    )
}

/// Changes an operation of `graph` under the lock.
///
/// # Safety
/// The pointers must be null or live.
unsafe fn change(
    graph: *mut TF_Graph,
    op: *mut TF_Operation,
    action: &str,
    body: impl FnOnce(&mut GraphGuard<'_>, NodeId) -> Result<()>,
) -> Result<()> {
    // SAFETY: as the caller promises, here and below.
    let graph = unsafe { get(graph, "graph")? };
    // SAFETY: as above.
    let id = unsafe { node_in(op, &graph.shared)? }.id;
    let mut graph = graph.shared.lock();
    body(&mut graph, id)?;
    graph.record_mutation(id, action);
    Ok(())
}

/// Adds an input behind the last one of a While, whose attr `T` must have been given room for it.
///
/// Reports `TF_INTERNAL` for an operation of another type, `TF_OUT_OF_RANGE` if there is no such output, and
/// `TF_INVALID_ARGUMENT` if `T` leaves no room.
///
/// # Safety
/// `graph`, `status` and the operations must be live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_AddWhileInputHack(
    graph: *mut TF_Graph,
    new_src: TF_Output,
    dst: *mut TF_Operation,
    status: *mut TF_Status,
) {
    let body = || {
        // SAFETY: as the caller promises, here and below.
        let shared = unsafe { &get(graph, "graph")?.shared };
        // SAFETY: as above.
        let source = unsafe { new_src.in_graph(shared)? };
        // SAFETY: as above.
        unsafe {
            change(graph, dst, "adding input tensor", |graph, id| graph.add_while_input(id, source))
        }
    };
    // SAFETY: as the caller promises.
    unsafe { guard(status, (), body) }
}

/// Makes `new_src` feed an input, in place of the output that does. The types are checked when a session takes the
/// operation in, and so is that no cycle is closed.
///
/// Reports `TF_OUT_OF_RANGE` if there is no such output or input, and `TF_INVALID_ARGUMENT` if the shapes contradict
/// each other; the edge is then as it was.
///
/// # Safety
/// `graph`, `status` and the operations must be live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_UpdateEdge(
    graph: *mut TF_Graph,
    new_src: TF_Output,
    dst: TF_Input,
    status: *mut TF_Status,
) {
    let body = || {
        // SAFETY: as the caller promises, here and below.
        let shared = unsafe { &get(graph, "graph")?.shared };
        // SAFETY: as above.
        let source = unsafe { new_src.in_graph(shared)? };
        let input = count(dst.index, "dst.index")?;
        // SAFETY: as above.
        unsafe {
            change(graph, dst.oper, "updating input tensor", |graph, id| {
                graph.update_edge(source, id, input)
            })
        }
    };
    // SAFETY: as the caller promises.
    unsafe { guard(status, (), body) }
}

/// Makes `op` run after `input`.
///
/// # Safety
/// `graph` and the operations must be live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_AddOperationControlInput(
    graph: *mut TF_Graph,
    op: *mut TF_Operation,
    input: *mut TF_Operation,
) {
    quiet((), || {
        // SAFETY: as the caller promises, here and below.
        let before = unsafe { node_in(input, &get(graph, "graph")?.shared)? }.id;
        // SAFETY: as above.
        unsafe {
            change(graph, op, "adding control input", |graph, id| {
                graph.add_control_input(id, before);
                Ok(())
            })
        }
    });
}

/// Removes all control inputs of `op`.
///
/// # Safety
/// `graph` and the operation must be live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_RemoveAllControlInputs(graph: *mut TF_Graph, op: *mut TF_Operation) {
    quiet((), || {
        // SAFETY: as the caller promises.
        unsafe {
            change(graph, op, "removing control inputs", |graph, id| {
                graph.remove_control_inputs(id);
                Ok(())
            })
        }
    });
}

/// Sets an attr of `op` to a serialised `AttrValue`. Whether the op declares such an attr is not checked; the types of
/// inputs and outputs follow.
///
/// # Safety
/// `graph`, the operation, the buffer and `status` must be live, `attr_name` a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_SetAttr(
    graph: *mut TF_Graph,
    op: *mut TF_Operation,
    attr_name: *const c_char,
    attr_value_proto: *mut TF_Buffer,
    status: *mut TF_Status,
) {
    let body = || {
        // SAFETY: as the caller promises, here and below.
        let (name, bytes) = unsafe {
            (text(attr_name, "attr_name")?, bytes(attr_value_proto, "attr_value_proto")?)
        };
        let message: messages::AttrValue =
            decode(bytes).map_err(|_| invalid!("Invalid AttrValue proto"))?;
        // SAFETY: as above.
        unsafe {
            change(graph, op, "setting attribute", |graph, id| {
                graph.set_attr(id, &name, AttrValue::from_proto(message));
                Ok(())
            })
        }
    };
    // SAFETY: as the caller promises.
    unsafe { guard(status, (), body) }
}

/// Removes an attr of `op`; one that it does not have is no error.
///
/// # Safety
/// `graph`, the operation and `status` must be live, `attr_name` a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_ClearAttr(
    graph: *mut TF_Graph,
    op: *mut TF_Operation,
    attr_name: *const c_char,
    status: *mut TF_Status,
) {
    let body = || {
        // SAFETY: as the caller promises, here and below.
        let name = unsafe { text(attr_name, "attr_name")? };
        // SAFETY: as above.
        unsafe {
            change(graph, op, "clearing attribute", |graph, id| {
                graph.clear_attr(id, &name);
                Ok(())
            })
        }
    };
    // SAFETY: as the caller promises.
    unsafe { guard(status, (), body) }
}

/// Sets the full type of `op` to a serialised `FullTypeDef`; to an empty one, if the bytes are none.
///
/// # Safety
/// `graph`, the operation and the buffer must be live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_SetFullType(
    graph: *mut TF_Graph,
    op: *mut TF_Operation,
    full_type_proto: *const TF_Buffer,
) {
    quiet((), || {
        // SAFETY: as the caller promises, here and below.
        let bytes = unsafe { bytes(full_type_proto, "full_type_proto")? };
        let full_type = decode(bytes).unwrap_or_default();
        // SAFETY: as above.
        unsafe {
            change(graph, op, "setting fulltype", |graph, id| {
                graph.set_full_type(id, Some(full_type));
                Ok(())
            })
        }
    });
}

/// Requests a device for `op`; an empty name requests none. The name is checked when a session places the operation.
///
/// # Safety
/// `graph` and the operation must be live, `device` a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_SetRequestedDevice(
    graph: *mut TF_Graph,
    op: *mut TF_Operation,
    device: *const c_char,
) {
    quiet((), || {
        // SAFETY: as the caller promises, here and below.
        let device = unsafe { text(device, "device")? };
        // SAFETY: as above.
        unsafe {
            change(graph, op, "setting device", |graph, id| {
                graph.set_requested_device(id, &device);
                Ok(())
            })
        }
    });
}

/// Sets whether operations that are added from now on must have a shape function, as they must by default.
///
/// # Safety
/// `graph` must be live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_SetRequireShapeInferenceFns(graph: *mut TF_Graph, require: bool) {
    quiet((), || {
        // SAFETY: as the caller promises.
        unsafe { get(graph, "graph")? }.shared.lock().set_require_shape_fns(require);
        Ok(())
    });
}

/// Computes an output that depends on constants and static shapes only. Returns 1 and stores its value, for the caller
/// to delete, or 0 and null if it cannot be told before a run; that is no error.
///
/// # Safety
/// The pointers and the operation must be live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_TryEvaluateConstant(
    graph: *mut TF_Graph,
    output: TF_Output,
    result: *mut *mut TF_Tensor,
    status: *mut TF_Status,
) -> u8 {
    let body = || {
        // SAFETY: as the caller promises, here and below.
        unsafe { super::handle::put(result, ptr::null_mut(), "result")? };
        // SAFETY: as above.
        let graph = unsafe { get(graph, "graph")? };
        // SAFETY: as above.
        let output = unsafe { output.in_graph(&graph.shared)? };
        let Some(tensor) = graph.shared.lock().evaluate_constant(output)? else {
            return Ok(0);
        };
        // SAFETY: as above.
        unsafe { super::handle::put(result, TF_Tensor::new(tensor), "result")? };
        Ok(1)
    };
    // SAFETY: as the caller promises.
    unsafe { guard(status, 0, body) }
}

/// Returns what is known of the values behind a resource handle, as a serialised
/// `CppShapeInferenceResult.HandleData` for the caller to delete; null if nothing is, or there is no such output.
///
/// # Safety
/// `graph` and the operation must be live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_GetHandleShapeAndType(
    graph: *mut TF_Graph,
    output: TF_Output,
) -> *mut TF_Buffer {
    quiet(ptr::null_mut(), || {
        // SAFETY: as the caller promises, here and below.
        let graph = unsafe { get(graph, "graph")? };
        // SAFETY: as above.
        let output = unsafe { output.in_graph(&graph.shared)? };
        let graph = graph.shared.lock();
        let message = graph.handle_data_to_proto(output)?;
        Ok(message.map_or(ptr::null_mut(), |message| tf_buffer::new(&message)))
    })
}

/// Sets what is known of the values behind a resource handle to a serialised `CppShapeInferenceResult.HandleData`.
///
/// # Safety
/// `graph`, `status` and the operation must be live, `proto` readable for `proto_len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_SetHandleShapeAndType(
    graph: *mut TF_Graph,
    output: TF_Output,
    proto: *const c_void,
    proto_len: usize,
    status: *mut TF_Status,
) {
    let body = || {
        // SAFETY: as the caller promises, here and below.
        let (graph, bytes) =
            unsafe { (get(graph, "graph")?, slice::<u8>(proto.cast(), proto_len, "proto")?) };
        // SAFETY: as above.
        let output = unsafe { output.in_graph(&graph.shared)? };
        let message =
            decode(bytes).map_err(|_| invalid!("Couldn't deserialize HandleData proto"))?;
        graph.shared.lock().set_handle_data(output, &message)
    };
    // SAFETY: as the caller promises.
    unsafe { guard(status, (), body) }
}

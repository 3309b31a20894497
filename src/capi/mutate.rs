//! Changes to operations that are in a graph already, and what is known of resource handles.
//!
//! Sessions that have taken an operation in go on with the old one, and warn of that at their next run; new sessions see
//! the change.

use std::ptr;
use std::sync::Weak;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;
use tfcore_base::{Result, invalid};
use tfcore_framework::AttrValue;
use tfcore_framework::log::{self, Severity};
use tfcore_graph::{Graph, NodeId};
use tfcore_proto::{self as messages, decode};

use super::graph::{GraphGuard, TF_Graph, TF_Input, TF_Operation, TF_Output, node_in};
use super::handle::{Bytes, CStrIn, In, Out, Ref, Status, count, guard, quiet};
use super::tf_buffer::{self, TF_Buffer};
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
            log::report(Severity::Warning, &warning);
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
fn change(
    graph: Ref<TF_Graph>,
    op: Ref<TF_Operation>,
    action: &str,
    body: impl FnOnce(&mut GraphGuard<'_>, NodeId) -> Result<()>,
) -> Result<()> {
    let graph = graph.get("graph")?;
    let id = node_in(op.get("oper")?, &graph.shared)?.id;
    let mut graph = graph.shared.lock();
    body(&mut graph, id)?;
    graph.record_mutation(id, action);
    Ok(())
}

/// Adds an input behind the last one of a While, whose attr `T` must have been given room for it.
///
/// Reports `TF_INTERNAL` for an operation of another type, `TF_OUT_OF_RANGE` if there is no such output, and
/// `TF_INVALID_ARGUMENT` if `T` leaves no room.
#[unsafe(no_mangle)]
pub extern "C" fn TF_AddWhileInputHack(
    graph: Ref<TF_Graph>,
    new_src: TF_Output,
    dst: Ref<TF_Operation>,
    status: Status,
) {
    guard(status, (), || {
        let shared = &graph.get("graph")?.shared;
        let source = new_src.in_graph(shared)?;
        change(graph, dst, "adding input tensor", |graph, id| graph.add_while_input(id, source))
    })
}

/// Makes `new_src` feed an input, in place of the output that does. The types are checked when a session takes the
/// operation in, and so is that no cycle is closed.
///
/// Reports `TF_OUT_OF_RANGE` if there is no such output or input, and `TF_INVALID_ARGUMENT` if the shapes contradict
/// each other; the edge is then as it was.
#[unsafe(no_mangle)]
pub extern "C" fn TF_UpdateEdge(
    graph: Ref<TF_Graph>,
    new_src: TF_Output,
    dst: TF_Input,
    status: Status,
) {
    guard(status, (), || {
        let shared = &graph.get("graph")?.shared;
        let source = new_src.in_graph(shared)?;
        let input = count(dst.index, "dst.index")?;
        change(graph, dst.oper, "updating input tensor", |graph, id| {
            graph.update_edge(source, id, input)
        })
    })
}

/// Makes `op` run after `input`.
#[unsafe(no_mangle)]
pub extern "C" fn TF_AddOperationControlInput(
    graph: Ref<TF_Graph>,
    op: Ref<TF_Operation>,
    input: Ref<TF_Operation>,
) {
    quiet((), || {
        let shared = &graph.get("graph")?.shared;
        let before = node_in(input.get("oper")?, shared)?.id;
        change(graph, op, "adding control input", |graph, id| {
            graph.add_control_input(id, before);
            Ok(())
        })
    });
}

/// Removes all control inputs of `op`.
#[unsafe(no_mangle)]
pub extern "C" fn TF_RemoveAllControlInputs(graph: Ref<TF_Graph>, op: Ref<TF_Operation>) {
    quiet((), || {
        change(graph, op, "removing control inputs", |graph, id| {
            graph.remove_control_inputs(id);
            Ok(())
        })
    });
}

/// Sets an attr of `op` to a serialised `AttrValue`. Whether the op declares such an attr is not checked; the types of
/// inputs and outputs follow.
#[unsafe(no_mangle)]
pub extern "C" fn TF_SetAttr(
    graph: Ref<TF_Graph>,
    op: Ref<TF_Operation>,
    attr_name: CStrIn,
    attr_value_proto: Ref<TF_Buffer>,
    status: Status,
) {
    guard(status, (), || {
        let (name, bytes) = (
            attr_name.get("attr_name")?,
            attr_value_proto.get("attr_value_proto")?.bytes("attr_value_proto")?,
        );
        let message: messages::AttrValue =
            decode(bytes).map_err(|_| invalid!("Invalid AttrValue proto"))?;
        change(graph, op, "setting attribute", |graph, id| {
            graph.set_attr(id, &name, AttrValue::from_proto(message));
            Ok(())
        })
    })
}

/// Removes an attr of `op`; one that it does not have is no error.
#[unsafe(no_mangle)]
pub extern "C" fn TF_ClearAttr(
    graph: Ref<TF_Graph>,
    op: Ref<TF_Operation>,
    attr_name: CStrIn,
    status: Status,
) {
    guard(status, (), || {
        let name = attr_name.get("attr_name")?;
        change(graph, op, "clearing attribute", |graph, id| {
            graph.clear_attr(id, &name);
            Ok(())
        })
    })
}

/// Sets the full type of `op` to a serialised `FullTypeDef`; to an empty one, if the bytes are none.
#[unsafe(no_mangle)]
pub extern "C" fn TF_SetFullType(
    graph: Ref<TF_Graph>,
    op: Ref<TF_Operation>,
    full_type_proto: In<TF_Buffer>,
) {
    quiet((), || {
        let bytes = full_type_proto.get("full_type_proto")?.bytes("full_type_proto")?;
        let full_type = decode(bytes).unwrap_or_default();
        change(graph, op, "setting fulltype", |graph, id| {
            graph.set_full_type(id, Some(full_type));
            Ok(())
        })
    });
}

/// Requests a device for `op`; an empty name requests none. The name is checked when a session places the operation.
#[unsafe(no_mangle)]
pub extern "C" fn TF_SetRequestedDevice(
    graph: Ref<TF_Graph>,
    op: Ref<TF_Operation>,
    device: CStrIn,
) {
    quiet((), || {
        let device = device.get("device")?;
        change(graph, op, "setting device", |graph, id| {
            graph.set_requested_device(id, &device);
            Ok(())
        })
    });
}

/// Sets whether operations that are added from now on must have a shape function, as they must by default.
#[unsafe(no_mangle)]
pub extern "C" fn TF_SetRequireShapeInferenceFns(graph: Ref<TF_Graph>, require: bool) {
    quiet((), || {
        graph.get("graph")?.shared.lock().set_require_shape_fns(require);
        Ok(())
    });
}

/// Computes an output that depends on constants and static shapes only. Returns 1 and stores its value, for the caller
/// to delete, or 0 and null if it cannot be told before a run; that is no error.
#[unsafe(no_mangle)]
pub extern "C" fn TF_TryEvaluateConstant(
    graph: Ref<TF_Graph>,
    output: TF_Output,
    mut result: Out<*mut TF_Tensor>,
    status: Status,
) -> u8 {
    guard(status, 0, || {
        result.put(ptr::null_mut(), "result")?;
        let graph = graph.get("graph")?;
        let output = output.in_graph(&graph.shared)?;
        let Some(tensor) = graph.shared.lock().evaluate_constant(output)? else {
            return Ok(0);
        };
        result.put(TF_Tensor::new(tensor), "result")?;
        Ok(1)
    })
}

/// Returns what is known of the values behind a resource handle, as a serialised
/// `CppShapeInferenceResult.HandleData` for the caller to delete; null if nothing is, or there is no such output.
#[unsafe(no_mangle)]
pub extern "C" fn TF_GetHandleShapeAndType(
    graph: Ref<TF_Graph>,
    output: TF_Output,
) -> *mut TF_Buffer {
    quiet(ptr::null_mut(), || {
        let graph = graph.get("graph")?;
        let output = output.in_graph(&graph.shared)?;
        let graph = graph.shared.lock();
        let message = graph.handle_data_to_proto(output)?;
        Ok(message.map_or(ptr::null_mut(), |message| tf_buffer::new(&message)))
    })
}

/// Sets what is known of the values behind a resource handle to a serialised `CppShapeInferenceResult.HandleData`.
#[unsafe(no_mangle)]
pub extern "C" fn TF_SetHandleShapeAndType(
    graph: Ref<TF_Graph>,
    output: TF_Output,
    proto: Bytes,
    proto_len: usize,
    status: Status,
) {
    guard(status, (), || {
        let (graph, bytes) = (graph.get("graph")?, proto.get(proto_len, "proto")?);
        let output = output.in_graph(&graph.shared)?;
        let message =
            decode(bytes).map_err(|_| invalid!("Couldn't deserialize HandleData proto"))?;
        graph.shared.lock().set_handle_data(output, &message)
    })
}

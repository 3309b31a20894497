//! Queues of a graph that are reached by number, and help for programs that test themselves.
#![allow(unused_variables, reason = "the headers have arguments that no implementation needs")]

use std::ffi::{c_char, c_int};
use std::net::TcpListener;
use std::ptr;

use tfcore_base::{Result, internal};
use tfcore_framework::Value;
use tfcore_graph::{NodeId, OutputRef};
use tfcore_runtime::Request;

use super::dynamic;
use super::handle::{CStrIn, Mut, Owned, Ref, Status, guard};
use super::library::TF_Library;
use super::not_built_in::not_built_in;
use super::session::TF_Session;
use super::tf_tensor::TF_Tensor;

/// Runs `fifo_queue_dequeue_<tensor_id>` and returns the tensor, for the caller to delete; null on error. Waits while the
/// queue is empty.
#[unsafe(no_mangle)]
pub extern "C" fn TF_DequeueNamedTensor(
    session: Ref<TF_Session>,
    tensor_id: c_int,
    status: Status,
) -> *mut TF_Tensor {
    guard(status, ptr::null_mut(), || {
        let session = session.get("session")?;
        let name = format!("fifo_queue_dequeue_{tensor_id}");
        let node = node(session, &name, "the dequeue node")?;
        let fetches = vec![OutputRef { node, index: 0 }];
        let mut outcome = session.session().run(Request { fetches, ..Request::default() })?;
        let tensor = outcome.take_tensors().next();
        tensor.map(TF_Tensor::new).ok_or_else(|| internal!("{name} yields no tensor"))
    })
}

/// Runs `fifo_queue_enqueue_<tensor_id>` with `arg_tensor_enqueue_<tensor_id>` fed with `tensor`, which stays the caller's.
/// Waits while the queue is full.
#[unsafe(no_mangle)]
pub extern "C" fn TF_EnqueueNamedTensor(
    session: Ref<TF_Session>,
    tensor_id: c_int,
    tensor: Ref<TF_Tensor>,
    status: Status,
) {
    guard(status, (), || {
        let session = session.get("session")?;
        let enqueue = format!("fifo_queue_enqueue_{tensor_id}");
        let enqueue = node(session, &enqueue, "the enqueue node")?;
        let argument = format!("arg_tensor_enqueue_{tensor_id}");
        let argument = node(session, &argument, "the placeholder node as input to enqueue")?;
        let mut request = Request {
            feeds: vec![OutputRef { node: argument, index: 0 }],
            targets: vec![enqueue],
            ..Request::default()
        };
        request.values.push(Value::Tensor(tensor.get("tensor")?.tensor()?));
        session.session().run(request).map(|_| ())
    })
}

/// A node of the session's graph, taken in if it is new.
fn node(session: &TF_Session, name: &str, role: &str) -> Result<NodeId> {
    let missing = || internal!("Unable to find {role} in the TF graph.");
    session.extend_if_needed()?;
    session.find_named(name).ok_or_else(missing)
}

/// Does nothing: this platform needs no initialisation.
#[unsafe(no_mangle)]
pub extern "C" fn TF_InitMain(usage: CStrIn, argc: Mut<c_int>, argv: Mut<*mut *mut c_char>) {}

/// Returns the number of a TCP port that is free now, for tests; 0 if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn TF_PickUnusedPortOrDie() -> c_int {
    let address = TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
    address.map_or(0, |address| address.port().into())
}

/// Not available: loads the library, so that one that cannot be loaded is told apart, and reports `TF_UNIMPLEMENTED`.
#[unsafe(no_mangle)]
pub extern "C" fn TF_LoadPluggableDeviceLibrary(
    library_filename: CStrIn,
    status: Status,
) -> *mut TF_Library {
    guard(status, ptr::null_mut(), || {
        dynamic::open(&library_filename, "library_filename")?;
        Err(not_built_in("TF_LoadPluggableDeviceLibrary"))
    })
}

/// Deletes a handle; null is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn TF_DeletePluggableDeviceLibraryHandle(lib_handle: Owned<TF_Library>) {
    drop(lib_handle);
}

//! Deprecated sessions, which own their graph and are asked by name; and resetting of all sessions.

use std::ffi::{c_char, c_int};
use std::ptr;

use tfcore_base::{Result, invalid};
use tfcore_proto as proto;
use tfcore_runtime::{NamedRequest, NamedSession, reset};

use super::handle::{
    ArrayMut, Boxed, Bytes, CStrIn, In, Mut, Out, Owned, Ref, Status, count, guard,
};
use super::partial_run::{fed, hand_out_handle};
use super::session::{TF_SessionOptions, hand_out, hand_out_tensors, options_of_run};
use super::tf_buffer::TF_Buffer;
use super::tf_tensor::TF_Tensor;
use crate::ops;

/// A session with a graph of its own.
pub struct TF_DeprecatedSession {
    session: NamedSession,
}

impl Boxed for TF_DeprecatedSession {}

impl TF_DeprecatedSession {
    pub(crate) fn session(&self) -> &tfcore_runtime::Session {
        self.session.session()
    }
}

/// Returns a session with an empty graph, for the caller to delete; null on error.
#[unsafe(no_mangle)]
pub extern "C" fn TF_NewDeprecatedSession(
    options: In<TF_SessionOptions>,
    status: Status,
) -> *mut TF_DeprecatedSession {
    guard(status, ptr::null_mut(), || {
        let config = options.get("options")?.config()?;
        let session = NamedSession::new(ops::registry().clone(), &config)?;
        Ok(TF_DeprecatedSession { session }.hand_out())
    })
}

/// Ends a session: runs in progress are cancelled, and runs that come later fail, both with `TF_CANCELLED`.
#[unsafe(no_mangle)]
pub extern "C" fn TF_CloseDeprecatedSession(session: Ref<TF_DeprecatedSession>, status: Status) {
    guard(status, (), || {
        session.get("session")?.session().close();
        Ok(())
    })
}

/// Deletes a session; null is allowed. Runs must have ended; partial runs may be left.
#[unsafe(no_mangle)]
pub extern "C" fn TF_DeleteDeprecatedSession(session: Owned<TF_DeprecatedSession>, status: Status) {
    guard(status, (), || {
        drop(session);
        Ok(())
    })
}

/// Closes all sessions of the process, also those over graphs, and clears these containers in them: the default one if
/// `ncontainers` is 0.
#[unsafe(no_mangle)]
pub extern "C" fn TF_Reset(
    opt: In<TF_SessionOptions>,
    containers: ArrayMut<CStrIn>,
    ncontainers: c_int,
    status: Status,
) {
    guard(status, (), || {
        opt.get("opt")?.config()?;
        reset(&names(containers, ncontainers, "containers")?);
        Ok(())
    })
}

/// Adds the nodes of a serialised `GraphDef` to the graph of the session. Their inputs may be nodes that are there
/// already; their names must be new.
#[unsafe(no_mangle)]
pub extern "C" fn TF_ExtendGraph(
    session: Ref<TF_DeprecatedSession>,
    proto: Bytes,
    proto_len: usize,
    status: Status,
) {
    guard(status, (), || {
        let (session, bytes) = (session.get("session")?, proto.get(proto_len, "proto")?);
        let def: proto::GraphDef =
            tfcore_proto::decode(bytes).map_err(|_| invalid!("Invalid GraphDef"))?;
        session.session.extend(def)
    })
}

/// As `TF_SessionRun`, with names for tensors (`y` is `y:0`) and operations.
#[unsafe(no_mangle)]
pub extern "C" fn TF_Run(
    session: Ref<TF_DeprecatedSession>,
    run_options: In<TF_Buffer>,
    input_names: ArrayMut<CStrIn>,
    inputs: ArrayMut<Ref<TF_Tensor>>,
    ninputs: c_int,
    output_names: ArrayMut<CStrIn>,
    mut outputs: ArrayMut<*mut TF_Tensor>,
    noutputs: c_int,
    target_oper_names: ArrayMut<CStrIn>,
    ntargets: c_int,
    mut run_metadata: Mut<TF_Buffer>,
    status: Status,
) {
    guard(status, (), || {
        let results = outputs.get(count(noutputs, "noutputs")?, "outputs")?;
        results.fill(ptr::null_mut());
        let request = NamedRequest {
            feeds: named_feeds(input_names, inputs, ninputs)?,
            fetches: names(output_names, noutputs, "output_names")?,
            targets: names(target_oper_names, ntargets, "target_oper_names")?,
            options: options_of_run(run_options, &mut run_metadata)?,
        };
        let outcome = session.get("session")?.session.run(request)?;
        hand_out(outcome, results, run_metadata)
    })
}

/// As `TF_SessionPRunSetup`, with names.
#[unsafe(no_mangle)]
pub extern "C" fn TF_PRunSetup(
    session: Ref<TF_DeprecatedSession>,
    input_names: ArrayMut<CStrIn>,
    ninputs: c_int,
    output_names: ArrayMut<CStrIn>,
    noutputs: c_int,
    target_oper_names: ArrayMut<CStrIn>,
    ntargets: c_int,
    mut handle: Out<*const c_char>,
    status: Status,
) {
    guard(status, (), || {
        handle.put(ptr::null(), "handle")?;
        let made = session.get("session")?.session.begin_partial(
            names(input_names, ninputs, "input_names")?,
            names(output_names, noutputs, "output_names")?,
            names(target_oper_names, ntargets, "target_oper_names")?,
        )?;
        hand_out_handle(made, handle)
    })
}

/// As `TF_SessionPRun`, with names: the very ones that were announced.
#[unsafe(no_mangle)]
pub extern "C" fn TF_PRun(
    session: Ref<TF_DeprecatedSession>,
    handle: CStrIn,
    input_names: ArrayMut<CStrIn>,
    inputs: ArrayMut<Ref<TF_Tensor>>,
    ninputs: c_int,
    output_names: ArrayMut<CStrIn>,
    mut outputs: ArrayMut<*mut TF_Tensor>,
    noutputs: c_int,
    _target_oper_names: ArrayMut<CStrIn>,
    _ntargets: c_int,
    status: Status,
) {
    guard(status, (), || {
        let results = outputs.get(count(noutputs, "noutputs")?, "outputs")?;
        results.fill(ptr::null_mut());
        let feeds = named_feeds(input_names, inputs, ninputs)?;
        let fetches = names(output_names, noutputs, "output_names")?;
        let (session, handle) = (session.get("session")?, handle.get("handle")?);
        hand_out_tensors(session.session().run_partial(&handle, feeds, &fetches)?, results);
        Ok(())
    })
}

fn names(array: ArrayMut<CStrIn>, len: c_int, argument: &str) -> Result<Vec<String>> {
    let array = array.as_array();
    let array = array.get(count(len, argument)?, argument)?;
    array.iter().map(|name| Ok(name.get(argument)?.into_owned())).collect()
}

fn named_feeds(
    input_names: ArrayMut<CStrIn>,
    inputs: ArrayMut<Ref<TF_Tensor>>,
    len: c_int,
) -> Result<Vec<(String, tfcore_tensor::Tensor)>> {
    let names = names(input_names, len, "input_names")?;
    fed(names.into_iter().map(Ok), inputs.as_array().get(count(len, "ninputs")?, "inputs")?)
}

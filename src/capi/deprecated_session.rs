//! Deprecated sessions, which own their graph and are asked by name; and resetting of all sessions.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;

use tfcore_base::{Result, invalid};
use tfcore_proto as proto;
use tfcore_runtime::{NamedRequest, NamedSession, reset};

use super::handle::{count, get, guard, put, slice, slice_mut, text};
use super::partial_run::{fed, hand_out_handle};
use super::session::{TF_SessionOptions, hand_out, hand_out_tensors, options_of_run};
use super::tf_buffer::TF_Buffer;
use super::tf_status::TF_Status;
use super::tf_tensor::TF_Tensor;
use crate::ops;

/// A session with a graph of its own.
pub struct TF_DeprecatedSession {
    session: NamedSession,
}

impl TF_DeprecatedSession {
    pub(crate) fn session(&self) -> &tfcore_runtime::Session {
        self.session.session()
    }
}

/// Returns a session with an empty graph, for the caller to delete; null on error.
///
/// # Safety
/// The pointers must be live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_NewDeprecatedSession(
    options: *const TF_SessionOptions,
    status: *mut TF_Status,
) -> *mut TF_DeprecatedSession {
    let body = || {
        // SAFETY: as the caller promises.
        let config = unsafe { get(options, "options")? }.config()?;
        let session = NamedSession::new(ops::registry().clone(), &config)?;
        Ok(Box::into_raw(Box::new(TF_DeprecatedSession { session })))
    };
    // SAFETY: as the caller promises.
    unsafe { guard(status, ptr::null_mut(), body) }
}

/// Ends a session: runs in progress are cancelled, and runs that come later fail, both with `TF_CANCELLED`.
///
/// # Safety
/// `session` and `status` must be live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_CloseDeprecatedSession(
    session: *mut TF_DeprecatedSession,
    status: *mut TF_Status,
) {
    let body = || {
        // SAFETY: as the caller promises.
        unsafe { get(session, "session")? }.session().close();
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
pub unsafe extern "C" fn TF_DeleteDeprecatedSession(
    session: *mut TF_DeprecatedSession,
    status: *mut TF_Status,
) {
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

/// Closes all sessions of the process, also those over graphs, and clears these containers in them: the default one if
/// `ncontainers` is 0.
///
/// # Safety
/// `opt` must be live, and the array as long as its count says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_Reset(
    opt: *const TF_SessionOptions,
    containers: *mut *const c_char,
    ncontainers: c_int,
    status: *mut TF_Status,
) {
    let body = || {
        // SAFETY: as the caller promises.
        let containers = unsafe {
            get(opt, "opt")?.config()?;
            names(containers, ncontainers, "containers")?
        };
        reset(&containers);
        Ok(())
    };
    // SAFETY: as the caller promises.
    unsafe { guard(status, (), body) }
}

/// Adds the nodes of a serialised `GraphDef` to the graph of the session. Their inputs may be nodes that are there
/// already; their names must be new.
///
/// # Safety
/// `session` must be live, `proto` readable for `proto_len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_ExtendGraph(
    session: *mut TF_DeprecatedSession,
    proto: *const c_void,
    proto_len: usize,
    status: *mut TF_Status,
) {
    let body = || {
        // SAFETY: as the caller promises.
        let (session, bytes) =
            unsafe { (get(session, "session")?, slice::<u8>(proto.cast(), proto_len, "proto")?) };
        let def: proto::GraphDef =
            tfcore_proto::decode(bytes).map_err(|_| invalid!("Invalid GraphDef"))?;
        session.session.extend(def)
    };
    // SAFETY: as the caller promises.
    unsafe { guard(status, (), body) }
}

/// As `TF_SessionRun`, with names for tensors (`y` is `y:0`) and operations.
///
/// # Safety
/// The pointers must be live and the arrays as long as their counts say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_Run(
    session: *mut TF_DeprecatedSession,
    run_options: *const TF_Buffer,
    input_names: *mut *const c_char,
    inputs: *mut *mut TF_Tensor,
    ninputs: c_int,
    output_names: *mut *const c_char,
    outputs: *mut *mut TF_Tensor,
    noutputs: c_int,
    target_oper_names: *mut *const c_char,
    ntargets: c_int,
    run_metadata: *mut TF_Buffer,
    status: *mut TF_Status,
) {
    let body = || {
        // SAFETY: as the caller promises, here and below.
        let results = unsafe { slice_mut(outputs, count(noutputs, "noutputs")?, "outputs")? };
        results.fill(ptr::null_mut());
        // SAFETY: as above.
        let request = unsafe {
            NamedRequest {
                feeds: named_feeds(input_names, inputs, ninputs)?,
                fetches: names(output_names, noutputs, "output_names")?,
                targets: names(target_oper_names, ntargets, "target_oper_names")?,
                options: options_of_run(run_options, run_metadata)?,
            }
        };
        // SAFETY: as above.
        let outcome = unsafe { get(session, "session")? }.session.run(request)?;
        // SAFETY: as above.
        unsafe { hand_out(outcome, results, run_metadata) }
    };
    // SAFETY: as the caller promises.
    unsafe { guard(status, (), body) }
}

/// As `TF_SessionPRunSetup`, with names.
///
/// # Safety
/// The pointers must be live and the arrays as long as their counts say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_PRunSetup(
    session: *mut TF_DeprecatedSession,
    input_names: *mut *const c_char,
    ninputs: c_int,
    output_names: *mut *const c_char,
    noutputs: c_int,
    target_oper_names: *mut *const c_char,
    ntargets: c_int,
    handle: *mut *const c_char,
    status: *mut TF_Status,
) {
    let body = || {
        // SAFETY: as the caller promises, here and below.
        let made = unsafe {
            put(handle, ptr::null(), "handle")?;
            get(session, "session")?.session.begin_partial(
                names(input_names, ninputs, "input_names")?,
                names(output_names, noutputs, "output_names")?,
                names(target_oper_names, ntargets, "target_oper_names")?,
            )?
        };
        // SAFETY: as above.
        unsafe { hand_out_handle(made, handle) }
    };
    // SAFETY: as the caller promises.
    unsafe { guard(status, (), body) }
}

/// As `TF_SessionPRun`, with names: the very ones that were announced.
///
/// # Safety
/// The pointers must be live and the arrays as long as their counts say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_PRun(
    session: *mut TF_DeprecatedSession,
    handle: *const c_char,
    input_names: *mut *const c_char,
    inputs: *mut *mut TF_Tensor,
    ninputs: c_int,
    output_names: *mut *const c_char,
    outputs: *mut *mut TF_Tensor,
    noutputs: c_int,
    _target_oper_names: *mut *const c_char,
    _ntargets: c_int,
    status: *mut TF_Status,
) {
    let body = || {
        // SAFETY: as the caller promises, here and below.
        let results = unsafe { slice_mut(outputs, count(noutputs, "noutputs")?, "outputs")? };
        results.fill(ptr::null_mut());
        // SAFETY: as above.
        let tensors = unsafe {
            let feeds = named_feeds(input_names, inputs, ninputs)?;
            let fetches = names(output_names, noutputs, "output_names")?;
            let (session, handle) = (get(session, "session")?, text(handle, "handle")?);
            session.session().run_partial(&handle, feeds, &fetches)?
        };
        hand_out_tensors(tensors, results);
        Ok(())
    };
    // SAFETY: as the caller promises.
    unsafe { guard(status, (), body) }
}

/// # Safety
/// The array must have `len` strings.
unsafe fn names(array: *mut *const c_char, len: c_int, argument: &str) -> Result<Vec<String>> {
    // SAFETY: as the caller promises, here and below.
    let array = unsafe { slice(array, count(len, argument)?, argument)? };
    // SAFETY: as above.
    array.iter().map(|&name| Ok(unsafe { text(name, argument)? }.into_owned())).collect()
}

/// # Safety
/// Both arrays must have `len` elements, which must be live.
unsafe fn named_feeds(
    input_names: *mut *const c_char,
    inputs: *mut *mut TF_Tensor,
    len: c_int,
) -> Result<Vec<(String, tfcore_tensor::Tensor)>> {
    // SAFETY: as the caller promises.
    unsafe {
        let names = names(input_names, len, "input_names")?;
        fed(names.into_iter().map(Ok), slice(inputs, count(len, "ninputs")?, "inputs")?)
    }
}

//! Partial runs of sessions.

use std::ffi::{CString, c_char, c_int};
use std::ptr;

use tfcore_base::{Result, internal};
use tfcore_graph::{NodeId, OutputRef};
use tfcore_runtime::{Announcement, Named};
use tfcore_tensor::Tensor;

use super::graph::{TF_Operation, TF_Output};
use super::handle::{count, get, guard, put, slice, slice_mut, text};
use super::session::{TF_Session, hand_out_tensors};
use super::tf_status::TF_Status;
use super::tf_tensor::TF_Tensor;

/// Announces a partial run: everything that the calls of `TF_SessionPRun` to come will feed and fetch, and the
/// operations to run. Stores a handle for these calls, which the caller deletes with
/// `TF_DeletePRunHandle`; null on error.
///
/// # Safety
/// The pointers must be live and the arrays as long as their counts say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_SessionPRunSetup(
    session: *mut TF_Session,
    inputs: *const TF_Output,
    ninputs: c_int,
    outputs: *const TF_Output,
    noutputs: c_int,
    target_opers: *const *const TF_Operation,
    ntargets: c_int,
    handle: *mut *const c_char,
    status: *mut TF_Status,
) {
    let body = || {
        // SAFETY: as the caller promises, here and below.
        let session = unsafe {
            put(handle, ptr::null(), "handle")?;
            get(session, "session")?
        };
        session.extend_if_needed()?;
        // SAFETY: as above.
        let announced = unsafe {
            let inputs = slice(inputs, count(ninputs, "ninputs")?, "inputs")?;
            let outputs = slice(outputs, count(noutputs, "noutputs")?, "outputs")?;
            let targets = slice(target_opers, count(ntargets, "ntargets")?, "target_opers")?;
            Announcement {
                feeds: inputs.iter().map(|&o| tensor_in(o, session)).collect::<Result<_>>()?,
                fetches: outputs.iter().map(|&o| tensor_in(o, session)).collect::<Result<_>>()?,
                targets: targets.iter().map(|&o| node_in(o, session)).collect::<Result<_>>()?,
            }
        };
        let made = session.session().begin_partial(&announced)?;
        // SAFETY: as above.
        unsafe { hand_out_handle(made, handle) }
    };
    // SAFETY: as the caller promises.
    unsafe { guard(status, (), body) }
}

/// Goes on with a partial run: feeds a part of what was announced, waits for another part and stores a new tensor for each
/// output, which the caller deletes. On error all of them are null.
///
/// A call that feeds or fetches what is not its turn fails and does no harm; any other error ends the partial run. The
/// operations to run were said when the run began; those named here are ignored.
///
/// # Safety
/// The pointers must be live and the arrays as long as their counts say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_SessionPRun(
    session: *mut TF_Session,
    handle: *const c_char,
    inputs: *const TF_Output,
    input_values: *const *mut TF_Tensor,
    ninputs: c_int,
    outputs: *const TF_Output,
    output_values: *mut *mut TF_Tensor,
    noutputs: c_int,
    _target_opers: *const *const TF_Operation,
    _ntargets: c_int,
    status: *mut TF_Status,
) {
    let body = || {
        let noutputs = count(noutputs, "noutputs")?;
        // SAFETY: as the caller promises, here and below.
        let results = unsafe { slice_mut(output_values, noutputs, "output_values")? };
        results.fill(ptr::null_mut());
        let len = count(ninputs, "ninputs")?;
        // SAFETY: as above.
        let (session, handle, feeds, fetches) = unsafe {
            let names = slice(inputs, len, "inputs")?.iter().map(|&o| name_of(o));
            let values = slice(input_values, len, "input_values")?;
            let outputs = slice(outputs, noutputs, "outputs")?;
            let fetches = outputs.iter().map(|&o| name_of(o)).collect::<Result<Vec<_>>>()?;
            let feeds = fed(names, values)?;
            (get(session, "session")?, text(handle, "handle")?, feeds, fetches)
        };
        hand_out_tensors(session.session().run_partial(&handle, feeds, &fetches)?, results);
        Ok(())
    };
    // SAFETY: as the caller promises.
    unsafe { guard(status, (), body) }
}

/// Deletes the handle of a partial run; null is allowed. The run is not affected.
///
/// # Safety
/// `handle` must be null or come from this library and not have been deleted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_DeletePRunHandle(handle: *const c_char) {
    if !handle.is_null() {
        // SAFETY: made by `hand_out_handle`, and the caller hands it over.
        drop(unsafe { CString::from_raw(handle.cast_mut()) });
    }
}

/// Stores the handle of a partial run for the client to delete.
///
/// # Safety
/// The pointer must be null or valid for a write.
pub(crate) unsafe fn hand_out_handle(made: String, handle: *mut *const c_char) -> Result<()> {
    let text = CString::new(made).map_err(|_| internal!("A handle has a NUL in it"))?;
    let text = text.into_raw();
    // SAFETY: as the caller promises.
    unsafe { put(handle, text.cast_const(), "handle") }
}

/// Names with the tensors that are fed to them.
///
/// # Safety
/// The tensors must be null or live.
pub(crate) unsafe fn fed(
    names: impl Iterator<Item = Result<String>>,
    values: &[*mut TF_Tensor],
) -> Result<Vec<(String, Tensor)>> {
    // SAFETY: as the caller promises.
    let tensor = |value: *mut TF_Tensor| unsafe { get(value, "input_values")? }.tensor();
    names.zip(values).map(|(name, &value)| Ok((name?, tensor(value)?))).collect()
}

/// `operation:index`.
///
/// # Safety
/// The operation must be null or live.
unsafe fn name_of(output: TF_Output) -> Result<String> {
    // SAFETY: as the caller promises.
    let oper = unsafe { get(output.oper, "oper")? };
    Ok(format!("{}:{}", oper.name, output.index))
}

/// # Safety
/// The operation must be null or live.
unsafe fn tensor_in(output: TF_Output, session: &TF_Session) -> Result<Named<OutputRef>> {
    // SAFETY: as the caller promises, here and below.
    let name = unsafe { name_of(output)? };
    // SAFETY: as above.
    let node = unsafe { node_in(output.oper, session)? }.at;
    // An index below 0 is as wrong as one beyond the last output.
    let index = u32::try_from(output.index).unwrap_or(u32::MAX);
    Ok(Named { name, at: node.map(|node| OutputRef { node, index }) })
}

/// # Safety
/// The operation must be null or live.
unsafe fn node_in(oper: *const TF_Operation, session: &TF_Session) -> Result<Named<NodeId>> {
    // SAFETY: as the caller promises.
    let oper = unsafe { get(oper, "oper")? };
    Ok(Named { name: oper.name.to_string(), at: session.find(oper) })
}

//! Partial runs of sessions.

use std::ffi::{CString, c_char, c_int};
use std::ptr;

use tfcore_base::{Result, internal};
use tfcore_graph::{NodeId, OutputRef};
use tfcore_runtime::{Announcement, Named};
use tfcore_tensor::Tensor;

use super::graph::{TF_Operation, TF_Output};
use super::handle::{Array, ArrayMut, CStrIn, In, Out, Ref, Status, count, guard};
use super::session::{TF_Session, hand_out_tensors};
use super::tf_tensor::TF_Tensor;

/// Announces a partial run: everything that the calls of `TF_SessionPRun` to come will feed and fetch, and the
/// operations to run. Stores a handle for these calls, which the caller deletes with
/// `TF_DeletePRunHandle`; null on error.
#[unsafe(no_mangle)]
pub extern "C" fn TF_SessionPRunSetup(
    session: Ref<TF_Session>,
    inputs: Array<TF_Output>,
    ninputs: c_int,
    outputs: Array<TF_Output>,
    noutputs: c_int,
    target_opers: Array<In<TF_Operation>>,
    ntargets: c_int,
    mut handle: Out<*const c_char>,
    status: Status,
) {
    guard(status, (), || {
        handle.put(ptr::null(), "handle")?;
        let session = session.get("session")?;
        session.extend_if_needed()?;
        let inputs = inputs.get(count(ninputs, "ninputs")?, "inputs")?;
        let outputs = outputs.get(count(noutputs, "noutputs")?, "outputs")?;
        let targets = target_opers.get(count(ntargets, "ntargets")?, "target_opers")?;
        let target = |oper: &In<TF_Operation>| Ok(node_in(oper.get("oper")?, session));
        let announced = Announcement {
            feeds: inputs.iter().map(|o| tensor_in(o, session)).collect::<Result<_>>()?,
            fetches: outputs.iter().map(|o| tensor_in(o, session)).collect::<Result<_>>()?,
            targets: targets.iter().map(target).collect::<Result<_>>()?,
        };
        let made = session.session().begin_partial(&announced)?;
        hand_out_handle(made, handle)
    })
}

/// Goes on with a partial run: feeds a part of what was announced, waits for another part and stores a new tensor for each
/// output, which the caller deletes. On error all of them are null.
///
/// A call that feeds or fetches what is not its turn fails and does no harm; any other error ends the partial run. The
/// operations to run were said when the run began; those named here are ignored.
#[unsafe(no_mangle)]
pub extern "C" fn TF_SessionPRun(
    session: Ref<TF_Session>,
    handle: CStrIn,
    inputs: Array<TF_Output>,
    input_values: Array<Ref<TF_Tensor>>,
    ninputs: c_int,
    outputs: Array<TF_Output>,
    mut output_values: ArrayMut<*mut TF_Tensor>,
    noutputs: c_int,
    _target_opers: Array<In<TF_Operation>>,
    _ntargets: c_int,
    status: Status,
) {
    guard(status, (), || {
        let noutputs = count(noutputs, "noutputs")?;
        let results = output_values.get(noutputs, "output_values")?;
        results.fill(ptr::null_mut());
        let len = count(ninputs, "ninputs")?;
        let names = inputs.get(len, "inputs")?.iter().map(name_of);
        let values = input_values.get(len, "input_values")?;
        let outputs = outputs.get(noutputs, "outputs")?;
        let fetches = outputs.iter().map(name_of).collect::<Result<Vec<_>>>()?;
        let feeds = fed(names, values)?;
        let (session, handle) = (session.get("session")?, handle.get("handle")?);
        hand_out_tensors(session.session().run_partial(&handle, feeds, &fetches)?, results);
        Ok(())
    })
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
pub(crate) fn hand_out_handle(made: String, mut handle: Out<*const c_char>) -> Result<()> {
    let text = CString::new(made).map_err(|_| internal!("A handle has a NUL in it"))?;
    let text = text.into_raw();
    handle.put(text.cast_const(), "handle")
}

/// Names with the tensors that are fed to them.
pub(crate) fn fed(
    names: impl Iterator<Item = Result<String>>,
    values: &[Ref<TF_Tensor>],
) -> Result<Vec<(String, Tensor)>> {
    let pair = |(name, value): (Result<String>, &Ref<TF_Tensor>)| {
        Ok((name?, value.get("input_values")?.tensor()?))
    };
    names.zip(values).map(pair).collect()
}

/// `operation:index`.
fn name_of(output: &TF_Output) -> Result<String> {
    let oper = output.oper.get("oper")?;
    Ok(format!("{}:{}", oper.name, output.index))
}

fn tensor_in(output: &TF_Output, session: &TF_Session) -> Result<Named<OutputRef>> {
    let name = name_of(output)?;
    let node = session.find(output.oper.get("oper")?);
    // An index below 0 is as wrong as one beyond the last output.
    let index = u32::try_from(output.index).unwrap_or(u32::MAX);
    Ok(Named { name, at: node.map(|node| OutputRef { node, index }) })
}

fn node_in(oper: &TF_Operation, session: &TF_Session) -> Named<NodeId> {
    Named { name: oper.name.to_string(), at: session.find(oper) }
}

//! Loops.

use std::ffi::{c_char, c_int};
use std::ptr;
use std::sync::Arc;

use tfcore_base::{Result, invalid};
use tfcore_graph::{LoopPart, OutputRef};

use super::graph::{SharedGraph, TF_Graph, TF_Output};
use super::handle::{count, get, guard, quiet, slice, slice_mut, text};
use super::operation::NO_OUTPUT;
use super::tf_status::TF_Status;

/// A loop that is being put together. The client builds the condition and the body, starting from their inputs, and
/// fills in `cond_output`, `body_outputs` and `name`.
#[repr(C)]
pub struct TF_WhileParams {
    /// The number of loop variables.
    pub ninputs: c_int,
    /// The graph of the condition.
    pub cond_graph: *mut TF_Graph,
    /// The loop variables in the condition.
    pub cond_inputs: *const TF_Output,
    /// Whether there is another iteration: a scalar bool.
    pub cond_output: TF_Output,
    /// The graph of the body.
    pub body_graph: *mut TF_Graph,
    /// The loop variables in the body.
    pub body_inputs: *const TF_Output,
    /// The next values of the loop variables.
    pub body_outputs: *mut TF_Output,
    /// What the loop is called; the names of its operations begin with it.
    pub name: *const c_char,
}

/// What a loop under construction needs besides what the client sees. It belongs to the graph of the condition.
pub(crate) struct PendingLoop {
    parent: Arc<SharedGraph>,
    /// The first values of the loop variables, in the parent.
    inputs: Vec<OutputRef>,
    cond_inputs: Vec<OutputRef>,
    body_inputs: Vec<OutputRef>,
    /// The arrays that the client sees.
    cond_handles: Vec<TF_Output>,
    body_handles: Vec<TF_Output>,
    body_outputs: Vec<TF_Output>,
}

const NOTHING: TF_WhileParams = TF_WhileParams {
    ninputs: 0,
    cond_graph: ptr::null_mut(),
    cond_inputs: ptr::null(),
    cond_output: NO_OUTPUT,
    body_graph: ptr::null_mut(),
    body_inputs: ptr::null(),
    body_outputs: ptr::null_mut(),
    name: ptr::null(),
};

/// Begins a loop in `g` whose variables begin with `inputs`. Everything is returned filled in but `cond_output`,
/// `body_outputs` and `name`. If this succeeds, the client must call `TF_FinishWhile` or `TF_AbortWhile`.
///
/// # Safety
/// `g`, the operations and `status` must be live, `inputs` readable for `ninputs` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_NewWhile(
    g: *mut TF_Graph,
    inputs: *mut TF_Output,
    ninputs: c_int,
    status: *mut TF_Status,
) -> TF_WhileParams {
    let body = || {
        // SAFETY: as the caller promises.
        let parent = unsafe { get(g, "g")? };
        if ninputs <= 0 {
            return Err(invalid!("TF_NewWhile() must be passed at least one input"));
        }
        // SAFETY: as the caller promises.
        let inputs = unsafe { slice(inputs, count(ninputs, "ninputs")?, "inputs")? };
        let inputs: Result<Vec<OutputRef>> =
            // SAFETY: as the caller promises.
            inputs.iter().map(|input| unsafe { input.in_graph(&parent.shared) }).collect();
        begin(&parent.shared, inputs?, ninputs)
    };
    // SAFETY: as the caller promises.
    unsafe { guard(status, NOTHING, body) }
}

fn begin(
    parent: &Arc<SharedGraph>,
    inputs: Vec<OutputRef>,
    ninputs: c_int,
) -> Result<TF_WhileParams> {
    let (mut cond, body) = (TF_Graph::new(), TF_Graph::new());
    let (cond_inputs, cond_handles) = add_inputs(&cond, parent, &inputs, "cond_input")?;
    let (body_inputs, body_handles) = add_inputs(&body, parent, &inputs, "body_input")?;
    let mut pending = Box::new(PendingLoop {
        parent: parent.clone(),
        body_outputs: vec![NO_OUTPUT; inputs.len()],
        inputs,
        cond_inputs,
        body_inputs,
        cond_handles,
        body_handles,
    });
    let params = TF_WhileParams {
        ninputs,
        cond_inputs: pending.cond_handles.as_ptr(),
        body_inputs: pending.body_handles.as_ptr(),
        body_outputs: pending.body_outputs.as_mut_ptr(),
        ..NOTHING
    };
    cond.pending_loop = Some(pending);
    let (cond_graph, body_graph) = (cond.into_raw(), body.into_raw());
    Ok(TF_WhileParams { cond_graph, body_graph, ..params })
}

/// Adds the loop variables to a part of the loop.
fn add_inputs(
    part: &TF_Graph,
    parent: &SharedGraph,
    inputs: &[OutputRef],
    stem: &str,
) -> Result<(Vec<OutputRef>, Vec<TF_Output>)> {
    let mut graph = part.shared.lock();
    let outputs = graph.add_loop_inputs(&parent.lock(), inputs, stem)?;
    let handles = outputs.iter().map(|&output| graph.output(output)).collect();
    Ok((outputs, handles))
}

/// Adds the loop to the graph that `TF_NewWhile` was given, and stores the values of its variables after the last iteration
/// in `outputs`, which has room for `ninputs`. Frees what belongs to `params`, also on an error; then the graph is as it
/// was.
///
/// # Safety
/// `params` must come from `TF_NewWhile` and not have been finished, `status` be live, `outputs` writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_FinishWhile(
    params: *const TF_WhileParams,
    status: *mut TF_Status,
    outputs: *mut TF_Output,
) {
    let body = || {
        // SAFETY: as the caller promises.
        let params = unsafe { get(params, "params")? };
        // SAFETY: as the caller promises; this function takes the graphs over.
        let Some((cond, body)) = (unsafe { take_graphs(params) }) else {
            return Err(invalid!("TF_WhileParams comes from no successful TF_NewWhile"));
        };
        let Some(pending) = &cond.pending_loop else {
            return Err(invalid!("TF_WhileParams `cond_graph` is not the one of TF_NewWhile"));
        };
        // SAFETY: as the caller promises; the graphs are live until the end of this function.
        let (name, cond_output, next_values) = unsafe {
            if params.name.is_null() {
                return Err(invalid!("TF_WhileParams `name` field is null"));
            }
            let name = text(params.name, "name")?;
            if params.cond_output.oper.is_null() {
                return Err(invalid!("TF_WhileParams `cond_output` field isn't set"));
            }
            (
                name,
                params.cond_output.in_graph(&cond.shared)?,
                body_values(params, pending, &body.shared)?,
            )
        };
        // SAFETY: as the caller promises.
        let slots = unsafe { slice_mut(outputs, pending.inputs.len(), "outputs")? };
        let mut parent = pending.parent.lock();
        let (cond_graph, body_graph) = (cond.shared.lock(), body.shared.lock());
        let cond_part =
            LoopPart { graph: &cond_graph, inputs: &pending.cond_inputs, outputs: &[cond_output] };
        let body_part =
            LoopPart { graph: &body_graph, inputs: &pending.body_inputs, outputs: &next_values };
        let exits = parent.add_while(&name, &pending.inputs, &cond_part, &body_part)?;
        for (slot, exit) in slots.iter_mut().zip(exits) {
            *slot = parent.output(exit);
        }
        Ok(())
    };
    // SAFETY: as the caller promises.
    unsafe { guard(status, (), body) }
}

/// The next values of the loop variables, as the client has set them.
///
/// # Safety
/// `body_outputs` must be readable for an element per variable, the operations null or live.
unsafe fn body_values(
    params: &TF_WhileParams,
    pending: &PendingLoop,
    body: &SharedGraph,
) -> Result<Vec<OutputRef>> {
    let count = pending.inputs.len();
    // SAFETY: as the caller promises.
    let outputs = unsafe { slice(params.body_outputs, count, "body_outputs")? };
    if let Some(index) = outputs.iter().position(|output| output.oper.is_null()) {
        return Err(invalid!("TF_WhileParams `body_outputs[{index}]` field isn't set"));
    }
    // SAFETY: as the caller promises.
    outputs.iter().map(|output| unsafe { output.in_graph(body) }).collect()
}

/// The graphs of a loop under construction, to be freed by whoever calls this.
///
/// # Safety
/// `params` must be as `TF_NewWhile` has returned it, and its graphs must not have been freed.
unsafe fn take_graphs(params: &TF_WhileParams) -> Option<(Arc<TF_Graph>, Arc<TF_Graph>)> {
    if params.cond_graph.is_null() || params.body_graph.is_null() {
        return None;
    }
    // SAFETY: made by `begin`, and handed over by the client.
    Some(unsafe { (TF_Graph::from_raw(params.cond_graph), TF_Graph::from_raw(params.body_graph)) })
}

/// Frees what belongs to `params` without building a loop.
///
/// # Safety
/// `params` must come from `TF_NewWhile` and not have been finished.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_AbortWhile(params: *const TF_WhileParams) {
    quiet((), || {
        // SAFETY: as the caller promises.
        drop(unsafe { take_graphs(get(params, "params")?) });
        Ok(())
    });
}

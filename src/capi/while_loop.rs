//! Loops.

use std::ffi::c_int;
use std::ptr;
use std::sync::Arc;

use tfcore_base::{Result, invalid};
use tfcore_graph::{LoopPart, OutputRef};

use super::function::output_list;
use super::graph::{SharedGraph, TF_Graph, TF_Output};
use super::handle::{ArrayMut, CStrIn, Counted, In, Ref, Status, guard, quiet};
use super::operation::NO_OUTPUT;

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
    pub body_outputs: ArrayMut<TF_Output>,
    /// What the loop is called; the names of its operations begin with it.
    pub name: CStrIn,
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
    body_outputs: ArrayMut::NULL,
    name: CStrIn::NULL,
};

/// Begins a loop in `g` whose variables begin with `inputs`. Everything is returned filled in but `cond_output`,
/// `body_outputs` and `name`. If this succeeds, the client must call `TF_FinishWhile` or `TF_AbortWhile`.
#[unsafe(no_mangle)]
pub extern "C" fn TF_NewWhile(
    g: Ref<TF_Graph>,
    inputs: ArrayMut<TF_Output>,
    ninputs: c_int,
    status: Status,
) -> TF_WhileParams {
    guard(status, NOTHING, || {
        let parent = g.get("g")?;
        if ninputs <= 0 {
            return Err(invalid!("TF_NewWhile() must be passed at least one input"));
        }
        let inputs = output_list(&parent.shared, inputs.as_array(), ninputs, "inputs")?;
        begin(&parent.shared, inputs, ninputs)
    })
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
        // SAFETY: the array has an element per variable and lives until the graph of the condition is freed.
        body_outputs: unsafe { ArrayMut::new(pending.body_outputs.as_mut_ptr()) },
        ..NOTHING
    };
    cond.pending_loop = Some(pending);
    let (cond_graph, body_graph) = (cond.hand_out(), body.hand_out());
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
/// `params` must come from `TF_NewWhile` and not have been finished.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_FinishWhile(
    params: In<TF_WhileParams>,
    status: Status,
    mut outputs: ArrayMut<TF_Output>,
) {
    guard(status, (), || {
        let params = params.get("params")?;
        // SAFETY: as the caller promises; this function takes the graphs over.
        let Some((cond, body)) = (unsafe { take_graphs(params) }) else {
            return Err(invalid!("TF_WhileParams comes from no successful TF_NewWhile"));
        };
        let Some(pending) = &cond.pending_loop else {
            return Err(invalid!("TF_WhileParams `cond_graph` is not the one of TF_NewWhile"));
        };
        let Some(name) = params.name.opt() else {
            return Err(invalid!("TF_WhileParams `name` field is null"));
        };
        if params.cond_output.oper.is_null() {
            return Err(invalid!("TF_WhileParams `cond_output` field isn't set"));
        }
        let cond_output = params.cond_output.in_graph(&cond.shared)?;
        let next_values = body_values(params, pending, &body.shared)?;
        let slots = outputs.get(pending.inputs.len(), "outputs")?;
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
    })
}

/// The next values of the loop variables, as the client has set them.
fn body_values(
    params: &TF_WhileParams,
    pending: &PendingLoop,
    body: &SharedGraph,
) -> Result<Vec<OutputRef>> {
    let count = pending.inputs.len();
    let outputs = params.body_outputs.as_array();
    let outputs = outputs.get(count, "body_outputs")?;
    if let Some(index) = outputs.iter().position(|output| output.oper.is_null()) {
        return Err(invalid!("TF_WhileParams `body_outputs[{index}]` field isn't set"));
    }
    outputs.iter().map(|output| output.in_graph(body)).collect()
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
    Some(unsafe {
        (TF_Graph::take_back(params.cond_graph), TF_Graph::take_back(params.body_graph))
    })
}

/// Frees what belongs to `params` without building a loop.
///
/// # Safety
/// `params` must come from `TF_NewWhile` and not have been finished.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_AbortWhile(params: In<TF_WhileParams>) {
    quiet((), || {
        // SAFETY: as the caller promises.
        drop(unsafe { take_graphs(params.get("params")?) });
        Ok(())
    });
}

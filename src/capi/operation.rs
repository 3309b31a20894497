//! Queries about operations.

use std::ffi::{c_char, c_int};
use std::ptr;
use std::sync::Arc;

use tfcore_base::{Result, invalid};
use tfcore_graph::{Node, NodeId, OutputRef, node_to_proto};

use super::graph::{TF_Input, TF_Operation, TF_Output};
use super::handle::{count, get, guard, quiet, slice_mut, text, to_int};
use super::tf_buffer::{TF_Buffer, fill};
use super::tf_datatype::TF_DataTypeNumber;
use super::tf_status::TF_Status;

impl TF_Operation {
    /// The node as it is now.
    pub(crate) fn node(&self) -> Arc<Node> {
        self.graph().lock().node(self.id).clone()
    }
}

/// Returns the name, which lives as long as the graph.
///
/// # Safety
/// `oper` must be null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_OperationName(oper: *mut TF_Operation) -> *const c_char {
    // SAFETY: as the caller promises.
    unsafe { oper.as_ref() }.map_or(ptr::null(), |oper| oper.name.as_ptr())
}

/// Returns the name of the op, which lives as long as the graph.
///
/// # Safety
/// `oper` must be null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_OperationOpType(oper: *mut TF_Operation) -> *const c_char {
    // SAFETY: as the caller promises.
    unsafe { oper.as_ref() }.map_or(ptr::null(), |oper| oper.op.c_name.as_ptr())
}

/// Returns the requested device, empty for none; it lives as long as the graph.
///
/// # Safety
/// `oper` must be null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_OperationDevice(oper: *mut TF_Operation) -> *const c_char {
    // The graph keeps all device names that were ever requested.
    // SAFETY: as the caller promises.
    unsafe { oper.as_ref() }.map_or(ptr::null(), |oper| oper.node().device.as_ptr())
}

/// Returns the number of outputs.
///
/// # Safety
/// `oper` must be null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_OperationNumOutputs(oper: *mut TF_Operation) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { oper.as_ref() }.map_or(0, |oper| to_int(oper.node().num_outputs()))
}

/// Returns the type of an output; 0 if there is no such output.
///
/// # Safety
/// The operation must be null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_OperationOutputType(oper_out: TF_Output) -> TF_DataTypeNumber {
    quiet(TF_DataTypeNumber::INVALID, || {
        // SAFETY: as the caller promises.
        let node = unsafe { get(oper_out.oper, "oper")? }.node();
        let dtype = node.output_dtypes.get(count(oper_out.index, "index")?);
        Ok(dtype.map_or(TF_DataTypeNumber::INVALID, |&dtype| dtype.into()))
    })
}

/// Returns the number of tensors of the output argument `arg_name`; -1 on error.
///
/// # Safety
/// `oper` must be live, `arg_name` a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_OperationOutputListLength(
    oper: *mut TF_Operation,
    arg_name: *const c_char,
    status: *mut TF_Status,
) -> c_int {
    let body = || {
        // SAFETY: as the caller promises.
        let (oper, name) = unsafe { (get(oper, "oper")?, text(arg_name, "arg_name")?) };
        Ok(to_int(oper.op.output_range(&name, &oper.node().attrs)?.len()))
    };
    // SAFETY: as the caller promises.
    unsafe { guard(status, -1, body) }
}

/// Returns the number of data inputs.
///
/// # Safety
/// `oper` must be null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_OperationNumInputs(oper: *mut TF_Operation) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { oper.as_ref() }.map_or(0, |oper| to_int(oper.node().inputs.len()))
}

/// Returns the type that an input expects; 0 if there is no such input.
///
/// # Safety
/// The operation must be null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_OperationInputType(oper_in: TF_Input) -> TF_DataTypeNumber {
    quiet(TF_DataTypeNumber::INVALID, || {
        // SAFETY: as the caller promises.
        let node = unsafe { get(oper_in.oper, "oper")? }.node();
        let dtype = node.input_dtypes.get(count(oper_in.index, "index")?);
        Ok(dtype.map_or(TF_DataTypeNumber::INVALID, |&dtype| dtype.into()))
    })
}

/// Returns the number of tensors of the input argument `arg_name`; -1 on error.
///
/// # Safety
/// `oper` must be live, `arg_name` a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_OperationInputListLength(
    oper: *mut TF_Operation,
    arg_name: *const c_char,
    status: *mut TF_Status,
) -> c_int {
    let body = || {
        // SAFETY: as the caller promises.
        let (oper, name) = unsafe { (get(oper, "oper")?, text(arg_name, "arg_name")?) };
        Ok(to_int(oper.op.input_range(&name, &oper.node().attrs)?.len()))
    };
    // SAFETY: as the caller promises.
    unsafe { guard(status, -1, body) }
}

pub(crate) const NO_OUTPUT: TF_Output = TF_Output { oper: ptr::null_mut(), index: -1 };

/// Returns the output that feeds an input.
///
/// # Safety
/// The operation must be null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_OperationInput(oper_in: TF_Input) -> TF_Output {
    quiet(NO_OUTPUT, || {
        // SAFETY: as the caller promises.
        let oper = unsafe { get(oper_in.oper, "oper")? };
        let mut graph = oper.graph().lock();
        let edge = graph.node(oper.id).inputs.get(count(oper_in.index, "index")?).copied();
        Ok(edge.map_or(NO_OUTPUT, |edge| graph.output(edge.source)))
    })
}

/// Stores the outputs that feed the first `max_inputs` inputs.
///
/// # Safety
/// `oper` must be live, `inputs` writable for `max_inputs` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_OperationAllInputs(
    oper: *mut TF_Operation,
    inputs: *mut TF_Output,
    max_inputs: c_int,
) {
    quiet((), || {
        // SAFETY: as the caller promises.
        let oper = unsafe { get(oper, "oper")? };
        let mut graph = oper.graph().lock();
        let node = graph.node(oper.id).clone();
        let len = node.inputs.len().min(count(max_inputs, "max_inputs")?);
        // SAFETY: as the caller promises.
        let inputs = unsafe { slice_mut(inputs, len, "inputs")? };
        for (out, edge) in inputs.iter_mut().zip(&node.inputs) {
            *out = graph.output(edge.source);
        }
        Ok(())
    });
}

/// The output in its own graph.
///
/// # Safety
/// The operation must be null or live.
unsafe fn own_output<'a>(output: TF_Output) -> Result<(&'a TF_Operation, OutputRef)> {
    // SAFETY: as the caller promises.
    let oper = unsafe { get(output.oper, "oper")? };
    Ok((oper, OutputRef::new(oper.id, count(output.index, "index")?)))
}

/// Returns the number of inputs that read an output.
///
/// # Safety
/// The operation must be null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_OperationOutputNumConsumers(oper_out: TF_Output) -> c_int {
    quiet(0, || {
        // SAFETY: as the caller promises.
        let (oper, output) = unsafe { own_output(oper_out)? };
        Ok(to_int(oper.graph().lock().consumers(output).count()))
    })
}

/// Stores the first `max_consumers` inputs that read an output and returns how many there are.
///
/// # Safety
/// The operation must be live, `consumers` writable for `max_consumers` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_OperationOutputConsumers(
    oper_out: TF_Output,
    consumers: *mut TF_Input,
    max_consumers: c_int,
) -> c_int {
    quiet(0, || {
        // SAFETY: as the caller promises.
        let (oper, output) = unsafe { own_output(oper_out)? };
        let mut graph = oper.graph().lock();
        let all: Vec<(NodeId, usize)> = graph.consumers(output).collect();
        let len = all.len().min(count(max_consumers, "max_consumers")?);
        // SAFETY: as the caller promises.
        let consumers = unsafe { slice_mut(consumers, len, "consumers")? };
        for (out, (id, input)) in consumers.iter_mut().zip(&all) {
            *out = TF_Input { oper: graph.handle(*id), index: to_int(*input) };
        }
        Ok(to_int(all.len()))
    })
}

/// Returns the number of control inputs.
///
/// # Safety
/// `oper` must be null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_OperationNumControlInputs(oper: *mut TF_Operation) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { oper.as_ref() }.map_or(0, |oper| to_int(oper.node().control_inputs.len()))
}

/// Stores the first `max` operations of `ids` and returns how many there are.
///
/// # Safety
/// `out` must be writable for `max` elements.
unsafe fn store_operations(
    oper: &TF_Operation,
    ids: &[NodeId],
    out: *mut *mut TF_Operation,
    max: c_int,
) -> Result<c_int> {
    let len = ids.len().min(count(max, "max")?);
    // SAFETY: as the caller promises.
    let out = unsafe { slice_mut(out, len, "operations")? };
    let mut graph = oper.graph().lock();
    for (out, &id) in out.iter_mut().zip(ids) {
        *out = graph.handle(id);
    }
    Ok(to_int(ids.len()))
}

/// Stores the first `max_control_inputs` control inputs and returns how many there are.
///
/// # Safety
/// `oper` must be live, the array writable for so many elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_OperationGetControlInputs(
    oper: *mut TF_Operation,
    control_inputs: *mut *mut TF_Operation,
    max_control_inputs: c_int,
) -> c_int {
    quiet(0, || {
        // SAFETY: as the caller promises.
        let oper = unsafe { get(oper, "oper")? };
        let ids = oper.node().control_inputs.clone();
        // SAFETY: as the caller promises.
        unsafe { store_operations(oper, &ids, control_inputs, max_control_inputs) }
    })
}

/// Returns the number of operations that have this one as a control input.
///
/// # Safety
/// `oper` must be null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_OperationNumControlOutputs(oper: *mut TF_Operation) -> c_int {
    quiet(0, || {
        // SAFETY: as the caller promises.
        let oper = unsafe { get(oper, "oper")? };
        Ok(to_int(oper.graph().lock().control_outputs(oper.id).count()))
    })
}

/// Stores the first `max_control_outputs` operations that have this one as a control input and
/// returns how many there are.
///
/// # Safety
/// `oper` must be live, the array writable for so many elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_OperationGetControlOutputs(
    oper: *mut TF_Operation,
    control_outputs: *mut *mut TF_Operation,
    max_control_outputs: c_int,
) -> c_int {
    quiet(0, || {
        // SAFETY: as the caller promises.
        let oper = unsafe { get(oper, "oper")? };
        let ids: Vec<NodeId> = oper.graph().lock().control_outputs(oper.id).collect();
        // SAFETY: as the caller promises.
        unsafe { store_operations(oper, &ids, control_outputs, max_control_outputs) }
    })
}

/// Stores the operation as a serialised `NodeDef`.
///
/// # Safety
/// `oper`, the buffer and `status` must be live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_OperationToNodeDef(
    oper: *mut TF_Operation,
    output_node_def: *mut TF_Buffer,
    status: *mut TF_Status,
) {
    let body = || {
        // SAFETY: as the caller promises.
        let oper = unsafe { get(oper, "oper")? };
        let message = node_to_proto(&oper.graph().lock(), oper.id);
        // SAFETY: as the caller promises.
        unsafe { fill(output_node_def, &message) }
    };
    // SAFETY: as the caller promises.
    unsafe { guard(status, (), body) }
}

/// The error of the queries for an attr that the node lacks.
pub(crate) fn no_attr(oper: &TF_Operation, name: &str) -> tfcore_base::Error {
    invalid!("Operation '{}' has no attr named '{name}'.", oper.name)
}

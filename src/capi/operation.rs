//! Queries about operations.

use std::ffi::{c_char, c_int};
use std::ptr;
use std::sync::Arc;

use tfcore_base::{Result, invalid};
use tfcore_graph::{Node, NodeId, OutputRef, node_to_proto};

use super::graph::{TF_Input, TF_Operation, TF_Output};
use super::handle::{ArrayMut, CStrIn, Mut, Ref, Status, count, guard, quiet, to_int};
use super::tf_buffer::{TF_Buffer, fill};
use super::tf_datatype::TF_DataTypeNumber;

impl TF_Operation {
    /// The node as it is now.
    pub(crate) fn node(&self) -> Arc<Node> {
        self.graph().lock().node(self.id).clone()
    }
}

/// Returns the name, which lives as long as the graph.
#[unsafe(no_mangle)]
pub extern "C" fn TF_OperationName(oper: Ref<TF_Operation>) -> *const c_char {
    oper.opt().map_or(ptr::null(), |oper| oper.name.as_ptr())
}

/// Returns the name of the op, which lives as long as the graph.
#[unsafe(no_mangle)]
pub extern "C" fn TF_OperationOpType(oper: Ref<TF_Operation>) -> *const c_char {
    oper.opt().map_or(ptr::null(), |oper| oper.op.c_name.as_ptr())
}

/// Returns the requested device, empty for none; it lives as long as the graph.
#[unsafe(no_mangle)]
pub extern "C" fn TF_OperationDevice(oper: Ref<TF_Operation>) -> *const c_char {
    // The graph keeps all device names that were ever requested.
    oper.opt().map_or(ptr::null(), |oper| oper.node().device.as_ptr())
}

/// Returns the number of outputs.
#[unsafe(no_mangle)]
pub extern "C" fn TF_OperationNumOutputs(oper: Ref<TF_Operation>) -> c_int {
    oper.opt().map_or(0, |oper| to_int(oper.node().num_outputs()))
}

/// Returns the type of an output; 0 if there is no such output.
#[unsafe(no_mangle)]
pub extern "C" fn TF_OperationOutputType(oper_out: TF_Output) -> TF_DataTypeNumber {
    quiet(TF_DataTypeNumber::INVALID, || {
        let node = oper_out.oper.get("oper")?.node();
        let dtype = node.output_dtypes.get(count(oper_out.index, "index")?);
        Ok(dtype.map_or(TF_DataTypeNumber::INVALID, |&dtype| dtype.into()))
    })
}

/// Returns the number of tensors of the output argument `arg_name`; -1 on error.
#[unsafe(no_mangle)]
pub extern "C" fn TF_OperationOutputListLength(
    oper: Ref<TF_Operation>,
    arg_name: CStrIn,
    status: Status,
) -> c_int {
    guard(status, -1, || {
        let (oper, name) = (oper.get("oper")?, arg_name.get("arg_name")?);
        Ok(to_int(oper.op.output_range(&name, &oper.node().attrs)?.len()))
    })
}

/// Returns the number of data inputs.
#[unsafe(no_mangle)]
pub extern "C" fn TF_OperationNumInputs(oper: Ref<TF_Operation>) -> c_int {
    oper.opt().map_or(0, |oper| to_int(oper.node().inputs.len()))
}

/// Returns the type that an input expects; 0 if there is no such input.
#[unsafe(no_mangle)]
pub extern "C" fn TF_OperationInputType(oper_in: TF_Input) -> TF_DataTypeNumber {
    quiet(TF_DataTypeNumber::INVALID, || {
        let node = oper_in.oper.get("oper")?.node();
        let dtype = node.input_dtypes.get(count(oper_in.index, "index")?);
        Ok(dtype.map_or(TF_DataTypeNumber::INVALID, |&dtype| dtype.into()))
    })
}

/// Returns the number of tensors of the input argument `arg_name`; -1 on error.
#[unsafe(no_mangle)]
pub extern "C" fn TF_OperationInputListLength(
    oper: Ref<TF_Operation>,
    arg_name: CStrIn,
    status: Status,
) -> c_int {
    guard(status, -1, || {
        let (oper, name) = (oper.get("oper")?, arg_name.get("arg_name")?);
        Ok(to_int(oper.op.input_range(&name, &oper.node().attrs)?.len()))
    })
}

pub(crate) const NO_OUTPUT: TF_Output = TF_Output { oper: Ref::NULL, index: -1 };

/// Returns the output that feeds an input.
#[unsafe(no_mangle)]
pub extern "C" fn TF_OperationInput(oper_in: TF_Input) -> TF_Output {
    quiet(NO_OUTPUT, || {
        let oper = oper_in.oper.get("oper")?;
        let mut graph = oper.graph().lock();
        let edge = graph.node(oper.id).inputs.get(count(oper_in.index, "index")?).copied();
        Ok(edge.map_or(NO_OUTPUT, |edge| graph.output(edge.source)))
    })
}

/// Stores the outputs that feed the first `max_inputs` inputs.
#[unsafe(no_mangle)]
pub extern "C" fn TF_OperationAllInputs(
    oper: Ref<TF_Operation>,
    mut inputs: ArrayMut<TF_Output>,
    max_inputs: c_int,
) {
    quiet((), || {
        let oper = oper.get("oper")?;
        let mut graph = oper.graph().lock();
        let node = graph.node(oper.id).clone();
        let len = node.inputs.len().min(count(max_inputs, "max_inputs")?);
        let inputs = inputs.get(len, "inputs")?;
        for (out, edge) in inputs.iter_mut().zip(&node.inputs) {
            *out = graph.output(edge.source);
        }
        Ok(())
    });
}

/// The output in its own graph.
fn own_output(output: &TF_Output) -> Result<(&TF_Operation, OutputRef)> {
    let oper = output.oper.get("oper")?;
    Ok((oper, OutputRef::new(oper.id, count(output.index, "index")?)))
}

/// Returns the number of inputs that read an output.
#[unsafe(no_mangle)]
pub extern "C" fn TF_OperationOutputNumConsumers(oper_out: TF_Output) -> c_int {
    quiet(0, || {
        let (oper, output) = own_output(&oper_out)?;
        Ok(to_int(oper.graph().lock().consumers(output).count()))
    })
}

/// Stores the first `max_consumers` inputs that read an output and returns how many there are.
#[unsafe(no_mangle)]
pub extern "C" fn TF_OperationOutputConsumers(
    oper_out: TF_Output,
    mut consumers: ArrayMut<TF_Input>,
    max_consumers: c_int,
) -> c_int {
    quiet(0, || {
        let (oper, output) = own_output(&oper_out)?;
        let mut graph = oper.graph().lock();
        let all: Vec<(NodeId, usize)> = graph.consumers(output).collect();
        let len = all.len().min(count(max_consumers, "max_consumers")?);
        let consumers = consumers.get(len, "consumers")?;
        for (out, (id, input)) in consumers.iter_mut().zip(&all) {
            *out = TF_Input { oper: graph.oper(*id), index: to_int(*input) };
        }
        Ok(to_int(all.len()))
    })
}

/// Returns the number of control inputs.
#[unsafe(no_mangle)]
pub extern "C" fn TF_OperationNumControlInputs(oper: Ref<TF_Operation>) -> c_int {
    oper.opt().map_or(0, |oper| to_int(oper.node().control_inputs.len()))
}

/// Stores the first `max` operations of `ids` and returns how many there are.
fn store_operations(
    oper: &TF_Operation,
    ids: &[NodeId],
    mut out: ArrayMut<*mut TF_Operation>,
    max: c_int,
) -> Result<c_int> {
    let len = ids.len().min(count(max, "max")?);
    let out = out.get(len, "operations")?;
    let mut graph = oper.graph().lock();
    for (out, &id) in out.iter_mut().zip(ids) {
        *out = graph.handle(id);
    }
    Ok(to_int(ids.len()))
}

/// Stores the first `max_control_inputs` control inputs and returns how many there are.
#[unsafe(no_mangle)]
pub extern "C" fn TF_OperationGetControlInputs(
    oper: Ref<TF_Operation>,
    control_inputs: ArrayMut<*mut TF_Operation>,
    max_control_inputs: c_int,
) -> c_int {
    quiet(0, || {
        let oper = oper.get("oper")?;
        let ids = oper.node().control_inputs.clone();
        store_operations(oper, &ids, control_inputs, max_control_inputs)
    })
}

/// Returns the number of operations that have this one as a control input.
#[unsafe(no_mangle)]
pub extern "C" fn TF_OperationNumControlOutputs(oper: Ref<TF_Operation>) -> c_int {
    quiet(0, || {
        let oper = oper.get("oper")?;
        Ok(to_int(oper.graph().lock().control_outputs(oper.id).count()))
    })
}

/// Stores the first `max_control_outputs` operations that have this one as a control input and
/// returns how many there are.
#[unsafe(no_mangle)]
pub extern "C" fn TF_OperationGetControlOutputs(
    oper: Ref<TF_Operation>,
    control_outputs: ArrayMut<*mut TF_Operation>,
    max_control_outputs: c_int,
) -> c_int {
    quiet(0, || {
        let oper = oper.get("oper")?;
        let ids: Vec<NodeId> = oper.graph().lock().control_outputs(oper.id).collect();
        store_operations(oper, &ids, control_outputs, max_control_outputs)
    })
}

/// Stores the operation as a serialised `NodeDef`.
#[unsafe(no_mangle)]
pub extern "C" fn TF_OperationToNodeDef(
    oper: Ref<TF_Operation>,
    output_node_def: Mut<TF_Buffer>,
    status: Status,
) {
    guard(status, (), || {
        let oper = oper.get("oper")?;
        let message = node_to_proto(&oper.graph().lock(), oper.id);
        fill(output_node_def, &message)
    })
}

/// The error of the queries for an attr that the node lacks.
pub(crate) fn no_attr(oper: &TF_Operation, name: &str) -> tfcore_base::Error {
    invalid!("Operation '{}' has no attr named '{name}'.", oper.name)
}

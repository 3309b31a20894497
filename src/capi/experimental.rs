//! `c_api_experimental.h`, as far as it is about graphs, functions and ops: text, questions about ops, ready-made
//! options.

use std::collections::HashSet;
use std::ffi::{c_char, c_int};
use std::ptr;
use std::sync::LazyLock;

use parking_lot::Mutex;
use tfcore_base::{internal, invalid, not_found};
use tfcore_framework::{ArgKind, AttrValue, Attrs};
use tfcore_graph::{Graph, Name};
use tfcore_proto as proto;

use super::function::TF_Function;
use super::graph::TF_Graph;
use super::handle::{Array, Boxed, CStrIn, Mut, Out, Owned, Ref, Status, count, guard, quiet};
use super::import::{TF_ImportGraphDefOptions, change};
use super::tf_buffer::{self, TF_Buffer};
use super::tf_datatype::TF_DataTypeNumber;
use crate::ops;

/// The attrs of an op that is no operation of any graph.
pub struct TF_AttrBuilder {
    op: String,
    attrs: Attrs,
}

impl Boxed for TF_AttrBuilder {}

/// Returns a serialised `ConfigProto` for the caller to delete: whether to compile with XLA, which this library does
/// not do, whether a GPU's memory is taken as needed, and the number of CPU devices.
#[unsafe(no_mangle)]
pub extern "C" fn TF_CreateConfig(
    enable_xla_compilation: u8,
    gpu_memory_allow_growth: u8,
    num_cpu_devices: u32,
) -> *mut TF_Buffer {
    quiet(ptr::null_mut(), || {
        // The levels `ON_1` and `OFF`.
        let global_jit_level = if enable_xla_compilation != 0 { 1 } else { -1 };
        let message = proto::ConfigProto {
            device_count: [("CPU".to_string(), num_cpu_devices as i32)].into(),
            inter_op_parallelism_threads: 1,
            gpu_options: Some(proto::GPUOptions {
                allow_growth: gpu_memory_allow_growth != 0,
                ..Default::default()
            }),
            graph_options: Some(proto::GraphOptions {
                optimizer_options: Some(proto::OptimizerOptions {
                    global_jit_level,
                    ..Default::default()
                }),
                ..Default::default()
            }),
            ..Default::default()
        };
        Ok(tf_buffer::new(&message))
    })
}

/// Returns a serialised `RunOptions` for the caller to delete, with or without a full trace.
#[unsafe(no_mangle)]
pub extern "C" fn TF_CreateRunOptions(enable_full_trace: u8) -> *mut TF_Buffer {
    quiet(ptr::null_mut(), || {
        let trace_level = match enable_full_trace {
            0 => proto::RunOptions::NO_TRACE,
            _ => proto::RunOptions::FULL_TRACE,
        };
        Ok(tf_buffer::new(&proto::RunOptions { trace_level, ..Default::default() }))
    })
}

/// Returns the graph as text and stores its length. The caller frees the text with `free`.
#[unsafe(no_mangle)]
pub extern "C" fn TF_GraphDebugString(graph: Ref<TF_Graph>, mut len: Out<usize>) -> *const c_char {
    quiet(ptr::null(), || {
        let text = proto::text::encode(&graph.get("graph")?.shared.lock().to_proto());
        len.put(text.len(), "len")?;
        Ok(tf_buffer::malloc_text(&text))
    })
}

/// Returns the function as text for people and stores its length in `len`. The caller frees it with
/// `free`.
#[unsafe(no_mangle)]
pub extern "C" fn TF_FunctionDebugString(
    func: Ref<TF_Function>,
    mut len: Out<usize>,
) -> *mut c_char {
    quiet(ptr::null_mut(), || {
        let text = func.get("func")?.function.to_string();
        len.put(text.len(), "len")?;
        Ok(tf_buffer::malloc_text(&text).cast_mut())
    })
}

/// Takes a function out of the graph's library. Operations that call it stay.
///
/// # Errors
/// `TF_INVALID_ARGUMENT` if there is no function of this name.
#[unsafe(no_mangle)]
pub extern "C" fn TF_GraphRemoveFunction(g: Ref<TF_Graph>, func_name: CStrIn, status: Status) {
    guard(status, (), || {
        let (graph, name) = (g.get("g")?, func_name.get("func_name")?);
        graph.shared.lock().library_mut().remove(&name)
    })
}

/// Whether operations may be colocated only with operations of the same `GraphDef`, which is so by default.
#[unsafe(no_mangle)]
pub extern "C" fn TF_ImportGraphDefOptionsSetValidateColocationConstraints(
    opts: Mut<TF_ImportGraphDefOptions>,
    enable: u8,
) {
    change(opts, |opts| {
        opts.options.validate_colocation = enable != 0;
        Ok(())
    });
}

/// Sets the status to `TF_INTERNAL` with this message.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub extern "C" fn TF_MakeInternalErrorStatus(status: Status, errMsg: CStrIn) {
    guard(status, (), || Err(internal!("{}", errMsg.get("errMsg")?)))
}

/// Returns the attrs of an op, none set yet.
#[unsafe(no_mangle)]
pub extern "C" fn TF_NewAttrBuilder(op_name: CStrIn) -> *mut TF_AttrBuilder {
    quiet(ptr::null_mut(), || {
        let op = op_name.get("op_name")?.into_owned();
        Ok(TF_AttrBuilder { op, attrs: Attrs::new() }.hand_out())
    })
}

/// Deletes a builder; null is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn TF_DeleteAttrBuilder(builder: Owned<TF_AttrBuilder>) {
    drop(builder);
}

/// Sets a type attr.
#[unsafe(no_mangle)]
pub extern "C" fn TF_AttrBuilderSetType(
    mut builder: Mut<TF_AttrBuilder>,
    attr_name: CStrIn,
    value: TF_DataTypeNumber,
) {
    quiet((), || {
        let (builder, name) = (builder.get("builder")?, attr_name.get("attr_name")?);
        builder.attrs.set(&*name, AttrValue::Type(value.dtype()?));
        Ok(())
    });
}

/// Sets an attr that is a list of types.
#[unsafe(no_mangle)]
pub extern "C" fn TF_AttrBuilderSetTypeList(
    mut builder: Mut<TF_AttrBuilder>,
    attr_name: CStrIn,
    values: Array<TF_DataTypeNumber>,
    num_values: c_int,
) {
    quiet((), || {
        let values = values.get(count(num_values, "num_values")?, "values")?;
        let (builder, name) = (builder.get("builder")?, attr_name.get("attr_name")?);
        let dtypes: tfcore_base::Result<Vec<_>> =
            values.iter().map(|value| value.dtype()).collect();
        builder.attrs.set(&*name, AttrValue::types(dtypes?));
        Ok(())
    });
}

/// Checks that a device type, such as "CPU", has a kernel for the op with these attrs.
///
/// Reports `TF_NOT_FOUND` if it has none, `TF_INVALID_ARGUMENT` if an attr is missing that tells.
#[unsafe(no_mangle)]
pub extern "C" fn TF_AttrBuilderCheckCanRunOnDevice(
    builder: Ref<TF_AttrBuilder>,
    device_type: CStrIn,
    status: Status,
) {
    guard(status, (), || {
        let (builder, device) = (builder.get("builder")?, device_type.get("device_type")?);
        ops::registry().check_kernel(&device, &builder.op, &builder.attrs)
    })
}

/// Returns the name of the attr that counts the tensors of an input which is a list of one type, such as "N" of AddN. It
/// lives for ever. Null if there is none: `TF_NOT_FOUND`, or `TF_INVALID_ARGUMENT` if the op has no such input.
#[unsafe(no_mangle)]
pub extern "C" fn TF_GetNumberAttrForOpListInput(
    op_name: CStrIn,
    input_index: c_int,
    status: Status,
) -> *const c_char {
    guard(status, ptr::null(), || {
        let name = op_name.get("op_name")?;
        let op = ops::registry().def(&name);
        let op = op.ok_or_else(|| not_found!("{}", Graph::unknown_op(&name)))?;
        let input = usize::try_from(input_index).ok().and_then(|index| op.inputs.get(index));
        let input = input.ok_or_else(|| invalid!("{input_index} out of range for {name}"))?;
        match &input.kind {
            ArgKind::FixedTimes(_, number) | ArgKind::AttrTimes { number, .. } => {
                Ok(lasting(number))
            }
            _ => Err(not_found!("{name} does not have number_attr() defined.")),
        }
    })
}

/// The address of a copy of `text` that is never freed; there is one copy of each.
fn lasting(text: &str) -> *const c_char {
    static COPIES: LazyLock<Mutex<HashSet<Name>>> = LazyLock::new(Mutex::default);
    let mut copies = COPIES.lock();
    if let Some(copy) = copies.get(text) {
        return copy.as_ptr();
    }
    let copy = Name::new(text);
    let address = copy.as_ptr();
    copies.insert(copy);
    address
}

/// Returns 1 if the op has state or side effects, else 0. Reports `TF_NOT_FOUND` for an op that nobody knows.
#[unsafe(no_mangle)]
pub extern "C" fn TF_OpIsStateful(op_type: CStrIn, status: Status) -> c_int {
    guard(status, 0, || {
        let name = op_type.get("op_type")?;
        let op = ops::registry().def(&name);
        Ok(op.ok_or_else(|| not_found!("{}", Graph::unknown_op(&name)))?.is_stateful.into())
    })
}

//! Functions of graphs.

use std::ffi::{c_char, c_int, c_uchar, c_void};
use std::ptr;
use std::sync::Arc;

use tfcore_base::{Result, invalid};
use tfcore_graph::{Function, FunctionRequest, NodeId, OutputRef};
use tfcore_proto as proto;

use super::graph::{SharedGraph, TF_Graph, TF_Operation, TF_Output, node_in};
use super::handle::{count, get, get_mut, guard, quiet, slice, slice_mut, text, to_int};
use super::tf_buffer::{TF_Buffer, fill};
use super::tf_status::TF_Status;

/// A function, apart from any graph.
pub struct TF_Function {
    pub(crate) function: Arc<Function>,
}

/// How a function is made; there is nothing to choose.
pub struct TF_FunctionOptions {
    _private: [u8; 0],
}

impl TF_Function {
    fn hand_out(function: Arc<Function>) -> *mut TF_Function {
        Box::into_raw(Box::new(TF_Function { function }))
    }
}

/// Makes a function of a part of the graph. Returns null on an error.
///
/// - `num_opers` is the number of operations in `opers`, which are the body; -1 stands for all operations
///   but those of the inputs.
/// - The arguments are named after the operations of `inputs`, and so are the outputs if `output_names` is
///   null. An output that is also an input is passed through.
/// - With `append_hash_to_fn_name` the name ends with a hash of the definition.
/// - `opts` is not looked at, `description` may be null.
///
/// # Safety
/// `fn_body` and all operations must be live, the arrays as long as their counts say, the strings
/// NUL-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_GraphToFunction(
    fn_body: *const TF_Graph,
    fn_name: *const c_char,
    append_hash_to_fn_name: c_uchar,
    num_opers: c_int,
    opers: *const *const TF_Operation,
    ninputs: c_int,
    inputs: *const TF_Output,
    noutputs: c_int,
    outputs: *const TF_Output,
    output_names: *const *const c_char,
    opts: *const TF_FunctionOptions,
    description: *const c_char,
    status: *mut TF_Status,
) -> *mut TF_Function {
    // SAFETY: as the caller promises; there are no control outputs.
    unsafe {
        TF_GraphToFunctionWithControlOutputs(
            fn_body,
            fn_name,
            append_hash_to_fn_name,
            num_opers,
            opers,
            ninputs,
            inputs,
            noutputs,
            outputs,
            output_names,
            0,
            ptr::null(),
            ptr::null(),
            opts,
            description,
            status,
        )
    }
}

/// As `TF_GraphToFunction`, with operations of the body that run with every call of the function.
/// `control_output_names` may be null; then they keep their names.
///
/// # Safety
/// As for `TF_GraphToFunction`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_GraphToFunctionWithControlOutputs(
    fn_body: *const TF_Graph,
    fn_name: *const c_char,
    append_hash_to_fn_name: c_uchar,
    num_opers: c_int,
    opers: *const *const TF_Operation,
    ninputs: c_int,
    inputs: *const TF_Output,
    noutputs: c_int,
    outputs: *const TF_Output,
    output_names: *const *const c_char,
    ncontrol_outputs: c_int,
    control_outputs: *const *const TF_Operation,
    control_output_names: *const *const c_char,
    _opts: *const TF_FunctionOptions,
    description: *const c_char,
    status: *mut TF_Status,
) -> *mut TF_Function {
    let body = || {
        // SAFETY: as the caller promises.
        let graph = unsafe { get(fn_body, "fn_body")? };
        let shared = &*graph.shared;
        // SAFETY: as the caller promises.
        let request = unsafe {
            FunctionRequest {
                name: text(fn_name, "fn_name")?.into_owned(),
                append_hash: append_hash_to_fn_name != 0,
                body: match num_opers {
                    -1 => None,
                    _ => Some(node_list(shared, opers, num_opers, "opers")?),
                },
                inputs: output_list(shared, inputs, ninputs, "inputs")?,
                outputs: output_list(shared, outputs, noutputs, "outputs")?,
                output_names: texts(output_names, noutputs, "output_names")?,
                control_outputs: node_list(
                    shared,
                    control_outputs,
                    ncontrol_outputs,
                    "control_outputs",
                )?,
                control_output_names: texts(
                    control_output_names,
                    ncontrol_outputs,
                    "control_output_names",
                )?,
                description: match description.is_null() {
                    true => None,
                    false => Some(text(description, "description")?.into_owned()),
                },
            }
        };
        let function = shared.lock().to_function(&request)?;
        Ok(TF_Function::hand_out(Arc::new(function)))
    };
    // SAFETY: as the caller promises.
    unsafe { guard(status, ptr::null_mut(), body) }
}

/// # Safety
/// `opers` must be readable for `len` elements, all of them null or live.
unsafe fn node_list(
    graph: &SharedGraph,
    opers: *const *const TF_Operation,
    len: c_int,
    name: &str,
) -> Result<Vec<NodeId>> {
    // SAFETY: as the caller promises.
    let opers = unsafe { slice(opers, count(len, name)?, name)? };
    // SAFETY: as the caller promises.
    opers.iter().map(|oper| Ok(unsafe { node_in(oper.cast_mut(), graph)? }.id)).collect()
}

/// # Safety
/// `outputs` must be readable for `len` elements, whose operations are null or live.
pub(super) unsafe fn output_list(
    graph: &SharedGraph,
    outputs: *const TF_Output,
    len: c_int,
    name: &str,
) -> Result<Vec<OutputRef>> {
    // SAFETY: as the caller promises.
    let outputs = unsafe { slice(outputs, count(len, name)?, name)? };
    // SAFETY: as the caller promises.
    outputs.iter().map(|output| unsafe { output.in_graph(graph) }).collect()
}

/// The strings of an array; `None` if the array is null.
///
/// # Safety
/// `strings` must be null or point at `len` NUL-terminated strings.
unsafe fn texts(
    strings: *const *const c_char,
    len: c_int,
    name: &str,
) -> Result<Option<Vec<String>>> {
    if strings.is_null() {
        return Ok(None);
    }
    // SAFETY: as the caller promises.
    let strings = unsafe { slice(strings, count(len, name)?, name)? };
    // SAFETY: as the caller promises.
    let texts = strings.iter().map(|&string| Ok(unsafe { text(string, name)? }.into_owned()));
    Ok(Some(texts.collect::<Result<_>>()?))
}

/// Returns the name of a function, which lives until the function is changed or deleted.
///
/// # Safety
/// `func` must be live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_FunctionName(func: *mut TF_Function) -> *const c_char {
    quiet(ptr::null(), || {
        // SAFETY: as the caller promises.
        Ok(unsafe { get(func, "func")? }.function.op().c_name.as_ptr())
    })
}

/// Stores the function as a serialised `FunctionDef`.
///
/// # Safety
/// `func`, the buffer and `status` must be live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_FunctionToFunctionDef(
    func: *mut TF_Function,
    output_func_def: *mut TF_Buffer,
    status: *mut TF_Status,
) {
    // SAFETY: as the caller promises.
    let body = || unsafe { fill(output_func_def, get(func, "func")?.function.def()) };
    // SAFETY: as the caller promises.
    unsafe { guard(status, (), body) }
}

/// Returns the function of a serialised `FunctionDef`, or null on an error. Its body is not looked at.
///
/// # Safety
/// `proto` must be readable for `proto_len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_FunctionImportFunctionDef(
    proto: *const c_void,
    proto_len: usize,
    status: *mut TF_Status,
) -> *mut TF_Function {
    let body = || {
        // SAFETY: as the caller promises.
        let bytes = unsafe { slice(proto.cast(), proto_len, "proto")? };
        let def = proto::decode(bytes)
            .map_err(|_| invalid!("Invalid FunctionDef given to TF_FunctionImportFunctionDef"))?;
        Ok(TF_Function::hand_out(Arc::new(Function::new(def)?)))
    };
    // SAFETY: as the caller promises.
    unsafe { guard(status, ptr::null_mut(), body) }
}

/// Sets or replaces an attribute of the function: a serialised `AttrValue`. Copies of the function in graphs
/// stay as they are.
///
/// # Safety
/// `func` must be live and used by nobody else, `attr_name` NUL-terminated, `proto` readable for
/// `proto_len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_FunctionSetAttrValueProto(
    func: *mut TF_Function,
    attr_name: *const c_char,
    proto: *const c_void,
    proto_len: usize,
    status: *mut TF_Status,
) {
    let body = || {
        // SAFETY: as the caller promises.
        let (func, name, bytes) = unsafe {
            (
                get_mut(func, "func")?,
                text(attr_name, "attr_name")?,
                slice(proto.cast(), proto_len, "proto")?,
            )
        };
        let value = proto::decode(bytes).map_err(|_| {
            invalid!("Unparseable AttrValue proto passed to TF_FunctionSetAttrValueProto")
        })?;
        func.function = Arc::new(func.function.with_attr(&name, value));
        Ok(())
    };
    // SAFETY: as the caller promises.
    unsafe { guard(status, (), body) }
}

/// Stores an attribute of the function as a serialised `AttrValue`.
///
/// # Safety
/// `func`, the buffer and `status` must be live, `attr_name` NUL-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_FunctionGetAttrValueProto(
    func: *mut TF_Function,
    attr_name: *const c_char,
    output_attr_value: *mut TF_Buffer,
    status: *mut TF_Status,
) {
    let body = || {
        // SAFETY: as the caller promises.
        let (func, name) = unsafe { (get(func, "func")?, text(attr_name, "attr_name")?) };
        let function = &func.function;
        let value = function.def().attr.get(&*name).ok_or_else(|| {
            invalid!("Function '{}' has no attr named '{name}'.", function.name())
        })?;
        // SAFETY: as the caller promises.
        unsafe { fill(output_attr_value, value) }
    };
    // SAFETY: as the caller promises.
    unsafe { guard(status, (), body) }
}

/// Deletes a function, but not the copies that graphs have; null is allowed.
///
/// # Safety
/// `func` must be null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_DeleteFunction(func: *mut TF_Function) {
    if !func.is_null() {
        // SAFETY: the caller hands the function over.
        drop(unsafe { Box::from_raw(func) });
    }
}

/// Puts a function, and if `grad` is not null its gradient, into a graph. Operations of the graph can then
/// have its name as their type. The same function again changes nothing, a different one of the same
/// name is an error; then the graph is as before.
///
/// # Safety
/// `g` and the functions must be live; `grad` may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_GraphCopyFunction(
    g: *mut TF_Graph,
    func: *const TF_Function,
    grad: *const TF_Function,
    status: *mut TF_Status,
) {
    let body = || {
        if func.is_null() {
            return Err(invalid!("'func' argument to TF_GraphCopyFunction cannot be null"));
        }
        // SAFETY: as the caller promises.
        let (graph, func) = unsafe { (get(g, "g")?, get(func, "func")?) };
        // SAFETY: as the caller promises.
        let grad = unsafe { grad.as_ref() }.map(|grad| &grad.function);
        graph.shared.lock().add_function(&func.function, grad)
    };
    // SAFETY: as the caller promises.
    unsafe { guard(status, (), body) }
}

/// Returns the number of functions in the graph's library.
///
/// # Safety
/// `g` must be live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_GraphNumFunctions(g: *mut TF_Graph) -> c_int {
    quiet(0, || {
        // SAFETY: as the caller promises.
        Ok(to_int(unsafe { get(g, "g")? }.shared.lock().library().len()))
    })
}

/// Stores functions of the graph in `funcs`, at most `max_func`, and returns how many. The caller deletes
/// each.
///
/// # Safety
/// `g` must be live, `funcs` writable for `max_func` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_GraphGetFunctions(
    g: *mut TF_Graph,
    funcs: *mut *mut TF_Function,
    max_func: c_int,
    status: *mut TF_Status,
) -> c_int {
    let body = || {
        // SAFETY: as the caller promises.
        let library = unsafe { get(g, "g")? }.shared.lock().library().clone();
        let len = library.len().min(count(max_func, "max_func")?);
        // SAFETY: as the caller promises.
        let funcs = unsafe { slice_mut(funcs, len, "funcs")? };
        for (slot, function) in funcs.iter_mut().zip(library.functions()) {
            *slot = TF_Function::hand_out(function.clone());
        }
        Ok(to_int(len))
    };
    // SAFETY: as the caller promises.
    unsafe { guard(status, 0, body) }
}

//! Functions of graphs.

use std::borrow::Cow;
use std::ffi::{c_char, c_int, c_uchar};
use std::ptr;
use std::sync::Arc;

use tfcore_base::{Result, invalid};
use tfcore_graph::{Function, FunctionRequest, NodeId, OutputRef};
use tfcore_proto as proto;

use super::graph::{SharedGraph, TF_Graph, TF_Operation, TF_Output, node_in};
use super::handle::{
    Array, ArrayMut, Boxed, Bytes, CStrIn, In, Mut, Owned, Ref, Status, count, guard, quiet, to_int,
};
use super::tf_buffer::{TF_Buffer, fill};

/// A function, apart from any graph.
pub struct TF_Function {
    pub(crate) function: Arc<Function>,
}

/// How a function is made; there is nothing to choose.
pub struct TF_FunctionOptions {
    _private: [u8; 0],
}

impl Boxed for TF_Function {}

/// Makes a function of a part of the graph. Returns null on an error.
///
/// - `num_opers` is the number of operations in `opers`, which are the body; -1 stands for all operations
///   but those of the inputs.
/// - The arguments are named after the operations of `inputs`, and so are the outputs if `output_names` is
///   null. An output that is also an input is passed through.
/// - With `append_hash_to_fn_name` the name ends with a hash of the definition.
/// - `opts` is not looked at, `description` may be null.
#[unsafe(no_mangle)]
pub extern "C" fn TF_GraphToFunction(
    fn_body: In<TF_Graph>,
    fn_name: CStrIn,
    append_hash_to_fn_name: c_uchar,
    num_opers: c_int,
    opers: Array<In<TF_Operation>>,
    ninputs: c_int,
    inputs: Array<TF_Output>,
    noutputs: c_int,
    outputs: Array<TF_Output>,
    output_names: Array<CStrIn>,
    opts: In<TF_FunctionOptions>,
    description: CStrIn,
    status: Status,
) -> *mut TF_Function {
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
        Array::NULL,
        Array::NULL,
        opts,
        description,
        status,
    )
}

/// As `TF_GraphToFunction`, with operations of the body that run with every call of the function.
/// `control_output_names` may be null; then they keep their names.
#[unsafe(no_mangle)]
pub extern "C" fn TF_GraphToFunctionWithControlOutputs(
    fn_body: In<TF_Graph>,
    fn_name: CStrIn,
    append_hash_to_fn_name: c_uchar,
    num_opers: c_int,
    opers: Array<In<TF_Operation>>,
    ninputs: c_int,
    inputs: Array<TF_Output>,
    noutputs: c_int,
    outputs: Array<TF_Output>,
    output_names: Array<CStrIn>,
    ncontrol_outputs: c_int,
    control_outputs: Array<In<TF_Operation>>,
    control_output_names: Array<CStrIn>,
    _opts: In<TF_FunctionOptions>,
    description: CStrIn,
    status: Status,
) -> *mut TF_Function {
    guard(status, ptr::null_mut(), || {
        let graph = fn_body.get("fn_body")?;
        let shared = &*graph.shared;
        let request = FunctionRequest {
            name: fn_name.get("fn_name")?.into_owned(),
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
            description: description.opt().map(Cow::into_owned),
        };
        let function = shared.lock().to_function(&request)?;
        Ok(TF_Function { function: Arc::new(function) }.hand_out())
    })
}

fn node_list(
    graph: &SharedGraph,
    opers: Array<In<TF_Operation>>,
    len: c_int,
    name: &str,
) -> Result<Vec<NodeId>> {
    let opers = opers.get(count(len, name)?, name)?;
    opers.iter().map(|oper| Ok(node_in(oper.get("oper")?, graph)?.id)).collect()
}

pub(super) fn output_list(
    graph: &SharedGraph,
    outputs: Array<TF_Output>,
    len: c_int,
    name: &str,
) -> Result<Vec<OutputRef>> {
    let outputs = outputs.get(count(len, name)?, name)?;
    outputs.iter().map(|output| output.in_graph(graph)).collect()
}

/// The strings of an array; `None` if the array is null.
fn texts(strings: Array<CStrIn>, len: c_int, name: &str) -> Result<Option<Vec<String>>> {
    if strings.is_null() {
        return Ok(None);
    }
    let strings = strings.get(count(len, name)?, name)?;
    let texts = strings.iter().map(|string| Ok(string.get(name)?.into_owned()));
    Ok(Some(texts.collect::<Result<_>>()?))
}

/// Returns the name of a function, which lives until the function is changed or deleted.
#[unsafe(no_mangle)]
pub extern "C" fn TF_FunctionName(func: Ref<TF_Function>) -> *const c_char {
    quiet(ptr::null(), || Ok(func.get("func")?.function.op().c_name.as_ptr()))
}

/// Stores the function as a serialised `FunctionDef`.
#[unsafe(no_mangle)]
pub extern "C" fn TF_FunctionToFunctionDef(
    func: Ref<TF_Function>,
    output_func_def: Mut<TF_Buffer>,
    status: Status,
) {
    guard(status, (), || fill(output_func_def, func.get("func")?.function.def()))
}

/// Returns the function of a serialised `FunctionDef`, or null on an error. Its body is not looked at.
#[unsafe(no_mangle)]
pub extern "C" fn TF_FunctionImportFunctionDef(
    proto: Bytes,
    proto_len: usize,
    status: Status,
) -> *mut TF_Function {
    guard(status, ptr::null_mut(), || {
        let bytes = proto.get(proto_len, "proto")?;
        let def = proto::decode(bytes)
            .map_err(|_| invalid!("Invalid FunctionDef given to TF_FunctionImportFunctionDef"))?;
        Ok(TF_Function { function: Arc::new(Function::new(def)?) }.hand_out())
    })
}

/// Sets or replaces an attribute of the function: a serialised `AttrValue`. Copies of the function in graphs
/// stay as they are.
#[unsafe(no_mangle)]
pub extern "C" fn TF_FunctionSetAttrValueProto(
    mut func: Mut<TF_Function>,
    attr_name: CStrIn,
    proto: Bytes,
    proto_len: usize,
    status: Status,
) {
    guard(status, (), || {
        let (func, name, bytes) =
            (func.get("func")?, attr_name.get("attr_name")?, proto.get(proto_len, "proto")?);
        let value = proto::decode(bytes).map_err(|_| {
            invalid!("Unparseable AttrValue proto passed to TF_FunctionSetAttrValueProto")
        })?;
        func.function = Arc::new(func.function.with_attr(&name, value));
        Ok(())
    })
}

/// Stores an attribute of the function as a serialised `AttrValue`.
#[unsafe(no_mangle)]
pub extern "C" fn TF_FunctionGetAttrValueProto(
    func: Ref<TF_Function>,
    attr_name: CStrIn,
    output_attr_value: Mut<TF_Buffer>,
    status: Status,
) {
    guard(status, (), || {
        let (func, name) = (func.get("func")?, attr_name.get("attr_name")?);
        let function = &func.function;
        let value = function.def().attr.get(&*name).ok_or_else(|| {
            invalid!("Function '{}' has no attr named '{name}'.", function.name())
        })?;
        fill(output_attr_value, value)
    })
}

/// Deletes a function, but not the copies that graphs have; null is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn TF_DeleteFunction(func: Owned<TF_Function>) {
    drop(func);
}

/// Puts a function, and if `grad` is not null its gradient, into a graph. Operations of the graph can then
/// have its name as their type. The same function again changes nothing, a different one of the same
/// name is an error; then the graph is as before.
#[unsafe(no_mangle)]
pub extern "C" fn TF_GraphCopyFunction(
    g: Ref<TF_Graph>,
    func: In<TF_Function>,
    grad: In<TF_Function>,
    status: Status,
) {
    guard(status, (), || {
        let func = func
            .opt()
            .ok_or_else(|| invalid!("'func' argument to TF_GraphCopyFunction cannot be null"))?;
        let graph = g.get("g")?;
        let grad = grad.opt().map(|grad| &grad.function);
        graph.shared.lock().add_function(&func.function, grad)
    })
}

/// Returns the number of functions in the graph's library.
#[unsafe(no_mangle)]
pub extern "C" fn TF_GraphNumFunctions(g: Ref<TF_Graph>) -> c_int {
    quiet(0, || Ok(to_int(g.get("g")?.shared.lock().library().len())))
}

/// Stores functions of the graph in `funcs`, at most `max_func`, and returns how many. The caller deletes
/// each.
#[unsafe(no_mangle)]
pub extern "C" fn TF_GraphGetFunctions(
    g: Ref<TF_Graph>,
    mut funcs: ArrayMut<*mut TF_Function>,
    max_func: c_int,
    status: Status,
) -> c_int {
    guard(status, 0, || {
        let library = g.get("g")?.shared.lock().library().clone();
        let len = library.len().min(count(max_func, "max_func")?);
        let funcs = funcs.get(len, "funcs")?;
        for (slot, function) in funcs.iter_mut().zip(library.functions()) {
            *slot = TF_Function { function: function.clone() }.hand_out();
        }
        Ok(to_int(len))
    })
}

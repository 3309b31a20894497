//! GraphDef import.

use std::ffi::{CString, c_char, c_int};
use std::ptr;

use tfcore_base::{Result, invalid, unimplemented_error};
use tfcore_graph::{ImportOptions, ImportResults, OutputRef, ParsedGraphDef, TensorRef};

use super::graph::{SharedGraph, TF_Graph, TF_Operation, TF_Output, node_in};
use super::handle::{count, get, get_mut, guard, quiet, slice_mut, text, to_int};
use super::tf_buffer::{TF_Buffer, bytes};
use super::tf_status::TF_Status;
use crate::ops;

/// How a GraphDef is brought into a graph.
#[derive(Default)]
pub struct TF_ImportGraphDefOptions {
    pub(crate) options: ImportOptions,
    /// Operations of the graph, which is known only when the import begins.
    input_map: Vec<(TensorRef, TF_Output)>,
    control_map: Vec<(TensorRef, *mut TF_Operation)>,
    control_dependencies: Vec<*mut TF_Operation>,
}

/// What an import hands back. The arrays live as long as this.
pub struct TF_ImportGraphDefResults {
    outputs: Vec<TF_Output>,
    operations: Vec<*mut TF_Operation>,
    /// Owns the strings that `missing_names` points at.
    _names: Vec<CString>,
    missing_names: Vec<*const c_char>,
    missing_indexes: Vec<c_int>,
}

impl TF_ImportGraphDefOptions {
    /// The options for an import into `graph`.
    ///
    /// # Safety
    /// The operations must be live.
    unsafe fn resolve(&self, graph: &SharedGraph) -> Result<ImportOptions> {
        let mut options = self.options.clone();
        for (from, to) in &self.input_map {
            // SAFETY: as the caller promises.
            options.input_map.push((from.clone(), unsafe { to.in_graph(graph)? }));
        }
        for (from, to) in &self.control_map {
            // SAFETY: as the caller promises.
            let node = unsafe { node_in(*to, graph)? }.id;
            options.input_map.push((from.clone(), OutputRef::control(node)));
        }
        for &oper in &self.control_dependencies {
            // SAFETY: as the caller promises.
            options.control_dependencies.push(unsafe { node_in(oper, graph)? }.id);
        }
        Ok(options)
    }
}

/// Returns options without any effect.
#[unsafe(no_mangle)]
pub extern "C" fn TF_NewImportGraphDefOptions() -> *mut TF_ImportGraphDefOptions {
    Box::into_raw(Box::default())
}

/// Deletes options; null is allowed.
///
/// # Safety
/// `opts` must be null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_DeleteImportGraphDefOptions(opts: *mut TF_ImportGraphDefOptions) {
    if !opts.is_null() {
        // SAFETY: the caller hands the options over.
        drop(unsafe { Box::from_raw(opts) });
    }
}

/// Changes options.
///
/// # Safety
/// `opts` must be null or live.
pub(crate) unsafe fn change(
    opts: *mut TF_ImportGraphDefOptions,
    body: impl FnOnce(&mut TF_ImportGraphDefOptions) -> Result<()>,
) {
    quiet((), || {
        // SAFETY: as the caller promises.
        body(unsafe { get_mut(opts, "opts")? })
    });
}

/// Puts `prefix` and a slash before every imported name.
///
/// # Safety
/// `opts` must be live, `prefix` a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_ImportGraphDefOptionsSetPrefix(
    opts: *mut TF_ImportGraphDefOptions,
    prefix: *const c_char,
) {
    // SAFETY: as the caller promises.
    unsafe {
        change(opts, |opts| {
            opts.options.prefix = text(prefix, "prefix")?.into_owned();
            Ok(())
        });
    }
}

/// Sets the device of operations that request none.
///
/// # Safety
/// `opts` must be live, `device` a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_ImportGraphDefOptionsSetDefaultDevice(
    opts: *mut TF_ImportGraphDefOptions,
    device: *const c_char,
) {
    // SAFETY: as the caller promises.
    unsafe {
        change(opts, |opts| {
            opts.options.default_device = text(device, "device")?.into_owned();
            Ok(())
        });
    }
}

/// Whether names that are taken are given a number, rather than refused.
///
/// # Safety
/// `opts` must be live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_ImportGraphDefOptionsSetUniquifyNames(
    opts: *mut TF_ImportGraphDefOptions,
    uniquify_names: u8,
) {
    // SAFETY: as the caller promises.
    unsafe {
        change(opts, |opts| {
            opts.options.uniquify_names = uniquify_names != 0;
            Ok(())
        });
    }
}

/// Whether a prefix that is taken is given a number.
///
/// # Safety
/// `opts` must be live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_ImportGraphDefOptionsSetUniquifyPrefix(
    opts: *mut TF_ImportGraphDefOptions,
    uniquify_prefix: u8,
) {
    // SAFETY: as the caller promises.
    unsafe {
        change(opts, |opts| {
            opts.options.uniquify_prefix = uniquify_prefix != 0;
            Ok(())
        });
    }
}

/// Makes inputs `src_name:src_index` of the GraphDef read `dst` of the graph instead.
///
/// # Safety
/// `opts` must be live, `src_name` a NUL-terminated string; the operation must live until the import.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_ImportGraphDefOptionsAddInputMapping(
    opts: *mut TF_ImportGraphDefOptions,
    src_name: *const c_char,
    src_index: c_int,
    dst: TF_Output,
) {
    // SAFETY: as the caller promises.
    unsafe {
        change(opts, |opts| {
            let from = TensorRef::new(text(src_name, "src_name")?, src_index);
            opts.input_map.push((from, dst));
            Ok(())
        });
    }
}

/// Makes control inputs `^src_name` of the GraphDef depend on `dst` of the graph instead.
///
/// # Safety
/// `opts` must be live, `src_name` a NUL-terminated string; the operation must live until the import.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_ImportGraphDefOptionsRemapControlDependency(
    opts: *mut TF_ImportGraphDefOptions,
    src_name: *const c_char,
    dst: *mut TF_Operation,
) {
    // SAFETY: as the caller promises.
    unsafe {
        change(opts, |opts| {
            opts.control_map.push((TensorRef::new(text(src_name, "src_name")?, -1), dst));
            Ok(())
        });
    }
}

/// Makes all imported operations run after `oper`.
///
/// # Safety
/// `opts` must be live; the operation must live until the import.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_ImportGraphDefOptionsAddControlDependency(
    opts: *mut TF_ImportGraphDefOptions,
    oper: *mut TF_Operation,
) {
    // SAFETY: as the caller promises.
    unsafe {
        change(opts, |opts| {
            opts.control_dependencies.push(oper);
            Ok(())
        });
    }
}

/// Asks for the output `oper_name:index` of the GraphDef as it is after the import.
///
/// # Safety
/// `opts` must be live, `oper_name` a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_ImportGraphDefOptionsAddReturnOutput(
    opts: *mut TF_ImportGraphDefOptions,
    oper_name: *const c_char,
    index: c_int,
) {
    // SAFETY: as the caller promises.
    unsafe {
        change(opts, |opts| {
            let tensor = TensorRef::new(text(oper_name, "oper_name")?, index);
            opts.options.return_outputs.push(tensor);
            Ok(())
        });
    }
}

/// Returns how many outputs have been asked for.
///
/// # Safety
/// `opts` must be null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_ImportGraphDefOptionsNumReturnOutputs(
    opts: *const TF_ImportGraphDefOptions,
) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { opts.as_ref() }.map_or(0, |opts| to_int(opts.options.return_outputs.len()))
}

/// Asks for the operation `oper_name` of the GraphDef as it is after the import.
///
/// # Safety
/// `opts` must be live, `oper_name` a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_ImportGraphDefOptionsAddReturnOperation(
    opts: *mut TF_ImportGraphDefOptions,
    oper_name: *const c_char,
) {
    // SAFETY: as the caller promises.
    unsafe {
        change(opts, |opts| {
            opts.options.return_nodes.push(text(oper_name, "oper_name")?.into_owned());
            Ok(())
        });
    }
}

/// Returns how many operations have been asked for.
///
/// # Safety
/// `opts` must be null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_ImportGraphDefOptionsNumReturnOperations(
    opts: *const TF_ImportGraphDefOptions,
) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { opts.as_ref() }.map_or(0, |opts| to_int(opts.options.return_nodes.len()))
}

/// Stores the outputs that were asked for, in order.
///
/// # Safety
/// `results` must be live, the others writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_ImportGraphDefResultsReturnOutputs(
    results: *mut TF_ImportGraphDefResults,
    num_outputs: *mut c_int,
    outputs: *mut *mut TF_Output,
) {
    quiet((), || {
        // SAFETY: as the caller promises.
        unsafe {
            let results = get_mut(results, "results")?;
            *get_mut(num_outputs, "num_outputs")? = to_int(results.outputs.len());
            *get_mut(outputs, "outputs")? = results.outputs.as_mut_ptr();
        }
        Ok(())
    });
}

/// Stores the operations that were asked for, in order.
///
/// # Safety
/// `results` must be live, the others writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_ImportGraphDefResultsReturnOperations(
    results: *mut TF_ImportGraphDefResults,
    num_opers: *mut c_int,
    opers: *mut *mut *mut TF_Operation,
) {
    quiet((), || {
        // SAFETY: as the caller promises.
        unsafe {
            let results = get_mut(results, "results")?;
            *get_mut(num_opers, "num_opers")? = to_int(results.operations.len());
            *get_mut(opers, "opers")? = results.operations.as_mut_ptr();
        }
        Ok(())
    });
}

/// Stores the keys of input mappings that were not used and name nothing in the GraphDef.
///
/// # Safety
/// `results` must be live, the others writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_ImportGraphDefResultsMissingUnusedInputMappings(
    results: *mut TF_ImportGraphDefResults,
    num_missing_unused_input_mappings: *mut c_int,
    src_names: *mut *mut *const c_char,
    src_indexes: *mut *mut c_int,
) {
    quiet((), || {
        // SAFETY: as the caller promises.
        unsafe {
            let results = get_mut(results, "results")?;
            let num = get_mut(num_missing_unused_input_mappings, "num")?;
            *num = to_int(results.missing_names.len());
            *get_mut(src_names, "src_names")? = results.missing_names.as_mut_ptr();
            *get_mut(src_indexes, "src_indexes")? = results.missing_indexes.as_mut_ptr();
        }
        Ok(())
    });
}

/// Deletes results with their arrays; null is allowed.
///
/// # Safety
/// `results` must be null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_DeleteImportGraphDefResults(results: *mut TF_ImportGraphDefResults) {
    if !results.is_null() {
        // SAFETY: the caller hands the results over.
        drop(unsafe { Box::from_raw(results) });
    }
}

/// Imports a serialised GraphDef.
///
/// # Safety
/// The pointers must be null or live.
unsafe fn import<'g>(
    graph: *mut TF_Graph,
    graph_def: *const TF_Buffer,
    options: *const TF_ImportGraphDefOptions,
) -> Result<(&'g TF_Graph, ImportResults)> {
    // SAFETY: as the caller promises.
    let (graph, bytes, options) =
        unsafe { (get(graph, "graph")?, bytes(graph_def, "graph_def")?, get(options, "options")?) };
    let def = ParsedGraphDef::from_bytes(bytes, ops::registry())?;
    // SAFETY: as the caller promises.
    let options = unsafe { options.resolve(&graph.shared)? };
    let results = graph.shared.lock().import_parsed(def, &options)?;
    Ok((graph, results))
}

/// Imports a serialised GraphDef and returns what the options ask for; null on error, and the graph is as
/// before.
///
/// # Safety
/// The pointers must be live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_GraphImportGraphDefWithResults(
    graph: *mut TF_Graph,
    graph_def: *const TF_Buffer,
    options: *const TF_ImportGraphDefOptions,
    status: *mut TF_Status,
) -> *mut TF_ImportGraphDefResults {
    let body = || {
        // SAFETY: as the caller promises.
        let (graph, results) = unsafe { import(graph, graph_def, options)? };
        let mut graph = graph.shared.lock();
        let missing = results.missing_unused_keys;
        let name = |key: &TensorRef| CString::new(key.node.as_str()).unwrap_or_default();
        let names: Vec<CString> = missing.iter().map(name).collect();
        Ok(Box::into_raw(Box::new(TF_ImportGraphDefResults {
            outputs: results.return_outputs.iter().map(|&output| graph.output(output)).collect(),
            operations: results.return_nodes.iter().map(|&id| graph.handle(id)).collect(),
            missing_names: names.iter().map(|name| name.as_ptr()).collect(),
            _names: names,
            missing_indexes: missing.iter().map(|key| key.index).collect(),
        })))
    };
    // SAFETY: as the caller promises.
    unsafe { guard(status, ptr::null_mut(), body) }
}

/// Not available: the buffer would hold a C++ object. Reports `TF_UNIMPLEMENTED`.
///
/// # Safety
/// `status` must be live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_GraphImportGraphDefWithResultsNoSerialization(
    _graph: *mut TF_Graph,
    _graph_def: *const TF_Buffer,
    _options: *const TF_ImportGraphDefOptions,
    status: *mut TF_Status,
) -> *mut TF_ImportGraphDefResults {
    let body = || {
        Err(unimplemented_error!(
            "TF_GraphImportGraphDefWithResultsNoSerialization takes a C++ object"
        ))
    };
    // SAFETY: as the caller promises.
    unsafe { guard(status, ptr::null_mut(), body) }
}

/// Imports a serialised GraphDef and stores the outputs that the options ask for.
///
/// # Safety
/// The pointers must be live, `return_outputs` writable for `num_return_outputs` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_GraphImportGraphDefWithReturnOutputs(
    graph: *mut TF_Graph,
    graph_def: *const TF_Buffer,
    options: *const TF_ImportGraphDefOptions,
    return_outputs: *mut TF_Output,
    num_return_outputs: c_int,
    status: *mut TF_Status,
) {
    let body = || {
        // SAFETY: as the caller promises.
        let asked = unsafe { get(options, "options")? }.options.return_outputs.len();
        if asked != count(num_return_outputs, "num_return_outputs")? {
            return Err(invalid!(
                "Expected 'num_return_outputs' to be {asked}, got {num_return_outputs}"
            ));
        }
        // SAFETY: as the caller promises.
        let out = unsafe { slice_mut(return_outputs, asked, "return_outputs")? };
        // SAFETY: as the caller promises.
        let (graph, results) = unsafe { import(graph, graph_def, options)? };
        let mut graph = graph.shared.lock();
        for (out, &output) in out.iter_mut().zip(&results.return_outputs) {
            *out = graph.output(output);
        }
        Ok(())
    };
    // SAFETY: as the caller promises.
    unsafe { guard(status, (), body) }
}

/// Imports a serialised GraphDef. On error the graph is as before.
///
/// # Safety
/// The pointers must be live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TF_GraphImportGraphDef(
    graph: *mut TF_Graph,
    graph_def: *const TF_Buffer,
    options: *const TF_ImportGraphDefOptions,
    status: *mut TF_Status,
) {
    // SAFETY: as the caller promises.
    unsafe { guard(status, (), || import(graph, graph_def, options).map(|_| ())) }
}

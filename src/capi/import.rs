//! GraphDef import.

use std::ffi::{CString, c_char, c_int};
use std::ptr;

use tfcore_base::{Result, invalid};
use tfcore_graph::{ImportOptions, ImportResults, NodeId, OutputRef, ParsedGraphDef, TensorRef};

use super::graph::{SharedGraph, TF_Graph, TF_Operation, TF_Output, node_in};
use super::handle::{
    ArrayMut, Boxed, CStrIn, In, Mut, Owned, Ref, Status, count, guard, quiet, to_int,
};
use super::not_built_in::not_built_in;
use super::tf_buffer::TF_Buffer;
use crate::ops;

/// How a GraphDef is brought into a graph.
#[derive(Default)]
pub struct TF_ImportGraphDefOptions {
    pub(crate) options: ImportOptions,
    /// Operations of the graph, which is known only when the import begins.
    input_map: Vec<(TensorRef, TF_Output)>,
    control_map: Vec<(TensorRef, Ref<TF_Operation>)>,
    control_dependencies: Vec<Ref<TF_Operation>>,
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

impl Boxed for TF_ImportGraphDefOptions {}

impl Boxed for TF_ImportGraphDefResults {}

impl TF_ImportGraphDefOptions {
    /// The options for an import into `graph`.
    fn resolve(&self, graph: &SharedGraph) -> Result<ImportOptions> {
        let mut options = self.options.clone();
        for (from, to) in &self.input_map {
            let target = to.oper.get("oper")?;
            let entry = format!("{}:{}", target.name, to.index);
            let node = mapped_node(graph, target, from, &entry)?;
            options.input_map.push((from.clone(), OutputRef { node, ..target.output(to.index)? }));
        }
        for (from, to) in &self.control_map {
            let target = to.get("oper")?;
            let node = mapped_node(graph, target, from, &format!("^{}", target.name))?;
            options.input_map.push((from.clone(), OutputRef::control(node)));
        }
        for oper in &self.control_dependencies {
            options.control_dependencies.push(node_in(oper.get("oper")?, graph)?.id);
        }
        Ok(options)
    }
}

/// The node of `graph` that has the name of a mapping's target, which may belong to another graph.
fn mapped_node(
    graph: &SharedGraph,
    target: &TF_Operation,
    from: &TensorRef,
    to: &str,
) -> Result<NodeId> {
    graph.lock().find(&target.name).ok_or_else(|| {
        invalid!(
            "node '{}' in input_map does not exist in graph (input_map entry: {from}->{to})",
            target.name
        )
    })
}

/// Returns options without any effect.
#[unsafe(no_mangle)]
pub extern "C" fn TF_NewImportGraphDefOptions() -> *mut TF_ImportGraphDefOptions {
    TF_ImportGraphDefOptions::default().hand_out()
}

/// Deletes options; null is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn TF_DeleteImportGraphDefOptions(opts: Owned<TF_ImportGraphDefOptions>) {
    drop(opts);
}

/// Changes options.
pub(crate) fn change(
    mut opts: Mut<TF_ImportGraphDefOptions>,
    body: impl FnOnce(&mut TF_ImportGraphDefOptions) -> Result<()>,
) {
    quiet((), || body(opts.get("opts")?));
}

/// Puts `prefix` and a slash before every imported name.
#[unsafe(no_mangle)]
pub extern "C" fn TF_ImportGraphDefOptionsSetPrefix(
    opts: Mut<TF_ImportGraphDefOptions>,
    prefix: CStrIn,
) {
    change(opts, |opts| {
        opts.options.prefix = prefix.get("prefix")?.into_owned();
        Ok(())
    });
}

/// Sets the device of operations that request none.
#[unsafe(no_mangle)]
pub extern "C" fn TF_ImportGraphDefOptionsSetDefaultDevice(
    opts: Mut<TF_ImportGraphDefOptions>,
    device: CStrIn,
) {
    change(opts, |opts| {
        opts.options.default_device = device.get("device")?.into_owned();
        Ok(())
    });
}

/// Whether names that are taken are given a number, rather than refused.
#[unsafe(no_mangle)]
pub extern "C" fn TF_ImportGraphDefOptionsSetUniquifyNames(
    opts: Mut<TF_ImportGraphDefOptions>,
    uniquify_names: u8,
) {
    change(opts, |opts| {
        opts.options.uniquify_names = uniquify_names != 0;
        Ok(())
    });
}

/// Whether a prefix that is taken is given a number.
#[unsafe(no_mangle)]
pub extern "C" fn TF_ImportGraphDefOptionsSetUniquifyPrefix(
    opts: Mut<TF_ImportGraphDefOptions>,
    uniquify_prefix: u8,
) {
    change(opts, |opts| {
        opts.options.uniquify_prefix = uniquify_prefix != 0;
        Ok(())
    });
}

/// Makes inputs `src_name:src_index` of the GraphDef read `dst` of the graph instead.
#[unsafe(no_mangle)]
pub extern "C" fn TF_ImportGraphDefOptionsAddInputMapping(
    opts: Mut<TF_ImportGraphDefOptions>,
    src_name: CStrIn,
    src_index: c_int,
    dst: TF_Output,
) {
    change(opts, |opts| {
        let from = TensorRef::new(src_name.get("src_name")?, src_index);
        opts.input_map.push((from, dst));
        Ok(())
    });
}

/// Makes control inputs `^src_name` of the GraphDef depend on `dst` of the graph instead.
#[unsafe(no_mangle)]
pub extern "C" fn TF_ImportGraphDefOptionsRemapControlDependency(
    opts: Mut<TF_ImportGraphDefOptions>,
    src_name: CStrIn,
    dst: Ref<TF_Operation>,
) {
    change(opts, |opts| {
        opts.control_map.push((TensorRef::new(src_name.get("src_name")?, -1), dst));
        Ok(())
    });
}

/// Makes all imported operations run after `oper`.
#[unsafe(no_mangle)]
pub extern "C" fn TF_ImportGraphDefOptionsAddControlDependency(
    opts: Mut<TF_ImportGraphDefOptions>,
    oper: Ref<TF_Operation>,
) {
    change(opts, |opts| {
        opts.control_dependencies.push(oper);
        Ok(())
    });
}

/// Asks for the output `oper_name:index` of the GraphDef as it is after the import.
#[unsafe(no_mangle)]
pub extern "C" fn TF_ImportGraphDefOptionsAddReturnOutput(
    opts: Mut<TF_ImportGraphDefOptions>,
    oper_name: CStrIn,
    index: c_int,
) {
    change(opts, |opts| {
        let tensor = TensorRef::new(oper_name.get("oper_name")?, index);
        opts.options.return_outputs.push(tensor);
        Ok(())
    });
}

/// Returns how many outputs have been asked for.
#[unsafe(no_mangle)]
pub extern "C" fn TF_ImportGraphDefOptionsNumReturnOutputs(
    opts: In<TF_ImportGraphDefOptions>,
) -> c_int {
    opts.opt().map_or(0, |opts| to_int(opts.options.return_outputs.len()))
}

/// Asks for the operation `oper_name` of the GraphDef as it is after the import.
#[unsafe(no_mangle)]
pub extern "C" fn TF_ImportGraphDefOptionsAddReturnOperation(
    opts: Mut<TF_ImportGraphDefOptions>,
    oper_name: CStrIn,
) {
    change(opts, |opts| {
        opts.options.return_nodes.push(oper_name.get("oper_name")?.into_owned());
        Ok(())
    });
}

/// Returns how many operations have been asked for.
#[unsafe(no_mangle)]
pub extern "C" fn TF_ImportGraphDefOptionsNumReturnOperations(
    opts: In<TF_ImportGraphDefOptions>,
) -> c_int {
    opts.opt().map_or(0, |opts| to_int(opts.options.return_nodes.len()))
}

/// Stores the outputs that were asked for, in order.
#[unsafe(no_mangle)]
pub extern "C" fn TF_ImportGraphDefResultsReturnOutputs(
    mut results: Mut<TF_ImportGraphDefResults>,
    mut num_outputs: Mut<c_int>,
    mut outputs: Mut<*mut TF_Output>,
) {
    quiet((), || {
        let results = results.get("results")?;
        *num_outputs.get("num_outputs")? = to_int(results.outputs.len());
        *outputs.get("outputs")? = results.outputs.as_mut_ptr();
        Ok(())
    });
}

/// Stores the operations that were asked for, in order.
#[unsafe(no_mangle)]
pub extern "C" fn TF_ImportGraphDefResultsReturnOperations(
    mut results: Mut<TF_ImportGraphDefResults>,
    mut num_opers: Mut<c_int>,
    mut opers: Mut<*mut *mut TF_Operation>,
) {
    quiet((), || {
        let results = results.get("results")?;
        *num_opers.get("num_opers")? = to_int(results.operations.len());
        *opers.get("opers")? = results.operations.as_mut_ptr();
        Ok(())
    });
}

/// Stores the keys of input mappings that were not used and name nothing in the GraphDef.
#[unsafe(no_mangle)]
pub extern "C" fn TF_ImportGraphDefResultsMissingUnusedInputMappings(
    mut results: Mut<TF_ImportGraphDefResults>,
    mut num_missing_unused_input_mappings: Mut<c_int>,
    mut src_names: Mut<*mut *const c_char>,
    mut src_indexes: Mut<*mut c_int>,
) {
    quiet((), || {
        let results = results.get("results")?;
        let num = num_missing_unused_input_mappings.get("num")?;
        *num = to_int(results.missing_names.len());
        *src_names.get("src_names")? = results.missing_names.as_mut_ptr();
        *src_indexes.get("src_indexes")? = results.missing_indexes.as_mut_ptr();
        Ok(())
    });
}

/// Deletes results with their arrays; null is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn TF_DeleteImportGraphDefResults(results: Owned<TF_ImportGraphDefResults>) {
    drop(results);
}

/// Imports a serialised GraphDef.
fn import(
    graph: &Ref<TF_Graph>,
    graph_def: In<TF_Buffer>,
    options: In<TF_ImportGraphDefOptions>,
) -> Result<(&TF_Graph, ImportResults)> {
    let (graph, bytes, options) = (
        graph.get("graph")?,
        graph_def.get("graph_def")?.bytes("graph_def")?,
        options.get("options")?,
    );
    let def = ParsedGraphDef::from_bytes(bytes, ops::registry())?;
    let options = options.resolve(&graph.shared)?;
    let results = graph.shared.lock().import_parsed(def, &options)?;
    Ok((graph, results))
}

/// Imports a serialised GraphDef and returns what the options ask for; null on error, and the graph is as
/// before.
#[unsafe(no_mangle)]
pub extern "C" fn TF_GraphImportGraphDefWithResults(
    graph: Ref<TF_Graph>,
    graph_def: In<TF_Buffer>,
    options: In<TF_ImportGraphDefOptions>,
    status: Status,
) -> *mut TF_ImportGraphDefResults {
    guard(status, ptr::null_mut(), || {
        let (graph, results) = import(&graph, graph_def, options)?;
        let mut graph = graph.shared.lock();
        let missing = results.missing_unused_keys;
        let name = |key: &TensorRef| CString::new(key.node.as_str()).unwrap_or_default();
        let names: Vec<CString> = missing.iter().map(name).collect();
        Ok(TF_ImportGraphDefResults {
            outputs: results.return_outputs.iter().map(|&output| graph.output(output)).collect(),
            operations: results.return_nodes.iter().map(|&id| graph.handle(id)).collect(),
            missing_names: names.iter().map(|name| name.as_ptr()).collect(),
            _names: names,
            missing_indexes: missing.iter().map(|key| key.index).collect(),
        }
        .hand_out())
    })
}

/// Not available: the buffer would hold a C++ object. Reports `TF_UNIMPLEMENTED`.
#[unsafe(no_mangle)]
pub extern "C" fn TF_GraphImportGraphDefWithResultsNoSerialization(
    _graph: Ref<TF_Graph>,
    _graph_def: In<TF_Buffer>,
    _options: In<TF_ImportGraphDefOptions>,
    status: Status,
) -> *mut TF_ImportGraphDefResults {
    guard(status, ptr::null_mut(), || {
        Err(not_built_in("TF_GraphImportGraphDefWithResultsNoSerialization"))
    })
}

/// Imports a serialised GraphDef and stores the outputs that the options ask for.
#[unsafe(no_mangle)]
pub extern "C" fn TF_GraphImportGraphDefWithReturnOutputs(
    graph: Ref<TF_Graph>,
    graph_def: In<TF_Buffer>,
    options: In<TF_ImportGraphDefOptions>,
    mut return_outputs: ArrayMut<TF_Output>,
    num_return_outputs: c_int,
    status: Status,
) {
    guard(status, (), || {
        let asked = options.get("options")?.options.return_outputs.len();
        if asked != count(num_return_outputs, "num_return_outputs")? {
            return Err(invalid!(
                "Expected 'num_return_outputs' to be {asked}, got {num_return_outputs}"
            ));
        }
        let out = return_outputs.get(asked, "return_outputs")?;
        let (graph, results) = import(&graph, graph_def, options)?;
        let mut graph = graph.shared.lock();
        for (out, &output) in out.iter_mut().zip(&results.return_outputs) {
            *out = graph.output(output);
        }
        Ok(())
    })
}

/// Imports a serialised GraphDef. On error the graph is as before.
#[unsafe(no_mangle)]
pub extern "C" fn TF_GraphImportGraphDef(
    graph: Ref<TF_Graph>,
    graph_def: In<TF_Buffer>,
    options: In<TF_ImportGraphDefOptions>,
    status: Status,
) {
    guard(status, (), || import(&graph, graph_def, options).map(|_| ()))
}

//! Which parts of function bodies may be computed a second time, as gradients of conditionals and loops do.

use std::collections::HashSet;

use tfcore_base::{Result, unimplemented_error};
use tfcore_framework::{AttrList, AttrValue, OpDef};

use crate::library::FunctionLibrary;
use crate::node::{Node, NodeId};
use crate::{Graph, OutputRef};

/// Ops that have a state and leave it as it is.
const READ_ONLY: [&str; 6] = [
    "Assert",
    "ReadVariableOp",
    "ResourceGather",
    "ResourceGatherNd",
    "VarHandleOp",
    "VariableShape",
];

/// Ops that have a state if the functions that they call have one.
const CALLS: [&str; 5] = ["Case", "If", "StatefulPartitionedCall", "SymbolicGradient", "While"];

/// Checks that some nodes of the body of `function` give the same values again and change nothing.
///
/// # Errors
/// `Unimplemented` with the node that does not.
pub(crate) fn check_repeatable(function: &str, body: &Graph, nodes: &[NodeId]) -> Result<()> {
    for &id in nodes {
        let node = body.node(id);
        if !is_repeatable(body, node) {
            return Err(unimplemented_error!(
                "The gradient of function {function} depends on {} '{}', which has a state",
                node.op.name,
                node.name
            ));
        }
        if &*node.op.name == "ReadVariableOp"
            && let Some(writer) = writer(body, node.inputs[0].source)
        {
            return Err(unimplemented_error!(
                "The gradient of function {function} depends on a variable that {} '{}' changes",
                writer.op.name,
                writer.name
            ));
        }
    }
    Ok(())
}

/// A node of the body that may change a variable.
fn writer(body: &Graph, variable: OutputRef) -> Option<&Node> {
    let consumers = body.consumers(variable).map(|(id, _)| &**body.node(id));
    consumers.filter(|node| &*node.op.name != "_Retval").find(|node| !is_repeatable(body, node))
}

/// Whether a node, and all that it calls, may run again.
fn is_repeatable(body: &Graph, node: &Node) -> bool {
    let library = body.library();
    let mut calls = Called::default();
    if !calls.add(library, &node.op, node.attrs.iter().map(|(_, value)| value)) {
        return false;
    }
    while let Some(name) = calls.next.pop() {
        // What is not there is reported by whoever calls it.
        let nodes = library.get(&name).map_or(&[][..], |function| &function.def().node_def);
        for node in nodes {
            let attrs: Vec<AttrValue> =
                node.attr.values().cloned().map(AttrValue::from_proto).collect();
            let Some(op) = body.find_op(&node.op) else {
                continue;
            };
            if !calls.add(library, &op, attrs.iter()) {
                return false;
            }
        }
    }
    true
}

/// The functions that are called, one by the other.
#[derive(Default)]
struct Called {
    seen: HashSet<String>,
    /// Those that have not been looked into.
    next: Vec<String>,
}

impl Called {
    /// Notes what a node calls; false if its op has a state of its own.
    fn add<'a>(
        &mut self,
        library: &FunctionLibrary,
        op: &OpDef,
        attrs: impl Iterator<Item = &'a AttrValue>,
    ) -> bool {
        for value in attrs {
            match value {
                AttrValue::Func(func) => self.call(&func.name),
                AttrValue::List(list) => {
                    if let AttrList::Func(funcs) = &**list {
                        funcs.iter().for_each(|func| self.call(&func.name));
                    }
                }
                _ => {}
            }
        }
        let name = &*op.name;
        let is_function = library.get(name).is_some();
        if is_function {
            self.call(name);
        }
        !op.is_stateful || is_function || READ_ONLY.contains(&name) || CALLS.contains(&name)
    }

    fn call(&mut self, name: &str) {
        if self.seen.insert(name.to_string()) {
            self.next.push(name.to_string());
        }
    }
}

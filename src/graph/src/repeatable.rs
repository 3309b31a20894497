//! Which parts of function bodies may be computed a second time, as gradients of conditionals and loops do.

use std::collections::HashSet;

use tfcore_base::{Result, unimplemented_error};
use tfcore_framework::{AttrList, AttrValue, OpDef, Role};

use crate::node::{Node, NodeId};
use crate::{Graph, OutputRef};

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
        if node.role() == Role::ReadVariable
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
    consumers.filter(|node| node.role() != Role::Retval).find(|node| !is_repeatable(body, node))
}

/// Whether a node, and all that it calls, may run again.
fn is_repeatable(body: &Graph, node: &Node) -> bool {
    let library = body.library();
    let mut calls = Called::default();
    if !calls.add(&node.op, node.attrs.iter().map(|(_, value)| value)) {
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
            if !calls.add(&op, attrs.iter()) {
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
    fn add<'a>(&mut self, op: &OpDef, attrs: impl Iterator<Item = &'a AttrValue>) -> bool {
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
        if op.role == Role::Function {
            self.call(&op.name);
        }
        !op.is_stateful || op.role.calls_functions() || op.role.only_reads_state()
    }

    fn call(&mut self, name: &str) {
        if self.seen.insert(name.to_string()) {
            self.next.push(name.to_string());
        }
    }
}

//! Which functions a node calls, and the plans of those functions.

use std::sync::Arc;

use tfcore_base::{Result, invalid};
use tfcore_framework::{Attrs, Func, Role};
use tfcore_graph::Node;

use crate::context::PassContext;
use crate::graph::PlanGraph;
use crate::plan::{CallKind, Control, Function, Map, Style, Task};

/// What `node` does, if it is one of these ops or is called after a function. The functions are planned.
pub(crate) fn control_of(
    graph: &PlanGraph<'_>,
    node: &Node,
    context: &PassContext<'_>,
) -> Result<Option<Control>> {
    let function = |attr: &str| -> Result<Arc<Function>> {
        let func = node.attrs.func(attr)?;
        plan(graph, context, node, &func.name, &func.attrs)
    };
    let task = match node.role() {
        Role::Call => {
            let name = &node.attrs.func("f")?.name;
            if !context.functions.contains(name) {
                return Err(invalid!("Failed to find function \"{name}\" in function library"));
            }
            let function = function("f")?;
            check_arity(&function, node)?;
            Task::Call { function, kind: CallKind::Call }
        }
        Role::SymbolicGradient => {
            let func = node.attrs.func("f")?;
            let site = context.call_site(graph, node);
            let function = context.functions.gradient_of(&func.name, &func.attrs, site);
            context.functions.plan_with_caller(&function, context.callers)?;
            Task::Call { function, kind: CallKind::Gradient }
        }
        Role::RemoteCall => Task::Call { function: function("f")?, kind: CallKind::Remote },
        Role::If => Task::Branch {
            functions: vec![function("else_branch")?, function("then_branch")?],
            by_index: false,
        },
        Role::Case => {
            let branches = node.attrs.funcs("branches")?.iter();
            let functions =
                branches.map(|func| plan(graph, context, node, &func.name, &func.attrs));
            Task::Branch { functions: functions.collect::<Result<_>>()?, by_index: true }
        }
        Role::While => {
            let function = |attr: &str| -> Result<Arc<Function>> {
                let func = node.attrs.func(attr)?;
                Ok(context.functions.get(&func.name, &func.attrs, context.call_site(graph, node)))
            };
            let (cond, body) = (function("cond")?, function("body")?);
            match context.functions.while_loop(&cond, &body, context.callers) {
                Some(made) if made.takes(&node.input_dtypes) => Task::Loop(made),
                _ => {
                    context.functions.plan_with_caller(&cond, context.callers)?;
                    context.functions.plan_with_caller(&body, context.callers)?;
                    Task::While { cond, body }
                }
            }
        }
        Role::For => Task::For { body: function("body")? },
        Role::MapDefun => Task::Map(Arc::new(Map {
            function: function("f")?,
            num_mapped: node.attrs.dtypes("Targuments")?.len(),
            output_shapes: node.attrs.shapes("output_shapes")?.to_vec(),
        })),
        _ if context.functions.contains(&node.op.name) => {
            let function = plan(graph, context, node, &node.op.name, &node.attrs)?;
            Task::Call { function, kind: CallKind::Call }
        }
        _ => return Ok(None),
    };
    let is_inlined = match &task {
        Task::Call { kind, .. } => *kind == CallKind::Call,
        _ => node.attrs.bool("_lower_using_switch_merge").unwrap_or(false),
    };
    Ok(Some(Control { task, style: if is_inlined { Style::Inlined } else { Style::Called } }))
}

/// Checks that a call hands over as many values as the function has arguments.
fn check_arity(function: &Function, node: &Node) -> Result<()> {
    match function.known_plan() {
        Some(plan) if plan.arg_dtypes.len() != node.inputs.len() => Err(invalid!(
            "InstantiateOptions.input_devices must have the same length as the number of arguments: \
             input_devices length = {} number of arguments = {}",
            node.inputs.len(),
            plan.arg_dtypes.len()
        )),
        _ => Ok(()),
    }
}

/// The functions that `node` may call, each at most once, with its inputs from the one of this number on.
pub(crate) fn called_functions(
    graph: &PlanGraph<'_>,
    node: &Node,
    context: &PassContext<'_>,
) -> Option<(Vec<Arc<Function>>, usize)> {
    let function = |func: &Func| {
        context.functions.get(&func.name, &func.attrs, context.call_site(graph, node))
    };
    let named = |attr: &str| node.attrs.func(attr).ok().map(function);
    match node.role() {
        Role::Call => Some((vec![named("f")?], 0)),
        Role::If => Some((vec![named("else_branch")?, named("then_branch")?], 1)),
        Role::Case => Some((node.attrs.funcs("branches").ok()?.iter().map(function).collect(), 1)),
        _ if context.functions.contains(&node.op.name) => {
            let function =
                context.functions.get(&node.op.name, &node.attrs, context.call_site(graph, node));
            Some((vec![function], 0))
        }
        _ => None,
    }
}

fn plan(
    graph: &PlanGraph<'_>,
    context: &PassContext<'_>,
    node: &Node,
    name: &str,
    attrs: &Attrs,
) -> Result<Arc<Function>> {
    let function = context.functions.get(name, attrs, context.call_site(graph, node));
    context.functions.plan_with_caller(&function, context.callers)?;
    Ok(function)
}

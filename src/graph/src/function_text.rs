//! Functions as text for people.

use std::fmt::{self, Write as _};

use tfcore_framework::{ArgDef, AttrDef, AttrList, AttrValue};
use tfcore_proto as proto;

use crate::library::Function;

impl fmt::Display for Function {
    /// Signature, nodes, control outputs and results, one a line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let args = |args: &[ArgDef]| join(args.iter().map(ArgDef::to_string));
        let op = self.op();
        write!(f, "\n{}", op.name)?;
        if !op.attrs.is_empty() {
            write!(f, "[{}]", join(op.attrs.iter().map(attr_text)))?;
        }
        writeln!(f, "({}) -> ({}) {{", args(&op.inputs), args(&op.outputs))?;
        for node in &self.def().node_def {
            writeln!(f, "  {}", node_text(node))?;
        }
        for (name, node) in &self.def().control_ret {
            writeln!(f, "  @return {name} = {node}")?;
        }
        for (name, tensor) in &self.def().ret {
            writeln!(f, "  return {name} = {tensor}")?;
        }
        f.write_str("}\n")
    }
}

fn join(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join(", ")
}

/// A type attr with the types that it may have, any other with its type.
fn attr_text(attr: &AttrDef) -> String {
    match &attr.allowed {
        Some(allowed) if attr.type_name == "type" => {
            format!("{}:{}", attr.name, value_text(allowed))
        }
        _ => format!("{}:{}", attr.name, attr.type_name),
    }
}

fn node_text(node: &proto::NodeDef) -> String {
    let mut text = format!("{} = {}", node.name, node.op);
    let mut attrs: Vec<String> = node
        .attr
        .iter()
        .map(|(name, value)| {
            format!("{name}={}", value_text(&AttrValue::from_proto(value.clone())))
        })
        .collect();
    attrs.sort_unstable();
    if !node.device.is_empty() {
        attrs.push(format!("device={}", short_device(&node.device)));
    }
    if !attrs.is_empty() {
        let _ = write!(text, "[{}]", attrs.join(", "));
    }
    let data = node.input.iter().filter(|input| !input.starts_with('^'));
    let _ = write!(text, "({})", join(data.cloned()));
    let controls = node.input.iter().filter_map(|input| input.strip_prefix('^'));
    let controls = join(controls.map(str::to_string));
    if !controls.is_empty() {
        let _ = write!(text, " @ {controls}");
    }
    text
}

/// An attr's value; types have the names that arguments show.
fn value_text(value: &AttrValue) -> String {
    match value {
        AttrValue::Type(dtype) => dtype.name(),
        AttrValue::List(list) => match &**list {
            AttrList::Type(dtypes) => {
                format!("{{{}}}", join(dtypes.iter().map(|dtype| dtype.name())))
            }
            _ => value.to_string(),
        },
        AttrValue::Func(func) if func.attrs.is_empty() => func.name.clone(),
        AttrValue::Func(func) => {
            let attrs = func.attrs.iter();
            let attrs = join(attrs.map(|(name, value)| format!("{name}={}", value_text(value))));
            format!("{}[{attrs}]", func.name)
        }
        _ => value.to_string(),
    }
}

/// `CPU:0` of `/job:worker/device:CPU:0`.
fn short_device(device: &str) -> &str {
    device.rsplit_once("device:").map_or(device, |(_, short)| short)
}

//! The op table: every op in the notation in which TensorFlow registers ops.

use std::collections::BTreeSet;
use std::fmt::Write;

use tfcore_proto::attr_value::Value;
use tfcore_proto::full_type_def::Attr;
use tfcore_proto::op_def::{ArgDef, AttrDef};
use tfcore_proto::{FullTypeDef, OpDef, OpList};

use crate::{Result, dtype, text};

const HEADER: &str = "\
# Op definitions, sorted by name, in the notation of TensorFlow's REGISTER_OP:
# `input` and `output` hold an argument spec, `attr` an attribute spec. What follows ` as ` is the full type of
# an output: constructors (FullTypeId without TFT_) applied to arguments, `$attr` for the types in an attribute.
# `deprecated` names the first graph version that may not use the op.
# Written by tools/op_table.
";

/// Constructors of full types that ops use, by number.
const FULL_TYPES: [(i32, &str); 13] = [
    (2, "ANY"),
    (3, "PRODUCT"),
    (4, "NAMED"),
    (20, "FOR_EACH"),
    (214, "STRING"),
    (1000, "TENSOR"),
    (1001, "ARRAY"),
    (1002, "OPTIONAL"),
    (1005, "SHAPE_TENSOR"),
    (10102, "DATASET"),
    (10103, "RAGGED"),
    (10104, "ITERATOR"),
    (10202, "MUTEX_LOCK"),
];

/// `FullTypeId` of a variable, which stands for the types in an attribute.
const VAR: i32 = 1;

pub(crate) fn table(mut list: OpList, leave_out: &BTreeSet<&str>) -> Result<String> {
    list.op.retain(|op| !leave_out.contains(op.name.as_str()));
    list.op.sort_by(|a, b| a.name.cmp(&b.name));
    let mut table = HEADER.to_owned();
    for op in &list.op {
        write_op(&mut table, op).map_err(|error| format!("{}: {error}", op.name))?;
    }
    Ok(table)
}

fn write_op(out: &mut String, op: &OpDef) -> Result<()> {
    if !op.control_output.is_empty() {
        return Err("control outputs have no notation".into());
    }
    writeln!(out, "op {}", op.name)?;
    for input in &op.input_arg {
        writeln!(out, "  input {}", arg(input)?)?;
    }
    for output in &op.output_arg {
        writeln!(out, "  output {}", arg(output)?)?;
    }
    for declared in &op.attr {
        writeln!(out, "  attr {}", attr(declared)?)?;
    }
    let flags: Vec<&str> = [
        ("commutative", op.is_commutative),
        ("aggregate", op.is_aggregate),
        ("stateful", op.is_stateful),
        ("allows_uninitialized_input", op.allows_uninitialized_input),
        ("distributed_communication", op.is_distributed_communication),
    ]
    .into_iter()
    .filter_map(|(name, is_set)| is_set.then_some(name))
    .collect();
    if !flags.is_empty() {
        writeln!(out, "  flags {}", flags.join(" "))?;
    }
    if let Some(deprecation) = &op.deprecation {
        let explanation = text::quoted(deprecation.explanation.as_bytes(), '"');
        writeln!(out, "  deprecated {} {explanation}", deprecation.version)?;
    }
    Ok(())
}

/// `x: T`, `xs: N * float`, `list: Tin`, `ref: Ref(T)`.
fn arg(arg: &ArgDef) -> Result<String> {
    if !arg.handle_data.is_empty() {
        return Err(format!("handle data of '{}' have no notation", arg.name).into());
    }
    let mut spec = match (arg.r#type, arg.type_attr.as_str(), arg.type_list_attr.as_str()) {
        (0, "", list) if !list.is_empty() => list.to_owned(),
        (0, attr, "") if !attr.is_empty() => attr.to_owned(),
        (fixed, "", "") => dtype::name(fixed)?,
        _ => return Err(format!("'{}' has several types", arg.name).into()),
    };
    if !arg.number_attr.is_empty() {
        spec = format!("{} * {spec}", arg.number_attr);
    }
    if arg.is_ref {
        spec = format!("Ref({spec})");
    }
    if let Some(full) = &arg.experimental_full_type {
        spec = format!("{spec} as {}", full_type(full)?);
    }
    Ok(format!("{}: {spec}", arg.name))
}

/// `DATASET(TENSOR(STRING))`, `$attr`.
fn full_type(full: &FullTypeDef) -> Result<String> {
    match &full.attr {
        Some(Attr::S(attr)) if full.type_id == VAR && full.args.is_empty() => {
            return Ok(format!("${attr}"));
        }
        None => {}
        _ => return Err(format!("no notation for the full type {full:?}").into()),
    }
    let (_, name) = FULL_TYPES
        .iter()
        .find(|(id, _)| *id == full.type_id)
        .ok_or_else(|| format!("full type {} has no name", full.type_id))?;
    let args = full.args.iter().map(full_type).collect::<Result<Vec<_>>>()?;
    Ok(if args.is_empty() { name.to_string() } else { format!("{name}({})", args.join(", ")) })
}

/// `N: int >= 1`, `T: {half, float} = DT_FLOAT`, `padding: {'SAME', 'VALID'}`, `shapes: list(shape) >= 0 = []`.
fn attr(attr: &AttrDef) -> Result<String> {
    let (element, is_list) =
        match attr.r#type.strip_prefix("list(").and_then(|rest| rest.strip_suffix(')')) {
            Some(element) => (element, true),
            None => (attr.r#type.as_str(), false),
        };
    let domain = match &attr.allowed_values {
        None => element.to_owned(),
        Some(allowed) => match (&allowed.value, element) {
            (Some(Value::List(list)), "type") => dtype::set(&list.r#type)?,
            (Some(Value::List(list)), "string") => {
                let names: Vec<String> = list.s.iter().map(|s| text::quoted(s, '\'')).collect();
                format!("{{{}}}", names.join(", "))
            }
            _ => return Err(format!("allowed values of '{}' have no notation", attr.name).into()),
        },
    };
    let mut spec = if is_list { format!("list({domain})") } else { domain };
    if attr.has_minimum {
        write!(spec, " >= {}", attr.minimum)?;
    }
    if let Some(default) = &attr.default_value {
        write!(spec, " = {}", text::value(default)?)?;
    }
    Ok(format!("{}: {spec}", attr.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tfcore_proto::attr_value::ListValue;
    use tfcore_proto::{AttrValue, OpDeprecation};

    fn value(value: Value) -> Option<AttrValue> {
        Some(AttrValue { value: Some(value) })
    }

    #[test]
    fn an_op_is_written_in_full() {
        let variable = |attr: &str| FullTypeDef {
            type_id: VAR,
            attr: Some(Attr::S(attr.into())),
            args: vec![],
        };
        let arg = |name: &str| ArgDef { name: name.into(), ..Default::default() };
        let attr = |name: &str, r#type: &str| AttrDef {
            name: name.into(),
            r#type: r#type.into(),
            ..Default::default()
        };
        let op = OpDef {
            name: "Everything".into(),
            input_arg: vec![
                ArgDef { r#type: 3, ..arg("fixed") },
                ArgDef { type_attr: "T".into(), number_attr: "N".into(), ..arg("many") },
                ArgDef { type_list_attr: "Tin".into(), ..arg("list") },
                ArgDef { type_attr: "T".into(), is_ref: true, ..arg("ref") },
            ],
            output_arg: vec![ArgDef {
                r#type: 21,
                experimental_full_type: Some(FullTypeDef {
                    type_id: 10102,
                    args: vec![FullTypeDef { type_id: 3, ..Default::default() }, variable("T")],
                    attr: None,
                }),
                ..arg("handle")
            }],
            attr: vec![
                AttrDef { has_minimum: true, minimum: 1, ..attr("N", "int") },
                AttrDef {
                    allowed_values: value(Value::List(
                        ListValue { r#type: vec![19, 1], ..Default::default() }.into(),
                    )),
                    default_value: value(Value::Type(1)),
                    ..attr("T", "type")
                },
                AttrDef {
                    allowed_values: value(Value::List(
                        ListValue { r#type: vec![11, 12, 13, 15, 16], ..Default::default() }.into(),
                    )),
                    has_minimum: true,
                    ..attr("Tin", "list(type)")
                },
                AttrDef {
                    allowed_values: value(Value::List(
                        ListValue { s: vec!["SAME".into(), "".into()], ..Default::default() }
                            .into(),
                    )),
                    default_value: value(Value::S("".into())),
                    ..attr("padding", "string")
                },
                attr("f", "func"),
            ],
            is_stateful: true,
            is_commutative: true,
            deprecation: Some(OpDeprecation { version: 9, explanation: "Use \"Other\".".into() }),
            ..Default::default()
        };
        let other = OpDef { name: "Another".into(), ..Default::default() };
        let left_out = OpDef { name: "LeftOut".into(), ..Default::default() };
        let table = table(OpList { op: vec![op, left_out, other] }, &BTreeSet::from(["LeftOut"]))
            .expect("writable");
        let expected = r#"op Another
op Everything
  input fixed: int32
  input many: N * T
  input list: Tin
  input ref: Ref(T)
  output handle: variant as DATASET(PRODUCT, $T)
  attr N: int >= 1
  attr T: {half, float} = DT_FLOAT
  attr Tin: list(quantizedtype) >= 0
  attr padding: {'SAME', ''} = ''
  attr f: func
  flags commutative stateful
  deprecated 9 "Use \"Other\"."
"#;
        assert_eq!(table.strip_prefix(HEADER), Some(expected));
    }

    #[test]
    fn what_has_no_notation_is_an_error() {
        let untyped = ArgDef { name: "x".into(), ..Default::default() };
        let unnamed = FullTypeDef { type_id: 999, ..Default::default() };
        for arg in [
            untyped,
            ArgDef { r#type: 1, experimental_full_type: Some(unnamed), ..Default::default() },
        ] {
            let op = OpDef { input_arg: vec![arg.clone()], ..Default::default() };
            assert!(table(OpList { op: vec![op] }, &BTreeSet::new()).is_err(), "{arg:?}");
        }
    }
}

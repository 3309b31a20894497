//! The kernels of each op exist for the types for which TensorFlow 2.21 has them, by its own list.

use std::collections::BTreeSet;

use tfcore::registry;
use tfcore_base::DType;
use tfcore_framework::{AttrValue, Attrs, DeviceType};

const TABLE: &str = include_str!("../src/framework/op_table/cpu_kernels.txt");
/// Kernels that are still missing for ops that have others; the list only shrinks.
const MISSING: &str = include_str!("missing_kernels.txt");

/// The attrs of each combination of types that a line's alternative stands for.
fn combinations(alternative: &str) -> Vec<Vec<(&str, &str)>> {
    let mut all = vec![Vec::new()];
    for word in alternative.split_whitespace() {
        let Some((attr, values)) = word.split_once('=') else {
            continue;
        };
        if matches!(attr, "label" | "priority") {
            continue;
        }
        let extended = all.iter().flat_map(|types: &Vec<_>| {
            values.split('|').map(|value| {
                let mut types = types.clone();
                types.push((attr, value));
                types
            })
        });
        all = extended.collect();
    }
    all
}

fn attrs(op: &str, types: &[(&str, &str)]) -> Attrs {
    let mut attrs = Attrs::new();
    if let Some(def) = registry().def(op) {
        def.add_defaults(&mut attrs);
    }
    for (name, value) in types {
        if let Some(dtype) = DType::from_name(value) {
            attrs.set(*name, AttrValue::Type(dtype));
        }
    }
    attrs
}

#[test]
fn ops_have_the_kernels_of_the_reference() {
    let missing: BTreeSet<&str> = MISSING.lines().filter(|line| !line.starts_with('#')).collect();
    let mut unlisted = Vec::new();
    let mut present = Vec::new();
    for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
        let (op, alternatives) = line.split_once(' ').expect("a line has an op and its kernels");
        if registry().kernels(op).is_empty() {
            continue;
        }
        // Kernels with a label are chosen by name only.
        for alternative in alternatives.split(" ; ").filter(|text| !text.contains("label=")) {
            for types in combinations(alternative) {
                let texts: Vec<String> =
                    types.iter().map(|(name, value)| format!("{name}={value}")).collect();
                let entry = format!("{op} {}", texts.join(" "));
                let exists = registry().has_kernel(DeviceType::Cpu, op, &attrs(op, &types));
                match (exists, missing.contains(entry.trim())) {
                    (false, false) => unlisted.push(entry),
                    (true, true) => present.push(entry),
                    _ => {}
                }
            }
        }
    }
    assert!(unlisted.is_empty(), "without a kernel and not listed:\n{}", unlisted.join("\n"));
    assert!(present.is_empty(), "listed as missing, but there:\n{}", present.join("\n"));
}

#[test]
fn no_loops_are_compiled_that_no_kernel_needs() {
    let names = registry().defs();
    let superfluous: Vec<String> = names
        .iter()
        .map(|def| (&def.name, registry().superfluous_types(&def.name)))
        .filter(|(_, types)| !types.is_empty())
        .map(|(name, types)| format!("{name} {types:?}"))
        .collect();
    assert!(superfluous.is_empty(), "no kernel of the reference has these types: {superfluous:#?}");
}

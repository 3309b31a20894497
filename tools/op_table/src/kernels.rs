//! The kernel table: for every op, what its CPU kernels take.

use std::collections::{BTreeMap, BTreeSet};

use tfcore_proto::attr_value::Value;
use tfcore_proto::{AttrValue, KernelDef, KernelList};

use crate::{Result, dtype, text};

const HEADER: &str = "\
# Ops with CPU kernels, sorted by name. What follows the name are alternatives, separated by ` ; `:
# `attr=value|value` for each constrained attribute (every combination has a kernel), `any` where none is.
# `label=` and `priority=` precede where a kernel has them.
# Written by tools/op_table.
";

/// The values that each constrained attribute may have, by attribute.
type Constraints = BTreeMap<String, BTreeSet<String>>;

pub(crate) fn table(list: KernelList, leave_out: &BTreeSet<&str>) -> Result<String> {
    // Kernels of one op are told apart by label and priority.
    let mut ops: BTreeMap<&str, BTreeMap<(&str, i32), BTreeSet<Constraints>>> = BTreeMap::new();
    for kernel in &list.kernel {
        if kernel.device_type == "CPU" && !leave_out.contains(kernel.op.as_str()) {
            let constraints =
                constraints(kernel).map_err(|error| format!("{}: {error}", kernel.op))?;
            let of_op = ops.entry(&kernel.op).or_default();
            of_op.entry((&kernel.label, kernel.priority)).or_default().insert(constraints);
        }
    }
    let mut table = HEADER.to_owned();
    for (op, kernels) in ops {
        let mut alternatives = Vec::new();
        for ((label, priority), constraints) in kernels {
            let mut prefix = String::new();
            if !label.is_empty() {
                prefix += &format!("label={label} ");
            }
            if priority != 0 {
                prefix += &format!("priority={priority} ");
            }
            alternatives
                .extend(folded(constraints).iter().map(|one| prefix.clone() + &written(one)));
        }
        table += &format!("{op} {}\n", alternatives.join(" ; "));
    }
    Ok(table)
}

fn constraints(kernel: &KernelDef) -> Result<Constraints> {
    let mut constraints = Constraints::new();
    for constraint in &kernel.constraint {
        let Some(AttrValue { value: Some(Value::List(list)) }) = &constraint.allowed_values else {
            return Err(format!("'{}' is constrained by no list", constraint.name).into());
        };
        let mut values =
            list.r#type.iter().map(|&t| dtype::name(t)).collect::<Result<BTreeSet<_>>>()?;
        values.extend(list.s.iter().map(|s| text::quoted(s, '\'')));
        values.extend(list.i.iter().map(i64::to_string));
        values.extend(list.b.iter().map(bool::to_string));
        constraints.insert(constraint.name.clone(), values);
    }
    Ok(constraints)
}

/// Joins kernels which differ in the values of one attribute only, attribute by attribute.
fn folded(mut kernels: BTreeSet<Constraints>) -> BTreeSet<Constraints> {
    let attrs: BTreeSet<String> = kernels.iter().flat_map(BTreeMap::keys).cloned().collect();
    for attr in attrs {
        let mut by_rest: BTreeMap<Constraints, BTreeSet<String>> = BTreeMap::new();
        let mut joined = BTreeSet::new();
        for mut kernel in kernels {
            match kernel.remove(&attr) {
                Some(values) => by_rest.entry(kernel).or_default().extend(values),
                None => drop(joined.insert(kernel)),
            }
        }
        joined.extend(by_rest.into_iter().map(|(mut rest, values)| {
            rest.insert(attr.clone(), values);
            rest
        }));
        kernels = joined;
    }
    kernels
}

fn written(constraints: &Constraints) -> String {
    if constraints.is_empty() {
        return "any".to_owned();
    }
    let values =
        |values: &BTreeSet<String>| values.iter().map(String::as_str).collect::<Vec<_>>().join("|");
    constraints
        .iter()
        .map(|(attr, allowed)| format!("{attr}={}", values(allowed)))
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tfcore_proto::attr_value::ListValue;
    use tfcore_proto::kernel_def::AttrConstraint;

    fn kernel(op: &str, device: &str, constraints: &[(&str, &[i32])]) -> KernelDef {
        let constraint = constraints
            .iter()
            .map(|&(name, types)| {
                let list = ListValue { r#type: types.to_vec(), ..Default::default() };
                let allowed_values = Some(AttrValue { value: Some(Value::List(list.into())) });
                AttrConstraint { name: name.into(), allowed_values }
            })
            .collect();
        KernelDef { op: op.into(), device_type: device.into(), constraint, ..Default::default() }
    }

    #[test]
    fn kernels_that_differ_in_one_attribute_share_an_alternative() {
        let list = KernelList {
            kernel: vec![
                kernel("Relu", "CPU", &[("T", &[19])]),
                kernel("Relu", "CPU", &[("T", &[1])]),
                kernel("Relu", "GPU", &[("T", &[2])]),
                kernel("NoOp", "CPU", &[]),
                kernel("Cast", "CPU", &[("S", &[1]), ("D", &[3])]),
                kernel("Cast", "CPU", &[("S", &[1]), ("D", &[9])]),
                kernel("Cast", "CPU", &[("S", &[2]), ("D", &[9, 3])]),
                kernel("Cast", "CPU", &[("S", &[7]), ("D", &[7])]),
                KernelDef {
                    label: "slow".into(),
                    priority: 2,
                    ..kernel("Relu", "CPU", &[("T", &[1])])
                },
                kernel("LeftOut", "CPU", &[]),
            ],
        };
        let table = table(list, &BTreeSet::from(["LeftOut"])).expect("writable");
        let expected = "\
Cast D=int32|int64 S=double|float ; D=string S=string
NoOp any
Relu T=float|half ; label=slow priority=2 T=float
";
        assert_eq!(table.strip_prefix(HEADER), Some(expected));
    }
}

//! Every gradient agrees with numeric differentiation.

mod array;
mod calls;
mod harness;
mod image;
mod loops;
mod math;
mod nn;
mod quant;
mod rnn;

use std::collections::BTreeSet;

use harness::{Case, check};
use tfcore::registry;

/// Ops whose gradients make sense only with others around them; `calls.rs`, `loops.rs` and the C tests have them.
const OF_SEVERAL_NODES: [&str; 9] = [
    "Merge",
    "ReadVariableOp",
    "Switch",
    "TensorListFromTensor",
    "TensorListGetItem",
    "TensorListPopBack",
    "TensorListPushBack",
    "TensorListSetItem",
    "TensorListStack",
];

fn cases() -> Vec<Case> {
    let mut cases = math::cases();
    cases.extend(array::cases());
    cases.extend(nn::cases());
    cases.extend(image::cases());
    cases.extend(quant::cases());
    cases.extend(rnn::cases());
    cases
}

#[test]
fn gradients_agree_with_difference_quotients() {
    let mut failures = Vec::new();
    for (index, case) in cases().iter().enumerate() {
        if let Err(error) = check(case) {
            failures.push(format!("case {index}, {}: {error}", case.op));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn every_gradient_has_a_case() {
    let tested: BTreeSet<&str> = cases().iter().map(|case| case.op).collect();
    let untested: BTreeSet<&str> = [
        math::UNTESTED,
        array::UNTESTED,
        nn::UNTESTED,
        image::UNTESTED,
        quant::UNTESTED,
        &OF_SEVERAL_NODES,
    ]
    .concat()
    .into_iter()
    .collect();
    let without: Vec<&str> = registry()
        .differentiable()
        .into_iter()
        .filter(|op| !tested.contains(op) && !untested.contains(op))
        .collect();
    assert!(without.is_empty(), "gradients without a case: {without:?}");
    let both: Vec<&&str> = tested.intersection(&untested).collect();
    assert!(both.is_empty(), "listed as untested, but tested: {both:?}");
}

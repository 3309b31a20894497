//! Every gradient agrees with numeric differentiation, as far as there are kernels to run it.

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
use tfcore_base::Code;

/// Ops that gradients are made of and that have no kernel yet. The list only shrinks.
const WITHOUT_KERNEL: &[&str] = &[
    "BatchToSpace",
    "BatchToSpaceND",
    "CropAndResize",
    "CropAndResizeGradBoxes",
    "CropAndResizeGradImage",
    "DepthToSpace",
    "ScaleAndTranslate",
    "ScaleAndTranslateGrad",
    "SpaceToBatch",
    "SpaceToBatchND",
    "SpaceToDepth",
];

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
    let mut missing = BTreeSet::new();
    for (index, case) in cases().iter().enumerate() {
        match check(case) {
            Ok(()) => {}
            Err(error) if error.code() == Code::NotFound => {
                missing.extend(error.message().split(' ').map(str::to_string));
            }
            Err(error) => failures.push(format!("case {index}, {}: {error}", case.op)),
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    let known: BTreeSet<String> = WITHOUT_KERNEL.iter().map(|op| op.to_string()).collect();
    assert_eq!(missing, known, "ops without a kernel");
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

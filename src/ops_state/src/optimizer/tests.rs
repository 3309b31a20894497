//! One step of each optimiser, worked out by hand from its formula.

use std::sync::Arc;

use tfcore_base::DType;
use tfcore_framework::testing::{registry_of, step, tensor};
use tfcore_framework::{
    AttrValue, Attrs, DeviceType, KernelInit, OpContext, Step, Value, Variable,
};
use tfcore_math::pool::{Parallel, Pool};
use tfcore_tensor::Tensor;

/// Runs an op on refs, and returns the message if it fails.
fn run_on(
    parallel: Parallel<'_>,
    op: &str,
    attrs: &[(&str, AttrValue)],
    variables: &[Arc<Variable>],
    inputs: &[Tensor],
) -> Result<(), String> {
    let registry = registry_of(crate::register);
    let def = registry.def(op).unwrap();
    let mut attrs: Attrs = attrs.iter().map(|(name, value)| (*name, value.clone())).collect();
    def.add_defaults(&mut attrs);
    let (input_dtypes, output_dtypes) =
        (def.input_dtypes(&attrs).unwrap(), def.output_dtypes(&attrs).unwrap());
    let init = KernelInit {
        name: "op",
        op: &def,
        attrs: &attrs,
        input_dtypes: &input_dtypes,
        output_dtypes: &output_dtypes,
    };
    let kernel = registry.build_kernel(DeviceType::Cpu, &init).unwrap();
    let mut values: Vec<Value> = variables.iter().cloned().map(Value::Ref).collect();
    values.extend(inputs.iter().cloned().map(Value::Tensor));
    let mut outputs = vec![Value::Absent; output_dtypes.len()];
    let step: Arc<Step> = step();
    let mut ctx = OpContext::new(&mut values, &mut outputs, &output_dtypes, &step, parallel);
    kernel.compute(&mut ctx).map_err(|error| error.message().to_string())
}

fn run(
    op: &str,
    attrs: &[(&str, AttrValue)],
    variables: &[Arc<Variable>],
    inputs: &[Tensor],
) -> Result<(), String> {
    run_on(Parallel::SERIAL, op, attrs, variables, inputs)
}

fn variable(name: &str, value: Tensor) -> Arc<Variable> {
    let variable = Variable::new(name, value.dtype(), value.shape().clone());
    variable.write(value);
    Arc::new(variable)
}

fn values(variable: &Variable) -> Vec<f64> {
    variable.read().unwrap().as_slice::<f64>().unwrap().to_vec()
}

const T: (&str, AttrValue) = ("T", AttrValue::Type(DType::DOUBLE));

/// One step of a variable of one element and its slots; the inputs behind them are scalars and a gradient, in order.
fn one_step(op: &str, attrs: &[(&str, AttrValue)], start: &[f64], inputs: &[f64]) -> Vec<f64> {
    let variables: Vec<Arc<Variable>> =
        start.iter().map(|value| variable("v", Tensor::scalar(*value))).collect();
    let inputs: Vec<Tensor> = inputs.iter().map(|value| Tensor::scalar(*value)).collect();
    let attrs = [&[T], attrs].concat();
    run(op, &attrs, &variables, &inputs).unwrap();
    variables.iter().map(|variable| values(variable)[0]).collect()
}

#[test]
fn one_step_of_each() {
    let nesterov: &[(&str, AttrValue)] = &[("use_nesterov", AttrValue::Bool(true))];
    let cases: [(&str, &[(&str, AttrValue)], &[f64], &[f64], &[f64]); 16] = [
        // accum = 0.5 * 2 + 0.5 * 4 = 3, update = sqrt(3 + 1) / sqrt(3 + 1) * 2 = 2.
        ("ApplyAdadelta", &[], &[1.0, 2.0, 3.0], &[0.1, 0.5, 1.0, 2.0], &[0.8, 3.0, 3.5]),
        // accum = 5 + 4 = 9.
        ("ApplyAdagrad", &[], &[1.0, 5.0], &[0.3, 2.0], &[0.8, 9.0]),
        ("ApplyAdagradV2", &[], &[1.0, 5.0], &[0.4, 1.0, 2.0], &[0.8, 9.0]),
        // alpha = 0.1 * sqrt(0.75) / 0.5, m = 1, v = 1.
        (
            "ApplyAdam",
            &[],
            &[1.0, 0.0, 0.0],
            &[0.5, 0.25, 0.1, 0.5, 0.75, 1.0, 2.0],
            &[1.0 - 0.1 * 0.866_025_403_784_438_6, 1.0, 1.0],
        ),
        // The same with g * 0.5 + 0.5 * m = 1.5 for m.
        (
            "ApplyAdam",
            nesterov,
            &[1.0, 0.0, 0.0],
            &[0.5, 0.25, 0.1, 0.5, 0.75, 1.0, 2.0],
            &[1.0 - 0.15 * 0.866_025_403_784_438_6, 1.0, 1.0],
        ),
        // v = max(0.5 * 2, 3) = 3, m = 1.5.
        ("ApplyAdaMax", &[], &[1.0, 0.0, 2.0], &[0.5, 0.2, 0.5, 0.5, 0.0, 3.0], &[0.8, 1.5, 3.0]),
        ("ApplyAddSign", &[], &[1.0, 0.0], &[0.1, 1.0, 0.5, 0.5, 2.0], &[0.7, 1.0]),
        ("ApplyPowerSign", &[], &[1.0, 0.0], &[0.1, 0.0, 0.5, 0.5, 2.0], &[0.8, 1.0]),
        // ms = 1 + (9 - 1) / 2 = 5, mom = 2 * 0.5 + 3 * 0.1 / sqrt(5 + 4).
        ("ApplyRMSProp", &[], &[1.0, 1.0, 2.0], &[0.1, 0.5, 0.5, 4.0, 3.0], &[-0.1, 5.0, 1.1]),
        // ms = 5, mg = 1.5, variance = 5 - 2.25 + 6.25.
        (
            "ApplyCenteredRMSProp",
            &[],
            &[1.0, 0.0, 1.0, 2.0],
            &[0.1, 0.5, 0.5, 6.25, 3.0],
            &[-0.1, 1.5, 5.0, 1.1],
        ),
        ("ApplyMomentum", &[], &[1.0, 2.0], &[0.1, 3.0, 0.5], &[0.6, 4.0]),
        ("ApplyMomentum", nesterov, &[1.0, 2.0], &[0.1, 3.0, 0.5], &[0.5, 4.0]),
        // 1 - 0.1 * 4 = 0.6, less 0.1 * 2, divided by 1 + 0.1 * 10.
        ("ApplyProximalGradientDescent", &[], &[1.0], &[0.1, 2.0, 10.0, 4.0], &[0.2]),
        // accum = 4, rate = 0.2 / 2.
        ("ApplyProximalAdagrad", &[], &[1.0, 0.0], &[0.2, 2.0, 10.0, 2.0], &[0.3, 4.0]),
        // accum = 4, linear = 3 + 2 - (2 - 0) / 0.5 * 1 = 1, which is above l1; divisor 2 / 0.5 + 2 * 1.
        ("ApplyFtrl", &[], &[1.0, 0.0, 3.0], &[2.0, 0.5, 0.25, 1.0, -0.5], &[-0.125, 4.0, 1.0]),
        // Within l1 all becomes zero.
        ("ApplyFtrl", &[], &[1.0, 0.0, 3.0], &[2.0, 0.5, 2.0, 1.0, -0.5], &[0.0, 4.0, 1.0]),
    ];
    for (op, attrs, start, inputs, expected) in cases {
        let found = one_step(op, attrs, start, inputs);
        let close = found.iter().zip(expected).all(|(x, y)| (x - y).abs() < 1e-12);
        assert!(close && found.len() == expected.len(), "{op}: {found:?}, expected {expected:?}");
    }
}

#[test]
fn rows_are_stepped_in_order() {
    let attrs = [T, ("Tindices", AttrValue::Type(DType::INT64))];
    let start = || {
        let var = variable("var", tensor(&[3, 2], &[0.0f64; 6]));
        [var, variable("accum", tensor(&[3, 2], &[0.0f64; 6]))]
    };
    let inputs = |grad: Tensor, indices: &[i64]| {
        let indices = tensor(&[indices.len() as i64], indices);
        [Tensor::scalar(1.0f64), grad, indices, Tensor::scalar(0.5f64)]
    };
    let variables = start();
    let grad = tensor(&[3, 2], &[1.0f64, 2.0, 4.0, 8.0, 1.0, 2.0]);
    run("SparseApplyMomentum", &attrs, &variables, &inputs(grad, &[2, 0, 2])).unwrap();
    // Row 2 is stepped by 1 and then by 0.5 * 1 + 1.
    assert_eq!(values(&variables[0]), [-4.0, -8.0, 0.0, 0.0, -2.5, -5.0]);
    assert_eq!(values(&variables[1]), [4.0, 8.0, 0.0, 0.0, 1.5, 3.0]);
    let two = || tensor(&[1, 2], &[1.0f64, 2.0]);
    let cases = [
        (inputs(two(), &[3]), "Index 3 at offset 0 in indices is out of range"),
        (inputs(two(), &[0, 1]), "grad must be the same size as indices in the first dimension."),
        (inputs(tensor(&[1, 1], &[1.0f64]), &[0]), "var and grad must match in dimension 1"),
        (
            inputs(tensor(&[1], &[1.0f64]), &[0]),
            "grad must have the same number of dimensions as var: [1] vs. [3,2]",
        ),
    ];
    for (inputs, message) in cases {
        assert_eq!(run("SparseApplyMomentum", &attrs, &start(), &inputs).unwrap_err(), message);
    }
    // Of a gradient with more dimensions, the first elements of each row count.
    let variables = start();
    let long = tensor(&[2, 2, 2], &[1.0f64, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
    run("SparseApplyMomentum", &attrs, &variables, &inputs(long, &[0, 1])).unwrap();
    assert_eq!(values(&variables[0]), [-1.0, -2.0, -5.0, -6.0, 0.0, 0.0]);
}

#[test]
fn what_does_not_fit() {
    let var = || variable("var", tensor(&[2], &[1.0f64, 2.0]));
    let accum = || variable("accum", tensor(&[2], &[1.0f64, 2.0]));
    let scalar = || Tensor::scalar(0.1f64);
    let grad = || tensor(&[2], &[1.0f64, 2.0]);
    let empty = || Arc::new(Variable::new("empty", DType::DOUBLE, grad().shape().clone()));
    let short = || variable("short", tensor(&[1], &[1.0f64]));
    let cases = [
        ([var(), empty()], [scalar(), grad()], "Attempting to use uninitialized value empty"),
        ([var(), short()], [scalar(), grad()], "var and accum do not have the same shape[2] [1]"),
        ([var(), accum()], [grad(), grad()], "lr is not a scalar: [2]"),
        (
            [var(), accum()],
            [scalar(), tensor(&[1], &[1.0f64])],
            "var and grad do not have the same shape[2] [1]",
        ),
    ];
    for (variables, inputs, message) in cases {
        assert_eq!(run("ApplyAdagrad", &[T], &variables, &inputs).unwrap_err(), message);
    }
    let same = var();
    let variables = [same.clone(), same];
    assert_eq!(
        run("ApplyAdagrad", &[T], &variables, &[scalar(), grad()]).unwrap_err(),
        "var and accum must not be the same variable"
    );
}

#[test]
fn threads_share_large_variables() {
    let pool = Pool::new(3);
    let count = 100_003i64;
    let numbers: Vec<f64> = (0..count).map(|at| at as f64).collect();
    let variables = [
        variable("var", tensor(&[count], &numbers)),
        variable("accum", tensor(&[count], &vec![0.0f64; numbers.len()])),
    ];
    let inputs = [Tensor::scalar(1.0f64), tensor(&[count], &numbers), Tensor::scalar(0.0f64)];
    run_on(Parallel::new(&pool), "ApplyMomentum", &[T], &variables, &inputs).unwrap();
    assert!(values(&variables[0]).iter().all(|value| *value == 0.0));
    let attrs = [T, ("Tindices", AttrValue::Type(DType::INT32))];
    let rows: Vec<i32> = (0..count as i32).rev().collect();
    let indices = tensor(&[count], &rows);
    let inputs = [inputs[0].clone(), inputs[1].clone(), indices, inputs[2].clone()];
    run_on(Parallel::new(&pool), "SparseApplyMomentum", &attrs, &variables, &inputs).unwrap();
    let expected: Vec<f64> = numbers.iter().rev().map(|value| -value).collect();
    assert_eq!(values(&variables[0]), expected);
}

#[test]
fn pairs_of_words_are_drawn_together() {
    let words = |value: f32| variable("w", tensor(&[2, 1], &[value, 0.0]));
    let variables = [words(1.0), words(0.0)];
    let attrs =
        [("vocab_count", AttrValue::ints([1, 1])), ("num_negative_samples", AttrValue::Int(0))];
    let inputs = [tensor(&[1], &[0i32]), tensor(&[1], &[0i32]), Tensor::scalar(0.5f32)];
    run("NegTrain", &attrs, &variables, &inputs).unwrap();
    // The sigmoid of 0 is a half.
    assert_eq!(variables[1].read().unwrap().as_slice::<f32>().unwrap(), [0.25, 0.0]);
    let outside = [tensor(&[1], &[2i32]), tensor(&[1], &[0i32]), Tensor::scalar(0.5f32)];
    assert_eq!(
        run("NegTrain", &attrs, &variables, &outside).unwrap_err(),
        "examples must be in [0, 2)"
    );
}

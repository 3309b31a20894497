//! Gradients of the mathematical ops.

use tfcore_base::DType;
use tfcore_framework::AttrValue;
use tfcore_tensor::{Shape, Tensor};

use super::harness::{Case, case};

/// Gradients that no kernel can check yet, or that are of complex values. The list only shrinks.
pub(crate) const UNTESTED: &[&str] = &["Angle", "Complex", "Conj", "Imag", "Real"];

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = unary();
    cases.extend(binary());
    cases.extend(products());
    cases.extend(reductions());
    cases.extend(choices());
    cases
}

fn unary() -> Vec<Case> {
    // Points where the functions are smooth: near zero, between 0 and 1, above 1.
    let around: [&str; 23] = [
        "Abs",
        "Asinh",
        "Atan",
        "Cos",
        "Cosh",
        "Erf",
        "Exp",
        "Expm1",
        "Inv",
        "Neg",
        "Reciprocal",
        "Sigmoid",
        "Sign",
        "Sin",
        "Sinh",
        "Square",
        "Tan",
        "Tanh",
        "Log1p",
        "Acos",
        "Asin",
        "Atanh",
        "Erfinv",
    ];
    let positive = ["Lgamma", "Log", "Rsqrt", "Sqrt", "Ndtri"];
    let mut cases: Vec<Case> =
        around.into_iter().map(|op| case(op).x(&[4], &[-0.7, -0.2, 0.3, 0.8])).collect();
    cases.extend(positive.into_iter().map(|op| case(op).x(&[3], &[0.2, 0.5, 0.9])));
    cases.push(case("Acosh").x(&[2], &[1.3, 2.5]));
    cases.push(case("Cast").x(&[2], &[1.3, 2.5]).attr("DstT", AttrValue::Type(DType::DOUBLE)));
    cases
}

fn binary() -> Vec<Case> {
    let ops = [
        "Add",
        "AddV2",
        "Sub",
        "Mul",
        "Div",
        "RealDiv",
        "DivNoNan",
        "SquaredDifference",
        "Pow",
        "Maximum",
        "Minimum",
        "Atan2",
    ];
    let mut cases = Vec::new();
    for op in ops {
        let (x, y) = ([0.7, 1.9, 2.3, 0.4, 1.1, 3.0], [1.4, 0.6, 2.1]);
        cases.push(case(op).x(&[2, 3], &x).x(&[3], &y));
        cases.push(case(op).x(&[], &x[..1]).x(&[3], &y));
        cases.push(case(op).x(&[2, 1], &x[1..3]).x(&[1, 3], &y));
        cases.push(case(op).x(&[3], &x[..3]).x(&[3], &y));
    }
    cases.push(case("AddN").list(&[(&[2], &[1.0, 2.0]), (&[2], &[3.0, 4.0])]));
    cases
}

fn products() -> Vec<Case> {
    let x = [0.3, -0.4, 1.2, 0.8, -0.6, 0.5];
    let y = [1.1, 0.2, -0.7, 0.9, 0.4, -0.3];
    let mut cases = Vec::new();
    for (flip_x, flip_y) in [(false, false), (false, true), (true, false), (true, true)] {
        let x_dims: [i64; 2] = if flip_x { [3, 2] } else { [2, 3] };
        let y_dims: [i64; 2] = if flip_y { [2, 3] } else { [3, 2] };
        cases.push(
            case("MatMul")
                .x(&x_dims, &x)
                .x(&y_dims, &y)
                .flag("transpose_a", flip_x)
                .flag("transpose_b", flip_y),
        );
        let batched = |op, batches: [&[i64]; 2]| {
            let dims = |batch: &[i64], matrix: [i64; 2]| [batch, &matrix].concat();
            let (x_dims, y_dims) = (dims(batches[0], x_dims), dims(batches[1], y_dims));
            let fill = |dims: &[i64], values: &[f64]| -> Vec<f64> {
                let count = dims.iter().product::<i64>() as usize;
                values
                    .iter()
                    .cycle()
                    .enumerate()
                    .map(|(i, v)| v + 0.1 * i as f64)
                    .take(count)
                    .collect()
            };
            case(op)
                .x(&x_dims, &fill(&x_dims, &x))
                .x(&y_dims, &fill(&y_dims, &y))
                .flag("adj_x", flip_x)
                .flag("adj_y", flip_y)
        };
        cases.push(batched("BatchMatMul", [&[2], &[2]]));
        cases.push(batched("BatchMatMulV2", [&[2, 1], &[3]]));
        cases.push(
            batched("BatchMatMulV3", [&[], &[2]]).attr("Tout", AttrValue::Type(DType::DOUBLE)),
        );
    }
    cases
}

fn reductions() -> Vec<Case> {
    let x = [0.3, -0.4, 1.2, 0.8, -0.6, 0.5, 1.7, 0.0, -1.3, 0.9, 2.2, -0.1];
    let mut cases = Vec::new();
    for op in ["Sum", "Mean", "Prod", "Max", "Min"] {
        for axes in [&[0][..], &[1], &[-1, 0], &[0, 1, 2], &[]] {
            for keep in [false, true] {
                cases.push(case(op).x(&[2, 3, 2], &x).ints(axes).flag("keep_dims", keep));
            }
        }
        // With axes of 64 bits, which the reference refuses.
        let wide = Tensor::from_slice(Shape::vector(1), &[1i64]).unwrap();
        cases.push(case(op).x(&[3, 4], &x).tensor(wide));
        cases.push(case(op).x(&[3, 4], &x).int(1));
    }
    for exclusive in [false, true] {
        for reverse in [false, true] {
            let scan = case("Cumsum").x(&[3, 2], &x[..6]).int(0);
            cases.push(scan.flag("exclusive", exclusive).flag("reverse", reverse));
        }
    }
    cases.push(case("SegmentSum").x(&[3, 2], &x[..6]).ints(&[0, 0, 2]));
    cases.push(case("UnsortedSegmentSum").x(&[4, 2], &x[..8]).ints(&[1, 0, -1, 1]).int(3));
    // Without empty segments, whose results are too large for a difference quotient.
    for op in ["UnsortedSegmentMax", "UnsortedSegmentMin"] {
        cases.push(case(op).x(&[4, 2], &x[..8]).ints(&[1, 0, -1, 1]).int(2));
    }
    cases
}

fn choices() -> Vec<Case> {
    let condition =
        |values: &[bool]| Tensor::from_slice(Shape::vector(values.len()), values).unwrap();
    let mixed = condition(&[true, false, true]);
    let x = [0.3, -0.4, 1.2];
    let y = [1.1, 0.2, -0.7];
    let clip = || case("ClipByValue").x(&[3], &x);
    vec![
        case("Select").tensor(mixed.clone()).x(&[3], &x).x(&[3], &y),
        case("SelectV2").tensor(mixed.clone()).x(&[3], &x).x(&[3], &y),
        case("SelectV2").tensor(mixed.clone()).x(&[2, 1], &x[..2]).x(&[], &y[..1]),
        clip().x(&[], &[-0.1]).x(&[], &[0.7]),
    ]
}

//! Gradients of the ops of the family array.

use tfcore_framework::AttrValue;
use tfcore_tensor::{Shape, Tensor};

use super::harness::{Case, case};

/// Gradients of rounding, which is not what the difference quotient of a step function tells.
pub(crate) const UNTESTED: &[&str] = &["QuantizeAndDequantizeV3", "QuantizeAndDequantizeV4"];

/// Values that are all different.
const X: [f64; 24] = {
    let mut values = [0.0; 24];
    let mut index = 0;
    while index < values.len() {
        values[index] = 0.3 + 0.7 * index as f64 - 0.05 * (index * index) as f64;
        index += 1;
    }
    values
};

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = values();
    cases.extend(layouts());
    cases.extend(joins());
    cases.extend(parts());
    cases.extend(lookups());
    cases
}

/// An int32 tensor.
fn ints(dims: &[i64], values: &[i32]) -> Tensor {
    Tensor::from_slice(Shape::new(dims).unwrap(), values).unwrap()
}

/// An int64 tensor.
fn longs(dims: &[i64], values: &[i64]) -> Tensor {
    Tensor::from_slice(Shape::new(dims).unwrap(), values).unwrap()
}

/// An int16 tensor.
fn shorts(dims: &[i64], values: &[i16]) -> Tensor {
    Tensor::from_slice(Shape::new(dims).unwrap(), values).unwrap()
}

fn values() -> Vec<Case> {
    vec![
        case("Identity").x(&[3], &X[..3]),
        case("CheckNumerics").x(&[3], &X[..3]).attr("message", AttrValue::string("x")),
        case("BroadcastTo").x(&[3], &X[..3]).ints(&[2, 3]),
        case("BroadcastTo").x(&[2, 1], &X[..2]).tensor(longs(&[3], &[3, 2, 2])),
        case("BroadcastTo").x(&[], &X[..1]).ints(&[2, 2]),
        case("Fill").ints(&[2, 3]).x(&[], &X[..1]),
        case("Tile").x(&[2, 3], &X[..6]).ints(&[2, 1]),
        case("Tile").x(&[2, 3], &X[..6]).tensor(longs(&[2], &[1, 3])),
        case("Tile").x(&[], &X[..1]).ints(&[]),
        case("Diag").x(&[2, 2], &X[..4]),
        case("DiagPart").x(&[2, 2, 2, 2], &X[..16]),
        case("MatrixDiag").x(&[2, 3], &X[..6]),
        case("MatrixBandPart").x(&[3, 3], &X[..9]).int(1).int(0),
    ]
}

fn layouts() -> Vec<Case> {
    let mode = |mode: &str| AttrValue::string(mode);
    let paddings = || ints(&[2, 2], &[1, 2, 0, 1]);
    let mut cases = vec![
        case("Reshape").x(&[2, 3], &X[..6]).ints(&[3, -1]),
        case("ExpandDims").x(&[2, 3], &X[..6]).int(1),
        case("Squeeze").x(&[2, 1, 3], &X[..6]),
        case("Transpose").x(&[2, 3, 4], &X).ints(&[2, 0, 1]),
        case("Transpose").x(&[2, 3, 4], &X).tensor(longs(&[3], &[1, 2, 0])),
        case("ReverseV2").x(&[2, 3], &X[..6]).ints(&[-1]),
        case("ReverseSequence").x(&[2, 3], &X[..6]).ints(&[3, 2]).number("seq_dim", 1),
        case("Roll").x(&[2, 3], &X[..6]).int(1).int(1),
        case("SpaceToBatch")
            .x(&[1, 2, 2, 1], &X[..4])
            .tensor(ints(&[2, 2], &[0, 0, 1, 1]))
            .number("block_size", 2),
        case("BatchToSpace")
            .x(&[4, 1, 2, 1], &X[..8])
            .tensor(ints(&[2, 2], &[0, 1, 1, 0]))
            .number("block_size", 2),
        case("SpaceToBatchND").x(&[1, 4, 1], &X[..4]).ints(&[2]).tensor(ints(&[1, 2], &[1, 1])),
        case("BatchToSpaceND").x(&[2, 3, 1], &X[..6]).ints(&[2]).tensor(ints(&[1, 2], &[1, 2])),
        case("SpaceToDepth").x(&[1, 2, 4, 1], &X[..8]).number("block_size", 2),
        case("DepthToSpace").x(&[1, 1, 2, 8], &X[..16]).number("block_size", 2),
    ];
    for name in ["REFLECT", "SYMMETRIC"] {
        cases.push(
            case("MirrorPad").x(&[3, 3], &X[..9]).tensor(paddings()).attr("mode", mode(name)),
        );
        cases
            .push(case("MirrorPadGrad").x(&[6, 4], &X).tensor(paddings()).attr("mode", mode(name)));
    }
    cases
}

fn joins() -> Vec<Case> {
    let pair: [(&[i64], &[f64]); 2] = [(&[2, 1], &X[..2]), (&[2, 3], &X[2..8])];
    let alike: [(&[i64], &[f64]); 3] = [(&[2], &X[..2]), (&[2], &X[2..4]), (&[2], &X[4..6])];
    let mut cases = vec![
        case("ConcatV2").list(&pair).int(1),
        case("ConcatV2").list(&pair).tensor(Tensor::scalar(-1i64)),
        case("Pack").list(&alike).number("axis", 1),
        case("Unpack").x(&[2, 3], &X[..6]).number("num", 3).number("axis", 1),
        case("Split").int(1).x(&[2, 4], &X[..8]).number("num_split", 2),
        case("Split").int(0).x(&[2, 4], &X[..8]).number("num_split", 1),
        case("SplitV").x(&[4, 2], &X[..8]).ints(&[1, 3]).int(0).number("num_split", 2),
        case("DynamicPartition")
            .x(&[4, 2], &X[..8])
            .ints(&[1, 0, 2, 1])
            .number("num_partitions", 3),
        case("DynamicPartition")
            .x(&[2, 2], &X[..4])
            .tensor(ints(&[2, 2], &[1, 0, 0, 1]))
            .number("num_partitions", 2),
    ];
    for op in ["DynamicStitch", "ParallelDynamicStitch"] {
        let data: [(&[i64], &[f64]); 2] = [(&[2, 2], &X[..4]), (&[1, 2], &X[4..6])];
        cases.push(case(op).int_list(&[&[2, 0], &[1]]).list(&data));
    }
    cases
}

fn parts() -> Vec<Case> {
    let strided = |begin: Tensor, end: Tensor, strides: Tensor| {
        case("StridedSlice").x(&[4, 6], &X).tensor(begin).tensor(end).tensor(strides)
    };
    vec![
        case("Slice").x(&[4, 6], &X).ints(&[1, 2]).ints(&[2, -1]),
        case("Slice").x(&[4, 6], &X).tensor(longs(&[2], &[0, 1])).tensor(longs(&[2], &[3, 4])),
        case("Pad").x(&[2, 3], &X[..6]).tensor(ints(&[2, 2], &[1, 0, 2, 1])),
        case("Pad").x(&[2, 3], &X[..6]).tensor(longs(&[2, 2], &[0, 1, 1, 0])),
        case("PadV2").x(&[2, 3], &X[..6]).tensor(ints(&[2, 2], &[1, 0, 2, 1])).fixed(&[], &[0.5]),
        strided(ints(&[2], &[3, 0]), ints(&[2], &[0, 6]), ints(&[2], &[-1, 2])),
        strided(longs(&[1], &[1]), longs(&[1], &[3]), longs(&[1], &[1])),
        strided(shorts(&[1], &[1]), shorts(&[1], &[3]), shorts(&[1], &[1])),
        strided(ints(&[2], &[-1, 0]), ints(&[2], &[0, 0]), ints(&[2], &[1, 1]))
            .number("shrink_axis_mask", 1)
            .number("new_axis_mask", 2),
    ]
}

fn lookups() -> Vec<Case> {
    let gather = |indices: Tensor, axis: Tensor, batch_dims: i64| {
        case("GatherV2")
            .x(&[2, 3, 4], &X)
            .tensor(indices)
            .tensor(axis)
            .number("batch_dims", batch_dims)
    };
    let positions = || ints(&[3, 1], &[3, 0, 3]);
    vec![
        gather(ints(&[3], &[1, 0, 1]), Tensor::scalar(0i32), 0),
        gather(ints(&[2, 2], &[1, 0, 2, 1]), Tensor::scalar(1i32), 0),
        gather(longs(&[], &[3]), Tensor::scalar(-1i32), 0),
        gather(shorts(&[2], &[2, 2]), Tensor::scalar(1i64), 0),
        gather(ints(&[2, 2], &[1, 0, 2, 2]), Tensor::scalar(1i32), 1),
        gather(longs(&[2, 2], &[1, 0, 3, 3]), Tensor::scalar(-1i32), 1),
        gather(shorts(&[2, 2], &[1, 0, 3, 3]), Tensor::scalar(2i32), -1),
        gather(ints(&[2, 3, 2], &[0, 1, 2, 3, 0, 0, 3, 1, 2, 2, 1, 0]), Tensor::scalar(2i32), 2),
        case("GatherNd").x(&[4, 2], &X[..8]).tensor(positions()),
        case("GatherNd").x(&[2, 3], &X[..6]).tensor(longs(&[2, 2], &[0, 1, 1, 2])),
        case("GatherNd").x(&[2, 3], &X[..6]).tensor(shorts(&[2, 2], &[0, 1, 0, 1])),
        case("ScatterNd").tensor(positions()).x(&[3, 2], &X[..6]).ints(&[4, 2]),
        case("ScatterNdNonAliasingAdd")
            .x(&[4, 2], &X[..8])
            .tensor(positions())
            .x(&[3, 2], &X[8..14]),
    ]
}

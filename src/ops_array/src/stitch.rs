//! Ops that put tensors together row by row: `DynamicStitch`, `ParallelDynamicStitch`.

use tfcore_base::{Result, invalid, require};
use tfcore_framework::movement::{Movement, move_elems};
use tfcore_framework::{InferenceContext, OpContext, Registry, shape_ops};
use tfcore_tensor::{Dim, PartialShape, Shape, Tensor};

pub(crate) fn register(r: &mut Registry) {
    // `DynamicStitch(indices: N * int32, data: N * T) -> merged: T`: `merged[indices[m][i, ..]] = data[m][i, ..]`; later ones
    // win. Rows that no index names are zero.
    r.ops(["DynamicStitch", "ParallelDynamicStitch"], |op| {
        op.shape(stitch_shape).compute(stitch);
    });
}

fn stitch_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let count = ctx.num_inputs() / 2;
    let mut rest = PartialShape::unknown();
    let mut largest = Some(-1);
    for index in 0..count {
        let (indices, data) = (ctx.input(index), ctx.input(count + index));
        if let Some(rank) = indices.rank() {
            shape_ops::merge_prefix(data, indices)?;
            let row = shape_ops::subshape(data, rank as i64, None)?;
            rest = shape_ops::merge(&rest, &row)?;
        }
        let values = ctx.operand_i64s(index)?;
        let last = values.map(|values| values.into_iter().max().unwrap_or(-1));
        largest = largest.zip(last).map(|(a, b)| a.max(b));
    }
    let rows = largest.map_or(Dim::UNKNOWN, |largest| Dim::new(largest + 1));
    ctx.set_output(0, shape_ops::concatenate(&PartialShape::vector(rows), &rest));
    Ok(())
}

fn stitch(ctx: &mut OpContext<'_>) -> Result<()> {
    let count = ctx.num_inputs() / 2;
    let (first_indices, first) = (ctx.input(0)?, ctx.input(count)?);
    check_start(0, first_indices.shape(), first.shape())?;
    let row_dims = first.shape().dims()[first_indices.rank()..].to_vec();
    let mut largest = -1;
    for index in 0..count {
        let (indices, data) = (ctx.input(index)?, ctx.input(count + index)?);
        check_start(index, indices.shape(), data.shape())?;
        require!(
            data.shape().dims()[indices.rank()..] == row_dims[..],
            "Need data[0].shape[{}:] = data[{index}].shape[{}:], got data[0].shape = {}, data[{index}].shape = {}, \
             indices[0].shape = {}, indices[{index}].shape = {}",
            first_indices.rank(),
            indices.rank(),
            first.shape(),
            data.shape(),
            first_indices.shape(),
            indices.shape()
        );
        for (at, &row) in indices.as_slice::<i32>()?.iter().enumerate() {
            require!(row >= 0, "indices[{at}] is out of range");
            largest = largest.max(row);
        }
    }
    let mut dims = vec![i64::from(largest) + 1];
    dims.extend(&row_dims);
    let shape = Shape::new(&dims)?;
    let width = row_dims.iter().product::<i64>() as usize;
    let mut out = Tensor::zeros(first.dtype(), shape)?;
    for index in 0..count {
        let (indices, data) = (ctx.input(index)?, ctx.input(count + index)?);
        let rows = Rows { indices: indices.as_slice::<i32>()?, width };
        move_elems(data.elems(), out.elems_mut()?, rows);
    }
    ctx.set_output(0, out);
    Ok(())
}

fn check_start(index: usize, indices: &Shape, data: &Shape) -> Result<()> {
    if data.dims().starts_with(indices.dims()) {
        return Ok(());
    }
    Err(invalid!(
        "data[{index}].shape = {data} does not start with indices[{index}].shape = {indices}"
    ))
}

/// Puts each row of the source where its index says.
struct Rows<'a> {
    indices: &'a [i32],
    width: usize,
}

impl Movement for Rows<'_> {
    fn run<E: Clone>(self, source: &[E], out: &mut [E]) {
        if self.width == 0 {
            return;
        }
        for (row, &to) in source.chunks_exact(self.width).zip(self.indices) {
            let start = to as usize * self.width;
            out[start..start + self.width].clone_from_slice(row);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::*;
    use tfcore_framework::AttrValue;

    fn attrs(count: i64) -> [(&'static str, AttrValue); 2] {
        [("N", AttrValue::Int(count)), int32()]
    }

    #[test]
    fn rows_go_where_their_indices_say() {
        for op in ["DynamicStitch", "ParallelDynamicStitch"] {
            let flat = [ints(&[0, 1]), ints(&[3]), ints(&[5, 6]), ints(&[7])];
            assert_eq!(values::<i32>(op, &attrs(2), &flat).unwrap().1, [5, 6, 0, 7]);
            let rows =
                [ints(&[1, 0]), Tensor::scalar(1), tensor(&[2, 2], &[1, 2, 3, 4]), ints(&[7, 8])];
            assert_eq!(
                values::<i32>(op, &attrs(2), &rows).unwrap(),
                (vec![2, 2], vec![3, 4, 7, 8])
            );
            let nothing = [ints(&[]), tensor::<i32>(&[0, 2], &[])];
            assert_eq!(values::<i32>(op, &attrs(1), &nothing).unwrap(), (vec![0, 2], vec![]));
        }
    }

    #[test]
    fn what_does_not_fit() {
        let cases = [
            (
                vec![ints(&[0, 1]), ints(&[3, 4, 5])],
                "data[0].shape = [3] does not start with indices[0].shape = [2]",
            ),
            (vec![ints(&[0, -1]), ints(&[3, 4])], "indices[1] is out of range"),
            (
                vec![ints(&[0]), ints(&[3]), tensor(&[1, 1], &[5]), ints(&[7])],
                "Need data[0].shape[1:] = data[1].shape[1:], got data[0].shape = [1,1], data[1].shape = [1], \
                 indices[0].shape = [1], indices[1].shape = [1]",
            ),
        ];
        for (inputs, message) in cases {
            let count = inputs.len() as i64 / 2;
            assert_eq!(failure("DynamicStitch", &attrs(count), &inputs), message);
        }
    }

    #[test]
    fn shapes_follow_constant_indices() {
        let known = [(0, ints(&[0, 4]))];
        assert_eq!(shapes("DynamicStitch", &attrs(1), "[2];[2,3]", &known), "[5,3]");
        assert_eq!(shapes("DynamicStitch", &attrs(1), "[2];[2,?]", &[]), "[?,?]");
        assert_eq!(shapes("DynamicStitch", &attrs(1), "?;[2,?]", &[]), "?");
    }
}

//! `DynamicPartition`: rows dealt out to several tensors.

use tfcore_base::{Result, invalid, require};
use tfcore_framework::movement::{Movement, move_elems};
use tfcore_framework::{InferenceContext, OpContext, Registry, shape_ops};
use tfcore_tensor::{Dim, PartialShape, Shape};

pub(crate) fn register(r: &mut Registry) {
    // `DynamicPartition(data: T, partitions: int32) -> outputs: num_partitions * T`: output `p` has the rows `data[i, ..]`
    // for which `partitions[i]` is `p`, in order.
    r.op("DynamicPartition").shape(partition_shape).compute(partition);
}

fn partition_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let (data, partitions) = (ctx.input(0), ctx.input(1));
    let Some(rank) = partitions.rank() else {
        return Ok(());
    };
    shape_ops::merge_prefix(data, partitions)?;
    let row = shape_ops::subshape(data, rank as i64, None)?;
    let rows = PartialShape::vector(Dim::fresh());
    let shape = shape_ops::concatenate(&rows, &row);
    for index in 0..ctx.num_outputs() {
        ctx.set_output(index, shape.clone());
    }
    Ok(())
}

fn partition(ctx: &mut OpContext<'_>) -> Result<()> {
    let (data, partitions) = (ctx.input(0)?, ctx.input(1)?);
    require!(
        data.shape().starts_with(partitions.shape()),
        "data.shape must start with partitions.shape, got data.shape = {}, partitions.shape = {}",
        data.shape(),
        partitions.shape()
    );
    let row_dims = data.shape()[partitions.rank()..].to_vec();
    let width = row_dims.iter().product::<i64>() as usize;
    let mut rows = vec![Vec::new(); ctx.num_outputs()];
    for (row, &to) in partitions.as_slice::<i32>()?.iter().enumerate() {
        let count = rows.len();
        usize::try_from(to)
            .ok()
            .and_then(|to| rows.get_mut(to))
            .ok_or_else(|| {
                let at = partitions.shape().coordinates(row);
                invalid!("partitions{at} = {to} is not in [0, {count})")
            })?
            .push(row);
    }
    let mut outputs = Vec::with_capacity(rows.len());
    for (index, rows) in rows.iter().enumerate() {
        let dims = [&[rows.len() as i64], &row_dims[..]].concat();
        let mut out = ctx.allocate_output(index, Shape::new(&dims)?)?;
        move_elems(data.elems(), out.elems_mut()?, Rows { rows, width });
        outputs.push(out);
    }
    for (index, out) in outputs.into_iter().enumerate() {
        ctx.set_output(index, out);
    }
    Ok(())
}

/// Copies rows of the source, given by number.
struct Rows<'a> {
    rows: &'a [usize],
    width: usize,
}

impl Movement for Rows<'_> {
    fn run<E: Clone>(self, source: &[E], out: &mut [E]) {
        if self.width == 0 {
            return;
        }
        for (out, row) in out.chunks_exact_mut(self.width).zip(self.rows) {
            let start = row * self.width;
            out.clone_from_slice(&source[start..start + self.width]);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;
    use tfcore_framework::AttrValue;
    use tfcore_tensor::Tensor;

    fn attrs() -> [(&'static str, AttrValue); 2] {
        [int32(), ("num_partitions", AttrValue::Int(2))]
    }

    #[test]
    fn rows_are_dealt_out() {
        let cases = [
            (counting(&[3]), ints(&[0, 1, 0]), [(vec![2], vec![0, 2]), (vec![1], vec![1])]),
            (
                counting(&[2, 2]),
                tensor(&[2, 2], &[0, 1, 1, 0]),
                [(vec![2], vec![0, 3]), (vec![2], vec![1, 2])],
            ),
            (
                counting(&[3]),
                Tensor::scalar(1),
                [(vec![0, 3], vec![]), (vec![1, 3], vec![0, 1, 2])],
            ),
        ];
        for (data, partitions, expected) in cases {
            let found = run("DynamicPartition", &attrs(), &[data, partitions]).unwrap();
            for (found, (dims, elements)) in found.iter().zip(expected) {
                assert_eq!(found.shape().dims(), dims);
                assert_eq!(found.as_slice::<i32>().unwrap(), elements);
            }
        }
    }

    #[test]
    fn what_does_not_fit() {
        let cases = [
            (ints(&[0, 2, 0]), "partitions[1] = 2 is not in [0, 2)"),
            (ints(&[0, -1, 0]), "partitions[1] = -1 is not in [0, 2)"),
            (
                ints(&[0, 1]),
                "data.shape must start with partitions.shape, got data.shape = [3], partitions.shape = [2]",
            ),
        ];
        for (partitions, message) in cases {
            let inputs = [counting(&[3]), partitions];
            assert_eq!(failure("DynamicPartition", &attrs(), &inputs), message);
        }
        assert_eq!(shapes("DynamicPartition", &attrs(), "[2,3,4];[2,?]", &[]), "[?,4];[?,4]");
        assert_eq!(shapes("DynamicPartition", &attrs(), "[2,3,4];?", &[]), "?;?");
    }
}

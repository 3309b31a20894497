//! Slices of a tensor changed at places given by tuples of indices: `TensorScatterUpdate` and its relatives.

use tfcore_base::{Numbers, RealNumbers, Result, invalid, require};
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_ops,
};
use tfcore_tensor::Shape;

use crate::combine::{Add, Combine, Max, Min, Replace, RowLoop, Sub};
use crate::scatter_nd::{check_static, ignores_bad_indices, rows};

pub(crate) fn register(r: &mut Registry) {
    // `TensorScatterUpdate(tensor: T, indices: Tindices, updates: T) -> output: T`: the tensor with
    // `output[indices[i.., 0], indices[i.., 1], .., ..] = updates[i.., ..]`, in order.
    r.op("TensorScatterUpdate").shape(scatter_shape).cpu(|init| scatter_kernel(init, Replace::run));
    // `TensorScatterAdd(tensor: T, indices: Tindices, updates: T) -> output: T`, likewise with `+=`.
    r.op("TensorScatterAdd")
        .shape(scatter_shape)
        .typed_kernel::<Combine<Add>, Numbers>("T", scatter_kernel);
    // `TensorScatterSub(tensor: T, indices: Tindices, updates: T) -> output: T`, with `-=`.
    r.op("TensorScatterSub")
        .shape(scatter_shape)
        .typed_kernel::<Combine<Sub>, Numbers>("T", scatter_kernel);
    // `TensorScatterMin(tensor: T, indices: Tindices, updates: T) -> output: T`, with the smaller one.
    r.op("TensorScatterMin")
        .shape(scatter_shape)
        .typed_kernel::<Combine<Min>, RealNumbers>("T", scatter_kernel);
    // `TensorScatterMax(tensor: T, indices: Tindices, updates: T) -> output: T`, with the larger one.
    r.op("TensorScatterMax")
        .shape(scatter_shape)
        .typed_kernel::<Combine<Max>, RealNumbers>("T", scatter_kernel);
}

fn scatter_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let tensor = shape_ops::with_rank_at_least(ctx.input(0), 1)?;
    let indices = shape_ops::with_rank_at_least(ctx.input(1), 1)?;
    let updates = shape_ops::with_rank_at_least(ctx.input(2), 1)?;
    check_static(&indices, &updates, &tensor, "input")?;
    ctx.set_output(0, tensor);
    Ok(())
}

fn scatter_kernel(init: &KernelInit<'_>, run: RowLoop) -> Result<Box<dyn Kernel>> {
    let ignores = ignores_bad_indices(init)?;
    kernel(move |ctx| scatter(ctx, ignores, run))
}

fn scatter(ctx: &mut OpContext<'_>, ignores: bool, run: RowLoop) -> Result<()> {
    let (tensor, indices, updates) = (ctx.input(0)?, ctx.input(1)?, ctx.input(2)?);
    let depth = check_shapes(tensor.shape(), indices.shape(), updates.shape())?;
    let rows = rows(indices, &tensor.shape()[..depth], tensor.shape(), ignores)?;
    let width = tensor.shape()[depth..].iter().product::<i64>() as usize;
    let mut out = ctx.take_or_copy_input(0)?;
    if width > 0 {
        run(out.elems_mut()?, ctx.input(2)?.elems(), &rows, width);
    }
    ctx.set_output(0, out);
    Ok(())
}

/// The length of the tuples of indices.
fn check_shapes(tensor: &Shape, indices: &Shape, updates: &Shape) -> Result<usize> {
    let [batch @ .., depth] = indices.dims() else {
        return Err(invalid!("Indices shape must have rank at least one. Found:{indices}"));
    };
    require!(updates.rank() >= 1, "Updates shape must have rank at least one. Found:{updates}");
    let outer = batch.len();
    require!(
        updates.starts_with(batch),
        "Outer dimensions of indices and update must match. Indices shape: {indices}, updates shape:{updates}"
    );
    let inner = updates.rank() - outer;
    require!(
        inner as i64 == tensor.rank() as i64 - depth,
        "Inner dimensions of output shape must match inner dimensions of updates shape. Output: {tensor} updates: \
         {updates}"
    );
    let depth = *depth as usize;
    require!(
        updates[outer..] == tensor[depth..],
        "The inner {inner} dimensions of output.shape={tensor} must match the inner {inner} dimensions of \
         updates.shape={updates}"
    );
    let counts = [tensor.count(), indices.count(), updates.count()];
    require!(
        counts[1..] == [0, 0] || !counts.contains(&0),
        "Indices and updates specified for empty output shape"
    );
    Ok(depth)
}

#[cfg(test)]
mod tests {
    use crate::testing::*;
    use tfcore_base::DType;
    use tfcore_framework::AttrValue;
    use tfcore_tensor::Tensor;

    fn attrs(policy: &str) -> [(&'static str, AttrValue); 3] {
        [int32(), ("Tindices", of(DType::INT32)), ("bad_indices_policy", AttrValue::string(policy))]
    }

    #[test]
    fn slices_are_changed() {
        let inputs = [ints(&[5, 6, 7]), tensor(&[3, 1], &[2, 0, 2]), ints(&[9, 3, 8])];
        let cases = [
            ("TensorScatterUpdate", [3, 6, 8]),
            ("TensorScatterAdd", [8, 6, 24]),
            ("TensorScatterSub", [2, 6, -10]),
            ("TensorScatterMin", [3, 6, 7]),
            ("TensorScatterMax", [5, 6, 9]),
        ];
        for (op, expected) in cases {
            assert_eq!(values::<i32>(op, &attrs(""), &inputs).unwrap().1, expected, "{op}");
        }
        let rows = [counting(&[2, 2]), tensor(&[1, 1], &[1]), tensor(&[1, 2], &[8, 9])];
        let found = values::<i32>("TensorScatterUpdate", &attrs(""), &rows).unwrap();
        assert_eq!(found, (vec![2, 2], vec![0, 1, 8, 9]));
    }

    #[test]
    fn what_does_not_fit() {
        let x = || counting(&[4]);
        let cases = [
            (
                x(),
                tensor(&[1, 1], &[9]),
                ints(&[1]),
                "indices[0] = [9] does not index into shape [4]",
            ),
            (
                x(),
                tensor(&[1, 1], &[1]),
                ints(&[1, 2]),
                "Outer dimensions of indices and update must match. Indices shape: [1,1], updates shape:[2]",
            ),
            (
                x(),
                tensor(&[1, 2], &[0, 0]),
                ints(&[1]),
                "Inner dimensions of output shape must match inner dimensions of updates shape. Output: [4] updates: [1]",
            ),
            (
                counting(&[2, 2]),
                tensor(&[1, 1], &[0]),
                tensor(&[1, 3], &[1, 2, 3]),
                "The inner 1 dimensions of output.shape=[2,2] must match the inner 1 dimensions of updates.shape=[1,3]",
            ),
            (
                x(),
                Tensor::scalar(1),
                ints(&[1]),
                "Indices shape must have rank at least one. Found:[]",
            ),
            (
                ints(&[]),
                tensor(&[1, 1], &[0]),
                ints(&[1]),
                "Indices and updates specified for empty output shape",
            ),
        ];
        for (tensor, indices, updates, message) in cases {
            let inputs = [tensor, indices, updates];
            assert_eq!(failure("TensorScatterUpdate", &attrs(""), &inputs), message);
        }
        let bad = [x(), tensor(&[2, 1], &[9, 1]), ints(&[5, 6])];
        let found = values::<i32>("TensorScatterAdd", &attrs("IGNORE"), &bad).unwrap();
        assert_eq!(found.1, [0, 7, 2, 3]);
    }
}

//! Ops that cut a tensor into several: `Split`, `SplitV`, `Unpack`.

use tfcore_base::{Result, invalid, require};
use tfcore_framework::geometry::StridedView;
use tfcore_framework::movement::copy_view;
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_ops,
};
use tfcore_tensor::{Dim, PartialShape, Shape, Tensor};

use crate::concat::pack_axis;

pub(crate) fn register(r: &mut Registry) {
    // `Split(split_dim: int32, value: T) -> output: num_split*T`, parts of one size.
    r.op("Split").shape(split_shape).compute(split);
    // `SplitV(value: T, size_splits: Tlen, split_dim: int32) -> output: num_split*T`.
    r.op("SplitV").shape(split_v_shape).compute(split_v);
    // `Unpack(value: T) -> output: num*T`, the slices along an axis.
    r.op("Unpack").shape(unpack_shape).cpu(unpack_kernel);
}

/// The axis in the scalar operand `index`, as far as it and the rank are known.
fn split_axis(
    ctx: &InferenceContext<'_>,
    index: usize,
    rank: Option<usize>,
) -> Result<Option<usize>> {
    let Some(axis) = ctx.operand_i64(index)? else {
        return Ok(None);
    };
    let Some(rank) = rank.map(|rank| rank as i64) else {
        return Ok(usize::try_from(axis).ok());
    };
    require!(
        (-rank..rank).contains(&axis),
        "Dimension size, given by scalar input {axis} must be in range [-{rank}, {rank})"
    );
    Ok(Some(axis.rem_euclid(rank) as usize))
}

fn split_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let input = ctx.input(1);
    let axis = split_axis(ctx, 0, input.rank())?;
    let parts = ctx.num_outputs() as i64;
    let shape = match (axis, input.dims()) {
        (_, None) => PartialShape::unknown(),
        (None, Some(dims)) => PartialShape::of_rank(dims.len()),
        (Some(axis), Some(dims)) => {
            let size = shape_ops::divide(dims[axis], parts, true).map_err(|error| {
                let message = format!(
                    "{}\n\tNumber of ways to split should evenly divide the split dimension",
                    error.message()
                );
                error.with_message(message)
            })?;
            shape_ops::replace_dim(input, axis as i64, size)?
        }
    };
    for index in 0..ctx.num_outputs() {
        ctx.set_output(index, shape.clone());
    }
    Ok(())
}

fn split_v_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let input = ctx.input(0);
    let axis = split_axis(ctx, 2, input.rank())?;
    let sizes = ctx.operand_i64s(1)?;
    let Some(dims) = input.dims() else {
        return Ok(());
    };
    require!(!dims.is_empty(), "Can't split scalars");
    let (axis, sizes) = match (axis, sizes) {
        // The reference takes an unknown axis for the last one if it knows the sizes.
        (axis, Some(sizes)) => (axis.unwrap_or(dims.len() - 1), sizes),
        (Some(axis), None) => (axis, Vec::new()),
        (None, None) => {
            for index in 0..ctx.num_outputs() {
                ctx.set_output(index, PartialShape::of_rank(dims.len()));
            }
            return Ok(());
        }
    };
    let sizes = if sizes.is_empty() {
        vec![Dim::UNKNOWN; ctx.num_outputs()]
    } else {
        known_sizes(&sizes, dims[axis], ctx.num_outputs())?
    };
    for (index, size) in sizes.into_iter().enumerate() {
        let shape = shape_ops::replace_dim(input, axis as i64, size)?;
        ctx.set_output(index, shape);
    }
    Ok(())
}

/// The sizes of the parts, of which one may be -1, of a dimension that may be unknown.
fn known_sizes(sizes: &[i64], dim: Dim, outputs: usize) -> Result<Vec<Dim>> {
    require!(sizes.len() == outputs, "Length of size_splits should be equal to num_outputs");
    require!(
        sizes.iter().filter(|&&size| size == -1).count() <= 1,
        "size_splits can only have one -1"
    );
    let total = sum(sizes)?;
    let mut parts = Vec::with_capacity(sizes.len());
    for (index, &size) in sizes.iter().enumerate() {
        let rest = dim.value().filter(|_| size == -1).map(|dim| dim.saturating_sub(total));
        let known = rest.unwrap_or(size);
        require!(
            known >= 0 || (known == -1 && !dim.is_known()),
            "Split size at index {index} must be >= 0. Got: {known}"
        );
        parts.push(Dim::new(known));
    }
    if let Some(dim) = dim.value() {
        require!(
            sizes.contains(&-1) || total == dim,
            "can't split axis of size {dim} into pieces of size [{}]",
            sizes.iter().map(i64::to_string).collect::<Vec<_>>().join(",")
        );
    }
    Ok(parts)
}

/// The sum of the sizes that are not -1.
fn sum(sizes: &[i64]) -> Result<i64> {
    sizes
        .iter()
        .filter(|&&size| size != -1)
        .try_fold(0i64, |sum, &size| sum.checked_add(size))
        .ok_or_else(|| invalid!("The sum of the split sizes overflows"))
}

/// The axis, of which negative ones count from the end.
fn kernel_axis(axis: i64, rank: usize) -> Result<usize> {
    let rank = rank as i64;
    require!(
        (-rank..rank).contains(&axis),
        "-input rank(-{rank}) <= split_dim < input rank ({rank}), but got {axis}"
    );
    Ok(axis.rem_euclid(rank) as usize)
}

fn split(ctx: &mut OpContext<'_>) -> Result<()> {
    let (axis, input) = (ctx.input(0)?, ctx.input(1)?);
    require!(axis.rank() == 0, "split_dim must be a scalar but has rank {}", axis.rank());
    let axis = kernel_axis(axis.to_i64s()?[0], input.rank())?;
    let (parts, size) = (ctx.num_outputs(), input.dim(axis));
    require!(
        size.is_multiple_of(parts),
        "Number of ways to split should evenly divide the split dimension, but got split_dim {axis} (size = \
         {size}) and num_split {parts}"
    );
    let input = ctx.take_input(1)?;
    output_parts(ctx, &input, axis, &vec![size / parts; parts], true)
}

fn split_v(ctx: &mut OpContext<'_>) -> Result<()> {
    let (input, sizes, axis) = (ctx.input(0)?, ctx.input(1)?, ctx.input(2)?);
    require!(axis.count() == 1, "split_dim_tensor must have exactly one element.");
    let outputs = ctx.num_outputs();
    require!(
        sizes.rank() == 1 && sizes.count() == outputs,
        "size of the split_tensor must be 1-D and have the same elements as outputs got {} -D and {} \
         elements",
        sizes.rank(),
        sizes.count()
    );
    let axis = kernel_axis(axis.to_i64s()?[0], input.rank())?;
    let sizes = resolve_sizes(sizes.to_i64s()?, input.shape()[axis])?;
    let input = ctx.take_input(0)?;
    output_parts(ctx, &input, axis, &sizes, true)
}

/// The sizes of the parts of a dimension, one of which may be given as -1.
fn resolve_sizes(mut sizes: Vec<i64>, dim: i64) -> Result<Vec<usize>> {
    if let [size] = sizes[..] {
        require!(
            size == dim || size == -1,
            "If there is only one output, it must have the same size as the input. Input size: {dim} \
             output size: {size}"
        );
    }
    let open = sizes.iter().position(|&size| size == -1);
    require!(
        sizes.iter().filter(|&&size| size == -1).count() <= 1,
        "There can only be one -1 in the input."
    );
    let total = sum(&sizes)?;
    require!(
        if open.is_some() { total <= dim } else { total == dim },
        "Determined shape must either match input shape along split_dim exactly if fully specified, or be \
         less than the size of the input along split_dim if not fully specified.  Got: {total}"
    );
    if let Some(open) = open {
        sizes[open] = dim.saturating_sub(total);
    }
    for (index, size) in sizes.iter().enumerate() {
        require!(*size >= 0, "Split size at index {index} must be >= 0. Got: {size}");
    }
    Ok(sizes.into_iter().map(|size| size as usize).collect())
}

/// Sets output `i` to the next `sizes[i]` indices of `input` along `axis`: shared where they are whole rows
/// at an aligned address. Without `keep_axis`, which needs sizes of 1, the axis is dropped.
fn output_parts(
    ctx: &mut OpContext<'_>,
    input: &Tensor,
    axis: usize,
    sizes: &[usize],
    keep_axis: bool,
) -> Result<()> {
    let mut begin = vec![0; input.rank()];
    let mut lens = input.shape().to_usizes();
    // With nothing but dimensions of size 1 before it, parts along the axis are rows.
    let rows = match lens[..axis].iter().all(|&size| size == 1) {
        true => Some(input.clone().with_shape(Shape::new(&input.shape().dims()[axis..])?)?),
        false => None,
    };
    for (index, &size) in sizes.iter().enumerate() {
        lens[axis] = size;
        let mut dims: Vec<i64> = lens.iter().map(|&size| size as i64).collect();
        if !keep_axis {
            dims.remove(axis);
        }
        let shape = Shape::new(&dims)?;
        let shared = rows.as_ref().and_then(|rows| rows.share_rows(begin[axis], size));
        let out = match shared {
            Some(part) => part.with_shape(shape)?,
            None => {
                let view = StridedView::boxed(input.shape(), &begin, &lens);
                let mut out = ctx.allocate_output(index, shape)?;
                copy_view(ctx.parallel(), input.elems(), &view, out.elems_mut()?);
                out
            }
        };
        ctx.set_output(index, out);
        begin[axis] += size;
    }
    Ok(())
}

fn unpack_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let Some(dims) = ctx.input(0).dims() else {
        return Ok(());
    };
    let axis = pack_axis(ctx, dims.len())?;
    shape_ops::with_value(dims[axis], ctx.num_outputs() as i64)?;
    let mut dims = dims.to_vec();
    dims.remove(axis);
    let shape: PartialShape = dims.into_iter().collect();
    for index in 0..ctx.num_outputs() {
        ctx.set_output(index, shape.clone());
    }
    Ok(())
}

fn unpack_kernel(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let axis = init.attrs.int("axis")?;
    kernel(move |ctx| {
        let input = ctx.input(0)?;
        let rank = input.rank() as i64;
        require!((-rank..rank).contains(&axis), "axis = {axis} not in [{}, {rank})", -rank);
        let axis = axis.rem_euclid(rank) as usize;
        let outputs = ctx.num_outputs();
        require!(
            input.dim(axis) == outputs,
            "Input shape axis {axis} must equal {outputs}, got shape {}",
            input.shape()
        );
        let input = ctx.take_input(0)?;
        output_parts(ctx, &input, axis, &vec![1; outputs], false)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::*;
    use tfcore_framework::AttrValue;

    fn parts(out: Vec<Tensor>) -> Vec<Vec<i32>> {
        out.iter().map(|part| part.as_slice::<i32>().unwrap().to_vec()).collect()
    }

    #[test]
    fn splitting() {
        let attrs = [int32(), ("num_split", AttrValue::Int(2))];
        let out = run("Split", &attrs, &[Tensor::scalar(1i32), counting(&[2, 4])]).unwrap();
        assert_eq!(parts(out), [[0, 1, 4, 5], [2, 3, 6, 7]]);
        let v =
            [int32(), ("num_split", AttrValue::Int(2)), ("Tlen", of(tfcore_base::DType::INT32))];
        let out =
            run("SplitV", &v, &[counting(&[2, 3]), ints(&[-1, 1]), Tensor::scalar(-1i32)]).unwrap();
        assert_eq!(parts(out), [vec![0, 1, 3, 4], vec![2, 5]]);
        let uneven = failure("Split", &attrs, &[Tensor::scalar(0i32), counting(&[5])]);
        assert!(uneven.contains("but got split_dim 0 (size = 5) and num_split 2"), "{uneven}");
    }

    #[test]
    fn unpacking_drops_the_axis() {
        let attrs = [int32(), ("num", AttrValue::Int(3)), ("axis", AttrValue::Int(-1))];
        let out = run("Unpack", &attrs, &[counting(&[2, 3])]).unwrap();
        assert_eq!(out[2].shape().dims(), [2]);
        assert_eq!(parts(out), [[0, 3], [1, 4], [2, 5]]);
        assert_eq!(shapes("Unpack", &attrs, "[?,3]", &[]), "[?];[?];[?]");
    }

    #[test]
    fn shapes_of_parts() {
        let v =
            [int32(), ("num_split", AttrValue::Int(2)), ("Tlen", of(tfcore_base::DType::INT32))];
        let axis = (2, Tensor::scalar(1i32));
        let cases = [
            ("[5,6];[2];[]", vec![axis.clone(), (1, ints(&[2, -1]))], "[5,2];[5,4]"),
            ("[5,?];[2];[]", vec![axis.clone(), (1, ints(&[2, -1]))], "[5,2];[5,?]"),
            ("[5,6];[2];[]", vec![axis], "[5,?];[5,?]"),
            ("[5,6];[2];[]", vec![], "[?,?];[?,?]"),
        ];
        for (inputs, constants, expected) in cases {
            assert_eq!(shapes("SplitV", &v, inputs, &constants), expected, "{inputs}");
        }
    }
}

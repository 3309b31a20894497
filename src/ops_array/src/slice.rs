//! Ops that select a regular part: `Slice`, `StridedSlice`, `ReverseV2`, `Reverse`.

use tfcore_base::{Result, invalid, require};
use tfcore_framework::geometry::{
    SliceMasks, SliceSpec, StridedDim, StridedView, check_slice_operands,
};
use tfcore_framework::movement::copy_view;
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_ops,
};
use tfcore_tensor::{Dim, PartialShape, Shape, Tensor};

pub(crate) fn register(r: &mut Registry) {
    // `Slice(input: T, begin: Index, size: Index) -> output: T`; a size of -1 takes all that is left.
    r.op("Slice").shape(slice_shape).compute(slice);
    // `StridedSlice(input: T, begin: Index, end: Index, strides: Index) -> output: T`.
    r.op("StridedSlice").shape(strided_slice_shape).cpu(strided_slice_kernel);
    // `ReverseV2(tensor: T, axis: Tidx) -> output: T`, turned round along each of the axes.
    r.op("ReverseV2").shape(reverse_shape).compute(reverse);
    // `Reverse(tensor: T, dims: bool) -> output: T`, turned round along the axes of which `dims` is true.
    r.op("Reverse").shape(reverse_mask_shape).compute(reverse_by_mask);
}

/// Sets output 0 to the part of input 0 that `view` names: shared where it is a range of whole rows at an
/// aligned address, else copied.
pub(crate) fn output_view(ctx: &mut OpContext<'_>, view: &StridedView, shape: Shape) -> Result<()> {
    if view.is_contiguous() && view.count() > 0 {
        let input = ctx.input(0)?;
        if view.count() == input.count() {
            let out = ctx.take_input(0)?.with_shape(shape)?;
            ctx.set_output(0, out);
            return Ok(());
        }
        let flat = input.clone().with_shape(Shape::vector(input.count()))?;
        if let Some(rows) = flat.share_rows(view.offset, view.count()) {
            ctx.set_output(0, rows.with_shape(shape)?);
            return Ok(());
        }
    }
    let input = ctx.input(0)?.elems();
    ctx.produce(0, shape, |out| copy_view(ctx.parallel(), input, view, out))
}

fn slice_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let begin = shape_ops::with_rank(ctx.input(1), 1)?;
    let size = shape_ops::with_rank(ctx.input(2), 1)?;
    let count = shape_ops::merge(&begin, &size)?.dim(0);
    let input = match count.value().and_then(|rank| usize::try_from(rank).ok()) {
        Some(rank) => shape_ops::with_rank(ctx.input(0), rank)?,
        None => ctx.input(0).clone(),
    };
    // `begin` is no shape, but this is how its known values are found.
    let begin = ctx.operand_shape(1)?;
    let sizes = ctx.operand_shape(2)?;
    let shape = match (ctx.operand_i64s(2)?, sizes.rank()) {
        (Some(sizes), _) => {
            let begin = shape_ops::with_rank(&begin, sizes.len())?;
            sliced(&input, &begin, &sizes)?
        }
        // Sizes that are no constants are taken as a shape, in which no -1 occurs.
        (None, Some(_)) => sizes,
        (None, None) => input.rank().map_or_else(PartialShape::unknown, PartialShape::of_rank),
    };
    ctx.set_output(0, shape);
    Ok(())
}

/// The shape of a slice of known sizes, of which -1 is what is left behind `begin`.
fn sliced(input: &PartialShape, begin: &PartialShape, sizes: &[i64]) -> Result<PartialShape> {
    let dims = sizes.iter().enumerate().map(|(axis, &size)| match size {
        -1 => shape_ops::subtract(input.dim(axis), begin.dim(axis)),
        0.. => Ok(Dim::new(size)),
        _ => Err(invalid!(
            "Out of bounds slicing on dimension {axis} of length {}: sizes vector cannot be < -1, but was \
             {size}",
            input.dim(axis)
        )),
    });
    Ok(dims.collect::<Result<Vec<Dim>>>()?.into_iter().collect())
}

fn slice(ctx: &mut OpContext<'_>) -> Result<()> {
    let (input, begin, size) = (ctx.input(0)?, ctx.input(1)?, ctx.input(2)?);
    let rank = input.rank();
    require!(
        begin.rank() == 1 && size.rank() == 1 && begin.count() == rank && size.count() == rank,
        "Expected begin and size arguments to be 1-D tensors of size {rank}, but got shapes {} and {} \
         instead.",
        begin.shape(),
        size.shape()
    );
    let (begin, size) = (begin.to_i64s()?, size.to_i64s()?);
    let mut starts = Vec::with_capacity(rank);
    let mut sizes = Vec::with_capacity(rank);
    for axis in 0..rank {
        let (b, dim) = (begin[axis], input.shape()[axis]);
        let s = if size[axis] == -1 { dim.saturating_sub(b) } else { size[axis] };
        if dim == 0 {
            require!(
                b == 0 && s == 0,
                "Expected begin[{axis}] == 0 (got {b}) and size[{axis}] == 0 (got {s}) when \
                 input.dim_size({axis}) == 0"
            );
        } else {
            require!((0..=dim).contains(&b), "Expected begin[{axis}] in [0, {dim}], but got {b}");
            require!(
                (0..=dim - b).contains(&s),
                "Expected size[{axis}] in [0, {}], but got {s}",
                dim - b
            );
        }
        starts.push(b as usize);
        sizes.push(s as usize);
    }
    let dims: Vec<i64> = sizes.iter().map(|&size| size as i64).collect();
    let view = StridedView::boxed(input.shape(), &starts, &sizes);
    output_view(ctx, &view, Shape::new(&dims)?)
}

fn strided_slice_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let mut operand = shape_ops::with_rank(ctx.input(1), 1)?;
    let others = [shape_ops::with_rank(ctx.input(2), 1)?, shape_ops::with_rank(ctx.input(3), 1)?];
    for other in others {
        operand = shape_ops::merge(&operand, &other)?;
    }
    let strides = ctx.operand_i64s(3)?;
    let (Some(dims), true, Some(strides)) =
        (ctx.input(0).dims(), operand.dim(0).is_known(), strides)
    else {
        return Ok(());
    };
    let (begin, end) = (ctx.operand_i64s(1)?, ctx.operand_i64s(2)?);
    let masks = SliceMasks::from_attrs(ctx.attrs)?;
    let spec = SliceSpec { begin: begin.as_deref(), end: end.as_deref(), strides: &strides, masks };
    let shape = spec.dense(dims)?.output().clone();
    ctx.set_output(0, shape);
    ctx.forward_handle(0, 0);
    Ok(())
}

fn strided_slice_kernel(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let masks = SliceMasks::from_attrs(init.attrs)?;
    kernel(move |ctx| {
        let operands = [ctx.input(1)?, ctx.input(2)?, ctx.input(3)?];
        let [begin, end, strides] = operands.map(Tensor::shape);
        check_slice_operands(begin, end, strides)?;
        let [begin, end, strides] = operands.map(Tensor::to_i64s);
        let (begin, end, strides) = (begin?, end?, strides?);
        let spec = SliceSpec { begin: Some(&begin), end: Some(&end), strides: &strides, masks };
        let input = ctx.input(0)?.shape();
        let dims = PartialShape::from(input);
        let slice = spec.dense(dims.dims().unwrap_or_default())?;
        let view = slice.view(input);
        let shape = slice
            .output()
            .to_shape()
            .ok_or_else(|| invalid!("Invalid shape {} of the slice", slice.output()))?;
        output_view(ctx, &view, shape)
    })
}

fn reverse_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let input = ctx.input(0);
    let axes_shape = shape_ops::with_rank(ctx.input(1), 1)?;
    if let (Some(rank), Some(count)) = (input.rank(), axes_shape.dim(0).value()) {
        require!(
            count <= rank as i64,
            "reverse does not work on tensors with more axes than its rank"
        );
    }
    if let (Some(axes), Some(rank)) = (ctx.operand_i64s(1)?, input.rank()) {
        reversed_axes(&axes, rank)?;
    }
    ctx.set_output(0, input.clone());
    Ok(())
}

/// Which of `rank` axes are reversed.
fn reversed_axes(axes: &[i64], rank: usize) -> Result<Vec<bool>> {
    let mut reversed = vec![false; rank];
    let rank = rank as i64;
    for (index, &axis) in axes.iter().enumerate() {
        let canonical = if axis < 0 { axis.saturating_add(rank) } else { axis };
        require!(
            (0..rank).contains(&canonical),
            "'axis'[{index}] = {axis} is out of valid range [0, {}",
            rank - 1
        );
        require!(
            !std::mem::replace(&mut reversed[canonical as usize], true),
            "axis {canonical} specified more than once."
        );
    }
    Ok(reversed)
}

fn reverse(ctx: &mut OpContext<'_>) -> Result<()> {
    let (input, axes) = (ctx.input(0)?, ctx.input(1)?);
    if input.rank() == 0 {
        let out = ctx.take_input(0)?;
        ctx.set_output(0, out);
        return Ok(());
    }
    require!(axes.rank() == 1, "'dims' must be 1-dimension, not {}", axes.rank());
    let reversed = reversed_axes(&axes.to_i64s()?, input.rank())?;
    reverse_along(ctx, &reversed)
}

fn reverse_mask_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let mask = shape_ops::with_rank(ctx.input(1), 1)?;
    let rank = mask.dim(0).value().and_then(|rank| usize::try_from(rank).ok());
    let input = match rank {
        Some(rank) => shape_ops::with_rank(ctx.input(0), rank)?,
        None => ctx.input(0).clone(),
    };
    require!(
        input.rank().is_none_or(|rank| rank <= MAX_MASKED_AXES),
        "reverse does not work on tensors with more than {MAX_MASKED_AXES} dimensions"
    );
    ctx.set_output(0, input);
    Ok(())
}

/// The most axes of a tensor that `Reverse` takes.
const MAX_MASKED_AXES: usize = 8;

fn reverse_by_mask(ctx: &mut OpContext<'_>) -> Result<()> {
    let (input, mask) = (ctx.input(0)?, ctx.input(1)?);
    if input.rank() > 0 {
        require!(input.dim(0) > 0, "Invalid input first dimension. Found 0.");
        require!(mask.rank() == 1, "'dims' must be 1-dimension, not {}", mask.rank());
        require!(
            mask.count() == input.rank(),
            "'dims' must have the same number of values as 'input' has dimensions. 'input' has {}'dims' has {} values",
            input.rank(),
            mask.count()
        );
        require!(
            input.rank() <= MAX_MASKED_AXES,
            "reverse is not implemented for tensors of rank > {MAX_MASKED_AXES}"
        );
    }
    let reversed = mask.as_slice::<bool>()?.to_vec();
    reverse_along(ctx, &reversed)
}

/// Sets output 0 to input 0, turned round along the axes that are marked.
fn reverse_along(ctx: &mut OpContext<'_>, reversed: &[bool]) -> Result<()> {
    let shape = ctx.input(0)?.shape().clone();
    let strides = shape.strides();
    let mut offset = 0;
    let mut dims: Vec<StridedDim> = Vec::with_capacity(shape.rank());
    for axis in 0..shape.rank() {
        let (size, stride) = (shape.dim(axis), strides[axis] as isize);
        if reversed[axis] && size > 0 {
            offset += (size - 1) * strides[axis];
        }
        dims.push(StridedDim { size, stride: if reversed[axis] { -stride } else { stride } });
    }
    let view = StridedView::new(offset, dims);
    output_view(ctx, &view, shape)
}

#[cfg(test)]
mod tests {
    use crate::testing::*;
    use tfcore_framework::AttrValue;

    #[test]
    fn boxes() {
        let attrs = [int32(), ("Index", of(tfcore_base::DType::INT32))];
        let x = counting(&[3, 4]);
        let slice = |begin: &[i32], size: &[i32]| [x.clone(), ints(begin), ints(size)];
        let found = values::<i32>("Slice", &attrs, &slice(&[1, 1], &[-1, 2])).unwrap();
        assert_eq!(found, (vec![2, 2], vec![5, 6, 9, 10]));
        assert_eq!(
            failure("Slice", &attrs, &slice(&[1, 1], &[1, 4])),
            "Expected size[1] in [0, 3], but got 4"
        );
        let constants = [(1, ints(&[1, 1])), (2, ints(&[-1, 2]))];
        assert_eq!(shapes("Slice", &attrs, "[3,?];[2];[2]", &constants), "[2,2]");
        assert_eq!(shapes("Slice", &attrs, "?;[2];[2]", &constants), "[?,2]");
        assert_eq!(shapes("Slice", &attrs, "[3,4];?;?", &[]), "[?,?]");
    }

    #[test]
    fn strided_slices() {
        let x = counting(&[3, 4]);
        // x[::-1, 1] and x[-1:, newaxis, ::2]
        let cases: [(&[i32], &[i32], &[i32], [i64; 3], &[i64], &[i32]); 2] = [
            (&[0, 1], &[0, 2], &[-1, 1], [1, 0, 2], &[3], &[9, 5, 1]),
            (&[-1, 0, 0], &[3, 0, 4], &[1, 1, 2], [0, 2, 0], &[1, 1, 2], &[8, 10]),
        ];
        for (begin, end, strides, [open, new_axis, shrink], dims, expected) in cases {
            let attrs = [
                int32(),
                ("Index", of(tfcore_base::DType::INT32)),
                ("begin_mask", AttrValue::Int(open)),
                ("end_mask", AttrValue::Int(open)),
                ("new_axis_mask", AttrValue::Int(new_axis)),
                ("shrink_axis_mask", AttrValue::Int(shrink)),
            ];
            let inputs = [x.clone(), ints(begin), ints(end), ints(strides)];
            let found = values::<i32>("StridedSlice", &attrs, &inputs).unwrap();
            assert_eq!(found, (dims.to_vec(), expected.to_vec()), "{begin:?}");
        }
    }

    #[test]
    fn rows_at_aligned_addresses_are_shared() {
        let attrs = [int32(), ("Index", of(tfcore_base::DType::INT32))];
        let x = counting(&[4, 16]);
        let out = run("Slice", &attrs, &[x.clone(), ints(&[1, 0]), ints(&[2, 16])]).unwrap();
        assert!(out[0].shares_buffer(&x));
        assert_eq!(out[0].as_slice::<i32>().unwrap()[0], 16);
    }

    #[test]
    fn reversal() {
        let reverse = |axes: &[i32]| [counting(&[2, 3]), ints(axes)];
        let found = values::<i32>("ReverseV2", &[int32()], &reverse(&[-1])).unwrap();
        assert_eq!(found.1, [2, 1, 0, 5, 4, 3]);
        let masked = [counting(&[2, 2]), tensor(&[2], &[true, false])];
        assert_eq!(values::<i32>("Reverse", &[int32()], &masked).unwrap().1, [2, 3, 0, 1]);
        let short = [counting(&[2, 2]), tensor(&[1], &[true])];
        assert!(
            failure("Reverse", &[int32()], &short).ends_with("'input' has 2'dims' has 1 values")
        );
        let found = values::<i32>("ReverseV2", &[int32()], &reverse(&[0, 1])).unwrap();
        assert_eq!(found.1, [5, 4, 3, 2, 1, 0]);
        assert_eq!(
            failure("ReverseV2", &[int32()], &reverse(&[0, -2])),
            "axis 0 specified more than once."
        );
    }
}

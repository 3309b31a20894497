//! Ops that join tensors: `Concat`, `ConcatV2`, `ConcatOffset`, `Pack`.

use tfcore_base::{DType, Result, invalid, require};
use tfcore_framework::movement::for_each_units;
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_ops,
};
use tfcore_tensor::{Dim, Elems, ElemsMut, PartialShape, Shape, Tensor};

pub(crate) fn register(r: &mut Registry) {
    // `Concat(concat_dim: int32, values: N*T) -> output: T`.
    r.op("Concat").shape(|ctx| concat_shape(ctx, 0)).compute(|ctx| concat(ctx, 0));
    // `ConcatV2(values: N*T, axis: Tidx) -> output: T`.
    r.op("ConcatV2")
        .shape(|ctx| concat_shape(ctx, ctx.num_inputs() - 1))
        .compute(|ctx| concat(ctx, ctx.num_inputs() - 1));
    // `ConcatOffset(concat_dim: int32, shape: N*shape_type) -> offset: N*shape_type`: where each of the
    // inputs of a concatenation begins in its result.
    r.op("ConcatOffset").shape(concat_offset_shape).compute(concat_offset);
    // `Pack(values: N*T) -> output: T`: along a new axis.
    r.op("Pack").shape(pack_shape).cpu(pack_kernel);
}

/// The indices of the values among `count` inputs of which one is the axis.
fn value_inputs(count: usize, axis_input: usize) -> std::ops::Range<usize> {
    if axis_input == 0 { 1..count } else { 0..count - 1 }
}

fn concat_shape(ctx: &mut InferenceContext<'_>, axis_input: usize) -> Result<()> {
    shape_ops::with_rank(ctx.input(axis_input), 0)?;
    let inputs = &ctx.inputs()[value_inputs(ctx.num_inputs(), axis_input)];
    let rank = inputs.iter().find_map(PartialShape::rank);
    if let Some(rank) = rank {
        require!(rank > 0, "Can't concatenate scalars (use tf.stack instead)");
        for input in inputs {
            shape_ops::with_rank(input, rank)?;
        }
    }
    let Some(axis) = ctx.operand_i64(axis_input)? else {
        ctx.set_output(0, rank.map_or_else(PartialShape::unknown, PartialShape::of_rank));
        return Ok(());
    };
    let min_rank = if axis < 0 { axis.unsigned_abs() } else { axis as u64 + 1 };
    let min_rank = usize::try_from(min_rank).unwrap_or(usize::MAX);
    let mut joined: Option<[PartialShape; 3]> = None;
    for input in inputs.iter().rev() {
        let input = shape_ops::with_rank_at_least(input, min_rank)?;
        let Some(rank) = input.rank() else {
            // The others' sizes are still compared, but the sum is not known.
            joined = joined
                .map(|[before, _, after]| [before, PartialShape::vector(Dim::UNKNOWN), after]);
            joined.get_or_insert_with(|| std::array::from_fn(|_| PartialShape::unknown()));
            continue;
        };
        let middle = shape_ops::resolve_axis(axis, rank)?;
        let part = |from, to: usize| shape_ops::subshape(&input, from as i64, Some(to as i64));
        let (before, after) = (part(0, middle)?, part(middle + 1, rank)?);
        joined = Some(match joined {
            None => [before, part(middle, middle + 1)?, after],
            Some([known_before, known_middle, known_after]) => {
                let sum = shape_ops::add(first(&known_middle), input.dim(middle))?;
                [
                    shape_ops::merge(&before, &known_before)?,
                    PartialShape::vector(sum),
                    shape_ops::merge(&after, &known_after)?,
                ]
            }
        });
    }
    if let Some([before, middle, after]) = joined {
        let shape = shape_ops::concatenate(&shape_ops::concatenate(&before, &middle), &after);
        ctx.set_output(0, shape);
    }
    Ok(())
}

fn first(shape: &PartialShape) -> Dim {
    shape.dims().and_then(|dims| dims.first().copied()).unwrap_or(Dim::UNKNOWN)
}

fn concat(ctx: &mut OpContext<'_>, axis_input: usize) -> Result<()> {
    let axis = ctx.input(axis_input)?;
    let name = if axis_input == 0 { "concat_dim" } else { "axis" };
    require!(
        axis.count() == 1 && axis.rank() <= 1,
        "{name} tensor should be a scalar integer, but got shape {}",
        axis.shape()
    );
    let axis = axis.to_i64s()?[0];
    let range = value_inputs(ctx.num_inputs(), axis_input);
    let first = ctx.input(range.start)?.shape().clone();
    let rank = first.rank() as i64;
    // Scalars could be told apart from vectors only by old graphs, which no longer load.
    require!(
        (-rank..rank).contains(&axis) || rank == 0,
        "ConcatOp : Expected concatenating dimensions in the range [{}, {rank}), but got {axis}",
        -rank
    );
    require!(rank > 0, "Can't concatenate scalars (use tf.stack instead)");
    let axis = axis.rem_euclid(rank) as usize;
    let mut total: i64 = 0;
    for index in range.clone() {
        let shape = ctx.input(index)?.shape();
        let number = index - range.start;
        require!(
            shape.rank() == first.rank(),
            "ConcatOp : Ranks of all input tensors should match: shape[0] = {first} vs. shape[{number}] = \
             {shape}"
        );
        for dim in (0..first.rank()).filter(|&dim| dim != axis) {
            require!(
                shape[dim] == first[dim],
                "ConcatOp : Dimension {dim} in both shapes must be equal: shape[0] = {first} vs. \
                 shape[{number}] = {shape}"
            );
        }
        total = total
            .checked_add(shape[axis])
            .ok_or_else(|| invalid!("ConcatOp : The sizes along the axis overflow"))?;
    }
    let mut dims = first.dims().to_vec();
    dims[axis] = total;
    let shape = Shape::new(&dims)?;
    let inner: usize = shape.to_usizes()[axis + 1..].iter().product();
    let out = {
        let mut inputs = Vec::with_capacity(range.len());
        for index in range.clone() {
            let tensor = ctx.input(index)?;
            if tensor.count() == shape.count() && tensor.shape() == &shape {
                // All others are empty.
                inputs.clear();
                break;
            }
            inputs.push((tensor.elems(), tensor.dim(axis) * inner));
        }
        if inputs.is_empty() {
            None
        } else {
            let mut out = ctx.allocate_output(0, shape.clone())?;
            join(ctx, &inputs, total as usize * inner, out.elems_mut()?);
            Some(out)
        }
    };
    let out = match out {
        Some(out) => out,
        None => take_whole(ctx, range, &shape)?,
    };
    ctx.set_output(0, out);
    Ok(())
}

/// The input that is the whole result.
fn take_whole(
    ctx: &mut OpContext<'_>,
    mut range: std::ops::Range<usize>,
    shape: &Shape,
) -> Result<Tensor> {
    let whole = range.find(|&index| ctx.input(index).is_ok_and(|tensor| tensor.shape() == shape));
    ctx.take_input(whole.expect("an input of the result's shape was seen"))
}

/// Fills rows of `row` elements with, of each input in turn, the given number of elements.
fn join(ctx: &OpContext<'_>, inputs: &[(Elems<'_>, usize)], row: usize, out: ElemsMut<'_>) {
    if row == 0 {
        return;
    }
    if out.len() == row {
        return join_one_row(ctx, inputs, out);
    }
    for_each_units(ctx.parallel(), out, row, &|first, mut part| {
        for index in 0..part.len() / row {
            let mut at = index * row;
            for (input, width) in inputs {
                let start = (first + index) * width;
                part.slice(at..at + width).copy_from(input.slice(start..start + width));
                at += width;
            }
        }
    });
}

/// As [`join`] for a single row, which threads share by position.
fn join_one_row(ctx: &OpContext<'_>, inputs: &[(Elems<'_>, usize)], out: ElemsMut<'_>) {
    for_each_units(ctx.parallel(), out, 1, &|first, mut part| {
        let end = first + part.len();
        let mut at = 0;
        for (input, width) in inputs {
            let (from, to) = (at.max(first), (at + width).min(end));
            if from < to {
                part.slice(from - first..to - first).copy_from(input.slice(from - at..to - at));
            }
            at += width;
        }
    });
}

fn concat_offset_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    for index in 1..ctx.num_inputs() {
        ctx.set_output(index - 1, ctx.input(index).clone());
    }
    Ok(())
}

fn concat_offset(ctx: &mut OpContext<'_>) -> Result<()> {
    let axis = ctx.input(0)?;
    require!(
        axis.rank() == 0,
        "Concat dim tensor should be a scalar integer, but got shape {}",
        axis.shape()
    );
    let axis = axis.to_i64s()?[0];
    let mut shapes = Vec::with_capacity(ctx.num_inputs() - 1);
    for index in 1..ctx.num_inputs() {
        let shape = ctx.input(index)?;
        require!(
            shape.rank() == 1,
            "input {} should be a vector, but got shape {}",
            index - 1,
            shape.shape()
        );
        shapes.push(shape.to_i64s()?);
    }
    let rank = shapes[0].len() as i64;
    require!((-rank..rank).contains(&axis), "Concat dim is out of range: {axis} vs. {rank}");
    let axis = axis.rem_euclid(rank) as usize;
    let mut offset: i64 = 0;
    for (index, shape) in shapes.iter().enumerate() {
        require!(
            shape.len() == rank as usize,
            "input {index} should contain {rank} elements, but got {}",
            shape.len()
        );
        require!(
            (0..shape.len()).all(|dim| dim == axis || shape[dim] == shapes[0][dim]),
            "All dimensions except {axis} must match. Input {index} has shape [{}] and doesn't match input \
             0 with shape [{}].",
            join_numbers(shape),
            join_numbers(&shapes[0])
        );
        let mut offsets = vec![0; shape.len()];
        offsets[axis] = offset;
        let out = index_vector(ctx.output_dtype(index), &offsets)?;
        ctx.set_output(index, out);
        offset = offset
            .checked_add(shape[axis])
            .ok_or_else(|| invalid!("The sizes along the axis overflow"))?;
    }
    Ok(())
}

fn join_numbers(numbers: &[i64]) -> String {
    numbers.iter().map(i64::to_string).collect::<Vec<_>>().join(" ")
}

/// A vector of `int32` or `int64`.
///
/// # Errors
/// `InvalidArgument` if a number does not fit.
fn index_vector(dtype: DType, values: &[i64]) -> Result<Tensor> {
    if dtype == DType::INT64 {
        return Tensor::from_slice(Shape::vector(values.len()), values);
    }
    let narrow = |&value: &i64| {
        i32::try_from(value).map_err(|_| invalid!("{value} does not fit a 32-bit integer"))
    };
    let values: Vec<i32> = values.iter().map(narrow).collect::<Result<_>>()?;
    Tensor::from_slice(Shape::vector(values.len()), &values)
}

fn pack_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let count = ctx.num_inputs();
    let mut shape = ctx.input(count - 1).clone();
    for index in (0..count - 1).rev() {
        shape = shape_ops::merge(ctx.input(index), &shape).map_err(|error| {
            let message =
                format!("{}\n\tFrom merging shape {index} with other shapes.", error.message());
            error.with_message(message)
        })?;
    }
    let Some(dims) = shape.dims() else {
        return Ok(());
    };
    let axis = pack_axis(ctx, dims.len() + 1)?;
    let mut dims = dims.to_vec();
    dims.insert(axis, Dim::new(count as i64));
    ctx.set_output(0, dims.into_iter().collect());
    Ok(())
}

/// The attr `axis` of `Pack` and `Unpack`, where the packed tensor has rank `rank`.
pub(crate) fn pack_axis(ctx: &InferenceContext<'_>, rank: usize) -> Result<usize> {
    let (axis, rank) = (ctx.attrs.int("axis")?, rank as i64);
    require!((-rank..rank).contains(&axis), "Invalid axis: {axis}; must be in [{},{rank})", -rank);
    Ok(axis.rem_euclid(rank) as usize)
}

fn pack_kernel(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let axis = init.attrs.int("axis")?;
    kernel(move |ctx| {
        let first = ctx.input(0)?.shape().clone();
        let rank = first.rank() as i64 + 1;
        require!((-rank..rank).contains(&axis), "axis = {axis} not in [{}, {rank})", -rank);
        let axis = axis.rem_euclid(rank) as usize;
        for index in 1..ctx.num_inputs() {
            let shape = ctx.input(index)?.shape();
            require!(
                shape == &first,
                "Shapes of all inputs must match: values[0].shape = {first} != values[{index}].shape = \
                 {shape}"
            );
        }
        let mut dims = first.dims().to_vec();
        dims.insert(axis, ctx.num_inputs() as i64);
        let shape = Shape::new(&dims)?;
        if ctx.num_inputs() == 1 {
            let out = ctx.take_input(0)?.with_shape(shape)?;
            ctx.set_output(0, out);
            return Ok(());
        }
        let width: usize = first.to_usizes()[axis..].iter().product();
        let inputs = (0..ctx.num_inputs())
            .map(|index| Ok((ctx.input(index)?.elems(), width)))
            .collect::<Result<Vec<_>>>()?;
        ctx.produce(0, shape, |out| join(ctx, &inputs, width * inputs.len(), out))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::*;
    use tfcore_framework::AttrValue;

    #[test]
    fn values_are_joined_along_the_axis() {
        let (a, b) = (counting(&[2, 1]), counting(&[2, 2]));
        let attrs = [int32(), ("N", AttrValue::Int(2))];
        let joined = values::<i32>("ConcatV2", &attrs, &[a, b, Tensor::scalar(-1i32)]).unwrap();
        assert_eq!(joined, (vec![2, 3], vec![0, 0, 1, 1, 2, 3]));
        let inputs = [Tensor::scalar(0i32), counting(&[0, 2]), counting(&[1, 2])];
        let joined = values::<i32>("Concat", &attrs, &inputs).unwrap();
        assert_eq!(joined, (vec![1, 2], vec![0, 1]));
    }

    #[test]
    fn packing_adds_an_axis() {
        let (a, b) = (ints(&[1, 2, 3]), ints(&[4, 5, 6]));
        for (axis, dims, expected) in
            [(0, vec![2, 3], vec![1, 2, 3, 4, 5, 6]), (-1, vec![3, 2], vec![1, 4, 2, 5, 3, 6])]
        {
            let attrs = [int32(), ("N", AttrValue::Int(2)), ("axis", AttrValue::Int(axis))];
            let packed = values::<i32>("Pack", &attrs, &[a.clone(), b.clone()]).unwrap();
            assert_eq!(packed, (dims, expected), "axis {axis}");
        }
    }

    #[test]
    fn offsets_add_up() {
        let attrs = [("N", AttrValue::Int(2))];
        let inputs = [Tensor::scalar(1i32), ints(&[2, 3]), ints(&[2, 7])];
        let offsets = run("ConcatOffset", &attrs, &inputs).unwrap();
        assert_eq!(offsets[1].as_slice::<i32>().unwrap(), [0, 3]);
    }

    #[test]
    fn shapes_of_joins() {
        let attrs = [int32(), ("N", AttrValue::Int(2))];
        let axis = |axis: i32| vec![(2, Tensor::scalar(axis))];
        let cases = [
            ("[2,3];[2,?];[]", axis(1), "[2,?]"),
            ("[?,3];[2,4];[]", axis(-1), "[2,7]"),
            ("[2,3];?;[]", axis(1), "[2,?]"),
            ("[2,3];?;[]", vec![], "[?,?]"),
            (
                "[2,3];[3,3];[]",
                axis(1),
                "Dimension 0 in both shapes must be equal, but are 2 and 3. Shapes are [2] and [3].",
            ),
            ("[];[];[]", vec![], "Can't concatenate scalars (use tf.stack instead)"),
        ];
        for (inputs, constants, expected) in cases {
            assert_eq!(shapes("ConcatV2", &attrs, inputs, &constants), expected, "{inputs}");
        }
    }
}

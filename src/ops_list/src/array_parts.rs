//! Tensor arrays and dense tensors: arrays filled with the rows of a tensor, and tensors out of arrays.

use tfcore_base::{DType, Result, invalid, require, try_collect, unimplemented_error};
use tfcore_framework::{Kernel, KernelInit, OpContext, Registry, kernel, shape_fns};
use tfcore_tensor::{PartialShape, Shape, Tensor};

use crate::element_shape::{text, with_first};
use crate::step_handles::find;
use crate::tensor_array::TensorArray;
use crate::tensor_arrays::output_flow;
use crate::{array_shapes, parts};

pub(crate) fn register(r: &mut Registry) {
    // `TensorArrayPack(handle: Ref(string), flow_in: float; element_shape) -> value: dtype`, all elements as rows.
    r.op("TensorArrayPack").shape(shape_fns::unknown).cpu(gather);

    // `TensorArrayGatherV3(handle: resource, indices: int32, flow_in: float; element_shape) -> value: dtype`,
    // elements `indices[i]` as rows.
    r.op("TensorArrayGather").shape(shape_fns::unknown).cpu(gather);
    r.op("TensorArrayGatherV2").shape(array_shapes::gather_v2).cpu(gather);
    r.op("TensorArrayGatherV3").shape(array_shapes::gather_v3).cpu(gather);

    // `TensorArrayConcatV3(handle: resource, flow_in: float; element_shape_except0) -> value: dtype, lengths:
    // int64`, the rows of all elements.
    r.op("TensorArrayConcat").shape(shape_fns::unknown).cpu(concat);
    r.ops(["TensorArrayConcatV2", "TensorArrayConcatV3"], |op| {
        op.shape(array_shapes::concat).cpu(concat);
    });

    // `TensorArrayUnpack(handle: Ref(string), value: T, flow_in: float) -> flow_out: float`, writes row `i` of the
    // value to element `i`.
    r.op("TensorArrayUnpack").shape(shape_fns::unknown).compute(unpack);

    // `TensorArrayScatterV3(handle: resource, indices: int32, value: T, flow_in: float) -> flow_out: float`, writes
    // row `i` of the value to element `indices[i]`.
    r.op("TensorArrayScatter").shape(shape_fns::unknown).compute(scatter);
    r.op("TensorArrayScatterV2").shape(array_shapes::scatter_v2).compute(scatter);
    r.op("TensorArrayScatterV3").shape(array_shapes::scatter_v3).compute(scatter);

    // `TensorArraySplitV3(handle: resource, value: T, lengths: int64, flow_in: float) -> flow_out: float`, writes
    // consecutive parts of the value with so many rows.
    r.op("TensorArraySplit").shape(shape_fns::unknown).compute(split);
    r.ops(["TensorArraySplitV2", "TensorArraySplitV3"], |op| {
        op.shape(array_shapes::split).compute(split);
    });
}

/// All indices of an array of `len` elements.
fn all_indices(len: usize) -> impl Iterator<Item = i32> {
    0..i32::try_from(len).unwrap_or(i32::MAX)
}

/// Pack and gather: the only input that the two do not share are the indices.
fn gather(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let dtype = init.attrs.dtype("dtype")?;
    let element = init.attrs.shape("element_shape")?.clone();
    let takes_all = init.input_dtypes.len() == 2;
    kernel(move |ctx| {
        let array = find::<TensorArray>(ctx)?;
        array.require_read_dtype(dtype)?;
        array.refine_element(&element)?;
        let rows = if takes_all {
            array.read_all(ctx, all_indices(array.packed_len()?))?
        } else {
            let indices = ctx.input(1)?;
            require!(
                indices.rank() == 1,
                "Expected indices to be a vector, but received shape: {}",
                indices.shape()
            );
            array.read_all(ctx, indices.as_slice::<i32>()?.iter().copied())?
        };
        let gathered = pack(ctx, dtype, &element, &rows)?;
        ctx.set_output(0, gathered);
        Ok(())
    })
}

/// The rows as one tensor.
fn pack(
    ctx: &OpContext<'_>,
    dtype: DType,
    element: &PartialShape,
    rows: &[Tensor],
) -> Result<Tensor> {
    let Some(first) = rows.first() else {
        let shape = element.to_shape().ok_or_else(|| {
            unimplemented_error!(
                "TensorArray has size zero, but element shape {} is not fully defined. Currently only static \
                 shapes are supported when packing zero-size TensorArrays.",
                text(element)
            )
        })?;
        return ctx.allocate(dtype, with_first(0, &shape)?);
    };
    require!(
        element.admits(first.shape()),
        "TensorArray was passed element_shape {} which does not match the Tensor at index 0: {}",
        text(element),
        first.shape()
    );
    let shape = with_first(rows.len(), first.shape())?;
    if shape.count() > 0 {
        let unlike = rows.iter().position(|row| row.shape() != first.shape());
        if let Some(index) = unlike {
            return Err(invalid!(
                "TensorArray has inconsistent shapes.  Index 0 has shape: {} but index {index} has shape: {}",
                first.shape(),
                rows[index].shape()
            ));
        }
    }
    let rows: Vec<Option<&Tensor>> = rows.iter().map(Some).collect();
    parts::stack(ctx, dtype, shape, first.count(), &rows)
}

fn concat(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let dtype = init.attrs.dtype("dtype")?;
    let rest = init.attrs.shape("element_shape_except0")?.clone();
    kernel(move |ctx| {
        let array = find::<TensorArray>(ctx)?;
        array.require_read_dtype(dtype)?;
        let pieces = array.read_all(ctx, all_indices(array.packed_len()?))?;
        let (shape, lengths) = concatenated(&rest, &pieces)?;
        let pieces: Vec<(usize, Option<&Tensor>)> =
            pieces.iter().map(|piece| (piece.count(), Some(piece))).collect();
        let value = parts::concat(ctx, dtype, shape, &pieces)?;
        let lengths = Tensor::from_slice(Shape::vector(lengths.len()), &lengths)?;
        ctx.set_output(0, value);
        ctx.set_output(1, lengths);
        Ok(())
    })
}

/// The shape of all pieces one behind the other, and how many rows each has.
fn concatenated(rest: &PartialShape, pieces: &[Tensor]) -> Result<(Shape, Vec<i64>)> {
    let mut row: Option<Shape> = None;
    let mut lengths = Vec::with_capacity(pieces.len());
    for (index, piece) in pieces.iter().enumerate() {
        let [length, dims @ ..] = piece.shape().dims() else {
            return Err(invalid!(
                "Concat saw a scalar shape at index {index} but requires at least vectors.  Did you mean to \
                 call pack?"
            ));
        };
        lengths.push(*length);
        let dims = Shape::new(dims)?;
        match &row {
            None => {
                require!(
                    rest.admits(&dims),
                    "TensorArray was passed element_shape_except0 {} but index 0 has (excepting dimension 0) \
                     shape: {dims} which does not match.",
                    text(rest)
                );
                row = Some(dims);
            }
            Some(row) => require!(
                *row == dims,
                "TensorArray has inconsistent shapes.  Index 0 has (excepting dimension 0) shape: {row} but \
                 index {index} has (excepting dimension 0) shape: {dims}"
            ),
        }
    }
    let row = row.or_else(|| rest.to_shape()).ok_or_else(|| {
        unimplemented_error!(
            "TensorArray has size zero, but element_shape_except0 {} is not fully defined. Currently only \
             static shapes are supported when concatenating zero-size TensorArrays.",
            text(rest)
        )
    })?;
    let total = lengths.iter().try_fold(0i64, |total, &length| total.checked_add(length));
    let total = total.and_then(|total| usize::try_from(total).ok()).unwrap_or(usize::MAX);
    Ok((with_first(total, &row)?, lengths))
}

/// Refuses a value that cannot be cut into rows.
fn require_rows(array: &TensorArray, value: &Tensor) -> Result<()> {
    array.require_written_dtype(value.dtype())?;
    require!(
        value.rank() > 0,
        "Input value for unpack must be at least a vector but received shape: {}",
        value.shape()
    );
    require!(i32::try_from(value.dim(0)).is_ok(), "tensor dim0 too large to unpack");
    Ok(())
}

fn unpack(ctx: &mut OpContext<'_>) -> Result<()> {
    let array = find::<TensorArray>(ctx)?;
    let value = ctx.input(1)?;
    require_rows(&array, value)?;
    let (rows, len) = (value.dim(0), array.len_with(value.dim(0))?);
    require!(
        rows == len,
        "Input value must have first dimension equal to the array size ({rows} vs. {len})"
    );
    let values = parts::all_rows(ctx, value)?;
    array.mark_len(rows)?;
    array.write_all(ctx, all_indices(rows).zip(values))?;
    output_flow(ctx, 2)
}

fn scatter(ctx: &mut OpContext<'_>) -> Result<()> {
    let array = find::<TensorArray>(ctx)?;
    let (indices, value) = (ctx.input(1)?, ctx.input(2)?);
    require_rows(&array, value)?;
    require!(
        indices.rank() == 1,
        "Expected indices to be a vector, but received shape: {}",
        indices.shape()
    );
    require!(
        indices.count() == value.dim(0),
        "Expected len(indices) == values.shape[0], but saw: {} vs. {}",
        indices.count(),
        value.dim(0)
    );
    let indices = indices.as_slice::<i32>()?;
    let max = indices.iter().copied().max().unwrap_or(-1);
    let needed = usize::try_from(i64::from(max) + 1).unwrap_or(0);
    let len = array.len_with(needed)?;
    require!(needed <= len, "Max scatter index must be < array size ({max} vs. {len})");
    let values = parts::all_rows(ctx, value)?;
    array.write_all(ctx, indices.iter().copied().zip(values))?;
    output_flow(ctx, 3)
}

fn split(ctx: &mut OpContext<'_>) -> Result<()> {
    let array = find::<TensorArray>(ctx)?;
    let (value, lengths) = (ctx.input(1)?, ctx.input(2)?);
    require!(
        lengths.rank() == 1,
        "Expected lengths to be a vector, received shape: {}",
        lengths.shape()
    );
    require!(
        i32::try_from(lengths.count()).is_ok(),
        "Expected lengths to have < max int32 entries"
    );
    require!(
        value.rank() > 0,
        "Expected value to be at least a vector, but received shape: {}",
        value.shape()
    );
    let lengths = lengths.as_slice::<i64>()?;
    let total = lengths.iter().fold(0i64, |total, &length| total.wrapping_add(length));
    require!(
        total == value.dim(0) as i64,
        "Expected sum of lengths to be equal to values.shape[0], but sum of lengths is {total} and value's \
         shape is: {}",
        value.shape()
    );
    let len = array.len_with(lengths.len())?;
    require!(
        len == lengths.len(),
        "TensorArray's size is not equal to the size of lengths ({len} vs. {}), and the TensorArray is not \
         marked as dynamically resizeable",
        lengths.len()
    );
    array.require_written_dtype(value.dtype())?;
    let mut start = 0;
    let values = lengths.iter().map(|&length| {
        // Negative ones may make up for others that are too large.
        let len = usize::try_from(length).ok().filter(|&len| len <= value.dim(0) - start);
        let len = len.ok_or_else(|| invalid!("Invalid value in lengths: {length}"))?;
        let part = parts::rows(ctx, value, start, len);
        start += len;
        part
    });
    let values: Vec<Tensor> = try_collect(values)?.into_iter().collect::<Result<_>>()?;
    array.mark_len(len)?;
    array.write_all(ctx, all_indices(len).zip(values))?;
    output_flow(ctx, 3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::*;
    use tfcore_framework::AttrValue;

    const FLOAT: AttrValue = AttrValue::Type(DType::FLOAT);

    fn flow() -> Tensor {
        Tensor::scalar(0f32)
    }

    fn array(ops: &Ops, len: i32, is_dynamic: bool) -> Tensor {
        let attrs = [
            ("dtype", FLOAT),
            ("dynamic_size", AttrValue::Bool(is_dynamic)),
            ("clear_after_read", AttrValue::Bool(false)),
        ];
        ops.first("TensorArrayV3", &attrs, vec![Tensor::scalar(len)]).unwrap()
    }

    fn scatter(ops: &Ops, array: &Tensor, indices: &[i32], value: Tensor) -> Result<Tensor> {
        let inputs = vec![array.clone(), ints(indices), value, flow()];
        ops.first("TensorArrayScatterV3", &[("T", FLOAT)], inputs)
    }

    fn split(ops: &Ops, array: &Tensor, value: Tensor, lengths: &[i64]) -> Result<Tensor> {
        let lengths = Tensor::from_slice(Shape::vector(lengths.len()), lengths).unwrap();
        let inputs = vec![array.clone(), value, lengths, flow()];
        ops.first("TensorArraySplitV3", &[("T", FLOAT)], inputs)
    }

    fn gather(ops: &Ops, array: &Tensor, indices: &[i32]) -> Result<Tensor> {
        let inputs = vec![array.clone(), ints(indices), flow()];
        ops.first("TensorArrayGatherV3", &[("dtype", FLOAT)], inputs)
    }

    fn concat(ops: &Ops, array: &Tensor) -> Result<Vec<Tensor>> {
        ops.all("TensorArrayConcatV3", &[("dtype", FLOAT)], vec![array.clone(), flow()])
    }

    fn matrix(rows: i64, values: &[f32]) -> Tensor {
        let columns = values.len() as i64 / rows;
        floats(values).with_shape(Shape::new(&[rows, columns]).unwrap()).unwrap()
    }

    #[test]
    fn rows_come_back_in_the_order_asked_for() {
        let ops = Ops::new();
        let rows = matrix(3, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let filled = array(&ops, 3, false);
        scatter(&ops, &filled, &[2, 0, 1], rows).unwrap();
        let gathered = gather(&ops, &filled, &[2, 2, 0]).unwrap();
        assert_eq!(contents::<f32>(&gathered), (vec![3, 2], vec![1.0, 2.0, 1.0, 2.0, 3.0, 4.0]));
        let joined = concat(&ops, &filled).unwrap();
        assert_eq!(contents::<f32>(&joined[0]), (vec![6], vec![3.0, 4.0, 5.0, 6.0, 1.0, 2.0]));
        assert_eq!(contents::<i64>(&joined[1]).1, [2, 2, 2]);
    }

    #[test]
    fn parts_come_back_as_one() {
        let ops = Ops::new();
        let parts = array(&ops, 0, true);
        let value = matrix(3, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        split(&ops, &parts, value.clone(), &[1, 0, 2]).unwrap();
        let joined = concat(&ops, &parts).unwrap();
        assert_eq!(contents::<f32>(&joined[0]), contents(&value));
        assert_eq!(contents::<i64>(&joined[1]).1, [1, 0, 2]);
        // The gradients are as many as the parts.
        let source = ("source", AttrValue::string("g"));
        let gradients = ops.first("TensorArrayGradV3", &[source], vec![parts, flow()]).unwrap();
        let zeros = concat(&ops, &gradients).unwrap();
        assert_eq!(contents(&zeros[0]), (vec![3, 2], vec![0f32; 6]));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let ops = Ops::new();
        let two = || matrix(2, &[1.0, 2.0]);
        let unlike = array(&ops, 2, false);
        split(&ops, &unlike, floats(&[1.0, 2.0, 3.0]), &[1, 2]).unwrap();
        let new = || array(&ops, 2, false);
        let message = |result: Result<Tensor>| result.unwrap_err().message().to_string();
        let cases = [
            (
                scatter(&ops, &new(), &[0, 2], two()),
                "Max scatter index must be < array size (2 vs. 2)",
            ),
            (
                scatter(&ops, &new(), &[0], two()),
                "Expected len(indices) == values.shape[0], but saw: 1 vs. 2",
            ),
            (
                scatter(&ops, &new(), &[0], flow()),
                "Input value for unpack must be at least a vector but received shape: []",
            ),
            (
                split(&ops, &new(), two(), &[1, 2]),
                "Expected sum of lengths to be equal to values.shape[0], but sum of lengths is 3 and value's \
                 shape is: [2,1]",
            ),
            (
                split(&ops, &new(), two(), &[1, 1, 0]),
                "TensorArray's size is not equal to the size of lengths (2 vs. 3), and the TensorArray is not \
                 marked as dynamically resizeable",
            ),
            (split(&ops, &new(), two(), &[3, -1]), "Invalid value in lengths: 3"),
            (
                split(&ops, &new(), two(), &[i64::MAX, i64::MIN + 3]),
                "Invalid value in lengths: 9223372036854775807",
            ),
            (
                gather(&ops, &unlike, &[0, 1]),
                "TensorArray has inconsistent shapes.  Index 0 has shape: [1] but index 1 has shape: [2]",
            ),
            (
                gather(&ops, &unlike, &[]),
                "TensorArray has size zero, but element shape <unknown> is not fully defined. Currently only \
                 static shapes are supported when packing zero-size TensorArrays.",
            ),
        ];
        for (result, expected) in cases {
            assert_eq!(message(result), expected);
        }
    }
}

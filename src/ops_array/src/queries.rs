//! Shapes as tensors: `Shape`, `ShapeN`, `Rank`, `Size`.

use tfcore_base::{DType, Result, invalid, require};
use tfcore_framework::{InferenceContext, OpContext, Registry, shape_fns};
use tfcore_tensor::{Dim, PartialShape, Shape, Tensor};

pub(crate) fn register(r: &mut Registry) {
    // `Shape(input: T) -> output: out_type`, and `ShapeN` for several inputs.
    r.ops(["Shape", "ShapeN"], |op| {
        op.shape(shape_shape).compute(shape);
    });
    // `Rank(input: T) -> output: int32`.
    r.op("Rank").shape(shape_fns::scalar).compute(rank);
    // `Size(input: T) -> output: out_type`.
    r.op("Size").shape(shape_fns::scalar).compute(size);
}

fn shape_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    for index in 0..ctx.num_inputs() {
        let rank = ctx.input(index).rank().map_or(Dim::UNKNOWN, |rank| Dim::new(rank as i64));
        ctx.set_output(index, PartialShape::vector(rank));
    }
    Ok(())
}

fn shape(ctx: &mut OpContext<'_>) -> Result<()> {
    for index in 0..ctx.num_inputs() {
        let dims = ctx.input(index)?.shape().clone();
        let out = integers(ctx.output_dtype(index), &dims)?;
        ctx.set_output(index, out);
    }
    Ok(())
}

/// The sizes as a vector of `int32` or `int64`.
fn integers(dtype: DType, shape: &Shape) -> Result<Tensor> {
    if dtype == DType::INT64 {
        return Tensor::from_slice(Shape::vector(shape.rank()), shape.dims());
    }
    let narrow = |(axis, &size): (usize, &i64)| {
        i32::try_from(size).map_err(|_| {
            invalid!(
                "Shape output type is 32-bit  but shape[{axis}] of tensor is too large: {size}"
            )
        })
    };
    let dims: Vec<i32> = shape.iter().enumerate().map(narrow).collect::<Result<_>>()?;
    Tensor::from_slice(Shape::vector(shape.rank()), &dims)
}

fn rank(ctx: &mut OpContext<'_>) -> Result<()> {
    let rank = ctx.input(0)?.rank() as i32;
    ctx.set_output(0, Tensor::scalar(rank));
    Ok(())
}

fn size(ctx: &mut OpContext<'_>) -> Result<()> {
    let count = ctx.input(0)?.count() as i64;
    let out = if ctx.output_dtype(0) == DType::INT64 {
        Tensor::scalar(count)
    } else {
        require!(
            i32::try_from(count).is_ok(),
            "Number of elements was larger than representable by 32-bit output type"
        );
        Tensor::scalar(count as i32)
    };
    ctx.set_output(0, out);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::*;

    #[test]
    fn shapes_are_values() {
        let x = [counting(&[2, 3])];
        let long = [int32(), ("out_type", of(DType::INT64))];
        assert_eq!(values::<i64>("Shape", &long, &x).unwrap().1, [2, 3]);
        assert_eq!(values::<i32>("Size", &[int32()], &x).unwrap(), (vec![], vec![6]));
        assert_eq!(values::<i32>("Rank", &[int32()], &x).unwrap().1, [2]);
        assert_eq!(shapes("Shape", &[int32()], "[?,?,4]", &[]), "[3]");
        assert_eq!(shapes("Shape", &[int32()], "?", &[]), "[?]");
    }
}

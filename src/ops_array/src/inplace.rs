//! Rows of a tensor changed by number: `InplaceUpdate`, `InplaceAdd`, `InplaceSub`, and rows put together: `ParallelConcat`.
//!
//! The reference writes to the input itself. Here it is written to if no other op reads it, and else copied first.

use tfcore_base::{DType, LoopSet, Numbers, Result, invalid, require};
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_fns, shape_ops,
};
use tfcore_tensor::{Dim, PartialShape, Shape};

use crate::combine::{Add, Combine, Replace, RowLoop, Sub};

pub(crate) fn register(r: &mut Registry) {
    // `InplaceUpdate(x: T, i: int32, v: T) -> y: T`, `y[i[j]] = v[j]`; indices count modulo the number of rows.
    r.op("InplaceUpdate").shape(shape_fns::unchanged).compute(|ctx| {
        let dtype = ctx.input(2)?.dtype();
        let is_plain =
            matches!(dtype, DType::STRING | DType::BOOL) || loop_for::<Add>(dtype).is_ok();
        if is_plain { change(ctx, |_| Ok(Replace::run)) } else { change(ctx, loop_for::<Add>) }
    });
    // `InplaceAdd(x: T, i: int32, v: T) -> y: T`, `y[i[j]] += v[j]`.
    r.op("InplaceAdd").shape(shape_fns::unchanged).compute(|ctx| change(ctx, loop_for::<Add>));
    // `InplaceSub(x: T, i: int32, v: T) -> y: T`, `y[i[j]] -= v[j]`.
    r.op("InplaceSub").shape(shape_fns::unchanged).compute(|ctx| change(ctx, loop_for::<Sub>));

    // `ParallelConcat(values: N * T) -> output: T`: tensors of one row each, one below the other.
    r.op("ParallelConcat").shape(concat_shape).cpu(concat_kernel);
    // `_ParallelConcatStart() -> output: dtype`, a tensor for `_ParallelConcatUpdate` to write to.
    r.op("_ParallelConcatStart").shape(shape_fns::explicit).cpu(start_kernel);
    // `_ParallelConcatUpdate(value: T, update: T; loc) -> output: T`, `value` with another row `loc`.
    r.op("_ParallelConcatUpdate").shape(shape_fns::unchanged).cpu(update_kernel);
}

/// The loop of rule `R` for numbers.
fn loop_for<R: 'static>(dtype: DType) -> Result<RowLoop>
where
    Numbers: LoopSet<Combine<R>>,
{
    Numbers::loop_for(dtype).ok_or_else(|| invalid!("Unsupported data type: {dtype}"))
}

fn change(ctx: &mut OpContext<'_>, find: fn(DType) -> Result<RowLoop>) -> Result<()> {
    let (x, i, v) = (ctx.input(0)?.shape(), ctx.input(1)?, ctx.input(2)?);
    require!(i.rank() == 1, "i must be a vector. {}", i.shape());
    let v_shape = v.shape();
    require!(x.rank() == v.rank(), "x and v shape doesn't match (ranks differ): {x} vs. {v_shape}");
    for axis in 1..x.rank() {
        require!(
            x[axis] == v_shape[axis],
            "x and v shape doesn't match at index {axis} : {x} vs. {v_shape}"
        );
    }
    require!(
        v.rank() > 0 && i.dim(0) == v.dim(0),
        "i and x shape doesn't match at index 0: {} vs. {v_shape}",
        i.shape()
    );
    if x.count() > 0 && v.count() > 0 {
        let run = find(v.dtype())?;
        let (rows, width) = (x[0], x.count() / x.dim(0));
        let at: Vec<usize> =
            i.to_i64s()?.iter().map(|index| index.rem_euclid(rows) as usize).collect();
        let mut y = ctx.take_or_copy_input(0)?;
        run(y.elems_mut()?, ctx.input(2)?.elems(), &at, width);
        ctx.set_output(0, y);
    } else {
        let y = ctx.take_input(0)?;
        ctx.set_output(0, y);
    }
    Ok(())
}

fn concat_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let shape = ctx.attrs.shape("shape")?.clone();
    require!(shape.is_fully_known(), "shape attr must be fully defined.");
    let rank = shape.rank().unwrap_or(0);
    require!(rank >= 1, "shape attr must have rank at least 1");
    let row = shape_ops::replace_dim(&shape, 0, Dim::new(1))?;
    for input in ctx.inputs() {
        require!(input.is_fully_known(), "All input shapes must be fully defined.");
        require!(
            shape_ops::merge(input, &row).is_ok(),
            "Size of first dimension must be 1, and the others those of the attr shape: {input} vs. {shape}"
        );
    }
    ctx.set_output(0, shape);
    Ok(())
}

fn explicit_shape(init: &KernelInit<'_>) -> Result<Shape> {
    let shape: &PartialShape = init.attrs.shape("shape")?;
    shape.to_shape().ok_or_else(|| invalid!("Shape {shape} is not fully defined"))
}

fn concat_kernel(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let shape = explicit_shape(init)?;
    require!(shape.rank() >= 1, "value should be at least rank 1.");
    kernel(move |ctx| {
        let count = ctx.num_inputs();
        for index in 0..count {
            require!(
                index < shape.dim(0),
                "0th dimension of value = {} must be greater than loc_ = {index}",
                shape[0]
            );
            check_row(&shape, ctx.input(index)?.shape())?;
        }
        ctx.try_produce(0, shape.clone(), |mut out| {
            let width = out.len() / shape.dim(0);
            out.reborrow().fill_default();
            for index in 0..count {
                out.slice(index * width..(index + 1) * width).copy_from(ctx.input(index)?.elems());
            }
            Ok(())
        })
    })
}

fn start_kernel(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let (shape, dtype) = (explicit_shape(init)?, init.output_dtypes[0]);
    kernel(move |ctx| {
        // The reference hands out memory as it finds it; ours is clear.
        let out = ctx.allocate_zeros(dtype, shape.clone())?;
        ctx.set_output(0, out);
        Ok(())
    })
}

/// Checks that `update` is one row of a tensor of shape `value`.
fn check_row(value: &Shape, update: &Shape) -> Result<()> {
    require!(
        value.rank() == update.rank(),
        "value and update shape doesn't match: {value} vs. {update}"
    );
    require!(
        value[1..] == update[1..],
        "value and update shape doesn't match {value} vs. {update}"
    );
    require!(update[0] == 1, "update shape doesn't match: {update}");
    Ok(())
}

fn update_kernel(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let loc = init.attrs.int("loc")?;
    kernel(move |ctx| {
        let (value, update) = (ctx.input(0)?.shape(), ctx.input(1)?.shape());
        require!(value.rank() >= 1, "value should be at least rank 1.");
        let rows = value[0];
        require!(rows > loc, "0th dimension of value = {rows} must be greater than loc_ = {loc}");
        check_row(value, update)?;
        let (width, row) = (update.count(), loc.rem_euclid(rows) as usize);
        let mut out = ctx.take_or_copy_input(0)?;
        if width > 0 {
            let update = ctx.input(1)?.elems();
            out.elems_mut()?.slice(row * width..(row + 1) * width).copy_from(update);
        }
        ctx.set_output(0, out);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use crate::testing::*;
    use tfcore_base::DType;
    use tfcore_framework::AttrValue;
    use tfcore_tensor::{PartialShape, TString, Tensor};

    #[test]
    fn rows_are_changed() {
        let inputs = [counting(&[3, 2]), ints(&[-1, 0, 3]), tensor(&[3, 2], &[10, 20, 1, 2, 5, 5])];
        let cases = [
            ("InplaceUpdate", [5, 5, 2, 3, 10, 20]),
            ("InplaceAdd", [6, 8, 2, 3, 14, 25]),
            ("InplaceSub", [-6, -6, 2, 3, -6, -15]),
        ];
        for (op, expected) in cases {
            let found = values::<i32>(op, &[int32()], &inputs).unwrap();
            assert_eq!(found, (vec![3, 2], expected.to_vec()), "{op}");
        }
        let text = |text: &str| tensor(&[1], &[TString::from(text)]);
        let inputs = [text("a"), ints(&[0]), text("b")];
        let strings = [("T", of(DType::STRING))];
        let found = values::<TString>("InplaceUpdate", &strings, &inputs).unwrap();
        assert_eq!(found.1[0].as_bytes(), b"b");
        assert_eq!(failure("InplaceAdd", &strings, &inputs), "Unsupported data type: string");
        let unlike = [counting(&[3, 2]), ints(&[0]), counting(&[2, 2])];
        assert_eq!(
            failure("InplaceAdd", &[int32()], &unlike),
            "i and x shape doesn't match at index 0: [1] vs. [2,2]"
        );
    }

    #[test]
    fn rows_are_put_together() {
        let shape = |dims: &[i64]| AttrValue::shape(PartialShape::from_i64s(dims).unwrap());
        let attrs = [int32(), ("N", AttrValue::Int(2)), ("shape", shape(&[2, 2]))];
        let inputs = [tensor(&[1, 2], &[1, 2]), tensor(&[1, 2], &[3, 4])];
        let found = values::<i32>("ParallelConcat", &attrs, &inputs).unwrap();
        assert_eq!(found, (vec![2, 2], vec![1, 2, 3, 4]));
        assert_eq!(shapes("ParallelConcat", &attrs, "[1,2];[1,2]", &[]), "[2,2]");
        let update = |loc: i64, inputs: &[Tensor]| {
            let attrs = [int32(), ("loc", AttrValue::Int(loc))];
            values::<i32>("_ParallelConcatUpdate", &attrs, inputs)
        };
        let inputs = [counting(&[2, 2]), tensor(&[1, 2], &[7, 8])];
        assert_eq!(update(1, &inputs).unwrap().1, [0, 1, 7, 8]);
        assert_eq!(
            update(2, &inputs).unwrap_err().message(),
            "0th dimension of value = 2 must be greater than loc_ = 2"
        );
    }
}

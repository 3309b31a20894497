//! `AddN`: the sum of any number of tensors.

use tfcore_base::{DType, Numbers, Result, invalid};
use tfcore_framework::{
    AddAssign, InferenceContext, OpContext, Registry, ShapeAndType, add_assign_of_number,
    for_each_part, kernel, shape_ops,
};
use tfcore_tensor::{Shape, Tensor, Variant};

pub(crate) fn register(r: &mut Registry) {
    // `AddN(inputs: N * T) -> sum: T`.
    r.op("AddN")
        .shape(add_n_shape)
        .cpu_of::<Numbers>("T", |init| {
            let name = init.name.to_string();
            let add = add_assign_of_number(init.output_dtypes[0])?;
            kernel(move |ctx| add_n(ctx, &name, add))
        })
        .cpu_of::<(Variant,)>("T", |_| kernel(add_variants));
}

fn add_n_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let Some((last, others)) = ctx.inputs().split_last() else {
        return Ok(());
    };
    let mut merged = last.clone();
    for (index, shape) in others.iter().enumerate().rev() {
        merged = shape_ops::merge(shape, &merged).map_err(|error| {
            let message =
                format!("{}\n\tFrom merging shape {index} with other shapes.", error.message());
            error.with_message(message)
        })?;
    }
    ctx.set_output(0, merged);
    if ctx.attrs.dtype("T")? == DType::VARIANT {
        let data = merged_handles(ctx)?;
        if let Some(data) = data {
            ctx.set_output_handle(0, data);
        }
    }
    Ok(())
}

/// What is known of the values inside all inputs, which must agree.
fn merged_handles(ctx: &InferenceContext<'_>) -> Result<Option<Vec<ShapeAndType>>> {
    let mut merged: Option<Vec<ShapeAndType>> = None;
    for index in (0..ctx.num_inputs()).rev() {
        let Some(data) = ctx.input_handle(index) else {
            continue;
        };
        let Some(known) = &mut merged else {
            merged = Some(data.to_vec());
            continue;
        };
        if data.len() != known.len() {
            return Err(invalid!(
                "shapes_and_types[{index}].size() == {} != shapes_and_types[0].size() == {}",
                data.len(),
                known.len()
            ));
        }
        for (at, (known, other)) in known.iter_mut().zip(data).enumerate() {
            if known.dtype != other.dtype {
                return Err(invalid!(
                    "shapes_and_types[{index}][{at}].dtype() == {} != shapes_and_types[0][{at}].dtype == {}",
                    other.dtype,
                    known.dtype
                ));
            }
            known.shape = shape_ops::merge(&other.shape, &known.shape)?;
        }
    }
    Ok(merged)
}

/// Elements that are summed at a time, so that the sums stay in the cache.
const BLOCK: usize = 2048;

fn add_n(ctx: &mut OpContext<'_>, name: &str, add: AddAssign) -> Result<()> {
    let shape = ctx.input(0)?.shape().clone();
    for index in 1..ctx.num_inputs() {
        let other = ctx.input(index)?.shape();
        if *other != shape {
            return Err(invalid!(
                "Inputs to operation {name} of type AddN must have the same size and shape.  \
                 Input 0: {shape} != input {index}: {other}"
            ));
        }
    }
    if ctx.num_inputs() == 1 {
        let only = ctx.take_input(0)?;
        ctx.set_output(0, only);
        return Ok(());
    }
    let (mut sum, forwarded) = ctx.forward_or_allocate(&[0], 0, shape)?;
    let rest = usize::from(forwarded.is_some())..ctx.num_inputs();
    let mut inputs = Vec::with_capacity(rest.len());
    for index in rest {
        inputs.push(ctx.input(index)?.elems());
    }
    for_each_part(ctx.parallel(), sum.elems_mut()?, inputs.len(), &|start, mut part| {
        for at in (0..part.len()).step_by(BLOCK) {
            let end = (at + BLOCK).min(part.len());
            let mut block = part.slice(at..end);
            for (index, input) in inputs.iter().enumerate() {
                let input = input.slice(start + at..start + end);
                // Where nothing was forwarded, the first input begins the sum.
                if index == 0 && forwarded.is_none() {
                    block.reborrow().copy_from(input);
                } else {
                    add(block.reborrow(), input);
                }
            }
        }
    });
    ctx.set_output(0, sum);
    Ok(())
}

/// Adds values that are variants, such as tensor lists.
fn add_variants(ctx: &mut OpContext<'_>) -> Result<()> {
    let first = ctx.input(0)?;
    if first.rank() != 0 {
        return Err(invalid!(
            "AddN of non-scalar Tensor with dtype=DT_VARIANT is not supported; inputs[0 has shape: {}.",
            first.shape()
        ));
    }
    let mut sum: Variant = first.scalar_value()?;
    for index in 1..ctx.num_inputs() {
        let term = ctx.input(index)?;
        if term.rank() != 0 {
            return Err(invalid!(
                "AddN of non-scalar Tensor with dtype=DT_VARIANT is not supported; inputs[{index} has \
                 shape: {}.",
                term.shape()
            ));
        }
        sum = sum.plus(&term.scalar_value()?)?;
    }
    ctx.set_output(0, Tensor::from_slice(Shape::scalar(), &[sum])?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use tfcore_base::{DType, Elem};
    use tfcore_framework::AttrValue;
    use tfcore_framework::testing::{infer, registry_of, run_op};
    use tfcore_tensor::{Shape, Tensor};

    use super::*;

    fn registry() -> Registry {
        registry_of(register)
    }

    fn attrs<T: Elem>(number: i64) -> [(&'static str, AttrValue); 2] {
        [("T", AttrValue::Type(T::DTYPE)), ("N", AttrValue::Int(number))]
    }

    #[test]
    fn sums() {
        for number in [1, 2, 5] {
            // Longer than a block.
            let row: Vec<i32> = (0..5000).collect();
            let input = Tensor::from_slice(Shape::vector(row.len()), &row).unwrap();
            let inputs = vec![input; number as usize];
            let outputs = run_op(&registry(), "AddN", &attrs::<i32>(number), &inputs).unwrap();
            let expected: Vec<i32> = row.iter().map(|x| x * number as i32).collect();
            assert_eq!(outputs[0].as_slice::<i32>().unwrap(), expected, "{number}");
        }
    }

    #[test]
    fn shapes_must_agree() {
        let vector = |len| Tensor::zeros(DType::FLOAT, Shape::vector(len)).unwrap();
        let error =
            run_op(&registry(), "AddN", &attrs::<f32>(2), &[vector(2), vector(1)]).unwrap_err();
        assert_eq!(
            error.message(),
            "Inputs to operation op of type AddN must have the same size and shape.  Input 0: [2] != input 1: [1]"
        );
        let shape = infer(&registry(), "AddN", &attrs::<f32>(3), "[2,?];[?,3];?", &[]).unwrap();
        assert_eq!(shape, "[2,3]");
        let error = infer(&registry(), "AddN", &attrs::<f32>(3), "[2,?];[4,3];?", &[]).unwrap_err();
        assert_eq!(
            error.message(),
            "Dimension 0 in both shapes must be equal, but are 2 and 4. Shapes are [2,?] and [4,3].\n\t\
             From merging shape 0 with other shapes."
        );
    }
}

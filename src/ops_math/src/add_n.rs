//! `AddN`: the sum of any number of tensors.

use tfcore_base::{Make, Numbers, Pick, Result, TypeSet, internal, invalid};
use tfcore_framework::{InferenceContext, OpContext, Registry, for_each_part, kernel, shape_ops};
use tfcore_math::isa::vectorize;
use tfcore_tensor::{Elems, ElemsMut};

use crate::number::{Number, Ring};

pub(crate) fn register(r: &mut Registry) {
    // `AddN(inputs: N * T) -> sum: T`.
    r.op("AddN").shape(add_n_shape).cpu_for("T", &Numbers::dtypes(), |init| {
        let name = init.name.to_string();
        let dtype = init.output_dtypes[0];
        let accumulate = <Numbers as Pick<AccumulateForm, Accumulate>>::pick(dtype)
            .ok_or_else(|| internal!("AddN of {dtype}"))?;
        kernel(move |ctx| add_n(ctx, &name, accumulate))
    });
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
    ctx.forward_handle(0, 0);
    Ok(())
}

/// Adds elements to as many others.
type Accumulate = fn(Elems<'_>, ElemsMut<'_>);

struct AccumulateForm;

impl<T: Number<Wide: Ring>> Make<T, Accumulate> for AccumulateForm {
    fn make() -> Accumulate {
        |input, sums| {
            let (input, sums) = (input.typed::<T>(), sums.typed::<T>());
            vectorize(
                #[inline(always)]
                || {
                    for (sum, &x) in sums.iter_mut().zip(input) {
                        *sum = T::narrow(sum.widen().plus(x.widen()));
                    }
                },
            );
        }
    }
}

/// Elements that are summed at a time, so that the sums stay in the cache.
const BLOCK: usize = 2048;

fn add_n(ctx: &mut OpContext<'_>, name: &str, accumulate: Accumulate) -> Result<()> {
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
    let inputs = (usize::from(forwarded.is_some())..ctx.num_inputs())
        .map(|index| ctx.input(index).map(|tensor| tensor.elems()))
        .collect::<Result<Vec<Elems<'_>>>>()?;
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
                    accumulate(input, block.reborrow());
                }
            }
        }
    });
    ctx.set_output(0, sum);
    Ok(())
}

#[cfg(test)]
mod tests {
    use tfcore_base::{DType, Elem};
    use tfcore_framework::AttrValue;
    use tfcore_framework::testing::{infer, run_op};
    use tfcore_tensor::{Shape, Tensor};

    use super::*;

    fn registry() -> Registry {
        let mut registry = Registry::new();
        register(&mut registry);
        registry
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

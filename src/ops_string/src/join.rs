//! `StringJoin`.

use tfcore_base::{Result, require};
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_ops,
};
use tfcore_tensor::{PartialShape, Shape, TString};

pub(crate) fn register(r: &mut Registry) {
    // `StringJoin(inputs: N*string) -> output: string`: the strings at each position, scalars repeating,
    // with the separator between them.
    r.op("StringJoin").shape(join_shape).cpu(join_kernel);
}

fn join_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    // What may turn out to be a scalar tells nothing, unless there is nothing else.
    let mut shape = PartialShape::unknown();
    for input in ctx.inputs().iter().filter(|input| input.rank() != Some(0)) {
        shape = shape_ops::merge(&shape, input)?;
    }
    if ctx.inputs().iter().all(|input| input.rank() == Some(0)) {
        shape = PartialShape::scalar();
    }
    ctx.set_output(0, shape);
    Ok(())
}

fn join_kernel(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let separator = init.attrs.bytes("separator")?.to_vec();
    kernel(move |ctx| join(ctx, &separator))
}

fn join(ctx: &mut OpContext<'_>, separator: &[u8]) -> Result<()> {
    let mut shape = Shape::scalar();
    for index in 0..ctx.num_inputs() {
        let input = ctx.input(index)?.shape();
        if shape.rank() == 0 {
            shape = input.clone();
        }
        require!(
            input.rank() == 0 || *input == shape,
            "Input shapes do not match: {shape} vs. {input}"
        );
    }
    let inputs = (0..ctx.num_inputs())
        .map(|index| ctx.input_slice::<TString>(index))
        .collect::<Result<Vec<_>>>()?;
    ctx.produce(0, shape, |out| {
        let mut joined = Vec::new();
        for (position, out) in out.typed::<TString>().iter_mut().enumerate() {
            joined.clear();
            for (index, input) in inputs.iter().enumerate() {
                if index > 0 {
                    joined.extend_from_slice(separator);
                }
                let at = if input.len() == 1 { 0 } else { position };
                joined.extend_from_slice(input[at].as_bytes());
            }
            out.assign(&joined);
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tfcore_framework::AttrValue;
    use tfcore_framework::testing::{infer, registry_of, run_op};
    use tfcore_tensor::Tensor;

    fn texts(dims: &[i64], texts: &[&str]) -> Tensor {
        let texts: Vec<TString> = texts.iter().map(|&text| text.into()).collect();
        Tensor::from_slice(Shape::new(dims).unwrap(), &texts).unwrap()
    }

    #[test]
    fn scalars_are_joined_to_every_string() {
        let registry = registry_of(register);
        let attrs = [("N", AttrValue::Int(3)), ("separator", AttrValue::string("-"))];
        let inputs = [texts(&[2], &["a", ""]), texts(&[], &["x"]), texts(&[2], &["b", "c"])];
        let out = run_op(&registry, "StringJoin", &attrs, &inputs).unwrap();
        assert_eq!(out[0].as_slice::<TString>().unwrap(), [TString::from("a-x-b"), "-x-c".into()]);
        let unlike = [texts(&[2], &["a", "b"]), texts(&[], &["x"]), texts(&[1], &["c"])];
        let error = run_op(&registry, "StringJoin", &attrs, &unlike).unwrap_err();
        assert_eq!(error.message(), "Input shapes do not match: [2] vs. [1]");
        for (inputs, expected) in [("[2];[];?", "[2]"), ("[];[];[]", "[]"), ("[];[];?", "?")] {
            assert_eq!(infer(&registry, "StringJoin", &attrs, inputs, &[]).unwrap(), expected);
        }
    }
}

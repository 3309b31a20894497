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
    let mut out = ctx.allocate_output(0, shape)?;
    let inputs = (0..ctx.num_inputs())
        .map(|index| ctx.input_slice::<TString>(index))
        .collect::<Result<Vec<_>>>()?;
    let mut joined = Vec::new();
    for (position, out) in out.as_mut_slice::<TString>()?.iter_mut().enumerate() {
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
    ctx.set_output(0, out);
    Ok(())
}

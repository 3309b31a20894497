//! Ops that call functions: calls, conditionals, loops and maps.
//!
//! Shape functions do not look into the functions; they know what the inputs and the `output_shapes`
//! attrs tell.

use tfcore_base::{DType, Result, internal, invalid};
use tfcore_framework::{InferenceContext, OpContext, Registry, shape_fns, truth};
use tfcore_tensor::{PartialShape, Tensor};

pub(crate) fn register(r: &mut Registry) {
    // PartitionedCall(args: Tin, f) -> output: Tout
    r.ops(["PartitionedCall", "StatefulPartitionedCall", "RemoteCall"], |op| {
        op.shape(shape_fns::unknown).by_executor();
    });
    r.op("TPUPartitionedCall").shape(shape_fns::unknown);
    // For(start: int32, limit: int32, delta: int32, input: T, body) -> output: T
    r.op("For").shape(shape_fns::unknown).by_executor();
    // _ListToArray(input: Tin) -> output: N * T, and the other way round
    r.ops(["_ListToArray", "_ArrayToList"], |op| {
        op.shape(shape_fns::unknown).compute(pass_on);
    });
    // SymbolicGradient(input: Tin, f) -> output: Tout
    r.op("SymbolicGradient").shape(gradient_shape).by_executor();
    // If(cond: Tcond, input: Tin, then_branch, else_branch, output_shapes) -> output: Tout
    r.ops(["If", "StatelessIf", "Case", "StatelessCase"], |op| {
        op.shape(|ctx| set_declared_shapes(ctx).map(drop)).by_executor();
    });
    r.op("_If").shape(shape_fns::unknown).by_executor();
    // While(input: T, cond, body, output_shapes) -> output: T
    r.ops(["While", "StatelessWhile"], |op| {
        op.shape(|ctx| match set_declared_shapes(ctx)? {
            true => Ok(()),
            false => inputs_to_outputs(ctx),
        })
        .by_executor();
    });
    r.op("_While").shape(inputs_to_outputs).by_executor();
    // MapDefun(arguments: Targuments, captured_inputs: Tcaptured, f, output_shapes) -> output: output_types
    r.op("MapDefun").shape(map_shape).by_executor();
    // ToBool(input: T) -> output: bool
    r.op("ToBool").shape(shape_fns::scalar).compute(|ctx| {
        let value = Tensor::scalar(truth(ctx.input(0)?)?);
        ctx.set_output(0, value);
        Ok(())
    });
}

/// Hands on as many values as there are outputs.
fn pass_on(ctx: &mut OpContext<'_>) -> Result<()> {
    let (inputs, outputs) = (ctx.num_inputs(), ctx.num_outputs());
    if inputs != outputs {
        return Err(internal!("#inputs != #outputs : {inputs} vs. {outputs}"));
    }
    for index in 0..inputs {
        let value = ctx.take_input(index)?;
        ctx.try_set_output(index, value)?;
    }
    Ok(())
}

/// Takes the shapes from attr `output_shapes`; false if it is empty.
fn set_declared_shapes(ctx: &mut InferenceContext<'_>) -> Result<bool> {
    let shapes = ctx.attrs.shapes("output_shapes")?;
    if shapes.is_empty() {
        return Ok(false);
    }
    if shapes.len() != ctx.num_outputs() {
        return Err(invalid!(
            "`output_shapes` must be the same length as num outputs ({} vs. {}",
            shapes.len(),
            ctx.num_outputs()
        ));
    }
    for (index, shape) in shapes.iter().enumerate() {
        ctx.set_output(index, shape.clone());
    }
    Ok(true)
}

/// A loop's results have the shapes of its inputs.
fn inputs_to_outputs(ctx: &mut InferenceContext<'_>) -> Result<()> {
    for index in 0..ctx.num_outputs() {
        ctx.set_output(index, ctx.input(index).clone());
    }
    Ok(())
}

/// With `(u, v) = f(x, y)`, the inputs are `(x, y, du, dv)` and the outputs `(dx, dy)`.
fn gradient_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    if ctx.num_inputs() < ctx.num_outputs() {
        return Err(invalid!("len(inputs) < len(outputs)"));
    }
    let dtypes = ctx.attrs.dtypes("Tin")?;
    for (index, &dtype) in dtypes.iter().enumerate().take(ctx.num_outputs()) {
        let shape = match (dtype == DType::RESOURCE, ctx.input_handle(index)) {
            (false, _) => ctx.input(index).clone(),
            (true, Some([value, ..])) => value.shape.clone(),
            (true, _) => PartialShape::unknown(),
        };
        ctx.set_output(index, shape);
    }
    Ok(())
}

/// The function maps slices of the arguments along dimension 0.
fn map_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let shapes = ctx.attrs.shapes("output_shapes")?;
    if shapes.len() != ctx.num_outputs() {
        return Err(invalid!(
            "`output_shapes` must be the same length as `output_types` ({} vs. {})",
            shapes.len(),
            ctx.num_outputs()
        ));
    }
    let mut len = None;
    for (index, shape) in ctx.input_list("arguments")?.iter().enumerate() {
        if shape.rank() == Some(0) {
            return Err(invalid!(
                "Arguments must have at least rank 1. Input #{index} has rank of 0."
            ));
        }
        let this = shape.dims().and_then(|dims| dims[0].value());
        match (len, this) {
            (Some(len), Some(this)) if len != this => {
                return Err(invalid!("Arguments must have the same dimension 0."));
            }
            _ => len = len.or(this),
        }
    }
    for (index, shape) in shapes.iter().enumerate() {
        let shape = match shape.dims() {
            Some(dims) => {
                let mut sizes = vec![len.unwrap_or(-1)];
                sizes.extend(dims.iter().map(|dim| dim.to_i64()));
                PartialShape::from_i64s(&sizes)?
            }
            None => PartialShape::unknown(),
        };
        ctx.set_output(index, shape);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use tfcore_framework::testing::{infer, registry_of};
    use tfcore_framework::{AttrList, AttrValue, Attrs};

    use super::*;

    fn floats(count: usize) -> AttrValue {
        AttrValue::types(vec![DType::FLOAT; count])
    }

    fn shapes(shapes: &[Option<&[i64]>]) -> AttrValue {
        let shape = |dims: &Option<&[i64]>| match dims {
            Some(dims) => PartialShape::from_i64s(dims).unwrap(),
            None => PartialShape::unknown(),
        };
        AttrValue::list(AttrList::Shape(shapes.iter().map(shape).collect()))
    }

    #[test]
    fn shapes_of_calls() {
        let registry = registry_of(register);
        let f = || AttrValue::func("F", Attrs::new());
        let call = [("Tin", floats(1)), ("Tout", floats(2)), ("f", f())];
        let tcond = ("Tcond", AttrValue::Type(DType::BOOL));
        let branches = |output_shapes| {
            [
                tcond.clone(),
                ("Tin", floats(1)),
                ("Tout", floats(2)),
                ("then_branch", f()),
                ("else_branch", f()),
                ("output_shapes", output_shapes),
            ]
        };
        let looped = |output_shapes| {
            [("T", floats(2)), ("cond", f()), ("body", f()), ("output_shapes", output_shapes)]
        };
        let mapped = |output_shapes| {
            [
                ("Targuments", floats(2)),
                ("output_types", floats(2)),
                ("f", f()),
                ("output_shapes", output_shapes),
            ]
        };
        let two = || shapes(&[Some(&[3]), None]);
        let cases: [(&str, &[(&str, AttrValue)], &str, &str); 15] = [
            ("PartitionedCall", &call, "[2]", "?;?"),
            ("If", &branches(shapes(&[])), "[];[2]", "?;?"),
            ("If", &branches(two()), "[];[2]", "[3];?"),
            (
                "StatelessIf",
                &branches(shapes(&[None])),
                "[];[2]",
                "`output_shapes` must be the same length as num outputs (1 vs. 2",
            ),
            ("While", &looped(shapes(&[])), "[2];[?]", "[2];[?]"),
            ("StatelessWhile", &looped(two()), "[2];[?]", "[3];?"),
            (
                "While",
                &looped(shapes(&[None])),
                "[2];[2]",
                "`output_shapes` must be the same length as num outputs (1 vs. 2",
            ),
            ("MapDefun", &mapped(two()), "[5,1];[?]", "[5,3];?"),
            ("MapDefun", &mapped(two()), "?;[?]", "[?,3];?"),
            ("MapDefun", &mapped(two()), "[5];[4]", "Arguments must have the same dimension 0."),
            (
                "MapDefun",
                &mapped(two()),
                "[5];[]",
                "Arguments must have at least rank 1. Input #1 has rank of 0.",
            ),
            (
                "MapDefun",
                &mapped(shapes(&[None])),
                "[5];[5]",
                "`output_shapes` must be the same length as `output_types` (1 vs. 2)",
            ),
            (
                "SymbolicGradient",
                &[("Tin", floats(3)), ("Tout", floats(2)), ("f", f())],
                "[1];[2];[3]",
                "[1];[2]",
            ),
            (
                "SymbolicGradient",
                &[("Tin", floats(1)), ("Tout", floats(2)), ("f", f())],
                "[1]",
                "len(inputs) < len(outputs)",
            ),
            ("ToBool", &[("T", AttrValue::Type(DType::FLOAT))], "[4]", "[]"),
        ];
        for (op, attrs, inputs, expected) in cases {
            let actual = infer(&registry, op, attrs, inputs, &[]);
            let actual = actual.unwrap_or_else(|error| error.message().to_string());
            assert_eq!(actual, expected, "{op} of {inputs}");
        }
    }
}

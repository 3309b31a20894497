//! `Restore` and `RestoreSlice`.

use tfcore_base::{Result, invalid, not_found, require};
use tfcore_checkpoint::TensorSlice;
use tfcore_checkpoint::v1::V1Reader;
use tfcore_framework::{InferenceContext, OpContext, Registry, kernel};
use tfcore_tensor::{PartialShape, TString, Tensor};

use crate::args::{path, scalars, shape_and_slice, show, single};

pub(crate) fn register(r: &mut Registry) {
    // `Restore(file_pattern: string, tensor_name: string) -> tensor: dt`: from checkpoints of version 1. The attr
    // `preferred_shard` is a hint that changes no result.
    r.op("Restore").shape(|ctx| scalars(ctx, &[0, 1])).cpu(|_| kernel(|ctx| restore(ctx, false)));
    // `RestoreSlice(file_pattern: string, tensor_name: string, shape_and_slice: string) -> tensor: dt`.
    r.op("RestoreSlice").shape(slice_shape).cpu(|_| kernel(|ctx| restore(ctx, true)));
}

fn slice_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    scalars(ctx, &[0, 1, 2])?;
    let text = ctx.operand(2);
    if let Some(text) = text.as_ref().and_then(single)
        && let Some((shape, slice)) = shape_and_slice(text)?
    {
        ctx.set_output(0, PartialShape::from_i64s(slice.shape_of(&shape)?.dims())?);
    }
    Ok(())
}

fn restore(ctx: &mut OpContext<'_>, has_slice: bool) -> Result<()> {
    let text = |index: usize, name: &str| -> Result<&TString> {
        let tensor = ctx.input(index)?;
        single(tensor).ok_or_else(|| {
            invalid!(
                "Input {index} ({name}) must be a string scalar; got a tensor of {}elements",
                tensor.count()
            )
        })
    };
    let (pattern, name) = (text(0, "file_pattern")?, text(1, "tensor_name")?);
    let slice = if has_slice {
        let slice = ctx.input(2)?;
        require!(
            slice.count() == 1,
            "Expected 1 element for the tensor shape and slice but got {}",
            slice.count()
        );
        single(slice)
    } else {
        None
    };
    let tensor = restore_tensor(ctx, pattern, name, slice, 0)?;
    ctx.set_output(0, tensor);
    Ok(())
}

/// Reads a tensor or a slice of it from the files that match a pattern, for output `index`.
pub(crate) fn restore_tensor(
    ctx: &OpContext<'_>,
    pattern: &TString,
    name: &TString,
    slice: Option<&TString>,
    index: usize,
) -> Result<Tensor> {
    let reader = V1Reader::open(&ctx.step().files, path(pattern))?;
    let (dtype, shape) = reader.dtype_and_shape(name.as_bytes()).ok_or_else(|| {
        not_found!("Tensor name \"{}\" not found in checkpoint files {}", show(name), show(pattern))
    })?;
    let expected = ctx.output_dtype(index);
    require!(
        dtype == expected,
        "Expected to restore a tensor of type {expected}, got a tensor of type {dtype} instead: tensor_name = {}",
        show(name)
    );
    let parsed = slice.map(shape_and_slice).transpose()?.flatten();
    if let Some((wanted, _)) = &parsed {
        require!(
            *wanted == shape,
            "Shape in shape_and_slice spec does not match the shape in the save file: {wanted}, save file \
             shape: {shape}"
        );
    }
    let slice = parsed.map_or_else(|| TensorSlice::full(shape.rank()), |(_, slice)| slice);
    reader.read_slice(name.as_bytes(), &slice)
}

#[cfg(test)]
mod tests {
    use tfcore_base::DType;
    use tfcore_framework::testing::{floats, registry_of, run_op_in, step, tensor};
    use tfcore_framework::{AttrList, AttrValue};

    use super::*;

    fn types(dtypes: &[DType]) -> AttrValue {
        AttrValue::List(AttrList::Type(dtypes.to_vec()).into())
    }

    #[test]
    fn version_1_checkpoints_come_back() {
        let registry = registry_of(crate::register);
        let step = step();
        let text = |text: &str| Tensor::scalar(TString::from(text));
        let vector = |texts: [&str; 2]| tensor(&[2], &texts.map(TString::from));
        let dtypes = [("T", types(&[DType::FLOAT, DType::FLOAT]))];
        let (x, y) = (floats(&[1, 2], &[1.0, 2.0]), floats(&[1, 2], &[3.0, 4.0]));
        let inputs = vec![text("ram://v1/a-1"), vector(["x", "y"]), x.clone(), y.clone()];
        run_op_in(&step, &registry, "Save", &dtypes, inputs).unwrap();
        let slices = vector(["2 2 0,1:-", "2 2 1,1:-"]);
        let inputs = vec![text("ram://v1/a-2"), vector(["z", "z"]), slices, x.clone(), y];
        run_op_in(&step, &registry, "SaveSlices", &dtypes, inputs).unwrap();
        let restore = |name: &str, slice: Option<&str>, dtype: DType| {
            let op = if slice.is_some() { "RestoreSlice" } else { "Restore" };
            let mut inputs = vec![text("ram://v1/a-?"), text(name)];
            inputs.extend(slice.map(text));
            run_op_in(&step, &registry, op, &[("dt", AttrValue::Type(dtype))], inputs)
        };
        for (name, slice, expected) in [
            ("x", None, vec![1f32, 2.0]),
            ("z", None, vec![1.0, 2.0, 3.0, 4.0]),
            ("z", Some("2 2 -:1,1"), vec![2.0, 4.0]),
            ("y", Some(""), vec![3.0, 4.0]),
        ] {
            let read = restore(name, slice, DType::FLOAT).unwrap();
            assert_eq!(read[0].as_slice::<f32>().unwrap(), expected, "{name}");
        }
        for (name, slice, dtype, message) in [
            (
                "q",
                None,
                DType::FLOAT,
                "Tensor name \"q\" not found in checkpoint files ram://v1/a-?",
            ),
            (
                "x",
                None,
                DType::INT32,
                "Expected to restore a tensor of type int32, got a tensor of type float instead: tensor_name = x",
            ),
            (
                "x",
                Some("2 2 -:-"),
                DType::FLOAT,
                "Shape in shape_and_slice spec does not match the shape in the save file: [2,2], save file \
                 shape: [1,2]",
            ),
        ] {
            assert_eq!(restore(name, slice, dtype).unwrap_err().message(), message);
        }
        // Checkpoints of version 1 are what the op of version 2 falls back to.
        let inputs = vec![text("ram://v1/a-*"), vector(["z", "x"]), vector(["2 2 1,1:-", ""])];
        let dtypes = [("dtypes", types(&[DType::FLOAT, DType::FLOAT]))];
        let read = run_op_in(&step, &registry, "RestoreV2", &dtypes, inputs).unwrap();
        assert_eq!(read[0].as_slice::<f32>().unwrap(), [3.0, 4.0]);
        assert_eq!(read[1].as_slice::<f32>().unwrap(), x.as_slice::<f32>().unwrap());
    }
}

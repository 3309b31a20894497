//! `RestoreV2`.

use tfcore_base::{Result, invalid, not_found, require};
use tfcore_checkpoint::{BundleReader, Request, index_path};
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_ops,
};
use tfcore_tensor::{PartialShape, TString};

use crate::args::{path, scalars, shape_and_slice, show};
use crate::restore_v1::restore_tensor;
use crate::save::names_and_slices;

pub(crate) fn register(r: &mut Registry) {
    // `RestoreV2(prefix: string, tensor_names: string, shape_and_slices: string) -> tensors: dtypes`: from a checkpoint
    // of version 2, or of version 1 if there is none.
    r.op("RestoreV2").shape(restore_shape).cpu(restore_kernel);
}

fn restore_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    scalars(ctx, &[0])?;
    let names = shape_ops::with_rank(ctx.input(1), 1)?;
    let slices = shape_ops::with_rank(ctx.input(2), 1)?;
    shape_ops::merge(&names, &slices)?;
    let Some(slices) = ctx.operand(2) else { return Ok(()) };
    let slices = slices.as_slice::<TString>()?;
    require!(
        slices.len() == ctx.num_outputs(),
        "The number of shape_and_slice doesn't match tensor outputs."
    );
    for (index, text) in slices.iter().enumerate() {
        if let Some((shape, slice)) = shape_and_slice(text)? {
            ctx.set_output(index, PartialShape::from_i64s(slice.shape_of(&shape)?.dims())?);
        }
    }
    Ok(())
}

fn restore_kernel(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let dtypes = init.output_dtypes.len();
    kernel(move |ctx| {
        let names = ctx.input(1)?.count();
        require!(names == dtypes, "Got {names} tensor names, but {dtypes} expected dtypes.");
        restore(ctx)
    })
}

fn restore(ctx: &mut OpContext<'_>) -> Result<()> {
    let (prefix, names, slices) = names_and_slices(ctx)?;
    let files = &ctx.step().files;
    let is_v2 = files.matching(&index_path(path(prefix))).is_ok_and(|found| !found.is_empty());
    if !is_v2 {
        for (index, (name, slice)) in names.iter().zip(slices).enumerate() {
            let tensor = restore_tensor(ctx, prefix, name, Some(slice), index)?;
            ctx.set_output(index, tensor);
        }
        return Ok(());
    }
    let reader = BundleReader::open(files, path(prefix))?;
    let mut order: Vec<usize> = (0..names.len()).collect();
    order.sort_by_key(|&index| names[index].as_bytes());
    check_names(&reader, &order, names)?;
    let mut mismatches = Vec::new();
    for &index in &order {
        let (expected, name) = (ctx.output_dtype(index), &names[index]);
        let (stored, _) = reader.dtype_and_shape(name.as_bytes())?;
        if stored != expected {
            mismatches.push(format!(
                "tensor_name = {}; expected dtype {expected} does not equal original dtype {stored}",
                show(name)
            ));
        }
    }
    require!(mismatches.is_empty(), "{}", mismatches.join("\n"));
    let requests = order.iter().map(|&index| request(&reader, &names[index], &slices[index]));
    let requests = requests.collect::<Result<Vec<_>>>()?;
    let tensors = reader.read_all(&requests, ctx.parallel())?;
    for (&index, tensor) in order.iter().zip(tensors) {
        ctx.set_output(index, tensor);
    }
    Ok(())
}

/// Checks that there is a tensor of each name.
///
/// # Errors
/// `NotFound` with all names that are missing, in this order.
fn check_names(reader: &BundleReader<'_>, order: &[usize], names: &[TString]) -> Result<()> {
    let names = order.iter().map(|&index| &names[index]);
    let mut missing = names.filter(|name| !reader.contains(name.as_bytes())).map(show);
    let Some(first) = missing.next() else { return Ok(()) };
    let others: Vec<String> = missing.collect();
    Err(match others.is_empty() {
        true => not_found!("Key {first} not found in checkpoint"),
        false => not_found!("Key {first} not found in checkpoint, nor {}", others.join(", ")),
    })
}

fn request<'n>(
    reader: &BundleReader<'_>,
    name: &'n TString,
    slice: &TString,
) -> Result<Request<'n>> {
    let key = name.as_bytes();
    let Some((shape, slice)) = shape_and_slice(slice)? else {
        return Ok(Request { key, slice: None });
    };
    let (_, stored) = reader.dtype_and_shape(key)?;
    if shape != stored {
        return Err(invalid!(
            "tensor_name = {}; shape in shape_and_slice spec {shape} does not match the shape stored in \
             checkpoint: {stored}",
            show(name)
        ));
    }
    Ok(Request { key, slice: Some(slice) })
}

#[cfg(test)]
mod tests {
    use tfcore_base::DType;
    use tfcore_framework::testing::{infer, registry_of, run_op_in, step, tensor};
    use tfcore_framework::{AttrList, AttrValue};
    use tfcore_tensor::Tensor;

    use super::*;

    fn texts(texts: &[&str]) -> Tensor {
        let texts: Vec<TString> = texts.iter().map(|text| TString::from(*text)).collect();
        tensor(&[texts.len() as i64], &texts)
    }

    fn types(dtypes: &[DType]) -> AttrValue {
        AttrValue::List(AttrList::Type(dtypes.to_vec()).into())
    }

    #[test]
    fn saved_tensors_are_restored() {
        let registry = registry_of(crate::register);
        let step = step();
        let prefix = Tensor::scalar(TString::from("ram://ops/ckpt"));
        let (x, y) = (tensor(&[2, 2], &[1f32, 2.0, 3.0, 4.0]), texts(&["a", ""]));
        let (names, whole) = (texts(&["x", "y"]), texts(&["", ""]));
        let dtypes = [("dtypes", types(&[DType::FLOAT, DType::STRING]))];
        let save = |names: &Tensor, slices: &Tensor| {
            let inputs = [&prefix, names, slices, &x, &y].map(Tensor::clone).to_vec();
            run_op_in(&step, &registry, "SaveV2", &dtypes, inputs).map(|_| ())
        };
        save(&names, &whole).unwrap();
        let restore = |names: &[&str], slices: &[&str], dtypes: &[DType]| {
            let inputs = vec![prefix.clone(), texts(names), texts(slices)];
            let dtypes = [("dtypes", types(dtypes))];
            run_op_in(&step, &registry, "RestoreV2", &dtypes, inputs)
        };
        let read = restore(
            &["y", "x", "x"],
            &["", "2 2 1,1:-", ""],
            &[DType::STRING, DType::FLOAT, DType::FLOAT],
        );
        let read = read.unwrap();
        assert_eq!(read[0].as_slice::<TString>().unwrap(), y.as_slice::<TString>().unwrap());
        assert_eq!(read[1].as_slice::<f32>().unwrap(), [3.0, 4.0]);
        assert_eq!(read[2].as_slice::<f32>().unwrap(), x.as_slice::<f32>().unwrap());
        for (names, slices, dtypes, message) in [
            (
                &["x", "y"][..],
                &["", ""][..],
                &[DType::INT32, DType::INT32][..],
                "tensor_name = x; expected dtype int32 does not equal original dtype float\n\
                 tensor_name = y; expected dtype int32 does not equal original dtype string",
            ),
            (&["z"], &[""], &[DType::FLOAT], "Key z not found in checkpoint"),
            (
                &["z", "x", "a"],
                &["", "", ""],
                &[DType::FLOAT, DType::FLOAT, DType::FLOAT],
                "Key a not found in checkpoint, nor z",
            ),
            (
                &["x"],
                &["2 3 -:-"],
                &[DType::FLOAT],
                "tensor_name = x; shape in shape_and_slice spec [2,3] does not match the shape stored in \
                 checkpoint: [2,2]",
            ),
            (&["x"], &[""], &[], "Got 1 tensor names, but 0 expected dtypes."),
            (
                &["x"],
                &["", ""],
                &[DType::FLOAT],
                "tensor_names and shape_and_slices have different number of elements: 1 vs. 2",
            ),
        ] {
            assert_eq!(restore(names, slices, dtypes).unwrap_err().message(), message);
        }
        let error = save(&texts(&["x", "x"]), &whole).unwrap_err();
        assert_eq!(error.message(), "Adding duplicate key: x");
        assert!(save(&names, &texts(&["2 2 0,1:-", ""])).is_err());
        assert!(restore(&["x"], &[""], &[DType::FLOAT]).is_ok());
    }

    #[test]
    fn shapes_come_from_slices() {
        let registry = registry_of(register);
        let dtypes = [("dtypes", types(&[DType::FLOAT, DType::FLOAT]))];
        let infer = |slices: &[&str]| {
            let slices = texts(slices);
            let shapes = format!("[];[2];{}", slices.shape());
            infer(&registry, "RestoreV2", &dtypes, &shapes, &[(2, slices)])
        };
        assert_eq!(infer(&["", "4 3 0,2:-"]).unwrap(), "?;[2,3]");
        assert!(infer(&["", "4 3 0,5:-"]).is_err());
        assert!(infer(&[""]).is_err());
    }
}

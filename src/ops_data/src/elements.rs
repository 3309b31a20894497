//! Ops that turn datasets into tensors without an iterator of the graph.

use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use tfcore_base::{DType, Result, failed_precondition, invalid, require};
use tfcore_framework::{Registry, shape_fns};
use tfcore_tensor::{TString, Tensor};

use crate::args::{Args, components_shape, kernel, set_components};
use crate::dataset::only;
use crate::iterators::{check, check_components};
use crate::records::{Compression, RecordWriter};

pub(crate) fn register(r: &mut Registry) {
    // `DatasetToSingleElement(dataset: variant) -> components: output_types`, of a dataset of one element.
    r.op("DatasetToSingleElement").shape(components_shape).cpu(|init| kernel(init, single));
    // `ReduceDataset(input_dataset: variant, initial_state: Tstate, other_arguments: Targuments) ->
    // components: output_types`, `f(state, element)` over all elements.
    r.op("ReduceDataset").shape(components_shape).cpu(|init| kernel(init, reduce));
    // `GetElementAtIndex(dataset: variant, index: int64) -> components: output_types`.
    r.op("GetElementAtIndex").shape(components_shape).cpu(|init| kernel(init, element_at));
    // `DatasetCardinality(input_dataset: variant) -> cardinality: int64`, -1 without end, -2 if unknown.
    r.ops(["DatasetCardinality", "ExperimentalDatasetCardinality"], |op| {
        op.shape(shape_fns::scalar).cpu(|init| {
            kernel(init, |args| {
                let cardinality = args.dataset("input_dataset")?.cardinality();
                args.ctx.set_output(0, Tensor::scalar(cardinality));
                Ok(())
            })
        });
    });
    // `DatasetFingerprint(input_dataset: variant) -> fingerprint: uint64`, the same for equal pipelines.
    r.op("DatasetFingerprint").shape(shape_fns::scalar).cpu(|init| {
        kernel(init, |args| {
            let fingerprint = args.dataset("input_dataset")?.fingerprint()?;
            args.ctx.set_output(0, Tensor::scalar(fingerprint));
            Ok(())
        })
    });
    // `DatasetToTFRecord(input_dataset: variant, filename: string, compression_type: string)`.
    r.ops(["DatasetToTFRecord", "ExperimentalDatasetToTFRecord"], |op| {
        op.shape(shape_fns::no_outputs).cpu(|init| kernel(init, to_records));
    });
    // `ComputeBatchSize(input_dataset: variant) -> batch_size: int64`, -1 if it is not known.
    r.op("ComputeBatchSize").shape(shape_fns::scalar).cpu(|init| {
        kernel(init, |args| {
            let size = args.dataset("input_dataset")?.batch_size().unwrap_or(-1);
            args.ctx.set_output(0, Tensor::scalar(size));
            Ok(())
        })
    });
}

fn single(args: &mut Args<'_, '_>) -> Result<()> {
    let ctx = args.iter_context();
    let mut pass = args.dataset("dataset")?.iterate(&ctx.at_root())?;
    let element = pass.next(&ctx)?.ok_or_else(|| invalid!("Dataset was empty."))?;
    require!(pass.next(&ctx)?.is_none(), "Dataset had more than one element.");
    check_components(args, &element)?;
    set_components(args.ctx, element)
}

fn reduce(args: &mut Args<'_, '_>) -> Result<()> {
    let ctx = args.iter_context();
    let function = args.function("f", "other_arguments")?;
    let mut state = args.tensors("initial_state")?;
    let dtypes = args.attrs().dtypes("Tstate")?.to_vec();
    let mut pass = args.dataset("input_dataset")?.iterate(&ctx.at_root())?;
    while let Some(element) = pass.next(&ctx)? {
        state = function.call(&ctx, state.into_iter().chain(element).collect())?;
        check(&dtypes, &state)?;
    }
    check_components(args, &state)?;
    set_components(args.ctx, state)
}

/// Writes each element, one string, as a record.
fn to_records(args: &mut Args<'_, '_>) -> Result<()> {
    let ctx = args.iter_context();
    let name = args.text("filename")?;
    let name = PathBuf::from(std::ffi::OsStr::from_bytes(&name));
    // The reference writes what it does not know how to pack as it is.
    let compression = Compression::named(&args.text("compression_type")?);
    let compression = compression.unwrap_or(Compression::None);
    let dataset = args.dataset("input_dataset")?;
    require!(
        dataset.dtypes == [DType::STRING],
        "ToTFRecordOp currently only supports DT_STRING dataypes, i.e. datasets of single strings."
    );
    let mut records = RecordWriter::create(&ctx, &name, compression)?;
    let mut pass = dataset.iterate(&ctx.at_root())?;
    while let Some(element) = pass.next(&ctx)? {
        let text: TString = only(element)?.scalar_value()?;
        records.write(text.as_bytes())?;
    }
    records.close()
}

fn element_at(args: &mut Args<'_, '_>) -> Result<()> {
    let index: i64 = args.scalar("index")?;
    let dataset = args.dataset("dataset")?;
    let place = u64::try_from(index)
        .map_err(|_| tfcore_base::out_of_range!("Index out of range [0, ...):{index}"))?;
    let element = dataset.at(place, &args.iter_context()).unwrap_or_else(|| {
        Err(failed_precondition!(
            "Random access is not implemented for dataset {}Dataset.",
            dataset.name
        ))
    })?;
    check_components(args, &element)?;
    set_components(args.ctx, element)
}

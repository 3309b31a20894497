//! `SaveV2` and `MergeV2Checkpoints`.

use tfcore_base::{Result, require};
use tfcore_checkpoint::{BundleWriter, merge};
use tfcore_files::dirname;
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_ops,
};
use tfcore_tensor::{TString, Tensor};

use crate::args::{check_slice, path, scalars, vector_of};

/// Inputs before the tensors: the prefix, the names, shapes and slices.
pub(crate) const FIXED_INPUTS: usize = 3;

pub(crate) fn register(r: &mut Registry) {
    // `SaveV2(prefix: string, tensor_names: string, shape_and_slices: string, tensors: dtypes)`: a checkpoint of
    // version 2, put in place when all of it is written.
    r.op("SaveV2").shape(save_shape).cpu(|_| kernel(save));
    // `MergeV2Checkpoints(checkpoint_prefixes: string, destination_prefix: string)`: renames the data files.
    r.op("MergeV2Checkpoints").shape(merge_shape).cpu(merge_kernel);
}

fn save_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    scalars(ctx, &[0])?;
    let tensors = ctx.num_inputs() - FIXED_INPUTS;
    vector_of(ctx, 1, tensors)?;
    vector_of(ctx, 2, tensors)
}

/// The prefix, the names and the slices of `SaveV2` and `RestoreV2`.
pub(crate) fn names_and_slices<'c>(
    ctx: &'c OpContext<'_>,
) -> Result<(&'c TString, &'c [TString], &'c [TString])> {
    let (prefix, names, slices) = (ctx.input(0)?, ctx.input(1)?, ctx.input(2)?);
    require!(
        prefix.count() == 1,
        "Input prefix should have a single element, got {} instead.",
        prefix.count()
    );
    require!(
        names.rank() == 1 && slices.rank() == 1,
        "Input tensor_names and shape_and_slices should be an 1-D tensors, got {} and {} instead.",
        names.shape(),
        slices.shape()
    );
    require!(
        names.count() == slices.count(),
        "tensor_names and shape_and_slices have different number of elements: {} vs. {}",
        names.count(),
        slices.count()
    );
    Ok((&prefix.as_slice()?[0], names.as_slice()?, slices.as_slice()?))
}

fn save(ctx: &mut OpContext<'_>) -> Result<()> {
    let (prefix, names, slices) = names_and_slices(ctx)?;
    let tensors = ctx.num_inputs() - FIXED_INPUTS;
    require!(names.len() == tensors, "Got {} tensor names but {tensors} tensors.", names.len());
    let mut writer = BundleWriter::new(&ctx.step().files, path(prefix))?;
    for (index, (name, slice)) in names.iter().zip(slices).enumerate() {
        let tensor: &Tensor = ctx.input(FIXED_INPUTS + index)?;
        match check_slice(slice, tensor)? {
            Some((shape, slice)) => writer.add_slice(name.as_bytes(), &shape, &slice, tensor)?,
            None => writer.add(name.as_bytes(), tensor)?,
        }
    }
    writer.finish()
}

fn merge_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    shape_ops::with_rank(ctx.input(0), 1)?;
    scalars(ctx, &[1])
}

fn merge_kernel(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let delete_old_dirs = init.attrs.bool("delete_old_dirs")?;
    let allow_missing_files = init.attrs.bool("allow_missing_files")?;
    kernel(move |ctx| {
        let (prefixes, merged) = (ctx.input(0)?, ctx.input(1)?);
        require!(
            prefixes.rank() == 1,
            "Input checkpoint_prefixes should be an 1-D tensor, got {} instead.",
            prefixes.shape()
        );
        require!(
            merged.rank() == 0,
            "Input destination_prefix should be a scalar tensor, got {} instead.",
            merged.shape()
        );
        let prefixes = prefixes.as_slice::<TString>()?;
        let prefixes: Vec<_> = prefixes.iter().map(|prefix| path(prefix).to_path_buf()).collect();
        let merged = path(&merged.as_slice::<TString>()?[0]);
        let files = &ctx.step().files;
        merge(files, &prefixes, merged, allow_missing_files)?;
        if delete_old_dirs {
            for prefix in &prefixes {
                if dirname(prefix) != dirname(merged) {
                    // One of several in the same directory succeeds, and none if it holds other files.
                    let _ = files.delete_dir(dirname(prefix));
                }
            }
        }
        Ok(())
    })
}

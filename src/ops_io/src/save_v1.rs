//! `Save` and `SaveSlices`.

use tfcore_base::{Result, require};
use tfcore_checkpoint::TensorSlice;
use tfcore_checkpoint::v1::V1Writer;
use tfcore_framework::{InferenceContext, OpContext, Registry, kernel};
use tfcore_tensor::{TString, Tensor};

use crate::args::{check_slice, path, scalars, single, vector_of};

pub(crate) fn register(r: &mut Registry) {
    // `Save(filename: string, tensor_names: string, data: T)`: a checkpoint of version 1.
    r.op("Save").shape(|ctx| save_shape(ctx, 2)).cpu(|_| kernel(|ctx| save(ctx, 2)));
    // `SaveSlices(filename: string, tensor_names: string, shapes_and_slices: string, data: T)`.
    r.op("SaveSlices").shape(|ctx| save_shape(ctx, 3)).cpu(|_| kernel(|ctx| save(ctx, 3)));
}

/// `fixed` inputs come before the tensors.
fn save_shape(ctx: &mut InferenceContext<'_>, fixed: usize) -> Result<()> {
    scalars(ctx, &[0])?;
    let tensors = ctx.num_inputs() - fixed;
    (1..fixed).try_for_each(|index| vector_of(ctx, index, tensors))
}

fn save(ctx: &mut OpContext<'_>, fixed: usize) -> Result<()> {
    let filename = ctx.input(0)?;
    let Some(name) = single(filename) else {
        return Err(tfcore_base::invalid!(
            "Input 0 (filename) must be a string scalar; got a tensor of {}elements",
            filename.count()
        ));
    };
    let names = ctx.input(1)?.as_slice::<TString>()?;
    let slices = if fixed > 2 { Some(ctx.input(2)?) } else { None };
    if let Some(slices) = slices {
        require!(
            slices.count() == names.len(),
            "Expected {} elements for the tensor shapes and slices but got {}",
            names.len(),
            slices.count()
        );
    }
    require!(
        ctx.num_inputs() == names.len() + fixed,
        "Expected totally {} inputs as input #1 (which is a string tensor of saved names) contains {} names, \
         but received {} inputs",
        names.len() + fixed,
        names.len(),
        ctx.num_inputs()
    );
    let slices = slices.map(Tensor::as_slice::<TString>).transpose()?;
    let mut writer = V1Writer::new(&ctx.step().files, path(name));
    for (index, name) in names.iter().enumerate() {
        let tensor = ctx.input(fixed + index)?;
        let parsed =
            slices.map(|slices| check_slice(&slices[index], tensor)).transpose()?.flatten();
        let whole = || (tensor.shape().clone(), TensorSlice::full(tensor.rank()));
        let (shape, slice) = parsed.unwrap_or_else(whole);
        writer.add(name.as_bytes(), &shape, &slice, tensor)?;
    }
    writer.finish()
}

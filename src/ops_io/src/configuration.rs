//! `FileSystemSetConfiguration`.

use tfcore_base::{Result, require, unimplemented_error};
use tfcore_framework::{OpContext, Registry};
use tfcore_tensor::TString;

use crate::args::{scalars, show};

pub(crate) fn register(r: &mut Registry) {
    // `FileSystemSetConfiguration(scheme: string, key: string, value: string)`: sets an option of the file system of a
    // scheme; none has any.
    r.op("FileSystemSetConfiguration").shape(|ctx| scalars(ctx, &[0, 1, 2])).compute(|ctx| {
        let scheme = word(ctx, 0, "scheme")?;
        word(ctx, 1, "key")?;
        word(ctx, 2, "value")?;
        let schemes = ctx.step().files.schemes();
        if scheme.is_empty() || scheme == "file" || schemes.contains(&scheme) {
            return Err(unimplemented_error!("SetOption"));
        }
        Err(unimplemented_error!(
            "File system for scheme '{scheme}' not found to set configuration"
        ))
    });
}

fn word(ctx: &OpContext<'_>, index: usize, name: &str) -> Result<String> {
    let tensor = ctx.input(index)?;
    require!(tensor.rank() == 0, "{name} must be scalar, got shape {}", tensor.shape());
    Ok(show(&tensor.scalar_value::<TString>()?))
}

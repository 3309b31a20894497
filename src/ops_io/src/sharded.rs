//! `ShardedFilename` and `ShardedFilespec`.

use tfcore_base::{Result, require};
use tfcore_framework::{InferenceContext, OpContext, Registry, kernel};
use tfcore_tensor::{PartialShape, TString, Tensor};

use crate::args::scalars;

pub(crate) fn register(r: &mut Registry) {
    // `ShardedFilename(basename: string, shard: int32, num_shards: int32) -> filename: string`,
    // `basename-00001-of-00003`.
    r.op("ShardedFilename").shape(|ctx| scalar(ctx, &[0, 1, 2])).cpu(|_| kernel(filename));
    // `ShardedFilespec(basename: string, num_shards: int32) -> filename: string`, a pattern for all shards.
    r.op("ShardedFilespec").shape(|ctx| scalar(ctx, &[0, 1])).cpu(|_| kernel(filespec));
}

fn scalar(ctx: &mut InferenceContext<'_>, inputs: &[usize]) -> Result<()> {
    scalars(ctx, inputs)?;
    ctx.set_output(0, PartialShape::scalar());
    Ok(())
}

/// Appends `suffix` to the base name.
fn produce(ctx: &mut OpContext<'_>, suffix: &str) -> Result<()> {
    let base: TString = ctx.input(0)?.scalar_value()?;
    let name = [base.as_bytes(), suffix.as_bytes()].concat();
    ctx.set_output(0, Tensor::scalar(TString::from(&name[..])));
    Ok(())
}

fn check_scalars(ctx: &OpContext<'_>, names: &[&str]) -> Result<()> {
    for (index, name) in names.iter().enumerate() {
        let shape = ctx.input(index)?.shape();
        require!(shape.rank() == 0, "{name} must be a scalar, got shape: {shape}");
    }
    Ok(())
}

fn filename(ctx: &mut OpContext<'_>) -> Result<()> {
    check_scalars(ctx, &["basename", "shard", "num_shards"])?;
    let shard: i32 = ctx.input(1)?.scalar_value()?;
    let shards: i32 = ctx.input(2)?.scalar_value()?;
    produce(ctx, &format!("-{shard:05}-of-{shards:05}"))
}

fn filespec(ctx: &mut OpContext<'_>) -> Result<()> {
    check_scalars(ctx, &["basename", "num_shards"])?;
    let shards: i32 = ctx.input(1)?.scalar_value()?;
    produce(ctx, &format!("-?????-of-{shards:05}"))
}

#[cfg(test)]
mod tests {
    use tfcore_framework::testing::{registry_of, run_op};

    use super::*;

    #[test]
    fn names_have_five_digits() {
        let registry = registry_of(register);
        let base = Tensor::scalar(TString::from("a/b"));
        for (shard, shards, expected) in
            [(1, 3, "a/b-00001-of-00003"), (123_456, -1, "a/b-123456-of--0001")]
        {
            let inputs = [base.clone(), Tensor::scalar(shard), Tensor::scalar(shards)];
            let name = run_op(&registry, "ShardedFilename", &[], &inputs).unwrap();
            assert_eq!(name[0].as_slice::<TString>().unwrap(), [TString::from(expected)]);
        }
        let name = run_op(&registry, "ShardedFilespec", &[], &[base, Tensor::scalar(7)]).unwrap();
        assert_eq!(name[0].as_slice::<TString>().unwrap(), [TString::from("a/b-?????-of-00007")]);
    }
}

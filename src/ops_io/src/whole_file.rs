//! `ReadFile`, `WriteFile` and `MatchingFiles`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use tfcore_base::{Result, require};
use tfcore_files::dirname;
use tfcore_framework::{InferenceContext, OpContext, Registry, kernel, shape_ops};
use tfcore_tensor::{Dim, PartialShape, Shape, TString, Tensor};

use crate::args::{path, scalars};

pub(crate) fn register(r: &mut Registry) {
    // `ReadFile(filename: string) -> contents: string`.
    r.op("ReadFile").shape(scalar_to_scalar).cpu(|_| kernel(read));
    // `WriteFile(filename: string, contents: string)`: creates the directories too.
    r.op("WriteFile").shape(|ctx| scalars(ctx, &[0, 1])).cpu(|_| kernel(write));
    // `MatchingFiles(pattern: string) -> filenames: string`, sorted.
    r.op("MatchingFiles").shape(matching_shape).cpu(|_| kernel(matching));
}

fn scalar_to_scalar(ctx: &mut InferenceContext<'_>) -> Result<()> {
    scalars(ctx, &[0])?;
    ctx.set_output(0, PartialShape::scalar());
    Ok(())
}

fn file_name<'c>(ctx: &'c OpContext<'_>) -> Result<&'c TString> {
    let name = ctx.input(0)?;
    require!(
        name.rank() == 0,
        "Input filename tensor must be scalar, but had shape: {}",
        name.shape()
    );
    Ok(&name.as_slice::<TString>()?[0])
}

fn read(ctx: &mut OpContext<'_>) -> Result<()> {
    let content = ctx.step().files.read(path(file_name(ctx)?))?;
    ctx.set_output(0, Tensor::scalar(TString::from(&content[..])));
    Ok(())
}

fn write(ctx: &mut OpContext<'_>) -> Result<()> {
    let (name, content) = (path(file_name(ctx)?), ctx.input(1)?);
    require!(
        content.rank() == 0,
        "Contents tensor must be scalar, but had shape: {}",
        content.shape()
    );
    let files = &ctx.step().files;
    let directory = dirname(name);
    if !directory.as_os_str().is_empty() && files.exists(directory).is_err() {
        files.create_dir_all(directory)?;
    }
    files.write(name, content.as_slice::<TString>()?[0].as_bytes())
}

fn matching_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    shape_ops::with_rank_at_most(ctx.input(0), 1)?;
    ctx.set_output(0, PartialShape::vector(Dim::UNKNOWN));
    Ok(())
}

fn matching(ctx: &mut OpContext<'_>) -> Result<()> {
    let patterns = ctx.input(0)?;
    require!(
        patterns.rank() <= 1,
        "Input patterns tensor must be scalar or vector, but had shape: {}",
        patterns.shape()
    );
    let mut names: Vec<OsString> = Vec::new();
    for pattern in patterns.as_slice::<TString>()? {
        let found = ctx.step().files.matching(path(pattern))?;
        names.extend(found.into_iter().map(OsString::from));
    }
    // By bytes, not by components of paths.
    names.sort();
    let names: Vec<TString> = names.iter().map(|name| TString::from(name.as_bytes())).collect();
    ctx.set_output(0, Tensor::from_slice(Shape::vector(names.len()), &names)?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use tfcore_base::Code;
    use tfcore_framework::testing::{infer, registry_of, run_op_in, step, tensor};

    use super::*;

    fn text(text: &str) -> Tensor {
        Tensor::scalar(TString::from(text))
    }

    #[test]
    fn files_are_written_found_and_read() {
        let registry = registry_of(register);
        let step = step();
        let run = |op: &str, inputs: Vec<Tensor>| run_op_in(&step, &registry, op, &[], inputs);
        for name in ["ram://d/e/b", "ram://d/e/a", "ram://d/c"] {
            run("WriteFile", vec![text(name), text(name)]).unwrap();
            let content = run("ReadFile", vec![text(name)]).unwrap();
            assert_eq!(content[0].as_slice::<TString>().unwrap(), [TString::from(name)]);
        }
        let patterns = ["ram://d/c", "ram://d/e/*", "ram://none"].map(TString::from);
        let found = run("MatchingFiles", vec![tensor(&[3], &patterns)]).unwrap();
        let expected = ["ram://d/c", "ram://d/e/a", "ram://d/e/b"].map(TString::from);
        assert_eq!(found[0].as_slice::<TString>().unwrap(), expected);
        let error = run("ReadFile", vec![text("/nope/at/all")]).unwrap_err();
        assert_eq!(
            (error.code(), error.message()),
            (Code::NotFound, "/nope/at/all; No such file or directory")
        );
        let two = tensor(&[2], &["a", "b"].map(TString::from));
        let error = run("ReadFile", vec![two.clone()]).unwrap_err();
        assert_eq!(error.message(), "Input filename tensor must be scalar, but had shape: [2]");
        assert!(run("WriteFile", vec![text("ram://x"), two]).is_err());
    }

    #[test]
    fn shapes() {
        let registry = registry_of(register);
        for (op, inputs, expected) in [
            ("ReadFile", "?", Some("[]")),
            ("ReadFile", "[2]", None),
            ("WriteFile", "[];[]", Some("")),
            ("WriteFile", "[];[1]", None),
            ("MatchingFiles", "[3]", Some("[?]")),
            ("MatchingFiles", "[3,1]", None),
        ] {
            assert_eq!(infer(&registry, op, &[], inputs, &[]).ok().as_deref(), expected, "{op}");
        }
    }
}

//! Ops that tell the user something: asserts and prints.

use std::fs::OpenOptions;
use std::io::Write;
use std::sync::atomic::{AtomicI64, Ordering};

use tfcore_base::{Result, internal, invalid};
use tfcore_framework::log::{self, Stream};
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_fns, summarize_values,
};
use tfcore_tensor::TString;

pub(crate) fn register(r: &mut Registry) {
    // Assert(condition: bool, data: T, summarize) -> ()
    r.op("Assert").shape(shape_fns::no_outputs).cpu(assert_kernel);
    // Print(input: T, data: U, message, first_n, summarize) -> output: T
    r.op("Print").shape(shape_fns::unchanged).cpu(print_kernel);
    // PrintV2(input: string, output_stream, end) -> ()
    r.op("PrintV2").shape(print_v2_shape).cpu(print_v2_kernel);
}

/// How many values of a tensor a message shows; all for a negative number.
fn limit(init: &KernelInit<'_>) -> Result<usize> {
    Ok(usize::try_from(init.attrs.int("summarize")?).unwrap_or(usize::MAX))
}

/// The inputs from number `first` on, as `[1 2 3...]` each.
fn summaries(ctx: &OpContext<'_>, first: usize, limit: usize) -> Result<Vec<String>> {
    (first..ctx.num_inputs())
        .map(|index| Ok(format!("[{}]", summarize_values(ctx.input(index)?, limit))))
        .collect()
}

fn assert_kernel(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let limit = limit(init)?;
    kernel(move |ctx| {
        let condition = ctx.input(0)?;
        if condition.rank() != 0 {
            return Err(invalid!("In[0] should be a scalar: {}", condition.shape()));
        }
        if condition.scalar_value::<bool>()? {
            return Ok(());
        }
        Err(invalid!("assertion failed: {}", summaries(ctx, 1, limit)?.join(" ")))
    })
}

fn print_kernel(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let message = init.attrs.str("message")?.to_string();
    let (limit, first_n) = (limit(init)?, init.attrs.int("first_n")?);
    let calls = AtomicI64::new(0);
    kernel(move |ctx| {
        // A negative number means always.
        if first_n < 0 || calls.fetch_add(1, Ordering::Relaxed) < first_n {
            let text = summaries(ctx, 1, limit)?.concat();
            // Unlike what PrintV2 says, this is not for listeners.
            log::write(Stream::Stderr, &format!("{message}{text}\n"));
        }
        let tensor = ctx.take_input(0)?;
        ctx.set_output(0, tensor);
        Ok(())
    })
}

fn print_v2_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    match ctx.input(0).rank() {
        Some(rank) if rank != 0 => Err(invalid!("input must be a scalar, but has rank: {rank}")),
        _ => Ok(()),
    }
}

/// Where PrintV2 writes.
enum Target {
    Stream(Stream),
    /// With a severity in front, as log lines have.
    Log(&'static str),
    File(String),
}

fn print_v2_kernel(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let name = init.attrs.str("output_stream")?;
    let target = match name {
        "stdout" => Target::Stream(Stream::Stdout),
        "stderr" => Target::Stream(Stream::Stderr),
        "log(info)" => Target::Log("I"),
        "log(warning)" => Target::Log("W"),
        "log(error)" => Target::Log("E"),
        _ => match name.strip_prefix("file://") {
            Some(path) => Target::File(path.to_string()),
            None => {
                return Err(invalid!(
                    "Unknown output stream: {name}, Valid streams are: stdout stderr log(info) log(warning) \
                     log(error)"
                ));
            }
        },
    };
    let end = init.attrs.str("end")?.to_string();
    kernel(move |ctx| {
        let input = ctx.input(0)?;
        if input.rank() != 0 {
            return Err(invalid!("Input is expected to be scalar, but got {}", input.shape()));
        }
        let text = String::from_utf8_lossy(input.as_slice::<TString>()?[0].as_bytes()).into_owned();
        match &target {
            Target::Stream(stream) => log::print(*stream, &(text + &end)),
            Target::Log(severity) => {
                let text = text + &end;
                if !log::tell(&text) {
                    log::write(Stream::Stderr, &format!("{severity} {text}"));
                }
            }
            Target::File(path) => {
                let file = OpenOptions::new().append(true).create(true).open(path);
                let written = file.and_then(|mut file| file.write_all((text + &end).as_bytes()));
                written.map_err(|error| internal!("{path}; {error}"))?;
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use tfcore_base::DType;
    use tfcore_framework::AttrValue;
    use tfcore_framework::testing::{registry_of, run_op};
    use tfcore_tensor::{Shape, Tensor};

    use super::*;

    #[test]
    fn a_failed_assertion_shows_its_data() {
        let registry = registry_of(register);
        let data = Tensor::from_slice(Shape::vector(3), &[1i32, 2, 3]).unwrap();
        let attrs = [("T", AttrValue::types([DType::INT32])), ("summarize", AttrValue::Int(2))];
        let run =
            |condition: Tensor| run_op(&registry, "Assert", &attrs, &[condition, data.clone()]);
        assert!(run(Tensor::scalar(true)).is_ok());
        let failed = run(Tensor::scalar(false)).unwrap_err();
        assert_eq!(failed.message(), "assertion failed: [1 2...]");
        let vector = Tensor::from_slice(Shape::vector(1), &[true]).unwrap();
        assert_eq!(run(vector).unwrap_err().message(), "In[0] should be a scalar: [1]");
    }
}

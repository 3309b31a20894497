//! Texts as code points, and back: `UnicodeDecode` and its relatives, `UnicodeScript`.

use tfcore_base::{DType, Elem, Error, Result, invalid, require};
use tfcore_framework::{
    Attrs, InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_fns, shape_ops,
};
use tfcore_tensor::{Dim, PartialShape, Shape, TString};

use crate::codec::{Input, Output};
use crate::scripts::script;

pub(crate) fn register(r: &mut Registry) {
    // `UnicodeDecode(input: string) -> row_splits: Tsplits, char_values: int32`: the code points of all strings, and where those of
    // each string begin.
    r.op("UnicodeDecode").shape(decode_shape).cpu(decode_kernel);
    // `UnicodeDecodeWithOffsets(input: string) -> row_splits: Tsplits, char_values: int32, char_to_byte_starts: int64`.
    r.op("UnicodeDecodeWithOffsets").shape(decode_shape).cpu(decode_kernel);
    // `UnicodeEncode(input_values: int32, input_splits: Tsplits) -> output: string`.
    r.op("UnicodeEncode").shape(encode_shape).cpu(encode_kernel);
    // `UnicodeTranscode(input: string) -> output: string`, from one encoding to another.
    r.op("UnicodeTranscode").shape(shape_fns::unchanged).cpu(transcode_kernel);
    // `UnicodeScript(input: int32) -> output: int32`, in the numbers of ICU.
    r.op("UnicodeScript").shape(shape_fns::unchanged).compute(|ctx| {
        let codes = ctx.input_slice::<i32>(0)?;
        ctx.produce(0, ctx.input(0)?.shape().clone(), |out| {
            for (out, &code) in out.typed::<i32>().iter_mut().zip(codes) {
                *out = script(code);
            }
        })
    });
}

/// What becomes of malformed text.
#[derive(Clone, Copy)]
struct Policy {
    /// True if it is an error.
    strict: bool,
    /// True if it is left out.
    ignore: bool,
    /// What stands in its place.
    replacement: u32,
    /// True if control characters are replaced as well.
    replace_controls: bool,
}

impl Policy {
    fn new(attrs: &Attrs) -> Result<Policy> {
        let replacement = u32::try_from(attrs.int("replacement_char")?).ok();
        let replacement = replacement
            .filter(|&code| code <= 0x10_ffff)
            .ok_or_else(|| invalid!("replacement_char out of unicode codepoint range"))?;
        let errors = attrs.str("errors")?;
        Ok(Policy {
            strict: errors == "strict",
            ignore: errors == "ignore",
            replacement,
            replace_controls: attrs.contains("replace_control_characters")
                && attrs.bool("replace_control_characters")?,
        })
    }

    /// What a piece of text comes to; `None` if it is left out.
    ///
    /// # Errors
    /// `InvalidArgument` for malformed text if that is an error.
    fn resolve(&self, code: Option<u32>) -> Result<Option<u32>> {
        match code {
            Some(code) if code > 0x1f || !self.replace_controls => Ok(Some(code)),
            None if self.strict => Err(invalid!("Invalid formatting on input string")),
            _ if self.ignore => Ok(None),
            _ => Ok(Some(self.replacement)),
        }
    }
}

fn input_encoding(attrs: &Attrs) -> Result<Input> {
    let name = attrs.str("input_encoding")?;
    Input::from_name(name).ok_or_else(|| no_converter(name))
}

#[cold]
fn no_converter(name: &str) -> Error {
    invalid!("Could not create converter for input encoding: {name}")
}

fn decode_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    let splits = shape_ops::add(shape_ops::num_elements(ctx.input(0)), 1)?;
    ctx.set_output(0, PartialShape::vector(splits));
    let chars = Dim::fresh();
    for output in 1..ctx.num_outputs() {
        ctx.set_output(output, PartialShape::vector(chars));
    }
    Ok(())
}

fn decode_kernel(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let encoding = input_encoding(init.attrs)?;
    let policy = Policy::new(init.attrs)?;
    let wide = init.attrs.dtype("Tsplits")? == DType::INT64;
    kernel(move |ctx| match wide {
        true => decode::<i64>(ctx, encoding, policy),
        false => decode::<i32>(ctx, encoding, policy),
    })
}

fn decode<S: Elem + Copy + TryFrom<usize>>(
    ctx: &mut OpContext<'_>,
    encoding: Input,
    policy: Policy,
) -> Result<()> {
    let texts = ctx.input_slice::<TString>(0)?;
    let with_offsets = ctx.num_outputs() > 2;
    let mut codes: Vec<i32> = Vec::new();
    let mut offsets: Vec<i64> = Vec::new();
    let split = |len: usize| {
        S::try_from(len).map_err(|_| invalid!("{len} characters do not fit the type of the splits"))
    };
    let mut splits = Vec::with_capacity(texts.len() + 1);
    splits.push(split(0)?);
    for text in texts {
        let mut offset = 0;
        let mut failure = None;
        encoding.read(text.as_bytes(), &mut |piece| {
            match policy.resolve(piece.code) {
                Ok(Some(code)) => {
                    codes.push(code as i32);
                    if with_offsets {
                        offsets.push(offset);
                    }
                }
                Ok(None) => {}
                Err(error) => failure = Some(error),
            }
            offset += piece.len as i64;
        });
        if let Some(error) = failure {
            return Err(error);
        }
        splits.push(split(codes.len())?);
    }
    ctx.produce(0, Shape::vector(splits.len()), |out| out.typed().copy_from_slice(&splits))?;
    ctx.produce(1, Shape::vector(codes.len()), |out| out.typed().copy_from_slice(&codes))?;
    match with_offsets {
        true => ctx.produce(2, Shape::vector(offsets.len()), |out| {
            out.typed().copy_from_slice(&offsets);
        }),
        false => Ok(()),
    }
}

fn encode_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    shape_ops::with_rank(ctx.input(0), 1)?;
    let splits = shape_ops::with_rank(ctx.input(1), 1)?;
    let rows = shape_ops::subtract(splits.dim(0), 1)?;
    ctx.set_output(0, PartialShape::vector(rows));
    Ok(())
}

fn encode_kernel(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let output = Output::from_name(init.attrs.str("output_encoding")?);
    let policy = Policy::new(init.attrs)?;
    kernel(move |ctx| encode(ctx, output, policy))
}

fn encode(ctx: &mut OpContext<'_>, output: Output, policy: Policy) -> Result<()> {
    let codes = ctx.input_slice::<i32>(0)?;
    let splits = ctx.input(1)?.to_i64s()?;
    let Some((&first, &last)) = splits.first().zip(splits.last()) else {
        return Err(invalid!(
            "Input_splits should contain elements, but given input_values has 0 elements"
        ));
    };
    require!(first == 0, "First value in input_splits must be zero.");
    require!(
        last == codes.len() as i64,
        "Last value in input_splits must be equal to length of input_tensor."
    );
    ctx.try_produce(0, Shape::vector(splits.len() - 1), |out| {
        let mut text = Vec::new();
        for (out, row) in out.typed::<TString>().iter_mut().zip(splits.windows(2)) {
            require!(
                row[0] <= row[1],
                "Values in input_splits must be equal or in ascending order."
            );
            let codes = codes.get(row[0] as usize..row[1] as usize).ok_or_else(|| {
                invalid!(
                    "Values in input_splits must be less than or equal to input_tensor length."
                )
            })?;
            text.clear();
            for &code in codes {
                let code = u32::try_from(code).ok().filter(|&code| char::from_u32(code).is_some());
                require!(
                    code.is_some() || !policy.strict,
                    "Code point is out of range for Unicode, or is a surrogate."
                );
                if let Some(code) = policy.resolve(code)? {
                    output.push(code, &mut text);
                }
            }
            out.assign(&text);
        }
        Ok(())
    })
}

fn transcode_kernel(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let encoding = input_encoding(init.attrs)?;
    let output = Output::from_name(init.attrs.str("output_encoding")?);
    let policy = Policy::new(init.attrs)?;
    kernel(move |ctx| {
        let texts = ctx.input_slice::<TString>(0)?;
        ctx.try_produce(0, ctx.input(0)?.shape().clone(), |out| {
            let mut bytes = Vec::new();
            for (out, text) in out.typed::<TString>().iter_mut().zip(texts) {
                bytes.clear();
                let mut failure = None;
                encoding.read(text.as_bytes(), &mut |piece| match policy.resolve(piece.code) {
                    Ok(Some(code)) => output.push(code, &mut bytes),
                    Ok(None) => {}
                    Err(error) => failure = Some(error),
                });
                if let Some(error) = failure {
                    return Err(error);
                }
                out.assign(&bytes);
            }
            Ok(())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tfcore_framework::AttrValue;
    use tfcore_framework::testing::{infer, registry_of, run_op, tensor};

    #[test]
    fn texts_become_code_points_and_back() {
        let registry = registry_of(register);
        let texts = tensor(
            &[3],
            &[TString::from("aé"), TString::from(&b"\xff\x01"[..]), TString::from("")],
        );
        let attrs = |errors: &str, controls| {
            [
                ("input_encoding", AttrValue::string("UTF-8")),
                ("errors", AttrValue::string(errors)),
                ("replacement_char", AttrValue::Int(63)),
                ("replace_control_characters", AttrValue::Bool(controls)),
            ]
        };
        let run = |errors: &str, controls| {
            let out = run_op(
                &registry,
                "UnicodeDecodeWithOffsets",
                &attrs(errors, controls),
                std::slice::from_ref(&texts),
            )?;
            Ok::<_, Error>((
                out[0].as_slice::<i64>()?.to_vec(),
                out[1].as_slice::<i32>()?.to_vec(),
                out[2].as_slice::<i64>()?.to_vec(),
            ))
        };
        let replaced = (vec![0, 2, 4, 4], vec![97, 233, 63, 63], vec![0, 1, 0, 1]);
        assert_eq!(run("replace", true).unwrap(), replaced);
        let ignored = (vec![0, 2, 3, 3], vec![97, 233, 1], vec![0, 1, 1]);
        assert_eq!(run("ignore", false).unwrap(), ignored);
        assert!(run("strict", false).is_err());

        let attrs = [
            ("output_encoding", AttrValue::string("UTF-16-BE")),
            ("errors", AttrValue::string("ignore")),
        ];
        let inputs = [tensor(&[3], &[0x61, -1, 0x1_f600]), tensor(&[3], &[0i64, 1, 3])];
        let out = run_op(&registry, "UnicodeEncode", &attrs, &inputs).unwrap();
        let expected = [TString::from(&b"\0a"[..]), TString::from(&b"\xd8\x3d\xde\x00"[..])];
        assert_eq!(out[0].as_slice::<TString>().unwrap(), expected);
        let shapes = infer(&registry, "UnicodeDecode", &[], "[2,3]", &[]).unwrap();
        assert_eq!(shapes, "[7];[?]");
    }
}

//! Ops that look at each string by itself: `StringLength`, `StringUpper`, `StringLower`.

use tfcore_base::{Result, invalid};
use tfcore_framework::{Kernel, KernelInit, Registry, kernel, shape_fns};
use tfcore_tensor::TString;

pub(crate) fn register(r: &mut Registry) {
    // `StringLength(input: string) -> output: int32`, in bytes or in characters.
    r.op("StringLength").shape(shape_fns::unchanged).cpu(length_kernel);
    // `StringUpper(input: string) -> output: string` and `StringLower`: of ASCII letters, or with
    // `encoding` "utf-8" of all letters.
    r.op("StringUpper")
        .shape(shape_fns::unchanged)
        .cpu(|init| case_kernel(init, <[u8]>::to_ascii_uppercase, str::to_uppercase));
    r.op("StringLower")
        .shape(shape_fns::unchanged)
        .cpu(|init| case_kernel(init, <[u8]>::to_ascii_lowercase, str::to_lowercase));
}

/// Characters of a text, counted as the bytes that begin one.
pub(crate) fn count_chars(bytes: &[u8]) -> usize {
    bytes.iter().filter(|&&byte| begins_char(byte)).count()
}

/// Whether the byte is the first of a character in UTF-8.
pub(crate) fn begins_char(byte: u8) -> bool {
    byte & 0xC0 != 0x80
}

fn length_kernel(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let counts_chars = init.attrs.str("unit")? == "UTF8_CHAR";
    kernel(move |ctx| {
        let texts = ctx.input_slice::<TString>(0)?;
        ctx.try_produce(0, ctx.input(0)?.shape().clone(), |out| {
            for (out, text) in out.typed::<i32>().iter_mut().zip(texts) {
                let len = if counts_chars { count_chars(text.as_bytes()) } else { text.len() };
                *out = i32::try_from(len).map_err(|_| invalid!("A string of {len} is too long"))?;
            }
            Ok(())
        })
    })
}

fn case_kernel(
    init: &KernelInit<'_>,
    ascii: fn(&[u8]) -> Vec<u8>,
    unicode: fn(&str) -> String,
) -> Result<Box<dyn Kernel>> {
    let is_unicode = match init.attrs.str("encoding")? {
        "" => false,
        "utf-8" => true,
        other => {
            return Err(invalid!("only utf8 or '' (no encoding) is supported, received {other}"));
        }
    };
    kernel(move |ctx| {
        let texts = ctx.input_slice::<TString>(0)?;
        ctx.produce(0, ctx.input(0)?.shape().clone(), |out| {
            for (out, text) in out.typed::<TString>().iter_mut().zip(texts) {
                if is_unicode {
                    out.assign(unicode(&String::from_utf8_lossy(text.as_bytes())).as_bytes());
                } else {
                    out.assign(&ascii(text.as_bytes()));
                }
            }
        })
    })
}

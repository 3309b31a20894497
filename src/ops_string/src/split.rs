//! Strings in parts: `StringSplit`, `StringSplitV2`, and `StringStrip`.

use tfcore_base::{Result, require};
use tfcore_framework::{InferenceContext, OpContext, Registry, kernel, shape_fns, shape_ops};
use tfcore_tensor::{Dim, PartialShape, Shape, TString};

use crate::each;

pub(crate) fn register(r: &mut Registry) {
    // `StringSplit(input: string, delimiter: string) -> indices: int64, values: string, shape: int64`: the parts of the strings of
    // a vector as a sparse matrix. Each byte of the delimiter separates.
    r.op("StringSplit").shape(split_shape).cpu(|init| {
        let skip_empty = init.attrs.bool("skip_empty")?;
        kernel(move |ctx| {
            let delimiter = separator(ctx, "delimiter must be a scalar, got shape: ")?;
            split_all(ctx, |text| by_bytes(text, delimiter, skip_empty))
        })
    });
    // `StringSplitV2(input: string, sep: string) -> indices: int64, values: string, shape: int64`; an empty separator stands for runs
    // of white space.
    r.op("StringSplitV2").shape(split_shape).cpu(|init| {
        let most = usize::try_from(init.attrs.int("maxsplit")?).ok();
        kernel(move |ctx| {
            let separator = separator(ctx, "sep must be a scalar, got shape: ")?;
            split_all(ctx, |text| match separator {
                [] => by_space(text, most),
                _ => by_separator(text, separator, most),
            })
        })
    });
    // `StringStrip(input: string) -> output: string`, without white space at the ends.
    r.op("StringStrip").shape(shape_fns::unchanged).compute(|ctx| {
        each::map::<TString>(ctx, 50, |text, out| out.assign(strip_end(strip_start(text))))
    });
}

fn split_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    shape_ops::with_rank(ctx.input(0), 1)?;
    shape_ops::with_rank(ctx.input(1), 0)?;
    ctx.set_output(0, PartialShape::matrix(Dim::fresh(), 2));
    ctx.set_output(1, PartialShape::vector(Dim::fresh()));
    ctx.set_output(2, PartialShape::vector(2));
    Ok(())
}

fn separator<'c>(ctx: &'c OpContext<'_>, problem: &str) -> Result<&'c [u8]> {
    let input = ctx.input(0)?.shape();
    require!(input.rank() == 1, "input must be a vector, got shape: {input}");
    let tensor = ctx.input(1)?;
    require!(tensor.rank() == 0, "{problem}{}", tensor.shape());
    Ok(tensor.as_slice::<TString>()?.first().map_or(&[][..], TString::as_bytes))
}

fn split_all<'c>(
    ctx: &'c OpContext<'_>,
    parts_of: impl Fn(&'c [u8]) -> Vec<&'c [u8]>,
) -> Result<()> {
    let texts = ctx.input_slice::<TString>(0)?;
    let mut parts = Vec::new();
    let mut counts = Vec::with_capacity(texts.len());
    for text in texts {
        let of_text = parts_of(text.as_bytes());
        counts.push(of_text.len());
        parts.extend(of_text);
    }
    ctx.produce(0, Shape::new(&[parts.len() as i64, 2])?, |out| {
        let indices = counts
            .iter()
            .enumerate()
            .flat_map(|(row, &count)| (0..count).map(move |column| [row as i64, column as i64]));
        for (out, index) in out.typed::<i64>().as_chunks_mut::<2>().0.iter_mut().zip(indices) {
            *out = index;
        }
    })?;
    ctx.produce(1, Shape::vector(parts.len()), |out| {
        for (out, part) in out.typed::<TString>().iter_mut().zip(&parts) {
            out.assign(part);
        }
    })?;
    ctx.produce(2, Shape::vector(2), |out| {
        let widest = counts.iter().copied().max().unwrap_or(0);
        out.typed::<i64>().copy_from_slice(&[texts.len() as i64, widest as i64]);
    })
}

/// The parts between the bytes that are among the delimiter's; single bytes if there are none. No text has no parts.
fn by_bytes<'t>(text: &'t [u8], delimiter: &[u8], skip_empty: bool) -> Vec<&'t [u8]> {
    if text.is_empty() {
        return Vec::new();
    }
    match delimiter {
        [] => text.chunks(1).collect(),
        _ => text
            .split(|byte| delimiter.contains(byte))
            .filter(|part| !skip_empty || !part.is_empty())
            .collect(),
    }
}

/// The parts between separators, of which at most `most` count.
fn by_separator<'t>(mut text: &'t [u8], separator: &[u8], most: Option<usize>) -> Vec<&'t [u8]> {
    let mut parts = Vec::new();
    while most.is_none_or(|most| parts.len() < most)
        && let Some(at) = find(text, separator)
    {
        parts.push(&text[..at]);
        text = &text[at + separator.len()..];
    }
    parts.push(text);
    parts
}

fn find(text: &[u8], separator: &[u8]) -> Option<usize> {
    match separator {
        [byte] => text.iter().position(|other| other == byte),
        _ => text.windows(separator.len()).position(|window| window == separator),
    }
}

/// The parts between runs of white space, of which at most `most` count.
fn by_space(text: &[u8], most: Option<usize>) -> Vec<&[u8]> {
    let mut parts = Vec::new();
    let mut rest = strip_start(text);
    while !rest.is_empty() {
        if most.is_some_and(|most| parts.len() >= most) {
            parts.push(rest);
            break;
        }
        let len = rest.iter().position(is_space).unwrap_or(rest.len());
        parts.push(&rest[..len]);
        rest = strip_start(&rest[len..]);
    }
    parts
}

/// White space of C's locale, with the vertical tab that Rust leaves out.
fn is_space(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

fn strip_start(text: &[u8]) -> &[u8] {
    &text[text.iter().position(|byte| !is_space(byte)).unwrap_or(text.len())..]
}

fn strip_end(text: &[u8]) -> &[u8] {
    &text[..text.iter().rposition(|byte| !is_space(byte)).map_or(0, |at| at + 1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(parts: Vec<&[u8]>) -> String {
        parts.iter().map(|part| format!("<{}>", String::from_utf8_lossy(part))).collect()
    }

    #[test]
    fn parts() {
        assert_eq!(text(by_space(b"  a  b ", None)), "<a><b>");
        assert_eq!(text(by_space(b"  a  b  c ", Some(1))), "<a><b  c >");
        assert_eq!(text(by_space(b"a\x0bb\x0cc", None)), "<a><b><c>");
        assert_eq!(text(by_separator(b"", b",", None)), "<>");
        assert_eq!(text(by_separator(b",a,,b,", b",", None)), "<><a><><b><>");
        assert_eq!(text(by_separator(b",a,,b,", b",", Some(1))), "<><a,,b,>");
        assert_eq!(text(by_separator(b"a<>b<>>c", b"<>", Some(0))), "<a<>b<>>c>");
        assert_eq!(text(by_separator(b"a<>b<>>c", b"<>", None)), "<a><b><>c>");
        assert_eq!(text(by_bytes(b"a,b;", b",;", false)), "<a><b><>");
        assert_eq!(text(by_bytes(b"a,b;", b",;", true)), "<a><b>");
        assert_eq!(text(by_bytes(b"a,b", b"", true)), "<a><,><b>");
        assert_eq!(text(by_bytes(b"", b",", false)), "");
        assert_eq!(strip_end(strip_start(b"\x0b a\0 \n")), b"a\0");
    }
}

//! Ops with regular expressions.

use std::sync::Arc;

use ::regex::bytes::{Captures, Regex};
use parking_lot::Mutex;
use tfcore_base::{Result, invalid, require};
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, OpContext, Registry, kernel, shape_fns, shape_ops,
};
use tfcore_tensor::TString;

use crate::{each, re2};

/// Roughly what it costs to match a string, in additions.
const COST: usize = 200;

pub(crate) fn register(r: &mut Registry) {
    // `RegexFullMatch(input: string, pattern: string) -> output: bool`, true for strings that the pattern matches as a whole.
    r.op("RegexFullMatch").shape(full_match_shape).cpu(|_| {
        let patterns = Patterns { whole: true, last: Mutex::default() };
        kernel(move |ctx| {
            let pattern = scalar_text(ctx, 1, "Pattern")?;
            full_match(ctx, &*patterns.get(pattern.as_bytes())?)
        })
    });
    // `StaticRegexFullMatch(input: string) -> output: bool`, with attr `pattern`.
    r.op("StaticRegexFullMatch").shape(shape_fns::unchanged).cpu(|init| {
        let regex = compile(init.attrs.bytes("pattern")?, true)?;
        kernel(move |ctx| full_match(ctx, &regex))
    });
    // `RegexReplace(input: string, pattern: string, rewrite: string) -> output: string`, in which `\0` to `\9` of the rewrite
    // stand for groups.
    r.op("RegexReplace").shape(replace_shape).cpu(replace_kernel);
    // `StaticRegexReplace(input: string) -> output: string`, with attrs `pattern` and `rewrite`.
    r.op("StaticRegexReplace").shape(shape_fns::unchanged).cpu(|init| {
        let regex = compile(init.attrs.bytes("pattern")?, false)?;
        let global = init.attrs.bool("replace_global")?;
        let rewrite = init.attrs.bytes("rewrite")?.to_vec();
        kernel(move |ctx| replace(ctx, &regex, &rewrite, global))
    });
}

fn full_match_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    shape_ops::with_rank(ctx.input(1), 0)?;
    shape_fns::unchanged(ctx)
}

fn replace_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    shape_ops::with_rank(ctx.input(1), 0)?;
    shape_ops::with_rank(ctx.input(2), 0)?;
    shape_fns::unchanged(ctx)
}

fn compile(pattern: &[u8], whole: bool) -> Result<Regex> {
    re2::compile(pattern, whole).map_err(|error| {
        let pattern = String::from_utf8_lossy(pattern);
        invalid!("Invalid pattern: {pattern}, error: {error}")
    })
}

/// Patterns that come as inputs: the last one is kept, as it is most often the next one too.
struct Patterns {
    whole: bool,
    last: Mutex<Option<(Vec<u8>, Arc<Regex>)>>,
}

impl Patterns {
    fn get(&self, pattern: &[u8]) -> Result<Arc<Regex>> {
        if let Some((known, regex)) = &*self.last.lock()
            && known == pattern
        {
            return Ok(regex.clone());
        }
        let regex = Arc::new(compile(pattern, self.whole)?);
        *self.last.lock() = Some((pattern.to_vec(), regex.clone()));
        Ok(regex)
    }
}

fn scalar_text<'c>(ctx: &'c OpContext<'_>, index: usize, name: &str) -> Result<&'c TString> {
    let tensor = ctx.input(index)?;
    match tensor.as_slice::<TString>()? {
        [text] if tensor.rank() == 0 => Ok(text),
        _ => Err(invalid!("{name} must be scalar, but received {}", tensor.shape())),
    }
}

fn full_match(ctx: &mut OpContext<'_>, regex: &Regex) -> Result<()> {
    each::map::<bool>(ctx, COST, |text, out| *out = regex.is_match(text))
}

fn replace_kernel(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let global = init.attrs.bool("replace_global")?;
    let patterns = Patterns { whole: false, last: Mutex::default() };
    kernel(move |ctx| {
        let pattern = scalar_text(ctx, 1, "Pattern")?;
        let regex = patterns.get(pattern.as_bytes())?;
        let rewrite = scalar_text(ctx, 2, "Rewrite")?.as_bytes();
        replace(ctx, &regex, rewrite, global)
    })
}

fn replace(ctx: &OpContext<'_>, regex: &Regex, rewrite: &[u8], global: bool) -> Result<()> {
    require!(rewrite.len() <= 1 << 30, "A rewrite of {} bytes is too long", rewrite.len());
    // A rewrite that names a group which the pattern lacks changes nothing.
    let changes = max_group(rewrite) < regex.captures_len();
    each::map::<TString>(ctx, COST, |text, out| {
        let replaced = match (changes, global) {
            (false, _) => None,
            (true, true) => replace_all(regex, rewrite, text),
            (true, false) => replace_first(regex, rewrite, text),
        };
        out.assign(replaced.as_deref().unwrap_or(text));
    })
}

fn replace_first(regex: &Regex, rewrite: &[u8], text: &[u8]) -> Option<Vec<u8>> {
    let captures = regex.captures(text)?;
    let found = captures.get(0)?;
    let mut out = text[..found.start()].to_vec();
    if !append_rewrite(rewrite, &captures, &mut out) {
        return None;
    }
    out.extend_from_slice(&text[found.end()..]);
    Some(out)
}

fn replace_all(regex: &Regex, rewrite: &[u8], text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut at = 0;
    let mut last_end = None;
    let mut captures = regex.capture_locations();
    while at <= text.len() {
        let Some(found) = regex.captures_read_at(&mut captures, text, at) else {
            break;
        };
        out.extend_from_slice(&text[at..found.start()]);
        if found.is_empty() && last_end == Some(found.start()) {
            // Where the last match ended no empty one begins; the search goes on behind the next character.
            let next = at + char_len(&text[at..]);
            out.extend_from_slice(&text[at..next.min(text.len())]);
            at = next;
            continue;
        }
        append_groups(rewrite, &mut out, |group| {
            captures.get(group).map_or(&[][..], |(start, end)| &text[start..end])
        });
        at = found.end();
        last_end = Some(at);
    }
    last_end?;
    out.extend_from_slice(text.get(at..).unwrap_or_default());
    Some(out)
}

/// The bytes of the first character, one for what is none.
fn char_len(text: &[u8]) -> usize {
    let head = &text[..text.len().min(4)];
    head.utf8_chunks()
        .next()
        .and_then(|chunk| chunk.valid().chars().next())
        .map_or(1, char::len_utf8)
}

fn append_rewrite(rewrite: &[u8], captures: &Captures<'_>, out: &mut Vec<u8>) -> bool {
    append_groups(rewrite, out, |group| {
        captures.get(group).map_or(&[][..], |group| group.as_bytes())
    })
}

/// Appends the rewrite with its groups filled in. Returns false, with what comes before it appended, at an escape that has no meaning.
fn append_groups<'t>(rewrite: &[u8], out: &mut Vec<u8>, group: impl Fn(usize) -> &'t [u8]) -> bool {
    let mut bytes = rewrite.iter();
    while let Some(&byte) = bytes.next() {
        match byte {
            b'\\' => match bytes.next() {
                Some(&digit @ b'0'..=b'9') => {
                    out.extend_from_slice(group(usize::from(digit - b'0')))
                }
                Some(b'\\') => out.push(b'\\'),
                _ => return false,
            },
            byte => out.push(byte),
        }
    }
    true
}

/// The largest number of a group that the rewrite names.
fn max_group(rewrite: &[u8]) -> usize {
    let mut most = 0;
    let mut bytes = rewrite.iter();
    while let Some(&byte) = bytes.next() {
        if byte == b'\\'
            && let Some(&digit @ b'0'..=b'9') = bytes.next()
        {
            most = most.max(usize::from(digit - b'0'));
        }
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replacements() {
        let cases: [(&str, &str, &str, &str, &str); 8] = [
            ("abc", "b*", "-", "-a-c-", "-abc"),
            ("é€", "", "-", "-é-€-", "-é€"),
            ("baaac", "a*", "X", "XbXcX", "Xbaaac"),
            ("abb2", r"(\w)(\d)", r"\2\1", "ab2b", "ab2b"),
            ("abc", "b", r"\1", "abc", "abc"),
            ("abc", "b", r"x\a", "axc", "abc"),
            ("abc", "(b)", r"\0\1\\", r"abb\c", r"abb\c"),
            ("abc", "x", "y", "abc", "abc"),
        ];
        for (text, pattern, rewrite, all, first) in cases {
            let regex = compile(pattern.as_bytes(), false).unwrap();
            let changes = max_group(rewrite.as_bytes()) < regex.captures_len();
            for (expected, replace) in
                [(all, replace_all as fn(_, _, _) -> _), (first, replace_first)]
            {
                let replaced =
                    changes.then(|| replace(&regex, rewrite.as_bytes(), text.as_bytes()));
                let got = replaced.flatten().unwrap_or(text.as_bytes().to_vec());
                assert_eq!(String::from_utf8_lossy(&got), expected, "{text} {pattern} {rewrite}");
            }
        }
        assert_eq!(replace_all(&compile(b"", false).unwrap(), b"X", b"\xff").unwrap(), b"X\xffX");
    }
}

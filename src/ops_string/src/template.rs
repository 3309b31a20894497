//! `StringFormat`.

use tfcore_base::{DType, Result, require};
use tfcore_framework::{
    InferenceContext, Kernel, KernelInit, Registry, kernel, shape_fns, summarize_values,
};
use tfcore_tensor::{Shape, TString, Tensor};

pub(crate) fn register(r: &mut Registry) {
    // `StringFormat(inputs: T) -> output: string`: attr `template` with each `placeholder` replaced by an input, of which at most
    // `summarize` elements at each end of a dimension are shown.
    r.op("StringFormat").shape(format_shape).cpu(format_kernel);
}

/// The parts of the template around its placeholders.
fn parts<'t>(template: &'t [u8], placeholder: &[u8]) -> Vec<&'t [u8]> {
    if placeholder.is_empty() {
        return if template.is_empty() { vec![template] } else { template.chunks(1).collect() };
    }
    let mut parts = Vec::new();
    let mut rest = template;
    while let Some(at) = rest.windows(placeholder.len()).position(|window| window == placeholder) {
        parts.push(&rest[..at]);
        rest = &rest[at + placeholder.len()..];
    }
    parts.push(rest);
    parts
}

fn check(template: &[u8], placeholder: &[u8], inputs: usize) -> Result<()> {
    let placeholders = parts(template, placeholder).len() - 1;
    require!(
        placeholders == inputs,
        "num placeholders in template and num inputs must match: {placeholders} vs. {inputs}"
    );
    Ok(())
}

fn format_shape(ctx: &mut InferenceContext<'_>) -> Result<()> {
    check(ctx.attrs.bytes("template")?, ctx.attrs.bytes("placeholder")?, ctx.num_inputs())?;
    shape_fns::scalar(ctx)
}

fn format_kernel(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let (template, placeholder) = (init.attrs.bytes("template")?, init.attrs.bytes("placeholder")?);
    check(template, placeholder, init.input_dtypes.len())?;
    let parts: Vec<Vec<u8>> =
        parts(template, placeholder).iter().map(|part| part.to_vec()).collect();
    let limit = usize::try_from(init.attrs.int("summarize")?).ok();
    kernel(move |ctx| {
        let mut text = parts[0].clone();
        for (index, part) in parts[1..].iter().enumerate() {
            summarize(ctx.input(index)?, limit, &mut text);
            text.extend_from_slice(part);
        }
        ctx.set_output(0, Tensor::scalar(TString::from(&*text)));
        Ok(())
    })
}

/// Appends the elements of a tensor in brackets, one pair for each dimension, with at most `limit` at each end of it.
fn summarize(tensor: &Tensor, limit: Option<usize>, text: &mut Vec<u8>) {
    let limit = limit.unwrap_or(usize::MAX).min(tensor.count());
    if tensor.rank() == 0 {
        return append_element(tensor, 0, limit > 0, text);
    }
    let dims = tensor.shape().to_usizes();
    Summary { tensor, dims: &dims, limit }.append(0, 0, text);
}

fn append_element(tensor: &Tensor, index: usize, shown: bool, text: &mut Vec<u8>) {
    if !shown {
        return text.extend_from_slice(b"...");
    }
    let quote: &[u8] = if tensor.dtype() == DType::STRING { b"\"" } else { b"" };
    text.extend_from_slice(quote);
    text.extend_from_slice(element_text(tensor, index).as_bytes());
    text.extend_from_slice(quote);
}

/// One element as messages show it.
fn element_text(tensor: &Tensor, index: usize) -> String {
    let one = Tensor::allocate(tensor.dtype(), Shape::scalar(), None).and_then(|mut one| {
        one.elems_mut()?.copy_from(tensor.elems().slice(index..index + 1));
        Ok(one)
    });
    one.map_or_else(|_| "?".to_string(), |one| summarize_values(&one, 1))
}

struct Summary<'a> {
    tensor: &'a Tensor,
    dims: &'a [usize],
    limit: usize,
}

impl Summary<'_> {
    /// Appends dimension `axis` from element `start` on.
    fn append(&self, axis: usize, start: usize, text: &mut Vec<u8>) {
        let Some(&size) = self.dims.get(axis) else {
            return append_element(self.tensor, start, true, text);
        };
        let step: usize = self.dims[axis + 1..].iter().product();
        text.push(b'[');
        let tail = self.limit.max(size.saturating_sub(self.limit));
        for index in 0..self.limit.min(size) {
            if index > 0 {
                self.space(axis, text);
            }
            self.append(axis + 1, start + index * step, text);
        }
        if size > self.limit.saturating_mul(2) {
            self.space(axis, text);
            text.extend_from_slice(b"...");
        }
        for index in tail..size {
            self.space(axis, text);
            self.append(axis + 1, start + index * step, text);
        }
        text.push(b']');
    }

    /// Appends what stands between two elements of dimension `axis`.
    fn space(&self, axis: usize, text: &mut Vec<u8>) {
        let inner = self.dims.len() - axis - 1;
        text.extend(std::iter::repeat_n(b'\n', inner));
        text.extend(std::iter::repeat_n(b' ', if inner == 0 { 1 } else { axis + 1 }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tfcore_framework::testing::tensor;

    #[test]
    fn summaries() {
        let numbers: Vec<i32> = (0..24).collect();
        let cases = [
            (
                tensor(&[2, 3, 4], &numbers),
                Some(1),
                "[[[0 ... 3]\n  ...\n  [8 ... 11]]\n\n [[12 ... 15]\n  ...\n  [20 ... 23]]]",
            ),
            (tensor(&[7], &numbers[..7]), Some(3), "[0 1 2 ... 4 5 6]"),
            (tensor(&[2, 2], &numbers[..4]), None, "[[0 1]\n [2 3]]"),
            (tensor(&[3], &numbers[..3]), Some(0), "[ ...]"),
            (tensor(&[2, 0], &[0f32; 0]), Some(1), "[\n ...]"),
            (tensor(&[0, 2], &[0f32; 0]), Some(1), "[]"),
            (tensor(&[], &[1.5f32]), Some(1), "1.5"),
            (tensor(&[2], &["a\"b", "c\n"].map(TString::from)), Some(3), r#"["a\"b" "c\n"]"#),
        ];
        for (tensor, limit, expected) in cases {
            let mut text = Vec::new();
            summarize(&tensor, limit, &mut text);
            assert_eq!(String::from_utf8(text).unwrap(), expected);
        }
    }

    #[test]
    fn templates_fall_into_parts() {
        assert_eq!(parts(b"a {} b{}", b"{}"), [&b"a "[..], b" b", b""]);
        assert_eq!(parts(b"a{}", b""), [b"a", b"{", b"}"]);
        assert_eq!(parts(b"", b"{}"), [b""]);
        assert!(check(b"a {} {}", b"{}", 1).is_err());
    }
}

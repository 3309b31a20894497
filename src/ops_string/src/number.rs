//! Strings and numbers: `AsString`, `StringToNumber`.

use std::fmt::Display;
use std::str::FromStr;

use tfcore_base::{
    BFloat16, Complex64, Complex128, DType, Elem, Half, LoopFor, Result, TypedLoop, internal,
    invalid, require,
};
use tfcore_framework::{Kernel, KernelInit, OpContext, Registry, kernel, shape_fns};
use tfcore_tensor::{Elems, ElemsMut, TString, Variant};

use crate::format::{Notation, Spec};

type ParsedTypes = (f32, f64, i32, i64, u32, u64);

/// The longest field that a number is written into: far more than any number has digits.
const MAX_FIELD: i64 = 10_000;

pub(crate) fn register(r: &mut Registry) {
    // `AsString(input: T) -> output: string`, formatted by `precision`, `scientific`, `shortest`, `width`
    // and `fill`.
    r.op("AsString").shape(shape_fns::unchanged).cpu(as_string_kernel);
    // `StringToNumber(string_tensor: string) -> output: out_type`.
    r.op("StringToNumber")
        .shape(shape_fns::unchanged)
        .typed::<Parsing, ParsedTypes>("out_type", to_number);
}

fn as_string_kernel(init: &KernelInit<'_>) -> Result<Box<dyn Kernel>> {
    let dtype = init.input_dtypes[0];
    let attrs = init.attrs;
    let (precision, width) = (attrs.int("precision")?, attrs.int("width")?);
    let (scientific, shortest) = (attrs.bool("scientific")?, attrs.bool("shortest")?);
    let fill = attrs.bytes("fill")?;
    if !dtype.is_float() && !dtype.is_complex() {
        require!(
            !scientific && !shortest,
            "scientific and shortest format not supported for datatype {dtype}"
        );
        require!(precision < 0, "precision not supported for datatype {dtype}");
    }
    require!(fill.len() <= 1, "Fill string must be one or fewer characters");
    require!(!(scientific && shortest), "Cannot select both scientific and shortest notation");
    let flag = fill.first().copied();
    require!(
        flag.is_none_or(|flag| b" +-0#".contains(&flag)),
        "Fill argument not supported: \"{}\"",
        tfcore_base::escape_bytes(fill)
    );
    require!(
        width.max(precision) <= MAX_FIELD,
        "width {width} and precision {precision} must not be larger than {MAX_FIELD}"
    );
    let notation = match (scientific, shortest) {
        (true, _) => Notation::Scientific,
        (_, true) => Notation::Shortest,
        _ => Notation::Fixed,
    };
    let spec = Spec {
        flag,
        width: usize::try_from(width).unwrap_or(0),
        precision: usize::try_from(precision).ok(),
    };
    kernel(move |ctx| {
        let input = ctx.input(0)?;
        ctx.try_produce(0, input.shape().clone(), |out| {
            write_all(&spec, notation, input.elems(), out.typed())
        })
    })
}

fn write_all(spec: &Spec, notation: Notation, input: Elems<'_>, out: &mut [TString]) -> Result<()> {
    let float = |value: f64| spec.float(value, notation).into_bytes();
    let complex = |re: f64, im: f64| {
        format!("({},{})", spec.float(re, notation), spec.float(im, notation)).into_bytes()
    };
    match input.dtype() {
        DType::FLOAT => write(input, out, |v: &f32| float((*v).into())),
        DType::DOUBLE => write(input, out, |v: &f64| float(*v)),
        DType::HALF => write(input, out, |v: &Half| float(v.to_f64())),
        DType::BFLOAT16 => write(input, out, |v: &BFloat16| float(v.to_f64())),
        DType::COMPLEX64 => {
            write(input, out, |v: &Complex64| complex(v.re.into(), v.im.into()));
        }
        DType::COMPLEX128 => write(input, out, |v: &Complex128| complex(v.re, v.im)),
        DType::BOOL => write(input, out, |v: &bool| v.to_string().into_bytes()),
        DType::STRING => write(input, out, |v: &TString| spec.text(v.as_bytes())),
        DType::VARIANT => write(input, out, |v: &Variant| format!("{v:?}").into_bytes()),
        DType::INT8 => write(input, out, |v: &i8| integer(spec, v)),
        DType::INT16 => write(input, out, |v: &i16| integer(spec, v)),
        DType::INT32 => write(input, out, |v: &i32| integer(spec, v)),
        DType::INT64 => write(input, out, |v: &i64| integer(spec, v)),
        DType::UINT8 => write(input, out, |v: &u8| integer(spec, v)),
        DType::UINT16 => write(input, out, |v: &u16| integer(spec, v)),
        DType::UINT32 => write(input, out, |v: &u32| integer(spec, v)),
        DType::UINT64 => write(input, out, |v: &u64| integer(spec, v)),
        dtype => return Err(internal!("AsString has no kernel for type {dtype}")),
    }
    Ok(())
}

fn write<T: Elem>(input: Elems<'_>, out: &mut [TString], text: impl Fn(&T) -> Vec<u8>) {
    for (out, value) in out.iter_mut().zip(input.typed::<T>()) {
        out.assign(&text(value));
    }
}

fn integer(spec: &Spec, value: &impl Display) -> Vec<u8> {
    let text = value.to_string();
    match text.strip_prefix('-') {
        Some(digits) => spec.integer(true, digits),
        None => spec.integer(false, &text),
    }
    .into_bytes()
}

/// Parses strings into numbers.
type Parse = fn(&[TString], ElemsMut<'_>) -> Result<()>;

struct Parsing;

/// A type that strings can be turned into.
trait Parsed: FromStr {
    /// The value of hexadecimal digits with an optional fraction and a power of two: `0x1.8p3`.
    fn from_hex(_text: &str) -> Option<Self> {
        None
    }
}

impl Parsed for i32 {}
impl Parsed for i64 {}
impl Parsed for u32 {}
impl Parsed for u64 {}

impl Parsed for f32 {
    fn from_hex(text: &str) -> Option<f32> {
        parse_hex(text).map(|value| value as f32)
    }
}

impl Parsed for f64 {
    fn from_hex(text: &str) -> Option<f64> {
        parse_hex(text)
    }
}

impl TypedLoop for Parsing {
    type Loop = Parse;
}

impl<T: Elem + Parsed> LoopFor<T> for Parsing {
    const LOOP: Parse = |texts, out| {
        for (out, text) in out.typed::<T>().iter_mut().zip(texts) {
            *out = parse(text.as_bytes()).ok_or_else(|| {
                invalid!(
                    "StringToNumberOp could not correctly convert string: {}",
                    String::from_utf8_lossy(text.as_bytes())
                )
            })?;
        }
        Ok(())
    };
}

/// A number with white space around it.
fn parse<T: Parsed>(text: &[u8]) -> Option<T> {
    let is_space = |c: char| matches!(c, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c');
    let text = std::str::from_utf8(text).ok()?.trim_matches(is_space);
    text.parse().ok().or_else(|| T::from_hex(text))
}

fn parse_hex(text: &str) -> Option<f64> {
    let (sign, text) = match text.strip_prefix('-') {
        Some(text) => (-1.0, text),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    let text = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"))?;
    let (digits, exponent) = match text.split_once(['p', 'P']) {
        Some((digits, exponent)) => (digits, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut value = 0.0;
    for digit in whole.chars() {
        value = value * 16.0 + f64::from(digit.to_digit(16)?);
    }
    let mut place = 1.0;
    for digit in fraction.chars() {
        place /= 16.0;
        value += f64::from(digit.to_digit(16)?) * place;
    }
    Some(sign * value * 2f64.powi(exponent))
}

fn to_number(ctx: &mut OpContext<'_>, parse: Parse) -> Result<()> {
    let shape = ctx.input(0)?.shape().clone();
    let texts = ctx.input_slice::<TString>(0)?;
    ctx.try_produce(0, shape, |out| parse(texts, out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_may_have_space_around_them() {
        assert_eq!(parse::<i32>(b" 12\n"), Some(12));
        assert_eq!(parse::<i32>(b"+7"), Some(7));
        assert_eq!(parse::<i32>(b"2147483648"), None);
        assert_eq!(parse::<f32>(b"1e50"), Some(f32::INFINITY));
        assert_eq!(parse::<f32>(b"-.5"), Some(-0.5));
        assert_eq!(parse::<f64>(b"1 2"), None);
        assert_eq!(parse::<f64>(b""), None);
        assert_eq!(parse::<f64>(b"-0x1.8p3"), Some(-12.0));
        assert_eq!(parse::<f64>(b"0x"), None);
        assert_eq!(parse::<i32>(b"0x10"), None);
    }
}

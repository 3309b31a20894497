//! When a tensor counts as equal to the recorded one.
//!
//! Cases of single ops and models are judged by different rules: an op by element
//! ([`compare`]), a model by the largest error relative to the output's scale ([`compare_scaled`]).

use crate::value::{Data, FloatFormat, RESOURCE, VARIANT, Value, dtype_name, item_size};

/// How closely the values are looked at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Check {
    /// Within the tolerances; 0 stands for the dtype's own.
    Values { rtol: f64, atol: f64 },
    /// Equal, also in the sign of zero; any NaN equals any NaN.
    Exact,
    /// Only dtype and shape.
    Shape,
}

impl Check {
    /// The check a case names.
    pub(crate) fn parse(name: &str, rtol: f64, atol: f64) -> Result<Self, String> {
        match name {
            "" | "values" => Ok(Check::Values { rtol, atol }),
            "exact" => Ok(Check::Exact),
            "shape" => Ok(Check::Shape),
            _ => Err(format!("unknown check {name:?}")),
        }
    }
}

/// Relative and absolute tolerance of a floating-point dtype.
fn tolerances(dtype: i32) -> (f64, f64) {
    match dtype {
        1 | 8 => (1e-5, 1e-6),
        14 => (1.6e-2, 1e-3),
        19 => (2e-3, 2e-4),
        _ => (1e-9, 1e-10),
    }
}

/// Compares element by element; the error says what differs first.
pub(crate) fn compare(expected: &Value, got: &Value, check: Check) -> Result<(), String> {
    same_type_and_shape(expected, got)?;
    if check == Check::Shape || matches!(got.dtype, RESOURCE | VARIANT) {
        return Ok(());
    }
    let (expected_bytes, got_bytes) = match (&expected.data, &got.data) {
        (Data::Strings(expected), Data::Strings(got)) => return compare_strings(expected, got),
        (Data::Bytes(expected), Data::Bytes(got)) => (expected, got),
        _ => return Err("strings against numbers".into()),
    };
    if expected_bytes == got_bytes {
        return Ok(());
    }
    if expected_bytes.len() != got_bytes.len() {
        return Err(format!("{} bytes, expected {}", got_bytes.len(), expected_bytes.len()));
    }
    let Some(format) = FloatFormat::of(got.dtype) else {
        return compare_plain(got.dtype, expected_bytes, got_bytes);
    };
    let (expected_parts, got_parts) = (format.decode(expected_bytes), format.decode(got_bytes));
    let (rtol, atol) = match check {
        Check::Values { rtol, atol } => {
            let default = tolerances(got.dtype);
            (if rtol == 0.0 { default.0 } else { rtol }, if atol == 0.0 { default.1 } else { atol })
        }
        _ => (0.0, 0.0),
    };
    let parts = format.parts();
    let close = |k: usize| {
        let (expected, got) = (expected_parts[k], got_parts[k]);
        if expected.is_nan() && got.is_nan() {
            return true;
        }
        if check == Check::Exact {
            return expected == got && expected.is_sign_negative() == got.is_sign_negative();
        }
        let element = &expected_parts[k - k % parts..][..parts];
        let magnitude = element.iter().fold(0.0, |sum: f64, part| sum.hypot(*part));
        let magnitude = if element.iter().all(|part| part.is_finite()) { magnitude } else { 0.0 };
        expected == got || (got.is_finite() && (got - expected).abs() <= atol + rtol * magnitude)
    };
    report(got_parts.len(), close, |k| {
        let unit =
            ["", " (real part)", " (imaginary part)"][if format.complex { 1 + k % 2 } else { 0 }];
        (k / parts, format!("{:?}{unit}", got_parts[k]), format!("{:?}", expected_parts[k]))
    })
}

fn same_type_and_shape(expected: &Value, got: &Value) -> Result<(), String> {
    if got.dtype != expected.dtype {
        return Err(format!(
            "dtype {}, expected {}",
            dtype_name(got.dtype),
            dtype_name(expected.dtype)
        ));
    }
    if got.dims != expected.dims {
        return Err(format!("shape {:?}, expected {:?}", got.dims, expected.dims));
    }
    Ok(())
}

fn compare_strings(expected: &[Vec<u8>], got: &[Vec<u8>]) -> Result<(), String> {
    let quoted = |text: &[u8]| format!("\"{}\"", text[..text.len().min(80)].escape_ascii());
    if expected.len() != got.len() {
        return Err(format!("{} strings, expected {}", got.len(), expected.len()));
    }
    report(got.len(), |k| got[k] == expected[k], |k| (k, quoted(&got[k]), quoted(&expected[k])))
}

/// Integers, booleans, quantised and eight-bit floating-point elements.
fn compare_plain(dtype: i32, expected: &[u8], got: &[u8]) -> Result<(), String> {
    let size = item_size(dtype)
        .ok_or_else(|| format!("elements of {} cannot be compared", dtype_name(dtype)))?;
    let is_nan = |element: &[u8]| match dtype {
        24 => element[0] & 0x7f > 0x7c,
        25 => element[0] & 0x7f == 0x7f,
        _ => false,
    };
    let element = |bytes: &'_ [u8], k: usize| -> Vec<u8> { bytes[k * size..][..size].to_vec() };
    let close = |k| {
        let (expected, got) = (element(expected, k), element(got, k));
        expected == got || (is_nan(&expected) && is_nan(&got))
    };
    let show = |bytes| show_plain(dtype, &element(bytes, 0));
    report(got.len() / size, close, |k| (k, show(&got[k * size..]), show(&expected[k * size..])))
}

fn show_plain(dtype: i32, element: &[u8]) -> String {
    let mut wide = [0; 16];
    wide[..element.len()].copy_from_slice(element);
    let bits = 128 - 8 * element.len() as u32;
    let value = i128::from_le_bytes(wide);
    match dtype {
        3 | 5 | 6 | 9 | 11 | 13 | 15 | 29 => ((value << bits) >> bits).to_string(),
        10 => (value != 0).to_string(),
        24..=28 => format!("{value:#04x}"),
        _ => value.to_string(),
    }
}

/// Walks over `count` elements; `show` gives index, got and expected of the first that is not
/// close.
fn report(
    count: usize,
    close: impl Fn(usize) -> bool,
    show: impl Fn(usize) -> (usize, String, String),
) -> Result<(), String> {
    let mut bad = (0..count).filter(|k| !close(*k));
    let Some(first) = bad.next() else {
        return Ok(());
    };
    let differ = 1 + bad.count();
    let (index, got, expected) = show(first);
    Err(format!("element {index} is {got}, expected {expected} ({differ} of {count} differ)"))
}

/// Outputs of a model whose largest value is below this are compared as if it were this.
const SCALE_FLOOR: f64 = 1e-2;

/// Compares an output of a model: floats by `max |got - expected| <= tolerance * max(0.01, max
/// |expected|)`, anything else must be equal. A share of `allowed` elements (0 to 1) may miss.
/// Returns the error: relative to the scale for floats, else the share that differs.
pub(crate) fn compare_scaled(
    expected: &Value,
    got: &Value,
    tolerance: f64,
    allowed: f64,
) -> Result<f64, String> {
    same_type_and_shape(expected, got)?;
    let (expected_bytes, got_bytes) = match (&expected.data, &got.data) {
        (Data::Strings(expected), Data::Strings(got)) => {
            let differ = expected.iter().zip(got).filter(|(e, g)| e != g).count();
            return within_share(differ, got.len(), allowed);
        }
        (Data::Bytes(expected), Data::Bytes(got)) if expected.len() == got.len() => (expected, got),
        _ => return Err("buffers of different size".into()),
    };
    let Some(format) = FloatFormat::of(got.dtype) else {
        let size =
            item_size(got.dtype).ok_or_else(|| format!("output of {}", dtype_name(got.dtype)))?;
        let pairs = expected_bytes.chunks_exact(size).zip(got_bytes.chunks_exact(size));
        return within_share(
            pairs.filter(|(e, g)| e != g).count(),
            got_bytes.len() / size,
            allowed,
        );
    };
    let (expected, got) = (format.decode(expected_bytes), format.decode(got_bytes));
    let pairs = || expected.chunks_exact(format.parts()).zip(got.chunks_exact(format.parts()));
    let norm = |parts: &[f64]| parts.iter().fold(0.0, |sum: f64, part| sum.hypot(*part));
    let scale = pairs().map(|(e, _)| norm(e)).filter(|n| n.is_finite()).fold(SCALE_FLOOR, f64::max);
    let errors: Vec<f64> = pairs()
        .map(|(expected, got)| {
            let same = |(e, g): (&f64, &f64)| e == g || (e.is_nan() && g.is_nan());
            if expected.iter().zip(got).all(same) {
                return 0.0;
            }
            expected.iter().zip(got).fold(0.0, |sum: f64, (e, g)| sum.hypot(g - e)) / scale
        })
        .collect();
    let not_finite = errors.iter().filter(|e| !e.is_finite()).count();
    if not_finite > 0 {
        return Err(format!("{not_finite} differences are not finite"));
    }
    let worst = errors.iter().fold(0.0, |a: f64, b| a.max(*b));
    let missing = errors.iter().filter(|e| **e > tolerance).count();
    if missing as f64 > allowed * errors.len() as f64 {
        let at = errors.iter().position(|e| *e == worst).unwrap_or(0);
        return Err(format!(
            "error {worst:.3e} of the scale {scale:.3e} at element {at}, {missing} of {} are over {tolerance:e}",
            errors.len()
        ));
    }
    Ok(worst)
}

fn within_share(differ: usize, count: usize, allowed: f64) -> Result<f64, String> {
    if differ as f64 > allowed * count as f64 {
        return Err(format!("{differ} of {count} elements differ"));
    }
    Ok(differ as f64 / count.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALUES: Check = Check::Values { rtol: 0.0, atol: 0.0 };

    fn value(dtype: i32, bytes: &[u8]) -> Value {
        let count = bytes.len() / item_size(dtype).unwrap();
        Value { dtype, dims: vec![count as i64], data: Data::Bytes(bytes.to_vec()) }
    }

    fn floats(values: &[f32]) -> Value {
        value(1, &values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>())
    }

    fn complexes(values: &[f32]) -> Value {
        Value { dtype: 8, dims: vec![values.len() as i64 / 2], ..floats(values) }
    }

    fn strings(values: &[&[u8]]) -> Value {
        let data = Data::Strings(values.iter().map(|v| v.to_vec()).collect());
        Value { dtype: 7, dims: vec![values.len() as i64], data }
    }

    #[test]
    fn element_rules() {
        let nan = f32::NAN;
        let other_nan = f32::from_bits(0xffc0_0001);
        let inf = f32::INFINITY;
        let loose = Check::Values { rtol: 0.1, atol: 0.0 };
        let near_zero = Check::Values { rtol: 0.0, atol: 0.5 };
        #[rustfmt::skip]
        let table = [
            // Tolerance of float: 1e-6 + 1e-5 * |expected|.
            (floats(&[100.0]), floats(&[100.0009]), VALUES, true),
            (floats(&[100.0]), floats(&[100.0012]), VALUES, false),
            (floats(&[0.0]), floats(&[9e-7]), VALUES, true),
            (floats(&[0.0]), floats(&[2e-6]), VALUES, false),
            (floats(&[100.0]), floats(&[109.0]), loose, true),
            (floats(&[0.0]), floats(&[0.4]), near_zero, true),
            (floats(&[0.0]), floats(&[0.6]), near_zero, false),
            // NaN, infinities and zeros.
            (floats(&[nan]), floats(&[other_nan]), VALUES, true),
            (floats(&[nan]), floats(&[other_nan]), Check::Exact, true),
            (floats(&[nan]), floats(&[1.0]), VALUES, false),
            (floats(&[1.0]), floats(&[nan]), VALUES, false),
            (floats(&[inf]), floats(&[-inf]), VALUES, false),
            (floats(&[inf]), floats(&[f32::MAX]), loose, false),
            (floats(&[1.0]), floats(&[inf]), loose, false),
            (floats(&[0.0]), floats(&[-0.0]), VALUES, true),
            (floats(&[0.0]), floats(&[-0.0]), Check::Exact, false),
            (floats(&[1.0]), floats(&[1.000_000_1]), Check::Exact, false),
            (floats(&[1.0]), floats(&[7.0]), Check::Shape, true),
            // Both parts of a complex number share the magnitude.
            (complexes(&[100.0, 0.0]), complexes(&[100.0, 0.0009]), VALUES, true),
            (complexes(&[100.0, 0.0]), complexes(&[100.0, 0.0012]), VALUES, false),
            (complexes(&[inf, 1.0]), complexes(&[inf, 1.0001]), VALUES, false),
            (complexes(&[0.0, 0.0]), complexes(&[0.0, -0.0]), Check::Exact, false),
            // Half and bfloat16: one unit in the last place is inside, ten are not.
            (value(19, &[0, 0x3c]), value(19, &[1, 0x3c]), VALUES, true),
            (value(19, &[0, 0x3c]), value(19, &[10, 0x3c]), VALUES, false),
            (value(14, &[0x80, 0x3f]), value(14, &[0x81, 0x3f]), VALUES, true),
            (value(14, &[0x80, 0x3f]), value(14, &[0x8a, 0x3f]), VALUES, false),
            // Everything else bit by bit.
            (value(9, &[1, 0, 0, 0, 0, 0, 0, 0]), value(9, &[1, 0, 0, 0, 0, 0, 0, 128]), loose, false),
            (value(12, &[4]), value(12, &[5]), loose, false),
            (value(24, &[0x7d]), value(24, &[0xff]), Check::Exact, true),
            (value(24, &[0x7c]), value(24, &[0x7d]), Check::Exact, false),
            (value(25, &[0x7f]), value(25, &[0xff]), VALUES, true),
            (value(25, &[0x7e]), value(25, &[0x7f]), VALUES, false),
            (value(26, &[0x80]), value(26, &[0x80]), VALUES, true),
            (value(29, &[0xff]), value(29, &[0x0f]), VALUES, false),
            (strings(&[b"a", b"\xff"]), strings(&[b"a", b"\xff"]), VALUES, true),
            (strings(&[b"a"]), strings(&[b"b"]), VALUES, false),
            (strings(&[b"a"]), strings(&[b"b"]), Check::Shape, true),
            // dtype and shape always count.
            (value(3, &[0; 4]), value(13, &[0; 4]), Check::Shape, false),
            (floats(&[1.0]), floats(&[1.0, 1.0]), Check::Shape, false),
        ];
        for (expected, got, check, close) in table {
            let answer = compare(&expected, &got, check);
            assert_eq!(answer.is_ok(), close, "{expected:?} {got:?} {check:?}: {answer:?}");
        }
    }

    #[test]
    fn the_first_difference_is_told() {
        let int = |values: &[i32]| {
            value(3, &values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>())
        };
        let text = compare(&int(&[1, 2, 3]), &int(&[1, -2, 4]), VALUES).unwrap_err();
        assert_eq!(text, "element 1 is -2, expected 2 (2 of 3 differ)");
        let text = compare(&complexes(&[1.0, 2.0]), &complexes(&[1.0, 3.0]), VALUES).unwrap_err();
        assert_eq!(text, "element 0 is 3.0 (imaginary part), expected 2.0 (1 of 2 differ)");
        let text = compare(&strings(&[b"a\n"]), &strings(&[b"\xff"]), VALUES).unwrap_err();
        assert_eq!(text, "element 0 is \"\\xff\", expected \"a\\n\" (1 of 1 differ)");
    }

    #[test]
    fn model_rules() {
        #[rustfmt::skip]
        let table = [
            // Relative to the largest value of the output, not to the element.
            (floats(&[100.0, 0.0]), floats(&[100.0, 0.009]), 1e-4, 0.0, true),
            (floats(&[100.0, 0.0]), floats(&[100.0, 0.011]), 1e-4, 0.0, false),
            // Small outputs have the scale 0.01.
            (floats(&[1e-5]), floats(&[2e-5]), 1e-2, 0.0, true),
            (floats(&[1e-5]), floats(&[2e-4]), 1e-2, 0.0, false),
            (floats(&[f32::NAN, f32::INFINITY]), floats(&[f32::NAN, f32::INFINITY]), 0.0, 0.0, true),
            (floats(&[1.0, 1.0]), floats(&[1.0, f32::NAN]), 1.0, 1.0, false),
            (floats(&[1.0, 1.0]), floats(&[1.0, 2.0]), 1e-4, 0.5, true),
            (floats(&[1.0, 1.0]), floats(&[2.0, 2.0]), 1e-4, 0.5, false),
            (value(10, &[1, 0]), value(10, &[1, 1]), 1.0, 0.0, false),
            (value(10, &[1, 0]), value(10, &[1, 1]), 0.0, 0.5, true),
            (strings(&[b"a"]), strings(&[b"b"]), 1.0, 0.0, false),
            (floats(&[]), floats(&[]), 0.0, 0.0, true),
        ];
        for (expected, got, tolerance, allowed, close) in table {
            let answer = compare_scaled(&expected, &got, tolerance, allowed);
            assert_eq!(answer.is_ok(), close, "{expected:?} {got:?}: {answer:?}");
        }
    }
}

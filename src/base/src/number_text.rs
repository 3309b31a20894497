//! Numbers as TensorFlow's messages show them.

/// The shorter of 6 and 9 significant digits that reads back as the same number.
pub fn format_float(value: f32) -> String {
    let short = format_general(value.into(), 6);
    if short.parse() == Ok(value) || !value.is_finite() {
        return short;
    }
    format_general(value.into(), 9)
}

/// The shorter of 15 and 17 significant digits that reads back as the same number.
pub fn format_double(value: f64) -> String {
    let short = format_general(value, 15);
    if short.parse() == Ok(value) || !value.is_finite() {
        return short;
    }
    format_general(value, 17)
}

/// A number with up to `digits` significant digits, as `%g` has it.
fn format_general(value: f64, digits: i32) -> String {
    if value.is_nan() {
        return "nan".to_string();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_string();
    }
    if value == 0.0 {
        return if value.is_sign_negative() { "-0" } else { "0" }.to_string();
    }
    let precision = usize::try_from(digits - 1).expect("there is at least one digit");
    let scientific = format!("{value:.precision$e}");
    let (mantissa, exponent) = scientific.split_once('e').expect("`e` notation has an exponent");
    let exponent: i32 = exponent.parse().expect("`e` notation has an integer exponent");
    let trim = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text.to_string(),
    };
    if (-4..digits).contains(&exponent) {
        let decimals = usize::try_from(digits - 1 - exponent).expect("the exponent is below it");
        trim(&format!("{value:.decimals$}"))
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{}e{sign}{:02}", trim(mantissa), exponent.abs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_read_back() {
        let cases = [
            (0.1, "0.1"),
            (1.0, "1"),
            (1e-5, "1e-05"),
            (1e-7, "1e-07"),
            (0.0001, "0.0001"),
            (100_000.0, "100000"),
            (1_000_000.0, "1e+06"),
            (1_234_567.0, "1234567"),
            (123_456_789.0, "123456792"),
            (16_777_216.0, "16777216"),
            (1.0 / 3.0, "0.333333343"),
            (1.123_456_8, "1.12345684"),
            (3.4e38, "3.4e+38"),
            (-0.0, "-0"),
            (f32::NAN, "nan"),
            (f32::NEG_INFINITY, "-inf"),
        ];
        for (value, text) in cases {
            assert_eq!(format_float(value), text);
        }
        assert_eq!(format_double(1.123456789), "1.123456789");
        assert_eq!(format_double(1e300), "1e+300");
        assert_eq!(format_double(1.0 / 3.0), "0.33333333333333331");
    }
}

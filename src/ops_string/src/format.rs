//! Numbers as C's `printf` writes them.

/// A conversion specification with one flag at most: `%[flag][width][.precision]conversion`.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Spec {
    pub flag: Option<u8>,
    pub width: usize,
    pub precision: Option<usize>,
}

/// How a float is written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Notation {
    /// `%f`
    Fixed,
    /// `%e`
    Scientific,
    /// `%g`
    Shortest,
}

impl Spec {
    /// `%d` of a number given by sign and digits.
    pub(crate) fn integer(&self, negative: bool, digits: &str) -> String {
        self.pad(self.sign(negative), digits, true)
    }

    /// `%f`, `%e` or `%g`.
    pub(crate) fn float(&self, value: f64, notation: Notation) -> String {
        let sign = self.sign(value.is_sign_negative());
        let magnitude = value.abs();
        if !magnitude.is_finite() {
            return self.pad(sign, if magnitude.is_nan() { "nan" } else { "inf" }, false);
        }
        let precision = self.precision.unwrap_or(6);
        let keeps_point = self.flag == Some(b'#');
        let digits = match notation {
            Notation::Fixed => fixed(magnitude, precision, keeps_point),
            Notation::Scientific => scientific(magnitude, precision, keeps_point),
            Notation::Shortest => shortest(magnitude, precision.max(1), keeps_point),
        };
        self.pad(sign, &digits, true)
    }

    /// `%s`; `#`, `+`, ` ` and `0` mean nothing to it.
    pub(crate) fn text(&self, text: &[u8]) -> Vec<u8> {
        let text = &text[..self.precision.map_or(text.len(), |most| most.min(text.len()))];
        let missing = self.width.saturating_sub(text.len());
        let padding = std::iter::repeat_n(b' ', missing);
        if self.flag == Some(b'-') {
            text.iter().copied().chain(padding).collect()
        } else {
            padding.chain(text.iter().copied()).collect()
        }
    }

    fn sign(&self, negative: bool) -> &'static str {
        match self.flag {
            _ if negative => "-",
            Some(b'+') => "+",
            Some(b' ') => " ",
            _ => "",
        }
    }

    fn pad(&self, sign: &str, digits: &str, zeros: bool) -> String {
        let missing = self.width.saturating_sub(sign.len() + digits.len());
        match self.flag {
            Some(b'-') => format!("{sign}{digits}{}", " ".repeat(missing)),
            Some(b'0') if zeros => format!("{sign}{}{digits}", "0".repeat(missing)),
            _ => format!("{}{sign}{digits}", " ".repeat(missing)),
        }
    }
}

fn fixed(value: f64, precision: usize, keeps_point: bool) -> String {
    let point = if keeps_point && precision == 0 { "." } else { "" };
    format!("{value:.precision$}{point}")
}

fn scientific(value: f64, precision: usize, keeps_point: bool) -> String {
    let (mantissa, exponent) = mantissa_and_exponent(value, precision);
    let point = if keeps_point && precision == 0 { "." } else { "" };
    format!("{mantissa}{point}{}", exponent_text(exponent))
}

fn mantissa_and_exponent(value: f64, precision: usize) -> (String, i32) {
    let text = format!("{value:.precision$e}");
    let (mantissa, exponent) = text.split_once('e').expect("`e` notation has an exponent");
    let exponent = exponent.parse().expect("`e` notation has an integer exponent");
    (mantissa.to_string(), exponent)
}

fn exponent_text(exponent: i32) -> String {
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("e{sign}{:02}", exponent.unsigned_abs())
}

fn shortest(value: f64, precision: usize, keeps_zeros: bool) -> String {
    let (mantissa, exponent) = mantissa_and_exponent(value, precision - 1);
    let trim = |text: String| match text.contains('.') && !keeps_zeros {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text,
    };
    if exponent < -4 || i64::from(exponent) >= precision as i64 {
        format!("{}{}", trim(mantissa), exponent_text(exponent))
    } else {
        let places = (precision as i64 - 1 - i64::from(exponent)) as usize;
        trim(fixed(value, places, keeps_zeros))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_written_as_printf_writes_them() {
        use Notation::*;
        let spec =
            |flag: &str, width, precision| Spec { flag: flag.bytes().next(), width, precision };
        let cases = [
            (spec("", 0, None), 3.25, Fixed, "3.250000"),
            (spec("", 0, Some(0)), 2.5, Fixed, "2"),
            (spec("#", 0, Some(0)), 2.5, Fixed, "2."),
            (spec("", 0, None), 12345.678, Scientific, "1.234568e+04"),
            (spec("", 0, None), 1e-7, Shortest, "1e-07"),
            (spec("", 0, None), 100000.0, Shortest, "100000"),
            (spec("", 0, None), 1e6, Shortest, "1e+06"),
            (spec("0", 8, Some(2)), -1.5, Fixed, "-0001.50"),
            (spec("-", 8, Some(2)), -1.5, Fixed, "-1.50   "),
            (spec("+", 8, Some(2)), 1.5, Fixed, "   +1.50"),
            (spec("0", 6, None), f64::INFINITY, Fixed, "   inf"),
            (spec("", 0, None), -0.0, Shortest, "-0"),
        ];
        for (spec, value, notation, text) in cases {
            assert_eq!(spec.float(value, notation), text);
        }
        assert_eq!(spec("0", 5, None).integer(true, "42"), "-0042");
        assert_eq!(spec("-", 4, None).text(b"ab"), b"ab  ");
    }
}

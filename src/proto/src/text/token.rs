//! The tokens of the text format, with their places.

use std::borrow::Cow;

use tfcore_base::{Error, Result, invalid};

/// What a token is. Numbers carry no sign.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Kind {
    End,
    Identifier,
    /// Decimal, `0x..` or octal `0..`.
    Integer,
    /// May end with `f`.
    Float,
    /// With its quotes; its escapes are not checked.
    String,
    Symbol,
}

/// A token of the text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Token<'a> {
    pub(super) kind: Kind,
    pub(super) text: &'a [u8],
    place: Place,
}

/// Line and column, from 0.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    line: usize,
    column: usize,
}

/// How far apart tab stops are, by which columns are counted.
const TAB: usize = 8;

impl Place {
    /// The place behind `text`.
    fn after(mut self, text: &[u8]) -> Place {
        for byte in text {
            match byte {
                b'\n' => self = Place { line: self.line + 1, column: 0 },
                b'\t' => self.column += TAB - self.column % TAB,
                _ => self.column += 1,
            }
        }
        self
    }

    fn error(self, what: &str) -> Error {
        invalid!("{}({}): {what}\n", self.line + 1, self.column + 1)
    }
}

impl<'a> Token<'a> {
    /// An error at this token.
    pub(super) fn error(&self, what: impl AsRef<str>) -> Error {
        self.place.error(what.as_ref())
    }

    /// The token in a message.
    pub(super) fn shown(&self) -> Cow<'a, str> {
        String::from_utf8_lossy(self.text)
    }

    pub(super) fn is(&self, symbol: u8) -> bool {
        self.kind == Kind::Symbol && self.text == [symbol]
    }
}

/// Cuts a text into tokens.
pub(super) struct Tokens<'a> {
    rest: &'a [u8],
    place: Place,
}

impl<'a> Tokens<'a> {
    pub(super) fn new(text: &'a [u8]) -> Tokens<'a> {
        Tokens { rest: text, place: Place::default() }
    }

    /// The next token; `End` for ever after the last one.
    pub(super) fn next(&mut self) -> Result<Token<'a>> {
        self.skip_blanks();
        let rest = self.rest;
        let at = |index: usize| rest.get(index).copied().unwrap_or(0);
        let (kind, len) = match at(0) {
            _ if rest.is_empty() => (Kind::End, 0),
            b'A'..=b'Z' | b'a'..=b'z' | b'_' => (Kind::Identifier, count(rest, is_word)),
            b'0'..=b'9' => self.number()?,
            b'.' if at(1).is_ascii_digit() => self.number()?,
            quote @ (b'"' | b'\'') => (Kind::String, self.string(quote)?),
            0..b' ' | 0x7f => {
                return Err(self.place.error("Invalid control characters encountered in text."));
            }
            byte @ 0x80.. => {
                return Err(self.place.error(&format!("Interpreting non ascii codepoint {byte}.")));
            }
            _ => (Kind::Symbol, 1),
        };
        let token = Token { kind, text: &rest[..len], place: self.place };
        self.advance(len);
        Ok(token)
    }

    fn advance(&mut self, len: usize) {
        let (passed, rest) = self.rest.split_at(len);
        self.place = self.place.after(passed);
        self.rest = rest;
    }

    /// Blanks, and comments to the end of their line.
    fn skip_blanks(&mut self) {
        loop {
            let blanks = count(self.rest, |byte| byte.is_ascii_whitespace() || byte == 0x0b);
            self.advance(blanks);
            if self.rest.first() != Some(&b'#') {
                return;
            }
            let comment = count(self.rest, |byte| byte != b'\n');
            self.advance(comment);
        }
    }

    fn error_after(&self, len: usize, what: &str) -> Error {
        self.place.after(&self.rest[..len]).error(what)
    }

    /// The kind and the length of the number that comes next.
    fn number(&self) -> Result<(Kind, usize)> {
        let text = self.rest;
        let digits = |from: usize| count(&text[from..], |byte| byte.is_ascii_digit());
        let at = |index: usize| text.get(index).map_or(0, u8::to_ascii_lowercase);
        let (kind, len) = if at(0) == b'0' && at(1) == b'x' {
            let len = 2 + count(&text[2..], |byte| byte.is_ascii_hexdigit());
            if len == 2 {
                return Err(self.error_after(2, "\"0x\" must be followed by hex digits."));
            }
            (Kind::Integer, len)
        } else if at(0) == b'0' && at(1).is_ascii_digit() {
            let len = count(text, |byte| (b'0'..b'8').contains(&byte));
            if at(len).is_ascii_digit() {
                let what = "Numbers starting with leading zero must be in octal.";
                return Err(self.error_after(len, what));
            }
            (Kind::Integer, len)
        } else {
            let mut len = digits(0);
            let mut kind = Kind::Integer;
            if at(len) == b'.' {
                kind = Kind::Float;
                len += 1 + digits(len + 1);
            }
            if at(len) == b'e' {
                kind = Kind::Float;
                len += 1;
                len += usize::from(matches!(at(len), b'+' | b'-'));
                if !at(len).is_ascii_digit() {
                    return Err(self.error_after(len, "\"e\" must be followed by exponent."));
                }
                len += digits(len);
            }
            if at(len) == b'f' {
                kind = Kind::Float;
                len += 1;
            }
            (kind, len)
        };
        match at(len) {
            byte if is_word(byte) => {
                Err(self.error_after(len, "Need space between number and identifier."))
            }
            b'.' => Err(self.error_after(len, "A number has one decimal point at most.")),
            _ => Ok((kind, len)),
        }
    }

    /// The length of the string that comes next, quotes included.
    fn string(&self, quote: u8) -> Result<usize> {
        let text = self.rest;
        let mut len = 1;
        loop {
            match text.get(len) {
                Some(b'\\') if len + 1 < text.len() => len += 2,
                Some(b'\n') => {
                    return Err(self.error_after(len, "Multiline strings are not allowed."));
                }
                Some(&byte) if byte == quote => return Ok(len + 1),
                Some(_) => len += 1,
                None => return Err(self.error_after(len, "Unexpected end of string.")),
            }
        }
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// How many bytes at the beginning belong.
fn count(text: &[u8], belongs: impl Fn(u8) -> bool) -> usize {
    text.iter().take_while(|&&byte| belongs(byte)).count()
}

/// Appends the bytes that a string token stands for.
pub(super) fn unescape(token: &Token<'_>, bytes: &mut Vec<u8>) -> Result<()> {
    let text = &token.text[1..token.text.len() - 1];
    let mut index = 0;
    while let Some(&byte) = text.get(index) {
        index += 1;
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        let letter = text.get(index).copied().unwrap_or(0);
        index += 1;
        // An error at the byte `index` of the string.
        let error = |index: usize, what: &str| {
            let place = token.place.after(&token.text[..=index.min(text.len())]);
            Err(place.error(what))
        };
        // The number that digits at `from` stand for, and the index behind them.
        let digits = |from: usize, radix: u32, max: usize| {
            let digits = text[from.min(text.len())..].iter().take(max);
            let digits = digits.map_while(|&byte| char::from(byte).to_digit(radix));
            digits.fold((0, from), |(code, end), digit| (code * radix + digit, end + 1))
        };
        match letter {
            b'n' => bytes.push(b'\n'),
            b't' => bytes.push(b'\t'),
            b'r' => bytes.push(b'\r'),
            b'a' => bytes.push(7),
            b'b' => bytes.push(8),
            b'f' => bytes.push(12),
            b'v' => bytes.push(11),
            b'\\' | b'\'' | b'"' | b'?' => bytes.push(letter),
            b'0'..=b'7' => {
                let (code, end) = digits(index - 1, 8, 3);
                // Three digits hold more than a byte; what does not fit is dropped.
                bytes.push(code as u8);
                index = end;
            }
            b'x' | b'X' => {
                let (code, end) = digits(index, 16, 2);
                if end == index {
                    return error(end, "Expected hex digits for escape sequence.");
                }
                bytes.push(code as u8);
                index = end;
            }
            b'u' | b'U' => {
                let (len, wanted) = match letter {
                    b'u' => (4, "Expected four hex digits for \\u escape sequence."),
                    _ => (8, "Expected eight hex digits up to 10ffff for \\U escape sequence"),
                };
                let (code, end) = digits(index, 16, len);
                let Some(letter) = char::from_u32(code).filter(|_| end == index + len) else {
                    return error(end, wanted);
                };
                bytes.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
                index = end;
            }
            _ => return error(index - 1, "Invalid escape sequence in string literal."),
        }
    }
    Ok(())
}

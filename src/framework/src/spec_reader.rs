//! The reader of op registrations: words, numbers and strings. `text_proto.rs` adds messages and defaults of attributes.
//!
//! A method returns `None` where the text is something else; what the error should say is known only to
//! the caller.

use tfcore_base::DType;

pub(crate) struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(text: &'a str) -> Reader<'a> {
        Reader { rest: text }
    }

    fn skip_blanks(&mut self) {
        self.rest = self.rest.trim_ascii_start();
    }

    /// What is still to be read, from the next token on.
    pub(crate) fn rest(&mut self) -> &'a str {
        self.skip_blanks();
        self.rest
    }

    /// Whether `token` comes next.
    pub(crate) fn at(&mut self, token: &str) -> bool {
        self.rest().starts_with(token)
    }

    /// Takes `token` if it comes next.
    pub(crate) fn accept(&mut self, token: &str) -> bool {
        match self.rest().strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// Takes `word` and the parenthesis behind it if they come next.
    pub(crate) fn accept_call(&mut self, word: &str) -> bool {
        let before = self.rest;
        let found = self.accept(word) && self.accept("(");
        if !found {
            self.rest = before;
        }
        found
    }

    pub(crate) fn at_quote(&mut self) -> bool {
        self.rest().starts_with(['\'', '"'])
    }

    fn take_while(&mut self, belongs: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !belongs(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    /// A letter with letters, digits and underscores behind it.
    pub(crate) fn word(&mut self) -> Option<&'a str> {
        self.rest().starts_with(|c: char| c.is_ascii_alphabetic()).then_some(())?;
        Some(self.take_while(|c| c.is_ascii_alphanumeric() || c == '_'))
    }

    fn number(&mut self) -> &'a str {
        self.skip_blanks();
        self.take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '+' | '.'))
    }

    pub(crate) fn integer(&mut self) -> Option<i64> {
        self.number().parse().ok()
    }

    /// An integer of any type that a message has.
    pub(crate) fn wide_integer(&mut self) -> Option<i128> {
        self.number().parse().ok()
    }

    pub(crate) fn float(&mut self) -> Option<f32> {
        self.number().parse().ok()
    }

    pub(crate) fn double(&mut self) -> Option<f64> {
        self.number().parse().ok()
    }

    /// A quoted string with C escapes.
    pub(crate) fn string(&mut self) -> Option<Vec<u8>> {
        let text = self.rest();
        let quote = text.chars().next().filter(|quote| matches!(quote, '\'' | '"'))?;
        let mut value = Vec::new();
        let mut rest = &text[1..];
        loop {
            let end = rest.find([quote, '\\'])?;
            value.extend_from_slice(&rest.as_bytes()[..end]);
            let (mark, tail) = rest[end..].split_at(1);
            rest = tail;
            if mark != "\\" {
                self.rest = rest;
                return Some(value);
            }
            let (byte, len) = unescape(rest.as_bytes())?;
            value.push(byte);
            rest = &rest[len..];
        }
    }

    pub(crate) fn bool(&mut self) -> Option<bool> {
        match self.take_word_or_digit() {
            "true" | "True" | "1" => Some(true),
            "false" | "False" | "0" => Some(false),
            _ => None,
        }
    }

    /// A dtype as protobuf writes enums, by name or by number: `DT_FLOAT`, `1`. The number may be no dtype.
    pub(crate) fn enum_value(&mut self) -> Option<i32> {
        let text = self.take_word_or_digit();
        match text.strip_prefix("DT_") {
            Some("INVALID") => Some(0),
            Some(_) => DType::from_name(text).map(DType::to_i32),
            None => text.parse().ok(),
        }
    }

    fn take_word_or_digit(&mut self) -> &'a str {
        self.skip_blanks();
        self.take_while(|c| c.is_ascii_alphanumeric() || c == '_')
    }

    /// `[a, b, c]`
    pub(crate) fn items<T>(&mut self, item: impl Fn(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        self.accept("[").then_some(())?;
        let mut items = Vec::new();
        if self.accept("]") {
            return Some(items);
        }
        loop {
            items.push(item(self)?);
            if self.accept("]") {
                return Some(items);
            }
            self.accept(",").then_some(())?;
        }
    }
}

/// The byte that an escape stands for and the length of the escape, without its backslash.
fn unescape(bytes: &[u8]) -> Option<(u8, usize)> {
    let byte = match bytes.first()? {
        b'n' => b'\n',
        b't' => b'\t',
        b'r' => b'\r',
        b'a' => 7,
        b'b' => 8,
        b'f' => 12,
        b'v' => 11,
        &byte @ (b'\\' | b'\'' | b'"' | b'?') => byte,
        b'x' | b'X' => return digits(&bytes[1..], 16, 2).map(|(byte, len)| (byte, len + 1)),
        _ => return digits(bytes, 8, 3),
    };
    Some((byte, 1))
}

/// The byte that up to `max` digits stand for, and how many there are.
fn digits(bytes: &[u8], radix: u32, max: usize) -> Option<(u8, usize)> {
    let values = bytes.iter().map_while(|&byte| char::from(byte).to_digit(radix)).take(max);
    let (code, len) = values.fold((0, 0), |(code, len), digit| (code * radix + digit, len + 1));
    if len == 0 { None } else { Some((u8::try_from(code).ok()?, len)) }
}

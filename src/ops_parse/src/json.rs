//! `DecodeJSONExample`: the JSON form of `Example` messages.

use tfcore_base::{Error, Result, invalid};
use tfcore_framework::{OpContext, Registry, shape_fns};
use tfcore_tensor::TString;

/// How deep objects and lists may be nested.
const MAX_DEPTH: usize = 100;

pub(crate) fn register(r: &mut Registry) {
    // `DecodeJSONExample(json_examples: string) -> binary_examples: string`.
    r.op("DecodeJSONExample").shape(shape_fns::unchanged).compute(decode_all);
}

fn decode_all(ctx: &mut OpContext<'_>) -> Result<()> {
    let texts = ctx.input_slice::<TString>(0)?;
    ctx.try_produce(0, ctx.input(0)?.shape().clone(), |out| {
        for (index, (out, text)) in out.typed::<TString>().iter_mut().zip(texts).enumerate() {
            let example = Parser::new(text.as_bytes()).whole().and_then(|json| example(&json));
            out.assign(&example.map_err(|problem| not_json(index, &problem))?);
        }
        Ok(())
    })
}

#[cold]
fn not_json(_: usize, problem: &str) -> Error {
    invalid!("Error while parsing JSON: {problem}")
}

enum Json {
    Null,
    Bool,
    Number(String),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

type Parse<T> = std::result::Result<T, String>;

struct Parser<'t> {
    rest: &'t [u8],
    depth: usize,
}

const EOF: &str = "unexpected EOF";

impl<'t> Parser<'t> {
    fn new(rest: &'t [u8]) -> Parser<'t> {
        Parser { rest, depth: 0 }
    }

    fn whole(mut self) -> Parse<Json> {
        let json = self.value()?;
        match self.peek() {
            None => Ok(json),
            Some(_) => Err("expected end of file".to_string()),
        }
    }

    /// The next byte that is no white space.
    fn peek(&mut self) -> Option<u8> {
        self.rest = self.rest.trim_ascii_start();
        self.rest.first().copied()
    }

    fn expect(&mut self, byte: u8) -> Parse<()> {
        match self.peek() {
            Some(found) if found == byte => {
                self.rest = &self.rest[1..];
                Ok(())
            }
            Some(_) => Err(format!("expected '{}'", char::from(byte))),
            None => Err(EOF.to_string()),
        }
    }

    fn value(&mut self) -> Parse<Json> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err("JSON content was too deeply nested".to_string());
        }
        let value = match self.peek().ok_or(EOF)? {
            b'{' => self.object(),
            b'[' => self.list(),
            b'"' | b'\'' => self.text().map(Json::Text),
            b'-' | b'0'..=b'9' => {
                let is_number =
                    |byte: &u8| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
                let len =
                    self.rest.iter().position(|byte| !is_number(byte)).unwrap_or(self.rest.len());
                let (number, rest) = self.rest.split_at(len);
                self.rest = rest;
                let number = String::from_utf8_lossy(number).into_owned();
                match number.parse::<f64>() {
                    Ok(_) => Ok(Json::Number(number)),
                    Err(_) => Err("invalid number".to_string()),
                }
            }
            _ => self.word(),
        };
        self.depth -= 1;
        value
    }

    fn word(&mut self) -> Parse<Json> {
        for (word, json) in [("null", Json::Null), ("true", Json::Bool), ("false", Json::Bool)] {
            if let Some(rest) = self.rest.strip_prefix(word.as_bytes()) {
                self.rest = rest;
                return Ok(json);
            }
        }
        Err("unexpected character".to_string())
    }

    fn list(&mut self) -> Parse<Json> {
        self.expect(b'[')?;
        let mut items = Vec::new();
        if self.peek() == Some(b']') {
            self.expect(b']')?;
            return Ok(Json::List(items));
        }
        loop {
            items.push(self.value()?);
            match self.peek().ok_or(EOF)? {
                b',' => self.expect(b',')?,
                _ => {
                    self.expect(b']')?;
                    return Ok(Json::List(items));
                }
            }
        }
    }

    fn object(&mut self) -> Parse<Json> {
        self.expect(b'{')?;
        let mut items = Vec::new();
        if self.peek() == Some(b'}') {
            self.expect(b'}')?;
            return Ok(Json::Object(items));
        }
        loop {
            let key = self.key()?;
            self.expect(b':')?;
            items.push((key, self.value()?));
            match self.peek().ok_or(EOF)? {
                b',' => self.expect(b',')?,
                _ => {
                    self.expect(b'}')?;
                    return Ok(Json::Object(items));
                }
            }
        }
    }

    /// A key, which may do without quotes.
    fn key(&mut self) -> Parse<String> {
        if matches!(self.peek(), Some(b'"' | b'\'')) {
            return self.text();
        }
        let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$');
        let len = self.rest.iter().position(|byte| !is_name(byte)).unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(len);
        self.rest = rest;
        if rest.contains(&b':') {
            // A name is told from other text by what follows it.
            return Ok(String::from_utf8_lossy(name).into_owned());
        }
        if name.is_empty() { Err("expected '\"'".to_string()) } else { Err(EOF.to_string()) }
    }

    fn text(&mut self) -> Parse<String> {
        let (&quote, rest) = self.rest.split_first().ok_or(EOF)?;
        self.rest = rest;
        let mut bytes = Vec::new();
        loop {
            let (&byte, rest) = self.rest.split_first().ok_or(EOF)?;
            self.rest = rest;
            match byte {
                b'\\' => self.escape(&mut bytes)?,
                byte if byte == quote => break,
                0..0x20 => return Err("invalid control character in string".to_string()),
                byte => bytes.push(byte),
            }
        }
        String::from_utf8(bytes).map_err(|_| "invalid UTF-8 string".to_string())
    }

    fn escape(&mut self, bytes: &mut Vec<u8>) -> Parse<()> {
        let (&byte, rest) = self.rest.split_first().ok_or(EOF)?;
        self.rest = rest;
        bytes.push(match byte {
            b'"' | b'\'' | b'\\' | b'/' => byte,
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                let mut code = self.hex()?;
                if (0xd800..0xdc00).contains(&code) && self.rest.starts_with(b"\\u") {
                    self.rest = &self.rest[2..];
                    let low = self.hex()?;
                    if !(0xdc00..0xe000).contains(&low) {
                        return Err("invalid low surrogate".to_string());
                    }
                    code = 0x1_0000 + ((code & 0x3ff) << 10 | low & 0x3ff);
                }
                let c = char::from_u32(code).ok_or("unpaired surrogate")?;
                bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                return Ok(());
            }
            _ => return Err("invalid escape char".to_string()),
        });
        Ok(())
    }

    fn hex(&mut self) -> Parse<u32> {
        let (digits, rest) = self.rest.split_at_checked(4).ok_or(EOF)?;
        self.rest = rest;
        let digits = std::str::from_utf8(digits).map_err(|_| "invalid Unicode escape")?;
        u32::from_str_radix(digits, 16).map_err(|_| "invalid Unicode escape".to_string())
    }
}

impl Json {
    /// The values of fields of a message, which may be called by their name in the definition or in JSON.
    fn fields(&self) -> Parse<&[(String, Json)]> {
        match self {
            Json::Object(fields) => Ok(fields),
            Json::Null => Ok(&[]),
            _ => Err("expected '{'".to_string()),
        }
    }
}

/// A message that is written field by field.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    /// Appends a field of bytes; its number is below 16.
    fn bytes(&mut self, number: u8, content: &[u8]) {
        self.0.push(number << 3 | 2);
        append_varint(content.len() as u64, &mut self.0);
        self.0.extend_from_slice(content);
    }
}

fn append_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn example(json: &Json) -> Parse<Vec<u8>> {
    let mut out = Message::default();
    for (name, value) in json.fields()? {
        match (&**name, value) {
            (_, Json::Null) => {}
            ("features", value) => out.bytes(1, &features(value)?),
            (other, _) => return Err(unknown(other)),
        }
    }
    Ok(out.0)
}

fn unknown(name: &str) -> String {
    format!("no such field: '{name}'")
}

fn features(json: &Json) -> Parse<Vec<u8>> {
    let mut out = Message::default();
    for (name, value) in json.fields()? {
        if name != "feature" {
            return Err(unknown(name));
        }
        for (key, value) in value.fields()? {
            let mut entry = Message::default();
            entry.bytes(1, key.as_bytes());
            entry.bytes(2, &feature(value)?);
            out.bytes(1, &entry.0);
        }
    }
    Ok(out.0)
}

fn feature(json: &Json) -> Parse<Vec<u8>> {
    let mut out = Message::default();
    for (name, value) in json.fields()? {
        let (number, list): (u8, fn(&[Json]) -> Parse<Vec<u8>>) = match &**name {
            "bytesList" | "bytes_list" => (1, bytes_list),
            "floatList" | "float_list" => (2, float_list),
            "int64List" | "int64_list" => (3, int64_list),
            other => return Err(unknown(other)),
        };
        let mut items = &[][..];
        for (name, value) in value.fields()? {
            match (&**name, value) {
                ("value", Json::List(values)) => items = values,
                ("value", Json::Null) => {}
                ("value", _) => return Err("expected '['".to_string()),
                (other, _) => return Err(unknown(other)),
            }
        }
        out.bytes(number, &list(items)?);
    }
    Ok(out.0)
}

fn bytes_list(items: &[Json]) -> Parse<Vec<u8>> {
    let mut out = Message::default();
    for item in items {
        let Json::Text(text) = item else {
            return Err("expected '\"'".to_string());
        };
        out.bytes(1, &base64(text).ok_or("corrupt base64")?);
    }
    Ok(out.0)
}

/// Of either alphabet, padded or not.
fn base64(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let (mut bits, mut count) = (0u32, 0);
    for byte in text.trim_end_matches('=').bytes() {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(digit);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    (count < 6).then_some(bytes)
}

fn float_list(items: &[Json]) -> Parse<Vec<u8>> {
    let values = items.iter().map(|item| match item {
        Json::Text(text) | Json::Number(text) => match &**text {
            "NaN" => Ok(f32::NAN),
            "Infinity" => Ok(f32::INFINITY),
            "-Infinity" => Ok(f32::NEG_INFINITY),
            text => text.parse::<f32>().map_err(|_| "invalid number".to_string()),
        },
        _ => Err("expected a number".to_string()),
    });
    // The reference does not pack what comes from JSON.
    let mut out = Message::default();
    for value in values {
        out.0.push(1 << 3 | 5);
        out.0.extend_from_slice(&value?.to_le_bytes());
    }
    Ok(out.0)
}

fn int64_list(items: &[Json]) -> Parse<Vec<u8>> {
    let mut out = Message::default();
    for item in items {
        let (Json::Text(text) | Json::Number(text)) = item else {
            return Err("expected a number".to_string());
        };
        let whole = || {
            text.parse::<f64>()
                .ok()
                .filter(|value| value.fract() == 0.0 && value.abs() < 2f64.powi(63))
        };
        let value = text.parse::<i64>().ok().or_else(|| whole().map(|value| value as i64));
        out.0.push(1 << 3);
        append_varint(value.ok_or("invalid number")? as u64, &mut out.0);
    }
    Ok(out.0)
}

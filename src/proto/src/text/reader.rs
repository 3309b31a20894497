//! From text to the bytes of a message, by the tables of `schema.rs`.

use prost::encoding::{
    WireType, bool, bytes, double, encode_key, encode_varint, fixed64, float, int32, int64, uint32,
    uint64,
};
use tfcore_base::Result;

use super::schema::{EnumType, Field, Type, Value};
use super::token::{Kind, Token, Tokens, unescape};

/// How deep messages may nest; prost has the same bound for bytes.
const MAX_DEPTH: usize = 100;

/// The bytes of a message whose text is `text`.
pub(super) fn to_wire(text: &[u8], message: &Type) -> Result<Vec<u8>> {
    let mut tokens = Tokens::new(text);
    let token = tokens.next()?;
    let mut reader = Reader { tokens, token };
    let mut wire = Vec::new();
    reader.fields(message, Kind::End, 0, &mut wire)?;
    Ok(wire)
}

struct Reader<'a> {
    tokens: Tokens<'a>,
    /// The token that comes next.
    token: Token<'a>,
}

impl<'a> Reader<'a> {
    fn take(&mut self) -> Result<Token<'a>> {
        let next = self.tokens.next()?;
        Ok(std::mem::replace(&mut self.token, next))
    }

    fn accept(&mut self, symbol: u8) -> Result<bool> {
        let found = self.token.is(symbol);
        if found {
            self.take()?;
        }
        Ok(found)
    }

    fn expect(&mut self, symbol: u8) -> Result<()> {
        if self.accept(symbol)? {
            return Ok(());
        }
        let (wanted, found) = (char::from(symbol), self.token.shown());
        Err(self.token.error(format!("Expected \"{wanted}\", found \"{found}\".")))
    }

    fn unexpected<T>(&self, wanted: &str) -> Result<T> {
        Err(self.token.error(format!("Expected {wanted}, got: {}", self.token.shown())))
    }

    /// All fields of a message up to the end of the text, or up to a closing bracket.
    fn fields(
        &mut self,
        message: &Type,
        end: Kind,
        depth: usize,
        wire: &mut Vec<u8>,
    ) -> Result<()> {
        let mut seen: Vec<&Field> = Vec::new();
        loop {
            let is_bracket = self.token.is(b'}') || self.token.is(b'>');
            if self.token.kind == end && (end == Kind::End || is_bracket) {
                return Ok(());
            }
            self.field(message, &mut seen, depth, wire)?;
        }
    }

    /// `name: value`, `name { ... }` or `name: [value, value]`, and perhaps a separator.
    fn field<'t>(
        &mut self,
        message: &'t Type,
        seen: &mut Vec<&'t Field>,
        depth: usize,
        wire: &mut Vec<u8>,
    ) -> Result<()> {
        if self.token.kind != Kind::Identifier {
            return self.unexpected("identifier");
        }
        let name = self.take()?.shown();
        let Some(field) = message.fields.iter().find(|field| field.name == name) else {
            let what = format!("Message type \"{}\" has no field named \"{name}\".", message.name);
            return Err(self.token.error(what));
        };
        if !field.repeated {
            self.check_first(field, seen)?;
            seen.push(field);
        }
        match field.value {
            Value::Message(_) => drop(self.accept(b':')?),
            _ => self.expect(b':')?,
        }
        if field.repeated && self.accept(b'[')? {
            if !self.accept(b']')? {
                self.value(field, depth, wire)?;
                while !self.accept(b']')? {
                    self.expect(b',')?;
                    self.value(field, depth, wire)?;
                }
            }
        } else {
            self.value(field, depth, wire)?;
        }
        let _separator = self.accept(b';')? || self.accept(b',')?;
        Ok(())
    }

    /// A field that is not repeated stands once, and one member of a group of alternatives only.
    fn check_first(&self, field: &Field, seen: &[&Field]) -> Result<()> {
        let name = field.name;
        for other in seen {
            if std::ptr::eq(*other, field) {
                let what = format!("Non-repeated field \"{name}\" is specified multiple times.");
                return Err(self.token.error(what));
            }
            if let Some(group) = field.oneof.filter(|_| field.oneof == other.oneof) {
                return Err(self.token.error(format!(
                    "Field \"{name}\" is specified along with field \"{}\", another member of oneof \
                     \"{group}\".",
                    other.name
                )));
            }
        }
        Ok(())
    }

    fn value(&mut self, field: &Field, depth: usize, wire: &mut Vec<u8>) -> Result<()> {
        let number = field.number;
        match field.value {
            Value::Bool => bool::encode(number, &self.bool(field)?, wire),
            Value::Int32 => int32::encode(number, &self.integer()?, wire),
            Value::Int64 => int64::encode(number, &self.integer()?, wire),
            Value::Uint32 => uint32::encode(number, &self.integer()?, wire),
            Value::Uint64 => uint64::encode(number, &self.integer()?, wire),
            Value::Fixed64 => fixed64::encode(number, &self.integer()?, wire),
            Value::Float => float::encode(number, &(self.double()? as f32), wire),
            Value::Double => double::encode(number, &self.double()?, wire),
            Value::Enum(names) => int32::encode(number, &self.enum_value(field, names)?, wire),
            Value::String | Value::Bytes => bytes::encode(number, &self.string()?, wire),
            Value::Message(message) => {
                let inner = self.message(message, depth + 1)?;
                encode_key(number, WireType::LengthDelimited, wire);
                encode_varint(inner.len() as u64, wire);
                wire.extend_from_slice(&inner);
            }
        }
        Ok(())
    }

    /// The bytes of a message in brackets.
    fn message(&mut self, message: &Type, depth: usize) -> Result<Vec<u8>> {
        if depth > MAX_DEPTH {
            let what = format!(
                "Message is too deep, the parser exceeded the configured recursion limit of {MAX_DEPTH}."
            );
            return Err(self.token.error(what));
        }
        let close = if self.accept(b'<')? { b'>' } else { b'}' };
        if close == b'}' {
            self.expect(b'{')?;
        }
        let mut wire = Vec::new();
        self.fields(message, Kind::Symbol, depth, &mut wire)?;
        self.expect(close)?;
        Ok(wire)
    }

    fn string(&mut self) -> Result<Vec<u8>> {
        if self.token.kind != Kind::String {
            return self.unexpected("string");
        }
        let mut bytes = Vec::new();
        // Strings side by side are one.
        while self.token.kind == Kind::String {
            unescape(&self.token, &mut bytes)?;
            self.take()?;
        }
        Ok(bytes)
    }

    /// An integer, if it is one of `T`.
    fn integer<T: TryFrom<i128>>(&mut self) -> Result<T> {
        let negative = self.accept(b'-')?;
        if self.token.kind != Kind::Integer {
            return self.unexpected("integer");
        }
        let magnitude = magnitude(&self.token.shown());
        let value = magnitude.map(|value| if negative { -value } else { value });
        match value.and_then(|value| T::try_from(value).ok()) {
            Some(value) => {
                self.take()?;
                Ok(value)
            }
            None => {
                let what = format!("Integer out of range ({})", self.token.shown());
                Err(self.token.error(what))
            }
        }
    }

    fn double(&mut self) -> Result<f64> {
        let negative = self.accept(b'-')?;
        let text = self.token.shown().to_ascii_lowercase();
        let value = match self.token.kind {
            Kind::Integer if text.len() > 1 && text.starts_with('0') => {
                let what = format!("Expect a decimal number, got: {}", self.token.shown());
                return Err(self.token.error(what));
            }
            Kind::Integer | Kind::Float => text.trim_end_matches('f').parse().ok(),
            Kind::Identifier => match text.as_str() {
                "inf" | "infinity" => Some(f64::INFINITY),
                "nan" => Some(f64::NAN),
                _ => None,
            },
            _ => None,
        };
        let Some(value): Option<f64> = value else {
            return self.unexpected("double");
        };
        self.take()?;
        Ok(if negative { -value } else { value })
    }

    fn bool(&mut self, field: &Field) -> Result<bool> {
        if self.token.kind == Kind::Integer {
            return match magnitude(&self.token.shown()) {
                Some(value @ (0 | 1)) => self.take().map(|_| value == 1),
                _ => {
                    let what = format!("Integer out of range ({})", self.token.shown());
                    Err(self.token.error(what))
                }
            };
        }
        if self.token.kind != Kind::Identifier {
            return self.unexpected("identifier");
        }
        let text = self.take()?.shown();
        match &*text {
            "true" | "True" | "t" => Ok(true),
            "false" | "False" | "f" => Ok(false),
            _ => Err(self.token.error(format!(
                "Invalid value for boolean field \"{}\". Value: \"{text}\".",
                field.name
            ))),
        }
    }

    /// A number or a name; numbers without a name are kept.
    fn enum_value(&mut self, field: &Field, names: &EnumType) -> Result<i32> {
        if self.token.kind == Kind::Identifier {
            let name = self.take()?.shown();
            return (names.number_of)(&name).ok_or_else(|| {
                self.token.error(format!(
                    "Unknown enumeration value of \"{name}\" for field \"{}\".",
                    field.name
                ))
            });
        }
        if self.token.kind != Kind::Integer && !self.token.is(b'-') {
            return self.unexpected("integer or identifier");
        }
        self.integer()
    }
}

/// The value of an integer without a sign.
fn magnitude(text: &str) -> Option<i128> {
    let (digits, radix) = match text.as_bytes() {
        [b'0', b'x' | b'X', ..] => (&text[2..], 16),
        [b'0', _, ..] => (text, 8),
        _ => (text, 10),
    };
    i128::from_str_radix(digits, radix).ok()
}
